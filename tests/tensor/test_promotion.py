"""Types of results: the Array API's tables, weak numbers, and what has no common type."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np
import pytest

import porism
from porism.base.errors import TypeMismatch
from porism.tensor import conversion
from porism.tensor.promotion import ELEMENT_TYPES, FLOATS, INTEGERS, SIGNED, UNSIGNED
from tests.tensor.oracle import agree, refuses
from tests.tensor.singles import singles

TABLE: Final = (
    ("int8 int8", "int8"),
    ("int8 int64", "int64"),
    ("uint8 uint32", "uint32"),
    ("uint8 int8", "int16"),
    ("uint16 int8", "int32"),
    ("uint32 int32", "int64"),
    ("uint8 int64", "int64"),
    ("float16 float32", "float32"),
    ("float16 bfloat16", "float32"),
    ("bfloat16 float64", "float64"),
    ("float8_e4m3fn float8_e5m2", "float16"),
    ("float8_e5m2 bfloat16", "bfloat16"),
    ("bool int8", "int8"),
    ("bool float16", "float16"),
    ("int64 float16", "float16"),
    ("bool bool", "bool"),
)


@pytest.mark.parametrize(("pair", "expected"), TABLE)
def test_pairs(pair: str, expected: str) -> None:
    a, b = (getattr(porism, name) for name in pair.split())
    wanted = getattr(porism, expected)
    assert porism.result_type(a, b) is porism.result_type(b, a) is wanted
    x, y = porism.zeros(2, dtype=a), porism.zeros(2, dtype=b)
    assert porism.maximum(x, y).dtype is wanted
    assert porism.where(x == x, x, y).dtype is wanted
    assert porism.concat([x, y]).dtype is wanted


def test_same_kinds_as_numpy() -> None:
    for group in (SIGNED, UNSIGNED, INTEGERS):
        for a, b in itertools.product(group, group):
            expected = np.result_type(a.numpy, b.numpy)
            if expected.kind == "f":
                continue
            assert porism.result_type(a, b).numpy == expected


def test_promotion_is_associative_where_it_is_defined() -> None:
    types = [t for t in ELEMENT_TYPES.values() if t is not porism.uint64]
    for a, b, c in itertools.product(types, repeat=3):
        left = porism.result_type(porism.result_type(a, b), c)
        right = porism.result_type(a, porism.result_type(b, c))
        assert left is right or left.is_floating_point, (a, b, c)


WEAK: Final[tuple[tuple[str, Any, str], ...]] = (
    ("int8", 3, "int8"),
    ("uint8", True, "uint8"),
    ("float16", 3, "float16"),
    ("bfloat16", 0.5, "bfloat16"),
    ("int8", 0.5, "float32"),
    ("bool", 2, "int64"),
    ("bool", 0.5, "float32"),
    ("bool", True, "bool"),
    ("float16", np.float64(0.5), "float64"),
    ("int8", np.int32(3), "int32"),
)


@pytest.mark.parametrize(("name", "number", "expected"), WEAK)
def test_numbers_are_weak(name: str, number: Any, expected: str) -> None:
    x = porism.ones(3, dtype=name)
    assert porism.result_type(x, number) is getattr(porism, expected)
    assert porism.maximum(x, number).dtype is getattr(porism, expected)
    assert porism.maximum(number, x).dtype is getattr(porism, expected)


def test_defaults() -> None:
    assert porism.asarray(1).dtype is porism.int64
    assert porism.asarray([1, 2]).dtype is porism.int64
    assert porism.asarray(1.5).dtype is porism.float32
    assert porism.asarray([1.5]).dtype is porism.float32
    assert porism.asarray(True).dtype is porism.bool
    assert porism.zeros(2).dtype is porism.float32
    assert porism.arange(3).dtype is porism.int64
    assert porism.arange(3.0).dtype is porism.float32


def test_division_gives_floats() -> None:
    agree(porism.asarray([1, 2]) / 2, singles([0.5, 1]))
    assert (porism.ones(2, dtype="bfloat16") / 3).dtype is porism.bfloat16
    assert (porism.ones(2, dtype="float64") / 3).dtype is porism.float64


def test_no_common_type() -> None:
    a, b = porism.ones(2, dtype="uint64"), porism.ones(2, dtype="int8")
    with refuses(TypeMismatch, "uint64 and int8 have no common type"):
        a + b


def test_a_number_that_does_not_fit() -> None:
    with refuses(TypeMismatch, "300 does not fit into uint8"):
        porism.ones(2, dtype="uint8") + 300
    with refuses(TypeMismatch, "-1 does not fit into uint8"):
        porism.full(2, -1, dtype="uint8")
    with refuses(TypeMismatch, "0.5 cannot be int32"):
        porism.full(2, 0.5, dtype="int32")


def test_types_that_a_function_does_not_take() -> None:
    with refuses(TypeMismatch, "bitwise_and of a tensor of float32"):
        porism.ones(2) & porism.ones(2)
    with refuses(TypeMismatch, "negative of a tensor of bool"):
        -porism.asarray([True])
    with refuses(TypeMismatch, "bitwise_left_shift of a tensor of bool"):
        porism.asarray([True]) << porism.asarray([True])
    with refuses(TypeMismatch, "one_hot of a tensor of float32"):
        porism.one_hot(porism.ones(2), 3)


def test_names_of_types() -> None:
    for given in ("float32", np.float32, np.dtype("float32"), float, porism.float32):
        assert porism.zeros(1, dtype=given).dtype is porism.float32
    for wrong in ("float33", np.clongdouble, object, "U3"):
        with refuses(TypeMismatch, "is no type of tensors"):
            porism.zeros(1, dtype=wrong)


def test_can_cast() -> None:
    assert porism.can_cast(porism.int8, porism.int32)
    assert porism.can_cast(porism.int8, porism.float32)
    assert not porism.can_cast(porism.float32, porism.int64)
    assert not porism.can_cast(porism.int64, porism.int8)
    assert not porism.can_cast(porism.uint64, porism.int64)
    assert porism.can_cast(porism.zeros(2), "float64")
    with refuses(TypeMismatch, "result_type of nothing"):
        porism.result_type()


def test_limits() -> None:
    for t in INTEGERS:
        ours, theirs = porism.iinfo(t), np.iinfo(t.numpy)
        assert (ours.min, ours.max, ours.bits) == (theirs.min, theirs.max, theirs.bits)
    for t in FLOATS:
        limits = porism.finfo(t)
        assert porism.asarray(limits.max, dtype=t).numpy() == limits.max
        assert limits.eps > 0
        assert limits.bits == t.bits
    assert porism.finfo(porism.float32).eps == np.finfo(np.float32).eps
    with refuses(TypeMismatch, "finfo of a tensor of int8"):
        porism.finfo("int8")
    assert porism.isdtype(porism.int8, ("bool", "integral"))
    assert not porism.isdtype(porism.int8, porism.int16)
    with refuses(TypeMismatch, "isdtype with the kind 'whole'"):
        porism.isdtype(porism.int8, "whole")


NUMBERS: Final = (0, 1, -3, 4.0, 0.0, -0.0, 0.1, np.inf, np.nan, True, 2**70, 10**400)


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_operands_that_need_no_promotion(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short way for equal tensors and numbers gives what the long one gives: nodes or error."""
    x = porism.zeros((2, 3), dtype=name).realize()
    y = porism.ones((2, 3), dtype=name).realize()
    others = [y, porism.zeros((3,), dtype=name), porism.ones((2, 3), dtype="int8"), *NUMBERS]
    pairs = [pair for other in others for pair in ((x, other), (other, x))]

    def found() -> list[Any]:
        results: list[Any] = []
        for pair in pairs:
            try:
                results.append(conversion.promote_operands(*pair))
            except TypeMismatch as error:
                results.append(error.what)
        return results

    short = found()
    monkeypatch.setattr(conversion, "_equal_operands", lambda x, y: None)
    assert found() == short
