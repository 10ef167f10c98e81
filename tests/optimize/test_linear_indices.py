"""Linear indices: a value with sums of loops replaced by one loop has the same value."""

from __future__ import annotations

from itertools import product

import pytest

from porism.base.dtypes import index
from porism.evaluate import evaluate
from porism.ir.node import UOp
from porism.ir.traversal import substitute
from porism.optimize.analysis.linear_indices import substitute_sums

A, B, C = UOp.range(4, 0), UOp.range(3, 1), UOp.range(2, 2)
FRESH, OTHER = UOp.range(4, 3), UOp.range(3, 4)


@pytest.mark.parametrize(
    "value",
    [
        (A * 4 + C) // 4 * 9 + B,  # the quotient is the range A itself: it becomes the new range
        (A * 4 + C) // 4 * 9 + A * 2 + B,
        (A * 2 + C) // 2 + (B * 2 + C) // 2 * 5,
        (A + C) % 3 * 7 + B * 2 - A,
        (A * 4 + B) // 4 * (C + 1),
    ],
)
def test_a_value_of_substituted_loops_is_the_same(value: UOp) -> None:
    changed = substitute_sums(value, {FRESH: {A: 1}, OTHER: {B: 1}})
    assert changed is not None
    for i, j, k in product(range(4), range(3), range(2)):
        numbers = {r: UOp.const(index, n) for r, n in ((A, i), (B, j), (C, k))}
        renamed = {FRESH: numbers[A], OTHER: numbers[B], C: numbers[C]}
        before, after = substitute(value, numbers), substitute(changed, renamed)
        assert evaluate(before)[0] == evaluate(after)[0]
