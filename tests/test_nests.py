"""Random loop nests for half a minute, and bugs put into passes, which they find.

`./dev fuzz nests --minutes N` is the long run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

import fuzz.nests
from fuzz.loop_nests.cases import Counts
from fuzz.loop_nests.choices import Choices, shrunk
from fuzz.nests import STAGES, faults_of, main, smaller, told
from porism import pipeline
from porism.base.dtypes import DType, Scalar
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.lower import expand, linearize
from porism.optimize.actions.action_registry import ACTIONS
from porism.optimize.actions.loop_substitution import replace_loop
from porism.optimize.actions.loops import loop_padding, peeling

SEEDS = (range(400), range(1_580, 1_590), range(1_700, 1_712))
"""Half a minute of nests; the last have a product for tensor cores among them."""

ELSEWHERE = {
    "halve symmetric products": "large products: tests/schedule/test_algorithms.py",
    "chunk scans": "scans of few long rows: tests/schedule/test_algorithms.py",
    "split reductions": "reductions of 32768 elements: tests/schedule/test_split_reductions.py",
    "early movement": "views that rangeify leaves: tests/schedule/test_early_movement.py",
    "split merged ranges": "divisions of merged loops: tests/schedule/test_divisions.py",
    "symbolic after merging": "merged loops seldom leave something: tests/lower/test_stages.py",
}
"""Stages that change nothing of what is so small, and where they are tested."""


@pytest.mark.slow
def test_no_fault_in_a_short_run_that_reaches_every_action_and_stage() -> None:
    counts = Counts()
    for seeds in SEEDS:
        for seed in seeds:
            for found in faults_of(seed, counts):
                pytest.fail(told(found[0], seed))
    assert [name for name in ACTIONS if not counts.actions[name]] == []
    assert {name for name in STAGES if not counts.stages[name]} <= set(ELSEWHERE)


def test_a_seed_is_one_case() -> None:
    """What fails is found again by its number."""
    first, second = Choices(5), Choices(5)
    numbers = [first.below(1000) for _ in range(20)]
    assert [second.below(1000) for _ in range(20)] == numbers
    again = Choices(given=first.taken)
    assert [again.below(1000) for _ in range(20)] == numbers
    assert again.below(7) == 0


def test_shrinking_leaves_what_is_needed() -> None:
    """A list that fails for one number is that number, after zeros for its place."""
    found = shrunk([9, 3, 77, 4, 50, 1], lambda given: any(n > 40 for n in given), 1e18)
    assert found == [41]


# -- bugs in passes --------------------------------------------------------------------------------


def _one_for_sums(op: Op, dtype: DType) -> Scalar | None:
    return identity(op, dtype) if op is not ops.ADD else 1


def _without_the_tail(kernel: UOp, sums: list[UOp], terms: UOp, first: int) -> UOp:
    most = UOp.range(first, (*terms.arg[0], 0), Axis.REDUCE)
    return replace_loop(kernel, terms, most, [most])


def _first(_: Op, parts: list[UOp]) -> UOp:
    return parts[0]


def _of_one_copy(self: Any, memory: UOp, values: dict[UOp, int], *_: Any) -> UOp:
    return cast(UOp, self._copy_at(memory, values))


def _over_any_lanes(self: Any, node: UOp, values: dict[UOp, int]) -> UOp:
    """A reduction that folds the lanes of its value, whatever range they are of."""
    op, (value, *ranges) = node.arg, node.src
    inner = [r for r in ranges if r in self.expanded]
    parts = [
        self._copy_at(value, values | dict(zip(inner, where, strict=True)))
        for where in self._iterations(inner)
    ]
    whole = expand._reduce_as_tree(op, parts)
    loops = [self._copy_at(r, values) for r in ranges if r not in self.expanded]
    whole = whole.reduce(op, *loops) if loops else whole
    while whole.dtype.count > 1 and any(r in self.lanes for r in inner):
        half = whole.dtype.count // 2
        whole = op(whole.gep(*range(half)), whole.gep(*range(half, 2 * half)))
    return whole


def _unchanged(kernel: UOp) -> UOp:
    return kernel


Bug = tuple[str, Any, str, Callable[..., Any]]
"""Who is to be blamed, and what is put in the place of what."""

BUGS: dict[str, Bug] = {
    "an accumulator starts at 1": ("linearize", linearize, "identity", _one_for_sums),
    "padding of a sum is 1": ("PadTo", loop_padding, "identity", _one_for_sums),
    "the tail of a reduction is left out": ("Peel", peeling, "peel_reductions", _without_the_tail),
    "the sum of several vectors is the first": ("expand", expand, "_reduce_as_tree", _first),
    "lanes of another axis are folded": ("expand", expand._Expander, "_reduce", _over_any_lanes),
    "copies share their local memory": ("expand", pipeline, "private_memory", _unchanged),
    "a tile is loaded before it is filled": (
        "expand",
        expand._Expander,
        "_filled_buffer",
        _of_one_copy,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_a_pass_is_found_and_named(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blamed, where, name, wrong = BUGS[bug]
    monkeypatch.setattr(where, name, wrong)
    monkeypatch.setattr(fuzz.nests, "SHRINKING", 0.5)
    for seed in range(250):
        for found in faults_of(seed, Counts()):
            if found[0].name == blamed:
                said = told(smaller(seed, found), seed)
                assert said.startswith(f"{blamed}: ")
                assert f"--seed {seed} --count 1" in said
                return
    pytest.fail("nothing was found")


def test_the_command_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(linearize, "identity", _one_for_sums)
    monkeypatch.setattr(fuzz.nests, "SHRINKING", 0.5)
    assert main(["--seed", "0", "--count", "2"]) == 1
    said = capsys.readouterr().out
    assert "linearize: wrong" in said
    assert "fault: linearize, wrong" in said


def test_the_command_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "0", "--count", "3"]) == 0
    assert "nests: 3 nests from seed 0, 0 programs, 15 cases, 0 faults" in capsys.readouterr().out
