"""Signatures of ops on lanes: vectors, unrolled axes, tensor cores."""

from __future__ import annotations

from typing import Any

from porism.base.dtypes import DType, Kind
from porism.ir.op_signatures import (
    Sources,
    are_axes,
    common_dtype,
    is_schema,
    is_value,
    need,
    need_no_arg,
)


def vectorize(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """VECTORIZE(scalar…): the vector with these lanes."""
    need_no_arg(arg)
    t = common_dtype(src)
    need(t.count == 1 and is_value(t), "it takes scalars, not {}", t)
    return t.vec(len(src))


def lane_selection(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """GEP: the lanes of a vector that the argument names."""
    need(are_axes(arg) and arg, "its argument is a tuple of lanes, not {!r}", arg)
    t = src[0].dtype
    if t.kind is Kind.VOID or is_schema(t):
        return t
    if t.kind is Kind.POINTER:
        return t
    need(max(arg) < t.count, "{} has no lane {}", t, max(arg))
    return t.element.vec(len(arg))


def concatenate(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """CAT(vector…): the lanes of all sources, in order."""
    need_no_arg(arg)
    element = src[0].dtype.element
    for s in src:
        need(s.dtype.element is element and is_value(s.dtype), "{} beside {}", s.dtype, element)
    return element.vec(sum(s.dtype.count for s in src))


def concatenate_pointers(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """PTRCAT(pointer…): the addresses of the lanes of one access."""
    need_no_arg(arg)
    for s in src:
        need(s.dtype.kind is Kind.POINTER, "it takes pointers, not {}", s.dtype)
        need(s.dtype.space is src[0].dtype.space, "the pointers are in different memories")
    base = src[0].dtype
    return base if dtype is None else dtype


def _iteration_count(arg: Any) -> int:
    good = (
        isinstance(arg, tuple)
        and arg
        and all(
            isinstance(p, tuple) and len(p) == 2 and type(p[0]) is int and type(p[1]) is int
            for p in arg
        )
    )
    need(good, "its argument is a tuple of (axis, size), not {!r}", arg)
    size = 1
    for _, n in arg:
        need(n > 0, "an axis has a size, not {}", n)
        size *= n
    return size


def unroll(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """UNROLL: the lanes of the source become values of the named axes."""
    size = _iteration_count(arg)
    t = src[0].dtype
    if not is_value(t):
        return t
    need(t.count % size == 0, "{} lanes do not divide into {}", t.count, size)
    return t.element.vec(t.count // size)


def contract(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """CONTRACT: the values of the named axes become lanes."""
    size = _iteration_count(arg)
    t = src[0].dtype
    return t if not is_value(t) else t.element.vec(t.count * size)


def matrix_product(dtype: DType | None, src: Sources, arg: Any) -> DType:
    """WMMA(a, b, c; name, (m, n, k)…): the tensor-core product a·b + c, as c's type."""
    need(isinstance(arg, tuple) and arg and isinstance(arg[0], str), "its argument names the shape")
    return src[2].dtype
