"""Sliding windows: every tap of every window is right, for all small cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from porism.ir import ops
from porism.ir.traversal import toposort
from porism.tensor.conversion import as_tensor
from porism.tensor.network.sliding_windows import sliding_windows, window_count
from porism.tensor.tensor import Tensor


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10])
def test_one_axis(size: int) -> None:
    x = np.arange(1, 2 * size * 2 + 1).reshape(2, size, 2)
    node = as_tensor(x).node
    for taps, stride, dilation in itertools.product((1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3)):
        number = window_count(size, taps, stride, dilation)
        if not number:
            continue
        places = np.arange(number)[:, None] * stride + np.arange(taps) * dilation
        expected = np.moveaxis(x[:, places], 2, -1)
        actual = Tensor(sliding_windows(node, [1], [taps], [stride], [dilation])).numpy()
        np.testing.assert_array_equal(actual, expected)


def test_the_taps_of_several_axes_come_last() -> None:
    x = np.arange(5 * 6 * 7).reshape(5, 6, 7)
    actual = Tensor(sliding_windows(as_tensor(x).node, [0, 2], [2, 3], [1, 2], [1, 1])).numpy()
    expected = np.lib.stride_tricks.sliding_window_view(x, (2, 3), axis=(0, 2))[:, :, ::2]
    np.testing.assert_array_equal(actual, expected)


def test_window_count() -> None:
    assert window_count(7, 3) == 5
    assert window_count(7, 3, stride=3) == 2
    assert window_count(7, 3, dilation=3) == 1
    assert window_count(6, 3, dilation=3) == 0


@pytest.mark.parametrize(("taps", "stride"), [(2, 2), (3, 4), (1, 1)])
def test_disjoint_windows_are_not_repeated(taps: int, stride: int) -> None:
    node = sliding_windows(as_tensor(np.arange(12)).node, [0], [taps], [stride], [1])
    assert all(n.op is not ops.EXPAND for n in toposort(node))
