"""Variations of examples: the same in every run, at the limits of types, and worth their time."""

from __future__ import annotations

from collections import Counter

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import f32, i32
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.prove.example_variations import edges, vary
from porism.prove.procedure_trials import Case, cases_of, fault_in, try_procedure
from porism.rewrite.rule import procedure
from tests.examples.example_graphs import buffer, made, number
from tests.examples.reduction_examples import loop

R = loop(3)
ELEMENT = made(ops.INDEX, buffer(0, 3, i32), R)
LARGEST = made(ops.REDUCE, made(ops.MUL, ELEMENT, number(3, i32)), R, arg=ops.MAX)
INPUTS = {0: np.asarray([1, 2, 3], np.int32)}


def test_they_are_the_same_in_every_run() -> None:
    first, second = (list(vary([(LARGEST, INPUTS)], 50)) for _ in range(2))
    assert [graph for graph, _ in first] == [graph for graph, _ in second]
    assert all(repr(a) == repr(b) for (_, a), (_, b) in zip(first, second, strict=True))


def test_types_sizes_ops_and_constants_change() -> None:
    nodes = [n for graph, _ in vary([(LARGEST, INPUTS)]) for n in toposort(graph)]
    types = {n.dtype for n in nodes if n.op is ops.MUL}
    assert {dtypes.i8, dtypes.u8, dtypes.i64, dtypes.u64} <= types
    assert {n.src[0].arg for n in nodes if n.op is ops.RANGE} >= {0, 1, 2, 3}
    assert {n.arg for n in nodes if n.op is ops.REDUCE} >= {ops.ADD, ops.MAX, ops.MIN}
    factors = {n.src[1].arg for n in nodes if n.op is ops.MUL and n.src[1].op is ops.CONST}
    assert {0, 1, 255, -128, i32.max} <= factors


def test_inputs_are_at_the_limits_of_their_types() -> None:
    actual: Counter[object] = Counter()
    for graph, inputs in vary([(LARGEST, INPUTS)]):
        lanes = {n.dtype.element for n in toposort(graph) if n.op is ops.PARAM}
        if lanes == {dtypes.u8}:
            actual.update(inputs[0].tolist())
    assert {0, 1, 127, 128, 254, 255} <= set(actual)
    assert {-128, 127, 0, 1, -1} <= set(edges(dtypes.i8))
    assert any(np.isnan(value) for value in edges(f32))


@procedure("without-a-bound", (ops.REDUCE,))
def without_a_bound(node: UOp) -> UOp | None:
    """Take a positive factor out of a maximum, and forget that words wrap."""
    value, *ranges = node.src
    if node.arg is not ops.MAX or value.op is not ops.MUL or not all(r.src for r in ranges):
        return None
    factor = value.src[1]
    if factor.op is not ops.CONST or factor.arg <= 0 or value.dtype.is_float:
        return None
    if any(r.src[0].vmin < 1 for r in ranges):
        return None
    return value.src[0].reduce(ops.MAX, *ranges) * factor


def test_a_forgotten_bound_is_found_though_no_example_shows_it() -> None:
    alone = try_procedure(without_a_bound, [Case(LARGEST, INPUTS)])
    assert (alone.fired, alone.fault) == (1, "")
    assert try_procedure(without_a_bound, cases_of(without_a_bound, [(LARGEST, INPUTS)])).fault


def test_what_has_no_meaning_is_passed_over() -> None:
    outside = made(ops.INDEX, buffer(0, 3, i32), number(7))
    assert fault_in(Case(outside, INPUTS, is_variation=True), number(1, i32)) == ""
    inside = made(ops.INDEX, buffer(0, 3, i32), number(1))
    assert "before [2], after [1]" in fault_in(
        Case(inside, INPUTS, is_variation=True), number(1, i32)
    )
