"""DLPack: what is shared, for how long, with which flags; strided arrays; errors."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import porism
from porism.base.errors import PorismError, TypeMismatch
from porism.engine.run.buffer_storage import array_of, node_storage
from porism.ir import ops
from porism.ir.traversal import toposort
from porism.tensor.memory.dlpack_capsules import VERSIONED, VersionedTensor, _pointer_of
from porism.tensor.memory.shared_memory import NotShared
from porism.tensor.promotion import ELEMENT_TYPES
from tests.tensor.oracle import agree, refuses

CODES: Final = {"b": 6, "i": 0, "u": 1, "f": 2}
NARROW: Final = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}
READ_ONLY, IS_COPIED = 1, 2
REAL_TYPES: Final = [name for name, t in ELEMENT_TYPES.items() if t.kind != "c"]
"""The types whose elements are in one buffer; complex tensors are pairs."""


class Foreign:
    """An array of another library; it notes how it was asked, and knows versions or not."""

    def __init__(self, array: Any, *, versioned: bool = True) -> None:
        self.array, self.versioned = array, versioned
        self.asked: list[dict[str, Any]] = []

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        if options and not self.versioned:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def structure(capsule: Any) -> Any:
    """Return the structure of a versioned capsule."""
    return VersionedTensor.from_address(_pointer_of(capsule, VERSIONED))


def shares(tensor: Any, array: Any) -> bool:
    """Return whether a tensor reads the memory of an array."""
    buffers = [n for n in toposort(tensor._node) if n.op is ops.BUFFER]
    return len(buffers) == 1 and np.shares_memory(array_of(buffers[0]), array)


# -- export ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REAL_TYPES)
def test_capsules_of_every_type(name: str) -> None:
    x = porism.ones(2, 3, dtype=name).realize()
    found = structure(capsule := x.__dlpack__(max_version=(1, 1)))
    assert found.major == 1
    assert found.flags & READ_ONLY
    assert not found.flags & IS_COPIED
    tensor = found.tensor
    assert tensor.data + tensor.byte_offset == node_storage(x._node)[1]
    assert (tensor.device_type, tensor.device_id) == x.__dlpack_device__() == (1, 0)
    expected = NARROW.get(name, CODES[x.dtype.kind])
    assert (tensor.code, tensor.bits, tensor.lanes) == (expected, 8 * x.dtype.itemsize, 1)
    assert list((ctypes.c_int64 * 2).from_address(tensor.shape)) == [2, 3]
    del capsule


def test_numpy_shares_and_cannot_write() -> None:
    x = (porism.arange(6) * 2).reshape(2, 3).realize()
    for array in (np.from_dlpack(x), np.from_dlpack(x, copy=False)):
        assert array.__array_interface__["data"][0] == node_storage(x._node)[1]
        assert not array.flags.writeable
    copied = np.from_dlpack(x, copy=True)
    copied[0, 0] = 7
    assert x.tolist() == [[0, 2, 4], [6, 8, 10]]


def test_a_consumer_without_versions_gets_a_copy() -> None:
    x = (porism.arange(6) * 2).realize()
    for version in (None, (0, 8)):
        array = np.from_dlpack(Consumed(x.__dlpack__(max_version=version)))
        np.testing.assert_array_equal(array, x.numpy())
        assert array.__array_interface__["data"][0] != node_storage(x._node)[1]
        with refuses(NotShared, "for a consumer of DLPack before version 1"):
            x.__dlpack__(max_version=version, copy=False)


class Consumed:
    """An object with a capsule that was made before."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_values_that_were_handed_out_do_not_change() -> None:
    x = (porism.arange(800) * 1.0).realize()
    array = np.from_dlpack(x)
    x[:] = -1.0
    x[3] = 5.0
    del x
    for k in range(50):
        (porism.ones(800) * k).realize()
    np.testing.assert_array_equal(array, np.arange(800.0))


@pytest.mark.usefixtures("frozen_heap")
def test_a_capsule_that_nobody_uses_frees_the_memory() -> None:
    names = ("float32", "bfloat16", "bool")
    tensors = [porism.ones(2, 300, dtype=name).realize() for name in names]
    storages = [weakref.ref(array_of(x._node)) for x in tensors]
    capsules = [x.__dlpack__(max_version=(1, 1)) for x in tensors]
    del tensors
    gc.collect()
    assert all(storage() is not None for storage in storages)
    del capsules
    gc.collect()
    assert all(storage() is None for storage in storages)


def test_wrong_exports() -> None:
    x = porism.ones(2)
    with refuses(NotShared, "__dlpack__ to the device (2, 0)"):
        x.__dlpack__(dl_device=(2, 0))
    with refuses(NotShared, "__dlpack__ with the stream 1"):
        x.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="CPU's memory"):
        x.__dlpack__(dl_device=(2, 0))
    assert x.__dlpack__(dl_device=(1, 0), copy=True) is not None

    @porism.jit
    def traced(y: Any) -> Any:
        return porism.from_dlpack(np.from_dlpack(y))

    with refuses(PorismError, "value"):
        traced(x)


# -- import ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REAL_TYPES)
@pytest.mark.parametrize("versioned", [True, False])
def test_arrays_of_every_type(name: str, versioned: bool) -> None:
    values = (np.arange(12) % 2).reshape(3, 4).astype(porism.dtype(name).numpy)
    for part in (values, values.T, values[::-1, 1:], values[:0]):
        if name in NARROW:
            source: Any = porism.asarray(np.ascontiguousarray(part))
            foreign = source.__dlpack__(max_version=(1, 1) if versioned else None)
            got = porism.from_dlpack(Consumed(foreign), copy=False)
        else:
            got = porism.from_dlpack(Foreign(part, versioned=versioned), copy=False)
            assert shares(got, part) or not part.size
        assert got.dtype.name == name
        np.testing.assert_array_equal(got.numpy(), part)


def test_sharing_is_the_default() -> None:
    values = np.arange(6.0)
    shared, copied = porism.from_dlpack(values), porism.from_dlpack(values, copy=True)
    values[0] = 7
    assert shared.tolist()[0] == 7
    assert copied.tolist()[0] == 0
    assert porism.asarray(Foreign(values)).tolist() == values.tolist()
    assert not shares(porism.asarray(Foreign(values)), values)
    assert shares(porism.asarray(Foreign(values), copy=False), values)
    foreign = Foreign(values)
    porism.from_dlpack(foreign, copy=False, device="cpu")
    assert foreign.asked[0] == {"max_version": (1, 1), "copy": False}


def test_a_tensor_never_writes_to_the_memory_of_others() -> None:
    values = np.arange(6.0)
    for part in (values, values[::-2]):
        before = part.copy()
        x = porism.from_dlpack(part)
        x[0] = 99
        x[1:] = 98
        x += 1
        assert x.tolist()[0] == 100
        np.testing.assert_array_equal(part, before)


def test_read_only_arrays_are_shared() -> None:
    values = np.arange(6.0)
    values.flags.writeable = False
    got = porism.from_dlpack(values, copy=False)
    assert shares(got, values)
    agree(got + 1, values + 1)


@pytest.mark.usefixtures("frozen_heap")
def test_the_array_lives_as_long_as_the_tensor() -> None:
    class Values(np.ndarray[Any, Any]):
        """An array with weak references."""

    values = np.arange(8.0).view(Values)
    alive = weakref.ref(values)
    x = porism.from_dlpack(values[::2])
    y = x * 2
    del values, x
    gc.collect()
    assert alive() is not None
    assert y.tolist() == [0, 4, 8, 12]
    y.realize()
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_complex_numbers(name: str) -> None:
    values = (np.arange(6) * (1 + 2j)).reshape(2, 3).astype(name)
    for part in (values, values.T, values[:, ::-2], values[:0]):
        got = porism.from_dlpack(Foreign(part))
        assert got.dtype.name == name
        np.testing.assert_array_equal(got.numpy(), part)
        np.testing.assert_array_equal(np.from_dlpack(got), part)
    array = porism.asarray(values).numpy()
    assert not array.flags.writeable
    np.testing.assert_array_equal(np.array(porism.asarray(values)), values)


# -- strides ---------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_views_of_arrays(data: Any) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    array = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    for _ in range(data.draw(st.integers(1, 3))):
        array = array.transpose(data.draw(st.permutations(range(array.ndim))))
        begins = [data.draw(st.integers(0, max(n - 1, 0))) for n in array.shape]
        steps = [data.draw(st.sampled_from([1, 1, 2, 3, -1, -2])) for _ in array.shape]
        array = array[tuple(slice(b, None, s) for b, s in zip(begins, steps, strict=True))]
        if data.draw(st.booleans()) and array.ndim < 4:
            array = np.broadcast_to(array[..., None], (*array.shape, data.draw(st.integers(1, 3))))
    got = porism.from_dlpack(array, copy=False)
    assert shares(got, array) or not array.size
    agree(got, array)
    agree(got + 1, array + 1)
    agree(got.sum(0), array.sum(0, dtype="i8"))


def test_what_is_no_slice_is_copied() -> None:
    values = np.arange(12.0)
    windows = as_strided(values, (5, 4), (16, 8))
    interleaved = as_strided(values, (2, 3), (24, 16))
    unaligned = np.frombuffer(bytearray(33), np.uint8)[1:].view("f8")
    swapped = values.astype(">f8")
    fields = np.zeros(4, [("a", "f4"), ("b", "i2")])["a"]
    for array in (windows, interleaved, fields):
        agree(porism.from_dlpack(array), array)
        with refuses(NotShared, "cannot share the memory of a ndarray"):
            porism.from_dlpack(array, copy=False)
    for array in (unaligned, swapped):
        agree(porism.asarray(array), np.asarray(array, "f8"))
        with refuses(NotShared, "cannot share the memory of a ndarray"):
            porism.asarray(array, copy=False)


def test_only_the_elements_between_the_ends_are_read() -> None:
    """The buffer ends with the last element, though a row of slices is padded to be whole."""
    values = np.arange(10.0)
    got = porism.from_dlpack(values.reshape(5, 2)[:, 0], copy=False)
    (buffer,) = (n for n in toposort(got._node) if n.op is ops.BUFFER)
    assert array_of(buffer).size == 9
    agree(got * 2, values[::2] * 2)


# -- errors ----------------------------------------------------------------------------------------


def test_wrong_imports() -> None:
    with refuses(TypeMismatch, "the device 'gpu'"):
        porism.from_dlpack(np.ones(2), device="gpu")
    with refuses(TypeMismatch, "from_dlpack of a Consumed"):
        porism.from_dlpack(Consumed(object()))
    capsule = np.ones(2).__dlpack__()
    porism.from_dlpack(Consumed(capsule))
    with refuses(TypeMismatch, "from_dlpack of a Consumed"):
        porism.from_dlpack(Consumed(capsule))
