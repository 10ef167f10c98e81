"""LLVM types: types, constants and conversions in LLVM IR."""

from __future__ import annotations

import struct
from typing import Any, Final

from porism.base.dtypes import DType, Kind, boolean

_FLOATS: Final = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}
_SUFFIXES: Final = {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64"}


def type_of(dtype: DType) -> str:
    """Return the LLVM type of a value."""
    if dtype.kind is Kind.POINTER:
        return "ptr"
    lane = dtype.element if dtype.count > 1 else dtype
    scalar = _FLOATS.get(lane.name) or ("i1" if lane is boolean else f"i{lane.bits}")
    return f"<{dtype.count} x {scalar}>" if dtype.count > 1 else scalar


def memory_type(dtype: DType) -> str:
    """Return the LLVM type of a value in memory, where a bool takes a byte."""
    lane = dtype.element if dtype.count > 1 else dtype
    if lane is not boolean:
        return type_of(dtype)
    return f"<{dtype.count} x i8>" if dtype.count > 1 else "i8"


def literal(dtype: DType, value: Any) -> str:
    """Return a constant in LLVM IR: one value for all lanes, or a tuple with one for each."""
    if isinstance(value, tuple):
        lane = dtype.element
        parts = ", ".join(f"{type_of(lane)} {literal(lane, v)}" for v in value)
        return f"<{parts}>"
    lane = dtype.element if dtype.count > 1 else dtype
    if lane.is_float:
        text = _float_literal(lane, float(value))
    elif lane is boolean:
        text = "true" if value else "false"
    else:
        text = str(int(value))
    return f"splat ({type_of(lane)} {text})" if dtype.count > 1 else text


def _float_literal(lane: DType, value: float) -> str:
    if lane.name == "f16":
        return "0xH" + struct.pack(">e", value).hex().upper()
    if lane.name == "bf16":
        return "0xR" + struct.pack(">f", value).hex().upper()[:4]
    if lane.name == "f32":
        value = float(struct.unpack("f", struct.pack("f", value))[0])
    return "0x" + struct.pack(">d", value).hex().upper()


def mangle(kind: str) -> str:
    """Return a type as it is written in the name of an intrinsic."""
    if kind.startswith("<"):
        width, _, lane = kind[1:-1].partition(" x ")
        return f"v{width}{mangle(lane)}"
    return {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}.get(kind, kind)


def alignment(dtype: DType) -> int:
    """Return the alignment in bytes of a value in memory: that of one lane."""
    lane = dtype.element if dtype.count > 1 else dtype
    return max(lane.bits // 8, 1)


def conversion(source: DType, target: DType) -> str:
    """Return the instruction that converts one type to another; "" if none is needed."""
    a = source.element if source.count > 1 else source
    b = target.element if target.count > 1 else target
    if a is b:
        return ""
    if b is boolean:
        return "nonzero"
    signed = a.kind is Kind.SIGNED
    if a.is_float and b.is_float:
        return "fpext" if a.bits < b.bits else "fptrunc"
    if a.is_float:
        return "fptosi.sat" if b.kind is Kind.SIGNED else "fptoui.sat"
    if b.is_float:
        return "sitofp" if signed else "uitofp"
    if a.bits == b.bits and a is not boolean:
        return ""
    if a is not boolean and a.bits > b.bits:
        return "trunc"
    return "sext" if signed else "zext"
