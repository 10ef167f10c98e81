"""Initializers: distributions, and that they follow from the seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import porism
from porism import nn


def draw(initialize: Any, *sizes: int, **options: Any) -> Any:
    """Return the values of a tensor after an initializer."""
    porism.seed(11)
    tensor = porism.zeros(*sizes)
    assert initialize(tensor, **options) is tensor
    return tensor.numpy()


@pytest.mark.parametrize(
    ("initialize", "options", "std"),
    [
        (nn.init.uniform_, {"a": -1.0, "b": 1.0}, 1 / math.sqrt(3)),
        (nn.init.normal_, {"std": 2.0}, 2.0),
        (nn.init.xavier_uniform_, {}, math.sqrt(2 / 700)),
        (nn.init.xavier_normal_, {"gain": 3.0}, 3 * math.sqrt(2 / 700)),
        (nn.init.kaiming_uniform_, {"nonlinearity": "relu"}, math.sqrt(2 / 400)),
        (nn.init.kaiming_normal_, {"mode": "fan_out"}, math.sqrt(2 / 300)),
        (nn.init.kaiming_uniform_, {"a": math.sqrt(5)}, math.sqrt(1 / 1200)),
    ],
)
def test_variances_are_as_stated(initialize: Any, options: dict[str, Any], std: float) -> None:
    values = draw(initialize, 300, 400, **options)
    assert abs(values.std() / std - 1) < 0.01
    assert abs(values.mean()) < 0.02 * std


def test_other_values() -> None:
    assert (draw(nn.init.ones_, 2, 3) == 1).all()
    assert (draw(nn.init.constant_, 2, 3, val=2.5) == 2.5).all()
    assert not draw(nn.init.zeros_, 2, 3).any()
    assert np.array_equal(draw(nn.init.eye_, 2, 3), np.eye(2, 3))
    truncated = draw(nn.init.trunc_normal_, 100, 100, a=-0.5, b=1.0)
    assert truncated.min() >= -0.5
    assert truncated.max() <= 1.0
    for sizes in ((5, 3), (3, 5), (4, 2, 2)):
        matrix = draw(nn.init.orthogonal_, *sizes).reshape(sizes[0], -1).astype("f8")
        small = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
        np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-6)


def test_numbers_follow_from_the_seed_and_differ_from_draw_to_draw() -> None:
    first = draw(nn.init.normal_, 1000)
    second = nn.init.normal_(porism.zeros(1000)).numpy()
    assert np.array_equal(first, draw(nn.init.normal_, 1000))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.1


def test_layers_of_a_module_start_with_different_weights() -> None:
    porism.seed(5)
    a, b = nn.Linear(30, 30), nn.Linear(30, 30)
    correlation = np.corrcoef(a.weight.numpy().ravel(), b.weight.numpy().ravel())
    assert abs(correlation[0, 1]) < 0.15
