"""Every rule makes terms smaller; a rule that does not is told in which component."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import substitute
from porism.rewrite.rule import Rule, rule
from porism.rewrite.termination import WEIGHTS, greater, shrinks, weight
from porism.rewrite.terms import c0, c1, hi, lo, maximum, p, q, w, where, x, y, z
from porism.rules.rule_sets import ALGEBRA

RULES = [item for item in ALGEBRA if isinstance(item, Rule)]


@pytest.mark.parametrize("item", RULES, ids=lambda item: item.name)
def test_every_rule_of_the_algebra_shrinks(item: Rule) -> None:
    verdict = shrinks(item)
    assert verdict, verdict.reason


SHRINKING: dict[str, tuple[tuple[Any, ...], str]] = {
    "a part of itself": ((x + 0, x), "weight"),
    "fewer ops": (((x + c0) + c1, x + (c0 + c1)), "weight"),
    "a computed constant is a leaf": ((x * c0 + x, x * (c0 * c0 + c0 + 1)), "weight"),
    "a bound is a leaf": ((x // c0, lo(x) // c0 + hi(x), (lo(x) // c0).eq(0)), "weight"),
    "a lesser root": ((x + x, x * 2), "precedence"),
    "division moves inwards": (((x * c0 + y) // c1, x * (c0 // c1) + y // c1), "precedence"),
    "a lesser operand": ((maximum(x, y) // (z % w), maximum(x, y) // (z // w)), "arguments"),
    "a lesser operand of a sum": (((x + y) + z * w, (x * y) + z * w), "arguments"),
    "a lesser operand, others turned": (((x + y) * (z + w), (z + w) * (x * y)), "arguments"),
    "from left to right": (((x + y) // (z * w), (x * y) // (z + w)), "arguments"),
}


@pytest.mark.parametrize("case", SHRINKING)
def test_what_shrinks(case: str) -> None:
    sides, component = SHRINKING[case]
    verdict = shrinks(rule("case", *sides))
    assert verdict, verdict.reason
    assert verdict.component == component
    assert not greater(sides[1], sides[0])


REFUSED: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "a hole is doubled": (
        (x * 2, x + x),
        "occurrences",
        "x occurs 2 times after and 1 time before",
    ),
    "a hole is doubled inside fewer ops": (
        ((x // c0) % y, x % x + y),
        "occurrences",
        "x occurs 2 times after and 1 time before",
    ),
    "operands change places": (
        (x + y, y + x),
        "arguments",
        "x + y and y + x are equal but for constants and the order of commutative operands",
    ),
    "operands of a part change places": (
        ((x + y) * z, (y + x) * z),
        "arguments",
        "equal but for constants and the order of commutative operands",
    ),
    "a constant changes": (
        (x + c0, x + (c0 - 1)),
        "arguments",
        "equal but for constants and the order of commutative operands",
    ),
    "more ops": ((x % c0, x - (x // c0) * c0), "occurrences", "x occurs 2 times"),
    "distribution": (((x + y) * c0, x * c0 + y * c0), "weight", "the weight goes from 5 to 7"),
    "a greater root": (
        (x * 2, x + 2),
        "precedence",
        "both sides weigh 3, and MUL is not above ADD",
    ),
    "association": (((x + y) + z, x + (y + z)), "arguments", "y + z is not below any operand"),
    "operands that do not commute": ((x - y, y - x), "arguments", "in the operands of SUB: "),
    "a lesser operand comes too late": (
        ((x * y) // (z + w), (x + y) // (z * w)),
        "arguments",
        "MUL is not above ADD",
    ),
    "an op without precedence": (
        (ops.EXP2(x), ops.LOG2(x)),
        "precedence",
        "both sides weigh 3, and EXP2 is not above LOG2",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_shrink(case: str) -> None:
    sides, component, reason = REFUSED[case]
    verdict = shrinks(rule("case", *sides))
    assert not verdict
    assert verdict.component == component
    assert reason in verdict.reason


def test_of_a_pair_that_undoes_itself_one_rule_is_refused() -> None:
    there, back = rule("there", x + x, x * 2), rule("back", x * 2, x + x)
    assert [bool(shrinks(there)), bool(shrinks(back))] == [True, False]


def test_a_repeated_operand_counts_twice() -> None:
    assert not greater((x + y) * (x + y), (x + y) * (y + x))
    assert greater((x + y) * (x + y), (x + y) * (x * y))
    assert not greater((x * y) * (x + y), (x + y) * (x + y))


def test_weights_are_positive_and_ops_are_listed_once() -> None:
    assert all(value >= 1 for value in WEIGHTS.values())
    assert len({op.name for op in WEIGHTS}) == len(WEIGHTS)


TERMS = [
    *(x, x + y, x * y, x - y, x // y, (x + y) * z, (x * y) + z, x + (y + z), where(p, x, y)),
    *(maximum(x, y), x + c0, x * c0, (x + c0) + c1, (x // c0) // c1, -x, x % y, x + x, x * x),
]


def test_the_order_is_strict() -> None:
    """No term is above itself, no two are above each other, and it is transitive."""
    above = {(a, b) for a, b in itertools.product(TERMS, repeat=2) if greater(a, b)}
    assert len(above) > 60
    assert not any((b, a) in above for a, b in above)
    for (a, b), (c, d) in itertools.product(above, repeat=2):
        if b is c:
            assert (a, d) in above


def test_the_order_is_kept_by_contexts_and_substitution() -> None:
    contexts: list[Callable[[UOp], UOp]] = [
        lambda term: term + w,
        lambda term: w - term,
        lambda term: where(p & q, term, w),
        lambda term: term % w,
    ]
    larger = (z + w) * 3
    for a, b in itertools.product(TERMS, repeat=2):
        if greater(a, b):
            assert all(greater(around(a), around(b)) for around in contexts)
            swap = {x: larger, y: larger}
            assert greater(substitute(a, swap, exactly=True), substitute(b, swap, exactly=True))
            assert weight(a) >= weight(b)
