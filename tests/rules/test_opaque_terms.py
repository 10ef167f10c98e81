"""Expressions of what is read, simplified without looking at how that was computed."""

from __future__ import annotations

import pytest

from porism.base.dtypes import Space, boolean, i32, index
from porism.ir import ops
from porism.ir.node import UOp
from porism.rules.addresses.opaque_terms import nodes_read, simplify_opaque
from tests.examples.example_graphs import buffer

ROW = UOp.range(4, 0)
WORD = buffer(1, 4, i32).index(ROW).cast(index)
PLACE = buffer(2, 4, index).index(ROW)
TRUTH = buffer(3, 4, boolean).index(ROW)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (-(-PLACE * 4) // 4, PLACE),
        ((WORD * 4 + PLACE * 8 + 3) // 4, WORD + PLACE * 2),
        ((WORD * 4 + 3 < 7) & (PLACE >= PLACE - 1), WORD < 1),
        (TRUTH.where(WORD * 2 + 1, PLACE * 2) // 2, TRUTH.where(WORD * 2 + 1, PLACE * 2) // 2),
        ((ROW * 4 + 3) // 4, ROW),
        (PLACE, PLACE),
        (ROW, ROW),
    ],
)
def test_simplified(before: UOp, after: UOp) -> None:
    assert simplify_opaque(before) is after


def test_what_is_below_memory_is_not_looked_at() -> None:
    inner = UOp.range(4, 1)
    filled = ops.BUFFERIZE(inner * 3, inner, arg=Space.GLOBAL)
    element = filled.index(ROW)
    assert inner not in nodes_read([element + 1])
    assert ROW in nodes_read([element + 1])
    assert simplify_opaque((element * 4 + 3) // 4) is element
