"""Structure rules: rules about memory, loops and vectors, evaluated on examples.

The solver has no theory for them. An `Example` is a small graph with its inputs; the rule alone is
applied to it wherever it matches, and both graphs are evaluated. Examples should be all small
instances: every combination of extents 0, 1, 2 and of open and closed gates, say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from porism.base.errors import EvaluationError
from porism.evaluate import evaluate
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import Rewrite, RuleSet


@dataclass(frozen=True, slots=True)
class Example:
    """A graph and its inputs, as `porism.evaluate.evaluate` takes them."""

    graph: UOp
    inputs: Mapping[Any, Any] = field(default_factory=dict)
    variables: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many examples were tried and changed, and the first difference."""

    tried: int
    fired: int
    difference: str = ""


def compare_on_examples(item: Rewrite, examples: Iterable[Example]) -> Comparison:
    """Apply a rule or procedure to each example, and compare the values before and after."""
    alone = RuleSet(item.name, rules=(item,))
    tried = fired = 0
    for example in examples:
        tried += 1
        after = rewrite(example.graph, alone, exactly=True)
        if after is example.graph:
            continue
        fired += 1
        old, new = _outcome(example, example.graph), _outcome(example, after)
        if not isinstance(old, EvaluationError) and not same_results(old, new):
            graph = show(example.graph, limit=200)
            said = f"undefined: {new.what}" if isinstance(new, EvaluationError) else new
            return Comparison(tried, fired, f"{graph}: before is {old}, after is {said}")
    return Comparison(tried, fired)


def _outcome(example: Example, graph: UOp) -> list[Any] | EvaluationError:
    try:
        return evaluate(graph, example.inputs, example.variables)
    except EvaluationError as error:
        return error


def same_results(a: Any, b: Any) -> bool:
    """Whether two results are equal bit by bit, with all NaNs alike; lists element by element."""
    if isinstance(a, list) or isinstance(b, list):
        if not (isinstance(a, list) and isinstance(b, list) and len(a) == len(b)):
            return False
        return all(same_results(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, EvaluationError) or isinstance(b, EvaluationError):
        return False
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "Oibu":
        return bool(np.array_equal(a, b))
    a, b = a.astype(np.float64), b.astype(np.float64)
    equal = (a == b) & (np.signbit(a) == np.signbit(b))
    return bool(np.all(equal | (np.isnan(a) & np.isnan(b))))
