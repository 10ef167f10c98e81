"""Data types: scalars, vectors and pointers, as interned values that can be compared with `is`.

The scalar types are one table. A dtype has its limits, its NumPy type, a test for conversion
without loss, and the *theory* of arithmetic that it obeys, which decides which rewrite rules may be
tried on a node of that type.
"""

from __future__ import annotations

import enum
import math
import re
import threading
import zlib
from typing import Any, Final

import ml_dtypes
import numpy as np

from porism.base.errors import TypeMismatch
from porism.base.fast_enum import fast_enum
from porism.base.fork_locks import held_while_forking

Scalar = bool | int | float
"""A Python value that a constant can hold."""

INFINITY: Final = math.inf

MOST_LANES: Final = 10**6
MOST_ELEMENTS: Final = 10**20
"""Exclusive limits of the lanes of a vector and the elements behind a pointer; `_NAME` reads as
many digits."""


@fast_enum
class Kind(enum.Enum):
    """The kind of values of a dtype."""

    BOOL = "bool"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    COMPLEX = "complex"  # pairs of float tensors: no node of a graph has such a type
    INDEX = "index"
    VOID = "void"
    POINTER = "pointer"
    SCHEMA = "schema"


@fast_enum
class Theory(enum.Enum):
    """The arithmetic that a type obeys, in which rules on it are proved."""

    INTEGERS = "integers"  # unbounded, as in Python: the dtype `index`
    FIXED_WIDTH = "fixed width"  # i8 … u64, wrapping
    FLOATS = "floats"  # IEEE 754
    BOOLEANS = "booleans"
    STRUCTURE = "structure"  # memory, loops, vectors: meaning given by the evaluator


@fast_enum
class Space(enum.Enum):
    """The address space of a pointer."""

    GLOBAL = "global"
    LOCAL = "local"
    REGISTER = "register"


_THEORY_OF_KIND: Final = {
    Kind.BOOL: Theory.BOOLEANS,
    Kind.SIGNED: Theory.FIXED_WIDTH,
    Kind.UNSIGNED: Theory.FIXED_WIDTH,
    Kind.FLOAT: Theory.FLOATS,
    Kind.INDEX: Theory.INTEGERS,
}


class DType:
    """A data type. Equal types are one object, made by the names below, `vec` and `pointer`."""

    __slots__ = (
        "bits",
        "code",
        "count",
        "element",
        "is_float",
        "is_integer",
        "kind",
        "mask",
        "max",
        "min",
        "name",
        "precision",
        "size",
        "slot",
        "space",
        "theory",
    )

    name: str
    code: int  # a number for the name, the same in every process
    kind: Kind
    bits: int  # of one lane; 0 where there is no width
    count: int  # lanes
    element: DType  # the scalar type of a lane, or what a pointer points to; itself for a scalar
    mask: DType  # the type of a comparison of two such values
    min: int | float
    max: int | float
    precision: int  # all integers of so many bits are exact: the significand of a float
    space: Space | None
    size: int  # elements behind a pointer; -1 where not known
    theory: Theory
    slot: int  # index into the construction-time rules of an op; see rewrite/construction.py
    is_float: bool
    is_integer: bool  # fixed width or index; bool is not one

    def __init__(self, *_: object) -> None:
        raise TypeError("dtypes are made by vec(), pointer() and the names in porism.base.dtypes")

    def __repr__(self) -> str:
        return self.name

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, _memo: object) -> DType:
        return self

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (dtype, (self.name,))

    @property
    def scalar(self) -> DType:
        """Return the type of one lane (a pointer is its own lane)."""
        return self if self.kind is Kind.POINTER else self.element

    def vec(self, count: int) -> DType:
        """Return the vector type of `count` such lanes.

        >>> f32.vec(4), f32.vec(1), f32.vec(4).element
        (f32x4, f32, f32)
        """
        if self.count != 1 or self.kind in (Kind.VOID, Kind.POINTER):
            raise TypeMismatch(
                f"cannot make a vector of {self}",
                why="only scalar types have vectors",
                fix="use dtype.scalar.vec(count)",
            )
        if not 1 <= count < MOST_LANES:
            raise TypeMismatch(
                f"a vector of {self} with {'no' if count < 1 else 'too many'} lanes",
                why=f"a vector has at least one lane, and fewer than {MOST_LANES}",
            )
        return self if count == 1 else _intern(f"{self.name}x{count}", self, count)

    def pointer(self, space: Space = Space.GLOBAL, size: int = -1) -> DType:
        """Return the pointer type to `size` such elements in an address space.

        >>> f32.pointer(Space.LOCAL, 64)
        f32*local[64]
        """
        if self.kind in (Kind.VOID, Kind.POINTER):
            raise TypeMismatch(f"cannot point to {self}", why="pointers point to values")
        if not -1 <= size < MOST_ELEMENTS:
            raise TypeMismatch(
                f"a pointer to {'fewer than no' if size < 0 else 'too many'} elements of {self}",
                why=f"a size is not negative, and less than {MOST_ELEMENTS}",
            )
        bounds = f"[{size}]" if size >= 0 else ""
        return _intern(f"{self.name}*{space.value}{bounds}", self, 1, space, size)

    def fits_in(self, other: DType) -> bool:
        """Return whether every value of this type is a value of `other`: a cast loses nothing.

        >>> i32.fits_in(f64), i32.fits_in(f32), u8.fits_in(i16), i8.fits_in(u64), i64.fits_in(index)
        (True, False, True, False, True)
        """
        if self is other:
            return True
        a, b = self.element, other.element
        if self.count != other.count or Kind.POINTER in (self.kind, other.kind):
            return False
        if Kind.SCHEMA in (a.kind, b.kind) or Kind.VOID in (a.kind, b.kind):
            return False
        if a is b:
            return True
        if a.is_float:
            if not b.is_float:
                return False
            pairs = zip(_FLOAT_RANGE[a.name], _FLOAT_RANGE[b.name], strict=True)
            return all(x <= y for x, y in pairs)
        if a.kind is Kind.BOOL:
            return True
        if b.is_float:
            width = a.bits - (a.kind is Kind.SIGNED)
            return a.kind is not Kind.INDEX and width <= b.precision
        return b.is_integer and b.min <= a.min and a.max <= b.max

    def canonical(self, value: object) -> Scalar:
        """Return `value` as a constant of this type holds it: wrapped and rounded.

        >>> i8.canonical(200), f16.canonical(0.1), boolean.canonical(2), index.canonical(7)
        (-56, 0.0999755859375, True, 7)
        """
        lane = self.element
        number = value.item() if isinstance(value, np.generic) else value
        if not isinstance(number, (bool, int, float)):
            raise TypeMismatch(
                f"{value!r} cannot be a constant of {self}",
                why="a constant is a bool, an int or a float",
            )
        if lane.kind is Kind.SCHEMA:
            return number
        if lane.kind is Kind.BOOL:
            return number != 0
        if lane.is_integer:
            if isinstance(number, float):
                if not number.is_integer():
                    raise TypeMismatch(
                        f"{number!r} cannot be a constant of {self}",
                        why="it is not a whole number",
                        fix="cast the value first, or use a float type",
                    )
                number = int(number)
            return wrap(lane, int(number))
        if lane.is_float:
            try:
                number = float(number)
            except OverflowError:
                number = INFINITY if number > 0 else -INFINITY
            if number != number:
                return math.copysign(math.nan, number)
            return number if lane is f64 else round_float(lane, number)
        raise TypeMismatch(f"a constant of {self}", why="the type has no values")

    @property
    def numpy(self) -> np.dtype[Any]:
        """Return the NumPy (or ml_dtypes) type of a lane; int64 for `index`.

        >>> f32.vec(4).numpy, bf16.numpy
        (dtype('float32'), dtype(bfloat16))
        """
        numpy_type = _NUMPY.get(self.element.name)
        if numpy_type is None:
            raise TypeMismatch(f"{self} has no NumPy type", why="it has no values in memory")
        return numpy_type


_lock = held_while_forking(threading.Lock())
_table: dict[str, DType] = {}
_NUMPY: dict[str, np.dtype[Any]] = {}


def _intern(
    name: str, element: DType, count: int, space: Space | None = None, size: int = -1
) -> DType:
    known = _table.get(name)
    if known is None:
        # The mask is made before the lock is taken, as `vec` may take it; a mask is its own mask.
        masked = space is None and element.mask is not element
        mask = element.mask.vec(count) if masked else None
        with _lock:
            known = _table.get(name)
            if known is None:
                kind = element.kind if space is None else Kind.POINTER
                known = _make(name, kind, element, count, space, size)
                known.mask = known if mask is None else mask
                _table[name] = known
    return known


def _make(
    name: str, kind: Kind, element: DType | None, count: int, space: Space | None, size: int
) -> DType:
    new = object.__new__(DType)
    new.name = name
    new.code = zlib.crc32(name.encode())
    new.kind = kind
    new.element = new if element is None else element
    new.count = count
    new.space = space
    new.size = size
    new.bits = 0 if element is None else element.bits
    new.precision = 0 if element is None else element.precision
    new.min = -INFINITY if element is None or space else element.min
    new.max = INFINITY if element is None or space else element.max
    new.theory = _THEORY_OF_KIND.get(kind, Theory.STRUCTURE)
    new.slot = _SLOT[kind]
    new.is_float = kind is Kind.FLOAT
    new.is_integer = kind in (Kind.SIGNED, Kind.UNSIGNED, Kind.INDEX)
    new.mask = new
    return new


# Types of one slot share a table of construction-time rules; a schema type has none (slot 0).
_SLOT: Final = {
    Kind.SCHEMA: 0,
    Kind.INDEX: 1,
    Kind.SIGNED: 2,
    Kind.UNSIGNED: 2,
    Kind.FLOAT: 3,
    Kind.BOOL: 4,
    Kind.COMPLEX: 5,
    Kind.VOID: 5,
    Kind.POINTER: 5,
}
SLOTS: Final = 6


def _scalar(
    name: str,
    kind: Kind,
    bits: int = 0,
    low: float | int = -INFINITY,
    high: float | int = INFINITY,
    precision: int = 0,
    numpy: Any = None,
) -> DType:
    new = _make(name, kind, None, 1, None, -1)
    new.bits, new.min, new.max, new.precision = bits, low, high, precision
    if kind is not Kind.SCHEMA:
        new.mask = _table.get("bool", new)
    _table[name] = new
    if numpy is not None:
        _NUMPY[name] = np.dtype(numpy)
    return new


def _signed(bits: int) -> DType:
    top = 1 << (bits - 1)
    return _scalar(f"i{bits}", Kind.SIGNED, bits, -top, top - 1, bits - 1, f"int{bits}")


def _unsigned(bits: int) -> DType:
    return _scalar(f"u{bits}", Kind.UNSIGNED, bits, 0, (1 << bits) - 1, bits, f"uint{bits}")


def _float(name: str, bits: int, precision: int, numpy: Any) -> DType:
    return _scalar(name, Kind.FLOAT, bits, precision=precision, numpy=numpy)


# name                 kind, width, limits, precision, NumPy's type
boolean = _scalar("bool", Kind.BOOL, 1, 0, 1, 1, "bool")
i8, i16, i32, i64 = _signed(8), _signed(16), _signed(32), _signed(64)
u8, u16, u32, u64 = _unsigned(8), _unsigned(16), _unsigned(32), _unsigned(64)
f16 = _float("f16", 16, 11, "float16")
bf16 = _float("bf16", 16, 8, ml_dtypes.bfloat16)
f32 = _float("f32", 32, 24, "float32")
f64 = _float("f64", 64, 53, "float64")
fp8e4m3 = _float("fp8e4m3", 8, 4, ml_dtypes.float8_e4m3fn)
fp8e5m2 = _float("fp8e5m2", 8, 3, ml_dtypes.float8_e5m2)
index = _scalar("index", Kind.INDEX, numpy="int64")
void = _scalar("void", Kind.VOID)

# Types of the holes in rewrite rules: `T` and `U` stand for any type, `B` for a mask.
# Schema types have no algebra, so that the two sides of a rule stay as they are written.
schema_bool = _scalar("B", Kind.SCHEMA)
schema = _scalar("T", Kind.SCHEMA)
schema_other = _scalar("U", Kind.SCHEMA)
schema.mask = schema_other.mask = schema_bool

_SCALARS: Final = tuple(_table.values())
c64 = _scalar("c64", Kind.COMPLEX, 64, precision=24, numpy="complex64")
c128 = _scalar("c128", Kind.COMPLEX, 128, precision=53, numpy="complex128")

# name: (largest exponent, precision, smallest power of two as -exponent, has infinities)
_FLOAT_RANGE: Final = {
    "fp8e4m3": (8, 4, 9, False),
    "fp8e5m2": (15, 3, 16, True),
    "f16": (15, 11, 24, True),
    "bf16": (127, 8, 133, True),
    "f32": (127, 24, 149, True),
    "f64": (1023, 53, 1074, True),
}


def scalars() -> tuple[DType, ...]:
    """Return every scalar type that has values, in the order of the table."""
    return tuple(t for t in _SCALARS if t.kind not in (Kind.SCHEMA, Kind.VOID))


def dtype(name: str) -> DType:
    """Return the type with this name, as `repr` prints it.

    >>> dtype("f32x4"), dtype("i8*global[16]")
    (f32x4, i8*global[16])
    """
    known = _table.get(name)
    if known is not None:
        return known
    match = _NAME.fullmatch(name)
    base = _table.get(match["base"]) if match else None
    if match is None or base is None or base.kind is Kind.VOID:
        import difflib

        close = difflib.get_close_matches(name, [t.name for t in _SCALARS], 1)
        raise TypeMismatch(
            f"there is no dtype {name!r}",
            why="a dtype is a scalar name, then x<lanes> for a vector, *<space>[n] for a pointer",
            fix=f"did you mean {close[0]!r}?" if close else "known: " + ", ".join(_SCALAR_NAMES),
        )
    lanes = base.vec(int(match["count"])) if match["count"] else base
    if match["space"] is None:
        return lanes
    return lanes.pointer(Space(match["space"]), int(match["size"]) if match["size"] else -1)


_SCALAR_NAMES: Final = tuple(t.name for t in _SCALARS if t.kind is not Kind.SCHEMA)
_SPACES: Final = "|".join(space.value for space in Space)
_NAME: Final = re.compile(
    rf"(?P<base>\w+?)(?:x(?P<count>[1-9]\d{{0,5}}))?"
    rf"(?:\*(?P<space>{_SPACES})(?:\[(?P<size>\d{{1,20}})\])?)?"
)


def from_numpy(numpy: Any) -> DType:
    """Return the type of the elements of a NumPy array with this dtype.

    >>> from_numpy("float32")
    f32
    """
    wanted = np.dtype(numpy)
    for name, known in _NUMPY.items():
        if known == wanted and name != "index":
            return _table[name]
    raise TypeMismatch(
        f"NumPy's {wanted} has no counterpart here",
        fix="convert the array with .astype() to one of: " + ", ".join(_NUMPY),
    )


def wrap(lane: DType, value: int) -> int:
    """Return `value` wrapped to an integer type; unchanged on `index`.

    >>> wrap(u8, -1), wrap(i8, 128), wrap(index, 1 << 70) == 1 << 70
    (255, -128, True)
    """
    if lane.min <= value <= lane.max:
        return value
    return (value - int(lane.min)) % (1 << lane.bits) + int(lane.min)


def round_float(lane: DType, value: float) -> float:
    """Return `value` rounded to a float type, ties to even; overflow as the type defines it.

    >>> round_float(bf16, 1 + 2**-8 + 2**-40), round_float(bf16, 1 + 2**-8)
    (1.0078125, 1.0)
    """
    return float(round_floats(lane, np.asarray(value, dtype=np.float64)))


def round_floats(lane: DType, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array of f64 in a float type, each value rounded once."""
    with np.errstate(all="ignore"):
        if lane.bits < 32 and lane is not f16:
            values = _round_to_odd(values)  # since ml_dtypes goes through f32
        return values.astype(_NUMPY[lane.name])


def _round_to_odd(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return f64 as f32 rounded to odd, so that rounding again to a narrower type is correct."""
    nearest = np.asarray(values.astype(np.float32))
    error = np.abs(values) - np.abs(nearest.astype(np.float64))
    bits = nearest.view(np.int32)
    inexact = np.isfinite(values) & (error != 0) & ((bits & 1) == 0)
    return np.where(inexact, bits + np.where(error > 0, 1, -1), bits).astype(np.int32).view("f4")


def promote(a: DType, b: DType) -> DType:
    """Return the type of an operation on `a` and `b`, as the Array API standard defines it.

    Mixed kinds are an error, as in the standard; floats that it does not know (f16, bf16, fp8)
    promote to the smallest type that holds both.

    >>> promote(i8, u8), promote(f16, bf16), promote(u32, i64)
    (i16, f32, i64)
    """
    if a is b:
        return a
    if a.count == b.count and Kind.POINTER not in (a.kind, b.kind):
        x, y = a.element, b.element
        same = (x.is_float and y.is_float) or (
            x.is_integer and y.is_integer and index not in (x, y)
        )
        if same:
            ladder = _FLOAT_LADDER if x.is_float else _INTEGER_LADDER
            for candidate in ladder:
                if x.fits_in(candidate) and y.fits_in(candidate):
                    return candidate.vec(a.count)
    raise TypeMismatch(
        f"{a} and {b} do not promote to a common type",
        why="the Array API standard promotes only within booleans, integers and floats, and "
        "no integer type holds both u64 and a signed type",
        fix="cast one side explicitly",
    )


_INTEGER_LADDER: Final = (u8, i8, u16, i16, u32, i32, u64, i64)
_FLOAT_LADDER: Final = (fp8e4m3, fp8e5m2, f16, bf16, f32, f64)
