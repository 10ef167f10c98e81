"""Tiles: what the heuristic makes of contractions, by its shape and not by its speed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.backends.backend_table import native
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
from porism.optimize.strategy import contraction_strategy, heuristic
from porism.optimize.strategy.action_plan import Plan
from porism.optimize.strategy.flattened_tiles import best_flattened_tile
from porism.optimize.strategy.register_tiles import best_tile
from porism.optimize.strategy.tile_actions import apply_tile
from porism.optimize.strategy.tile_costs import padding_ratio, parallel_cycles
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
def test_what_is_chosen_computes_the_same(name: str) -> None:
    (kernel,) = porism.kernels(PROGRAMS[name]())
    assert kernel.actions
    assert porism.opt(kernel, kernel.actions).check() < 1e-5


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_kernel_gets_the_same_actions(name: str) -> None:
    target = native().target()
    first, second = (heuristic.choose_actions(loops_of(PROGRAMS[name]()), target) for _ in range(2))
    assert first == second


def chosen(tensor: Any) -> tuple[Action, ...]:
    kernel = loops_of(tensor)
    actions = heuristic.choose_actions(kernel, GENERIC_CPU)
    assert heuristic.schedule_loops(kernel, GENERIC_CPU) is apply_all(kernel, actions, GENERIC_CPU)
    return actions


def test_sizes_that_do_not_fit_are_covered_and_not_masked() -> None:
    actions = chosen(ones(67, 64) @ ones(64, 71))
    assert any(isinstance(a, OverlapTail) for a in actions)
    assert not any(isinstance(a, PadTo) for a in actions)


def test_what_windows_share_is_copied_once() -> None:
    stages = [a for a in chosen(convolution(16, 16, 3)) if isinstance(a, Pack)]
    assert any("+" in axis for stage in stages for axis in stage.axes)


def test_what_jumps_from_lane_to_lane_is_copied() -> None:
    assert any(isinstance(a, Pack) for a in chosen(porism.linear(ones(256, 64), ones(64, 64))))


def test_a_tile_fits_the_registers() -> None:
    for make in PROGRAMS.values():
        found = match_contraction(loops_of(make()))
        assert found is not None
        tile = best_tile(found, GENERIC_CPU)
        assert tile is not None
        width = GENERIC_CPU.vector_bits[-1] // 32
        vectors = 1 if tile.vectorizes_k else -(-tile.lanes // width)
        assert tile.m * tile.n * vectors < GENERIC_CPU.memory.registers


def test_what_is_computed_twice_counts() -> None:
    assert padding_ratio(64, 8) == 1
    assert padding_ratio(9, 8) == pytest.approx(16 / 9)


def test_no_contraction_without_reuse() -> None:
    x = ones(64, 64)
    assert not contraction_strategy.has_operand_reuse(loops_of((x * x).sum(axis=1)))
    assert contraction_strategy.has_operand_reuse(loops_of(x @ x))


def test_rows_that_fit_no_vectors_are_lanes_together() -> None:
    found = match_contraction(loops_of(channels(64, 17)))
    assert found is not None
    tile = best_flattened_tile(found, GENERIC_CPU)
    assert tile is not None
    assert tile.flattened_loop is found.outputs[-2]
    plan = Plan(loops_of(channels(64, 17)), GENERIC_CPU)
    apply_tile(plan, found, tile)
    assert next(a for a in plan.actions if isinstance(a, Pack)).row == 2
    assert any(isinstance(a, Merge) for a in plan.actions)
    (kernel,) = porism.kernels(channels(64, 17))
    assert porism.opt(kernel, plan.actions).check() < 1e-5


def test_rows_are_flat_only_where_they_are_stored_on() -> None:
    found = match_contraction(loops_of(ones(3, 40, 20) @ ones(3, 20, 19)))
    assert found is not None
    assert best_flattened_tile(found, GENERIC_CPU) is None


def test_lanes_beyond_a_row_of_a_copy_need_no_mask() -> None:
    kernel = loops_of(convolution(16, 14, 3))
    arranged = heuristic.schedule_loops(kernel, GENERIC_CPU)
    reads = [n for n in toposort(arranged) if n.op is ops.INDEX and n.src[0].op is ops.AFTER]
    assert reads
    assert not any(is_masked(n.src[1]) for n in reads)


MEMORY = Memory(l1=32 << 10, l2=1 << 20, l3=32 << 20, registers=32)
WIDE = dataclasses.replace(GENERIC_CPU, vector_bits=(512,), memory=MEMORY, cores=2)


@pytest.mark.parametrize("rows", [1, 12])
def test_constants_are_laid_out_where_others_are_read_in_strips(rows: int) -> None:
    loops = loops_of(ones(rows, 2048) @ ones(2048, 1000))
    blocked = contraction_strategy.plan_contraction(loops, WIDE).actions
    assert any(isinstance(action, Block) for action in blocked)
    laid_out = contraction_strategy.plan_contraction(loops, WIDE, frozenset({2})).actions
    assert not any(isinstance(action, Block) for action in laid_out)
    assert [action.buffer for action in laid_out if isinstance(action, Pack)] == [2]


def test_small_products_are_left_to_one_core() -> None:
    for size, is_shared in ((48, False), (64, True)):
        actions = contraction_strategy.plan_contraction(
            loops_of(ones(size, size) @ ones(size, size)), WIDE
        ).actions
        assert any(isinstance(action, Thread) for action in actions) is is_shared


def test_what_no_cache_holds_is_read_for_several_rows() -> None:
    x, y = (porism.asarray(np.ones(shape)) for shape in ((200, 4096), (4096, 64)))
    actions = contraction_strategy.plan_contraction(loops_of(x @ y), WIDE).actions
    assert any(isinstance(a, Upcast) and a.axis == "r0" and a.amount >= 4 for a in actions)


def test_short_sums_that_fit_no_cache_are_stored_past_it() -> None:
    loops = loops_of(ones(4096, 64) @ ones(64, 4096))
    assert NonTemporal(0) in contraction_strategy.plan_contraction(loops, WIDE).actions
    loops = loops_of(ones(512, 64) @ ones(64, 512))
    assert NonTemporal(0) not in contraction_strategy.plan_contraction(loops, WIDE).actions


@pytest.mark.parametrize("size", [56, 14])
def test_vectors_that_need_the_same_mask_are_copied_together(size: int) -> None:
    loops = loops_of(porism.conv2d(ones(8, 64, size, size), ones(64, 64, 3, 3), padding=1))
    actions = contraction_strategy.plan_contraction(loops, WIDE).actions
    place = next(k for k, action in enumerate(actions) if isinstance(action, Pack))
    fresh = set(named_ranges(apply_all(loops, actions[: place + 1], WIDE)))
    fresh -= set(named_ranges(apply_all(loops, actions[:place], WIDE)))
    copied = {a.axis: a.amount for a in actions if isinstance(a, Upcast) and a.axis in fresh}
    channels = min(fresh, key=lambda axis: int(axis[1:]))
    assert copied[channels] == 4
    assert len(copied) == 2


def test_what_is_copied_across_its_rows_is_loaded_along_them() -> None:
    q, k, v = (ones(1, 4, 64, 32) for _ in range(3))
    loops = loops_of(porism.scaled_dot_product_attention(q, k, v))
    actions = contraction_strategy.plan_contraction(loops, WIDE).actions
    place = next(k for k, action in enumerate(actions) if isinstance(action, Pack))
    before = named_ranges(apply_all(loops, actions[:place], WIDE))
    fresh = set(named_ranges(apply_all(loops, actions[: place + 1], WIDE))) - set(before)
    copied = [a for a in actions if isinstance(a, Upcast) and a.axis in fresh]
    assert sorted(a.amount for a in copied) == [4, 16]


def test_cores_that_would_wait_get_a_part_of_the_rows() -> None:
    cycles, copying, rows = 1000.0, 10.0, 4
    assert parallel_cycles(cycles, copying, [5], 64, rows, 2) == (1020.0, True)
    assert parallel_cycles(cycles, copying, [6], 64, rows, 2) == (1010.0, False)
    assert parallel_cycles(cycles, copying, [5], 64, rows, 1) == (1010.0, False)
    assert parallel_cycles(cycles, 10 * copying, [25], 64, rows, 8)[1] is False


def test_rows_that_are_outermost_are_shared_as_they_are() -> None:
    """25 parts of the columns are shared unevenly, but 64 of the rows are around them."""
    found = match_contraction(loops_of(ones(512, 128) @ ones(128, 784)))
    assert found is not None
    tile = best_tile(found, WIDE)
    assert tile is not None
    assert not tile.parallelizes_m


def test_parts_of_the_rows_may_overlap() -> None:
    target = dataclasses.replace(GENERIC_CPU, cores=2)
    kernel = loops_of(ones(515, 64) @ ones(64, 40))
    found = match_contraction(kernel)
    assert found is not None
    tile = best_tile(found, target)
    assert tile is not None
    plan = Plan(kernel, target)
    apply_tile(plan, found, dataclasses.replace(tile, parallelizes_m=True))
    (plain,) = porism.kernels(ones(515, 64) @ ones(64, 40))
    assert isinstance(plan.actions[0], OverlapTail)
    assert porism.opt(plain, plan.actions).check() < 1e-5
