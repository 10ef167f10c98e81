"""Transposed tiles: vectors along a strided output loop, for pre-packed constants."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.target import GENERIC_CPU, Memory, Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.optimize.actions.memory.epilogue import Epilogue
from porism.optimize.actions.memory.packed_panels import Pack
from porism.optimize.analysis.contraction_accesses import match_contraction
from porism.optimize.model.tile_plan import TilePlan
from porism.optimize.strategy import heuristic
from porism.optimize.strategy.action_plan import Plan
from porism.optimize.strategy.contractions.prepacked_weights import prepack_constants
from porism.optimize.strategy.contractions.tile_plans import ranked_plans
from porism.optimize.strategy.contractions.transposed_tiles import apply_transposed_tile
from porism.pipeline import lower_kernel, unscheduled_kernel

TARGET = dataclasses.replace(
    GENERIC_CPU,
    vector_bits=(128, 256, 512),
    memory=Memory(l1=1 << 15, l2=1 << 20, l3=1 << 25, registers=32),
    cores=2,
)
WEIGHT = frozenset({2})


def normal(*shape: int) -> Any:
    return porism.asarray(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def convolution(
    before: int, size: int, after: int, taps: int = 3, images: int = 1, **more: Any
) -> Any:
    x, weight = normal(images, before, size, size), normal(after, before, taps, taps)
    return porism.conv2d(x, weight, **more).relu()


PROGRAMS = {
    "windows": lambda: convolution(32, 7, 64, padding=1),
    "two parts": lambda: convolution(40, 6, 32, padding=1),
    "steps": lambda: convolution(32, 9, 64, padding=1, stride=2),
    "large images": lambda: convolution(48, 60, 32, padding=1),
    "large images with steps": lambda: convolution(48, 60, 64, padding=1, stride=2),
    "no border": lambda: convolution(40, 9, 64),
    "points": lambda: convolution(512, 7, 64, taps=1),
    "points with steps": lambda: convolution(512, 9, 32, taps=1, stride=2),
}


def loops_of(tensor: Any, target: Target = TARGET) -> tuple[Any, UOp]:
    (kernel,) = porism.kernels(tensor)
    return kernel, unscheduled_kernel(kernel.node, target)


def transposed(loops: UOp, constants: frozenset[int] = WEIGHT) -> list[tuple[float, TilePlan]]:
    """Return the transposed tiles with their cycles, the best estimate first."""
    actual = match_contraction(loops, constants)
    assert actual is not None
    return [pair for pair in ranked_plans(actual, TARGET) if pair[1].is_transposed]


def transposed_plan(loops: UOp) -> Plan:
    """Return the plan of the transposed tile with the best estimate."""
    actual = match_contraction(loops, WEIGHT)
    assert actual is not None
    _, tile = transposed(loops)[0]
    plan = Plan(loops, TARGET)
    apply_transposed_tile(plan, actual, tile)
    return plan


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_transposed_tile_computes_the_same(name: str) -> None:
    kernel, loops = loops_of(PROGRAMS[name]())
    assert porism.opt(kernel, transposed_plan(loops).actions).check() < 1e-5


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_weights_are_prepacked(name: str) -> None:
    _, loops = loops_of(PROGRAMS[name]())
    plan = transposed_plan(loops)
    assert any(isinstance(a, Pack) and a.buffer == 2 for a in plan.actions)
    assert any(isinstance(a, Epilogue) for a in plan.actions)
    copies = prepack_constants(plan.kernel, WEIGHT, TARGET)
    assert copies is not None
    assert [copy.source for copy in copies.copies] == [2]


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_stores_are_vectors(name: str) -> None:
    _, loops = loops_of(PROGRAMS[name]())
    lines = lower_kernel(transposed_plan(loops).kernel, TARGET, scheduled=True)
    stores = [n for n in lines if n.op is ops.STORE and base_of(n.src[0]).op is ops.PARAM]
    assert stores
    assert all(n.src[1].dtype.count >= 4 for n in stores)
    assert all(n.src[0].src[1].dtype.count == 1 for n in stores)


def test_tiles_are_transposed_in_registers_or_not_at_all() -> None:
    """No row of 13 is divided by four or more: stores would be element by element."""
    for size, is_transposed in ((13, False), (16, True)):
        _, loops = loops_of(convolution(64, size, 64, padding=1))
        plans = [plan for _, plan in transposed(loops)]
        assert bool(plans) is is_transposed
        assert all(plan.m >= 4 for plan in plans)


@pytest.mark.parametrize(("name", "parts"), [("points", 8), ("windows", 2)])
def test_each_core_gets_one_chunk_of_panels_where_it_packs(name: str, parts: int) -> None:
    size = 256 if name == "points" else 128
    taps = 1 if name == "points" else 3
    _, loops = loops_of(convolution(512, 7, size, taps=taps, padding=taps // 2))
    outer = transposed_plan(loops).kernel.src[0].src[1]
    assert outer.arg[1] is Axis.THREAD
    assert int(outer.vmax) + 1 == parts


def test_only_constants_have_transposed_tiles() -> None:
    _, loops = loops_of(PROGRAMS["windows"]())
    for constants in (frozenset[int](), frozenset({1})):
        assert not transposed(loops, constants)
    assert heuristic.schedule_loops(loops, TARGET) is not heuristic.schedule_loops(
        loops, TARGET, WEIGHT
    )


def test_short_reductions_have_no_transposed_tiles() -> None:
    _, loops = loops_of(convolution(16, 16, 64, taps=1))
    assert heuristic.schedule_loops(loops, TARGET) is heuristic.schedule_loops(
        loops, TARGET, WEIGHT
    )


def test_results_of_a_jitted_function_with_such_weights() -> None:
    x, weight = normal(1, 32, 7, 7), normal(64, 32, 3, 3).realize()
    function = porism.jit(lambda x: porism.conv2d(x, weight, padding=1))
    wanted = porism.conv2d(x, weight, padding=1).numpy()
    for _ in range(3):
        np.testing.assert_allclose(function(x).numpy(), wanted, rtol=1e-4, atol=1e-4)
