"""Injected faults: a wrong stage is detected, named, and shown with a counterexample."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.dtypes import Space, f32, i8, i32, index
from porism.base.errors import VerifyError
from porism.base.target import GENERIC_CPU
from porism.engine.run import compile_verification
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import rebuild, substitute, toposort
from porism.optimize.actions import loop_substitution
from porism.tensor.tensor import Tensor
from porism.verification.accesses import bounds_and_races
from porism.verification.verification_report import How
from porism.verification.verify_kernel import verify_actions, verify_lowering
from tests.block_kernels import SMALL
from tests.tiers import quick_every
from tests.verify.fault_injection import (
    Change,
    break_stage,
    move_index,
    move_mask_limit,
    replace_access,
)


def ones(*dims: int) -> Any:
    return porism.asarray(np.ones(dims, np.float32))


def product() -> Any:
    return ones(24, 32) @ ones(32, 48)


def convolution() -> Any:
    return porism.conv2d(ones(1, 3, 9, 9), ones(8, 3, 3, 3), padding=1)


def verify_error_of(
    tensor: Tensor, monkeypatch: pytest.MonkeyPatch, stage: str, change: Change
) -> str:
    break_stage(monkeypatch, stage, change)
    monkeypatch.setattr(compile_verification, "_reports", {})
    with pytest.raises(VerifyError) as caught:
        porism.verify(tensor)
    assert caught.value.where is not None
    assert "for r0" in caught.value.where  # the loops of the kernel
    assert caught.value.fix is not None
    assert "report it" in caught.value.fix
    return str(caught.value)


INDEX_STAGES = (
    "early movement", "split ranges", "symbolic", "shrink ranges", "merge ranges",
    "symbolic after merging", "schedule loops", "masks on loads", "expand", "symbolic on lanes",
    "index dtype", "decompose",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("stage", INDEX_STAGES)
def test_an_index_off_by_one(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = verify_error_of(product(), monkeypatch, stage, move_index(1))
    assert f"the stage '{stage}' changed what a kernel reads" in text
    assert "before: p1[" in text
    assert "after: p1[" in text
    assert " = " in text.split("\n    at ")[1]  # the values of the loops


@pytest.mark.slow
@pytest.mark.parametrize("stage", INDEX_STAGES)
def test_a_store_off_by_one(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = verify_error_of(product(), monkeypatch, stage, move_index(0))
    assert f"the stage '{stage}' changed what a kernel writes" in text


@pytest.mark.slow
@pytest.mark.parametrize("by", [-1, 1])
def test_a_wrong_mask(by: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = verify_error_of(convolution(), monkeypatch, "masks on loads", move_mask_limit(1, by))
    assert "the stage 'masks on loads' changed what a kernel reads" in text
    assert ("nothing after" if by < 0 else "nothing before") in text


def test_an_access_beyond_its_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    def smaller(graph: UOp) -> UOp:
        pointers = [n for n in toposort(graph) if n.op is ops.PARAM and n.arg == 1]
        short = {n: UOp(ops.PARAM, n.dtype.element.pointer(size=n.dtype.size - 1), (), 1)
                 for n in pointers}  # fmt: skip
        return substitute(graph, short)

    text = verify_error_of(product(), monkeypatch, "decompose", smaller)
    assert "after the stage 'decompose' a kernel leaves its buffer" in text
    assert "has 767 elements" in text
    assert "element 767" in text


def test_a_store_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(graph: UOp) -> UOp:
        stores = [n for n in toposort(graph) if n.op is ops.STORE]
        assert len(stores) > 1
        return substitute(graph, {stores[-1]: ops.NOOP()})

    text = verify_error_of(product(), monkeypatch, "symbolic on lanes", without)
    assert "the stage 'symbolic on lanes' changed what a kernel writes" in text
    assert "is not done any more" in text


def test_a_loop_that_is_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    def shorter(graph: UOp) -> UOp:
        r = next(n for n in toposort(graph) if n.op is ops.RANGE and n.arg[1] is Axis.LOOP)
        return loop_substitution.replace_loop(graph, r, s := UOp.range(int(r.vmax), r.arg[0]), [s])

    text = verify_error_of(product(), monkeypatch, "symbolic", shorter)
    assert "the stage 'symbolic' changed what a kernel writes" in text


def test_a_padded_loop_without_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    def longer(graph: UOp) -> UOp:
        r = next(n for n in toposort(graph) if n.op is ops.RANGE and n.arg[1] is Axis.LOOP)
        return loop_substitution.replace_loop(
            graph, r, s := UOp.range(int(r.vmax) + 2, r.arg[0]), [s]
        )

    text = verify_error_of(product(), monkeypatch, "symbolic", longer)
    assert "nothing before" in text


def test_a_split_loop_with_different_strides_for_reads_and_writes() -> None:
    """Any order of the parts is right if all accesses agree on it."""
    i, a, b, c = UOp.range(24, 0), *(UOp.range(n, (0, k)) for k, n in enumerate((2, 3, 4)))
    x, y = (UOp(ops.PARAM, f32.pointer(size=24), (), n) for n in (1, 0))
    before = ops.SINK(y.index(i).store(x.index(i)).end(i))
    orders = [a * 12 + c * 3 + b, b * 8 + a * 4 + c, c * 6 + b * 2 + a, a * 12 + b * 4 + c]
    for to, of in itertools.product(orders, repeat=2):
        after = ops.SINK(y.index(to).store(x.index(of)).end(a, b, c))
        if to is of:
            assert verify_actions(before, after, GENERIC_CPU, {}).counts[How.OPEN] == 0
        else:
            with pytest.raises(VerifyError, match="the stage 'actions' changed what a kernel"):
                verify_actions(before, after, GENERIC_CPU, {})


@pytest.mark.parametrize("shift", [0, 1, 4])
def test_an_epilogue_that_reads_another_sum(shift: int) -> None:
    """The index of the sum that is read determines the iteration of the tile."""
    i, j, k, a, b = (UOp.range(n, number) for number, n in enumerate((8, 4, 4, 8, 4)))
    y, x, z = (UOp(ops.PARAM, f32.pointer(size=32), (), n) for n in range(3))
    total = ops.REDUCE(x.index((i + k) % 8 * 4 + j), k, arg=ops.ADD)
    before = ops.SINK(y.index(i * 4 + j).store(total * z.index(i * 4 + j)).end(i, j))
    memory = UOp(ops.DEFINE_LOCAL, f32.pointer(Space.LOCAL, 32), (), 0)
    filled = memory.index(i * 4 + j).store(total).end(i, j)
    address = a * 4 + b
    sum_read = memory.after(filled).index((address + shift) % 32 if shift else address)
    after = ops.SINK(y.index(address).store(sum_read * z.index(address)).end(a, b))
    if shift:
        with pytest.raises(VerifyError):
            verify_actions(before, after, GENERIC_CPU, {})
    else:
        assert verify_actions(before, after, GENERIC_CPU, {}).counts[How.OPEN] == 0


def test_a_wrong_copy_into_local_memory() -> None:
    """Elements that are read through local memory are compared with those read before."""
    i, j, k = UOp.range(8, 0), UOp.range(4, 1), UOp.range(4, 2)
    x, y = (UOp(ops.PARAM, f32.pointer(size=32), (), n) for n in (1, 0))
    before = ops.SINK(y.index(i * 4 + j).store(x.index(i * 4 + j)).end(i, j))

    def with_local_copy(offset: int) -> UOp:
        memory = UOp(ops.DEFINE_LOCAL, f32.pointer(Space.LOCAL, 4), (), 0)
        fill = memory.index(k, dtype=f32).store(x.index((i * 4 + k + offset) % 32)).end(k)
        read = memory.after(fill).index(j, dtype=f32)
        return ops.SINK(y.index(i * 4 + j).store(read).end(i, j))

    report = verify_actions(before, with_local_copy(0), GENERIC_CPU, {})
    assert report.counts[How.OPEN] == 0
    with pytest.raises(VerifyError, match="the stage 'actions' changed what a kernel reads"):
        verify_actions(before, with_local_copy(1), GENERIC_CPU, {})


@pytest.mark.parametrize("start", [7, 8, 9])
def test_a_peeled_reduction(start: int) -> None:
    """Both loops are compared: the second begins where the first ends."""
    i, r = UOp.range(4, 0), UOp.range(11, 1, Axis.REDUCE)
    most, rest = UOp.range(8, (1, 0), Axis.REDUCE), UOp.range(3, (1, 1), Axis.REDUCE)
    x, y = (UOp(ops.PARAM, f32.pointer(size=n), (), number) for number, n in ((1, 48), (0, 4)))

    def kernel(total: UOp) -> UOp:
        return ops.SINK(y.index(i).store(total).end(i))

    before = kernel(x.index(i * 12 + r).reduce(ops.ADD, r))
    parts = [x.index(i * 12 + most), x.index(i * 12 + rest + start)]
    sums = [part.reduce(ops.ADD, r) for part, r in zip(parts, (most, rest), strict=True)]
    after = kernel(sums[0] + sums[1])
    if start == 8:
        assert verify_actions(before, after, GENERIC_CPU, {}).counts[How.OPEN] == 0
        missing = kernel(sums[0] + UOp.const(f32, 0))
        with pytest.raises(VerifyError):
            verify_actions(before, missing, GENERIC_CPU, {})
    else:
        with pytest.raises(VerifyError, match="the stage 'actions' changed what a kernel reads"):
            verify_actions(before, after, GENERIC_CPU, {})


def test_an_index_that_overflows(monkeypatch: pytest.MonkeyPatch) -> None:
    def narrowed(node: UOp) -> UOp | None:
        at = node.src[1]
        if node.src[0].op is not ops.PARAM or at.vmax < 128:
            return None
        narrow = at.cast(i8.vec(at.dtype.count) if at.dtype.count > 1 else i8).cast(at.dtype)
        return node.src[0].index(narrow, *node.src[2:], dtype=node.dtype)

    text = verify_error_of(product(), monkeypatch, "index dtype", replace_access(narrowed))
    assert "the stage 'index dtype' changed what a kernel" in text


# -- scatters --------------------------------------------------------------------------------------


def bincount_program() -> Any:
    return porism.bincount(porism.asarray(np.arange(100) % 40), length=40)


def index_add_program() -> Any:
    at = porism.asarray(np.arange(64) % 40)
    return porism.index_add(ones(3, 40, 5), 1, at, ones(3, 64, 5))


def change_scatter_index(change: Callable[[UOp, UOp], UOp]) -> Change:
    """Return a change of the index of a scatter, computed from its mask and its index."""

    def changed(node: UOp) -> UOp | None:
        if node.src[0].op is not ops.AFTER:
            return None
        condition, at, _ = node.src[1].src
        return node.src[0].index(change(condition, at), dtype=node.dtype)

    return replace_access(changed)


def keep_one_guard(condition: UOp, at: UOp, number: int) -> UOp:
    return ops.WHERE(condition.src[number], at, NOT_EXECUTED)


NOT_EXECUTED = ops.INVALID(dtype=index)
WRONG_SCATTER_INDICES: dict[str, Callable[[UOp, UOp], UOp]] = {
    "a neighbour": lambda condition, at: ops.WHERE(
        condition, (at + 1) % 40, ops.INVALID(dtype=index)
    ),
    "always the first": lambda condition, at: ops.WHERE(
        condition, at * 0, ops.INVALID(dtype=index)
    ),
    "without a guard": lambda condition, at: at,
    "half a guard": lambda condition, at: keep_one_guard(condition, at, 0),
    "the other half": lambda condition, at: keep_one_guard(condition, at, 1),
    "a guard that is too strong": lambda condition, at: ops.WHERE(
        condition & (at < 39), at, NOT_EXECUTED
    ),
}


@pytest.mark.parametrize("name", quick_every(2, WRONG_SCATTER_INDICES))
@pytest.mark.parametrize(
    "make", [bincount_program, pytest.param(index_add_program, marks=pytest.mark.slow)]
)
def test_a_scatter_to_wrong_elements(
    make: Callable[[], Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = verify_error_of(
        make(), monkeypatch, "scatter", change_scatter_index(WRONG_SCATTER_INDICES[name])
    )
    assert "the stage 'scatter' changed what a kernel writes" in text


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_scatter_that_reads_wrong_elements(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The indices are one of the inputs, the values the other."""
    text = verify_error_of(index_add_program(), monkeypatch, "scatter", move_index(number))
    assert "the stage 'scatter' changed what a kernel" in text


def change_initial_store(change: Callable[[UOp], UOp]) -> Change:
    """Return a change of the store that initializes the elements of a scatter."""

    def changed(graph: UOp) -> UOp:
        first = next(n for n in toposort(graph) if n.op is ops.STORE and n.src[1].op is ops.CONST)
        return substitute(graph, {first: change(first)})

    return changed


def test_a_scatter_with_a_wrong_initial_value(monkeypatch: pytest.MonkeyPatch) -> None:
    change = change_initial_store(lambda store: store.src[0].store(store.src[1] + 1))
    assert "the stage 'scatter'" in verify_error_of(
        bincount_program(), monkeypatch, "scatter", change
    )


def test_a_scatter_that_initializes_half_of_the_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(store: UOp) -> UOp:
        address = store.src[0]
        return (
            address.src[0].index(address.src[1] // 2 * 2, dtype=address.dtype).store(store.src[1])
        )

    assert "the stage 'scatter'" in verify_error_of(
        bincount_program(), monkeypatch, "scatter", change_initial_store(change)
    )


def with_axis(kind: Axis) -> Change:
    """Return a change of the axis of the ordered loop of a scatter."""

    def changed(graph: UOp) -> UOp:
        r = next(n for n in toposort(graph) if n.op is ops.RANGE and n.arg[1] is Axis.ORDERED)
        return substitute(graph, {r: UOp.range(r.src[0], r.arg[0], kind)})

    return changed


def test_scatters_are_not_parallelized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two indices may address one element: threads would lose updates of each other."""
    text = verify_error_of(
        bincount_program(), monkeypatch, "schedule loops", with_axis(Axis.THREAD)
    )
    assert "parallel iterations write the same element" in text


def test_scatters_are_not_vectorized() -> None:
    """Lanes must not update one element; where each has its own, vectorizing is right."""

    def kernel(kind: Axis, at: Callable[[UOp, UOp], UOp]) -> UOp:
        j, k = UOp.range(8, 0, kind), UOp.range(4, 1)
        out, indices = (UOp(ops.PARAM, i32.pointer(size=32), (), n) for n in (0, 1))
        address = out.index(at(j, indices.index(j).cast(index) % 8) * 4 + k)
        return ops.SINK(address.store(address + 1).end(j, k))

    assert list(bounds_and_races.check_races(kernel(Axis.ORDERED, lambda j, i: i))) == []
    (check,) = bounds_and_races.check_races(kernel(Axis.UPCAST, lambda j, i: i))
    assert not check.answer.holds
    (check,) = bounds_and_races.check_races(kernel(Axis.UPCAST, lambda j, i: j))
    assert check.answer.holds


def test_a_scatter_is_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    text = verify_error_of(bincount_program(), monkeypatch, "scatter", with_axis(Axis.LOOP))
    assert "the stage 'scatter' changed what a kernel writes" in text


# -- parallel iterations ---------------------------------------------------------------------------


def store_kernel(kind: Axis, at: Callable[[UOp, UOp], UOp], size: int = 64) -> UOp:
    r, k = UOp.range(8, 0, kind), UOp.range(8, 1)
    out = UOp(ops.PARAM, i32.pointer(size=size), (), 0)
    return ops.SINK(out.index(at(r, k)).store(UOp.const(i32, 1)).end(r, k))


@pytest.mark.parametrize(
    "at", [lambda r, k: k, lambda r, k: r * 7 + k, lambda r, k: (r // 2) * 8 + k]
)
def test_threads_that_write_the_same_element(at: Callable[[UOp, UOp], UOp]) -> None:
    with pytest.raises(VerifyError) as caught:
        verify_lowering(store_kernel(Axis.THREAD, at), GENERIC_CPU, scheduled=True)
    text = str(caught.value)
    assert "parallel iterations write the same element" in text
    assert "# thread" in text
    assert "r0' = " in text
    assert "both element " in text


@pytest.mark.parametrize(
    "at", [lambda r, k: r * 8 + k, lambda r, k: k * 8 + r, lambda r, k: (r * 8 + k) % 64]
)
def test_threads_that_write_different_elements(at: Callable[[UOp, UOp], UOp]) -> None:
    rows = verify_lowering(store_kernel(Axis.THREAD, at), GENERIC_CPU, scheduled=True)
    assert {row.how for row in rows} <= {How.PROVED, How.ALL}


def test_threads_of_a_block_that_write_the_same_element() -> None:
    assert verify_lowering(store_kernel(Axis.LOCAL, lambda r, k: r * 8 + k), SMALL, scheduled=True)
    with pytest.raises(VerifyError, match="parallel iterations write the same element"):
        verify_lowering(
            store_kernel(Axis.LOCAL, lambda r, k: r // 2 * 8 + k), SMALL, scheduled=True
        )


def test_a_gate_keeps_threads_apart() -> None:
    r = UOp.range(8, 0, Axis.THREAD)
    out = UOp(ops.PARAM, i32.pointer(size=8), (), 0)

    def kernel(limit: int) -> UOp:
        at = (r < limit).where(r * 0, UOp(ops.INVALID, r.dtype))
        return ops.SINK(out.index(at).store(UOp.const(i32, 1)).end(r))

    assert verify_lowering(kernel(1), GENERIC_CPU, scheduled=True)
    with pytest.raises(VerifyError, match="same element"):
        verify_lowering(kernel(2), GENERIC_CPU, scheduled=True)


@pytest.mark.parametrize("kind", [Axis.LOOP, Axis.ORDERED])
def test_a_loop_is_not_parallel(kind: Axis) -> None:
    assert verify_lowering(store_kernel(kind, lambda r, k: k), GENERIC_CPU, scheduled=True)


# -- data ------------------------------------------------------------------------------------------


def test_an_index_from_data_without_a_gate_is_an_assumption() -> None:
    i = UOp.range(8, 0)
    x, w = (UOp(ops.PARAM, i32.pointer(size=8), (), n) for n in (1, 2))
    y = UOp(ops.PARAM, i32.pointer(size=8), (), 0)
    at = w.index(i).cast(index)
    kernel = ops.SINK(y.index(i).store(x.index(at)).end(i))
    rows = verify_lowering(kernel, GENERIC_CPU, scheduled=True)
    (row,) = [row for row in rows if row.how is How.ASSUMED]
    assert "what the kernel reads as an index is one" in row.detail
    gated = ops.SINK(
        y.index(i)
        .store(x.index(ops.WHERE((at >= 0) & (at < 8), at, ops.INVALID(dtype=index))))
        .end(i)
    )
    assert all(
        r.how is not How.ASSUMED for r in verify_lowering(gated, GENERIC_CPU, scheduled=True)
    )


def test_rebuilding_changes_nothing() -> None:
    """The tools that break a graph do not break it by themselves."""
    kernel = store_kernel(Axis.LOOP, lambda r, k: r * 8 + k)
    assert rebuild(kernel, lambda node, src: node.replace(src)) is kernel
