"""Assignments: memory is overwritten after all that read it."""

from __future__ import annotations

import numpy as np
import pytest

from porism.base.dtypes import f32, index
from porism.base.errors import PorismError
from porism.engine.run.reference_runner import run
from porism.ir import ops
from porism.ir.node import UOp
from porism.pipeline import schedule_graph


def num(value: int) -> UOp:
    return UOp.const(index, value)


X = ops.PARAM(num(4), dtype=f32, arg=0)
BACKWARDS = ops.FLIP(X, arg=(0,))


def test_a_value_is_computed_from_the_old_contents() -> None:
    sink = ops.SINK(ops.ASSIGN(X, BACKWARDS), ops.ADD(X, X))
    schedule = schedule_graph(sink)
    data = np.arange(4, dtype=np.float32)
    new, double = run(schedule, [data], {})
    np.testing.assert_array_equal(new, [3, 2, 1, 0])
    np.testing.assert_array_equal(double, [0, 2, 4, 6])
    np.testing.assert_array_equal(data, [3, 2, 1, 0])


def test_the_copy_waits_for_every_reader() -> None:
    total = ops.REDUCE_AXIS(X, arg=(ops.ADD, (0,)))
    schedule = schedule_graph(ops.SINK(ops.ASSIGN(X, BACKWARDS), total))
    copy = schedule.steps[-1]
    readers = [k for k, s in enumerate(schedule.steps[:-1]) if copy.buffers[0] in s.read]
    assert len(readers) == 2
    assert set(readers) <= set(copy.after)


def test_a_part_is_assigned() -> None:
    part = ops.SHRINK(X, num(1), num(3))
    schedule = schedule_graph(ops.SINK(ops.ASSIGN(part, ops.FLIP(part, arg=(0,)))))
    data = np.arange(4, dtype=np.float32)
    run(schedule, [data], {})
    np.testing.assert_array_equal(data, [0, 2, 1, 3])


def test_what_is_no_memory_cannot_be_assigned() -> None:
    with pytest.raises(PorismError, match="only memory can be overwritten"):
        schedule_graph(ops.SINK(ops.ASSIGN(ops.ADD(X, X), X)))


def test_one_memory_is_assigned_once() -> None:
    with pytest.raises(PorismError, match="assigned to twice"):
        schedule_graph(ops.SINK(ops.ASSIGN(X, BACKWARDS), ops.ASSIGN(X, ops.ADD(X, X))))
