"""Structure: rules about memory, loops and vectors, judged by the evaluator on examples.

Such a rule has no solver: its meaning is what the evaluator makes of the two sides. An `Example`
is a small graph with its inputs; the rule is applied to it, alone and wherever it matches, and
both graphs are evaluated. Give all small instances: every combination of sizes 0, 1, 2 and of
open and closed gates, say.
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
class Evaluated:
    """What the evaluator says."""

    tried: int
    fired: int
    difference: str = ""


def evaluated(item: Rewrite, examples: Iterable[Example]) -> Evaluated:
    """Apply a rule or procedure to each example; compare what the evaluator gives for both."""
    alone = RuleSet(item.name, rules=(item,))
    tried = fired = 0
    for example in examples:
        tried += 1
        after = rewrite(example.graph, alone, exactly=True)
        if after is example.graph:
            continue
        fired += 1
        old, new = _outcome(example, example.graph), _outcome(example, after)
        if not isinstance(old, EvaluationError) and not same(old, new):
            graph = show(example.graph, limit=200)
            said = f"undefined: {new.what}" if isinstance(new, EvaluationError) else new
            return Evaluated(tried, fired, f"{graph}: before is {old}, after is {said}")
    return Evaluated(tried, fired)


def _outcome(example: Example, graph: UOp) -> list[Any] | EvaluationError:
    try:
        return evaluate(graph, example.inputs, example.variables)
    except EvaluationError as error:
        return error


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal, bit by bit but for NaNs; of lists, part by part."""
    if isinstance(a, list) or isinstance(b, list):
        if not (isinstance(a, list) and isinstance(b, list) and len(a) == len(b)):
            return False
        return all(same(x, y) for x, y in zip(a, b, strict=True))
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
