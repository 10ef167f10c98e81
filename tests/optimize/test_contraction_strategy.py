"""Contraction strategy: kernels with several contractions in sequence."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest

import porism
from porism.backends.llvm.host_target import host_target
from porism.base.errors import ActionError
from porism.engine.run import realize
from porism.ir.node import UOp
from porism.optimize.actions import loop_substitution
from porism.optimize.actions.action import apply_all
from porism.optimize.actions.loops import upcast_unroll
from porism.optimize.actions.loops.upcast_unroll import Upcast, upcast_together
from porism.optimize.strategy.contractions.contraction_strategy import plan_contraction
from porism.pipeline import unscheduled_kernel


def layers(count: int) -> UOp:
    """Return a kernel of dense layers, each of which reads the local buffer of the one before."""
    widths = [(64, 96, 128)[k % 3] for k in range(count + 1)]
    y = porism.asarray(np.zeros((32, widths[0]), np.float32))
    for before, after in pairwise(widths):
        y = porism.relu(y @ porism.asarray(np.zeros((before, after), np.float32)))
    (step,) = realize.schedule_of(realize.request([y.node]).graph).steps
    return unscheduled_kernel(step.kernel, host_target())


def upcasts(kernel: UOp) -> list[Upcast]:
    return [a for a in plan_contraction(kernel, host_target()).actions if isinstance(a, Upcast)]


def test_upcasts_in_one_traversal_are_those_in_sequence() -> None:
    kernel = layers(5)
    actions = upcasts(kernel)
    assert len({action.axis for action in actions}) >= 5
    assert upcast_together(actions, kernel, host_target()) is apply_all(
        kernel, actions, host_target()
    )


def test_the_kernel_of_a_plan_is_that_of_its_actions() -> None:
    kernel = layers(7)
    plan = plan_contraction(kernel, host_target())
    assert plan.kernel is apply_all(kernel, plan.actions, host_target())


def test_the_traversals_grow_less_than_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change goes through all layers behind it."""
    few, many = layers(4), layers(12)
    changes: list[UOp] = []
    change = loop_substitution.replace_loops

    def counted(kernel: UOp, parts: Mapping[UOp, loop_substitution.Replacement]) -> UOp:
        changes.append(kernel)
        return change(kernel, parts)

    monkeypatch.setattr(loop_substitution, "replace_loops", counted)
    monkeypatch.setattr(upcast_unroll, "replace_loops", counted)
    plan_contraction(few, host_target())
    before = len(changes)
    plan_contraction(many, host_target())
    assert len(changes) == 2 * before


def test_an_upcast_that_is_illegal_alone_is_illegal_together() -> None:
    kernel = layers(3)
    actions = upcasts(kernel)
    with pytest.raises(ActionError, match="no multiple of 7"):
        upcast_together([*actions[:-1], Upcast(actions[-1].axis, 7)], kernel, host_target())


def test_a_part_of_a_loop_has_its_axis_as_a_prefix() -> None:
    whole, one, other = (UOp.range(8, axis) for axis in [(0, 1), (0, 1, 0), (0, 0, 1)])
    assert loop_substitution.is_part_of(whole, whole)
    assert loop_substitution.is_part_of(one, whole)
    assert not loop_substitution.is_part_of(other, whole)
    assert not loop_substitution.is_part_of(UOp.range(8, (0,)), whole)
    assert not loop_substitution.is_part_of(UOp.range(8, (10,)), UOp.range(8, (1,)))


@pytest.mark.parametrize("dtype", ["uint32", "float32"])
def test_a_contraction_whose_loops_were_split_before(dtype: str) -> None:
    """A result under other dims is written by a loop that was split before tiles are chosen."""
    for rows, terms, columns in [(7, 4, 6), (9, 5, 8), (5, 3, 12)]:
        a = np.arange(rows * terms).reshape(rows, terms).astype(dtype)
        b = np.arange(terms * columns).reshape(terms, columns).astype(dtype)
        actual = (porism.asarray(a) @ porism.asarray(b)).T.reshape(rows, columns)
        np.testing.assert_array_equal(actual.numpy(), (a @ b).T.reshape(rows, columns))


def test_small_images_have_a_tile() -> None:
    rng = np.random.default_rng(0)
    for size in (4, 5, 6):  # 25 results fill no vectors without much padding
        x = rng.standard_normal((2, 16, size, size)).astype(np.float32)
        w = rng.standard_normal((32, 16, 3, 3)).astype(np.float32)
        result = porism.conv2d(x, w, padding=1)
        (kernel,) = porism.kernels(result)
        assert "Upcast" in str(kernel), size
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        expected = np.einsum("nchwkl,ockl->nohw", windows, w)
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-4)
