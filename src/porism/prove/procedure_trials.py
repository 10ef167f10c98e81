"""Procedure trials: a procedure applied to examples, which are evaluated before and after."""

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
from porism.prove.example_variations import Example, vary
from porism.prove.structure_rules import same_results
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import Rewrite, RuleSet
from porism.rules.addresses.validity import VALIDITY


@dataclass(frozen=True)
class Trial:
    """The number of cases tried and changed by a procedure, and the first difference."""

    tried: int
    fired: int
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """A graph with its inputs, to be compared before and after a procedure."""

    graph: UOp
    inputs: Mapping[Any, Any]
    is_variation: bool = False
    """Whether it was generated at random, so that it may have no value."""


def alone(*items: Rewrite) -> RuleSet:
    return RuleSet("alone", theory=tuple(Theory), rules=items)


_FIRST: Final = frozenset(item.name for item in VALIDITY)


def cases_of(item: Rewrite, examples: Iterable[Example]) -> Iterator[Case]:
    """Yield the examples of a procedure, and random variations of them.

    Other procedures rely on the rules about INVALID having been applied before them.
    """
    written = list(examples)
    for graph, inputs in written:
        yield Case(graph, inputs)
    for graph, inputs in vary(written, exact=bool(item.fast_math)):
        if item.name not in _FIRST:
            try:
                graph = rewrite(graph, VALIDITY, exactly=True)
            except PorismError:
                continue
        yield Case(graph, inputs, is_variation=True)


def applied(rules: RuleSet, case: Case) -> UOp:
    """Return the graph of a case after a procedure; unchanged if a variation raises an error."""
    try:
        return rewrite(case.graph, rules, exactly=True)
    except PorismError:
        if case.is_variation:
            return case.graph
        raise


def try_procedure(item: Rewrite, cases: Iterable[Case]) -> Trial:
    """Try a procedure on cases until the evaluator finds a difference."""
    rules = alone(item)
    tried = fired = 0
    results: dict[UOp, UOp] = {}
    for case in cases:
        tried += 1
        after = results.get(case.graph)
        if after is None:
            after = results[case.graph] = applied(rules, case)
        if after is case.graph:
            continue
        fired += 1
        fault = fault_in(case, after, as_reals=bool(item.fast_math))
        if fault:
            return Trial(tried, fired, fault)
    return Trial(tried, fired)


def fault_in(case: Case, after: UOp, *, as_reals: bool = False) -> str:
    """Return how a procedure changed the value of a case; empty if it did not."""
    graph, inputs = case.graph, dict(case.inputs)
    if not case.is_variation:
        fault = difference(graph, after, inputs, as_reals=as_reals)
    else:
        try:
            result_of(graph, inputs)
        except Exception:  # a program without a value
            return ""
        try:
            fault = difference(graph, after, inputs, as_reals=as_reals)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        if fault and not has_meaning(graph, inputs):
            return ""
    return f"{show(graph)} -> {show(after)} on {inputs}: {fault}" if fault else ""


def result_of(graph: UOp, inputs: Mapping[Any, Any]) -> list[Any] | Value:
    """Return the value of a graph, or the buffers after its effects."""
    if graph.dtype.kind is Kind.VOID:
        return evaluate(graph, inputs)
    return inspect(graph, inputs)


def has_meaning(graph: UOp, inputs: Mapping[Any, Any]) -> bool:
    """Whether a graph is a program that passes can produce.

    Each of its accesses is in bounds in all iterations, or gated; only an index is INVALID, and
    no operand of a comparison, or of a cast to bool, which compares with 0.
    """
    if graph.dtype.kind is not Kind.VOID and not graph.dtype.is_integer:
        value = inspect(graph, inputs)
        if not value.valid.all():
            return False
    for node in toposort(graph):
        accesses = node.op in (ops.INDEX, ops.LOAD) and node.dtype.kind is not Kind.POINTER
        compares = node.op.group is ops.COMPARISON or (
            node.op is ops.CAST and node.dtype.kind is Kind.BOOL
        )
        if accesses or compares:
            try:
                value = inspect(node, inputs)
            except Exception:
                return False
            if value.undefined.any() if accesses else not value.valid.all():
                return False
    return True


def difference(before: UOp, after: UOp, inputs: dict[Any, Any], *, as_reals: bool = False) -> str:
    """Return how two graphs differ in value; empty if they agree where the first has a value."""
    if before.dtype.kind is Kind.VOID:
        try:
            old = evaluate(before, inputs)
        except EvaluationError:
            return ""
        # a buffer that is no longer written keeps its input
        new = evaluate(after, inputs) or [inputs[6]]
        return "" if same_results(old, new) else f"before {old}, after {new}"
    return _compare(inspect(before, inputs), inspect(after, inputs), as_reals=as_reals)


def _compare(old: Value, new: Value, *, as_reals: bool) -> str:
    old, new = _with_numbered_axes(old), _with_numbered_axes(new)
    axes = union_axes((old.axes, new.axes))
    sizes = dict(zip(old.axes, old.data.shape, strict=False))
    sizes |= dict(zip(new.axes, new.data.shape, strict=False))
    old, new = broadcast_axes(old, axes, sizes), broadcast_axes(new, axes, sizes)
    if old.data.shape != new.data.shape:
        return f"shapes {old.data.shape} and {new.data.shape}"
    compared = ~old.undefined
    if (old.valid != new.valid)[compared].any():
        return f"valid {old.valid.tolist()} and {new.valid.tolist()}"
    if new.undefined[compared].any():
        return "it is undefined where it was not"
    compared = compared & old.valid
    a, b = np.asarray(old.data)[compared], np.asarray(new.data)[compared]
    if object in (a.dtype, b.dtype):  # Python's integers, where one of them is large
        a, b = a.astype(object), b.astype(object)
    if as_reals and a.dtype.kind == "f":
        equal = bool((a == b)[np.isfinite(a)].all())
    else:
        equal = same_results(a, b)
    return "" if equal else f"before {a.tolist()}, after {b.tolist()}"


def _with_numbered_axes(value: Value) -> Value:
    """Return a value whose axes are ranges of type index, so that equal numbers are equal axes."""
    named = [
        axis if isinstance(axis, int) else UOp(axis.op, index, (_SIZE,), axis.arg)
        for axis in value.axes
    ]
    return Value(value.data, tuple(named), value.rank, value.state)


_SIZE: Final = UOp.const(index, 1)
