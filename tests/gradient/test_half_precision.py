"""Gradients of 16-bit floats: those of float32 on the same numbers, rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from tests.tiers import quick_if

TOLERANCE = {"float16": 4e-3, "bfloat16": 4e-2}
"""A few times the relative rounding of the type."""

ROWS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "product": (lambda x, y: (x @ y).sum(), ((5, 7), (7, 3))),
    "batched product": (lambda x, y: ((x @ y) ** 2).mean(), ((2, 5, 7), (2, 7, 3))),
    "convolution": (
        lambda x, w: porism.conv2d(x, w, stride=2, padding=1).sum(),
        ((1, 3, 7, 7), (4, 3, 3, 3)),
    ),
    "softmax": (lambda x: (porism.softmax(x, axis=1) ** 2).sum(), ((4, 9),)),
    "layer norm": (
        lambda x, w, b: (porism.layer_norm(x, w, b) ** 2).sum(),
        ((3, 16), (16,), (16,)),
    ),
    "cross entropy": (
        lambda x: porism.cross_entropy(x, porism.asarray([1, 0, 3])),
        ((3, 5),),
    ),
    "gelu": (lambda x: porism.gelu(x).sum(), ((6, 5),)),
    "exponential": (lambda x: porism.exp(x).mean(), ((13,),)),
    "quotient": (lambda x, y: (x / (y * y + 1)).sum(), ((4, 3), (3,))),
    "maximum": (lambda x: x.max(axis=1).sum(), ((4, 6),)),
    "max pool": (lambda x: porism.max_pool2d(x, 2).sum(), ((1, 2, 6, 6),)),
    "cumulative sum": (lambda x: (porism.cumsum(x, axis=0) ** 2).sum(), ((7,),)),
    "norm": (lambda x: (x * x).sum().sqrt(), ((9,),)),
    "attention": (
        lambda q, k, v: (porism.scaled_dot_product_attention(q, k, v, causal=True) ** 2).sum(),
        ((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8)),
    ),
}


@pytest.mark.parametrize("kind", quick_if(lambda kind: kind == "float16", TOLERANCE))
@pytest.mark.parametrize("name", quick_if(lambda name: name != "attention", ROWS))
def test_gradients_are_those_of_float32(name: str, kind: str) -> None:
    function, shapes = ROWS[name]
    rng = np.random.default_rng(3)
    narrow = [porism.asarray(rng.standard_normal(s).astype("f")).astype(kind) for s in shapes]
    wide = [x.astype("float32") for x in narrow]
    numbers = tuple(range(len(shapes)))
    results = porism.grad(function, argnums=numbers)(*narrow)
    expected = porism.grad(function, argnums=numbers)(*wide)
    for result, right, x in zip(results, expected, narrow, strict=True):
        assert result.dtype == x.dtype
        assert result.shape == x.shape
        exact = right.numpy()
        scale = max(float(np.abs(exact).max()), 1.0)
        error = np.abs(result.astype("float32").numpy() - exact).max()
        assert error <= 2 * TOLERANCE[kind] * scale, (error, scale)
