"""Convolution layers: convolutions and their transposes over one to three axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from porism.base.errors import PorismError
from porism.nn.linear_layers import uniform_parameter
from porism.nn.module import Module
from porism.tensor.movement.pad import pad
from porism.tensor.network.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line

Numbers = int | Sequence[int]


def _per_axis(value: Numbers, count: int) -> tuple[int, ...]:
    """Return one number for each axis."""
    return (value,) * count if isinstance(value, int) else tuple(value)


class _Convolution(Module):
    """What a convolution and its transpose have in common."""

    spatial: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Numbers,
        stride: Numbers,
        padding: Any,
        dilation: Numbers,
        groups: int,
    ) -> None:
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise PorismError(
                f"a convolution of {in_channels} to {out_channels} channels in {groups} groups",
                where=users_line(),
                why="every group has the same number of channels",
                fix="choose a number of groups that divides both",
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = _per_axis(kernel_size, self.spatial)
        self.stride = _per_axis(stride, self.spatial)
        self.padding = padding if isinstance(padding, str) else _per_axis(padding, self.spatial)
        self.dilation = _per_axis(dilation, self.spatial)

    def _set_weights(self, sizes: list[int], bias: bool, dtype: Any) -> None:
        """Draw weight and bias, as wide as one over the root of the fan-in."""
        fan_in = math.prod(sizes[1:])
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        self.weight = uniform_parameter(sizes, bound, dtype)
        self.bias = uniform_parameter([self.out_channels], bound, dtype) if bias else None


class _Conv(_Convolution):
    """A convolution with a weight of shape (out_channels, in_channels / groups, taps…)."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Numbers,
        stride: Numbers = 1,
        padding: Any = 0,
        dilation: Numbers = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        dtype: Any = None,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups)
        self.padding_mode = padding_mode
        self._set_weights([out_channels, in_channels // groups, *self.kernel_size], bias, dtype)

    def forward(self, x: Any) -> Tensor:
        """Return the convolution of x of shape (batch, channels, sizes…)."""
        padding: Any = self.padding
        if self.padding_mode != "zeros" and padding != "valid":
            x, padding = pad(x, self._border_sizes(), mode=self.padding_mode), 0
        return type(self).function(
            x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _border_sizes(self) -> list[int]:
        """Return what is padded before and after each axis, from the last axis on."""
        numbers: list[int] = []
        for axis in reversed(range(self.spatial)):
            if isinstance(self.padding, str):  # "same"
                total = self.dilation[axis] * (self.kernel_size[axis] - 1)
                numbers += [total // 2, total - total // 2]
            else:
                numbers += [self.padding[axis]] * 2
        return numbers


class Conv1d(_Conv):
    """A convolution over the last axis.

    >>> porism.nn.Conv1d(2, 4, 3)(porism.ones(1, 2, 8)).shape
    (1, 4, 6)
    """

    spatial, function = 1, staticmethod(conv1d)


class Conv2d(_Conv):
    """A convolution over the last two axes.

    >>> porism.nn.Conv2d(2, 4, 3, padding=1)(porism.ones(1, 2, 8, 8)).shape
    (1, 4, 8, 8)
    """

    spatial, function = 2, staticmethod(conv2d)


class Conv3d(_Conv):
    """A convolution over the last three axes.

    >>> porism.nn.Conv3d(2, 4, 3)(porism.ones(1, 2, 4, 4, 4)).shape
    (1, 4, 2, 2, 2)
    """

    spatial, function = 3, staticmethod(conv3d)


class _ConvTranspose(_Convolution):
    """A transposed convolution with a weight of shape (in_channels, out_channels / groups, …)."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Numbers,
        stride: Numbers = 1,
        padding: Numbers = 0,
        output_padding: Numbers = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Numbers = 1,
        *,
        dtype: Any = None,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups)
        self.output_padding = _per_axis(output_padding, self.spatial)
        self._set_weights([in_channels, out_channels // groups, *self.kernel_size], bias, dtype)

    def forward(self, x: Any) -> Tensor:
        """Return the transposed convolution of x of shape (batch, channels, sizes…)."""
        return type(self).function(
            x,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTranspose):
    """A transposed convolution over the last axis.

    >>> porism.nn.ConvTranspose1d(2, 4, 3, stride=2)(porism.ones(1, 2, 4)).shape
    (1, 4, 9)
    """

    spatial, function = 1, staticmethod(conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """A transposed convolution over the last two axes.

    >>> porism.nn.ConvTranspose2d(2, 4, 2, stride=2)(porism.ones(1, 2, 4, 4)).shape
    (1, 4, 8, 8)
    """

    spatial, function = 2, staticmethod(conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """A transposed convolution over the last three axes.

    >>> porism.nn.ConvTranspose3d(2, 4, 2)(porism.ones(1, 2, 2, 2, 2)).shape
    (1, 4, 3, 3, 3)
    """

    spatial, function = 3, staticmethod(conv_transpose3d)
