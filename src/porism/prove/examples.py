"""A procedure on its examples: what the evaluator says of each graph before and after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from porism.base.dtypes import Kind, Theory
from porism.base.errors import EvaluationError
from porism.evaluate import evaluate, inspect
from porism.evaluate.value import Value, spread, union
from porism.ir.expression import show
from porism.ir.node import UOp
from porism.prove.structure import same
from porism.rewrite.graph import rewrite
from porism.rewrite.rule import Rewrite, RuleSet
from porism.rules.examples import Example


@dataclass(frozen=True)
class Tried:
    """On how many examples a procedure was tried and fired, and the first difference it made."""

    tried: int
    fired: int
    fault: str = ""


def alone(*items: Rewrite) -> RuleSet:
    return RuleSet("alone", theory=tuple(Theory), rules=items)


def established(item: Rewrite, examples: Iterable[Example]) -> Tried:
    rules = alone(item)
    tried = fired = 0
    done: dict[UOp, UOp] = {}
    for graph, inputs in examples:
        tried += 1
        after = done.get(graph)
        if after is None:
            after = done[graph] = rewrite(graph, rules, exactly=True)
        if after is graph:
            continue
        fired += 1
        fault = difference(graph, after, dict(inputs))
        if fault:
            return Tried(tried, fired, f"{show(graph)} -> {show(after)} on {inputs}: {fault}")
    return Tried(tried, fired)


def difference(before: UOp, after: UOp, inputs: dict[Any, Any]) -> str:
    """What is different, or nothing; where the graph had no value, anything may be there."""
    if before.dtype.kind is Kind.VOID:
        try:
            old = evaluate(before, inputs)
        except EvaluationError:
            return ""
        # a buffer that is no longer written is as it was given
        new = evaluate(after, inputs) or [inputs[6]]
        return "" if same(old, new) else f"before {old}, after {new}"
    return _compared(inspect(before, inputs), inspect(after, inputs))


def _compared(old: Value, new: Value) -> str:
    axes = union((old.axes, new.axes))
    sizes = dict(zip(old.axes, old.data.shape, strict=False))
    sizes |= dict(zip(new.axes, new.data.shape, strict=False))
    old, new = spread(old, axes, sizes), spread(new, axes, sizes)
    if old.data.shape != new.data.shape:
        return f"shapes {old.data.shape} and {new.data.shape}"
    counts = ~old.undefined
    if (old.valid != new.valid)[counts].any():
        return f"valid {old.valid.tolist()} and {new.valid.tolist()}"
    if new.undefined[counts].any():
        return "it is undefined where it was not"
    counts = counts & old.valid
    a, b = np.asarray(old.data)[counts], np.asarray(new.data)[counts]
    return "" if same(a, b) else f"before {a.tolist()}, after {b.tolist()}"
