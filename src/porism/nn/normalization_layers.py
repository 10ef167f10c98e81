"""Normalization layers: norms with trained scale and shift; batch norm keeps running statistics."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from porism.base.errors import PorismError, ShapeError
from porism.nn.initializers import tensor_of
from porism.nn.module import Buffer, Module, Parameter
from porism.tensor.conversion import as_tensor, from_copy
from porism.tensor.jit.tracing import current
from porism.tensor.network.normalization import (
    batch_norm,
    batch_statistics,
    group_norm,
    instance_norm,
    layer_norm,
    rms_norm,
)
from porism.tensor.promotion import DEFAULT_FLOAT
from porism.tensor.shapes import product, to_text
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line


def _filled(sizes: Any, value: float, dtype: Any) -> Parameter:
    """Return a parameter of one value."""
    return Parameter(tensor_of(np.full(sizes, value), dtype))


def _as_shape(value: Any) -> tuple[int, ...]:
    """Return a shape that may be given as one int."""
    return (value,) if isinstance(value, int) else tuple(value)


def _check_last_axes(x: Any, sizes: tuple[int, ...], what: str) -> Tensor:
    """Return x as a tensor whose last axes have the given sizes; anything else is an error."""
    tensor = as_tensor(x)
    if tensor.shape[tensor.ndim - len(sizes) :] != sizes:
        raise ShapeError(
            f"{what} over {to_text(sizes)} of a tensor of shape {to_text(tensor.shape)}",
            where=users_line(),
            why="it normalizes the last axes, which have these sizes",
            fix="build it with the sizes of the input's last axes",
        )
    return tensor


class LayerNorm(Module):
    """The last axes scaled to mean 0 and variance 1, then times weight plus bias.

    >>> porism.nn.LayerNorm(4)(porism.ones(2, 4)).shape
    (2, 4)
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape, self.eps = _as_shape(normalized_shape), eps
        self.weight = _filled(self.normalized_shape, 1, dtype) if elementwise_affine else None
        self.bias = (
            _filled(self.normalized_shape, 0, dtype) if elementwise_affine and bias else None
        )

    def forward(self, x: Any) -> Tensor:
        """Return x normalized over its last axes."""
        tensor = _check_last_axes(x, self.normalized_shape, "a LayerNorm")
        axes = tuple(range(-len(self.normalized_shape), 0))
        return layer_norm(tensor, self.weight, self.bias, self.eps, axis=axes)


class RMSNorm(Module):
    """The last axes divided by their root mean square, then times weight.

    >>> porism.nn.RMSNorm(4)(porism.full((1, 4), 3.0)).tolist()
    [[1.0, 1.0, 1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.weight = _filled(self.normalized_shape, 1, dtype) if elementwise_affine else None

    def forward(self, x: Any) -> Tensor:
        """Return x over its root mean square; `eps` is the machine epsilon of x by default."""
        tensor = _check_last_axes(x, self.normalized_shape, "an RMSNorm")
        eps = 2.0 ** (1 - tensor.node.dtype.precision) if self.eps is None else self.eps
        axes = tuple(range(-len(self.normalized_shape), 0))
        return rms_norm(tensor, self.weight, eps, axis=axes)


class GroupNorm(Module):
    """Groups of channels scaled to mean 0 and variance 1, then times weight plus bias.

    >>> porism.nn.GroupNorm(2, 4)(porism.ones(1, 4, 3)).shape
    (1, 4, 3)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        dtype: Any = None,
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise PorismError(
                f"a GroupNorm of {num_channels} channels in {num_groups} groups",
                where=users_line(),
                why="every group has the same number of channels",
                fix="choose a number of groups that divides the channels",
            )
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = _filled(num_channels, 1, dtype) if affine else None
        self.bias = _filled(num_channels, 0, dtype) if affine else None

    def forward(self, x: Any) -> Tensor:
        """Return x normalized over groups of channels (axis 1) and all axes after them."""
        return group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class _BatchNorm(Module):
    """Channels scaled by the statistics of the batch in training, by running ones afterwards."""

    ranks: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: Any = None,
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = _filled(num_features, 1, dtype) if affine else None
        self.bias = _filled(num_features, 0, dtype) if affine else None
        self.running_mean: Buffer | None = None
        self.running_var: Buffer | None = None
        self.num_batches_tracked: Buffer | None = None
        if track_running_stats:
            self.running_mean = Buffer(tensor_of(np.zeros(num_features), dtype or DEFAULT_FLOAT))
            self.running_var = Buffer(tensor_of(np.ones(num_features), dtype or DEFAULT_FLOAT))
            self.num_batches_tracked = Buffer(from_copy(np.asarray(0, np.int64)))

    def forward(self, x: Any) -> Tensor:
        """Return x normalized; in training, update the running statistics."""
        tensor = as_tensor(x)
        if tensor.ndim not in self.ranks:
            raise ShapeError(
                f"a {type(self).__name__} of a tensor of shape {to_text(tensor.shape)}",
                where=users_line(),
                why=f"its input has {' or '.join(map(str, self.ranks))} axes: batch, channels, …",
                fix="use the layer for this number of axes, or reshape the input",
            )
        from_batch = self.training or self.running_mean is None
        if from_batch and self.running_mean is not None:
            self._update(tensor)
        return batch_norm(
            tensor,
            None if from_batch else self.running_mean,
            None if from_batch else self.running_var,
            self.weight,
            self.bias,
            training=from_batch,
            eps=self.eps,
        )

    def _update(self, x: Tensor) -> None:
        """Give the running statistics their values after a batch."""
        mean, variance, count = self.running_mean, self.running_var, self.num_batches_tracked
        assert mean is not None
        assert variance is not None
        assert count is not None
        if product(n for k, n in enumerate(x.shape) if k != 1) == 1:
            raise ShapeError(
                f"the statistics of a batch of shape {to_text(x.shape)}",
                where=users_line(),
                why="each channel has one value, which has no variance",
                fix="train with larger batches, or call eval() first",
            )
        if current.get() is None:
            x.realize()  # it is needed again, and the statistics are computed now
        new_mean, new_variance = batch_statistics(
            x, mean, variance, 1.0 if self.momentum is None else self.momentum
        )
        if self.momentum is None:  # the plain average of all batches
            share = 1 / (count + 1).astype(mean.dtype)
            new_mean = mean + (new_mean - mean) * share
            new_variance = variance + (new_variance - variance) * share
        mean.assign(new_mean)
        variance.assign(new_variance)
        count.assign(count + 1)
        for state in (mean, variance, count):
            state.realize()


class BatchNorm1d(_BatchNorm):
    """A batch norm of shape (batch, channels) or (batch, channels, length).

    >>> porism.nn.BatchNorm1d(3).eval()(porism.ones(2, 3)).shape
    (2, 3)
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """A batch norm of shape (batch, channels, height, width).

    >>> porism.nn.BatchNorm2d(3).eval()(porism.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """A batch norm of shape (batch, channels, depth, height, width).

    >>> porism.nn.BatchNorm3d(3).eval()(porism.ones(2, 3, 2, 2, 2)).shape
    (2, 3, 2, 2, 2)
    """

    ranks = (5,)


class _InstanceNorm(Module):
    """Each channel of each example scaled to mean 0 and variance 1."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, affine: bool = False, *, dtype: Any = None
    ) -> None:
        self.num_features, self.eps = num_features, eps
        self.weight = _filled(num_features, 1, dtype) if affine else None
        self.bias = _filled(num_features, 0, dtype) if affine else None

    def forward(self, x: Any) -> Tensor:
        """Return x normalized over the axes after the channels."""
        return instance_norm(x, self.weight, self.bias, self.eps)


class InstanceNorm1d(_InstanceNorm):
    """An instance norm of shape (batch, channels, length).

    >>> porism.nn.InstanceNorm1d(3)(porism.ones(2, 3, 4)).shape
    (2, 3, 4)
    """


class InstanceNorm2d(_InstanceNorm):
    """An instance norm of shape (batch, channels, height, width).

    >>> porism.nn.InstanceNorm2d(3)(porism.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """


class InstanceNorm3d(_InstanceNorm):
    """An instance norm of shape (batch, channels, depth, height, width).

    >>> porism.nn.InstanceNorm3d(3)(porism.ones(2, 3, 2, 2, 2)).shape
    (2, 3, 2, 2, 2)
    """
