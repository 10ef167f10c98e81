"""The memory planner: what is alive at the same time never overlaps, whatever the order of runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, DrawFn

from benchmarks import models
from porism.engine.run.realize import request, schedule_of
from porism.engine.run.reference_runner import run
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import rebuild
from porism.pipeline import schedule_graph
from porism.schedule.memory_plan import (
    ALIGNMENT,
    Lifetime,
    Plan,
    lay_out_slots,
    plan_memory,
    plan_slots,
)
from porism.schedule.schedule import Schedule, Step
from tests.schedule.test_stages import arrays_for
from tests.tensors import tensor_graphs
from tests.watching import same

Place = tuple[int, int]


@st.composite
def some_lives(draw: DrawFn) -> tuple[int, list[Lifetime]]:
    """Kernels in a list, each writing one value at most, which later ones may read."""
    kernels = draw(st.integers(1, 12))
    lives = []
    for k in range(kernels):
        if draw(st.integers(0, 4)):
            later = list(range(k + 1, kernels))
            chosen = st.sets(st.sampled_from(later), max_size=3) if later else st.just(set())
            size = draw(st.sampled_from((0, 1, 128, 129, 384, 1000)))
            lives.append(Lifetime(size, k, tuple(sorted(draw(chosen)))))
    lives = draw(st.permutations(lives))
    return kernels, [dataclasses.replace(a, overwrites=draw(_over(lives, a))) for a in lives]


def _over(lives: Sequence[Lifetime], life: Lifetime) -> st.SearchStrategy[int | None]:
    """One of the values that the writer of a value reads, or none."""
    return st.sampled_from([None, *(k for k, a in enumerate(lives) if life.written in a.read)])


def place(life: Lifetime, offset: int) -> Place:
    return offset, offset + life.size


def overlap(a: Place, b: Place) -> bool:
    return max(a[0], b[0]) < min(a[1], b[1])


def waits(kernels: int, lives: Sequence[Lifetime], actual: Plan) -> list[set[int]]:
    """For each kernel those it waits for: the writers of what it reads, and those of the plan."""
    direct: list[set[int]] = [set() for _ in range(kernels)]
    for life in lives:
        for reader in life.read:
            direct[reader].add(life.written)
    for later, earlier in actual.waits:
        assert earlier < later
        direct[later].add(earlier)
    return direct


def before(direct: Sequence[set[int]]) -> list[set[int]]:
    """For each kernel all that are over when it starts."""
    known: list[set[int]] = []
    for waited in direct:
        known.append(waited.union(*(known[k] for k in waited)))
    return known


def some_order(data: DataObject, direct: Sequence[set[int]]) -> list[int]:
    """The kernels in any order that their waits allow."""
    done: list[int] = []
    while len(done) < len(direct):
        left = [k for k in range(len(direct)) if k not in done and direct[k] <= set(done)]
        done.append(data.draw(st.sampled_from(left)))
    return done


@given(some_lives())
def test_values_alive_at_the_same_time_do_not_overlap(made: tuple[int, list[Lifetime]]) -> None:
    _, lives = made
    actual = plan_memory(lives)
    assert actual.peak <= actual.sum
    for a, (life, offset) in enumerate(zip(lives, actual.offsets, strict=True)):
        assert offset % ALIGNMENT == 0
        assert offset + life.size <= actual.peak
        for b in range(a):
            other = lives[b]
            apart = life.end < other.written or other.end < life.written
            apart |= life.overwrites == b and other.end == life.written
            apart |= other.overwrites == a and life.end == other.written
            there = place(other, actual.offsets[b])
            assert apart or not overlap(place(life, offset), there), (life, other)


@pytest.mark.slow
@settings(max_examples=400)
@given(some_lives())
def test_kernels_that_may_run_at_once_do_not_disturb_each_other(
    made: tuple[int, list[Lifetime]],
) -> None:
    kernels, lives = made
    actual = plan_memory(lives)
    over = before(waits(kernels, lives, actual))
    written: list[list[Place]] = [[] for _ in range(kernels)]
    touched: list[list[Place]] = [[] for _ in range(kernels)]
    for life, offset in zip(lives, actual.offsets, strict=True):
        written[life.written].append(place(life, offset))
        for user in (life.written, *life.read):
            touched[user].append(place(life, offset))
    for a in range(kernels):
        for b in range(kernels):
            if a != b and a not in over[b] and b not in over[a]:
                assert not any(overlap(w, t) for w in written[a] for t in touched[b]), (a, b)


@given(some_lives(), st.data())
def test_every_order_that_is_allowed_keeps_the_contents(
    made: tuple[int, list[Lifetime]], data: DataObject
) -> None:
    kernels, lives = made
    actual = plan_memory(lives)
    arena = np.full(actual.peak, -1)
    for kernel in some_order(data, waits(kernels, lives, actual)):
        for which, life in enumerate(lives):
            begin, end = place(life, actual.offsets[which])
            if kernel in life.read:
                assert (arena[begin:end] == which).all(), f"kernel {kernel} reads value {which}"
        for which, life in enumerate(lives):
            begin, end = place(life, actual.offsets[which])
            if life.written == kernel:
                arena[begin:end] = which


@given(some_lives(), st.data())
def test_slots_keep_the_contents_for_all_sizes(
    made: tuple[int, list[Lifetime]], data: DataObject
) -> None:
    kernels, lives = made
    actual = plan_slots(lives)
    sizes = [data.draw(st.integers(0, 2 * life.size)) for life in lives]
    offsets, peak = lay_out_slots(actual.slots, sizes)
    places = [(offset, offset + size) for offset, size in zip(offsets, sizes, strict=True)]
    arena = np.full(peak, -1)
    for kernel in some_order(data, waits(kernels, lives, actual)):
        for which, (life, (begin, end)) in enumerate(zip(lives, places, strict=True)):
            if kernel in life.read:
                assert (arena[begin:end] == which).all(), f"kernel {kernel} reads value {which}"
        for which, (life, (begin, end)) in enumerate(zip(lives, places, strict=True)):
            if life.written == kernel:
                assert end <= peak
                arena[begin:end] = which


def test_a_slot_is_shared_by_sizes_that_are_near() -> None:
    large, small = 1 << 40, 1000
    lives = [
        *(Lifetime(large, 0, (2,)), Lifetime(small, 1, (2,)), Lifetime(small, 2, (3,))),
        *(Lifetime(small, 3, (4,)), Lifetime(large, 3, (4,))),
    ]
    actual = plan_slots(lives)
    assert actual.slots == (0, 1, 2, 1, 0)
    assert lay_out_slots(actual.slots, [512, 128, 128, 128, 256])[1] == 512 + 128 + 128


def test_a_chain_needs_two_places() -> None:
    actual = plan_memory([Lifetime(1000, k, (k + 1,)) for k in range(50)])
    assert (actual.peak, actual.sum) == (2 * 1024, 50 * 1024)


def test_a_chain_in_place_needs_one() -> None:
    lives = [Lifetime(1000, k, (k + 1,), overwrites=k - 1 if k else None) for k in range(50)]
    actual = plan_memory(lives)
    assert actual.peak == 1024
    assert set(actual.offsets) == {0}


def test_the_place_of_another_is_taken_by_who_reads_it_last_and_fits() -> None:
    read_later = plan_memory([Lifetime(100, 0, (1, 2)), Lifetime(100, 1, (2,), overwrites=0)])
    larger = plan_memory([Lifetime(100, 0, (1,)), Lifetime(1000, 1, (2,), overwrites=0)])
    assert 0 not in (read_later.offsets[1], larger.offsets[1])
    after_others = plan_memory([Lifetime(100, 0, (1, 2)), Lifetime(100, 2, (3,), overwrites=0)])
    assert after_others.offsets == (0, 0)
    assert (2, 1) in after_others.waits


def test_a_gap_is_filled_by_what_fits_best() -> None:
    lives = [
        Lifetime(1000, 0, (1,)),
        Lifetime(128, 0, (9,)),
        Lifetime(256, 0, (1,)),
        Lifetime(128, 0, (9,)),
        Lifetime(256, 2, (9,)),
    ]
    actual = plan_memory(lives)
    assert actual.offsets[4] == actual.offsets[2]
    assert actual.peak == 1024 + 128 + 256 + 128


def test_blocks_one_after_the_other_share_their_memory() -> None:
    one = schedule_of(request([models.blocks(1)().node]).graph).arena
    many = schedule_of(request([models.blocks(12)().node]).graph).arena
    assert many.sum > 11 * one.sum
    assert many.peak < many.sum / 6
    assert many.peak < 2 * one.peak


# -- whole programs --------------------------------------------------------------------------------


def stored(root: UOp) -> UOp:
    """A graph in which the value of every op is in memory."""

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        new = node.replace(src)
        return ops.CONTIGUOUS(new) if node.shaped and node.op is not ops.PARAM else new

    return rebuild(root, change)


def reordered(schedule: Schedule, order: Sequence[int]) -> Schedule:
    """The same schedule with its steps in another order."""
    new = {old: k for k, old in enumerate(order)}

    def moved(step: Step) -> Step:
        return dataclasses.replace(step, after=tuple(sorted(new[k] for k in step.after)))

    return dataclasses.replace(schedule, steps=tuple(moved(schedule.steps[k]) for k in order))


@settings(max_examples=150, deadline=None)
@given(tensor_graphs(steps=20).map(stored), st.integers(0, 1000), st.data())
def test_programs_of_many_kernels_run_in_every_order(
    root: UOp, seed: int, data: DataObject
) -> None:
    """Every op is a kernel here, so that much memory is shared.

    The evaluator refuses to read what was not written; the values say that nothing was overwritten.
    """
    arrays = arrays_for(root, seed)
    inputs = [
        np.ascontiguousarray(arrays.get(k, np.zeros(0))).reshape(-1)
        for k in range(max(arrays, default=-1) + 1)
    ]
    sink = ops.SINK(root)
    with np.errstate(all="ignore"):
        expected = evaluate(sink, arrays)[0]
        schedule = schedule_graph(sink)
        order = some_order(data, [set(step.after) for step in schedule.steps])
        (actual,) = run(reordered(schedule, order), inputs, {})
    same("in another order", expected, actual.reshape(expected.shape))
