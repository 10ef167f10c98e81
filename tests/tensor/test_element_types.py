"""Types of tensors as users see them, beside those of NumPy, ml_dtypes and torch."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import porism
from porism.base import dtypes
from porism.base.errors import TypeMismatch
from porism.tensor.element_types import ElementType
from porism.tensor.promotion import ELEMENT_TYPES
from tests.tensor.oracle import refuses


def test_attributes() -> None:
    assert repr(porism.float32) == "porism.float32"
    assert str(porism.float32) == f"{porism.float32}" == porism.float32.name == "float32"
    assert (porism.bfloat16.itemsize, porism.bfloat16.kind) == (2, "f")
    assert porism.float32.type is np.float32
    assert [porism.dtype(name).kind for name in ("bool", "int8", "uint64", "float8_e5m2")] == [
        "b",
        "i",
        "u",
        "f",
    ]
    assert porism.float16.is_floating_point
    assert not porism.int16.is_floating_point


@pytest.mark.parametrize("name", list(ELEMENT_TYPES))
def test_each_type_is_numpys(name: str) -> None:
    t: ElementType = getattr(porism, name)
    numpy_type = np.dtype(getattr(ml_dtypes, name, None) or name)
    assert t.name == numpy_type.name == name
    assert t.itemsize == numpy_type.itemsize
    assert np.dtype(t) is np.dtype(t.type) is t.numpy
    for same in (numpy_type, numpy_type.type, name, t, t.base):
        assert t == same, same
        assert same == t, same
    assert hash(t) == hash(numpy_type)
    table: dict[Any, int] = {t: 1}
    assert table[numpy_type] == 1
    assert np.zeros(2, t).dtype == np.zeros(2).astype(t).dtype == t
    assert porism.zeros(2, dtype=t).dtype is porism.zeros(2, dtype=numpy_type).dtype is t
    assert porism.asarray(np.zeros(2, numpy_type)).dtype is t


def test_types_are_equal_to_nothing_else() -> None:
    names = list(ELEMENT_TYPES)
    for a in names:
        for b in names:
            assert (porism.dtype(a) == porism.dtype(b)) is (a == b)
            assert (porism.dtype(a) == b) is (a == b)
    others: tuple[Any, ...] = (None, 4, 2.5, "", "floaty", object(), [1], float, np.complex64, str)
    for other in others:
        assert porism.float32 != other
    classes: tuple[Any, ...] = (bool, int, float)
    assert porism.float64 != classes[2]  # in NumPy it is; here Python's floats are float32
    assert porism.float32 == "f4"
    assert porism.bool == classes[0]
    assert porism.int64 == classes[1]


def test_one_object_of_each() -> None:
    for t in ELEMENT_TYPES.values():
        assert porism.dtype(t) is porism.dtype(t.name) is porism.dtype(t.numpy) is t
        assert copy.copy(t) is copy.deepcopy(t) is pickle.loads(pickle.dumps(t)) is t
        assert isinstance(t, porism.dtype)
    assert porism.zeros(2).dtype is porism.ones(3).dtype is porism.float32


class TorchType:
    """Stands for `torch.dtype`, which says its name as torch.float32."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


TorchType.__module__ = "torch"
TorchType.__name__ = "dtype"


def test_types_of_torch() -> None:
    for name in ELEMENT_TYPES:
        assert porism.zeros(2, dtype=TorchType(name)).dtype == TorchType(name)
        assert porism.zeros(2, dtype=name).dtype.name == name
    with refuses(TypeMismatch, "torch.float4_e2m1fn_x2 is no type of tensors"):
        porism.zeros(2, dtype=TorchType("float4_e2m1fn_x2"))


def test_what_is_no_type() -> None:
    for wrong in ("flaot32", None, 3, dtypes.f32.vec(4), np.dtype("M8[s]"), object()):
        with refuses(TypeMismatch, "is no type of tensors"):
            porism.dtype(wrong)


def test_functions_on_types_return_them() -> None:
    assert porism.result_type(porism.int8, np.uint8, 3) is porism.int16
    assert porism.result_type(porism.zeros(2), 1.5) is porism.float32
    assert porism.finfo(np.float16).dtype is porism.float16
    assert porism.iinfo("int8").dtype is porism.int8
    assert porism.isdtype(porism.float32, np.dtype("float32"))
    assert porism.can_cast(np.int8, porism.int16)
