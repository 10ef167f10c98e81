"""LLVM arithmetic: the instruction or intrinsic of each op."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from porism.backends.llvm.llvm_types import literal, mangle, type_of
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


def _wrapping(op: Op, integer: str, floating: str) -> Arithmetic:
    """Return the writer of an op that wraps, with `nsw` where bounds exclude an overflow.

    Then LLVM sees that adjacent indices stay adjacent when they are extended to 64 bits, and does
    not keep an induction variable for each.
    """

    def write(r: Renderer, node: UOp, lane: DType) -> str:
        a, b = node.src
        word = floating if lane.is_float else integer
        if lane.kind is Kind.SIGNED and cannot_overflow(op, a, b, lane):
            word = f"{integer} nsw"
        return r.emit(f"{word} {r.typed(a)}, {r.value(b)}")

    return write


def cannot_overflow(op: Op, a: UOp, b: UOp, lane: DType) -> bool:
    """Return whether the bounds of the operands exclude an overflow."""
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
            return r.value(node.src[0])  # integers are already rounded
        if lane is boolean:
            a, b = node.src
            return r.emit(f"{'or' if signed == 'smax' else 'and'} {r.typed(a)}, {r.value(b)}")
        name = floating if lane.is_float else signed if lane.kind is Kind.SIGNED else unsigned
        kind = type_of(node.dtype)
        float_flags = flags if lane.is_float else ""
        return r.call(
            f"llvm.{name}.{mangle(kind)}", kind, *map(r.typed, node.src), flags=float_flags
        )

    return write


NO_SIGNED_ZEROS: Final = "nsz "
"""Flag of max and min: either of two zeros may be returned; ordering them takes twice as long."""


def _negate(r: Renderer, node: UOp, lane: DType) -> str:
    x = node.src[0]
    if lane.is_float:
        return r.emit(f"fneg {r.typed(x)}")
    return r.emit(f"sub {type_of(node.dtype)} {literal(node.dtype, 0)}, {r.value(x)}")


def _invert(r: Renderer, node: UOp, lane: DType) -> str:
    ones = literal(node.dtype, True if lane is boolean else -1)
    return r.emit(f"xor {r.typed(node.src[0])}, {ones}")


def _reciprocal(r: Renderer, node: UOp, lane: DType) -> str:
    kind = type_of(node.dtype)
    return r.emit(f"fdiv {kind} {literal(node.dtype, 1.0)}, {r.value(node.src[0])}")


_SCALEF: Final = {("float", 4): "ps.128", ("float", 8): "ps.256", ("float", 16): "ps.512",
                  ("double", 2): "pd.128", ("double", 4): "pd.256", ("double", 8): "pd.512",
}  # fmt: skip
"""The suffix of the AVX-512 SCALEF intrinsic, by type and lanes."""


def _ldexp(r: Renderer, node: UOp, lane: DType) -> str:
    """Write an LDEXP with a float exponent by SCALEF, in parts of at most 512 bits."""
    kind, width = type_of(lane), node.dtype.count
    x, n = map(r.value, node.src)
    widest = 512 // lane.bits
    if width > widest and width % widest == 0:
        return r.in_parts(
            kind, width, widest, lambda a, b: ldexp_vector(r, kind, widest, a, b), x, n
        )
    return ldexp_vector(r, kind, width, x, n)


def ldexp_vector(r: Renderer, lane: str, width: int, x: str, n: str) -> str:
    """Write an LDEXP of a vector that one instruction takes; of any scalar by `llvm.ldexp`."""
    kind = f"<{width} x {lane}>" if width > 1 else lane
    name = _SCALEF.get((lane, width))
    if name is None:
        words = f"<{width} x i32>" if width > 1 else "i32"
        floored = r.call(f"llvm.floor.{mangle(kind)}", kind, f"{kind} {n}")
        convert = f"llvm.fptosi.sat.{mangle(words)}.{mangle(kind)}"
        exponents = r.call(convert, words, f"{kind} {floored}")
        ldexp = f"llvm.ldexp.{mangle(kind)}.{mangle(words)}"
        scaled = r.call(ldexp, kind, f"{kind} {x}", f"{words} {exponents}")
        return _with_special_exponents(r, kind, width, x, n, scaled)
    bits = max(width, 8)
    arguments = [f"{kind} {x}", f"{kind} {n}", f"{kind} zeroinitializer", f"i{bits} -1"]
    if name.endswith("512"):
        arguments.append("i32 4")  # the current rounding mode
    return r.call(f"llvm.x86.avx512.mask.scalef.{name}", kind, *arguments)


def _with_special_exponents(r: Renderer, kind: str, width: int, x: str, n: str, scaled: str) -> str:
    """Return `scaled`, but for an infinite or NaN exponent what SCALEF returns.

    That is x times the power of two, which is 0, infinite or NaN; and the power itself if x is NaN.
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
    ops.ADD: _wrapping(ops.ADD, "add", "fadd"),
    ops.SUB: _wrapping(ops.SUB, "sub", "fsub"),
    ops.MUL: _wrapping(ops.MUL, "mul", "fmul"),
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
    ops.MAX: _intrinsic("maximum", "smax", "umax", NO_SIGNED_ZEROS),
    ops.MIN: _intrinsic("minimum", "smin", "umin", NO_SIGNED_ZEROS),
    ops.SQRT: _intrinsic("sqrt"),
    ops.TRUNC: _intrinsic("trunc"),
    ops.FLOOR: _intrinsic("floor"),
    ops.CEIL: _intrinsic("ceil"),
    ops.ROUND: _intrinsic("roundeven"),
    ops.NEG: _negate,
    ops.NOT: _invert,
    ops.RECIPROCAL: _reciprocal,
    ops.EXP: _intrinsic("exp"),
    ops.EXP2: _intrinsic("exp2"),
    ops.LOG2: _intrinsic("log2"),
    ops.SIN: _intrinsic("sin"),
    ops.LDEXP: _ldexp,
}
