"""Shared tiles: copies by all threads of a block, the barriers around them, and shared indices."""

from __future__ import annotations

import dataclasses
import math

import pytest

from porism.base.dtypes import f32
from porism.base.errors import ActionError
from porism.base.target import GENERIC_CPU
from porism.ir import ops
from porism.ir.node import UOp
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.gpu.shared_tile import Stage
from porism.optimize.actions.gpu.thread_block_actions import Group, Local
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.loop_tiling import Split
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.rules.addresses.launch_dims import launch_of
from tests.block_kernels import (
    SMALL,
    Case,
    check,
    lines_of,
    matrix_product,
    product_case,
    row_sums,
    run_graph,
    started,
    two_outputs,
)
from tests.tiers import quick_if

PRODUCT = product_case(8, 8, 8, f32, f32)
THREADS: list[Action] = [Upcast("r0", 2), Local("r0_0", 4), Upcast("r1", 2), Local("r1_0", 4)]
ROWS, COLUMNS = "2*r0_0_1+r0_1", "2*r1_0_1+r1_1"

TILES: dict[str, list[Action]] = {
    "one element at a time": [Stage(1, (ROWS, "r2"), 16)],
    "both operands": [Stage(1, ("r2", ROWS), 16), Stage(2, ("r2", COLUMNS), 16)],
    "vectors": [Stage(1, ("r2", ROWS), 16, 4), Stage(2, ("r2", COLUMNS), 16, 4)],
    "padding": [Stage(1, (ROWS, "r2"), 16, 2, 3), Stage(2, (COLUMNS, "r2"), 16, 2, 1)],
    "fewer threads": [Stage(1, (ROWS, "r2"), 8), Stage(2, ("r2", COLUMNS), 4)],
    "more threads": [Stage(1, (ROWS, "r2"), 64), Stage(2, ("r2", COLUMNS), 32)],
    "steps": [
        Split("r2", 4),
        Stage(1, (ROWS, "r2_1"), 16, 2),
        Stage(2, ("r2_1", COLUMNS), 16),
        Unroll("r2_1", 4),
    ],
}


@pytest.mark.parametrize("name", quick_if(lambda n: n in ("vectors", "steps"), TILES))
def test_products_of_staged_tiles_are_right(name: str) -> None:
    """Races, missing barriers and wrong addresses fail on the evaluator's threads."""
    kernel = apply_all(started(PRODUCT), [*THREADS, *TILES[name]], SMALL)
    check(PRODUCT, kernel, SMALL, run_graph(PRODUCT, PRODUCT.kernel), name)


def test_a_masked_tile_is_right() -> None:
    case = Case(matrix_product(7, 8, 5), (56,), (35, 40))
    actions = [
        PadTo("r0", 8),
        PadTo("r2", 8),
        *THREADS,
        Stage(1, (ROWS, "r2"), 16, 2),
        Stage(2, ("r2", COLUMNS), 16, 2),
    ]
    kernel = apply_all(started(case), actions, SMALL)
    check(case, kernel, SMALL, run_graph(case, case.kernel), "masked")


def _lines(actions: list[Action]) -> list[UOp]:
    return lines_of(apply_all(started(PRODUCT), actions, SMALL), SMALL)


def test_two_tiles_of_a_step_have_two_barriers() -> None:
    """One before the copies and one after them, so that the loads of both are in flight."""
    lines = _lines([*THREADS, *TILES["steps"]])
    assert sum(n.op is ops.BARRIER for n in lines) == 2


def test_the_threads_that_copy_are_those_that_compute() -> None:
    def threads(name: str) -> int:
        return math.prod(launch_of(_lines([*THREADS, *TILES[name]])).sizes()[1])

    assert threads("both operands") == threads("fewer threads") == 16
    assert threads("more threads") == 64


def test_outputs_of_different_size_share_one_grid() -> None:
    case = Case(two_outputs(4, 6), (4, 6), (24,))
    lines = lines_of(started(case), SMALL)
    assert launch_of(lines).sizes()[0] == (6, 1, 1)
    check(case, started(case), SMALL, run_graph(case, case.kernel), "two outputs")


REFUSED: list[tuple[Stage, str]] = [
    (Stage(0, (ROWS,), 16), "written as well"),
    (Stage(1, (ROWS, "r2"), 16, 3), "rows of 8 elements"),
    (Stage(1, (ROWS, "r2"), 12), "no multiple of 12 threads"),
    (Stage(1, ("r0_1", "r2"), 0), "by 0 threads"),
    (Stage(1, ("r0_1+r0_0_1", "r2"), 16), "not a function of these sums"),
    (Stage(1, (ROWS, "r2"), 16, padding=200), "bytes of local memory"),
]


@pytest.mark.parametrize(("action", "why"), REFUSED, ids=str)
def test_what_is_not_legal_is_refused_with_a_reason(action: Stage, why: str) -> None:
    kernel = apply_all(started(PRODUCT), THREADS, SMALL)
    with pytest.raises(ActionError, match=why):
        action.apply(kernel, SMALL)


def test_a_thread_copies_no_more_than_its_registers_hold() -> None:
    case = product_case(64, 8, 64, f32, f32)
    with pytest.raises(ActionError, match="each thread would copy 256 elements"):
        Stage(1, ("r0", "r2"), 16).apply(case.kernel, dataclasses.replace(SMALL, name="g"))


def test_a_processor_has_no_threads_that_copy() -> None:
    with pytest.raises(ActionError, match="no blocks of threads"):
        Stage(1, ("r0", "r2"), 16).apply(PRODUCT.kernel, GENERIC_CPU)


def test_many_partial_results_are_reduced_in_two_steps() -> None:
    case = Case(row_sums(2, 64), (2,), (128,))
    kernel = apply_all(started(case), [Group("r1", 32), Local("r0", 2)], SMALL)
    lines = lines_of(kernel, SMALL)
    assert sum(n.op is ops.BARRIER for n in lines) == 2
    check(case, kernel, dataclasses.replace(SMALL, block=(64, 16, 16)),
          run_graph(case, case.kernel), "two steps")  # fmt: skip
