"""Traffic: which bytes go into which cache, by the loop schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.target import CACHE_LINE, GENERIC_CPU, KIB, MIB, Memory
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.loops.loop_interchange import Move, Swap
from porism.optimize.actions.loops.loop_tiling import Split
from porism.optimize.actions.loops.merge_loops import Merge
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.reduction_blocking import Block
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.actions.memory.packed_panels import Pack
from porism.optimize.actions.memory.streaming_stores import NonTemporal
from porism.optimize.model.cache_traffic import Traffic, footprint, index_strides
from porism.optimize.model.loop_cost import estimate_cost
from porism.pipeline import unscheduled_kernel

CPU = dataclasses.replace(
    GENERIC_CPU, memory=Memory(l1=32 * KIB, l2=MIB, l3=32 * MIB, registers=16), cores=1
)
WIDE = 1 << 30


def kernel_of(result: Any) -> UOp:
    (kernel,) = porism.kernels(result)
    return unscheduled_kernel(kernel.node, CPU)


def ones(*shape: int) -> porism.Tensor:
    return porism.asarray(np.ones(shape, np.float32))


def moved(kernel: UOp, actions: Sequence[Action] = ()) -> Traffic:
    """Return the traffic of a kernel after some actions."""
    return estimate_cost(apply_all(kernel, actions, CPU), CPU).traffic


# -- footprints ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strides", "size"),
    [
        ([], CACHE_LINE),
        ([(4, 256)], 1024),  # contiguous
        ([(4, 16), (64, 16)], 1024),  # lanes, and a loop that continues them
        ([(4, 16), (4096, 8)], 8 * 64),  # rows
        ([(4, 16), (4096, 8), (4096, 3)], 10 * 64),  # rows of overlapping windows
        ([(256, 8)], 8 * CACHE_LINE),  # one element of each line
    ],
)
def test_footprints(strides: list[tuple[int, int]], size: int) -> None:
    touched = footprint(strides, 4, WIDE, CACHE_LINE).line_bytes
    rows = max(count for far, count in strides) if strides and strides[-1][0] > 64 else 1
    assert size <= touched <= size + (rows + 2) * CACHE_LINE / 2


def test_a_footprint_is_no_larger_than_its_buffer() -> None:
    assert footprint([(4096, 1000)], 4, 5000, CACHE_LINE).line_bytes == 5000


def test_rows_a_cache_way_apart_compete_for_one_set() -> None:
    near, far = (footprint([(stride, 64)], 4, WIDE, 4096) for stride in (4096 + 64, 4096))
    assert near.line_bytes == far.line_bytes
    assert far.cache_bytes == 64 * 4096
    assert near.cache_bytes < far.cache_bytes / 10


# -- strides ---------------------------------------------------------------------------------------


def test_the_strides_of_an_index() -> None:
    i, j = UOp.range(12, 0), UOp.range(8, 1)
    assert index_strides(i * 40 + j, {}) == {i: [(40, 12)], j: [(1, 8)]}
    assert index_strides(i // 4 * 100 + i % 4 * 3, {}) == {i: [(3, 4), (100, 3)]}
    assert index_strides(ops.MIN(i * 4, UOp.const(i.dtype, 30)) + j, {})[i] == [(4, 12)]


def test_gathered_rows_count_as_far_apart() -> None:
    kernel = kernel_of(porism.take(ones(1000, 32), porism.asarray(np.arange(64) * 7), axis=0))
    accesses = [n for n in toposort(kernel) if n.op is ops.INDEX]
    (table,) = (n for n in accesses if any(m.op is ops.INDEX for m in toposort(n.src[1])))
    strides = index_strides(table.src[1], {})
    assert sorted(pair for own in strides.values() for pair in own) == [
        (1, 32),
        (32 * CACHE_LINE, 64),
    ]


# -- caches ----------------------------------------------------------------------------------------


def test_arrays_that_fit_the_last_cache_need_no_memory_traffic() -> None:
    small, large = (moved(kernel_of(ones(n, 1024) + 1)).memory for n in (1024, 16384))
    assert small == 0
    assert large >= 3 * 4 * 16384 * 1024  # read, read before it is written, and written


def test_non_temporal_stores_do_not_read_lines() -> None:
    kernel = kernel_of(ones(16384, 1024) + 1)
    lanes = [Upcast("r0", 16)]
    plain, streamed = (moved(kernel, [*lanes, *more]).memory for more in ((), (NonTemporal(0),)))
    assert streamed < 0.8 * plain


def test_packed_panels_reduce_traffic() -> None:
    kernel = kernel_of(ones(512, 2048) @ ones(2048, 512))
    tile = [Upcast("r0", 4), Upcast("r1", 16)]
    plain = moved(kernel, tile)
    panels = moved(kernel, [*tile, Move("r1_0", "r0_0"), Pack(2, ("r2", "r1_1"))])
    assert panels.l2 < plain.l2 / 4


def test_a_tiled_transposition_reduces_traffic() -> None:
    kernel = kernel_of(porism.permute(ones(4096, 4096), (1, 0)) * 2)
    tiled = [Upcast("r0", 16), Upcast("r1", 16)]
    assert moved(kernel, tiled).l1 < moved(kernel, [Upcast("r1", 16)]).l1 / 3


def test_panels_of_column_sums_reduce_traffic() -> None:
    kernel = kernel_of(ones(4096, 4096).sum(0))
    columns = [Upcast("r0", 16)]
    panels = [*columns, Split("r0_0", 32), Block("r1", 8, "r0_0_1")]
    one, other = (estimate_cost(apply_all(kernel, a, CPU), CPU) for a in (panels, columns))
    assert one.traffic.memory < 0.8 * other.traffic.memory  # contiguous rows


def test_loop_order_matters_and_merging_loops_does_not() -> None:
    kernel = kernel_of(ones(4096, 4096) + ones(4096, 1))
    assert moved(kernel, [Swap("r0", "r1")]).l1 > 4 * moved(kernel).l1
    apart = moved(kernel)
    together = moved(kernel, [Merge("r0", "r1")])
    assert together.memory == pytest.approx(apart.memory, rel=0.1)


def test_traffic_is_distributed_over_cores() -> None:
    two = dataclasses.replace(CPU, cores=2)
    kernel = kernel_of(ones(4096, 4096) + ones(4096, 1))
    alone = estimate_cost(apply_all(kernel, [Thread("r0")], CPU), CPU).traffic
    shared = estimate_cost(apply_all(kernel, [Thread("r0")], two), two).traffic
    assert shared.l2 == pytest.approx(alone.l2 / 2, rel=0.1)
    assert shared.memory == pytest.approx(alone.memory / 2, rel=0.1)
    assert estimate_cost(kernel, two).traffic.memory > 1.5 * shared.memory
