"""The judges of the benchmark: what is wrong is seen, by values and by the solver."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import index_values
from benchmarks.index_proofs import Verdict, compare
from benchmarks.simplify import checks, judgement

LARGE = {name: [0, 10**6] for name in "abc"}

WRONG: dict[str, tuple[str, str, dict[str, Any]]] = {
    "everywhere": ("a + 1", "a", {"a": [0, 9]}),
    "at one point of many": ("a", "a + (1 if a == 777 else 0)", {"a": [0, 299_999]}),
    "at one corner": ("a", "a + (1 if a + b - c == 2000000 else 0)", LARGE),
    "at the other corner": ("a", "a + (1 if a + b + c == 0 else 0)", LARGE),
    "at a symbolic end": ("r // n", "(1 if r > n * n // 4 else 0)", {"n": [1, 9], "r": [0, "n"]}),
    "beyond a machine word": (
        f"(a * {2**62} + b) * 4 // {2**64}",
        f"a + b // {2**62} + (1 if b * 4 >= {2**63} else 0)",
        {"a": [0, 9], "b": [2**61, 2**61 + 9]},
    ),
    "by a division by zero": ("3 if b == 0 else a // b", "a // b", {"a": [0, 9], "b": [0, 9]}),
    "in a condition": (
        "b != 0 and a // b < 3",
        "a // b < 3 and b != 0",
        {"a": [0, 9], "b": [0, 9]},
    ),
    "by a shift": ("0 if b < 0 else a >> b", "a >> b", {"a": [0, 9], "b": [-1, 9]}),
}


@pytest.mark.parametrize("case", WRONG)
def test_values_show_what_is_wrong(case: str) -> None:
    before, after, bounds = WRONG[case]
    assert index_values.difference(before, after, bounds) is not None
    assert index_values.difference(before, before, bounds) is None


def test_where_nothing_is_asked_anything_will_do() -> None:
    bounds: index_values.Bounds = {"a": [0, 9], "b": [0, 9]}
    assert index_values.difference("a // b * b + a % b", "a", bounds) is None
    assert index_values.difference("a // b < 3 and b != 0", "b != 0 and a // b < 3", bounds) is None


def test_all_points_of_a_box_that_is_no_box() -> None:
    result, exhaustive = index_values.points({"n": [0, 6], "r": ["n % 3", "(n - 3) * (n - 3)"]})
    assert exhaustive
    wanted = [(n, r) for n in range(7) for r in range(n % 3, (n - 3) ** 2 + 1)]
    assert list(zip(result["n"].tolist(), result["r"].tolist(), strict=True)) == wanted


def test_samples_have_all_corners() -> None:
    result, exhaustive = index_values.points(LARGE)
    assert not exhaustive
    points = set(zip(*(result[name].tolist() for name in "abc"), strict=True))
    ends = (0, 10**6)
    assert {(a, b, c) for a in ends for b in ends for c in ends} <= points
    assert len(points) >= 2000


@pytest.mark.parametrize(
    ("before", "after", "bounds", "verdict"),
    [
        ("(a*8 + b) // 8", "a", {"a": [0, 10**9], "b": [0, 7]}, Verdict.PROVED),
        ("(a*8 + b) // 8", "a", {"a": [0, 10**9], "b": [0, 8]}, Verdict.REFUTED),
        ("(a*8 - b) % 8", "-b % 8", {"a": [0, 10**9], "b": [0, 70]}, Verdict.PROVED),
        ("a // -3", "-(a // 3)", {"a": [0, 10**9]}, Verdict.REFUTED),
        ("a % -3", "a - (a // -3) * -3", {"a": [0, 10**9]}, Verdict.PROVED),
        ("(r0*n + r1) // n", "r0", {"n": [1, 99], "r0": [0, 9], "r1": [0, "n - 1"]}, None),
        ("a // 0", "5", {"a": [0, 9]}, Verdict.UNKNOWN),
        ("0 <= a < 9", "a < 9", {"a": [0, 99]}, Verdict.PROVED),
        ("max(a, 3) if a > 4 else 5", "a if not a <= 4 else 5", {"a": [0, 99]}, Verdict.PROVED),
        ("(a >> 3 << 3) + (a & 7)", "a", {"a": [-99, 99]}, Verdict.PROVED),
        ("a ^ 1", "a ^ 1", {"a": [0, 9]}, Verdict.UNKNOWN),
    ],
)
def test_the_solver_decides(
    before: str, after: str, bounds: dict[str, Any], verdict: Verdict | None
) -> None:
    result, point = compare(before, after, bounds, milliseconds=5000)
    assert result is verdict or (verdict is None and result is not Verdict.REFUTED)
    assert (point is None) == (result is not Verdict.REFUTED)


def test_a_judgement_says_how_it_was_come_by() -> None:
    row = {"name": "one", "expr": "(a*8 + b) // 8", "vars": {"a": [0, 9], "b": [0, 7]}}
    right = judgement(row, {"name": "one", "text": "a"}, 5.0)
    assert (right["wrong"], right["exhaustive"], right["points"]) == (False, True, 80)
    assert (right["dm"], right["z3"]) == (0, "proved")
    wrong = judgement(row, {"name": "one", "text": "a + b // 7"}, 5.0)
    assert (wrong["wrong"], wrong["z3"], wrong["point"]["b"]) == (True, "refuted", 7)
    output = checks([right, wrong], 5.0)
    assert output.startswith(
        "compared at every point of 2 boxes; z3 proved 1, refuted 1, unknown 0"
    )
