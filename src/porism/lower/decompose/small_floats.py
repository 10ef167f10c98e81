"""Small floats: f16, bf16 and the 8-bit ones on a machine without them, as integers and f32.

`widen` lets their arithmetic happen in f32, rounded once; then `as_bits` lets each value be the
integer that has its bits, so that memory keeps them as they are, and only conversions from and to
f32 are left, which are integer arithmetic, or the machine's own where it has them. The two differ
in nothing but the bits of NaNs, which IEEE 754 leaves open.

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
    """The bits of a small float, after the sign: exponent and fraction."""

    bits: DType
    exponent: int
    fraction: int
    largest: int  # the code of what is too large: infinity, or NaN where there is none
    nan: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def sign(self) -> int:
        """The place of the sign."""
        return self.exponent + self.fraction


LAYOUTS: Final = {
    dtypes.f16: Layout(u16, 5, 10, 0x7C00, 0x7E00),
    dtypes.bf16: Layout(u16, 8, 7, 0x7F80, 0x7FC0),
    dtypes.fp8e4m3: Layout(u8, 4, 3, 0x7F, 0x7F),
    dtypes.fp8e5m2: Layout(u8, 5, 2, 0x7C, 0x7E),
}

_INFINITY_BITS: Final = 0x7F800000


# -- conversions of bits ---------------------------------------------------------------------------


def decoded(code: UOp, layout: Layout) -> UOp:
    """Bits of a small float as f32; always exact."""
    count = code.dtype.count
    wide, result = u32.vec(count), f32.vec(count)
    word = code.cast(wide)
    if layout.exponent == 8:  # the upper half of an f32
        return (word << (31 - layout.sign)).bitcast(result)
    size = word & ((1 << layout.sign) - 1)
    moved = size << (23 - layout.fraction)
    normal = moved + ((127 - layout.bias) << 23)
    tiny = size.bitcast(i32.vec(count)).cast(result) * 2.0 ** (1 - layout.bias - layout.fraction)
    found = (size < (1 << layout.fraction)).where(tiny.bitcast(wide), normal)
    found = (size >= layout.largest).where(moved | _INFINITY_BITS, found)
    return (found | ((word ^ size) << (31 - layout.sign))).bitcast(result)


def _encoded_upper(x: UOp, layout: Layout) -> UOp:
    """f32 as its upper half, rounded; the sign needs no care, for no sum reaches it."""
    wide = u32.vec(x.dtype.count)
    word = x.bitcast(wide)
    top = word >> 16
    rounded = (word + 0x7FFF + (top & 1)) >> 16
    code = x.ne(x).where((top & 0x8000) | layout.nan, rounded)
    return code.cast(layout.bits.vec(x.dtype.count))


def encoded(x: UOp, layout: Layout) -> UOp:
    """f32 as the bits of the nearest small float, ties to even."""
    if layout.exponent == 8:
        return _encoded_upper(x, layout)
    count = x.dtype.count
    wide = u32.vec(count)
    word = x.bitcast(wide)
    size = word & 0x7FFFFFFF
    drop = 23 - layout.fraction
    rounded = (size + ((1 << (drop - 1)) - 1) + ((size >> drop) & 1)) >> drop
    # adding a number whose last bit is worth the smallest one rounds what is below the normal
    shift = 2.0 ** (24 - layout.bias - layout.fraction)
    shifted = size.bitcast(x.dtype) + shift
    tiny = shifted.bitcast(wide) - UOp.const(x.dtype, shift).bitcast(wide)
    code = rounded - ((127 - layout.bias) << layout.fraction)
    code = (size < ((128 - layout.bias) << 23)).where(tiny, code)
    code = (code > layout.largest).where(word.lift(layout.largest), code)
    code = (size > _INFINITY_BITS).where(word.lift(layout.nan), code)
    code = code | ((word >> 31) << layout.sign)
    return code.cast(layout.bits.vec(count))


# -- to f32 so that rounding again is right --------------------------------------------------------


def _odd_float(x: UOp) -> UOp:
    """f64 as f32 with the last bit set if anything was lost."""
    a = Floats(f32.vec(x.dtype.count), False)
    wide = Floats(x.dtype, False)
    near = x.cast(a.dtype)
    error = wide.magnitude(x) - wide.magnitude(near.cast(x.dtype))
    word = a.bits(near)
    lost = ((error > 0.0) | (error < 0.0)) & (word & 1).eq(0)
    step = (error > 0.0).where(a.integer(1), a.integer(-1))
    return a.of_bits(word + lost.where(step, a.integer(0)))


def _short_integer(x: UOp) -> UOp:
    """A 64-bit integer in 53 bits, with the last one set if anything was lost."""
    cut = 11
    kept = (x >> cut) << cut
    lost = (x & ((1 << cut) - 1)).ne(0)
    odd = kept | lost.where(x.lift(1 << cut), x.lift(0))
    low, high = -(1 << 53), 1 << 53
    small = x <= high if x.dtype.kind is Kind.UNSIGNED else (x >= low) & (x <= high)
    return small.where(x, odd)


def _to_f32(x: UOp) -> UOp:
    """Any number as f32 that a small float can be rounded from."""
    kind = x.dtype
    count = kind.count
    if kind.element in LAYOUTS or kind.fits_in(f32.vec(count)):
        return x.cast(f32.vec(count))
    if kind.element is f64:
        return _odd_float(x)
    return _odd_float((_short_integer(x) if kind.bits == 64 else x).cast(f64.vec(count)))


# -- arithmetic ------------------------------------------------------------------------------------

_COMPUTED: Final = tuple(op for op in ops.table() if op.elementwise and op is not ops.WHERE)


def _lacks(kind: DType, machine: Machine) -> bool:
    lane = kind.element
    return kind.kind is Kind.FLOAT and lane in LAYOUTS and lane.name not in machine.target.dtypes


@procedure("widen-arithmetic", _COMPUTED, with_context=True)
def widen_arithmetic(node: UOp, machine: Machine) -> UOp | None:
    """Compute on small floats in f32, and round once."""
    kind = node.src[-1].dtype
    if not _lacks(kind, machine):
        return None
    if node.op is ops.MULACC:
        return wide_mulacc(node)
    made = node.op(*(s.cast(f32.vec(kind.count)) for s in node.src))
    return made if node.op.group is Group.COMPARISON else made.cast(kind)


@procedure("widen-cast", (ops.CAST,), with_context=True)
def widen_cast(node: UOp, machine: Machine) -> UOp | None:
    """Convert small floats from and to f32 alone."""
    source, kind = node.src[0], node.dtype
    if Kind.POINTER in (kind.kind, source.dtype.kind):
        return None
    wide = f32.vec(kind.count)
    if _lacks(kind, machine) and source.dtype is not wide:
        return _to_f32(source).cast(kind)
    if _lacks(source.dtype, machine) and kind is not wide:
        return source.cast(wide).cast(kind)
    return None


@procedure("widen-reduce", (ops.REDUCE,), with_context=True)
def widen_reduce(node: UOp, machine: Machine) -> UOp | None:
    """Reduce small floats in f32, and round once at the end: more exact than after each step."""
    value, *ranges = node.src
    if not _lacks(node.dtype, machine):
        return None
    return value.cast(f32.vec(node.dtype.count)).reduce(node.arg, *ranges).cast(node.dtype)


WIDEN = RuleSet("widen", theory=tuple(Theory), rules=(widen_arithmetic, widen_cast, widen_reduce))


# -- values as bits --------------------------------------------------------------------------------

_PASSED: Final = frozenset(
    {ops.PARAM, ops.DEFINE_LOCAL, ops.DEFINE_REG, ops.INDEX, ops.LOAD, ops.STORE, ops.AFTER,
     ops.WHERE, ops.GEP, ops.VECTORIZE, ops.CAT}
)  # fmt: skip


def _bits_of(kind: DType, machine: Machine) -> DType:
    """The type of the bits of such a value, or of a pointer to them; itself for other types."""
    if kind.kind is Kind.POINTER:
        assert kind.space is not None
        return _bits_of(kind.element, machine).pointer(kind.space, kind.size)
    return LAYOUTS[kind.element].bits.vec(kind.count) if _lacks(kind, machine) else kind


def as_bits(root: UOp, machine: Machine) -> UOp:
    """The graph with each small float that the machine lacks as the integer of its bits."""
    done: dict[UOp, UOp] = {}
    for node in toposort(root):
        src = tuple([done[s] for s in node.src])
        kind = _bits_of(node.dtype, machine)
        concerned = kind is not node.dtype or any(_lacks(s.dtype, machine) for s in node.src)
        if not concerned:
            done[node] = node.replace(src)
        elif node.op in (ops.CONST, ops.VCONST):
            done[node] = _constant_bits(node, kind)
        elif node.op is ops.CAST:
            done[node] = _converted(node, src[0], machine)
        elif node.op is ops.BITCAST:
            done[node] = src[0] if src[0].dtype is kind else src[0].bitcast(kind)
        elif node.op in _PASSED:
            done[node] = node.op(*src, dtype=None if node.op.elementwise else kind, arg=node.arg)
        else:
            raise PorismError(
                f"{node.op.name} of {node.dtype} cannot be emulated",
                where=show(node, limit=200),
                why=f"the target {machine.target.name!r} has no such type, and only memory and "
                "arithmetic have a form in integers",
                fix="cast to f32 before it",
            )
    return done[root]


def _converted(node: UOp, source: UOp, machine: Machine) -> UOp:
    """A conversion from or to f32, or of a pointer."""
    kind, given = node.dtype, node.src[0].dtype
    if Kind.POINTER in (kind.kind, given.kind):
        return source
    if kind.element.name in machine.target.converts:
        return source.cast(kind).bitcast(_bits_of(kind, machine))
    if given.element.name in machine.target.converts:
        return source.bitcast(given).cast(kind)
    if kind.element in LAYOUTS:
        return encoded(source, LAYOUTS[kind.element])
    return decoded(source, LAYOUTS[given.element])


def _constant_bits(node: UOp, kind: DType) -> UOp:
    def code(value: float) -> int:
        lane = np.asarray(value, np.float64).astype(node.dtype.numpy)
        return int(lane.view(kind.numpy))

    lanes: Sequence[float] = node.arg if node.op is ops.VCONST else (node.arg,)
    codes = tuple(code(value) for value in lanes)
    return node.op(dtype=kind, arg=codes if node.op is ops.VCONST else codes[0])


def emulate(root: UOp, machine: Machine) -> UOp:
    """The graph without the small floats that the machine lacks."""
    if not any(_holds(node.dtype, machine) for node in toposort(root)):
        return root
    return as_bits(rewrite(root, WIDEN, machine), machine)


def _holds(kind: DType, machine: Machine) -> bool:
    while kind.kind is Kind.POINTER:
        kind = kind.element
    return _lacks(kind, machine)
