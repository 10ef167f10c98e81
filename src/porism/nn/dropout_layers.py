"""Dropout layers: elements or whole channels set to 0 at random in training."""

from __future__ import annotations

from typing import Any

from porism.base.errors import PorismError
from porism.nn.module import Module
from porism.tensor.api.creation import ones
from porism.tensor.api.random import dropout
from porism.tensor.conversion import as_tensor
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line


class Dropout(Module):
    """Sets elements to 0 with probability p in training, and scales the others by 1 / (1 - p).

    >>> porism.nn.Dropout(0.5).eval()(porism.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise PorismError(
                f"dropout with p={p}",
                where=users_line(),
                why="a probability is from 0 to 1",
                fix="pass one",
            )
        self.p = p

    def forward(self, x: Any) -> Tensor:
        """Return x with elements dropped in training, and x itself otherwise."""
        return dropout(x, self.p, self.training)


class _ChannelDropout(Dropout):
    """Sets whole channels to 0."""

    def forward(self, x: Any) -> Tensor:
        """Return x with channels (axis 1) dropped in training, and x itself otherwise."""
        tensor = as_tensor(x)
        if not self.training:
            return tensor
        sizes = (*tensor.shape[:2], *[1] * (tensor.ndim - 2))
        return tensor * dropout(ones(sizes, dtype=tensor.dtype), self.p)


class Dropout1d(_ChannelDropout):
    """Sets whole channels of (batch, channels, length) to 0.

    >>> porism.nn.Dropout1d(0.5)(porism.ones(1, 2, 3)).shape
    (1, 2, 3)
    """


class Dropout2d(_ChannelDropout):
    """Sets whole channels of (batch, channels, height, width) to 0.

    >>> porism.nn.Dropout2d(0.5)(porism.ones(1, 2, 3, 3)).shape
    (1, 2, 3, 3)
    """


class Dropout3d(_ChannelDropout):
    """Sets whole channels of (batch, channels, depth, height, width) to 0.

    >>> porism.nn.Dropout3d(0.5)(porism.ones(1, 2, 2, 2, 2)).shape
    (1, 2, 2, 2, 2)
    """
