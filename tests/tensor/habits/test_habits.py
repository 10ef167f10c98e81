"""Habits of people who know NumPy, PyTorch or JAX: each works, or the error says what to write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError
from porism.tensor.tensor import Tensor
from tests.tensor.habits import further_habits, jax_habits, numpy_habits, torch_habits

RANDOM: Final = np.random.default_rng(1)
ARRAYS: Final[dict[str, Any]] = {
    "x": np.array([[1.25, -0.5, 2.0], [-3.0, 0.75, 0.25]], np.float32),
    "y": np.array([[0.5, -2.0, 1.0], [4.0, -0.25, 3.0]], np.float32),
    "v": np.array([0.25, 0.5, 2.0], np.float32),
    "m": np.array([[1, 2, 0], [0.5, -1, 3], [4, 0.25, -2]], np.float32),
    "i": np.array([[0, 3, 5], [2, 1, 7]]),
    "b": np.array([[True, False, True], [False, False, True]]),
    "q": RANDOM.normal(size=(2, 3, 4)).astype(np.float32),
    "img": RANDOM.normal(size=(1, 2, 4, 4)).astype(np.float32),
    "k": RANDOM.normal(size=(3, 2, 2, 2)).astype(np.float32),
    "lab": np.array([2, 0]),
}
LIBRARIES: Final = ("np", "torch", "F", "jnp", "jax", "lax")


@dataclass(frozen=True)
class Habit:
    """A snippet, and the text of the expected value or a part of the error."""

    snippet: str
    expected: str
    sentence: str


def habits(rows: str) -> list[Habit]:
    found = []
    for line in rows.strip().split("\n"):
        if line.startswith("#"):
            continue
        snippet, _, sentence = line.partition(" !! ")
        snippet, _, expected = snippet.partition(" => ")
        found.append(Habit(snippet, expected or snippet, sentence))
    return found


TABLES: Final = (numpy_habits, torch_habits, jax_habits, further_habits)
ALL: Final = [habit for table in TABLES for habit in habits(table.ROWS)]
SENTENCES: Final = [habit for habit in ALL if habit.sentence]
VALUES: Final = [habit for habit in ALL if not habit.sentence]


def evaluate(text: str, library: Any, values: dict[str, Any]) -> Any:
    names = {**dict.fromkeys(LIBRARIES, library), **values}
    if " += " in text:
        exec(text, names)
        return names[text.split()[0]]
    return eval(text, names)


def on_tensors(text: str) -> Any:
    names: dict[str, Any] = {name: porism.asarray(a) for name, a in ARRAYS.items()}
    if "np.ones(4)" not in text and text.startswith(("torch", "x", "F", "jnp", "jax", "lax")):
        names["np"] = np  # in a row of another library, NumPy is NumPy
    return evaluate(text, porism, names)


def on_arrays(text: str) -> Any:
    with np.errstate(all="ignore"):
        return evaluate(text, np, {name: array.copy() for name, array in ARRAYS.items()})


def test_there_are_many() -> None:
    assert len(ALL) >= 500
    for table in TABLES:
        snippets = [habit.snippet for habit in habits(table.ROWS)]
        assert len(set(snippets)) == len(snippets)


def test_what_works_gives_the_same_values() -> None:
    """All together, so that they are compiled at once."""
    results = [on_tensors(habit.snippet) for habit in VALUES]
    porism.realize(results)
    for habit, got in zip(VALUES, results, strict=True):
        compare(habit, got, on_arrays(habit.expected))


def compare(habit: Habit, got: Any, expected: Any) -> None:
    if isinstance(got, (Tensor, np.ndarray)):
        values = np.asarray(got)
        assert values.shape == np.shape(expected), habit.snippet
        np.testing.assert_allclose(
            values.astype(np.float64), np.asarray(expected).astype(np.float64),
            rtol=1e-5, atol=1e-5, err_msg=habit.snippet,
        )  # fmt: skip
    elif isinstance(got, (list, tuple)) and any(isinstance(part, Tensor) for part in got):
        assert len(got) == len(expected), habit.snippet
        for part, wanted in zip(got, expected, strict=True):
            compare(habit, part, wanted)
    else:
        assert got == expected or np.allclose(got, expected), habit.snippet


@pytest.mark.parametrize("habit", SENTENCES, ids=lambda habit: habit.snippet)
def test_what_differs_says_what_to_write(habit: Habit) -> None:
    with pytest.raises(PorismError) as caught:
        on_tensors(habit.snippet)
    assert habit.sentence in str(caught.value)
