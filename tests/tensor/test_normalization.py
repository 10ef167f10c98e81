"""Normalization against its formulas in NumPy, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError
from porism.ir.facts.semantics import Array
from tests.tensor.oracle import FLOATS, agree, draw, refuses, to_double

EPS = 1e-5


def softmax(x: Array, axis: Any = -1) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def standardized(x: Array, axes: Any) -> Array:
    distance = x - x.mean(axes, keepdims=True)
    return np.asarray(distance / np.sqrt(x.var(axes, keepdims=True) + EPS))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (1, 1), (2, 0, 3)], ids=str)
def test_softmax(shape: tuple[int, ...], name: str) -> None:
    x = draw(name, shape)
    for axis in range(-len(shape), len(shape)):
        if shape[axis] == 0:
            agree(porism.softmax(x, axis), x)
            continue
        agree(porism.softmax(x, axis), softmax(to_double(x), axis), name)
        agree(porism.log_softmax(x, axis), np.log(softmax(to_double(x), axis)), name)


def test_softmax_over_several_axes_and_of_integers() -> None:
    x = draw("int64", (2, 3, 4))
    agree(porism.softmax(x, (0, 2)), softmax(x.astype("float64"), (0, 2)), "float32")


def test_softmax_does_not_overflow() -> None:
    x = np.array([[1000.0, 999.0, -1000.0], [-np.inf, 0.0, 1.0]], "float32")
    agree(porism.softmax(x), softmax(to_double(x)), "float32")
    agree(porism.log_softmax(x[:1]), np.array([[-0.31326166, -1.3132616, -2000.3132]], "float32"))
    x = np.array([60000.0, -60000.0], "float16")
    agree(porism.softmax(x), np.array([1, 0], "float16"))


def test_softmax_of_nothing_but_minus_infinity() -> None:
    agree(porism.softmax(np.full(3, -np.inf, "float32")), np.full(3, np.nan, "float32"))


@pytest.mark.parametrize("name", FLOATS)
def test_layer_norm(name: str) -> None:
    x, weight, bias = draw(name, (2, 3, 8)), draw(name, (8,)), draw(name, (8,), seed=1)
    expected = standardized(to_double(x), -1)
    agree(porism.layer_norm(x), expected, name)
    agree(porism.layer_norm(x, weight), expected * to_double(weight), name)
    agree(porism.layer_norm(x, weight, bias), expected * to_double(weight) + to_double(bias), name)
    agree(porism.layer_norm(x, None, bias), expected + to_double(bias), name)


def test_layer_norm_over_several_axes() -> None:
    x, weight = draw("float64", (2, 3, 4)), draw("float64", (3, 4))
    agree(porism.layer_norm(x, weight), standardized(x, (1, 2)) * weight)
    agree(porism.layer_norm(x, axis=0), standardized(x, 0))
    wider = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.5)
    agree(porism.layer_norm(x, eps=0.5), wider)


def test_layer_norm_of_far_values_keeps_its_digits() -> None:
    # The mean square minus the squared mean would be all rounding here.
    x = (10000 + np.arange(8)).astype("float32")
    agree(porism.layer_norm(x), standardized(to_double(x), -1), "float32", tolerance=1e-5)


@pytest.mark.parametrize("name", FLOATS)
def test_rms_norm(name: str) -> None:
    x, weight = draw(name, (3, 8)), draw(name, (8,))
    values = to_double(x)
    expected = values / np.sqrt((values**2).mean(-1, keepdims=True) + EPS)
    agree(porism.rms_norm(x), expected, name)
    agree(porism.rms_norm(x, weight), expected * to_double(weight), name)


def test_batch_norm() -> None:
    x = draw("float64", (4, 3, 2, 5))
    mean, variance = draw("float64", (3,)), draw("float64", (3,), seed=1) ** 2
    weight, bias = draw("float64", (3,), seed=2), draw("float64", (3,), seed=3)

    def column(values: Array) -> Array:
        return values[:, None, None]

    expected = (x - column(mean)) / np.sqrt(column(variance) + EPS)
    agree(porism.batch_norm(x, mean, variance), expected)
    expected = expected * column(weight) + column(bias)
    agree(porism.batch_norm(x, mean, variance, weight, bias), expected)
    expected = standardized(x, (0, 2, 3))
    agree(porism.batch_norm(x, mean, variance, training=True), expected)
    agree(porism.batch_norm(x[..., 0, 0], training=True), standardized(x[..., 0, 0], 0))


def test_running_statistics() -> None:
    x = draw("float32", (4, 3, 2))
    mean, variance = draw("float32", (3,)), np.ones(3, "float32")
    actual = porism.batch_statistics(x, mean, variance, momentum=0.3)
    agree(actual[0], 0.7 * mean + 0.3 * to_double(x).mean((0, 2)), "float32")
    agree(actual[1], 0.7 * variance + 0.3 * to_double(x).var((0, 2), ddof=1), "float32")


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_group_norm(groups: int) -> None:
    x, weight, bias = draw("float64", (2, 6, 3)), draw("float64", (6,)), draw("float64", (6,), 1)
    expected = standardized(x.reshape(2, groups, -1), 2).reshape(x.shape)
    agree(porism.group_norm(x, groups), expected)
    agree(porism.group_norm(x, groups, weight, bias), expected * weight[:, None] + bias[:, None])


def test_instance_norm() -> None:
    x, weight = draw("float64", (2, 3, 4, 5)), draw("float64", (3,))
    agree(porism.instance_norm(x, weight), standardized(x, (2, 3)) * weight[:, None, None])


ERRORS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: porism.softmax(x, axis=3), "there is no axis 3"),
    (lambda x: porism.layer_norm(x, porism.ones(3)), "the weight of layer_norm has the shape (3,)"),
    (lambda x: porism.layer_norm(x, porism.ones(4), porism.ones(3)), "the bias of layer_norm"),
    (lambda x: porism.layer_norm(x, porism.ones((1, 1, 1, 1))), "over its last 4 axes"),
    (lambda x: porism.rms_norm(x, porism.ones(3)), "the weight of rms_norm has the shape (3,)"),
    (lambda x: porism.batch_norm(x), "batch_norm without running statistics"),
    (lambda x: porism.batch_norm(x[0, 0], training=True), "batch_norm of a tensor of shape (4,)"),
    (
        lambda x: porism.batch_norm(x, porism.ones(2), porism.ones(3)),
        "running_mean of batch_norm has the shape (2,)",
    ),
    (lambda x: porism.group_norm(x, 2), "group_norm of 3 channels in 2 groups"),
    (lambda x: porism.instance_norm(x, porism.ones(4)), "the weight of instance_norm"),
]


@pytest.mark.parametrize(("call", "what"), ERRORS, ids=[what for _, what in ERRORS])
def test_errors(call: Callable[[Any], Any], what: str) -> None:
    x = porism.zeros((2, 3, 4))
    with refuses(ShapeError, what):
        call(x)
