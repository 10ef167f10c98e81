"""Activations, and other functions of each element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fuzz.program.oracle.arrays import FLOAT, floats, is_float
from fuzz.program.oracle.elementwise import floor_divide, sigmoid, softplus
from fuzz.program.oracle.movement import take
from porism.ir.facts.semantics import Array


def elu(x: Array, alpha: float = 1.0) -> Array:
    values = floats(x)
    return np.where(values > 0, values, alpha * np.expm1(values))


def selu(x: Array) -> Array:
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def celu(x: Array, alpha: float = 1.0) -> Array:
    values = floats(x)
    return np.where(values > 0, values, alpha * np.expm1(values / alpha))


def mish(x: Array) -> Array:
    return floats(x) * np.tanh(softplus(x))


def logsigmoid(x: Array) -> Array:
    return -softplus(-floats(x))


def tanhshrink(x: Array) -> Array:
    return floats(x) - np.tanh(floats(x))


def relu6(x: Array) -> Array:
    return np.clip(x, 0, 6)


def hardtanh(x: Array, min_val: float = -1.0, max_val: float = 1.0) -> Array:
    return np.clip(floats(x), min_val, max_val)


def hardsigmoid(x: Array) -> Array:
    return np.clip(floats(x) / 6 + 0.5, 0, 1)


def hardswish(x: Array) -> Array:
    return floats(x) * hardsigmoid(x)


def softsign(x: Array) -> Array:
    return np.asarray(floats(x) / (1 + np.abs(floats(x))))


def softshrink(x: Array, lambd: float = 0.5) -> Array:
    values = floats(x)
    return np.where(np.abs(values) > lambd, values - np.copysign(lambd, values), values * 0)


def hardshrink(x: Array, lambd: float = 0.5) -> Array:
    return np.where(np.abs(x) <= lambd, 0.0, x)


def threshold(x: Array, threshold: float, value: float) -> Array:
    return np.where(x <= threshold, value, x)


def prelu(x: Array, weight: Array) -> Array:
    slope = weight
    if weight.size != 1 and x.ndim > 1:
        slope = weight.reshape([-1 if k == 1 else 1 for k in range(x.ndim)])
    return np.where(x >= 0, x, slope * x)


def glu(x: Array, axis: int = -1) -> Array:
    value, gate = np.split(floats(x), 2, axis)
    return value * sigmoid(gate)


# -- functions of floats ---------------------------------------------------------------------------

_erfc: Final = np.vectorize(math.erfc, otypes=[FLOAT])


def erfc(x: Array) -> Array:
    return np.asarray(_erfc(floats(x)))


def erfinv(x: Array) -> Array:
    """By bisection of erf."""
    values = floats(x)
    low, high = np.full(values.shape, -6.0), np.full(values.shape, 6.0)
    for _ in range(60):
        middle = (low + high) / 2
        above = 1 - erfc(middle) > values
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    inside = np.where(np.abs(values) < 1, (low + high) / 2, np.copysign(np.inf, values))
    return np.asarray(np.where(np.abs(values) <= 1, inside, np.nan))


def logit(x: Array, eps: float | None = None) -> Array:
    return np.log(floats(x)) - np.log1p(-floats(x))


def frac(x: Array) -> Array:
    return np.asarray(x - np.trunc(x))


def divmod(x1: Any, x2: Any) -> tuple[Array, Array]:
    return floor_divide(x1, x2), np.divmod(x1, x2)[1]


def xlogy(x1: Array, x2: Array) -> Array:
    return np.where(x1 == 0, 0.0, x1 * np.log(x2))


def addcmul(x: Array, tensor1: Array, tensor2: Array, value: float = 1) -> Array:
    return np.asarray(x + value * tensor1 * tensor2)


def addcdiv(x: Array, tensor1: Array, tensor2: Array, value: float = 1) -> Array:
    return np.asarray(x + value * (tensor1 / tensor2))


def allclose(x1: Array, x2: Array, equal_nan: bool = False) -> Array:
    return np.asarray(np.allclose(x1, x2, equal_nan=equal_nan))


def array_equal(x1: Array, x2: Array, equal_nan: bool = False) -> Array:
    return np.asarray(np.array_equal(x1, x2, equal_nan=equal_nan))


def nan_to_num(x: Array, nan: float, posinf: float, neginf: float) -> Array:
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf) if is_float(x) else x


def select(condlist: Sequence[Array], choicelist: Sequence[Array], default: Any = 0) -> Array:
    found = np.broadcast_to(np.asarray(default, choicelist[0].dtype), choicelist[0].shape)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = np.where(condition, choice, found)
    return found


def masked_fill(x: Array, mask: Array, value: Any) -> Array:
    return np.where(mask, np.asarray(value, x.dtype), x)


def embedding(x: Array, weight: Array) -> Array:
    return take(weight, x, 0)


# -- networks --------------------------------------------------------------------------------------


def _length(x: Array, ord: float, axis: int, keepdims: bool = False) -> Array:
    total = np.sum(np.abs(floats(x)) ** ord, axis, keepdims=keepdims)
    return np.asarray(total ** (1 / ord))


def normalize(x: Array, ord: float = 2, axis: int = 1, eps: float = 1e-12) -> Array:
    return floats(x) / np.maximum(_length(x, ord, axis, True), eps)


def cosine_similarity(x1: Array, x2: Array, axis: int = 1, eps: float = 1e-8) -> Array:
    product = np.sum(floats(x1) * floats(x2), axis)
    lengths = [np.maximum(_length(x, 2, axis), eps) for x in (x1, x2)]
    return np.asarray(product / (lengths[0] * lengths[1]))


def pairwise_distance(x1: Array, x2: Array, ord: float = 2, eps: float = 1e-6) -> Array:
    return _length(floats(x1) - floats(x2) + eps, ord, -1)


def _reduced(loss: Array, reduction: str) -> Array:
    if reduction == "none":
        return loss
    if reduction == "batchmean":
        return np.asarray(np.sum(loss) / len(loss))
    return np.asarray(np.sum(loss) if reduction == "sum" else np.mean(loss))


def smooth_l1_loss(x: Array, target: Array, reduction: str = "mean", beta: float = 1.0) -> Array:
    far = np.abs(floats(x) - target)
    return _reduced(np.where(far < beta, far * far / (2 * beta), far - beta / 2), reduction)


def kl_div(x: Array, target: Array, reduction: str = "mean") -> Array:
    known = np.where(target > 0, target, 1.0)
    return _reduced(np.where(target > 0, target * (np.log(known) - x), 0.0), reduction)


def _linear_matrix(positions: Array, n: int) -> Array:
    inside = np.clip(positions, 0, n - 1)
    return np.asarray(np.maximum(1 - np.abs(inside[:, None] - np.arange(n)), 0))


def _cubic_matrix(positions: Array, n: int) -> Array:
    """Cubic convolution with -0.75; elements outside are those at the ends."""
    reach = 3
    far = np.abs(positions[:, None] - np.arange(-reach, n + reach))
    # 1.25 t³ - 2.25 t² + 1 and -0.75 (t³ - 5 t² + 8 t - 4), without cancellation at their zeros.
    near, next_to_it = (1 - far) * (1 + far - 1.25 * far**2), -0.75 * (far - 1) * (far - 2) ** 2
    weights = np.where(far <= 1, near, next_to_it) * (far < 2)
    matrix = weights[:, reach:-reach].copy()
    matrix[:, 0] += weights[:, :reach].sum(1)
    matrix[:, -1] += weights[:, -reach:].sum(1)
    return np.asarray(matrix)


def interpolate(
    x: Array,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
) -> Array:
    found = floats(x)
    for k, n in enumerate(x.shape[2:]):
        m = n * scale_factor if size is None else size[k]
        ratio = n / m
        if mode == "nearest":
            found = np.take(found, np.arange(m) * n // m, 2 + k)
        elif mode == "nearest-exact":
            found = np.take(found, (2 * np.arange(m) + 1) * n // (2 * m), 2 + k)
        else:
            positions = (np.arange(m) + 0.5) * ratio - 0.5
            if align_corners:
                positions = np.arange(m) * ((n - 1) / (m - 1) if m > 1 else 0.0)
            matrix = (
                _cubic_matrix(positions, n) if mode == "bicubic" else _linear_matrix(positions, n)
            )
            found = np.moveaxis(np.moveaxis(found, 2 + k, -1) @ matrix.T, -1, 2 + k)
    return found
