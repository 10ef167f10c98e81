"""Arithmetic: the instruction or intrinsic of each op."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from porism.backends.llvm.llvm_types import literal, mangled, type_of
from porism.base.dtypes import DType, Kind, boolean
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op

if TYPE_CHECKING:
    from porism.backends.llvm.llvm_renderer import Renderer

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
        if lane.kind is Kind.SIGNED and stays(op, a, b, lane):
            word = f"{integer} nsw"
        return r.emit(f"{word} {r.typed(a)}, {r.value(b)}")

    return write


def stays(op: Op, a: UOp, b: UOp, lane: DType) -> bool:
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


def _intrinsic(floating: str, signed: str = "", unsigned: str = "", flags: str = "") -> Arithmetic:
    def write(r: Renderer, node: UOp, lane: DType) -> str:
        if not lane.is_float and not signed:
            return r.value(node.src[0])  # a whole number already
        if lane is boolean:
            a, b = node.src
            return r.emit(f"{'or' if signed == 'smax' else 'and'} {r.typed(a)}, {r.value(b)}")
        name = floating if lane.is_float else signed if lane.kind is Kind.SIGNED else unsigned
        kind = type_of(node.dtype)
        said = flags if lane.is_float else ""
        return r.call(f"llvm.{name}.{mangled(kind)}", kind, *map(r.typed, node.src), flags=said)

    return write


ANY_ZERO: Final = "nsz "
"""Of two zeros of different sign either may come; to look for that takes twice as long."""


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


_SCALED: Final = {("float", 4): "ps.128", ("float", 8): "ps.256", ("float", 16): "ps.512",
                  ("double", 2): "pd.128", ("double", 4): "pd.256", ("double", 8): "pd.512",
}  # fmt: skip
"""The instruction that multiplies by powers of two, by type and lanes."""


def _scaled(r: Renderer, node: UOp, lane: DType) -> str:
    """LDEXP, for which the machine has an instruction; LLVM's own wants integers."""
    kind, width = type_of(lane), node.dtype.count
    x, n = map(r.value, node.src)
    most = 512 // lane.bits
    if width > most and width % most == 0:
        return r.in_parts(kind, width, most, lambda a, b: _scale(r, kind, most, a, b), x, n)
    return _scale(r, kind, width, x, n)


def _scale(r: Renderer, lane: str, width: int, x: str, n: str) -> str:
    kind = f"<{width} x {lane}>" if width > 1 else lane
    name = _SCALED.get((lane, width))
    if name is None:
        words = f"<{width} x i32>" if width > 1 else "i32"
        whole = r.call(f"llvm.floor.{mangled(kind)}", kind, f"{kind} {n}")
        convert = f"llvm.fptosi.sat.{mangled(words)}.{mangled(kind)}"
        steps = r.call(convert, words, f"{kind} {whole}")
        ldexp = f"llvm.ldexp.{mangled(kind)}.{mangled(words)}"
        scaled = r.call(ldexp, kind, f"{kind} {x}", f"{words} {steps}")
        return _unless_infinite(r, kind, width, x, n, scaled)
    bits = max(width, 8)
    arguments = [f"{kind} {x}", f"{kind} {n}", f"{kind} zeroinitializer", f"i{bits} -1"]
    if name.endswith("512"):
        arguments.append("i32 4")  # rounded as usual
    return r.call(f"llvm.x86.avx512.mask.scalef.{name}", kind, *arguments)


def _unless_infinite(r: Renderer, kind: str, width: int, x: str, n: str, scaled: str) -> str:
    """What was scaled; for exponents that are no numbers a product with them, or with 0.

    And if x is NaN, that factor: so the instruction has it.
    """
    truth = f"<{width} x i1>" if width > 1 else "i1"
    rest = r.emit(f"fsub {kind} {n}, {n}")
    finite = r.emit(f"fcmp oeq {kind} {rest}, zeroinitializer")
    below = r.emit(f"fcmp olt {kind} {n}, zeroinitializer")
    power = r.emit(f"select {truth} {below}, {kind} zeroinitializer, {kind} {n}")
    product = r.emit(f"fmul {kind} {x}, {power}")
    no_number = r.emit(f"fcmp uno {kind} {x}, zeroinitializer")
    beyond = r.emit(f"select {truth} {no_number}, {kind} {power}, {kind} {product}")
    return r.emit(f"select {truth} {finite}, {kind} {scaled}, {kind} {beyond}")


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
    ops.MAX: _intrinsic("maximum", "smax", "umax", ANY_ZERO),
    ops.MIN: _intrinsic("minimum", "smin", "umin", ANY_ZERO),
    ops.SQRT: _intrinsic("sqrt"),
    ops.TRUNC: _intrinsic("trunc"),
    ops.FLOOR: _intrinsic("floor"),
    ops.CEIL: _intrinsic("ceil"),
    ops.ROUND: _intrinsic("roundeven"),
    ops.NEG: _negative,
    ops.NOT: _inverted,
    ops.RECIPROCAL: _reciprocal,
    ops.EXP: _intrinsic("exp"),
    ops.EXP2: _intrinsic("exp2"),
    ops.LOG2: _intrinsic("log2"),
    ops.SIN: _intrinsic("sin"),
    ops.LDEXP: _scaled,
}
