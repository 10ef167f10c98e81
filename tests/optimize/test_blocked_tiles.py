"""Blocked tiles: when a reduction is in blocks, of what size, and that the results are the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import porism
from porism.base.target import GENERIC_CPU, Memory, Target
from porism.optimize.actions.action import Action
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.reduction_blocking import Block
from porism.optimize.analysis.contraction_accesses import match_contraction
from porism.optimize.strategy import heuristic
from porism.optimize.strategy.action_plan import Plan
from porism.optimize.strategy.contractions.blocked_tiles import (
    apply_blocked_tile,
    best_blocked_tile,
)
from porism.pipeline import unscheduled_kernel


def machine(cores: int = 2, l2: int = 1 << 18) -> Target:
    memory = Memory(l1=1 << 15, l2=l2, l3=1 << 25, registers=32)
    return dataclasses.replace(GENERIC_CPU, vector_bits=(256,), cores=cores, memory=memory)


def sums_over_images(images: int, out: int = 32, inner: int = 32, size: int = 8) -> Any:
    """Return the kernel of sums over images and positions: the derivative of a convolution."""
    x, w = porism.zeros(images, inner, size, size), porism.zeros(out, inner, 3, 3)
    g = porism.zeros(images, out, size, size).realize()
    by_kernel = porism.grad(lambda w: (porism.conv2d(x.realize(), w, padding=1) * g).sum())
    return max(porism.kernels(by_kernel(w.realize())), key=lambda kernel: "+=" in kernel.text)


def blocked(kernel: Any, target: Target) -> Any:
    loops = unscheduled_kernel(kernel.node, target)
    nest = match_contraction(loops)
    assert nest is not None
    return best_blocked_tile(loops, nest, target)


def actions_of(kernel: Any) -> list[Action]:
    """Return the actions of the blocked tile of a kernel."""
    plan = Plan(unscheduled_kernel(kernel.node, machine()), machine())
    apply_blocked_tile(plan, blocked(kernel, machine()))
    return plan.actions


@pytest.mark.parametrize("sizes", [(16, 32, 32), (24, 34, 40), (15, 32, 48), (32, 40, 33)])
def test_results_of_blocks(sizes: tuple[int, int, int]) -> None:
    """Catches a block that is left out or added twice, and tiles that overlap in partial sums."""
    kernel = sums_over_images(*sizes)
    assert porism.opt(kernel, actions_of(kernel)).check() < 1e-4


def test_block_fits_half_of_the_cache() -> None:
    """Catches a footprint that forgets an operand or the cores."""
    found = blocked(sums_over_images(16), machine())
    image = (10 * 10 * 32 + 8 * 8 * 32) * 4
    assert image / 2 * found.block <= 1 << 17
    assert 16 % found.block == 0
    assert found.block * 64 >= 128


def test_each_core_has_a_chunk() -> None:
    """Catches blocks around the parallel loop: the cores would add to the same sums."""
    actions = actions_of(sums_over_images(16))
    thread = next(a for a in actions if isinstance(a, Thread))
    block = next(a for a in actions if isinstance(a, Block))
    assert thread.axis.endswith("_0")
    assert thread.axis != block.around
    assert actions[-1] is thread


def test_long_reductions_are_blocked() -> None:
    """Catches estimates by which the tile that reads both operands again and again is faster."""
    kernel = sums_over_images(32, 64, 64, size=32)
    memory = Memory(l1=48 << 10, l2=1 << 20, l3=1 << 25, registers=32)
    target = dataclasses.replace(GENERIC_CPU, vector_bits=(256, 512), cores=2, memory=memory)
    actions = heuristic.choose_actions(unscheduled_kernel(kernel.node, target), target)
    assert any(isinstance(action, Block) for action in actions)


@pytest.mark.parametrize(
    ("images", "out", "target"),
    [
        (16, 32, machine(l2=1 << 20)),  # both operands stay in the L2 cache
        (16, 512, machine()),  # the results of a core do not fit half of it
        (16, 32, machine(cores=1)),
        (5, 32, machine()),  # a block of one image is too short, and 5 has no other divisor
    ],
)
def test_not_blocked(images: int, out: int, target: Target) -> None:
    assert blocked(sums_over_images(images, out), target) is None


def test_masked_operands_are_not_blocked() -> None:
    """Catches a copy of zeros beyond the edges, whose mask would be evaluated in every block."""
    x, g = (porism.zeros(64, 32, 40).realize() for _ in range(2))
    padded = porism.pad(x, ((0, 0), (0, 0), (1, 0)))[:, :, :40]
    (kernel,) = porism.kernels(
        (padded.reshape(64, 32, 1, 40) * g.reshape(64, 1, 32, 40)).sum((0, 3))
    )
    assert blocked(kernel, machine(l2=1 << 17)) is None
