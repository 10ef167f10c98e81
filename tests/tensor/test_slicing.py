"""Slices that are looked up: the same graphs as those that are built anew, for every key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError
from porism.ir.facts.node_shape import shape
from porism.tensor import primitive
from porism.tensor.movement import slicing
from porism.tensor.movement.index_keys import parse_key
from porism.tensor.movement.slicing import selected_sizes, slice_axes, slicing_of
from porism.tensor.shapes import sizes_of

X = np.arange(2 * 5 * 6, dtype=np.float32).reshape(2, 5, 6)

KEYS: tuple[Any, ...] = (
    *(0, -1, (), None, ..., slice(None), (1, 2), (1, 2, 3), (-1, -1, -1), (..., 0)),
    *((slice(1, -1), slice(None), slice(1, -1)), (0, slice(1, 4)), (..., slice(None, None, 2))),
    *((slice(None, None, -1), ..., slice(4, 0, -2)), (None, 0, None), (0, None, ..., None, 1)),
    *((slice(0, 0),), (slice(3, 1),), (slice(-100, 100), slice(2, 100)), (slice(None), 3, 2)),
    *((slice(1, 2), slice(1, 2), slice(1, 2)), (slice(None), slice(None, None, 7))),
)

BASES = {
    "in memory": lambda: porism.asarray(X).realize(),
    "reshaped": lambda: porism.asarray(X.reshape(10, 6)).realize().reshape(2, 5, 6),
    "computed": lambda: porism.asarray(X).realize() * 2,
    "repeated": lambda: porism.asarray(X[:1, :, :1]).realize().broadcast_to((2, 5, 6)),
    "sliced": lambda: porism.asarray(np.pad(X, 1)).realize()[1:-1, 1:-1, 1:-1],
}


def built_anew(x: Any, key: Any) -> Any:
    """The node of x[key] without the table."""
    selection = parse_key(key, x.shape)
    node = slice_axes(x.node, [part for part in selection if not part.new])
    return primitive.reshape(node, selected_sizes(selection, sizes_of(node)))


@pytest.mark.parametrize("base", BASES)
def test_the_same_nodes_and_values(base: str) -> None:
    x = BASES[base]()
    array = x.numpy()
    x = BASES[base]()
    for key in KEYS:
        assert slicing_of(key, shape(x.node)) is not None
        for _ in range(2):  # the second is looked up
            assert x[key].node is built_anew(x, key), key
        np.testing.assert_array_equal(x[key].numpy(), array[key], err_msg=repr(key))


def test_assignments() -> None:
    for key in KEYS:
        surplus = (np.ones_like(X[key])[None],) if np.ndim(X[key]) else ()
        for value in (7.0, X[key] * -1.5, *surplus):
            x, wanted = porism.asarray(X), X.copy()
            other = x + 0  # a graph that refers to x, so that the memory of x is not its own
            x[key] = value
            wanted[key] = value
            np.testing.assert_array_equal(x.numpy(), wanted, err_msg=repr(key))
            np.testing.assert_array_equal(other.numpy(), X)
            mine = porism.asarray(X).realize()
            mine[key] = value
            np.testing.assert_array_equal(mine.numpy(), wanted, err_msg=repr(key))


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_value_that_does_not_fit(exclusive: bool) -> None:
    x = porism.asarray(X).realize()
    other = None if exclusive else x + 1
    with pytest.raises(PorismError, match="do not go together"):
        x[:, 1:3] = np.ones((2, 3, 6), np.float32)
    np.testing.assert_array_equal(x.numpy(), X)
    del other


def test_keys_that_are_not_looked_up() -> None:
    x = porism.asarray(X)
    dims = shape(x.node)
    n = porism.Variable("n", 1, 2).bind(1)
    for key in (True, np.int64(1), [0, 1], np.arange(2), 1.0, slice(None, n), "a"):
        assert slicing_of(key, dims) is None
    assert slicing_of(0, shape(x[:n].node)) is None


def test_errors_come_again() -> None:
    x = porism.asarray(X)
    for _ in range(2):
        with pytest.raises(IndexError):
            x[0, 5]
        with pytest.raises(PorismError, match="two ellipses"):
            x[..., 0, ...]
        with pytest.raises(PorismError, match="single bool"):
            x[True]


def test_equal_keys_of_other_shapes() -> None:
    for size in (1, 3, 8, 3):
        array = np.arange(size)
        assert porism.asarray(array)[1:-1].tolist() == array[1:-1].tolist()
        assert porism.asarray(array)[-1:].tolist() == array[-1:].tolist()


def test_the_table_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slicing, "MAX_SLICINGS", 10)
    x = porism.asarray(np.arange(100))
    for k in range(90):
        assert x[k : k + 3].tolist() == [k, k + 1, k + 2]
    assert len(slicing._slicings) <= 10
