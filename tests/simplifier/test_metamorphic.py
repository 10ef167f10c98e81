"""What must not change a simplified expression: doing it again, order, names, the process.

Rows are made from a new seed each time; PORISM_TEST_SEED repeats a run, and every failure names it.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any

import pytest

from benchmarks import index_values
from benchmarks.index_corpus import corpus
from porism.simplifier.expression_cost import measure
from porism.simplifier.parser import parse
from porism.simplifier.simplify import simplify
from porism.simplifier.variable_bounds import box
from tests.simplifier import variants

FIXED_SEED = 7
FRESH_SEED = int(os.environ.get("PORISM_TEST_SEED", random.SystemRandom().randrange(10**9)))
FEW = 40
MANY = 120


@pytest.fixture(params=("fixed", "fresh"))
def seed(request: pytest.FixtureRequest) -> int:
    """Return a fixed seed and a new random one."""
    chosen = FIXED_SEED if request.param == "fixed" else FRESH_SEED
    print(f"to repeat this: PORISM_TEST_SEED={chosen}")  # shown with a failure
    return chosen


def texts(rows: list[dict[str, Any]]) -> list[str]:
    return [simplify(row["expr"], row["vars"]).text for row in rows]


@pytest.mark.slow
def test_right_and_never_worse(seed: int) -> None:
    for row in corpus(MANY, seed):
        result = simplify(row["expr"], row["vars"])
        point = index_values.difference(row["expr"], result.text, row["vars"])
        assert point is None, (row, result.text, point)
        divmods, cost = measure(parse(row["expr"], box(row["vars"]).variables))
        assert result.divmods <= divmods, (row, result.text)
        assert result.cost <= cost, (row, result.text)
        assert result.divmods == index_values.divisions(result.text)[0]
        again = parse(result.text, box(row["vars"]).variables)
        assert measure(again) == (result.divmods, result.cost), (row, result.text)


@pytest.mark.slow
def test_once_is_enough_and_neither_order_nor_names_matter(seed: int) -> None:
    chance = random.Random(seed)
    for row in corpus(MANY, seed):
        variants.unchanged(row, chance)


def test_a_variant_is_another_text_of_the_same_value() -> None:
    chance = random.Random(1)
    different = 0
    for row in corpus(FEW, FIXED_SEED):
        other = variants.swapped(row["expr"], chance)
        assert index_values.difference(row["expr"], other, row["vars"]) is None
        different += other.replace(" ", "") != row["expr"].replace(" ", "")
    assert different > FEW // 2
    assert variants.renamed("min(a, b) + ab", {"a": "b", "b": "a"}) == "min(b, a) + ab"


@pytest.mark.slow
def test_every_process_finds_the_same(seed: int) -> None:
    program = (
        "from benchmarks.index_corpus import corpus\n"
        "from porism import simplify\n"
        f"for row in corpus({FEW}, seed={seed}):\n"
        "    print(simplify(row['expr'], row['vars'], explain=True))\n"
    )
    actual = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "12345")
    }
    assert actual == {"".join(text + "\n" for text in texts(corpus(FEW, seed)))}


def test_what_came_before_makes_no_difference(seed: int) -> None:
    rows = corpus(FEW, seed)
    assert texts(rows) == texts(rows[::-1])[::-1]


def test_a_guard_stays_before_its_division() -> None:
    bounds = {"a": [-5, 9], "b": [-1, 3], "c": [0, 5]}
    for text in (
        "a // b if b > 0 and a // b < 3 else 1",
        "1 if b == 0 or a % b == c else a",
        "c if b != 0 and a // b != 2 and c // (a // b - 2) < 3 else a",
        "c if not (b <= 0 or a % b < 1) else a",
    ):
        result = simplify(text, bounds)
        assert index_values.difference(text, result.text, bounds) is None, result.text


def test_a_text_does_not_grow_much() -> None:
    text = "n" + "".join(f"%{997 - i}" for i in range(60))
    assert len(simplify(text, {"n": (0, None)}).text) < 4 * len(text)
