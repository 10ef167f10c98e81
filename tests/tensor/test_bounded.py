"""Functions on tensors of a symbolic size give what they give for its bound value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError
from tests.tensor.oracle import draw, refuses

N = porism.Variable("n", 1, 6)

X = draw("float32", (6, 4, 8))
"""Its first axis is sliced to n elements."""

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: porism.sum(x, axis=0),
    "mean of the symbolic axis": lambda x: porism.mean(x, axis=0),
    "var of the symbolic axis": lambda x: porism.var(x, axis=(0, 1), correction=1),
    "argmax": lambda x: porism.argmax(x, axis=0),
    "argmax of all": lambda x: porism.argmax(x),
    "logsumexp": lambda x: porism.logsumexp(x, axis=0),
    "cumsum": lambda x: porism.cumsum(x, axis=1),
    "softmax": lambda x: porism.softmax(x, axis=0),
    "layer_norm": lambda x: porism.layer_norm(x, X[0, 0], X[1, 0]),
    "group_norm": lambda x: porism.group_norm(x, 2),
    "matmul": lambda x: porism.matmul(x, X[0].T),
    "einsum": lambda x: porism.einsum("nij,nkj->ik", x, x),
    "einsum of a symbolic result": lambda x: porism.einsum("nij,mij->nm", x, x),
    "tensordot": lambda x: porism.tensordot(x, X[0], axes=2),
    "conv1d": lambda x: porism.conv1d(x, X[:, :, :3], padding=1, stride=2),
    "conv_transpose1d": lambda x: porism.conv_transpose1d(x, X[:4, :2, :3], stride=2),
    "max_pool1d": lambda x: porism.max_pool1d(x, 3, 2, 1),
    "avg_pool1d": lambda x: porism.avg_pool1d(x, 3, 2, 1, count_include_pad=False),
    "attention over a symbolic length": lambda x: porism.scaled_dot_product_attention(
        x[:, 0], x[:, 1], x[:, 2], causal=True
    ),
    "attention with a symbolic batch": lambda x: porism.scaled_dot_product_attention(x, x, x),
    "sort": lambda x: porism.sort(x, axis=1),
    "argsort": lambda x: porism.argsort(x, axis=2),
    "mse_loss": lambda x: porism.mse_loss(x, x * 2),
    "cross_entropy": lambda x: porism.cross_entropy(x, porism.argmax(x * -1, axis=1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("value", [1, 5])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_a_symbolic_size(function: str, value: int) -> None:
    call = FUNCTIONS[function]
    actual = call(porism.asarray(X)[: N.bind(value)])
    expected = call(porism.asarray(X[:value])).numpy()
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-5, atol=1e-5)


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: porism.cumsum(x, axis=0), "cumsum along an axis of the symbolic size n=3"),
    (lambda x: porism.sort(x, axis=0), "sort along an axis of the symbolic size n=3"),
    (lambda x: porism.max_pool1d(x.permute_dims((1, 2, 0)), 2), "max_pool1d along an axis"),
    (
        lambda x: porism.conv1d(x.permute_dims((1, 2, 0)), np.ones((2, 8, 2))),
        "conv1d along an axis",
    ),
    (lambda x: porism.dropout(x), "random numbers along an axis of the symbolic size n=3"),
]


@pytest.mark.parametrize(("call", "what"), REFUSED, ids=[what for _, what in REFUSED])
def test_functions_that_need_known_sizes(call: Callable[[Any], Any], what: str) -> None:
    x = porism.asarray(X)[: N.bind(3)]
    with refuses(ShapeError, what):
        call(x)


def test_the_graph_is_the_same_for_every_value() -> None:
    from porism.engine.run.realize import request

    x = porism.asarray(X)
    graphs = {
        request([porism.softmax(x[: N.bind(value)], axis=0).node]).graph for value in (2, 3, 4)
    }
    assert len(graphs) == 1


def test_a_symbolic_size_is_not_another() -> None:
    x, m = porism.asarray(X), porism.Variable("m", 1, 6)
    with refuses(ShapeError, "matmul of tensors of shapes"):
        porism.matmul(x[: N.bind(2), 0].permute_dims((1, 0)), x[: m.bind(2), 0])
