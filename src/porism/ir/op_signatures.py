"""Signatures: which sources, argument and dtype each kind of op accepts.

A signature is a function `(dtype, src, arg) -> dtype`. It is given the dtype asked for, or None,
and returns the node's dtype, or raises a `TypeMismatch` that says what does not fit. Dtypes that
follow from the sources need not be given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from porism.base import dtypes
from porism.base.dtypes import DType, Kind, Space
from porism.ir.axis import Axis

if TYPE_CHECKING:
    from porism.ir.node import UOp

Sources = tuple["UOp", ...]
Signature = Callable[[DType | None, Sources, Any], DType]

SCHEMA = Kind.SCHEMA

NON_TEMPORAL = "stream"
"""The argument of a non-temporal STORE, which does not fill the caches."""

PREFETCH = "prefetch"
"""The first entry of the argument of a SINK with prefetches; the others are tuples.

(buffer, elements, axes): each load from the buffer also prefetches the address that is so many
elements further; if axes are given, only loads inside loops of these axes. (buffer, iterations,
axes, axis), for indirect loads: prefetch the address that the load reads so many iterations of the
loop `axis` later."""


class Misfit(Exception):  # noqa: N818 - turned into a TypeMismatch that names the op
    """The reason why a node cannot be made."""


def need(condition: object, why: str, *parts: object) -> None:
    """Raise a `Misfit` unless the condition holds; the message is formatted only then."""
    if condition:
        return
    try:
        raise Misfit(why.format(*parts))
    except ValueError:  # an int with more digits than Python prints
        raise Misfit(why.format(*["…"] * len(parts))) from None


def is_schema(t: DType) -> bool:
    return t.element.kind is SCHEMA


def _integral(t: DType) -> bool:
    return t.is_integer or is_schema(t)


def _logical(t: DType) -> bool:
    return t.kind is Kind.BOOL or t.is_integer or is_schema(t)


def _floating(t: DType) -> bool:
    return t.is_float or is_schema(t)


def _numeric(t: DType) -> bool:
    return t.is_float or t.is_integer or is_schema(t)


def is_value(t: DType) -> bool:
    return t.kind not in (Kind.VOID, Kind.POINTER)


def is_index(t: DType) -> bool:
    """Return whether a type can be an index: `index`, or after lowering a fixed-width integer."""
    return t.is_integer or is_schema(t)


def need_no_arg(arg: Any) -> None:
    """Raise a `Misfit` if a node has an argument."""
    need(arg is None, "it takes no argument, got {!r}", arg)


def common_dtype(src: Sources) -> DType:
    """Return the one dtype of all sources; raise a `Misfit` if they differ."""
    t = src[0].dtype
    for s in src[1:]:
        if s.dtype is not t:
            raise Misfit(f"its operands have different types, {t} and {s.dtype}")
    return t


def elementwise(accepts: Callable[[DType], bool], kinds: str) -> Signature:
    """Return the signature of an op with operands of one type, and a result of that type."""

    def signature(dtype: DType | None, src: Sources, arg: Any) -> DType:
        need_no_arg(arg)
        t = common_dtype(src)
        need(accepts(t), "it works on {}, not on {}", kinds, t)
        return t

    return signature


numeric = elementwise(_numeric, "numbers")
integral = elementwise(_integral, "integers")
floating = elementwise(_floating, "floats")
logical = elementwise(_logical, "integers and booleans")
valued = elementwise(is_value, "values")


def comparison(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need_no_arg(arg)
    t = common_dtype(src)
    need(is_value(t), "it works on values, not on {}", t)
    return t.mask


def choice(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """WHERE(condition, yes, no): a scalar condition may select between vectors."""
    need_no_arg(arg)
    condition = src[0]
    t = common_dtype(src[1:])
    need(is_value(t), "it chooses between values, not {}", t)
    need(condition.dtype in (t.mask, t.mask.element), "its condition is {}", condition.dtype)
    return t


def random_bits(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need_no_arg(arg)
    t = common_dtype(src)
    need(t.element is dtypes.u64 or is_schema(t), "it works on u64, not on {}", t)
    return t


def conversion(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """CAST(value; dtype): between values of as many lanes, or pointers of one address space."""
    need_no_arg(arg)
    need(dtype is not None, "its dtype must be given")
    assert dtype is not None
    source = src[0].dtype
    if source.kind is Kind.POINTER and dtype.kind is Kind.POINTER:
        need(source.space is dtype.space, "{} and {} are in different memories", source, dtype)
        return dtype
    need(is_value(source) and is_value(dtype), "there is no conversion of {} to {}", source, dtype)
    need(source.count == dtype.count, "{} and {} have different numbers of lanes", source, dtype)
    return dtype


def reinterpretation(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """BITCAST(value; dtype): between types of as many bits."""
    conversion(dtype, src, arg)
    assert dtype is not None
    a, b = src[0].dtype, dtype
    if a.kind is Kind.POINTER or is_schema(a) or is_schema(b):
        return dtype
    need(a.bits * a.count == b.bits * b.count and a.bits, "{} and {} differ in size", a, b)
    return dtype


def constant(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need(dtype is not None and is_value(dtype), "a constant has a value type, not {}", dtype)
    assert dtype is not None
    need(isinstance(arg, (bool, int, float)), "its argument is a number, not {!r}", arg)
    return dtype


def vector_constant(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """VCONST(; numbers): a number for each lane."""
    need(dtype is not None and is_value(dtype), "a constant has a value type, not {}", dtype)
    assert dtype is not None
    need(
        isinstance(arg, tuple) and len(arg) == dtype.count,
        "its argument is a tuple of {} numbers",
        dtype.count,
    )
    need(all(isinstance(a, (bool, int, float)) for a in arg), "a lane is not a number")
    return dtype


def variable(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """VARIABLE(; name, lowest, highest): bounds are inclusive, None for an infinite one."""
    need(
        isinstance(arg, tuple) and len(arg) == 3 and isinstance(arg[0], str),
        "its argument is (name, lowest, highest), not {!r}",
        arg,
    )
    t = dtypes.index if dtype is None else dtype
    need(is_index(t), "a variable is an integer, not {}", t)
    name, low, high = arg
    for end in (low, high):
        need(end is None or type(end) is int, "the bound {!r} of {} is no int or None", end, name)
    need(low is None or high is None or low <= high, "the bounds {}..{} are empty", low, high)
    if t.is_integer and t.bits:
        need(low is not None and low >= t.min, "{} is no bound of {}", low, t)
        need(high is not None and high <= t.max, "{} is no bound of {}", high, t)
    return t


def bound_variable(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need_no_arg(arg)
    need(src[0].op.name == "VARIABLE", "its first source is a VARIABLE")
    return common_dtype(src)


def loop(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """RANGE(end; axis, kind): axis is a tuple of ints, so that a split axis names its parts."""
    from_arg = isinstance(arg, tuple) and len(arg) == 2 and isinstance(arg[0], tuple)
    need(from_arg, "its argument is (axis, kind), not {!r}", arg)
    axis, kind = arg
    need(axis and all(type(i) is int for i in axis), "an axis is a tuple of ints, not {!r}", axis)
    need(isinstance(kind, Axis), "{!r} is no kind of axis", kind)
    t = src[0].dtype
    need(is_index(t) and t.count == 1, "its end is an integer, not {}", t)
    return t


def special(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need(isinstance(arg, str) and arg, "its argument is the index's name, not {!r}", arg)
    t = src[0].dtype
    need(is_index(t) and t.count == 1, "its end is an integer, not {}", t)
    return t


def _need_dims(src: Sources) -> None:
    for s in src:
        need(is_index(s.dtype), "a dimension is an integer, not {}", s.dtype)


def parameter(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """PARAM(dim…; number): an input, which is a tensor, or in a kernel a pointer without dims."""
    need(type(arg) is int and arg >= 0, "its argument is its number, not {!r}", arg)
    need(dtype is not None and dtype.kind is not Kind.VOID, "its dtype must be given")
    assert dtype is not None
    need(dtype.kind is not Kind.POINTER or not src, "a pointer has no dimensions")
    _need_dims(src)
    return dtype


def buffer(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """BUFFER(dim…; id, device): memory of a tensor."""
    named = isinstance(arg, tuple) and len(arg) == 2 and isinstance(arg[1], str)
    need(named and isinstance(arg[0], (int, str)), "its argument is (id, device), not {!r}", arg)
    need(dtype is not None and is_value(dtype), "its dtype must be a value type")
    assert dtype is not None
    need(dtype.element is not dtypes.index, "memory has integers of a width, and no index")
    _need_dims(src)
    return dtype


def iota(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """IOTA(dim…; axis): the index of each element along an axis."""
    _need_dims(src)
    need(type(arg) is int and 0 <= arg < len(src), "its argument is one of its axes, not {!r}", arg)
    need(dtype in (None, dtypes.index), "it counts in index, not in {}", dtype)
    return dtypes.index


def allocation(space: Space) -> Signature:
    """Return the signature of DEFINE_LOCAL or DEFINE_REG: a sized pointer to an address space."""

    def signature(dtype: DType | None, src: Sources, arg: Any) -> DType:
        need(isinstance(arg, (int, str)), "its argument is its number or name, not {!r}", arg)
        fits = dtype is not None and dtype.space is space and dtype.size >= 0
        need(fits, "its dtype is a sized pointer to {} memory, not {}", space.value, dtype)
        assert dtype is not None
        return dtype

    return signature


def invalid_index(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need_no_arg(arg)
    t = dtypes.index if dtype is None else dtype
    need(is_index(t), "it is an index, not {}", t)
    return t


def access(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """INDEX(buffer, index…, gate?): the element itself, or the pointer to it where asked for."""
    need_no_arg(arg)
    base = src[0].dtype
    need(base.kind is not Kind.VOID, "its first source is a buffer")
    rest = src[1:-1] if len(src) > 1 and is_mask(src[-1].dtype) else src[1:]
    for s in rest:
        need(is_index(s.dtype), "an index is an integer, not {}", s.dtype)
    if base.kind is not Kind.POINTER:
        need(dtype is None or dtype is base, "an element of it is {}, not {}", base, dtype)
        return base
    if dtype is None:
        return base.element
    element = dtype.element
    fits = element is base.element or element is base.element.element or is_schema(dtype)
    need(fits, "an element of it is {}, not {}", base.element, dtype)
    need(dtype.space in (None, base.space), "{} and {} are in different memories", base, dtype)
    return dtype


def is_mask(t: DType) -> bool:
    return t.kind is Kind.BOOL or t.element is dtypes.schema_bool


def load(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """LOAD(pointer, alternative?): the alternative is the value where the gate is closed."""
    need_no_arg(arg)
    base = src[0].dtype
    need(base.kind is Kind.POINTER or is_schema(base), "it loads from a pointer, not {}", base)
    t = base.element if dtype is None else dtype
    need(is_value(t), "it loads a value, not {}", t)
    need(t.element is base.element.element or is_schema(t), "{} holds no {}", base, t)
    for s in src[1:]:
        need(s.dtype is t, "its alternative is {}, not {}", s.dtype, t)
    return t


def store(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """STORE(index or pointer, value; NON_TEMPORAL or None)."""
    need(arg in (None, NON_TEMPORAL), "its argument is {}, and not {!r}", arg, NON_TEMPORAL)
    need(is_value(src[1].dtype), "it stores a value, not {}", src[1].dtype)
    target = src[0].dtype
    need(
        target.element.element is src[1].dtype.element or is_schema(target),
        "{} does not go into {}",
        src[1].dtype,
        target,
    )
    return dtypes.void


def effect(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """An op without a value, whose sources are effects."""
    return dtypes.void


def plain_effect(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need_no_arg(arg)
    return dtypes.void


def loop_end(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need_no_arg(arg)
    for s in src[1:]:
        need(is_index(s.dtype), "it ends ranges, not {}", s.dtype)
    return dtypes.void


def condition(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need_no_arg(arg)
    need(is_mask(src[0].dtype), "its condition is a bool, not {}", src[0].dtype)
    return dtypes.void


def condition_end(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need_no_arg(arg)
    need(src[0].op.name == "IF", "its first source is an IF")
    return dtypes.void


def like_first(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """An op whose value is that of its first source."""
    return src[0].dtype


def value_like_first(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need(is_value(src[0].dtype), "it works on values, not on {}", src[0].dtype)
    return src[0].dtype


def stated_pullback(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """PULLBACK(value, input…; (name, parameter…)): the value, with a stated derivative."""
    named = isinstance(arg, tuple) and arg and isinstance(arg[0], str)
    need(named, "its argument begins with the name of a pullback, not {!r}", arg)
    return value_like_first(dtype, src, arg)


def movement(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """A movement op: (x, size…), the sizes as sources."""
    need_no_arg(arg)
    _need_dims(src[1:])
    return value_like_first(dtype, src, arg)


def permute(dtype: DType | None, src: Sources, arg: Any) -> DType:
    whole = are_axes(arg) and sorted(arg) == list(range(len(arg)))
    need(whole, "its argument is an order of all axes, not {!r}", arg)
    return value_like_first(dtype, src, arg)


def are_axes(arg: Any) -> bool:
    return isinstance(arg, tuple) and all(type(a) is int and a >= 0 for a in arg)


def flip(dtype: DType | None, src: Sources, arg: Any) -> DType:
    ordered = are_axes(arg) and sorted(set(arg)) == list(arg)
    need(ordered, "its argument is sorted axes, not {!r}", arg)
    return value_like_first(dtype, src, arg)


def _need_reducer(op: Any) -> None:
    name = getattr(op, "name", None)
    need(name in REDUCERS, "it reduces by {}, not by {!r}", ", ".join(REDUCERS), op)


REDUCERS = ("ADD", "MUL", "MAX", "MIN", "AND", "OR")


def axis_reduction(dtype: DType | None, src: Sources, arg: Any) -> DType:
    good = isinstance(arg, tuple) and len(arg) == 2 and are_axes(arg[1])
    need(good and sorted(set(arg[1])) == list(arg[1]), "its argument is (op, axes), not {!r}", arg)
    _need_reducer(arg[0])
    return value_like_first(dtype, src, None)


def range_reduction(dtype: DType | None, src: Sources, arg: Any) -> DType:
    _need_reducer(arg)
    for s in src[1:]:
        need(is_index(s.dtype), "it reduces over ranges, not {}", s.dtype)
    return value_like_first(dtype, src, None)


def gather(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need_no_arg(arg)
    for s in src[1:]:
        need(s.dtype is dtypes.index, "its indices are of type index, not {}", s.dtype)
    return value_like_first(dtype, src, None)


def copy(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need(isinstance(arg, str) and arg, "its argument is a device, not {!r}", arg)
    return value_like_first(dtype, src, None)


def assign(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need_no_arg(arg)
    return common_dtype(src)


def bufferize(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """BUFFERIZE(value, range…; space): the value, stored in a buffer with an axis per range."""
    need(isinstance(arg, Space), "its argument is an address space, not {!r}", arg)
    _need_dims(src[1:])
    return value_like_first(dtype, src, None)


def call(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need(isinstance(arg, str) and arg, "its argument is the kernel's name, not {!r}", arg)
    need(src[0].op.name == "SINK", "its first source is the kernel's SINK")
    return dtypes.void


def hole(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need(isinstance(arg, str) and arg, "a hole has a name, not {!r}", arg)
    t = dtypes.schema if dtype is None else dtype
    need(is_schema(t) or t.kind is Kind.VOID, "a hole has a schema type, not {}", t)
    return t


def fact(dtype: DType | None, src: Sources, arg: Any) -> DType:
    need(isinstance(arg, str) and arg, "a fact has a name, not {!r}", arg)
    return dtypes.schema if dtype is None else dtype
