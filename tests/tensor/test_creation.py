"""Creation against NumPy: data of every kind, and tensors computed from their indices."""

from __future__ import annotations

import array
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import porism
from porism.base.errors import PorismError, ShapeError, TypeMismatch
from porism.ir import ops
from porism.ir.traversal import toposort
from tests.tensor.oracle import TYPES, agree, draw, refuses
from tests.tensor.singles import singles


def buffers(x: Any) -> int:
    """Return the number of buffers in a tensor's graph."""
    return sum(node.op is ops.BUFFER for node in toposort(x.node))


@pytest.mark.parametrize("name", [*TYPES, "int16", "uint16", "uint32"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 4), (2, 0)], ids=str)
def test_arrays_of_every_type(name: str, shape: tuple[int, ...]) -> None:
    x = draw(name, shape)
    agree(porism.asarray(x), x, name)


@pytest.mark.parametrize("kind", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_arrays_of_eight_bits(kind: Any) -> None:
    x = np.array([0.5, -2.0, 1.0], np.float32).astype(kind)
    got = porism.asarray(x).numpy()
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, x)


def test_layouts() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    views = (
        x.T,
        x[:, ::-1],
        x[::-1, :, ::-2],
        x[:, 1:2],
        np.asfortranarray(x),
        np.broadcast_to(x[:1], (5, 3, 4)),
        x.astype(">i4"),
        x[1, 2, 3],
    )
    for view in views:
        got = porism.asarray(view).numpy()
        np.testing.assert_array_equal(got, view)
        agree(porism.asarray(view) + 1, np.asarray(view + 1).astype(got.dtype))


def test_lists_and_numbers() -> None:
    agree(porism.asarray([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]))
    agree(porism.asarray([1, 2.5]), np.array([1, 2.5], np.float32))
    agree(porism.asarray([1, 2], dtype="uint8"), np.array([1, 2], np.uint8))
    agree(porism.asarray([True, False]), np.array([True, False]))
    agree(porism.asarray([]), np.array([], np.float32))
    agree(porism.asarray(3), np.array(3))
    agree(porism.asarray(2.5, dtype="float64"), np.array(2.5))
    agree(porism.asarray(np.float64(2.5)), np.array(2.5))
    agree(porism.asarray([porism.ones(2), porism.zeros(2)]), singles([[1, 1], [0, 0]]))
    exact = [0.1, 1e300]
    agree(porism.asarray(exact, dtype="float64"), np.array(exact))


def test_buffers() -> None:
    agree(porism.asarray(array.array("i", [1, 2, 3])), np.array([1, 2, 3], np.int32))
    agree(porism.asarray(memoryview(b"abc")), np.frombuffer(b"abc", np.uint8))


def test_data_is_copied() -> None:
    x = np.zeros(3)
    y = porism.asarray(x)
    x[0] = 7
    agree(y, np.zeros(3))
    values = np.array(y)
    values[1] = 7
    agree(y, np.zeros(3))
    assert porism.asarray(y) is y


def test_memory_is_shared_if_asked() -> None:
    x = np.zeros(3)
    y = porism.asarray(x, copy=False)
    x[0] = 7
    agree(y, x)
    for part in (x[::2], np.ones((2, 3)).T):
        agree(porism.asarray(part, copy=False), part)
    with refuses(TypeMismatch, "cannot share the memory of"):
        porism.asarray([1, 2], copy=False)
    with refuses(TypeMismatch, "cannot share the memory of"):
        porism.asarray(x, dtype="float32", copy=False)


def test_a_tensor_of_its_own_type_is_itself() -> None:
    """Assignment to one is seen in the other, unless a copy is asked for."""
    x = porism.asarray([1, 2], dtype="uint8")
    shared = [porism.asarray(x), porism.asarray(x, dtype="uint8", copy=False)]
    copied = porism.asarray(x, dtype="uint8", copy=True)
    x[0] = 9
    assert [y.tolist() for y in shared] == [[9, 2]] * 2
    assert copied.tolist() == [1, 2]
    with pytest.raises(PorismError, match="its type or its device would change"):
        porism.asarray(x, dtype="int8", copy=False)


def test_lists_of_small_and_large_ints_are_unsigned() -> None:
    """NumPy makes floats of them, which do not hold the large ones."""
    large = 2**63 + 1
    for dtype in ("uint64", None):
        assert porism.asarray([0, large], dtype=dtype).tolist() == [0, large]
    for values in ([-1, large], [np.int64(1), np.uint64(2)]):
        with pytest.raises(TypeMismatch, match="some are negative"):
            porism.asarray(values)


def test_why_memory_is_not_shared() -> None:
    bytes_between = np.zeros(9, np.uint8)[1:].view(np.float32)
    for bad, why in ((np.zeros(3, ">f4"), "in another order"), (bytes_between, "not aligned")):
        with refuses(TypeMismatch, "cannot share the memory of a ndarray") as caught:
            porism.asarray(bad, copy=False)
        assert why in str(caught.value)
        agree(porism.asarray(bad) + 1, np.ones(bad.shape, "float32"))
        agree(porism.jit(lambda x: x + 1)(bad), np.ones(bad.shape, "float32"))


@pytest.mark.parametrize(("values", "dtype"), [([1, 300], "int8"), ([-1], "uint8")])
def test_numbers_in_lists_fit(values: list[int], dtype: str) -> None:
    with refuses(TypeMismatch, f"{values[-1]} does not fit into {dtype}"):
        porism.asarray(values, dtype=dtype)


def test_objects_that_are_not_data() -> None:
    for bad in (["a"], object(), "text", [None]):
        with refuses(TypeMismatch, "as a tensor"):
            porism.asarray(bad)
    with refuses(TypeMismatch, "a list that is no array"):
        porism.asarray([[1, 2], [3]])


# -- constants -------------------------------------------------------------------------------------


def test_full() -> None:
    agree(porism.zeros(2, 3), np.zeros((2, 3), np.float32))
    agree(porism.zeros((2, 3), dtype="int8"), np.zeros((2, 3), np.int8))
    agree(porism.ones([4]), np.ones(4, np.float32))
    agree(porism.ones(()), np.ones((), np.float32))
    agree(porism.full((2, 2), 7), np.full((2, 2), 7))
    agree(porism.full(3, 2.5), np.full(3, 2.5, np.float32))
    agree(porism.full(3, True), np.full(3, True))
    agree(porism.full((2,), porism.asarray(5)), np.full(2, 5))
    agree(porism.empty(0, 3), np.zeros((0, 3), np.float32))
    like = porism.zeros(2, 1, dtype="int16")
    agree(porism.ones_like(like), np.ones((2, 1), np.int16))
    agree(like.full_like(3, dtype="float32"), np.full((2, 1), 3, np.float32))
    agree(porism.zeros_like([1.5]), np.zeros(1, np.float32))
    agree(porism.empty_like(like), np.zeros((2, 1), np.int16))


# -- sequences -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [(5,), (0,), (2, 7), (7, 2), (0, 10, 3), (10, 0, -3), (-3, 4, 2), (1, 1), (0, -5, -1)],
    ids=str,
)
def test_arange(arguments: tuple[int, ...]) -> None:
    agree(porism.arange(*arguments), np.arange(*arguments))
    agree(porism.arange(*arguments, dtype="float32"), np.arange(*arguments, dtype=np.float32))


def test_arange_of_floats() -> None:
    agree(porism.arange(0.0, 1.0, 0.25), np.arange(0, 1, 0.25, dtype=np.float32))
    agree(porism.arange(1.5, dtype="float64"), np.arange(1.5))
    agree(porism.arange(5, 0, -0.5), np.arange(5, 0, -0.5, dtype=np.float32))


def test_linspace() -> None:
    for arguments in ((0, 1, 5), (2, -3, 7), (1, 1, 3), (0, 1, 1), (0, 1, 0), (0.1, 0.7, 50)):
        agree(porism.linspace(*arguments), np.linspace(*arguments).astype(np.float32))
        agree(porism.linspace(*arguments, dtype="float64"), np.linspace(*arguments))
    agree(porism.linspace(0, 1, 4, endpoint=False), singles([0, 0.25, 0.5, 0.75]))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32"])
def test_linspace_is_numpys_to_the_last_bit(dtype: str) -> None:
    ends = [0.0, -0.0, 1.0, -3.0, 0.1, 1 / 3, 123.4, -1e4, 1e-320]
    for (start, stop), count, endpoint in itertools.product(
        itertools.permutations(ends, 2), (1, 2, 4, 11), (True, False)
    ):
        actual = porism.linspace(start, stop, count, dtype=dtype, endpoint=endpoint).numpy()
        expected = np.linspace(start, stop, count, dtype=dtype, endpoint=endpoint)
        assert actual.tobytes() == expected.tobytes(), (start, stop, count, endpoint)


def test_matrices() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    for k in (-2, 0, 1):
        agree(porism.eye(3, 4, k=k), np.eye(3, 4, k, dtype=np.float32))
        agree(porism.tril(x, k=k), np.tril(x, k))
        agree(porism.triu(x, k=k), np.triu(x, k))
    agree(porism.eye(3, dtype="bool"), np.eye(3, dtype=bool))
    bad = porism.asarray([[1.0, np.nan], [2.0, np.inf]])
    agree(bad.tril(), singles([[1, 0], [2, np.inf]]))


def test_one_hot() -> None:
    x = np.array([[0, 2], [1, 5]])
    wanted = (x[..., None] == np.arange(3)).astype(np.int64)
    agree(porism.one_hot(x, 3), wanted)
    agree(porism.one_hot(x, 3, axis=0, dtype="float32"), wanted.transpose(2, 0, 1), "float32")


def test_computed_tensors_take_no_memory() -> None:
    made = (
        porism.arange(10),
        porism.linspace(0, 1, 5),
        porism.eye(3),
        porism.zeros(3),
        porism.tril(porism.ones(3, 3)),
        porism.one_hot(porism.arange(3), 4),
    )
    assert [buffers(x) for x in made] == [0] * len(made)


def test_invalid_shapes() -> None:
    with refuses(ShapeError, "the shape (2, -1) has the size -1"):
        porism.zeros(2, -1)
    with refuses(ShapeError, "a size is 'a'"):
        porism.zeros("a")
    with refuses(ShapeError, "a size is 1.5"):
        porism.ones((1.5,))
    with refuses(ShapeError, "arange with a step of 0"):
        porism.arange(0, 5, 0)
    with refuses(ShapeError, "linspace of -1 numbers"):
        porism.linspace(0, 1, -1)
    with refuses(ShapeError, "tril of a tensor of shape (3,)"):
        porism.tril([1, 2, 3])
    with refuses(ShapeError, "full with a value of shape (2,)"):
        porism.full(3, porism.ones(2))
