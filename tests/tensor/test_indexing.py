"""Indexing and assignment against NumPy, with keys of every kind."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, basic_indices

import porism
from porism.base.errors import ShapeError, TypeMismatch
from porism.base.settings import settings as base_settings
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.traversal import toposort
from porism.tensor.shapes import OutOfRange
from tests.tensor.oracle import agree, draw, refuses
from tests.tensor.singles import singles

X: Final = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)

S = slice

BASIC: Final[tuple[Any, ...]] = (
    0,
    -1,
    (1, 2, 3, 4),
    (),
    ...,
    None,
    (None, 0, ..., None),
    (..., 0),
    S(None),
    S(1, None),
    S(None, -1),
    S(5, 9),
    S(2, 1),
    (S(None), S(None, None, 2)),
    (S(None), S(None), S(None, None, 3), S(1, 5, 2)),
    (S(None), S(None, None, -1)),
    (S(None), S(None), S(3, 0, -2)),
    (S(None), S(None), S(None), S(None, None, -3)),
    (S(None), S(None), S(None, None, -5)),
    (0, S(None, None, -1), None, 1, S(-2, None)),
    (S(0, 0),),
    np.int64(1),
)

ARRAYS: Final[tuple[Any, ...]] = (
    [1, 0, 1],
    [-1],
    [],
    np.array([[0, 1], [1, 0]]),
    (S(None), [0, 2]),
    (..., [0, -1, 2]),
    ([0, 1], [2, 0]),
    ([0, 1], S(None), [1, 3]),
    (0, S(None), [1, 2]),
    (S(None), 0, [1, 2]),
    (S(None), [1, 2], 0),
    (0, [1, 2], [0, 3], 4),
    ([[0], [1]], [0, 2], ..., S(None, None, 2)),
    (S(None), [0, 2], None, [1, 3]),
    (None, [1, 0], ..., [0, 1]),
    (S(None, None, -1), S(1, None), [3, 0]),
    (np.array(1), [0, 1]),
    (S(None), np.array([2], np.uint8)),
)

MASKS: Final[tuple[Any, ...]] = (
    X > 50,
    np.array([True, False]),
    (S(None), np.array([True, False, True])),
    (0, X[0] > 20),
    (X[..., 0] > 30, 1),
    (S(None), [True, False, True], 0),
    np.zeros(2, bool),
)


def key_text(key: Any) -> str:
    return repr(key).replace("\n", "")[:40]


@pytest.mark.parametrize("key", [*BASIC, *ARRAYS, *MASKS], ids=key_text)
def test_getitem(key: Any) -> None:
    agree(porism.asarray(X)[key], X[key])


@pytest.mark.parametrize("key", BASIC, ids=key_text)
def test_basic_keys_compute_nothing(key: Any) -> None:
    made = toposort(porism.asarray(X)[key].node)
    assert all(n.op.group is ops.MOVEMENT or n.op in (ops.BUFFER, ops.CONST) for n in made)


@pytest.mark.parametrize("key", [key for key in ARRAYS if isinstance(key, tuple)], ids=key_text)
def test_getitem_by_computed_indices(key: tuple[Any, ...]) -> None:
    """Index arrays that are computed select the same elements."""
    lazy = tuple(
        porism.asarray(np.asarray(item, np.int64)) * 1
        if isinstance(item, (list, np.ndarray))
        else item
        for item in key
    )
    agree(porism.asarray(X)[lazy], X[key])
    x = porism.asarray(X)
    x[lazy] = -1.0
    expected = X.copy()
    expected[key] = -1
    agree(x, expected)


def test_indices_out_of_range_give_zero() -> None:
    index = porism.asarray([0, 5, -1, -6])
    agree(porism.asarray([1.0, 2.0, 3.0])[index], singles([1, 0, 3, 0]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_indices_far_out_of_range_give_zero(dtype: str) -> None:
    """Also where their addresses do not fit 64 bits."""
    limits = np.iinfo(dtype)
    index = porism.asarray(np.array([limits.min, 1, limits.max - 1, limits.max], dtype))
    first = 1.0 if limits.min == 0 else 0.0
    rows = porism.asarray(singles([[1, 2], [3, 4], [5, 6]]))
    agree(rows[index], singles([[first, 2 * first], [3, 4], [0, 0], [0, 0]]))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64"])
def test_gather_from_padded_and_reshaped_tensors(dtype: str) -> None:
    """The index is divided and compared; a loaded index has no bounds of its own."""
    index = np.array([3, 0, 5, 1], dtype)
    padded = np.pad(np.arange(8).reshape(4, 2), ((0, 2), (1, 1)))
    actual = porism.pad(porism.asarray(np.arange(8).reshape(4, 2)), ((0, 2), (1, 1)))
    for shape in ((6, 4), (24,), (3, 8)):
        chosen = index % shape[0]
        agree(
            porism.take(actual.T.reshape(shape), porism.asarray(chosen), axis=0),
            padded.T.reshape(shape)[chosen.astype(int)],
        )


def test_scalars_and_empty_tensors() -> None:
    agree(porism.asarray(5)[...], np.array(5))
    agree(porism.asarray(5)[None], np.array([5]))
    agree(porism.zeros(0, 3)[:, 1], np.zeros(0, np.float32))
    agree(porism.zeros(0, 3)[::2, ::-1], np.zeros((0, 3), np.float32))
    agree(porism.asarray(X)[0, 0, 0, porism.asarray(2)], X[0, 0, 0, 2])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_basic_keys(data: st.DataObject) -> None:
    shape = data.draw(array_shapes(max_dims=3, min_side=0, max_side=5))
    x = np.arange(np.prod(shape)).reshape(shape)
    key = data.draw(basic_indices(shape, allow_newaxis=True))
    agree(porism.asarray(x)[key], x[key])
    changed, expected = porism.asarray(x), x.copy()
    changed[key] = 7
    expected[key] = 7
    agree(changed, expected)


# -- functions -------------------------------------------------------------------------------------


def test_take() -> None:
    for axis in (0, 2, -1):
        agree(porism.take(X, [1, 0, 1], axis=axis), np.take(X, [1, 0, 1], axis))
    grid = np.array([[0, 2], [1, 1]])
    agree(porism.take(X, grid, axis=1), np.take(X, grid, 1))
    agree(porism.take(X, porism.asarray(grid), axis=1), np.take(X, grid, 1))
    agree(porism.take(X, [7, 119]), np.take(X, [7, 119]))
    agree(porism.index_select(X, 1, [2, 0]), X[:, [2, 0]])
    agree(porism.asarray(X).index_select(-1, porism.asarray([4])), X[..., [4]])


def test_take_along_axis() -> None:
    x = draw("float32", (3, 4, 5))
    for axis in (0, 1, -1):
        order = np.argsort(x, axis)
        agree(porism.take_along_axis(x, order, axis=axis), np.take_along_axis(x, order, axis))
    few = np.array([[[-1], [0], [2], [3]]])
    agree(porism.take_along_axis(x, few), np.take_along_axis(x, few, -1))


def test_gather() -> None:
    x = draw("float32", (3, 4))
    index = np.array([[0, 2], [1, 0]])
    agree(porism.gather(x, 0, index), np.take_along_axis(x[:, :2], index, 0))
    agree(porism.gather(x, 1, index), np.take_along_axis(x[:2], index, 1))


# -- assignment ------------------------------------------------------------------------------------


def numpy_assignment(x: Array, key: Any, value: Any) -> Array:
    changed = x.copy()
    changed[key] = value
    return changed


@pytest.mark.slow
@pytest.mark.parametrize("key", [*BASIC, *ARRAYS, *MASKS], ids=key_text)
def test_assignment(key: Any) -> None:
    chosen = X[key]
    values = (7.5, draw("float32", chosen.shape, seed=3), draw("float32", chosen.shape[-1:]))
    for value in values:
        x = porism.asarray(X)
        before = x + 1
        x[key] = value
        agree(x, numpy_assignment(X, key, value))
        agree(before, X + 1)


def test_assignment_by_a_computed_mask() -> None:
    x = porism.asarray(X)
    x[x > 50] = 0
    agree(x, np.where(X > 50, np.float32(0), X))
    rows = porism.asarray([True, False])
    x[rows] = porism.ones(5)
    agree(x, numpy_assignment(np.where(X > 50, np.float32(0), X), 0, 1))


def test_assignment_to_a_scalar_by_a_mask() -> None:
    x = porism.asarray(3.0)
    x[x > 4] = 1.0
    assert x.item() == 3
    x[x > 2] = 1.0
    assert x.item() == 1
    assert x[x < 2].tolist() == [1]
    assert x[x > 2].shape == (0,)


def test_the_last_of_equal_indices_wins() -> None:
    for index in (np.array([1, 1, 0]), porism.asarray([1, 1, 0]) * 1):
        x = porism.zeros(3)
        x[index] = [1.0, 2.0, 3.0]
        agree(x, singles([3, 2, 0]))


def test_assignment_changes_one_tensor_only() -> None:
    x = porism.zeros(3)
    alias, part, twice = porism.asarray(x), x[:2], x * 2
    same = porism.Tensor(x.node)
    x[0] = 5
    x[1] += 7
    agree(x, singles([5, 7, 0]))
    assert alias is x
    for other in (part, twice, same):
        assert not other.numpy().any()


def test_assignment_converts() -> None:
    x = porism.zeros(3, dtype="int8")
    x[0] = True
    x[1:] = porism.asarray([300, 4])
    agree(x, np.array([1, 44, 4], np.int8))
    y = porism.zeros(2)
    y[0] = 3
    y[1] = porism.asarray(4, dtype="float64")
    agree(y, singles([3, 4]))


def test_assign() -> None:
    x = porism.zeros(2, 3)
    assert x.assign([1.0, 2.0, 3.0]) is x
    agree(x, singles([[1, 2, 3], [1, 2, 3]]))


# -- errors ----------------------------------------------------------------------------------------


def test_known_indices_out_of_range() -> None:
    x = porism.asarray(X)
    with refuses(ShapeError, "the index 2 of axis 0, which has 2 elements") as caught:
        x[2]
    assert isinstance(caught.value, IndexError)
    with refuses(ShapeError, "the index -4 of axis 1, which has 3 elements"):
        x[:, -4]
    with refuses(ShapeError, "the index 5 of axis 3, which has 5 elements"):
        x[..., [0, 5]]
    with refuses(ShapeError, "an index for 5 axes of a tensor of shape (2, 3, 4, 5)"):
        x[0, 0, 0, 0, 0]
    with refuses(ShapeError, "the index 0 of axis 0, which has 0 elements"):
        porism.zeros(0)[0]
    with refuses(ShapeError, "the index 9 of axis 0, which has 2 elements"):
        x[9] = 1


def test_invalid_keys() -> None:
    x = porism.asarray(X)
    with refuses(TypeMismatch, "an index of type str"):
        x["a"]
    with refuses(TypeMismatch, "an index of type float"):
        x[1.0]
    with refuses(TypeMismatch, "an index of type float32"):
        x[porism.ones(2)]
    with refuses(TypeMismatch, "an index of type array of float64"):
        x[np.ones(2)]
    with refuses(ShapeError, "an index with two ellipses"):
        x[..., 0, ...]
    with refuses(ShapeError, "the index True"):
        x[True]
    with refuses(ShapeError, "the slice 0:3:0"):
        x[0:3:0]
    with refuses(ShapeError, "the slice a:None:None"):
        x["a":]
    with refuses(ShapeError, "the shapes (2,) and (3,) do not go together"):
        x[[0, 1], [0, 1, 2]]


def test_boolean_tensors_as_keys() -> None:
    x = porism.asarray(X)
    agree(x[x > 3], X[X > 3])
    first = np.array([True, False])
    agree(x[porism.asarray(first)], X[first])
    agree(x[:, porism.asarray([True, False, True]), 0], X[:, [True, False, True], 0])
    with refuses(ShapeError, "an index by a boolean tensor of shape (2, 3, 4, 5)") as caught:
        porism.jit(lambda x: x[x > 3])(x)
    assert "porism.where" in (caught.value.fix or "")
    with refuses(OutOfRange, "a mask of shape (3,) for axes of sizes (2,)"):
        x[porism.asarray([True, False, True])]
    with refuses(ShapeError, "a mask of shape (3,) for axes of sizes (2,)"):
        x[np.array([True, False, True])]
    with refuses(ShapeError, "a mask of shape (3,) for axes of sizes (2,)"):
        x[porism.asarray([True, False, True])] = 1
    with refuses(ShapeError, "do not go together"):
        x[x > 3] = np.ones(7, np.float32)


def test_as_many_values_as_a_mask_chooses() -> None:
    x, expected = porism.arange(6.0), np.arange(6, dtype=np.float32)
    x[x > 2] = porism.asarray([7.0, 8.0, 9.0])
    expected[3:] = [7, 8, 9]
    agree(x, expected)
    y, rows = porism.zeros(2, 3), porism.asarray([True, False])
    y[rows] = [[1.0, 2.0, 3.0]]
    y[~rows, 1] = 5.0
    agree(y, np.array([[1, 2, 3], [0, 5, 0]], np.float32))
    y[rows & ~rows] = porism.zeros(0, 3)
    agree(y, np.array([[1, 2, 3], [0, 5, 0]], np.float32))

    @porism.jit
    def assigned(x: Any, values: Any) -> Any:
        x[x > 2] = values
        return x

    with refuses(ShapeError, "a value of shape (3,) for x[mask]"):
        assigned(porism.arange(6.0), porism.ones(3))


def test_values_that_do_not_fit() -> None:
    x = porism.asarray(X)
    with refuses(ShapeError, "the shapes (4,) and (2, 3, 4, 5) do not go together"):
        x[:] = np.ones(4)
    with refuses(ShapeError, "a value of shape (2, 2, 3, 4, 5) for elements of shape (2, 3, 4, 5)"):
        x[:] = np.ones((2, 2, 3, 4, 5))
    with refuses(TypeMismatch, "a value of float32 for a tensor of int64"):
        porism.arange(3)[0] = porism.asarray(1.5)
    with refuses(TypeMismatch, "0.5 cannot be int64"):
        porism.arange(3)[0] = 0.5
    with refuses(ShapeError, "cannot broadcast (3,) to (1,)"):
        porism.zeros(1).assign([1.0, 2.0, 3.0])


def test_errors_of_functions() -> None:
    with refuses(TypeMismatch, "take with indices of a tensor of float32"):
        porism.take(X, porism.ones(2), axis=0)
    with refuses(ShapeError, "take_along_axis of (2, 3, 4, 5) with indices of (2,)"):
        porism.take_along_axis(X, [0, 1])
    with refuses(ShapeError, "gather of (2, 3, 4, 5) with an index of (2, 9, 1, 1)"):
        porism.gather(X, 0, np.zeros((2, 9, 1, 1), int))
    with refuses(ShapeError, "index_select with an index of shape (1, 1)"):
        porism.index_select(X, 0, [[0]])


def test_assignment_to_no_elements_is_checked_at_every_level() -> None:
    """The index of the empty part is never valid, and what reads it goes."""
    x = porism.asarray(np.arange(6.0, dtype=np.float32).reshape(1, 3, 2))
    with base_settings.override(check=True, cache=False):
        x[porism.asarray([0]), 2:-1] = porism.zeros((1, 0, 1))
        np.testing.assert_array_equal(x.numpy().ravel(), np.arange(6.0))
