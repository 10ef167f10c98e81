"""Actions: each is legal or says why not, and the kernel computes the same afterwards."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from porism.base.dtypes import DType, f32, i32
from porism.base.errors import ActionError
from porism.base.target import GENERIC_CPU, H200
from porism.evaluate import Memory, run_arrays
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.expression import show
from porism.ir.node import UOp
from porism.ir.semantics import Array
from porism.optimize.actions import (
    Action,
    NoLocals,
    PadTo,
    Swap,
    Thread,
    Unroll,
    Upcast,
    apply_all,
)
from porism.optimize.loops import ranges_of


def pointer(number: int, size: int, dtype: DType = i32) -> UOp:
    return UOp(ops.PARAM, dtype.pointer(size=size), (), number)


def matrix_product(m: int, n: int, k: int) -> UOp:
    i, j, r = UOp.range(m, 0), UOp.range(n, 1), UOp.range(k, 2, Axis.REDUCE)
    product = pointer(1, m * k).index(i * k + r) * pointer(2, k * n).index(r * n + j)
    total = product.reduce(ops.ADD, r)
    return ops.SINK(pointer(0, m * n).index(i * n + j).store(total).end(i, j))


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
    "largest": (largest(6, 10), (6, 60)),
    "shifted": (shifted(12), (12, 12)),
}


def run(kernel: UOp, sizes: tuple[int, ...]) -> Array:
    generator = np.random.default_rng(0)
    data = [generator.integers(-9, 9, size).astype(np.int32) for size in sizes[1:]]
    buffers = [Memory.empty(i32, sizes[0]), *(Memory.of(d) for d in data)]
    run_arrays(kernel, buffers)
    assert buffers[0].written is not None
    assert buffers[0].written.all()
    return buffers[0].data


def possible(kernel: UOp) -> list[Action]:
    """Every action with small amounts that is legal on a kernel."""
    names = [show(r) for r in ranges_of(kernel)]
    found: list[Action] = [NoLocals()]
    for name in names:
        found += [Upcast(name, n) for n in (2, 3, 4)] + [Upcast(name, 2, top=True)]
        found += [Unroll(name, n) for n in (2, 3, 4)] + [Unroll(name, 2, top=True)]
        found += [PadTo(name, n) for n in (4, 8)] + [Thread(name)]
    found += [Swap(a, b) for a, b in itertools.permutations(names, 2)]
    return [action for action in found if action.is_legal(kernel, GENERIC_CPU)]


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


@pytest.mark.parametrize("name", KERNELS)
def test_pairs_of_actions_keep_the_result(name: str) -> None:
    kernel, sizes = KERNELS[name]
    expected = run(kernel, sizes)
    for first in possible(kernel):
        between = first.apply(kernel, GENERIC_CPU)
        for second in possible(between)[::3]:
            changed = second.apply(between, GENERIC_CPU)
            np.testing.assert_array_equal(
                run(changed, sizes), expected, err_msg=f"{first}, {second}"
            )


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
    (Upcast("r0", 4), "r0 has 6 iterations", "no multiple of 4"),
    (Upcast("r0", 1), "the amount is 1", "at least 2"),
    (Upcast("r2", 2), "a loop of the kind reduce", "must be of the kind loop"),
    (Unroll("r1", 2), "a loop of the kind loop", "must be of the kind reduce"),
    (Thread("r1"), "not the outermost", "Swap it outwards"),
    (Swap("r0", "r2"), "not next to each other", "one step at a time"),
    (PadTo("r0", 3), "a multiple of 3 already", "nothing needs"),
    (PadTo("r0", 64), "64 iterations instead of 6", "smaller multiple"),
]


@pytest.mark.parametrize(("action", "what", "more"), REFUSED, ids=lambda case: str(case))
def test_what_is_not_legal_is_refused_with_a_reason(action: Action, what: str, more: str) -> None:
    with pytest.raises(ActionError) as caught:
        action.apply(PRODUCT, GENERIC_CPU)
    assert what in str(caught.value)
    assert more in str(caught.value)


def test_too_many_copies_are_refused() -> None:
    kernel = apply_all(matrix_product(64, 64, 64), [Upcast("r0", 64)], GENERIC_CPU)
    with pytest.raises(ActionError, match="side by side"):
        Upcast("r1", 64).apply(kernel, GENERIC_CPU)


def test_the_order_of_a_sum_of_floats_is_kept() -> None:
    with pytest.raises(ActionError, match="reduction of floats"):
        Swap("r0", "r1").apply(FLOATS, GENERIC_CPU)


def test_a_gpu_has_no_cores_to_share_among() -> None:
    with pytest.raises(ActionError, match="the target is a GPU"):
        Thread("r0").apply(PRODUCT, H200)


def test_no_locals_is_said_once() -> None:
    kernel = NoLocals().apply(PRODUCT, H200)
    with pytest.raises(ActionError, match="said already"):
        NoLocals().apply(kernel, H200)


def test_what_is_no_action_is_refused() -> None:
    with pytest.raises(ActionError, match="is no action"):
        apply_all(PRODUCT, ["upcast"], GENERIC_CPU)  # type: ignore[list-item]
