"""Small floats: emulation of f16, bf16 and 8-bit floats on a machine that lacks them.

First the rules WIDEN move arithmetic to f32, with one rounding of the result. Then `as_bits`
represents each small float by the unsigned integer of its bits, so that memory does not change.
Conversions from and to f32 are what is left: integer arithmetic, or the machine's own instruction.
The two differ only in the payload of NaNs, which IEEE 754 leaves open.

    before                   after
    a + b                    CAST(CAST(a, f32) + CAST(b, f32), bf16)
    LOAD(bf16 pointer)       LOAD(u16 pointer)
    CAST(u16 bits, f32)      BITCAST(CAST(bits, u32) << 16, f32)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import DType, Kind, Theory, f32, f64, i32, u8, u16, u32
from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.lower.decompose.decomposition_options import Machine
from porism.lower.decompose.float_arithmetic import Floats
from porism.lower.decompose.missing_ops import wide_mulacc
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import RuleSet, procedure


@dataclass(frozen=True, slots=True)
class Layout:
    """The format of a small float: the bits of its exponent and fraction, and special codes."""

    bits: DType
    exponent: int
    fraction: int
    largest: int  # the code of an overflow: infinity, or NaN where there is none
    nan: int

    @property
    def bias(self) -> int:
        """The bias of the exponent."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def sign(self) -> int:
        """The bit position of the sign."""
        return self.exponent + self.fraction


LAYOUTS: Final = {
    dtypes.f16: Layout(u16, 5, 10, 0x7C00, 0x7E00),
    dtypes.bf16: Layout(u16, 8, 7, 0x7F80, 0x7FC0),
    dtypes.fp8e4m3: Layout(u8, 4, 3, 0x7F, 0x7F),
    dtypes.fp8e5m2: Layout(u8, 5, 2, 0x7C, 0x7E),
}

_INFINITY_BITS: Final = 0x7F800000


# -- conversions of bits ---------------------------------------------------------------------------


def decode(code: UOp, layout: Layout) -> UOp:
    """Return the f32 of the bits of a small float; always exact."""
    count = code.dtype.count
    wide, result = u32.vec(count), f32.vec(count)
    word = code.cast(wide)
    if layout.exponent == 8:  # the upper half of an f32
        return (word << (31 - layout.sign)).bitcast(result)
    size = word & ((1 << layout.sign) - 1)
    moved = size << (23 - layout.fraction)
    normal = moved + ((127 - layout.bias) << 23)
    tiny = size.bitcast(i32.vec(count)).cast(result) * 2.0 ** (1 - layout.bias - layout.fraction)
    bits = (size < (1 << layout.fraction)).where(tiny.bitcast(wide), normal)
    bits = (size >= layout.largest).where(moved | _INFINITY_BITS, bits)
    return (bits | ((word ^ size) << (31 - layout.sign))).bitcast(result)


def _encode_bf16(x: UOp, layout: Layout) -> UOp:
    """Return the bits of an f32 rounded to its upper half; no carry reaches the sign."""
    wide = u32.vec(x.dtype.count)
    word = x.bitcast(wide)
    top = word >> 16
    rounded = (word + 0x7FFF + (top & 1)) >> 16
    code = x.ne(x).where((top & 0x8000) | layout.nan, rounded)
    return code.cast(layout.bits.vec(x.dtype.count))


def encode(x: UOp, layout: Layout) -> UOp:
    """Return the bits of the small float nearest to an f32, ties to even."""
    if layout.exponent == 8:
        return _encode_bf16(x, layout)
    count = x.dtype.count
    wide = u32.vec(count)
    word = x.bitcast(wide)
    size = word & 0x7FFFFFFF
    drop = 23 - layout.fraction
    rounded = (size + ((1 << (drop - 1)) - 1) + ((size >> drop) & 1)) >> drop
    # adding a number whose last bit has the weight of the smallest subnormal rounds subnormals
    shift = 2.0 ** (24 - layout.bias - layout.fraction)
    shifted = size.bitcast(x.dtype) + shift
    tiny = shifted.bitcast(wide) - UOp.const(x.dtype, shift).bitcast(wide)
    code = rounded - ((127 - layout.bias) << layout.fraction)
    code = (size < ((128 - layout.bias) << 23)).where(tiny, code)
    code = (code > layout.largest).where(word.lift(layout.largest), code)
    code = (size > _INFINITY_BITS).where(word.lift(layout.nan), code)
    code = code | ((word >> 31) << layout.sign)
    return code.cast(layout.bits.vec(count))


# -- rounding to odd, so that a second rounding is correct -----------------------------------------


def _round_f64_to_odd(x: UOp) -> UOp:
    """Return an f64 rounded to odd as f32."""
    a = Floats(f32.vec(x.dtype.count), False)
    wide = Floats(x.dtype, False)
    near = x.cast(a.dtype)
    error = wide.magnitude(x) - wide.magnitude(near.cast(x.dtype))
    word = a.bits(near)
    lost = ((error > 0.0) | (error < 0.0)) & (word & 1).eq(0)
    step = (error > 0.0).where(a.integer(1), a.integer(-1))
    return a.of_bits(word + lost.where(step, a.integer(0)))


def _round_integer_to_odd(x: UOp) -> UOp:
    """Return a 64-bit integer rounded to odd in 53 bits."""
    cut = 11
    kept = (x >> cut) << cut
    lost = (x & ((1 << cut) - 1)).ne(0)
    odd = kept | lost.where(x.lift(1 << cut), x.lift(0))
    low, high = -(1 << 53), 1 << 53
    small = x <= high if x.dtype.kind is Kind.UNSIGNED else (x >= low) & (x <= high)
    return small.where(x, odd)


def _to_f32(x: UOp) -> UOp:
    """Return a number as an f32 whose rounding to a small float is the correct one."""
    kind = x.dtype
    count = kind.count
    if kind.fits_in(f32.vec(count)):  # as every small float does
        return x.cast(f32.vec(count))
    if kind.element is f64:
        return _round_f64_to_odd(x)
    return _round_f64_to_odd(
        (_round_integer_to_odd(x) if kind.bits == 64 else x).cast(f64.vec(count))
    )


# -- arithmetic ------------------------------------------------------------------------------------

_ARITHMETIC: Final = tuple(op for op in ops.table() if op.elementwise and op is not ops.WHERE)


def _lacks(kind: DType, machine: Machine) -> bool:
    """Return whether a type is a small float that the machine has no arithmetic for."""
    lane = kind.element
    return kind.kind is Kind.FLOAT and lane in LAYOUTS and lane.name not in machine.target.dtypes


@procedure("widen-arithmetic", _ARITHMETIC, with_context=True)
def widen_arithmetic(node: UOp, machine: Machine) -> UOp | None:
    """Compute on small floats in f32, and round the result once."""
    kind = node.src[-1].dtype
    if not _lacks(kind, machine):
        return None
    if node.op is ops.MULACC:
        return wide_mulacc(node)
    wide = node.op(*(s.cast(f32.vec(kind.count)) for s in node.src))
    return wide if node.op.group is Group.COMPARISON else wide.cast(kind)


@procedure("widen-cast", (ops.CAST,), with_context=True)
def widen_cast(node: UOp, machine: Machine) -> UOp | None:
    """Convert a small float from or to another type by way of f32."""
    source, kind = node.src[0], node.dtype
    wide = f32.vec(kind.count)
    if _lacks(kind, machine) and source.dtype is not wide:
        return _to_f32(source).cast(kind)
    if _lacks(source.dtype, machine) and kind is not wide:
        return source.cast(wide).cast(kind)
    return None


@procedure("widen-reduce", (ops.REDUCE,), with_context=True)
def widen_reduce(node: UOp, machine: Machine) -> UOp | None:
    """Accumulate small floats in f32, and round once at the end."""
    value, *ranges = node.src
    if not _lacks(node.dtype, machine):
        return None
    return value.cast(f32.vec(node.dtype.count)).reduce(node.arg, *ranges).cast(node.dtype)


WIDEN = RuleSet("widen", theory=tuple(Theory), rules=(widen_arithmetic, widen_cast, widen_reduce))


# -- values as bits --------------------------------------------------------------------------------

_DATA_MOVEMENT: Final = frozenset(
    {ops.PARAM, ops.DEFINE_LOCAL, ops.DEFINE_REG, ops.INDEX, ops.LOAD, ops.STORE, ops.AFTER,
     ops.WHERE, ops.GEP, ops.VECTORIZE, ops.CAT}
)  # fmt: skip


def _bits_of(kind: DType, machine: Machine) -> DType:
    """Return the type of a small float's bits, or of a pointer to them; others as they are."""
    if kind.kind is Kind.POINTER:
        assert kind.space is not None
        return _bits_of(kind.element, machine).pointer(kind.space, kind.size)
    return LAYOUTS[kind.element].bits.vec(kind.count) if _lacks(kind, machine) else kind


def as_bits(root: UOp, machine: Machine) -> UOp:
    """Return the graph with each emulated small float as the integer of its bits."""
    new: dict[UOp, UOp] = {}
    for node in toposort(root):
        src = tuple([new[s] for s in node.src])
        kind = _bits_of(node.dtype, machine)
        concerned = kind is not node.dtype or any(_lacks(s.dtype, machine) for s in node.src)
        if not concerned:
            new[node] = node.replace(src)
        elif node.op in (ops.CONST, ops.VCONST):
            new[node] = _constant_bits(node, kind)
        elif node.op is ops.CAST:
            new[node] = _convert_bits(node, src[0], machine)
        elif node.op is ops.BITCAST:
            new[node] = src[0] if src[0].dtype is kind else src[0].bitcast(kind)
        elif node.op is ops.WMMA and kind is node.dtype:  # a tensor core has the type
            own = zip(src, node.src, strict=True)
            words = [s if s.dtype is old.dtype else s.bitcast(old.dtype) for s, old in own]
            new[node] = node.replace(tuple(words))
        elif node.op in _DATA_MOVEMENT:
            new[node] = node.op(*src, dtype=None if node.op.elementwise else kind, arg=node.arg)
        else:
            raise PorismError(
                f"{node.op.name} of {node.dtype} cannot be emulated",
                where=show(node, limit=200),
                why=f"the target {machine.target.name!r} has no such type, and only memory and "
                "arithmetic have a form in integers",
                fix="cast to f32 before it",
            )
    return new[root]


def _convert_bits(node: UOp, source: UOp, machine: Machine) -> UOp:
    """Return a CAST from or to an emulated small float, or of a pointer to one."""
    kind, given = node.dtype, node.src[0].dtype
    if Kind.POINTER in (kind.kind, given.kind):
        return source
    if kind.element.name in machine.target.converts:
        return source.cast(kind).bitcast(_bits_of(kind, machine))
    if given.element.name in machine.target.converts:
        return source.bitcast(given).cast(kind)
    if kind.element in LAYOUTS:
        return encode(source, LAYOUTS[kind.element])
    return decode(source, LAYOUTS[given.element])


def _constant_bits(node: UOp, kind: DType) -> UOp:
    """Return a constant of the bits of a small-float constant."""

    def code(value: float) -> int:
        lane = np.asarray(value, np.float64).astype(node.dtype.numpy)
        return int(lane.view(kind.numpy))

    lanes: Sequence[float] = node.arg if node.op is ops.VCONST else (node.arg,)
    codes = tuple(code(value) for value in lanes)
    return node.op(dtype=kind, arg=codes if node.op is ops.VCONST else codes[0])


def emulate(root: UOp, machine: Machine) -> UOp:
    """Return the graph without small floats that the machine lacks."""
    if not any(_holds(node.dtype, machine) for node in toposort(root)):
        return root
    return as_bits(rewrite(root, WIDEN, machine), machine)


def _holds(kind: DType, machine: Machine) -> bool:
    """Return whether a type, or what it points to, is a small float that the machine lacks."""
    while kind.kind is Kind.POINTER:
        kind = kind.element
    return _lacks(kind, machine)
