"""Pooling layers: maxima and means of windows, as modules without weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from porism.nn.module import Module
from porism.tensor.network.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from porism.tensor.network.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from porism.tensor.tensor import Tensor


class _MaxPool(Module):
    """Maxima of windows."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.ceil_mode = dilation, ceil_mode

    def forward(self, x: Any) -> Tensor:
        """Return the maxima of the windows of x."""
        return type(self).function(
            x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        )


class _AvgPool(Module):
    """Means of windows."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, x: Any) -> Tensor:
        """Return the means of the windows of x."""
        return type(self).function(
            x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class _AdaptivePool(Module):
    """A given number of windows."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, output_size: Any) -> None:
        self.output_size = output_size

    def forward(self, x: Any) -> Tensor:
        """Return the values of `output_size` windows of x."""
        return type(self).function(x, self.output_size)


class MaxPool1d(_MaxPool):
    """The maxima of windows over the last axis.

    >>> porism.nn.MaxPool1d(2)(porism.ones(1, 2, 8)).shape
    (1, 2, 4)
    """

    function = staticmethod(max_pool1d)


class MaxPool2d(_MaxPool):
    """The maxima of windows over the last two axes.

    >>> porism.nn.MaxPool2d(2)(porism.ones(1, 2, 8, 8)).shape
    (1, 2, 4, 4)
    """

    function = staticmethod(max_pool2d)


class MaxPool3d(_MaxPool):
    """The maxima of windows over the last three axes.

    >>> porism.nn.MaxPool3d(2)(porism.ones(1, 2, 8, 8, 8)).shape
    (1, 2, 4, 4, 4)
    """

    function = staticmethod(max_pool3d)


class AvgPool1d(_AvgPool):
    """The means of windows over the last axis.

    >>> porism.nn.AvgPool1d(2)(porism.ones(1, 2, 8)).shape
    (1, 2, 4)
    """

    function = staticmethod(avg_pool1d)


class AvgPool2d(_AvgPool):
    """The means of windows over the last two axes.

    >>> porism.nn.AvgPool2d(2)(porism.ones(1, 2, 8, 8)).shape
    (1, 2, 4, 4)
    """

    function = staticmethod(avg_pool2d)


class AvgPool3d(_AvgPool):
    """The means of windows over the last three axes.

    >>> porism.nn.AvgPool3d(2)(porism.ones(1, 2, 8, 8, 8)).shape
    (1, 2, 4, 4, 4)
    """

    function = staticmethod(avg_pool3d)


class AdaptiveMaxPool1d(_AdaptivePool):
    """The maxima of `output_size` windows over the last axis.

    >>> porism.nn.AdaptiveMaxPool1d(4)(porism.ones(1, 2, 8)).shape
    (1, 2, 4)
    """

    function = staticmethod(adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptivePool):
    """The maxima of `output_size` windows over the last two axes.

    >>> porism.nn.AdaptiveMaxPool2d(4)(porism.ones(1, 2, 8, 8)).shape
    (1, 2, 4, 4)
    """

    function = staticmethod(adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptivePool):
    """The maxima of `output_size` windows over the last three axes.

    >>> porism.nn.AdaptiveMaxPool3d(4)(porism.ones(1, 2, 8, 8, 8)).shape
    (1, 2, 4, 4, 4)
    """

    function = staticmethod(adaptive_max_pool3d)


class AdaptiveAvgPool1d(_AdaptivePool):
    """The means of `output_size` windows over the last axis.

    >>> porism.nn.AdaptiveAvgPool1d(4)(porism.ones(1, 2, 8)).shape
    (1, 2, 4)
    """

    function = staticmethod(adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptivePool):
    """The means of `output_size` windows over the last two axes.

    >>> porism.nn.AdaptiveAvgPool2d(4)(porism.ones(1, 2, 8, 8)).shape
    (1, 2, 4, 4)
    """

    function = staticmethod(adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptivePool):
    """The means of `output_size` windows over the last three axes.

    >>> porism.nn.AdaptiveAvgPool3d(4)(porism.ones(1, 2, 8, 8, 8)).shape
    (1, 2, 4, 4, 4)
    """

    function = staticmethod(adaptive_avg_pool3d)
