"""Losses against their formulas in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError, TypeMismatch
from porism.ir.facts.semantics import Array
from tests.tensor.oracle import FLOATS, agree, draw, refuses, to_double

REDUCTIONS: dict[str, Callable[[Array], Any]] = {
    "mean": np.mean,
    "sum": np.sum,
    "none": np.asarray,
}


def log_softmax(x: Array, axis: int) -> Array:
    x = x - x.max(axis, keepdims=True)
    return np.asarray(x - np.log(np.exp(x).sum(axis, keepdims=True)))


def log_likelihoods(x: Array, labels: Array) -> Array:
    """Return the value of each label's class; classes are along axis 1."""
    return np.asarray(np.take_along_axis(x, labels[:, None], 1)[:, 0])


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", FLOATS)
def test_cross_entropy(name: str, reduction: str) -> None:
    x, labels = draw(name, (6, 4)), np.arange(6) % 4
    losses = -log_likelihoods(log_softmax(to_double(x), 1), labels)
    actual = porism.cross_entropy(x, labels, reduction=reduction)
    agree(actual, REDUCTIONS[reduction](losses), name)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64"])
def test_labels_of_many_axes_and_of_any_integer_type(kind: str) -> None:
    x = draw("float64", (2, 4, 3, 5))
    labels = (np.arange(30) % 4).reshape(2, 3, 5)
    losses = -log_likelihoods(log_softmax(x, 1), labels)
    agree(porism.cross_entropy(x, labels.astype(kind), reduction="none"), losses)


def test_without_a_batch() -> None:
    x = draw("float64", (4,))
    agree(porism.cross_entropy(x, np.int64(2)), -log_softmax(x, 0)[2])


def test_ignored_labels() -> None:
    x, labels = draw("float64", (4, 3)), np.array([0, -100, 2, 7])
    losses = -log_likelihoods(log_softmax(x, 1), np.array([0, 0, 2, 0]))
    agree(porism.cross_entropy(x[:3], labels[:3]), losses[[0, 2]].mean())
    kept = np.array([1, 1, 1, 0]) * losses
    actual = porism.cross_entropy(x, np.array([0, 0, 2, 7]), ignore_index=7, reduction="none")
    agree(actual, kept)
    agree(porism.cross_entropy(x[:1], np.array([-100])), np.float64(np.nan))


def test_labels_out_of_range_give_nan() -> None:
    x = draw("float64", (3, 4))
    actual = porism.cross_entropy(x, np.array([0, 4, -1]), reduction="none").numpy()
    assert np.isnan(actual).tolist() == [False, True, True]
    assert np.isnan(porism.cross_entropy(x, np.array([0, 4, 1])).item())


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_class_weights(reduction: str) -> None:
    x, labels = draw("float64", (6, 4)), np.arange(6) % 4
    weight = np.array([1.0, 0.5, 2.0, 0.25])
    losses = -log_likelihoods(log_softmax(x, 1), labels) * weight[labels]
    expected = {
        "mean": losses.sum() / weight[labels].sum(),
        "sum": losses.sum(),
        "none": losses,
    }[reduction]
    agree(porism.cross_entropy(x, labels, weight, reduction=reduction), expected)
    logs = log_softmax(x, 1)
    agree(porism.nll_loss(logs, labels, weight, reduction=reduction), expected)


def test_smoothed_labels_are_probabilities() -> None:
    x, labels = draw("float64", (6, 4)), np.arange(6) % 4
    shares = np.eye(4)[labels] * 0.9 + 0.1 / 4
    expected = -(shares * log_softmax(x, 1)).sum(1).mean()
    agree(porism.cross_entropy(x, labels, label_smoothing=0.1), expected)
    agree(porism.cross_entropy(x, shares), expected)
    agree(porism.cross_entropy(x, np.eye(4)[labels], label_smoothing=0.1), expected)


def test_probabilities_with_weights() -> None:
    x, shares = draw("float64", (3, 4, 2)), abs(draw("float64", (3, 4, 2), seed=1))
    weight = np.array([1.0, 0.5, 2.0, 0.25])
    expected = -(shares * log_softmax(x, 1) * weight[:, None]).sum(1)
    agree(porism.cross_entropy(x, shares, weight, reduction="none"), expected)
    agree(porism.cross_entropy(x, shares, weight), expected.mean())


ELEMENTWISE: dict[str, Callable[[Array, Array], Array]] = {
    "mse_loss": lambda x, y: (x - y) ** 2,
    "l1_loss": lambda x, y: abs(x - y),
    "huber_loss": lambda x, y: np.where(abs(x - y) <= 1, (x - y) ** 2 / 2, abs(x - y) - 0.5),
    "binary_cross_entropy_with_logits": lambda x, y: np.logaddexp(0, x) - x * y,
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("function", ELEMENTWISE)
@pytest.mark.parametrize("name", FLOATS)
def test_elementwise_losses(name: str, function: str, reduction: str) -> None:
    x, target = draw(name, (3, 5)), abs(draw(name, (3, 5), seed=1, scale=0.3))
    expected = REDUCTIONS[reduction](ELEMENTWISE[function](to_double(x), to_double(target)))
    agree(getattr(porism, function)(x, target, reduction=reduction), expected, name)


def test_binary_cross_entropy() -> None:
    p, y = np.array([0.1, 0.5, 1.0, 0.0, 0.0]), np.array([0.0, 0.3, 1.0, 0.0, 1.0])
    expected = [-np.log(0.9), np.log(2), 0.0, 0.0, 100.0]
    agree(porism.binary_cross_entropy(p, y, reduction="none"), np.array(expected))
    weight = np.array([1.0, 2.0, 3.0, 4.0, 0.5])
    actual = porism.binary_cross_entropy(p, y, weight, reduction="sum")
    agree(actual, (np.array(expected) * weight).sum())


def test_logits_neither_overflow_nor_lose_the_tail() -> None:
    x = np.array([1000.0, -1000.0, -60.0], "float32")
    actual = porism.binary_cross_entropy_with_logits(x, np.zeros(3, "float32"), reduction="none")
    values = actual.numpy()
    assert values[0] == 1000
    assert values[1] == 0
    np.testing.assert_allclose(values[2], np.exp(-60.0), rtol=1e-5)


def test_pos_weight() -> None:
    x, y = draw("float64", (3, 4)), abs(draw("float64", (3, 4), seed=1, scale=0.3))
    weight = np.array([1.0, 2.0, 3.0, 4.0])
    expected = y * np.logaddexp(0, -x) * weight + (1 - y) * np.logaddexp(0, x)
    actual = porism.binary_cross_entropy_with_logits(x, y, reduction="none", pos_weight=weight)
    agree(actual, expected)


ERRORS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: porism.cross_entropy(x, np.zeros(3, int)), "with labels of shape (3,)"),
    (lambda x: porism.cross_entropy(x, np.zeros((2, 2))), "with a target of float64 of shape"),
    (lambda x: porism.cross_entropy(x[0, 0], 0), "cross_entropy of a scalar"),
    (lambda x: porism.cross_entropy(x, [0, 1], reduction="avg"), "with reduction='avg'"),
    (lambda x: porism.cross_entropy(x, [0, 1], label_smoothing=2), "with label_smoothing=2"),
    (lambda x: porism.cross_entropy(x, [0, 1], porism.ones(2)), "with weights of shape (2,)"),
    (lambda x: porism.mse_loss(x, x[0]), "mse_loss of shapes (2, 3) and (3,)"),
    (lambda x: porism.l1_loss(x, x, reduction=None), "l1_loss with reduction=None"),
]


@pytest.mark.parametrize(("call", "what"), ERRORS, ids=[what for _, what in ERRORS])
def test_errors(call: Callable[[Any], Any], what: str) -> None:
    x = porism.zeros((2, 3))
    with refuses(ShapeError, what):
        call(x)


def test_labels_are_integers() -> None:
    with refuses(TypeMismatch, "nll_loss of a tensor of float32"):
        porism.nll_loss(porism.zeros((2, 3)), porism.zeros(2))


def test_classes_with_a_stride_in_memory() -> None:
    """Labels are any 64-bit integers; the indices of their classes contain divisions."""
    x = draw("float32", (9, 5))
    labels = np.array([4, -100, 14])
    scores = x.T.reshape(3, 15)
    actual = porism.asarray(x).T.reshape(3, 15).nll_loss(labels, reduction="none")
    agree(actual, np.array([-scores[0, 4], 0.0, -scores[2, 14]]), "float32")
    x, labels = draw("float32", (5, 36)), np.arange(20) % 9
    actual = porism.asarray(x).triu().reshape(20, 9).nll_loss(labels, reduction="none")
    agree(actual, -log_likelihoods(np.triu(x).reshape(20, 9), labels), "float32")


def test_cross_entropy_of_very_many_classes() -> None:
    generator = np.random.default_rng(0)
    logits = generator.standard_normal((3, 50257)).astype(np.float32)  # its sum is split in two
    labels = np.array([0, 50256, -100])
    shifted = logits - logits.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    expected = -(logs[0, 0] + logs[1, 50256]) / 2
    np.testing.assert_allclose(porism.cross_entropy(logits, labels).item(), expected, rtol=1e-5)
    gradient = porism.grad(lambda x: porism.cross_entropy(x, labels))(porism.asarray(logits))
    rows = np.exp(logs) / 2
    rows[0, 0] -= 0.5
    rows[1, 50256] -= 0.5
    rows[2] = 0
    np.testing.assert_allclose(gradient.numpy(), rows, atol=1e-6)
    assert np.isnan(porism.cross_entropy(logits, np.array([0, 50257, 1])).item())
