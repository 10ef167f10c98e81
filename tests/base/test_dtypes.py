"""Dtypes: limits, lossless casts checked value by value, promotion, names, rounding, messages."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.base import dtypes
from porism.base.dtypes import DType, Kind, Space, Theory, dtype, from_numpy, promote, wrap
from porism.base.errors import TypeMismatch

SCALARS: Final = dtypes.scalars()
INTEGERS: Final = [t for t in SCALARS if t.is_integer and t.bits]
FLOATS: Final = [t for t in SCALARS if t.is_float]
WIDE: Final = [t for t in SCALARS if t.kind is not Kind.INDEX]


# -- the table -------------------------------------------------------------------------------------


def test_the_table() -> None:
    names = "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 fp8e4m3 fp8e5m2 index"
    assert [t.name for t in SCALARS] == names.split()
    assert len({t.code for t in SCALARS}) == len(SCALARS)


@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_limits_of_integers(t: DType) -> None:
    info = np.iinfo(t.numpy)
    assert (t.min, t.max, t.bits) == (info.min, info.max, info.bits)
    assert t.theory is Theory.FIXED_WIDTH
    assert t.is_integer
    assert not t.is_float


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_limits_of_floats(t: DType) -> None:
    info = ml_dtypes.finfo(t.numpy)  # type: ignore[no-untyped-call]
    assert t.bits == info.bits == t.numpy.itemsize * 8
    assert t.precision == info.nmant + 1
    assert (t.min, t.max) == (-math.inf, math.inf)
    assert t.theory is Theory.FLOATS


def test_index_and_bool() -> None:
    assert (dtypes.index.min, dtypes.index.max) == (-math.inf, math.inf)
    assert dtypes.index.theory is Theory.INTEGERS
    assert dtypes.index.is_integer
    assert dtypes.boolean.theory is Theory.BOOLEANS
    assert not dtypes.boolean.is_integer
    assert (dtypes.boolean.min, dtypes.boolean.max) == (0, 1)


# -- lossless casts --------------------------------------------------------------------------------


def every_value(t: DType) -> np.ndarray[Any, Any]:
    """All values of a type of at most 16 bits; of a wider one those where something can be lost."""
    if t.kind is Kind.BOOL:
        return np.array([False, True])
    if t.bits <= 16:
        codes = np.arange(1 << t.bits, dtype=f"u{t.bits // 8}")
        return codes.view(t.numpy)
    if t.is_integer:
        near = {int(t.min) + k for k in range(3)} | {int(t.max) - k for k in range(3)}
        near |= {(1 << k) + d for k in range(t.bits) for d in (-1, 0, 1)}
        near |= {-n for n in near}
        return np.array(sorted(n for n in near if t.min <= n <= t.max), dtype=t.numpy)
    info = ml_dtypes.finfo(t.numpy)  # type: ignore[no-untyped-call]
    edges = [info.max, info.smallest_normal, info.smallest_subnormal, 1 + info.eps, math.inf]
    edges += [math.nan, 0.0, -0.0, 1.0]
    return np.array(edges, dtype=t.numpy)


def exact(values: np.ndarray[Any, Any], t: DType) -> list[Any]:
    """Values as Python numbers."""
    if t.is_float:
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return [float(v) for v in values.astype(np.float64)]
    return [int(v) for v in values]


def survives(source: DType, target: DType) -> bool:
    """Whether every value is the same after a cast there."""
    values = every_value(source)
    before = exact(values, source)
    if target.kind is Kind.BOOL:
        return all(v in (0, 1) for v in before) and not source.is_float and source.bits == 1
    with np.errstate(all="ignore"):
        after = exact(values.astype(target.numpy), target)
    return all(
        (a != a and b != b) or (a == b and str(float(a))[0] == str(float(b))[0])
        for a, b in zip(before, after, strict=True)
    )


@pytest.mark.parametrize("target", WIDE, ids=str)
@pytest.mark.parametrize("source", WIDE, ids=str)
def test_fits_in_is_what_casting_shows(source: DType, target: DType) -> None:
    if source.is_float and not target.is_float:
        assert not source.fits_in(target)
        return
    assert source.fits_in(target) == survives(source, target)


def test_fits_in_index_and_vectors() -> None:
    for t in SCALARS:
        whole = t.is_integer or t.kind is Kind.BOOL
        assert t.fits_in(dtypes.index) == whole
        assert dtypes.index.fits_in(t) == (t is dtypes.index)
    assert dtypes.i8.vec(4).fits_in(dtypes.i16.vec(4))
    assert not dtypes.i8.vec(4).fits_in(dtypes.i16)
    assert not dtypes.i8.vec(4).fits_in(dtypes.i16.vec(2))
    pointer = dtypes.f32.pointer()
    assert pointer.fits_in(pointer)
    assert not pointer.fits_in(dtypes.f64.pointer())
    assert not dtypes.void.fits_in(dtypes.f32)
    assert not dtypes.schema.fits_in(dtypes.f32)


# -- promotion -------------------------------------------------------------------------------------

# The tables of the Array API standard: signed, unsigned, mixed, floating.
STANDARD: Final = """
i8 i8 i8    i8 i16 i16    i8 i32 i32    i8 i64 i64
i16 i16 i16 i16 i32 i32   i16 i64 i64
i32 i32 i32 i32 i64 i64   i64 i64 i64
u8 u8 u8    u8 u16 u16    u8 u32 u32    u8 u64 u64
u16 u16 u16 u16 u32 u32   u16 u64 u64
u32 u32 u32 u32 u64 u64   u64 u64 u64
i8 u8 i16   i8 u16 i32    i8 u32 i64
i16 u8 i16  i16 u16 i32   i16 u32 i64
i32 u8 i32  i32 u16 i32   i32 u32 i64
i64 u8 i64  i64 u16 i64   i64 u32 i64
f32 f32 f32 f32 f64 f64   f64 f64 f64
bool bool bool
"""


_NAMES = STANDARD.split()
TRIPLES: Final = list(zip(_NAMES[::3], _NAMES[1::3], _NAMES[2::3], strict=True))


@pytest.mark.parametrize(("a", "b", "result"), TRIPLES, ids=[f"{a}-{b}" for a, b, _ in TRIPLES])
def test_promotion_is_that_of_the_standard(a: str, b: str, result: str) -> None:
    assert promote(dtype(a), dtype(b)) is dtype(result)
    assert promote(dtype(b), dtype(a)) is dtype(result)
    assert promote(dtype(a).vec(4), dtype(b).vec(4)) is dtype(result).vec(4)


def test_promotion_is_numpys_where_both_are_defined() -> None:
    for a, b in itertools.product(INTEGERS, repeat=2):
        if dtypes.u64 in (a, b) and a.kind is not b.kind:
            continue  # NumPy goes to a float there, which the standard leaves open
        assert promote(a, b).numpy == np.promote_types(a.numpy, b.numpy)


@pytest.mark.parametrize("a", FLOATS, ids=str)
def test_small_floats_meet_in_the_smallest_type_that_holds_both(a: DType) -> None:
    for b in FLOATS:
        common = promote(a, b)
        assert a.fits_in(common)
        assert b.fits_in(common)
        smaller = [t for t in FLOATS if a.fits_in(t) and b.fits_in(t) and t.bits < common.bits]
        assert not smaller
    assert promote(dtypes.f16, dtypes.bf16) is dtypes.f32
    assert promote(dtypes.fp8e4m3, dtypes.fp8e5m2) is dtypes.f16


NOT_PROMOTED: Final = [
    (dtypes.i32, dtypes.f32),
    (dtypes.boolean, dtypes.i8),
    (dtypes.i8, dtypes.u64),
    (dtypes.index, dtypes.i32),
    (dtypes.f32, dtypes.f32.vec(2)),
    (dtypes.f32.pointer(), dtypes.f32),
    (dtypes.void, dtypes.f32),
]


@pytest.mark.parametrize(("a", "b"), NOT_PROMOTED, ids=[f"{a}-{b}" for a, b in NOT_PROMOTED])
def test_other_kinds_do_not_promote(a: DType, b: DType) -> None:
    with pytest.raises(TypeMismatch, match="do not promote to a common type") as caught:
        promote(a, b)
    assert caught.value.fix == "cast one side explicitly"


# -- vectors, pointers, names ----------------------------------------------------------------------

COMPOSED: Final = [
    *SCALARS,
    dtypes.void,
    *(t.vec(4) for t in SCALARS),
    *(t.pointer(space, size) for t in SCALARS for space in Space for size in (-1, 0, 16)),
    dtypes.f32.vec(4).pointer(Space.LOCAL, 8),
    dtypes.schema,
    dtypes.schema_bool.vec(2),
]


@pytest.mark.parametrize("t", COMPOSED, ids=str)
def test_a_name_gives_the_type_back(t: DType) -> None:
    assert dtype(t.name) is t
    assert pickle.loads(pickle.dumps(t)) is t
    assert copy.copy(t) is t
    assert copy.deepcopy(t) is t
    assert repr(t) == t.name


def test_vectors() -> None:
    four = dtypes.i8.vec(4)
    assert four is dtypes.i8.vec(4)
    assert (four.count, four.element, four.scalar, four.bits) == (4, dtypes.i8, dtypes.i8, 8)
    assert (four.min, four.max) == (-128, 127)
    assert four.mask is dtypes.boolean.vec(4)
    assert dtypes.boolean.vec(4).mask is dtypes.boolean.vec(4)
    assert dtypes.i8.vec(1) is dtypes.i8
    assert dtypes.i8.mask is dtypes.boolean
    assert four.is_integer
    assert four.theory is Theory.FIXED_WIDTH


def test_pointers() -> None:
    pointer = dtypes.f32.pointer(Space.LOCAL, 64)
    assert pointer.name == "f32*local[64]"
    assert (pointer.kind, pointer.space, pointer.size) == (Kind.POINTER, Space.LOCAL, 64)
    assert pointer.element is dtypes.f32
    assert pointer.scalar is pointer
    assert not pointer.is_float
    assert pointer.theory is Theory.STRUCTURE


MISTAKES: Final = [
    (lambda: dtypes.f32.vec(4).vec(2), "cannot make a vector of f32x4"),
    (lambda: dtypes.void.vec(4), "cannot make a vector of void"),
    (lambda: dtypes.f32.vec(0), "a vector of f32 with no lanes"),
    (lambda: dtypes.f32.vec(10**6), "a vector of f32 with too many lanes"),
    (lambda: dtypes.f32.vec(10**5000), "too many lanes"),
    (lambda: dtypes.void.pointer(), "cannot point to void"),
    (lambda: dtypes.f32.pointer().pointer(), "cannot point to f32*global"),
    (lambda: dtypes.f32.pointer(size=-2), "a pointer to fewer than no elements"),
    (lambda: dtypes.f32.pointer(size=10**20), "a pointer to too many elements"),
    (lambda: dtype("float32"), "there is no dtype 'float32'"),
    (lambda: dtype("f33"), "did you mean 'f32'?"),
    (lambda: dtype("f32x"), "there is no dtype 'f32x'"),
    (lambda: dtype("f32x4x4"), "f32x4"),
    (lambda: dtype("f32*moon"), "there is no dtype"),
    (lambda: dtype("void*global"), "there is no dtype"),
    (lambda: dtype(""), "known: bool, i8"),
    (lambda: from_numpy("datetime64[s]"), "NumPy's datetime64[s] has no counterpart here"),
    (lambda: dtypes.void.numpy, "void has no NumPy type"),
    (lambda: dtypes.f32.canonical("x"), "'x' cannot be a constant of f32"),
    (lambda: dtypes.i32.canonical(1.5), "1.5 cannot be a constant of i32"),
    (lambda: dtypes.i32.canonical(math.nan), "nan cannot be a constant of i32"),
    (lambda: dtypes.void.canonical(1), "a constant of void"),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES, ids=[text for _, text in MISTAKES])
def test_mistakes_are_explained(call: Any, message: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        call()
    assert message in str(caught.value)


def test_types_are_not_made_by_hand() -> None:
    with pytest.raises(TypeError, match="dtypes are made by"):
        DType()


# -- NumPy -----------------------------------------------------------------------------------------


def test_numpy_types_there_and_back() -> None:
    for t in WIDE:
        assert from_numpy(t.numpy) is t
    assert dtypes.index.numpy == np.dtype(np.int64)
    assert from_numpy(np.int64) is dtypes.i64
    assert dtypes.f32.vec(4).numpy == np.dtype(np.float32)


# -- wrapping and rounding -------------------------------------------------------------------------


@given(st.integers(-(2**70), 2**70), st.sampled_from(INTEGERS))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_wrapping(value: int, t: DType) -> None:
    wrapped = wrap(t, value)
    assert t.min <= wrapped <= t.max
    assert (wrapped - value) % (1 << t.bits) == 0
    assert t.canonical(value) == wrapped
    assert wrap(dtypes.index, value) == value


@given(st.floats(), st.sampled_from(FLOATS))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_rounding_is_idempotent_and_nearest(value: float, t: DType) -> None:
    rounded = dtypes.round_float(t, value)
    again = dtypes.round_float(t, rounded)
    assert rounded == again or (rounded != rounded and again != again)
    if math.isfinite(rounded) and t.bits >= 16 and t is not dtypes.bf16:
        with np.errstate(all="ignore"):
            assert rounded == float(np.float64(value).astype(t.numpy))


def test_rounding_is_done_once() -> None:
    """Just above the middle of two values; through f32 it would become the middle itself."""
    for t, bits in ((dtypes.bf16, 7), (dtypes.fp8e5m2, 2), (dtypes.fp8e4m3, 3), (dtypes.f16, 10)):
        middle = 1 + 2.0 ** -(bits + 1)
        assert dtypes.round_float(t, middle) == 1.0
        assert dtypes.round_float(t, middle + 2**-40) == 1 + 2.0**-bits
        assert dtypes.round_float(t, -middle - 2**-40) == -1 - 2.0**-bits
        assert dtypes.round_float(t, middle - 2**-40) == 1.0


def test_overflow_and_signs() -> None:
    assert dtypes.round_float(dtypes.f16, 65520.0) == math.inf
    assert dtypes.round_float(dtypes.f16, 65519.99) == 65504.0
    assert dtypes.round_float(dtypes.fp8e5m2, -1e9) == -math.inf
    assert math.isnan(dtypes.round_float(dtypes.fp8e4m3, 1e9))
    assert dtypes.round_float(dtypes.bf16, 3.4e38) == math.inf
    assert math.copysign(1, dtypes.round_float(dtypes.fp8e4m3, -1e-30)) == -1
    assert dtypes.f32.canonical(10**400) == math.inf
    assert dtypes.f32.canonical(-(10**400)) == -math.inf


def test_canonical_values() -> None:
    assert dtypes.boolean.canonical(2) is True
    assert dtypes.boolean.canonical(0.0) is False
    assert type(dtypes.index.canonical(True)) is int
    assert dtypes.u8.canonical(np.int64(-1)) == 255
    assert type(dtypes.f32.canonical(1)) is float
    assert dtypes.i8.canonical(3.0) == 3
    assert dtypes.schema.canonical(1.5) == 1.5
