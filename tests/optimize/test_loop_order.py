"""Loop order: output loops in the order in which a reduction reads memory."""

from __future__ import annotations

import dataclasses

import numpy as np

import porism
from porism.base.dtypes import f32, i32
from porism.base.target import GENERIC_CPU
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.optimize.actions.loops.loop_interchange import Move
from porism.optimize.actions.loops.merge_loops import Merge
from porism.optimize.strategy import heuristic
from porism.rewrite import construction
from porism.rules.rule_sets import ALGEBRA

SMALL = dataclasses.replace(
    GENERIC_CPU,
    memory=dataclasses.replace(GENERIC_CPU.memory, l2=1 << 14, l3=1 << 16),
    cores=2,
)


def parts(count: int, rows: int, length: int) -> UOp:
    """Return a kernel of partial sums of rows, stored contiguously for each part."""
    part, row = UOp.range(count, 0), UOp.range(rows, 1)
    k = UOp.range(length, 2, Axis.REDUCE)
    x = UOp(ops.PARAM, f32.pointer(size=count * rows * length), (), 1)
    total = x.index((row * count + part) * length + k).reduce(ops.ADD, k)
    place = UOp(ops.PARAM, f32.pointer(size=count * rows), (), 0).index(part * rows + row)
    return ops.SINK(place.store(total).end(part, row))


def test_partial_sums_are_interchanged_to_read_memory_in_order() -> None:
    chosen = heuristic.choose_actions(parts(25, 6, 1000), SMALL)
    assert Move("r1", "r0") in chosen
    assert Merge("r1", "r0") in chosen


def test_small_inputs_and_short_reductions_are_not_interchanged() -> None:
    for kernel in (parts(5, 2, 100), parts(500, 6, 32)):
        assert not any(isinstance(a, Merge) for a in heuristic.choose_actions(kernel, SMALL))


def test_long_rows_have_the_same_sums() -> None:
    x = np.random.default_rng(0).integers(0, 9, (6, 1_000_000)).astype(np.int32)
    for kernel in porism.kernels(porism.sum(porism.asarray(x), axis=1)):
        porism.opt(kernel, kernel.actions).verify()
    np.testing.assert_array_equal(porism.sum(porism.asarray(x), axis=1).numpy(), x.sum(axis=1))


def test_an_index_that_becomes_the_merged_loop_is_added_to_it() -> None:
    outer, rows, inner = UOp.range(2, 0), UOp.range(3, 1), UOp.range(5, 2)
    whole = ((outer * 3 + rows) * 5 + inner) % 15
    output = UOp(ops.PARAM, i32.pointer(size=30), (), 0)
    stored = output.index(outer * 15 + whole * 2 - (rows * 5 + inner)).store(whole.cast(i32))
    assert construction.installed_rules() is ALGEBRA  # the remainder becomes the merged loop
    kernel = Merge("r1", "r2").apply(ops.SINK(stored.end(outer, rows, inner)), GENERIC_CPU)
    (actual,) = evaluate(kernel, {0: np.zeros(30, np.int32)})
    assert actual.tolist() == [*range(15), *range(15)]
