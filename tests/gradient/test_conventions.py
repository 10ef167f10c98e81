"""Gradients where there is no derivative: those of PyTorch, as recorded."""

from __future__ import annotations

import numpy as np
import pytest

import porism
from tests.gradient.conventions import ROWS, recorded


@pytest.mark.parametrize("name", ROWS)
def test_the_gradient_is_that_of_pytorch(name: str) -> None:
    row = ROWS[name]
    values = [porism.asarray(np.array(a, np.float64)) for a in row.arrays]

    def total(*given: object) -> porism.Tensor:
        names = {"M": porism, "F": porism, **dict(zip("abc", given, strict=False))}
        result: porism.Tensor = eval(row.ours, names).sum()
        return result

    found = porism.grad(total, tuple(range(len(values))))(*values)
    for gradient, expected in zip(found, recorded()[name], strict=True):
        np.testing.assert_allclose(gradient.numpy(), np.array(expected), rtol=1e-12, atol=1e-300)


def test_every_row_is_recorded() -> None:
    assert recorded().keys() == ROWS.keys()
