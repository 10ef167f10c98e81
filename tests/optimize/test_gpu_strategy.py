"""Schedules for GPUs: right results on the evaluator's threads, and the shapes that they choose."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from porism.base.dtypes import f16, f32, i32
from porism.base.gpu_targets import A100, H200
from porism.base.settings import settings
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.optimize.actions.action import Action
from porism.optimize.actions.gpu.shared_tile import Stage
from porism.optimize.actions.gpu.tensor_core_action import TC
from porism.optimize.actions.gpu.thread_block_actions import Group, Local
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.strategy import heuristic
from porism.optimize.strategy.gpu.tile_shapes import TileShape, estimated_seconds, tile_shapes
from porism.pipeline import lower_kernel
from porism.rules.addresses.launch_dims import launch_of
from tests.block_kernels import (
    CASES,
    SMALL,
    TINY,
    Case,
    centred,
    check,
    lines_of,
    matrix_product,
    pointer,
    product_case,
    row_sums,
    run_graph,
    started,
    total_of,
    two_outputs,
)
from tests.tiers import quick_if

WIDE = dataclasses.replace(SMALL, load_bytes=(1, 2, 4, 8, 16), name="wide_small_gpu")
"""A small GPU that moves 16 bytes at a time."""


def transposed(m: int, n: int) -> UOp:
    i, j = UOp.range(m, 0), UOp.range(n, 1)
    value = pointer(1, m * n).index(j * m + i) + 1
    return ops.SINK(pointer(0, m * n).index(i * n + j).store(value).end(i, j))


def column_sums(m: int, n: int) -> UOp:
    j, r = UOp.range(n, 0), UOp.range(m, 1, Axis.REDUCE)
    total = pointer(1, m * n).index(r * n + j).reduce(ops.ADD, r)
    return ops.SINK(pointer(0, n).index(j).store(total).end(j))


def chain(n: int) -> UOp:
    i = UOp.range(n, 0)
    value = pointer(1, n).index(i) * 3 + pointer(2, n).index(i)
    return ops.SINK(pointer(0, n).index(i).store(value).end(i))


SCHEDULED = {
    **CASES,
    "chain": Case(chain(96), (96,), (96, 96)),
    "ragged chain": Case(chain(37), (37,), (37, 37)),
    "long rows": Case(row_sums(2, 256), (2,), (512,)),
    "ragged rows": Case(row_sums(3, 45), (3,), (135,)),
    "one number": Case(total_of(128), (1,), (128,)),
    "columns": Case(column_sums(24, 8), (8,), (192,)),
    "norm": Case(centred(3, 64), (192,), (192,)),
    "transposed": Case(transposed(16, 24), (384,), (384,)),
    "tiled product": Case(matrix_product(16, 16, 16), (256,), (256, 256)),
    "ragged product": Case(matrix_product(9, 17, 11), (153,), (99, 187)),
    "outputs": Case(two_outputs(16, 6), (16, 6), (96,)),
}


def chosen(case: Case, target: Target) -> tuple[Action, ...]:
    with settings.override(check=True):
        return heuristic.choose_actions(started(case), target)


QUICK = {*CASES, "chain", "columns", "outputs"}


@pytest.mark.parametrize(
    "target", quick_if(lambda t: t is WIDE, [TINY, SMALL, WIDE]), ids=lambda t: t.name
)
@pytest.mark.parametrize("name", quick_if(QUICK.__contains__, SCHEDULED))
def test_what_is_scheduled_is_right(name: str, target: Target) -> None:
    case = SCHEDULED[name]
    with settings.override(check=True):
        kernel = heuristic.schedule_loops(started(case), target)
    check(case, kernel, target, run_graph(case, case.kernel), name)


def test_a_chain_moves_sixteen_bytes_at_a_time() -> None:
    actions = chosen(Case(chain(1 << 20), (1 << 20,), (1 << 20,) * 2), H200)
    assert actions == (Upcast("r0", 4), Local("r0_0", 256))


def test_the_threads_of_a_block_share_a_row() -> None:
    actions = chosen(Case(row_sums(4096, 4096), (4096,), (1 << 24,)), H200)
    assert actions == (Unroll("r1", 4), Group("r1_0", 256), Unroll("r1_0_0", 4))


def test_a_block_has_several_short_rows() -> None:
    actions = chosen(Case(row_sums(1 << 16, 256), (1 << 16,), (1 << 24,)), H200)
    assert Local("r0", 8) in actions
    assert launch_of(lines_of(_applied(actions, row_sums(1 << 16, 256)), H200)).sizes()[1] == (
        32, 8, 1,
    )  # fmt: skip


def _applied(actions: tuple[Action, ...], kernel: UOp) -> UOp:
    for action in actions:
        kernel = action.apply(kernel, H200)
    return kernel


def test_neighbouring_threads_sum_neighbouring_columns() -> None:
    actions = chosen(Case(column_sums(4096, 8192), (8192,), (1 << 25,)), H200)
    assert any(isinstance(a, Local) and a.amount == 32 for a in actions)
    assert any(isinstance(a, Group) for a in actions)


def test_a_transposed_copy_goes_through_a_tile() -> None:
    actions = chosen(Case(transposed(2048, 2048), (1 << 22,), (1 << 22,)), H200)
    assert isinstance(actions[-1], Stage)
    assert actions[-1].padding == 1


@pytest.mark.parametrize("target", [A100, H200], ids=lambda t: t.name)
def test_products_of_halves_use_tensor_cores_and_staged_strips(target: Target) -> None:
    actions = chosen(product_case(2048, 2048, 2048, f16, f32), target)
    assert sum(isinstance(a, TC) for a in actions) == 1
    assert sum(isinstance(a, Stage) for a in actions) == 2


def test_products_of_floats_are_tiled() -> None:
    actions = chosen(product_case(2048, 2048, 2048, f32, f32), H200)
    assert sum(isinstance(a, Stage) for a in actions) == 2


def test_a_thread_has_an_accumulator_for_each_of_its_elements() -> None:
    """Lanes along k would be accumulators as well, and exceed the registers of a thread."""
    kernel = product_case(2048, 2048, 2048, f32, f32).kernel
    actions = chosen(product_case(2048, 2048, 2048, f32, f32), H200)
    copies = [a.amount for a in actions if isinstance(a, Upcast)]
    lines = lower_kernel(kernel, H200, actions=actions)
    registers = [n for n in lines if n.op is ops.DEFINE_REG]
    assert sum(n.dtype.element.count for n in registers) == np.prod(copies)


@pytest.mark.slow
def test_a_product_of_tensor_cores_is_right() -> None:
    case = product_case(32, 16, 32, f16, f32)
    with settings.override(check=True):
        kernel = heuristic.schedule_loops(started(case), H200)
    lines = lines_of(kernel, H200)
    assert any(n.op is ops.WMMA for n in lines)
    assert any(n.op is ops.DEFINE_LOCAL for n in lines)
    check(case, kernel, H200, run_graph(case, case.kernel), "tensor cores")


# -- shapes ----------------------------------------------------------------------------------------


def _shape(rows: int, columns: int) -> TileShape:
    return TileShape(part_rows=8, part_columns=8, rows=rows, columns=columns, depth=16)


def test_large_tiles_are_for_large_products() -> None:
    large, small = _shape(16, 16), _shape(4, 8)

    def is_larger_faster(size: int) -> bool:
        sizes = (1, size, size, size)
        return estimated_seconds(large, H200, sizes, 4) < estimated_seconds(small, H200, sizes, 4)

    assert is_larger_faster(8192)
    assert not is_larger_faster(256)  # 4 tiles would leave most multiprocessors idle


def test_a_shape_that_no_multiprocessor_holds_takes_for_ever() -> None:
    shape = TileShape(part_rows=64, part_columns=64, rows=16, columns=16, depth=16)
    assert np.isinf(estimated_seconds(shape, H200, (1, 1024, 1024, 1024), 4))


def test_shapes_of_a_core_are_multiples_of_its_instruction() -> None:
    core = H200.tensor_cores[1]
    for shape in tile_shapes(H200, core):
        assert shape.part_rows % core.m == shape.part_columns % core.n == 0
        assert shape.depth % core.k == 0


def test_integers_have_no_tensor_core_in_this_type() -> None:
    actions = chosen(product_case(64, 64, 64, i32, i32), H200)
    assert not any(isinstance(a, TC) for a in actions)
