"""Attention against its formula in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError, TypeMismatch
from porism.ir.facts.semantics import Array
from tests.tensor.oracle import FLOATS, agree, draw, refuses, to_double

attention = porism.scaled_dot_product_attention


def expected(q: Array, k: Array, v: Array, added: Any = 0.0, scale: float | None = None) -> Array:
    if q.ndim > 2 and q.shape[-3] != k.shape[-3]:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], axis=-3) for x in (k, v))
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    scores = to_double(q) @ to_double(k).swapaxes(-1, -2) * factor + added
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True) @ to_double(v))


def inputs(name: str = "float64", heads: int = 4, groups: int = 4) -> tuple[Array, Array, Array]:
    """Return 5 queries, 7 keys and 7 values, with 8 features for keys and 3 for values."""
    return (
        draw(name, (2, heads, 5, 8), scale=1),
        draw(name, (2, groups, 7, 8), seed=1, scale=1),
        draw(name, (2, groups, 7, 3), seed=2, scale=1),
    )


@pytest.mark.parametrize("name", FLOATS)
def test_types(name: str) -> None:
    q, k, v = inputs(name)
    agree(attention(q, k, v), expected(q, k, v), name)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_grouped_query_heads(groups: int) -> None:
    q, k, v = inputs(groups=groups)
    agree(attention(q, k, v), expected(q, k, v))
    hidden = np.where(np.tri(5, 7, dtype=bool), 0.0, -np.inf)
    agree(attention(q, k, v, causal=True), expected(q, k, v, hidden))


@pytest.mark.parametrize(
    "shape", [(5, 7), (1, 7), (4, 5, 7), (2, 1, 5, 7), (2, 4, 5, 7), (7,)], ids=str
)
@pytest.mark.parametrize("groups", [2, 4])
def test_masks(shape: tuple[int, ...], groups: int) -> None:
    q, k, v = inputs(groups=groups)
    seen = draw("bool", shape)
    seen[..., 0] = True
    agree(attention(q, k, v, seen), expected(q, k, v, np.where(seen, 0.0, -np.inf)))
    added = draw("float64", shape)
    agree(attention(q, k, v, added), expected(q, k, v, added))


def test_a_mask_and_causal_together() -> None:
    q, k, v = inputs()
    seen = draw("bool", (5, 7))
    seen[:, 0] = True
    both = np.where(seen & np.tri(5, 7, dtype=bool), 0.0, -np.inf)
    agree(attention(q, k, v, seen, causal=True), expected(q, k, v, both))


def test_scale() -> None:
    q, k, v = inputs()
    agree(attention(q, k, v, scale=0.3), expected(q, k, v, scale=0.3))


def test_without_batch_and_heads() -> None:
    q, k, v = (x[0, 0] for x in inputs())
    agree(attention(q, k, v), expected(q, k, v))


def test_scores_of_half_precision_are_in_single() -> None:
    # The scores are 76800 before scaling: infinite in f16.
    q = np.full((1, 1, 1, 8), 100, "float16")
    k = np.full((1, 1, 2, 8), 96, "float16")
    v = np.array([1.0, 3.0], "float16").reshape(1, 1, 2, 1)
    agree(attention(q, k, v), np.full((1, 1, 1, 1), 2, "float16"))


ERRORS: list[tuple[Callable[[Any, Any, Any], Any], str]] = [
    (lambda q, k, v: attention(q, k[..., :4], v), "attention with query, key and value of shapes"),
    (lambda q, k, v: attention(q, k, v[..., :4, :]), "attention with query, key and value"),
    (lambda q, k, v: attention(q[0, 0, 0], k, v), "attention with query, key and value"),
    (lambda q, k, v: attention(q, k[:, :3], v[:, :3]), "4 heads of queries, 3 of keys"),
    (lambda q, k, v: attention(q, k, v, porism.zeros((5, 6))), "do not go together"),
]


@pytest.mark.parametrize(("call", "what"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call: Callable[[Any, Any, Any], Any], what: str) -> None:
    q, k, v = map(porism.asarray, inputs())
    with refuses(ShapeError, what):
        call(q, k, v)


def test_types_that_do_not_fit() -> None:
    q, k, v = inputs()
    with refuses(TypeMismatch, "an attention mask of int64"):
        attention(q, k, v, np.ones((5, 7), "int64"))
    with refuses(TypeMismatch, "scaled_dot_product_attention of a tensor of int64"):
        attention(*(np.ones((2, 2), "int64") for _ in range(3)))
