"""Actions: each is legal or says why not, and the kernel computes the same afterwards."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from porism.base.dtypes import DType, f32, i32
from porism.base.errors import ActionError
from porism.base.gpu_targets import H200
from porism.base.target import GENERIC_CPU
from porism.evaluate import Memory, run_arrays, run_kernel
from porism.evaluate.evaluation import needs_steps
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.gpu.thread_block_actions import NoLocals
from porism.optimize.actions.loop_substitution import ranges_of
from porism.optimize.actions.loops.loop_interchange import Move, Swap
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.loop_tiling import OverlapTail, Split
from porism.optimize.actions.loops.merge_loops import Merge
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.reduction_blocking import Block
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.actions.memory.epilogue import Epilogue
from porism.optimize.actions.memory.packed_panels import TAIL_PADDING, Pack
from porism.optimize.analysis.buffer_loads import loads_of
from porism.rules.addresses.strides import stride


def pointer(number: int, size: int, dtype: DType = i32) -> UOp:
    return UOp(ops.PARAM, dtype.pointer(size=size), (), number)


def matrix_product(m: int, n: int, k: int) -> UOp:
    i, j, r = UOp.range(m, 0), UOp.range(n, 1), UOp.range(k, 2, Axis.REDUCE)
    product = pointer(1, m * k).index(i * k + r) * pointer(2, k * n).index(r * n + j)
    total = product.reduce(ops.ADD, r)
    return ops.SINK(pointer(0, m * n).index(i * n + j).store(total).end(i, j))


def squared_product(m: int, n: int, k: int) -> UOp:
    (end,) = matrix_product(m, n, k).src
    place, total = end.src[0].src
    return ops.SINK(
        place.store(total * total + pointer(1, m * k).index(end.src[1])).end(*end.src[1:])
    )


def largest(m: int, n: int) -> UOp:
    i, r = UOp.range(m, 0), UOp.range(n, 1, Axis.REDUCE)
    total = pointer(1, m * n).index(i * n + r).reduce(ops.MAX, r)
    return ops.SINK(pointer(0, m).index(i).store(total).end(i))


def shifted(n: int) -> UOp:
    i = UOp.range(n, 0)
    inside = i >= 1
    at = inside.where(i - 1, UOp(ops.INVALID, i.dtype))
    return ops.SINK(pointer(0, n).index(i).store(pointer(1, n).index(at) + 3).end(i))


KERNELS = {
    "product": (matrix_product(6, 8, 12), (48, 72, 96)),
    "odd product": (matrix_product(5, 7, 3), (35, 15, 21)),
    "squared product": (squared_product(4, 6, 3), (24, 12, 18)),
    "largest": (largest(6, 10), (6, 60)),
    "shifted": (shifted(12), (12, 12)),
}


def run(kernel: UOp, sizes: tuple[int, ...]) -> Array:
    generator = np.random.default_rng(0)
    data = [generator.integers(-9, 9, size).astype(np.int32) for size in sizes[1:]]
    buffers = [Memory.empty(i32, sizes[0]), *(Memory.of(d) for d in data)]
    (run_kernel if needs_steps(toposort(kernel)) else run_arrays)(kernel, buffers)
    assert buffers[0].written is not None
    assert buffers[0].written.all()
    return buffers[0].data


def possible(kernel: UOp) -> list[Action]:
    """Every action with small amounts that is legal on a kernel."""
    names = [show(r) for r in ranges_of(kernel)]
    actual: list[Action] = [NoLocals()]
    for name in names:
        actual += [Upcast(name, n) for n in (2, 3, 4)] + [Upcast(name, 2, top=True)]
        actual += [Unroll(name, n) for n in (2, 3, 4)] + [Unroll(name, 2, top=True)]
        actual += [PadTo(name, n) for n in (4, 8)] + [Thread(name)]
        actual += [Split(name, n) for n in (2, 3, 4)]
        actual += [OverlapTail(name, n) for n in (3, 4)]
    actual += [Swap(a, b) for a, b in itertools.permutations(names, 2)]
    actual += [Move(a, b) for a, b in itertools.permutations(names, 2)]
    actual += [Merge(a, b) for a, b in itertools.permutations(names, 2)]
    actual += [Block(a, n, b) for a, b in itertools.permutations(names, 2) for n in (1, 2, 4)]
    actual += [Epilogue(n) for n in (1, 2, 3, 4)] + [Epilogue(n, transposed=True) for n in (1, 2)]
    for buffer in (1, 2):
        actual += [Pack(buffer, (name,)) for name in names]
        actual += [Pack(buffer, pair) for pair in itertools.permutations(names, 2)]
    return [action for action in actual if action.is_legal(kernel, GENERIC_CPU)]


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_every_legal_action_keeps_the_result(name: str) -> None:
    kernel, sizes = KERNELS[name]
    expected = run(kernel, sizes)
    actions = possible(kernel)
    assert len(actions) > 3
    for action in actions:
        changed = action.apply(kernel, GENERIC_CPU)
        assert changed is not kernel
        np.testing.assert_array_equal(run(changed, sizes), expected, err_msg=str(action))


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_pairs_of_actions_keep_the_result(name: str) -> None:
    kernel, sizes = KERNELS[name]
    expected = run(kernel, sizes)
    for number, first in enumerate(possible(kernel)):
        between = first.apply(kernel, GENERIC_CPU)
        for second in possible(between)[number % 7 :: 7]:
            changed = second.apply(between, GENERIC_CPU)
            np.testing.assert_array_equal(
                run(changed, sizes), expected, err_msg=f"{first}, {second}"
            )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["odd product", "squared product"])
def test_actions_after_an_interchange_keep_the_result(name: str) -> None:
    kernel, sizes = KERNELS[name]
    expected = run(kernel, sizes)
    interchanges = [a for a in possible(kernel) if isinstance(a, (Move, Swap))]
    assert interchanges
    for first in interchanges:
        between = first.apply(kernel, GENERIC_CPU)
        for second in possible(between):
            if isinstance(second, (Block, Pack, Epilogue, Split, Move, Swap)):
                changed = second.apply(between, GENERIC_CPU)
                np.testing.assert_array_equal(
                    run(changed, sizes), expected, err_msg=f"{first}, {second}"
                )


@pytest.mark.parametrize("lanes", [1, 2, 3, 6])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_epilogue_of_a_tile_is_in_loops(lanes: int, transposed: bool) -> None:
    kernel, sizes = KERNELS["squared product"]
    tile = [Upcast("r0", 2), Upcast("r1", 6)]
    changed = apply_all(kernel, [*tile, Epilogue(lanes, transposed), Thread("r0_0")], GENERIC_CPU)
    np.testing.assert_array_equal(run(changed, sizes), run(kernel, sizes))
    vectorized = [r for r in changed.src[0].src[1:] if r.arg[1] is Axis.UPCAST]
    assert [int(r.vmax) + 1 for r in vectorized] == ([lanes] if lanes > 1 else [])


def test_a_transposed_tile_in_local_memory() -> None:
    """The contiguous loop of the output is the slowest of the local buffer, with any epilogue."""
    for name in ("product", "squared product"):
        kernel, sizes = KERNELS[name]
        actions = [Upcast("r0", 2), Upcast("r1", 2), Epilogue(1, transposed=True)]
        changed = apply_all(kernel, actions, GENERIC_CPU)
        np.testing.assert_array_equal(run(changed, sizes), run(kernel, sizes))
        (index,) = [
            n.src[0].src[1] for n in toposort(changed)
            if n.op is ops.STORE and base_of(n.src[0]).op is ops.DEFINE_LOCAL
        ]  # fmt: skip
        assert {show(r): stride(index, r) for r in index.ranges} == {"r0_1": 1, "r1_1": 2}


PRODUCT = KERNELS["product"][0]
FLOATS = ops.SINK(
    pointer(0, 1, f32)
    .index(UOp.const(UOp.range(2, 0).dtype, 0))
    .store(
        pointer(1, 6, f32)
        .index(UOp.range(2, 0, Axis.REDUCE) * 3 + UOp.range(3, 1, Axis.REDUCE))
        .reduce(ops.ADD, UOp.range(2, 0, Axis.REDUCE), UOp.range(3, 1, Axis.REDUCE))
    )
)

REFUSED = [
    (Upcast("r9", 4), "there is no loop r9", "the loops of the kernel are r0, r1, r2"),
    (Upcast("r0", 4), "the extent of r0 is 6", "no multiple of 4"),
    (Upcast("r0", 1), "the amount is 1", "at least 2"),
    (Upcast("r2", 2), "a loop of the kind reduce", "must be of the kind loop"),
    (Unroll("r1", 2), "a loop of the kind loop", "must be of the kind reduce"),
    (Thread("r1"), "not the outermost", "Swap it outwards"),
    (Swap("r0", "r2"), "not adjacent", "one after the other"),
    (Split("r0", 6), "the extent of r0 is 6", "a smaller amount"),
    (Split("r0", 5), "the extent of r0 is 6", "no multiple of 5"),
    (OverlapTail("r0", 3), "the extent of r0 is 6", "do not overlap"),
    (OverlapTail("r0", 8), "the extent of r0 is 6", "smaller than the extent"),
    (OverlapTail("r2", 5), "a loop of the kind reduce", "must be of the kind loop"),
    (Merge("r1", "r0"), "r0 is not directly inside of r1", "Swap or Move"),
    (Merge("r1", "r2"), "r2 is not directly inside of r1", "Swap or Move"),
    (Pack(1, ("r0+r2",)), "not a function of these sums", "one by one"),
    (Pack(1, ("2*r0+3*r2",)), "has the factor 1", "a factor of 1"),
    (Pack(1, ("2*r0",)), "is one loop", "needs no factor"),
    (Pack(1, ("x*r0+r2",)), "no sum of loops", "write '2*r1+r3'"),
    (Pack(1, ("r0+r0",)), "names a loop twice", "name it once"),
    (Pack(1, ()), "it names no loop", "name them"),
    (Move("r0", "r1"), "r0 is around r1 already", "leave it"),
    (Move("r2", "r1"), "a loop of the kind reduce", "must be of the kind loop"),
    (Move("r1", "r1"), "not loops of the same stores", "two loops of one nest"),
    (Pack(1, ("r1",)), "the load does not depend on r1", "leave out r1"),
    (Pack(1, ("r0", "r0")), "names a loop twice", "name it once"),
    (Pack(1, ("r0",), 1), "buffer 1 has no load 1", "the kernel has 1 of them"),
    (Pack(0, ("r0",)), "buffer 0 is written as well", "copy a buffer that is only read"),
    (Pack(3, ("r0",)), "buffer 3 has no load 0", "the kernel has 0 of them"),
    (Block("r2", 12, "r1"), "the extent of r2 is 12", "not larger than a block of 12"),
    (Block("r1", 2, "r0"), "a loop of the kind loop", "must be of the kind reduce"),
    (Block("r2", 2, "r2"), "a loop of the kind reduce", "must be of the kind loop"),
    (Epilogue(4), "the reduction has no epilogue", "stored as it is"),
    (PadTo("r0", 3), "a multiple of 3 already", "leave it out"),
    (PadTo("r0", 64), "would be 64 instead of 6", "smaller multiple"),
]


@pytest.mark.parametrize(("action", "what", "more"), REFUSED, ids=lambda case: str(case))
def test_an_illegal_action_is_refused_with_a_reason(action: Action, what: str, more: str) -> None:
    with pytest.raises(ActionError) as caught:
        action.apply(PRODUCT, GENERIC_CPU)
    assert what in str(caught.value)
    assert more in str(caught.value)


def test_a_panel_that_another_one_needs_is_filled_once() -> None:
    """The packed indices of a gather are needed to pack the gathered elements."""
    i, j = UOp.range(3, 0), UOp.range(5, 1)
    place = pointer(2, 15).index(i * 5 + j).cast(i.dtype).maximum(0).minimum(5)
    kernel = ops.SINK(pointer(0, 15).index(i * 5 + j).store(pointer(1, 6).index(place)).end(i, j))
    kernel = Pack(2, ("r1",)).apply(kernel, GENERIC_CPU)
    with pytest.raises(
        ActionError, match="needs a local buffer that is filled inside of these loops"
    ):
        Pack(1, ("r0", "r1")).apply(kernel, GENERIC_CPU)
    assert Pack(1, ("r1",)).is_legal(kernel, GENERIC_CPU)


def test_too_much_unrolling_is_refused() -> None:
    kernel = apply_all(matrix_product(64, 64, 64), [Upcast("r0", 64)], GENERIC_CPU)
    with pytest.raises(ActionError, match="unrolled or vectorized"):
        Upcast("r1", 64).apply(kernel, GENERIC_CPU)


def test_the_order_of_a_sum_of_floats_is_kept() -> None:
    with pytest.raises(ActionError, match="reduction of floats"):
        Swap("r0", "r1").apply(FLOATS, GENERIC_CPU)


def test_a_loop_is_not_distributed_over_cores_on_a_gpu() -> None:
    with pytest.raises(ActionError, match="the target is a GPU"):
        Thread("r0").apply(PRODUCT, H200)


def test_no_locals_is_applied_once() -> None:
    kernel = NoLocals().apply(PRODUCT, H200)
    with pytest.raises(ActionError, match="was applied before"):
        NoLocals().apply(kernel, H200)


def test_other_values_than_actions_are_refused() -> None:
    with pytest.raises(ActionError, match="is no action"):
        apply_all(PRODUCT, ["upcast"], GENERIC_CPU)  # type: ignore[list-item]


def test_a_panel_has_a_size_limit() -> None:
    kernel = matrix_product(2, 4096, 4096)
    with pytest.raises(ActionError, match="would have 16777216 elements"):
        Pack(2, ("r1", "r2")).apply(kernel, GENERIC_CPU)


def test_all_local_buffers_together_have_a_size_limit() -> None:
    """They are on the stack: two panels, or aligned rows with padding, exceed the limit."""
    kernel = matrix_product(800, 800, 800)
    once = Pack(1, ("r0", "r2")).apply(kernel, GENERIC_CPU)
    with pytest.raises(ActionError, match="all local buffers would take 5120000 bytes"):
        Pack(2, ("r2", "r1")).apply(once, GENERIC_CPU)
    with pytest.raises(
        ActionError, match="the partial results would take 2560000 bytes, beside 2560000"
    ):
        Block("r2", 80, "r0").apply(once, GENERIC_CPU)
    pairs = Split("r1", 2).apply(kernel, GENERIC_CPU)
    with pytest.raises(ActionError, match="all local buffers would take"):
        Pack(2, ("r2", "r1_0", "r1_1"), row=1).apply(pairs, GENERIC_CPU)


def test_a_buffer_that_is_written_is_not_packed() -> None:
    i = UOp.range(8, 0)
    place = pointer(0, 8).index(i)
    kernel = ops.SINK(place.store(pointer(0, 8).index(i) * pointer(1, 8).index(i)).end(i))
    with pytest.raises(ActionError, match="buffer 0 is written as well"):
        Pack(0, ("r0",)).apply(kernel, GENERIC_CPU)


def test_conversions_are_done_when_packing() -> None:
    i, j = UOp.range(4, 0), UOp.range(8, 1)
    at = (j >= 1).where(j - 1, UOp(ops.INVALID, j.dtype))
    read = (j >= 1).where(pointer(1, 8).index(at), UOp.const(i32, 5))
    kernel = ops.SINK(pointer(0, 32).index(i * 8 + j).store(read * i.cast(i32)).end(i, j))
    changed = Pack(1, ("r1",)).apply(kernel, GENERIC_CPU)
    (fill,) = [n for n in toposort(changed) if n.op is ops.AFTER]
    assert fill.src[1].src[0].src[1].op is ops.WHERE
    np.testing.assert_array_equal(run(changed, (32, 8)), run(kernel, (32, 8)))


def test_actions_are_plain_data() -> None:
    for action in (OverlapTail("r0", 4), Move("r1", "r0"), Merge("r0", "r1"), Pack(1, ("r2",), 1)):
        assert eval(repr(action)) == action


def window(m: int, n: int, stride: int) -> UOp:
    """Return a kernel of weighted sums of overlapping windows, with 0 beyond the edges."""
    i, j, k = UOp.range(m, 0), UOp.range(n, 1), UOp.range(3, 2, Axis.REDUCE)
    at = j * stride + k
    inside = (at >= 1) & (at < n * stride)
    read = pointer(1, m * n * stride).index(
        inside.where(i * (n * stride) + at - 1, UOp(ops.INVALID, i.dtype))
    )
    value = inside.where(read, UOp.const(i32, 0)) * pointer(2, 3).index(k)
    return ops.SINK(pointer(0, m * n).index(i * n + j).store(value.reduce(ops.ADD, k)).end(i, j))


@pytest.mark.parametrize("step", [1, 2])
def test_overlapping_windows_are_packed_once(step: int) -> None:
    kernel = window(3, 8, step)
    sizes = (24, 24 * step, 3)
    total = "r1+r2" if step == 1 else "2*r1+r2"
    changed = Pack(1, (total,)).apply(kernel, GENERIC_CPU)
    (memory,) = {n for n in toposort(changed) if n.op is ops.DEFINE_LOCAL}
    assert memory.dtype.size == 7 * step + 3
    np.testing.assert_array_equal(run(changed, sizes), run(kernel, sizes))


def test_overlapping_tiles_store_each_element_once() -> None:
    kernel = matrix_product(7, 5, 3)
    actions = [OverlapTail("r0", 3), Upcast("r0_1", 3), OverlapTail("r1", 4), Upcast("r1_1", 4)]
    changed = apply_all(kernel, actions, GENERIC_CPU)
    np.testing.assert_array_equal(run(changed, (35, 21, 15)), run(kernel, (35, 21, 15)))
    assert not any(n.op is ops.INVALID for n in toposort(*loads_of(changed)))


def test_a_merged_index_is_linear() -> None:
    i, j = UOp.range(4, 0), UOp.range(8, 1)
    kernel = ops.SINK(
        pointer(0, 32).index(i * 8 + j).store(pointer(1, 32).index(j * 4 + i)).end(i, j)
    )
    changed = Merge("r0", "r1").apply(kernel, GENERIC_CPU)
    (store,) = [n for n in toposort(changed) if n.op is ops.STORE]
    assert show(store.src[0].src[1]) == "r2"
    np.testing.assert_array_equal(run(changed, (32, 32)), run(kernel, (32, 32)))


def test_rows_of_a_panel_begin_on_cache_lines() -> None:
    kernel = matrix_product(6, 8, 12)
    changed = Pack(2, ("r2", "r1"), row=1).apply(kernel, GENERIC_CPU)
    (memory,) = {n for n in toposort(changed) if n.op is ops.DEFINE_LOCAL}
    assert memory.dtype.size == 12 * 8 + TAIL_PADDING // 4
    np.testing.assert_array_equal(run(changed, (48, 72, 96)), run(kernel, (48, 72, 96)))
