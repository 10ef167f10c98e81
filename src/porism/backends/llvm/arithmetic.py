"""Arithmetic: the instruction or intrinsic of each op."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from porism.backends.llvm.types import literal, mangled, type_of
from porism.base.dtypes import DType, Kind, boolean
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op

if TYPE_CHECKING:
    from porism.backends.llvm.render import Renderer

Arithmetic = Callable[["Renderer", UOp, DType], str]


def _binary(integer: str, floating: str = "", unsigned: str = "") -> Arithmetic:
    def write(r: Renderer, node: UOp, lane: DType) -> str:
        word = floating if lane.is_float else integer
        if unsigned and lane.kind is Kind.UNSIGNED:
            word = unsigned
        a, b = node.src
        return r.emit(f"{word} {r.typed(a)}, {r.value(b)}")

    return write


def _ring(op: Op, integer: str, floating: str) -> Arithmetic:
    """An op that wraps; where its bounds say that it does not, LLVM is told.

    Then it sees that indices of neighbours are neighbours, also after they are widened to the size
    of an address, and does not keep a counter for each.
    """

    def write(r: Renderer, node: UOp, lane: DType) -> str:
        a, b = node.src
        word = floating if lane.is_float else integer
        if lane.kind is Kind.SIGNED and _stays(op, a, b, lane):
            word = f"{integer} nsw"
        return r.emit(f"{word} {r.typed(a)}, {r.value(b)}")

    return write


def _stays(op: Op, a: UOp, b: UOp, lane: DType) -> bool:
    """Whether the result is in the bounds of a type before it would wrap."""
    if op is ops.ADD:
        results = [a.vmin + b.vmin, a.vmax + b.vmax]
    elif op is ops.SUB:
        results = [a.vmin - b.vmax, a.vmax - b.vmin]
    else:
        results = [x * y for x in (a.vmin, a.vmax) for y in (b.vmin, b.vmax)]
    return lane.min <= min(results) and max(results) <= lane.max


def _compare(word: str, floating: str) -> Arithmetic:
    def write(r: Renderer, node: UOp, lane: DType) -> str:
        sign = "" if word in ("eq", "ne") else "s" if lane.kind is Kind.SIGNED else "u"
        compare = f"fcmp {floating}" if lane.is_float else f"icmp {sign}{word}"
        a, b = node.src
        return r.emit(f"{compare} {r.typed(a)}, {r.value(b)}")

    return write


def _intrinsic(floating: str, signed: str = "", unsigned: str = "") -> Arithmetic:
    def write(r: Renderer, node: UOp, lane: DType) -> str:
        if not lane.is_float and not signed:
            return r.value(node.src[0])  # a whole number already
        if lane is boolean:
            a, b = node.src
            return r.emit(f"{'or' if signed == 'smax' else 'and'} {r.typed(a)}, {r.value(b)}")
        name = floating if lane.is_float else signed if lane.kind is Kind.SIGNED else unsigned
        kind = type_of(node.dtype)
        return r.call(f"llvm.{name}.{mangled(kind)}", kind, *map(r.typed, node.src))

    return write


def _negative(r: Renderer, node: UOp, lane: DType) -> str:
    x = node.src[0]
    if lane.is_float:
        return r.emit(f"fneg {r.typed(x)}")
    return r.emit(f"sub {type_of(node.dtype)} {literal(node.dtype, 0)}, {r.value(x)}")


def _inverted(r: Renderer, node: UOp, lane: DType) -> str:
    ones = literal(node.dtype, True if lane is boolean else -1)
    return r.emit(f"xor {r.typed(node.src[0])}, {ones}")


def _reciprocal(r: Renderer, node: UOp, lane: DType) -> str:
    kind = type_of(node.dtype)
    return r.emit(f"fdiv {kind} {literal(node.dtype, 1.0)}, {r.value(node.src[0])}")


ARITHMETIC: Final[dict[Op, Arithmetic]] = {
    ops.ADD: _ring(ops.ADD, "add", "fadd"),
    ops.SUB: _ring(ops.SUB, "sub", "fsub"),
    ops.MUL: _ring(ops.MUL, "mul", "fmul"),
    ops.FDIV: _binary("", "fdiv"),
    ops.CDIV: _binary("sdiv", unsigned="udiv"),
    ops.CMOD: _binary("srem", unsigned="urem"),
    ops.AND: _binary("and"),
    ops.OR: _binary("or"),
    ops.XOR: _binary("xor"),
    ops.SHL: _binary("shl"),
    ops.SHR: _binary("ashr", unsigned="lshr"),
    ops.LT: _compare("lt", "olt"),
    ops.LE: _compare("le", "ole"),
    ops.GT: _compare("gt", "ogt"),
    ops.GE: _compare("ge", "oge"),
    ops.EQ: _compare("eq", "oeq"),
    ops.NE: _compare("ne", "une"),
    ops.MAX: _intrinsic("maximum", "smax", "umax"),
    ops.MIN: _intrinsic("minimum", "smin", "umin"),
    ops.SQRT: _intrinsic("sqrt"),
    ops.TRUNC: _intrinsic("trunc"),
    ops.FLOOR: _intrinsic("floor"),
    ops.CEIL: _intrinsic("ceil"),
    ops.ROUND: _intrinsic("roundeven"),
    ops.NEG: _negative,
    ops.NOT: _inverted,
    ops.RECIPROCAL: _reciprocal,
    ops.EXP2: _intrinsic("exp2"),
    ops.LOG2: _intrinsic("log2"),
    ops.SIN: _intrinsic("sin"),
}
