"""Computations that ran before: found by structure, run on other memory, and never mixed up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.settings import settings
from porism.engine.run import realize, run_plans
from porism.engine.run.run_plans import structure_of

Build = Callable[[Any, Any], Any]
"""Takes two realized tensors of one shape and type."""


@pytest.fixture(autouse=True)
def no_plans() -> Iterator[None]:
    run_plans.forget_plans()
    yield
    run_plans.forget_plans()


def tensors(*shape: int, dtype: str = "float32", seed: int = 0) -> tuple[Any, ...]:
    draw = np.random.default_rng(seed)
    return tuple(
        porism.asarray(draw.integers(1, 9, shape).astype(dtype)).realize() for _ in range(2)
    )


def structure(*built: Any) -> Any:
    found = structure_of([x.node for x in built])
    assert found is not None
    return found[0]


SAME: dict[str, tuple[Build, Build]] = {
    "other memory": (lambda a, b: a * 2 + b, lambda a, b: b * 2 + a),
    "the other order": (lambda a, b: a - b, lambda a, b: b - a),
    "a value that was computed": (lambda a, b: a + b, lambda a, b: (a * b).realize() + b),
}

DIFFERENT: dict[str, tuple[Build, Build]] = {
    "an op": (lambda a, b: a + b, lambda a, b: a * b),
    "a number": (lambda a, b: a * 2.0, lambda a, b: a * 3.0),
    "the sign of zero": (lambda a, b: a * 0.0, lambda a, b: a * -0.0),
    "the same memory twice": (lambda a, b: a + b, lambda a, b: a + a),
    "what is used again": (lambda a, b: (a - b) * a, lambda a, b: (a - b) * b),
    "what is shared": (lambda a, b: (a + b) * (a + b), lambda a, b: (a + b) * (b + a)),
    "an axis": (lambda a, b: a.sum(axis=0), lambda a, b: a.sum(axis=1)),
    "a reduction": (lambda a, b: a.sum(axis=0), lambda a, b: a.max(axis=0)),
    "a type": (lambda a, b: a.astype("int32"), lambda a, b: a.astype("int64")),
    "the type of an input": (lambda a, b: a + a, lambda a, b: tensors(3, 3, dtype="int32")[0] * 1),
    "a slice": (lambda a, b: a[1:], lambda a, b: a[:-1]),
    "the shape of an input": (lambda a, b: a + a, lambda a, b: a.reshape(9).realize() * 2),
    "an order of axes": (lambda a, b: a + b, lambda a, b: a + b.T),
    "what is reversed": (lambda a, b: a.flip(0) + b, lambda a, b: a.flip(1) + b),
}


@pytest.mark.parametrize("name", SAME)
def test_what_differs_in_memory_alone_is_one_structure(name: str) -> None:
    a, b = tensors(3, 3)
    one, other = (build(a, b) for build in SAME[name])
    assert structure(one) == structure(other)


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_in_anything_else_is_another_structure(name: str) -> None:
    a, b = tensors(3, 3)
    one, other = (build(a, b) for build in DIFFERENT[name])
    assert structure(one) != structure(other)


def test_which_values_are_asked_for_is_part_of_the_structure() -> None:
    a, b = tensors(3, 3)
    total = a + b
    assert structure(total * 2) != structure(total * 2, total) != structure(total, total * 2)


def test_symbolic_sizes_are_part_of_the_structure() -> None:
    n = porism.Variable("n", 1, 9)
    a, _ = tensors(9)
    assert structure(a[: n.bind(3)] * 2) != structure(a[: n.bind(4)] * 2)
    for k in (3, 4, 3, 9):
        np.testing.assert_array_equal((a[: n.bind(k)] * 2).numpy(), a.numpy()[:k] * 2)


@pytest.mark.parametrize("name", [*SAME, *DIFFERENT])
def test_the_second_run_is_right_too(name: str) -> None:
    builds = (SAME | DIFFERENT)[name]
    wanted = []
    with settings.override(threads=1):  # where a setting is overridden there are no plans
        for seed in range(4):
            wanted += [build(*tensors(3, 3, seed=seed)).numpy() for build in builds]
    assert not run_plans._plans
    got = [build(*tensors(3, 3, seed=s)).numpy() for s in range(4) for build in builds]
    assert run_plans._plans
    for one, other in zip(got, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_a_plan_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = tensors(5)
    (a * 2 + b).realize()
    monkeypatch.setattr(realize, "request", None)
    np.testing.assert_array_equal((b * 2 + a).numpy(), b.numpy() * 2 + a.numpy())


def test_numbers_that_vary_are_arguments_of_the_plan() -> None:
    a, _ = tensors(5)
    for c in (0.5, 0.25, 0.5, 2.0, 0.25, 7.0, 2.0):
        np.testing.assert_array_equal((a * c).numpy(), a.numpy() * np.float32(c))


def test_plans_are_for_one_reading_of_the_settings() -> None:
    a, b = tensors(4)
    (a + b).realize()
    assert run_plans.find_plan(structure(a + b)) is not None
    with settings.override(fast_math=True):
        assert run_plans.find_plan(structure(a + b)) is None
    with settings.override(backend="reference"):
        np.testing.assert_array_equal((a + b + 1).numpy(), a.numpy() + b.numpy() + 1)
    run_plans._settings = None
    assert run_plans.find_plan(structure(a + b)) is None


def test_assignments_are_seen() -> None:
    a, b = tensors(4, 4)
    array, other = a.numpy().copy(), b.numpy().copy()
    for _ in range(5):
        a[1:-1, 1:-1] += b[:-2, 1:-1] * 0.5
        array[1:-1, 1:-1] += other[:-2, 1:-1] * np.float32(0.5)
        kept = (a + b).realize()
        b[0] = a[1]
        other[0] = array[1]
        np.testing.assert_array_equal(a.numpy(), array)
        np.testing.assert_array_equal(b.numpy(), other)
        np.testing.assert_array_equal((kept - kept).numpy(), np.zeros((4, 4)))


def test_large_and_wide_graphs_have_no_structure() -> None:
    a, b = tensors(2)
    deep = a
    for _ in range(run_plans.MAX_NODES + 1):
        deep = deep * b + a
    assert structure_of([deep.node]) is None
    many = [(a + k).node for k in range(run_plans.MAX_NODES + 1)]
    assert structure_of(many) is None


def test_threads() -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        a, b = tensors(7, 3, seed=seed)
        x, y = a.numpy(), b.numpy()
        for k in range(60):
            if not np.array_equal((a * (k % 5) - b + a).numpy(), x * (k % 5) - y + x):
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_plans_are_dropped_with_what_they_refer_to() -> None:
    a, b = tensors(3)
    (a + b).realize()
    assert run_plans._plans
    realize._release_unused()
    assert not run_plans._plans
    assert (a + b).tolist() == (a.numpy() + b.numpy()).tolist()
