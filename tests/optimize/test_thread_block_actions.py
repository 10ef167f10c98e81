"""Thread block actions: legal or refused with a reason, and the lowered kernel computes the same.

Kernels are run by the evaluator in all their threads, in order and in reverse; it refuses races,
barriers that not all threads reach, and reads of what was never written.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from porism.base.dtypes import f16, f32, f64, i8, i32, index
from porism.base.errors import ActionError
from porism.base.gpu_targets import H200
from porism.base.target import GENERIC_CPU, Memory, Target
from porism.evaluate import run_arrays
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.gpu.tensor_core_action import TC
from porism.optimize.actions.gpu.thread_block_actions import Group, GroupTop, Local, NoLocals
from porism.optimize.actions.loop_substitution import ranges_of
from porism.optimize.actions.loops.loop_interchange import Swap
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from tests.block_kernels import (
    CASES,
    SMALL,
    TINY,
    Case,
    check,
    lines_of,
    outputs_of,
    pointer,
    product_case,
    run_graph,
    started,
)

EXPECTED = {name: run_graph(case, case.kernel) for name, case in CASES.items()}


def legal(kernel: UOp, target: Target) -> list[Action]:
    """Return every legal thread block action with a small amount, and a few others."""
    names = [show(r) for r in ranges_of(kernel)]
    actual: list[Action] = []
    for name in names:
        actual += [Local(name, n) for n in (2, 3, 4, 8)]
        actual += [Group(name, n) for n in (2, 3, 4, 8)] + [GroupTop(name, n) for n in (2, 4)]
        actual += [Upcast(name, 2), Unroll(name, 2), PadTo(name, 4)]
    actual += [Swap(a, b) for a, b in itertools.pairwise(names)]
    return [action for action in actual if action.is_legal(kernel, target)]


@pytest.mark.parametrize("target", [TINY, SMALL], ids=lambda target: target.name)
@pytest.mark.parametrize("name", CASES)
def test_kernels_without_actions(name: str, target: Target) -> None:
    check(CASES[name], started(CASES[name]), target, EXPECTED[name], name)


@pytest.mark.slow
@pytest.mark.parametrize("target", [TINY, SMALL], ids=lambda target: target.name)
@pytest.mark.parametrize("name", CASES)
def test_every_legal_action_keeps_the_result(name: str, target: Target) -> None:
    case = CASES[name]
    kernel = started(case)
    actions = legal(kernel, target)
    assert any(isinstance(action, (Local, Group)) for action in actions) or name == "odd product"
    for action in actions:
        check(case, action.apply(kernel, target), target, EXPECTED[name], str(action))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_pairs_of_actions_keep_the_result(name: str) -> None:
    """Each action followed by some others, chosen by a fixed seed."""
    case = CASES[name]
    kernel = started(case)
    choose = random.Random(name)
    for first in legal(kernel, SMALL):
        between = first.apply(kernel, SMALL)
        following = legal(between, SMALL)
        for second in choose.sample(following, min(2, len(following))):
            what = f"{first}, {second}"
            check(case, second.apply(between, SMALL), SMALL, EXPECTED[name], what)


SEQUENCES: dict[str, list[list[Action]]] = {
    "product": [
        [Local("r0", 2), Local("r1", 4), Group("r2", 3), Unroll("r2_0", 2)],
        [Upcast("r0", 2), Upcast("r1", 2), Local("r1_0", 2), GroupTop("r2", 2)],
        [Group("r2", 2), Group("r2_0", 3), Local("r0", 2)],
    ],
    "centred": [
        [Group("r2", 4), Group("r3", 4), Local("r1", 4)],
        [Group("r2", 2), Group("r3", 4), Local("r1", 8)],
    ],
    "kept row": [
        [Group("r3", 4), Group("r4", 4), Local("r1", 4), Local("r2", 4)],
        [Local("r0", 2), Local("r2", 4), Upcast("r1", 2)],
        [Upcast("r0", 2), Local("r2", 8), Group("r4", 8)],
        [Local("r0", 2)],
    ],
    "chained": [
        [Local("r4", 2), Group("r3", 2), Group("r2", 2)],
        [Local("r4", 4), Group("r3", 2), Local("r1", 4), Local("r0", 2)],
        [Upcast("r0", 2), Local("r4", 4), Group("r3", 2), Group("r3_0", 2)],
    ],
    "two outputs": [[Local("r0", 2), Local("r1", 3), Group("r2", 4)]],
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_longer_sequences_keep_the_result(name: str) -> None:
    for actions in SEQUENCES[name]:
        kernel = apply_all(started(CASES[name]), actions, SMALL)
        check(CASES[name], kernel, SMALL, EXPECTED[name], str(actions))


def test_threads_take_turns_where_they_can() -> None:
    """The threads that reduce a row are those that fill and write it."""
    kernel = apply_all(started(CASES["kept row"]), SEQUENCES["kept row"][0], SMALL)
    threads = {n.arg: n for n in lines_of(kernel, SMALL) if n.op is ops.SPECIAL}
    assert [n.src[0].arg for name, n in threads.items() if "thread" in name] == [4]


# -- refusals --------------------------------------------------------------------------------------

PRODUCT = CASES["product"].kernel


def counted(n: int) -> UOp:
    """Return a kernel that reduces indices."""
    i, r = UOp.range(n, 0), UOp.range(4, 1, Axis.REDUCE)
    at = (i + r).reduce(ops.MAX, r)
    return ops.SINK(pointer(0, n).index(i).store(pointer(1, n + 3).index(at)).end(i))


def running(n: int) -> UOp:
    """Return a kernel that writes each element from the one before."""
    i = UOp.range(n, 0)
    at = (i >= 1).where(i - 1, UOp(ops.INVALID, i.dtype))
    return ops.SINK(pointer(0, n).index(i).store(pointer(0, n).index(at) + 1).end(i))


def triangle(n: int) -> UOp:
    """Return a kernel with a loop whose extent depends on another loop."""
    i = UOp.range(n, 0)
    r = UOp.range(i + 1, 1, Axis.REDUCE)
    total = pointer(1, n).index(r).reduce(ops.ADD, r)
    return ops.SINK(pointer(0, n).index(i).store(total).end(i))


REFUSED = [
    (Local("r9", 2), PRODUCT, SMALL, "there is no loop r9", "r0, r1, r2"),
    (Local("r0", 2), PRODUCT, GENERIC_CPU, "has no blocks of threads", "use Thread or Upcast"),
    (Group("r2", 2), PRODUCT, GENERIC_CPU, "has no blocks of threads", "only a GPU has them"),
    (Local("r2", 2), PRODUCT, SMALL, "of the kind reduce", "must be of the kind loop"),
    (Group("r1", 2), PRODUCT, SMALL, "of the kind loop", "must be of the kind reduce"),
    (GroupTop("r1", 2), PRODUCT, SMALL, "of the kind loop", "must be of the kind reduce"),
    (Local("r1", 3), PRODUCT, SMALL, "the extent of r1 is 4", "PadTo('r1', 3) first"),
    (Local("r1", 1), PRODUCT, SMALL, "the amount is 1", "at least 2"),
    (Local("r0", 2), NoLocals().apply(PRODUCT, SMALL), SMALL, "no threads", "leave NoLocals out"),
    (Group("r2", 2), NoLocals().apply(PRODUCT, SMALL), SMALL, "no threads", "leave NoLocals out"),
    (Group("r1", 2), counted(4), SMALL, "reduces an index", "no width yet"),
    (Local("r0", 2), running(4), SMALL, "depend on each other", "one reads what another writes"),
    (Local("r0", 2), triangle(4), SMALL, "the extent of r1 depends on r0", "the same iterations"),
    (TC("r0", "r1", "r2"), PRODUCT, H200, "no tensor core multiplies i32 and i32", "i8 → i32"),
    (
        TC("r0", "r0", "r2"),
        PRODUCT,
        H200,
        "not the reduction axis of a matrix product",
        "other loops",
    ),
]


@pytest.mark.parametrize(
    ("action", "kernel", "target", "what", "more"),
    REFUSED,
    ids=lambda case: str(case) if isinstance(case, Action) else "",
)
def test_an_illegal_action_is_refused_with_a_reason(
    action: Action, kernel: UOp, target: Target, what: str, more: str
) -> None:
    with pytest.raises(ActionError) as caught:
        action.apply(kernel, target)
    assert what in str(caught.value)
    assert more in str(caught.value)


def test_more_threads_than_a_block_has_are_refused() -> None:
    kernel = apply_all(PRODUCT, [Local("r1", 4), Local("r0", 2)], TINY)
    with pytest.raises(ActionError, match="24 threads") as caught:
        Group("r2", 3).apply(kernel, TINY)
    assert "16, 4 × 4 × 2 at most" in str(caught.value)


def test_ranges_that_are_reduced_together_are_threads_of_their_own() -> None:
    first, second = UOp.range(4, 0, Axis.REDUCE), UOp.range(4, 1, Axis.REDUCE)
    total = pointer(1, 4).index(first).reduce(ops.ADD, first, second)
    case = Case(ops.SINK(pointer(0, 1).index(UOp.const(index, 0)).store(total)), (1,), (4,))
    kernel = Group("r0", 4).apply(started(case), TINY)
    both = Group("r1", 4).apply(kernel, TINY)
    check(case, both, TINY, run_graph(case, case.kernel), "16 threads")
    with pytest.raises(ActionError, match="16 threads"):
        Group("r1", 4).apply(kernel, replace(TINY, block_threads=8))


def test_more_local_memory_than_a_block_has_is_refused() -> None:
    poor = Target(**{**_fields(SMALL), "memory": Memory(local=48)})
    kernel = Local("r0", 2).apply(started(CASES["kept row"]), poor)
    check(CASES["kept row"], kernel, poor, EXPECTED["kept row"], "each thread has its row")
    with pytest.raises(ActionError, match="64 bytes of local memory"):
        Local("r2", 4).apply(kernel, poor)
    kernel = Group("r1", 8).apply(started(CASES["row sums"]), poor)
    for action in (Local("r0", 3), Upcast("r0", 2)):
        with pytest.raises(ActionError, match="a block would need"):
            action.apply(kernel, poor)


def _fields(target: Target) -> dict[str, Any]:
    return {name: getattr(target, name) for name in target.__slots__}


def test_threads_are_not_padded() -> None:
    kernel = Local("r1", 4).apply(PRODUCT, SMALL)
    with pytest.raises(ActionError, match="of the kind local"):
        PadTo("r1_1", 3).apply(kernel, SMALL)


# -- tensor cores ----------------------------------------------------------------------------------

MULTIPLY = TC("r0", "r1", "r2")

PRODUCTS: dict[str, tuple[Case, list[Action]]] = {
    "halves": (product_case(16, 8, 16, f16, f32), [MULTIPLY]),
    "halves to halves": (product_case(16, 8, 16, f16, f16), [MULTIPLY]),
    "bytes": (product_case(16, 8, 64, i8, i32), [MULTIPLY]),
    "doubles": (product_case(8, 16, 8, f64, f64), [MULTIPLY]),
    "several tiles in a thread": (
        product_case(32, 8, 32, f16, f32),
        [MULTIPLY, Upcast("r0_0", 2), Unroll("r2_0", 2)],
    ),
    "several warps": (product_case(32, 8, 16, f16, f32), [MULTIPLY, Local("r0_0", 2)]),
    "padded": (
        product_case(14, 7, 13, f16, f32),
        [PadTo("r0", 16), PadTo("r1", 8), PadTo("r2", 16), MULTIPLY],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PRODUCTS)
def test_tensor_cores_multiply(name: str) -> None:
    """Small whole numbers, so that every sum is exact."""
    case, actions = PRODUCTS[name]
    expected = run_graph(case, case.kernel)
    kernel = apply_all(case.kernel, actions, H200)
    result = outputs_of(case, lambda buffers: run_arrays(kernel, buffers))
    np.testing.assert_array_equal(result[0], expected[0], err_msg="before lowering")
    assert any(n.op is ops.WMMA for n in lines_of(kernel, H200))
    check(case, kernel, H200, expected, name)


def test_accumulators_of_tensor_cores_are_in_registers() -> None:
    case = product_case(16, 8, 64, f16, f32)
    lines = lines_of(apply_all(case.kernel, [MULTIPLY, Unroll("r2_0", 2)], H200), H200)
    products = [n for n in lines if n.op is ops.WMMA]
    assert len(products) == 2
    assert products[1].src[2] is products[0]
    assert products[0].src[2].op is ops.LOAD
    assert not any(n.op is ops.ADD and n.dtype.is_float for n in lines)


def test_a_product_that_no_tensor_core_supports_is_a_loop() -> None:
    case = product_case(16, 8, 16, f16, f32)
    kernel = MULTIPLY.apply(case.kernel, H200)
    other = Target(**{**_fields(H200), "name": "none", "tensor_cores": ()})
    assert not any(n.op is ops.WMMA for n in lines_of(kernel, other))
    check(case, kernel, other, run_graph(case, case.kernel), "without tensor cores")


def test_tensor_cores_need_extents_that_are_multiples() -> None:
    with pytest.raises(ActionError, match="no multiple of 16") as caught:
        MULTIPLY.apply(product_case(14, 8, 16, f16, f32).kernel, H200)
    assert "PadTo('r0', 16) first" in str(caught.value)


def test_tensor_cores_do_not_round_products() -> None:
    i, j, r = UOp.range(16, 0), UOp.range(8, 1), UOp.range(16, 2, Axis.REDUCE)
    left, right = pointer(1, 256, f16).index(i * 16 + r), pointer(2, 128, f16).index(r * 8 + j)
    total = (left * right).cast(f32).reduce(ops.ADD, r)
    kernel = ops.SINK(pointer(0, 128, f32).index(i * 8 + j).store(total).end(i, j))
    with pytest.raises(ActionError, match="not the reduction axis of a matrix product"):
        MULTIPLY.apply(kernel, H200)


def test_the_reduction_of_a_tensor_core_is_not_grouped() -> None:
    case = product_case(16, 8, 64, f16, f32)
    with pytest.raises(ActionError, match="the reduction of a tensor core"):
        Group("r2_0", 2).apply(MULTIPLY.apply(case.kernel, H200), H200)
    with pytest.raises(ActionError, match="the reduction is that of a group"):
        TC("r0", "r1", "r2_0").apply(Group("r2", 4).apply(case.kernel, H200), H200)


def test_a_warp_does_not_fit_in_a_tiny_block() -> None:
    case = product_case(16, 8, 16, f16, f32)
    tiny = Target(**{**_fields(TINY), "tensor_cores": H200.tensor_cores})
    with pytest.raises(ActionError, match="32 threads"):
        MULTIPLY.apply(case.kernel, tiny)


def test_the_loops_of_a_warp_are_not_split() -> None:
    kernel = MULTIPLY.apply(product_case(16, 8, 16, f16, f32).kernel, H200)
    kinds = {show(n): n.arg[1] for n in toposort(kernel) if n.op is ops.RANGE}
    assert kinds["r0_2"] is kinds["r1_3"] is kinds["r2_1"] is Axis.WARP
    for action in (Upcast("r0_2", 2), Local("r1_3", 2), Unroll("r2_1", 2), PadTo("r0_2", 3)):
        with pytest.raises(ActionError, match="of the kind warp"):
            action.apply(kernel, H200)
