"""A procedure on its examples: what the evaluator says of each graph before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from porism.base.dtypes import Kind, Theory, index
from porism.base.errors import EvaluationError, PorismError
from porism.evaluate import evaluate, inspect
from porism.evaluate.varying_value import Value, broadcast_axes, union_axes
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.prove.example_variations import Example, varied
from porism.prove.structure_rules import same
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import Rewrite, RuleSet
from porism.rules.addresses.validity import VALIDITY


@dataclass(frozen=True)
class Tried:
    """On how many examples a procedure was tried and fired, and the first difference it made."""

    tried: int
    fired: int
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """A graph with its inputs, to be compared before and after a procedure."""

    graph: UOp
    inputs: Mapping[Any, Any]
    varied: bool = False
    """Whether it was made at random, so that it may have no meaning."""


def alone(*items: Rewrite) -> RuleSet:
    return RuleSet("alone", theory=tuple(Theory), rules=items)


_FIRST: Final = frozenset(item.name for item in VALIDITY)


def cases_of(item: Rewrite, examples: Iterable[Example]) -> Iterator[Case]:
    """The examples of a procedure, and variations of them.

    Whatever comes after the rules about INVALID takes it for granted that these were applied.
    """
    stated = list(examples)
    for graph, inputs in stated:
        yield Case(graph, inputs)
    for graph, inputs in varied(stated, exact=bool(item.fast_math)):
        if item.name not in _FIRST:
            try:
                graph = rewrite(graph, VALIDITY, exactly=True)
            except PorismError:
                continue
        yield Case(graph, inputs, varied=True)


def applied(rules: RuleSet, case: Case) -> UOp:
    """The graph of a case after a procedure; as it was, if the procedure refuses it by an error."""
    try:
        return rewrite(case.graph, rules, exactly=True)
    except PorismError:
        if case.varied:
            return case.graph
        raise


def established(item: Rewrite, cases: Iterable[Case]) -> Tried:
    """Try a procedure, until the evaluator sees a difference."""
    rules = alone(item)
    tried = fired = 0
    done: dict[UOp, UOp] = {}
    for case in cases:
        tried += 1
        after = done.get(case.graph)
        if after is None:
            after = done[case.graph] = applied(rules, case)
        if after is case.graph:
            continue
        fired += 1
        fault = wrong(case, after, as_reals=bool(item.fast_math))
        if fault:
            return Tried(tried, fired, fault)
    return Tried(tried, fired)


def wrong(case: Case, after: UOp, *, as_reals: bool = False) -> str:
    """What a procedure has changed in a case that has a meaning, or nothing."""
    graph, inputs = case.graph, dict(case.inputs)
    if not case.varied:
        fault = difference(graph, after, inputs, as_reals=as_reals)
    else:
        try:
            inspect_or_run(graph, inputs)
        except Exception:  # a program without a value
            return ""
        try:
            fault = difference(graph, after, inputs, as_reals=as_reals)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        if fault and not has_meaning(graph, inputs):
            return ""
    return f"{show(graph)} -> {show(after)} on {inputs}: {fault}" if fault else ""


def inspect_or_run(graph: UOp, inputs: Mapping[Any, Any]) -> list[Any] | Value:
    """What a graph computes, or what it leaves in memory."""
    if graph.dtype.kind is Kind.VOID:
        return evaluate(graph, inputs)
    return inspect(graph, inputs)


def has_meaning(graph: UOp, inputs: Mapping[Any, Any]) -> bool:
    """Whether a graph is a program as passes make them.

    Each of its accesses is inside of its buffer in all iterations, or has a gate of its own; only
    an index is INVALID, and none that is compared.
    """
    if graph.dtype.kind is not Kind.VOID and not graph.dtype.is_integer:
        value = inspect(graph, inputs)
        if not value.valid.all():
            return False
    for node in toposort(graph):
        accesses = node.op in (ops.INDEX, ops.LOAD) and node.dtype.kind is not Kind.POINTER
        if accesses or node.op.group is ops.COMPARISON:
            try:
                value = inspect(node, inputs)
            except Exception:
                return False
            if value.undefined.any() if accesses else not value.valid.all():
                return False
    return True


def difference(before: UOp, after: UOp, inputs: dict[Any, Any], *, as_reals: bool = False) -> str:
    """What is different, or nothing; where the graph had no value, anything may be there."""
    if before.dtype.kind is Kind.VOID:
        try:
            old = evaluate(before, inputs)
        except EvaluationError:
            return ""
        # a buffer that is no longer written is as it was given
        new = evaluate(after, inputs) or [inputs[6]]
        return "" if same(old, new) else f"before {old}, after {new}"
    return _compared(inspect(before, inputs), inspect(after, inputs), as_reals=as_reals)


def _compared(old: Value, new: Value, *, as_reals: bool) -> str:
    old, new = _named(old), _named(new)
    axes = union_axes((old.axes, new.axes))
    sizes = dict(zip(old.axes, old.data.shape, strict=False))
    sizes |= dict(zip(new.axes, new.data.shape, strict=False))
    old, new = broadcast_axes(old, axes, sizes), broadcast_axes(new, axes, sizes)
    if old.data.shape != new.data.shape:
        return f"shapes {old.data.shape} and {new.data.shape}"
    counts = ~old.undefined
    if (old.valid != new.valid)[counts].any():
        return f"valid {old.valid.tolist()} and {new.valid.tolist()}"
    if new.undefined[counts].any():
        return "it is undefined where it was not"
    counts = counts & old.valid
    a, b = np.asarray(old.data)[counts], np.asarray(new.data)[counts]
    if object in (a.dtype, b.dtype):  # Python's integers, where one of them is large
        a, b = a.astype(object), b.astype(object)
    if as_reals and a.dtype.kind == "f":
        equal = bool((a == b)[np.isfinite(a)].all())
    else:
        equal = same(a, b)
    return "" if equal else f"before {a.tolist()}, after {b.tolist()}"


def _named(value: Value) -> Value:
    """A value whose axes are told apart by their numbers, whatever type a range counts in."""
    named = [
        axis if isinstance(axis, int) else UOp(axis.op, index, (_SIZE,), axis.arg)
        for axis in value.axes
    ]
    return Value(value.data, tuple(named), value.rank, value.state)


_SIZE: Final = UOp.const(index, 1)
