"""Register tiles: which actions contractions get, whatever their speed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.backends.backend_table import native_backend
from porism.base.target import GENERIC_CPU, Memory
from porism.ir import ops
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.loop_substitution import named_ranges
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.loop_tiling import OverlapTail
from porism.optimize.actions.loops.merge_loops import Merge
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.reduction_blocking import Block
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.actions.memory.packed_panels import Pack
from porism.optimize.actions.memory.streaming_stores import NonTemporal
from porism.optimize.analysis.contraction_accesses import match_contraction
from porism.optimize.model.column_cost import Columns, padding_ratio, spills
from porism.optimize.model.contraction_cost import ContractionCost, cost
from porism.optimize.model.core_rates import core_rates
from porism.optimize.model.tile_plan import TilePlan
from porism.optimize.strategy import heuristic
from porism.optimize.strategy.action_plan import Plan
from porism.optimize.strategy.contractions import contraction_strategy
from porism.optimize.strategy.contractions.tile_actions import apply_tile
from porism.optimize.strategy.contractions.tile_plans import best_plan, ranked_plans
from porism.pipeline import unscheduled_kernel
from porism.rules.addresses.validity import is_masked


def ones(*shape: int) -> Any:
    return porism.asarray(np.ones(shape, np.float32))


def loops_of(tensor: Any) -> Any:
    (kernel,) = porism.kernels(tensor)
    return unscheduled_kernel(kernel.node, GENERIC_CPU)


def convolution(channels: int, size: int, kernel: int, **more: Any) -> Any:
    x, w = ones(1, channels, size, size), ones(channels, channels, kernel, kernel)
    return porism.conv2d(x, w, padding=kernel // 2, **more)


def channels(count: int, size: int, images: int = 1, **more: Any) -> Any:
    x, w = ones(images, 6, size, size), ones(count, 6, 3, 3)
    return porism.conv2d(x, w, padding=1, **more).relu()


PROGRAMS: dict[str, Callable[[], Any]] = {
    "square": lambda: ones(64, 48) @ ones(48, 64),
    "odd": lambda: ones(37, 29) @ ones(29, 53),
    "transposed": lambda: porism.linear(ones(40, 70), ones(90, 70)),
    "both": lambda: ones(30, 33).T @ ones(30, 41),
    "batch": lambda: ones(3, 17, 20) @ ones(3, 20, 19),
    "vector": lambda: ones(100, 130) @ ones(130),
    "row": lambda: ones(130) @ ones(130, 100),
    "tiny": lambda: ones(3, 65) @ ones(65, 2),
    "bias": lambda: (ones(20, 64) @ ones(64, 30) + ones(30)).relu(),
    "window": lambda: convolution(8, 12, 3),
    "small window": lambda: convolution(8, 7, 3),
    "large window": lambda: convolution(4, 9, 5),
    "steps": lambda: convolution(8, 13, 3, stride=2),
    "points": lambda: convolution(16, 9, 1),
    "many channels": lambda: channels(64, 17),
    "many channels, steps": lambda: channels(50, 14, stride=2),
    "many images": lambda: channels(40, 7, images=3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_scheduled_kernels_compute_the_same(name: str) -> None:
    (kernel,) = porism.kernels(PROGRAMS[name]())
    assert kernel.actions
    assert porism.opt(kernel, kernel.actions).check() < 1e-5


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_kernel_gets_the_same_actions(name: str) -> None:
    target = native_backend().target()
    first, second = (heuristic.choose_actions(loops_of(PROGRAMS[name]()), target) for _ in range(2))
    assert first == second


def chosen(tensor: Any) -> tuple[Action, ...]:
    kernel = loops_of(tensor)
    actions = heuristic.choose_actions(kernel, GENERIC_CPU)
    assert heuristic.schedule_loops(kernel, GENERIC_CPU) is apply_all(kernel, actions, GENERIC_CPU)
    return actions


def test_extents_that_the_tile_does_not_divide_end_in_overlapping_tails() -> None:
    actions = chosen(ones(67, 64) @ ones(64, 71))
    assert any(isinstance(a, OverlapTail) for a in actions)
    assert not any(isinstance(a, PadTo) for a in actions)


def test_overlapping_windows_share_a_panel() -> None:
    stages = [a for a in chosen(convolution(16, 16, 3)) if isinstance(a, Pack)]
    assert any("+" in axis for stage in stages for axis in stage.axes)


def test_operands_that_are_strided_along_the_lanes_are_packed() -> None:
    assert any(isinstance(a, Pack) for a in chosen(porism.linear(ones(256, 64), ones(64, 64))))


def test_a_tile_fits_the_registers() -> None:
    for make in PROGRAMS.values():
        actual = match_contraction(loops_of(make()))
        assert actual is not None
        tile = best_plan(actual, GENERIC_CPU)
        assert tile is not None
        width = GENERIC_CPU.vector_bits[-1] // 32
        vectors = 1 if tile.vectorizes_k else -(-tile.lanes // width)
        assert tile.m * tile.n * vectors < GENERIC_CPU.memory.registers


@pytest.mark.parametrize(
    ("m", "n", "vectors", "spilled"),
    [(8, 1, 3, False), (6, 4, 1, False), (5, 2, 2, False), (4, 3, 2, True), (12, 2, 1, True)],
)
def test_tiles_that_llvm_spills(m: int, n: int, vectors: int, spilled: bool) -> None:
    """With 24 accumulators, six vectors or twelve scalars leave too few of 32 registers."""
    assert spills(m * n * vectors, n * vectors, m, 32) is spilled


def test_a_position_that_is_read_once_decides_no_lanes() -> None:
    """An int64 that selects a row is in no vector: lanes are those of float32."""
    x, w, rows = ones(1, 64), ones(64, 96), ones(5, 96)
    at = porism.asarray(np.array([3], np.int64))
    contraction = match_contraction(loops_of(x @ w + rows[at]))
    assert contraction is not None
    assert contraction.bits == 32


def test_padding_ratio() -> None:
    assert padding_ratio(64, 8) == 1
    assert padding_ratio(9, 8) == pytest.approx(16 / 9)


def test_no_contraction_without_reuse() -> None:
    x = ones(64, 64)
    assert not contraction_strategy.has_operand_reuse(loops_of((x * x).sum(axis=1)))
    assert contraction_strategy.has_operand_reuse(loops_of(x @ x))


def flattened(nest: Any) -> list[TilePlan]:
    return [plan for _, plan in ranked_plans(nest, GENERIC_CPU) if plan.flattened_loop is not None]


def test_loops_that_fit_no_vectors_are_flattened() -> None:
    actual = match_contraction(loops_of(channels(64, 17)))
    assert actual is not None
    tile = flattened(actual)[0]
    assert tile.flattened_loop is actual.outputs[-2]
    plan = Plan(loops_of(channels(64, 17)), GENERIC_CPU)
    apply_tile(plan, actual, tile)
    assert next(a for a in plan.actions if isinstance(a, Pack)).row == 2
    assert any(isinstance(a, Merge) for a in plan.actions)
    (kernel,) = porism.kernels(channels(64, 17))
    assert porism.opt(kernel, plan.actions).check() < 1e-5


def test_only_contiguous_output_loops_are_flattened() -> None:
    actual = match_contraction(loops_of(ones(3, 40, 20) @ ones(3, 20, 19)))
    assert actual is not None
    assert not flattened(actual)


def test_lanes_beyond_the_row_of_a_panel_need_no_mask() -> None:
    kernel = loops_of(convolution(16, 14, 3))
    scheduled = heuristic.schedule_loops(kernel, GENERIC_CPU)
    reads = [n for n in toposort(scheduled) if n.op is ops.INDEX and n.src[0].op is ops.AFTER]
    assert reads
    assert not any(is_masked(n.src[1]) for n in reads)


MEMORY = Memory(l1=32 << 10, l2=1 << 20, l3=32 << 20, registers=32)
WIDE = dataclasses.replace(GENERIC_CPU, vector_bits=(512,), memory=MEMORY, cores=2)


@pytest.mark.parametrize("rows", [1, 2])
def test_constants_are_packed_where_others_are_read_in_column_panels(rows: int) -> None:
    loops = loops_of(ones(rows, 2048) @ ones(2048, 1000))
    blocked = contraction_strategy.plan_contraction(loops, WIDE).actions
    assert any(isinstance(action, Block) for action in blocked)
    packed = contraction_strategy.plan_contraction(loops, WIDE, frozenset({2})).actions
    assert not any(isinstance(action, Block) for action in packed)
    assert [action.buffer for action in packed if isinstance(action, Pack)] == [2]


def test_small_products_are_not_parallelized() -> None:
    for size, is_parallel in ((48, False), (64, True)):
        actions = contraction_strategy.plan_contraction(
            loops_of(ones(size, size) @ ones(size, size)), WIDE
        ).actions
        assert any(isinstance(action, Thread) for action in actions) is is_parallel


def test_operands_that_exceed_the_cache_are_shared_by_several_rows() -> None:
    x, y = (porism.asarray(np.ones(shape)) for shape in ((200, 4096), (4096, 64)))
    actions = contraction_strategy.plan_contraction(loops_of(x @ y), WIDE).actions
    assert any(isinstance(a, Upcast) and a.axis.startswith("r0") and a.amount >= 4 for a in actions)


def test_large_outputs_of_short_reductions_use_nontemporal_stores() -> None:
    loops = loops_of(ones(4096, 64) @ ones(64, 4096))
    assert NonTemporal(0) in contraction_strategy.plan_contraction(loops, WIDE).actions
    loops = loops_of(ones(512, 64) @ ones(64, 512))
    assert NonTemporal(0) not in contraction_strategy.plan_contraction(loops, WIDE).actions


@pytest.mark.parametrize("size", [56, 14])
def test_packing_loops_whose_iterations_share_a_mask_are_unrolled(size: int) -> None:
    loops = loops_of(porism.conv2d(ones(8, 64, size, size), ones(64, 64, 3, 3), padding=1))
    actions = contraction_strategy.plan_contraction(loops, WIDE).actions
    place = next(k for k, action in enumerate(actions) if isinstance(action, Pack))
    packing_loops = set(named_ranges(apply_all(loops, actions[: place + 1], WIDE)))
    packing_loops -= set(named_ranges(apply_all(loops, actions[:place], WIDE)))
    unrolled = {
        a.axis: a.amount for a in actions if isinstance(a, Upcast) and a.axis in packing_loops
    }
    channels = min(packing_loops, key=lambda axis: int(axis[1:]))
    assert unrolled[channels] == 4
    assert len(unrolled) == 2


def test_strided_panels_are_transposed_in_registers() -> None:
    q, k, v = (ones(1, 4, 64, 32) for _ in range(3))
    loops = loops_of(porism.scaled_dot_product_attention(q, k, v))
    actions = contraction_strategy.plan_contraction(loops, WIDE).actions
    place = next(k for k, action in enumerate(actions) if isinstance(action, Pack))
    before = named_ranges(apply_all(loops, actions[:place], WIDE))
    packing_loops = set(named_ranges(apply_all(loops, actions[: place + 1], WIDE))) - set(before)
    unrolled = [a for a in actions if isinstance(a, Upcast) and a.axis in packing_loops]
    assert sorted(a.amount for a in unrolled) == [4, 16]


def test_the_m_loop_is_parallelized_where_cores_would_wait() -> None:
    """5 panels keep the second of two cores waiting, 6 do not."""
    for columns, is_parallel_in_m in ((5 * 64, True), (6 * 64, False)):
        nest = match_contraction(loops_of(ones(512, 512) @ ones(512, columns)))
        assert nest is not None
        model = ContractionCost(nest, WIDE)
        chosen = Columns(nest.outputs[1], 64)
        column_cost = model.columns(chosen)
        assert column_cost is not None
        _, by_m, by_outermost = model.tile(chosen, column_cost, nest.outputs[0], 4)
        assert (sum(by_m) < sum(by_outermost)) is is_parallel_in_m


def test_an_outermost_m_loop_is_not_split_among_the_cores() -> None:
    """25 panels of columns are imbalanced, but the 64 iterations of the m loop are around them."""
    actual = match_contraction(loops_of(ones(512, 128) @ ones(128, 784)))
    assert actual is not None
    tile = best_plan(actual, WIDE)
    assert tile is not None
    assert not tile.parallelizes_m


def test_chunks_of_the_m_loop_may_overlap() -> None:
    target = dataclasses.replace(GENERIC_CPU, cores=2)
    kernel = loops_of(ones(515, 64) @ ones(64, 40))
    actual = match_contraction(kernel)
    assert actual is not None
    tile = best_plan(actual, target)
    assert tile is not None
    plan = Plan(kernel, target)
    apply_tile(plan, actual, dataclasses.replace(tile, parallelizes_m=True))
    (plain,) = porism.kernels(ones(515, 64) @ ones(64, 40))
    assert isinstance(plan.actions[0], OverlapTail)
    assert porism.opt(plain, plan.actions).check() < 1e-5


def test_part_of_a_vector_is_cheaper_only_on_narrow_units() -> None:
    wide = dataclasses.replace(GENERIC_CPU, vector_bits=(128, 256, 512))
    narrow = dataclasses.replace(wide, machine=wide.machine.override("fma_bits=256"))
    assert core_rates(wide).vector_cost(256) == 1.0
    assert core_rates(narrow).vector_cost(256) == 0.5
    assert core_rates(narrow).vector_cost(512) == 1.0
    assert core_rates(narrow).vector_cost(128) == 0.5
    assert core_rates(narrow).slot == 2 * core_rates(wide).slot


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_cheapest_of_all_plans_is_chosen(name: str) -> None:
    """The heuristic skips plans by a bound; the search ranks all of them by the same cost."""
    nest = match_contraction(loops_of(PROGRAMS[name]()))
    assert nest is not None
    best = best_plan(nest, GENERIC_CPU)
    ranked = ranked_plans(nest, GENERIC_CPU)
    assert best is not None
    own = cost(nest, best, GENERIC_CPU)
    assert own is not None
    assert own.total == pytest.approx(ranked[0][0])
    for cycles, plan in ranked[::20]:
        again = cost(nest, plan, GENERIC_CPU)
        assert again is not None
        assert again.total == pytest.approx(cycles)


def test_the_parts_of_a_cost_follow_the_machine() -> None:
    nest = match_contraction(loops_of(ones(512, 512) @ ones(512, 512)))
    assert nest is not None
    plan = best_plan(nest, WIDE)
    assert plan is not None
    before = cost(nest, plan, WIDE)
    slow = dataclasses.replace(WIDE, machine=WIDE.machine.override("l2_bandwidth=1"))
    fast = dataclasses.replace(WIDE, machine=WIDE.machine.override("fma_units=4"))
    after, halved = cost(nest, plan, slow), cost(nest, plan, fast)
    assert before is not None
    assert after is not None
    assert halved is not None
    assert after.caches > before.caches
    assert after.arithmetic == before.arithmetic == 2 * halved.arithmetic
    assert str(before).startswith(f"{before.total / 1000:.1f} thousand cycles: arithmetic ")


def test_a_plan_prints_its_loops() -> None:
    nest = match_contraction(loops_of(ones(512, 512) @ ones(512, 512)))
    assert nest is not None
    m_loop, vector_loop = nest.outputs
    plan = TilePlan(vector_loop, 32, m_loop, 6, packed=nest.operands[1:], parallelizes_m=True)
    assert str(plan) == "r1 × 32 vectorized, r0 × 6, parallel in m; buffer 2 packed"


def half(*shape: int) -> Any:
    return porism.asarray(np.random.default_rng(0).normal(size=shape).astype(np.float16))


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("shape", [(64, 64, 64), (37, 45, 70), (5, 100, 33)])
def test_rows_that_are_converted_are_packed_once(
    shape: tuple[int, int, int], is_transposed: bool
) -> None:
    """Otherwise each scalar would be converted again for every panel of columns and every k."""
    m, k, n = shape
    result = (half(k, m).T if is_transposed else half(m, k)) @ half(k, n)
    actions = contraction_strategy.plan_contraction(loops_of(result), WIDE).actions
    assert is_transposed or 1 in [a.buffer for a in actions if isinstance(a, Pack)]
    (plain,) = porism.kernels(result)
    assert porism.opt(plain, actions).check() < 1e-2
    single = contraction_strategy.plan_contraction(loops_of(ones(m, k) @ ones(k, n)), WIDE).actions
    assert 1 not in [a.buffer for a in single if isinstance(a, Pack)]


def test_rows_share_cache_lines_where_k_jumps() -> None:
    """Eight rows of different matrices would read a line each for every k, and conflict."""
    x, y = ones(32, 128, 64), ones(128, 256)
    loops = loops_of(porism.einsum("ijk,jl->ikl", x, y))
    actions = contraction_strategy.plan_contraction(loops, WIDE).actions
    assert any(isinstance(a, Upcast) and a.axis.startswith("r1") for a in actions)
    assert not any(isinstance(a, Upcast) and a.axis.startswith("r0") for a in actions)


def test_windows_of_half_precision() -> None:
    """Several reduction loops: the packed rows of weights have to stay mergeable."""
    x, w = half(2, 5, 9, 9), half(40, 5, 3, 3)
    result = porism.conv2d(x, w, padding=1)
    actions = contraction_strategy.plan_contraction(loops_of(result), WIDE).actions
    assert 2 in [a.buffer for a in actions if isinstance(a, Pack)]
    (plain,) = porism.kernels(result)
    assert porism.opt(plain, actions).check() < 1e-2


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (3, 5), (2, 17), (9, 2)])
@pytest.mark.parametrize("axis", [0, 1])
def test_operands_whose_masks_are_decided_need_no_panel(axis: int, rows: int, columns: int) -> None:
    """Of a tensor beside itself each load depends on some loops: none reads the rows of all."""
    rng = np.random.default_rng(0)
    part = rng.standard_normal((rows, 3), np.float32)
    left = np.concatenate([part, part], axis)
    right = rng.standard_normal((left.shape[1], columns), np.float32)
    joined = porism.concat([porism.asarray(part)] * 2, axis)
    np.testing.assert_allclose((joined @ porism.asarray(right)).numpy(), left @ right, 1e-4, 1e-5)
