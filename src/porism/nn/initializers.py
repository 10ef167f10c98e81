"""Initializers: first values of parameters, drawn on the host, so that no kernel is compiled.

They follow from `porism.seed`, as all random numbers do: each draw takes the counter of the random
state, and the Philox generator turns key and counter into bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from porism.base.dtypes import DType
from porism.base.errors import PorismError
from porism.engine.run.buffer_storage import node_storage
from porism.ir.facts.semantics import Array
from porism.tensor.api.random import advance_counter
from porism.tensor.conversion import from_copy
from porism.tensor.promotion import DEFAULT_FLOAT, as_dtype
from porism.tensor.shapes import Sizes
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line

GAINS: Final = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5 / 3,
    "relu": math.sqrt(2),
    "selu": 3 / 4,
}
"""By how much a layer before each nonlinearity is scaled, so that variances stay the same."""


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that keeps the variance of what follows a nonlinearity.

    >>> porism.nn.init.calculate_gain("relu")
    1.4142135623730951
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in GAINS:
        raise PorismError(
            f"a gain for the nonlinearity {nonlinearity!r}",
            where=users_line(),
            why="gains are known of " + ", ".join([*GAINS, "leaky_relu"]),
            fix="pass one of these",
        )
    return GAINS[nonlinearity]


# -- draws -----------------------------------------------------------------------------------------


def _bits(count: int) -> Any:
    """Return `count` words of 64 random bits, and advance the random state."""
    key, counter = (int(word) for word in advance_counter(count))
    generator = np.random.Philox(key=key, counter=[0, 0, counter, 1])
    return generator.random_raw(count)


def uniform_array(sizes: Sequence[int], low: float, high: float) -> Array:
    """Return uniform numbers in [low, high), in float64."""
    fraction = (_bits(math.prod(sizes)) >> np.uint64(11)) * 2.0**-53
    values: Array = low + fraction * (high - low)
    return values.reshape(sizes)


def normal_array(sizes: Sequence[int], mean: float, std: float) -> Array:
    """Return normally distributed numbers, in float64, by Box and Muller."""
    count = math.prod(sizes)
    words = _bits(2 * count)
    radius = ((words[:count] >> np.uint64(11)) + 1.0) * 2.0**-53  # in (0, 1]: a finite logarithm
    angle = (words[count:] >> np.uint64(11)) * (2.0**-53 * 2 * math.pi)
    values: Array = mean + std * np.sqrt(-2 * np.log(radius)) * np.cos(angle)
    return values.reshape(sizes)


def tensor_of(array: Array, dtype: Any = None) -> Tensor:
    """Return a tensor with the values of an array, float32 by default."""
    wanted: DType = DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    return from_copy(array.astype(wanted.numpy))


# -- in place, as in PyTorch -----------------------------------------------------------------------


def _fill(tensor: Tensor, array: Array) -> Tensor:
    """Give a tensor the values of an array, and return the tensor."""
    values = np.broadcast_to(array, _sizes(tensor)).astype(tensor.dtype.numpy)
    node = from_copy(values, device=tensor.device).node
    node_storage(node)
    tensor.node = node
    return tensor


def _sizes(tensor: Tensor) -> list[int]:
    """Return the sizes of a tensor, which are not symbolic."""
    sizes: Sizes = tensor.shape
    return [static_size(size, "an initializer") for size in sizes]


def fans(sizes: Sequence[int]) -> tuple[int, int]:
    """Return the inputs and outputs of each unit of a weight of shape (out, in, taps…)."""
    if len(sizes) < 2:
        raise PorismError(
            f"fan-in and fan-out of a tensor of {len(sizes)} axes",
            where=users_line(),
            why="they are read off a weight of shape (out, in, …)",
            fix="use uniform_ or normal_ for vectors",
        )
    taps = math.prod(sizes[2:])
    return sizes[1] * taps, sizes[0] * taps


def zeros_(tensor: Tensor) -> Tensor:
    """Fill a tensor with zeros, and return it."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill a tensor with ones, and return it."""
    return constant_(tensor, 1.0)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill a tensor with one number, and return it."""
    return _fill(tensor, np.asarray(val))


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with ones on its diagonal and zeros elsewhere, and return it."""
    rows, columns = _sizes(tensor)
    return _fill(tensor, np.eye(rows, columns))


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Fill a tensor with uniform numbers in [a, b), and return it."""
    return _fill(tensor, uniform_array(_sizes(tensor), a, b))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Fill a tensor with normally distributed numbers, and return it."""
    return _fill(tensor, normal_array(_sizes(tensor), mean, std))


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0
) -> Tensor:
    """Fill a tensor with normal numbers, drawn again while outside of [a, b]; return it."""
    values = normal_array(_sizes(tensor), mean, std)
    outside = (values < a) | (values > b)
    while outside.any():
        values[outside] = normal_array([int(outside.sum())], mean, std)
        outside = (values < a) | (values > b)
    return _fill(tensor, values)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill a weight with uniform numbers of variance 2·gain² / (fan-in + fan-out); return it."""
    bound = gain * math.sqrt(6 / sum(fans(_sizes(tensor))))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill a weight with normal numbers of variance 2·gain² / (fan-in + fan-out); return it."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(fans(_sizes(tensor)))))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Fill a weight with uniform numbers of variance gain² / fan; return it."""
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Fill a weight with normal numbers of variance gain² / fan; return it."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity))


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """Return the standard deviation of He's initialization."""
    if mode not in ("fan_in", "fan_out"):
        raise PorismError(
            f"an initializer with mode={mode!r}",
            where=users_line(),
            why="the variance is kept forward or backward",
            fix="pass 'fan_in' or 'fan_out'",
        )
    fan = fans(_sizes(tensor))[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill a tensor, as a matrix of its first axis, with orthogonal rows or columns; return it."""
    rows, *rest = _sizes(tensor)
    columns = math.prod(rest)
    draw = normal_array([max(rows, columns), min(rows, columns)], 0.0, 1.0)
    q, r = np.linalg.qr(draw)
    q = q * np.sign(np.diagonal(r))  # so that the distribution is uniform
    matrix = q if rows >= columns else q.T
    return _fill(tensor, gain * matrix.reshape([rows, *rest]))
