"""Activation layers: functions of each element, and softmax, as modules without weights."""

from __future__ import annotations

from typing import Any

from porism.nn.module import Module
from porism.tensor.api.exponentials import tanh
from porism.tensor.network.activations import gelu, leaky_relu, relu, sigmoid, silu, softplus
from porism.tensor.network.normalization import log_softmax, softmax
from porism.tensor.tensor import Tensor


class ReLU(Module):
    """Returns max(x, 0).

    >>> porism.nn.ReLU()(porism.zeros(1, 2)).shape
    (1, 2)
    """

    def forward(self, x: Any) -> Tensor:
        """Return the function of the input."""
        return relu(x)


class LeakyReLU(Module):
    """Returns x, and negative_slope · x where x is negative.

    >>> porism.nn.LeakyReLU()(porism.zeros(1, 2)).shape
    (1, 2)
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Any) -> Tensor:
        """Return the function of the input."""
        return leaky_relu(x, negative_slope=self.negative_slope)


class Sigmoid(Module):
    """Returns 1 / (1 + exp(-x)).

    >>> porism.nn.Sigmoid()(porism.zeros(1, 2)).shape
    (1, 2)
    """

    def forward(self, x: Any) -> Tensor:
        """Return the function of the input."""
        return sigmoid(x)


class SiLU(Module):
    """Returns x · sigmoid(x).

    >>> porism.nn.SiLU()(porism.zeros(1, 2)).shape
    (1, 2)
    """

    def forward(self, x: Any) -> Tensor:
        """Return the function of the input."""
        return silu(x)


class Softplus(Module):
    """Returns log(1 + exp(beta · x)) / beta.

    >>> porism.nn.Softplus()(porism.zeros(1, 2)).shape
    (1, 2)
    """

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def forward(self, x: Any) -> Tensor:
        """Return the function of the input."""
        return softplus(x, beta=self.beta)


class GELU(Module):
    """Returns x times the normal distribution function of x.

    >>> porism.nn.GELU()(porism.zeros(1, 2)).shape
    (1, 2)
    """

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Any) -> Tensor:
        """Return the function of the input."""
        return gelu(x, approximate=self.approximate)


class Tanh(Module):
    """Returns the hyperbolic tangent of x.

    >>> porism.nn.Tanh()(porism.zeros(1, 2)).shape
    (1, 2)
    """

    def forward(self, x: Any) -> Tensor:
        """Return the function of the input."""
        return tanh(x)


class Softmax(Module):
    """Returns exp(x) over its sum along an axis.

    >>> porism.nn.Softmax()(porism.zeros(1, 2)).shape
    (1, 2)
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Any) -> Tensor:
        """Return the function of the input."""
        return softmax(x, axis=self.dim)


class LogSoftmax(Module):
    """Returns the logarithm of softmax along an axis.

    >>> porism.nn.LogSoftmax()(porism.zeros(1, 2)).shape
    (1, 2)
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Any) -> Tensor:
        """Return the function of the input."""
        return log_softmax(x, axis=self.dim)
