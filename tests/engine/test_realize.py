"""Realize: what is computed once is found again, and numbers stay numbers."""

from __future__ import annotations

import numpy as np
import pytest

import porism
from porism.engine.run import program
from porism.engine.run.realize import request


def test_a_number_that_was_computed_stays_a_number_elsewhere() -> None:
    x = porism.asarray(np.ones((4, 6), np.float32))

    def inputs() -> int:
        return len(request([(x * 3.0 + porism.full((4, 6), 7.0)).node]).buffers)

    assert inputs() == 1
    three, seven = porism.asarray(3.0), porism.full((4, 6), 7.0)
    porism.realize(three, seven)
    assert "lazy" not in repr(three)
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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "uint64", "bool"])
def test_a_number_needs_no_kernel(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_functions", {})
    for value in (1, 1.37e3, 1e9) if "float" in dtype else (0, 1):
        number = porism.asarray(value, dtype=dtype)
        expected = np.asarray(value).astype(number.dtype.numpy)
        np.testing.assert_array_equal(number.numpy().astype("f8"), expected.astype("f8"))
    assert not program._functions
    scaled = porism.jit(lambda x, by: x * by)
    x = porism.asarray(np.ones(3, np.float32))
    assert scaled(x, porism.asarray(0.5)).tolist() == [0.5] * 3
    count = len(program._functions)
    for k in range(4):
        assert scaled(x, porism.asarray(k + 0.625)).tolist() == [k + 0.625] * 3
    assert len(program._functions) == count


def test_kernels_that_were_compiled_are_not_kept_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program, "MAX_FUNCTIONS", 4)
    monkeypatch.setattr(program, "_functions", {})
    x = porism.asarray(np.ones(4, np.float32))
    kept = porism.jit(lambda x: x * 7.125)
    for round_ in range(2):
        for k in range(6):
            assert (x + (k + 0.25)).tolist() == [k + 1.25] * 4
        assert len(program._functions) <= 4
        assert kept(x + round_).tolist() == [7.125 * (1 + round_)] * 4  # it has its own
    many = [x - (k + 0.75) for k in range(6)]
    porism.realize(*many)
    assert [y.tolist()[0] for y in many] == [0.25 - k for k in range(6)]
    assert len(program._functions) <= 4
