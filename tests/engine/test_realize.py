"""Realize: what is computed once is found again, and numbers stay numbers."""

from __future__ import annotations

import numpy as np

import porism
from porism.engine.realize import request


def test_a_number_that_was_computed_stays_a_number_elsewhere() -> None:
    x = porism.asarray(np.ones((4, 6), np.float32))

    def inputs() -> int:
        return len(request([(x * 3.0 + porism.full((4, 6), 7.0)).node]).buffers)

    assert inputs() == 1
    three, seven = porism.asarray(3.0), porism.full((4, 6), 7.0)
    porism.realize(three, seven)
    assert "realized" in repr(three)
    assert (three.item(), seven.numpy().sum()) == (3, 168)
    assert inputs() == 1


def test_what_was_computed_is_not_computed_again() -> None:
    x = porism.asarray(np.ones(4, np.float32))
    y = x * 2 + 1
    z = y * 5
    porism.realize(y)
    found = request([z.node])
    assert found.buffers == (y.node,)
    assert z.tolist() == [15] * 4
