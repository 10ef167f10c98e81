"""Peeling: the remainder of reductions in a loop of its own, by hand and by the heuristic."""

from __future__ import annotations

from dataclasses import replace

import pytest

import porism
from porism.base.errors import ActionError
from porism.base.target import GENERIC_CPU, Target
from porism.optimize.actions.action import Action
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.loop_tiling import Split
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.peeling import Peel
from porism.optimize.actions.loops.reduction_blocking import Block
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.actions.memory.packed_panels import Pack
from porism.optimize.strategy import heuristic
from porism.pipeline import unscheduled_kernel
from tests.optimize.programs import kernel_of, values


@pytest.mark.parametrize(
    "actions",
    [
        [Peel("r2", 16)],
        [Peel("r2", 8), Unroll("r2_0", 8), Unroll("r2_1", 5)],
        [Upcast("r0", 4), Upcast("r1", 16), Peel("r2", 4), Unroll("r2_0", 4), Thread("r0_0")],
        [Peel("r2", 36)],
        [Peel("r2", 16), Pack(2, ("r2_0", "r1"))],
    ],
    ids=str,
)
def test_a_peeled_reduction_has_all_terms(actions: list[Action]) -> None:
    kernel = kernel_of((values(12, 37) @ values(37, 64) + 1).exp())
    assert porism.opt(kernel, actions).check() < 1e-5


def test_several_reductions_over_a_loop_are_peeled_together() -> None:
    x = values(16, 45)
    kernel = kernel_of(x.sum(axis=1) / x.max(axis=1))
    assert porism.opt(kernel, [Peel("r1", 16), Unroll("r1_0", 16)]).check() < 1e-5


REFUSED = [
    ([Peel("r2", 37)], "the extent of r2 is 37", "leaves no remainder"),
    ([Split("r1", 16), Peel("r2", 1)], "the extent of r2 is 37", "leaves no remainder"),
    ([Peel("r1", 5)], "a loop of the kind loop", "must be of the kind reduce"),
    ([Block("r2", 8, "r1"), Peel("r2_0", 3)], "a loop of the kind ordered", "reduce"),
]


@pytest.mark.parametrize(("actions", "what", "why"), REFUSED)
def test_an_illegal_peel_is_refused(actions: list[Action], what: str, why: str) -> None:
    kernel = kernel_of(values(12, 37) @ values(37, 64))
    with pytest.raises(ActionError, match=rf"{what}[\s\S]*{why}"):
        porism.opt(kernel, actions)


def test_one_of_two_loops_of_a_reduction_is_refused() -> None:
    kernel = kernel_of(values(4, 5, 7).sum(axis=(0, 2)))
    with pytest.raises(ActionError, match="not the only loop"):
        porism.opt(kernel, [Peel("r2", 2)])


# -- where the heuristic does it -------------------------------------------------------------------


def wide() -> Target:
    memory = replace(GENERIC_CPU.memory, registers=32)
    return replace(GENERIC_CPU, cores=2, vector_bits=(128, 256, 512), memory=memory)


@pytest.mark.parametrize("terms", [65, 300, 1000, 1023])
def test_the_last_terms_of_dot_products_are_peeled(terms: int) -> None:
    kernel = kernel_of(values(50, terms) @ values(terms))
    actions = heuristic.choose_actions(unscheduled_kernel(kernel.node, wide()), wide())
    assert any(isinstance(a, Peel) for a in actions)
    assert porism.opt(kernel, actions).check() < 1e-5


def test_nothing_is_peeled_where_vectors_fit() -> None:
    kernel = kernel_of(values(50, 512) @ values(512))
    actions = heuristic.choose_actions(unscheduled_kernel(kernel.node, wide()), wide())
    assert not any(isinstance(a, Peel) for a in actions)


@pytest.mark.parametrize("terms", [17, 33, 36, 100, 197, 777, 1000])
@pytest.mark.parametrize("name", ["sum", "max", "argmax", "softmax"])
def test_the_last_elements_of_rows_are_peeled(name: str, terms: int) -> None:
    kernel = kernel_of(getattr(values(50, terms), name)(axis=1))
    actions = heuristic.choose_actions(unscheduled_kernel(kernel.node, wide()), wide())
    assert any(isinstance(a, Peel) for a in actions)
    assert porism.opt(kernel, actions).check() < 1e-5
    padded = [a for a in actions if isinstance(a, PadTo) and not a.axis.endswith("_1")]
    assert name == "softmax" or not padded  # only what is left over is masked


def test_rows_without_a_rest_are_not_peeled() -> None:
    kernel = kernel_of(values(50, 96).sum(axis=1))
    actions = heuristic.choose_actions(unscheduled_kernel(kernel.node, wide()), wide())
    assert not any(isinstance(a, Peel) for a in actions)
