"""C scalars: each op on scalar values as a C expression.

Where C leaves a result open - an integer that does not fit, a shift by too much, a division by
zero, a float out of range - the expression says what happens, unless the bounds of the operands
show that it cannot. Expressions that would be long, or name an operand twice, are small functions.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from porism.backends.c.c_dialect import Dialect, is_held_as_bits
from porism.base.dtypes import DType, Kind, boolean, f32, f64, i32, round_float
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op

Bounds = tuple[int | float, int | float]

_SIGNS: Final = {
    ops.ADD: "+", ops.SUB: "-", ops.MUL: "*", ops.FDIV: "/", ops.CDIV: "/", ops.CMOD: "%",
    ops.AND: "&", ops.OR: "|", ops.XOR: "^", ops.SHL: "<<", ops.SHR: ">>",
    ops.LT: "<", ops.LE: "<=", ops.GT: ">", ops.GE: ">=", ops.EQ: "==", ops.NE: "!=",
}  # fmt: skip
"""The C operators of binary ops."""

_FUNCTIONS: Final = {
    ops.SQRT: "sqrt", ops.TRUNC: "trunc", ops.FLOOR: "floor", ops.CEIL: "ceil", ops.ROUND: "rint",
    ops.EXP: "exp", ops.EXP2: "exp2", ops.EXPM1: "expm1", ops.TANH: "tanh", ops.LOG2: "log2",
    ops.SIN: "sin",
}  # fmt: skip
"""The functions of C's math library, by op; for f32 with the suffix f."""

_TRUTHS: Final = {
    ops.MAX: "{} | {}", ops.MIN: "{} & {}",
    ops.LT: "(!{}) & {}", ops.LE: "(!{}) | {}", ops.GT: "{} & (!{})", ops.GE: "{} | (!{})",
}  # fmt: skip
"""Ops on bools, and the ops that they are equal to."""

_ROUNDING: Final = frozenset({ops.TRUNC, ops.FLOOR, ops.CEIL, ops.ROUND})
_WRAPPING: Final = frozenset({ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.MULACC})
_TOTAL: Final = frozenset({ops.CDIV, ops.CMOD, ops.IDIV, ops.MOD, ops.SHL, ops.SHR})


def operator_of(op: Op) -> str | None:
    """Return the C operator of a binary op, or None."""
    return _SIGNS.get(op)


def literal(lane: DType, value: Any, dialect: Dialect) -> str:
    """Return a constant of a scalar type as a C literal."""
    if lane is boolean:
        return "true" if value else "false"
    if is_held_as_bits(lane):
        bits = np.asarray(value, np.float64).astype(lane.numpy).view(f"u{lane.bits // 8}")
        return f"0x{int(bits):0{lane.bits // 4}x}"
    if lane.is_float:
        return _float_literal(lane, float(value))
    number = int(value)
    if lane.kind is Kind.UNSIGNED:
        return f"{number}u" if lane.bits == 32 else _long("UINT64_C", number, lane)
    if number == lane.min and lane.bits >= 32:
        return f"INT{lane.bits}_MIN"
    return _long("INT64_C", number, lane)


def _long(macro: str, number: int, lane: DType) -> str:
    return f"{macro}({number})" if lane.bits == 64 else str(number)


def _float_literal(lane: DType, value: float) -> str:
    if math.isnan(value):
        nan = "NAN" if lane is f32 else "(double)NAN"
        return nan if math.copysign(1.0, value) > 0 else f"(-{nan})"
    if lane is f32:
        value = round_float(f32, value)
    if math.isinf(value):
        infinity = "INFINITY" if lane is f32 else "(double)INFINITY"
        return infinity if value > 0 else f"(-{infinity})"
    text = str(np.float32(value)) if lane is f32 else repr(value)
    suffix = "f" if lane is f32 else ""
    return f"({text}{suffix})" if text.startswith("-") else text + suffix


# -- bounds ----------------------------------------------------------------------------------------


def cannot_overflow(node: UOp) -> bool:
    """Return whether the bounds of the operands exclude an overflow."""
    lane = node.dtype.element
    low, high = _exact(node.op, [(s.vmin, s.vmax) for s in node.src])
    return bool(lane.min <= low and high <= lane.max)


def _exact(op: Op, src: list[Bounds]) -> Bounds:
    if any(math.isinf(end) for bounds in src for end in bounds):
        return -math.inf, math.inf
    if op is ops.NEG:
        return -src[0][1], -src[0][0]
    (a, b), (c, d) = src[0], src[1]
    if op is ops.ADD:
        return a + c, b + d
    if op is ops.SUB:
        return a - d, b - c
    corners = (a * c, a * d, b * c, b * d)
    product = min(corners), max(corners)
    if op is ops.MUL:
        return product
    total = _exact(ops.ADD, [product, src[2]])  # of MULACC, and the product must fit too
    return min(product[0], total[0]), max(product[1], total[1])


def is_defined_in_c(node: UOp) -> bool:
    """Return whether C defines a division or shift for all values of its operands."""
    a, b = node.src
    lane = node.dtype.element
    if node.op in (ops.SHL, ops.SHR):
        inside = b.vmin >= 0 and b.vmax < lane.bits
        return inside and (node.op is ops.SHR or lane.kind is Kind.UNSIGNED)
    if node.op in (ops.IDIV, ops.MOD) and not (a.vmin >= 0 and b.vmin >= 0):
        return False  # they round down, and C towards zero
    nonzero = b.vmin > 0 or b.vmax < 0
    return nonzero and (b.vmin > -1 or b.vmax < -1 or a.vmin > lane.min)


# -- expressions -----------------------------------------------------------------------------------


class Scalars:
    """Writes expressions in a dialect, and collects the helper functions they call."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.functions: dict[str, str] = {}

    def expression(self, node: UOp, *texts: str) -> str:
        """Return an elementwise op on one lane; the operands are atoms."""
        op = node.op
        lane = node.src[-1].dtype.element
        if op is ops.WHERE:
            return f"{texts[0]} ? {texts[1]} : {texts[2]}"
        if is_held_as_bits(lane):
            return self._in_float(node, lane, texts)
        if lane is boolean:
            return self._truth(node, texts)
        if lane.is_float:
            return self._float(node, lane, texts)
        return self._integer(node, lane, texts)

    def _truth(self, node: UOp, texts: tuple[str, ...]) -> str:
        op = node.op
        if op is ops.NOT:
            return f"!{texts[0]}"
        if op in _TRUTHS:
            return _TRUTHS[op].format(*texts)
        between = _SIGNS.get(op)
        if between is None:
            raise self.dialect.missing(node)
        return f"{texts[0]} {between} {texts[1]}"

    def _in_float(self, node: UOp, lane: DType, texts: tuple[str, ...]) -> str:
        """Return an op on small floats: computed in f32, then rounded."""
        if node.op is ops.MULACC:
            self._need("odd_sum", _ODD_SUM)
            a, b, c = (f"(double){self.converted(lane, f32, t)}" for t in texts)
            return self.converted(f64, lane, f"odd_sum({a} * {b}, {c})")
        wide = tuple(self.converted(lane, f32, t) for t in texts)
        inner = self._float(node, f32, wide)
        compares = node.dtype.element is boolean
        return inner if compares else self.converted(f32, lane, inner)

    def _float(self, node: UOp, lane: DType, texts: tuple[str, ...]) -> str:
        op, suffix = node.op, "f" if lane is f32 else ""
        if op in _SIGNS and op not in (ops.AND, ops.OR, ops.XOR):
            return f"{texts[0]} {_SIGNS[op]} {texts[1]}"
        if op is ops.NEG:
            return f"-{texts[0]}"
        if op is ops.RECIPROCAL:
            return f"{literal(lane, 1.0, self.dialect)} / {texts[0]}"
        if op is ops.MULACC:
            return f"fma{suffix}({', '.join(texts)})"
        if op in _FUNCTIONS:
            return f"{_FUNCTIONS[op]}{suffix}({texts[0]})"
        if op is ops.LDEXP:
            steps = self.converted(lane, i32, f"floor{suffix}(b)")
            whole = f"ldexp{suffix}(a, {steps})"
            power = "(b < 0 ? 0 : b)"
            scaled = f"return b - b == 0 ? {whole} : a != a ? {power} : a * {power};"
            return self._call(f"ldexp_{lane.name}", lane, lane, scaled, texts)
        if op in (ops.MAX, ops.MIN):
            return self._extreme(op, lane, texts)
        raise self.dialect.missing(node)

    def _extreme(self, op: Op, lane: DType, texts: tuple[str, ...]) -> str:
        name = f"{op.name.lower()}_{lane.name}"
        compare = ">" if op is ops.MAX else "<"
        nan = " || a != a" if lane.is_float else ""
        return self._call(name, lane, lane, f"return a {compare} b{nan} ? a : b;", texts)

    def _integer(self, node: UOp, lane: DType, texts: tuple[str, ...]) -> str:
        op = node.op
        if op in _ROUNDING:
            return texts[0]
        if op in (ops.MAX, ops.MIN):
            return self._extreme(op, lane, texts)
        if op in _WRAPPING:
            return self._wrapping(node, lane, texts)
        if op in _TOTAL:
            if is_defined_in_c(node):
                plain = {ops.IDIV: ops.CDIV, ops.MOD: ops.CMOD}.get(op, op)
                return self._narrow(lane, f"{texts[0]} {_SIGNS[plain]} {texts[1]}", op is ops.SHL)
            name = f"{op.name.lower()}_{lane.name}"
            return self._call(name, lane, lane, _total(op, lane, self.dialect), texts)
        if op is ops.NOT:
            return self._narrow(lane, f"~{texts[0]}", lane.kind is Kind.UNSIGNED)
        if op in _SIGNS:
            return f"{texts[0]} {_SIGNS[op]} {texts[1]}"
        raise self.dialect.missing(node)

    def _narrow(self, lane: DType, text: str, needed: bool) -> str:
        """Cast back to a type shorter than `int`, which C computes in `int`."""
        cut = needed and lane.bits < 32
        return f"({self.dialect.scalar(lane)})({text})" if cut else text

    def _wrapping(self, node: UOp, lane: DType, texts: tuple[str, ...]) -> str:
        if cannot_overflow(node):
            return _written(node.op, texts)
        kind = self.dialect.scalar(lane)
        wide = self.dialect.scalars["u64" if lane.bits == 64 else "u32"]
        if lane.kind is Kind.UNSIGNED and lane.bits >= 32:
            return _written(node.op, texts)
        return f"({kind})({_written(node.op, tuple(f'({wide}){t}' for t in texts))})"

    # -- conversions -------------------------------------------------------------------------------

    def converted(self, source: DType, target: DType, text: str) -> str:
        """Return the CAST of one lane."""
        a, b = source.element, target.element
        if a is b:
            return text
        if b is boolean:
            if is_held_as_bits(a):
                return f"{self.converted(a, f32, text)} != 0"
            return f"{text} != 0"
        if is_held_as_bits(b):
            return self._to_bits(a, b, text)
        if is_held_as_bits(a):
            wide = self._call(f"f32_of_{a.name}", f32, a, _decoding(a), (text,), count=1)
            return wide if b is f32 else self.converted(f32, b, wide)
        if a.is_float and b.is_integer:
            name = f"{b.name}_of_{a.name}"
            return self._call(name, b, a, _saturating(a, b, self.dialect), (text,), count=1)
        return f"({self.dialect.scalar(b)}){text}"

    def _to_bits(self, a: DType, b: DType, text: str) -> str:
        """Return a conversion to a small float that rounds only once."""
        if is_held_as_bits(a):
            text, a = self.converted(a, f32, text), f32
        if a is not f32:
            if a.is_integer and a.bits == 64:
                self._need("odd_long", _ODD_LONG)
                negative = f"{text} < 0" if a.kind is Kind.SIGNED else "0"
                text = f"odd_long({negative}, (uint64_t){text})"
            else:
                text = f"(double){text}"
            self._need("odd_float", _ODD_FLOAT)
            text = f"odd_float({text})"
        return self._call(f"{b.name}_of_f32", b, f32, _encoding(b), (text,), count=1)

    def reinterpreted(self, source: DType, target: DType, text: str) -> str:
        """Return the BITCAST of one lane to a type of the same width."""
        a, b = source.element, target.element
        if self.dialect.scalar(a) == self.dialect.scalar(b):
            return text
        if not (a.is_float and not is_held_as_bits(a)) and not (
            b.is_float and not is_held_as_bits(b)
        ):
            return f"({self.dialect.scalar(b)}){text}"
        kind = self.dialect.scalar(b)
        body = f"{kind} b;\n    memcpy(&b, &a, sizeof b);\n    return b;"
        return self._call(f"{b.name}_bits_of_{a.name}", b, a, body, (text,), count=1)

    # -- functions ---------------------------------------------------------------------------------

    def _call(
        self, name: str, result: DType, lane: DType, body: str, texts: tuple[str, ...],
        *, count: int = 2,
    ) -> str:  # fmt: skip
        kind = self.dialect.scalar(lane)
        arguments = ", ".join(f"{kind} {n}" for n in "ab"[:count])
        self._need(name, f"{self.dialect.scalar(result)} {name}({arguments})\n{{\n    {body}\n}}\n")
        return f"{name}({', '.join(texts)})"

    def _need(self, name: str, text: str) -> None:
        self.functions.setdefault(name, f"{self.dialect.helper} {text}")


def _written(op: Op, texts: tuple[str, ...]) -> str:
    if op is ops.NEG:
        return f"0 - {texts[0]}"
    if op is ops.MULACC:
        return f"{texts[0]} * {texts[1]} + {texts[2]}"
    return f"{texts[0]} {_SIGNS[op]} {texts[1]}"


def _total(op: Op, lane: DType, dialect: Dialect) -> str:
    """Return the body of a division or shift that is defined for all operands."""
    signed = lane.kind is Kind.SIGNED
    kind = dialect.scalar(lane)
    wide = dialect.scalars["u64" if lane.bits == 64 else "u32"]
    if op in (ops.SHL, ops.SHR):
        inside = f"b >= 0 && b < {lane.bits}" if signed else f"b < {lane.bits}"
        if op is ops.SHL:
            return f"return {inside} ? ({kind})(({wide})a << b) : 0;"
        rest = "-(a < 0)" if signed else "0"
        return f"return {inside} ? a >> b : ({kind}){rest};"
    if not signed:
        return f"return b ? a {'/' if op in (ops.CDIV, ops.IDIV) else '%'} b : 0;"
    if op is ops.CDIV:
        return f"return !b ? 0 : b == -1 ? ({kind})(({wide})0 - ({wide})a) : ({kind})(a / b);"
    if op is ops.CMOD:
        return f"return !b || b == -1 ? 0 : ({kind})(a % b);"
    if op is ops.IDIV:
        return (
            f"if (!b || b == -1)\n        return b ? ({kind})(({wide})0 - ({wide})a) : 0;\n"
            f"    return ({kind})(a / b - (a % b != 0 && (a < 0) != (b < 0)));"
        )
    return (
        "if (!b || b == -1)\n        return 0;\n"
        f"    return ({kind})(a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0));"
    )


def _saturating(a: DType, b: DType, dialect: Dialect) -> str:
    """Return the body of a float to integer conversion: truncating, saturating, NaN to 0."""
    kind = dialect.scalar(b)
    high = literal(a, float(2 ** (b.bits - (b.kind is Kind.SIGNED))), dialect)
    word = "UINT" if b.kind is Kind.UNSIGNED else "INT"
    if b.kind is Kind.UNSIGNED:
        return f"return !(a > 0) ? 0 : a >= {high} ? {word}{b.bits}_MAX : ({kind})a;"
    return (
        f"if (a != a)\n        return 0;\n"
        f"    return a <= -{high} ? {word}{b.bits}_MIN : "
        f"a >= {high} ? {word}{b.bits}_MAX : ({kind})a;"
    )


def _decoding(lane: DType) -> str:
    """Return the body of the function from the bits of a small float to f32."""
    if lane.name == "bf16":
        return (
            "uint32_t bits = (uint32_t)a << 16;\n    float b;\n"
            "    memcpy(&b, &bits, sizeof b);\n    return b;"
        )
    fraction, bias, top = _LAYOUTS[lane.name]
    exponent_at = 23 - fraction
    inside = (1 << (lane.bits - 1)) - 1
    return (
        f"uint32_t size = a & 0x{inside:x}u, bits;\n"
        f"    float b = (float)size * 0x1p-{bias + fraction - 1}f;\n"
        f"    memcpy(&bits, &b, sizeof bits);\n"
        f"    if (size >= 0x{1 << fraction:x}u)\n"
        f"        bits = (size << {exponent_at}) + 0x{(127 - bias) << 23:x}u;\n"
        f"    if (size {'>=' if lane.name != 'fp8e4m3' else '=='} 0x{top:x}u)\n"
        f"        bits = 0x7f800000u | size << {exponent_at};\n"
        f"    bits |= (uint32_t)(a >> {lane.bits - 1}) << 31;\n"
        "    memcpy(&b, &bits, sizeof b);\n    return b;"
    )


def _encoding(lane: DType) -> str:
    """Return the body of the function from f32 to the bits of a small float, ties to even."""
    kind = f"uint{lane.bits}_t"
    if lane.name == "bf16":
        return (
            "uint32_t bits;\n    memcpy(&bits, &a, sizeof bits);\n"
            "    if (a != a)\n        return (uint16_t)(bits >> 16 | 0x40u);\n"
            "    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);"
        )
    fraction, bias, top = _LAYOUTS[lane.name]
    lost = 23 - fraction
    nan = top | (1 << (fraction - 1)) if lane.name != "fp8e4m3" else top
    smallest = (127 - bias + 1) << 23  # of the normal numbers, as bits of f32
    magic = (127 - bias + 1 + lost) << 23  # its last bit is the smallest number there is
    return (
        "uint32_t bits, sign;\n    float size = fabsf(a);\n"
        "    memcpy(&bits, &a, sizeof bits);\n"
        f"    sign = bits >> 31 << {lane.bits - 1};\n"
        "    bits &= 0x7fffffffu;\n"
        f"    if (a != a)\n        return ({kind})(sign | 0x{nan:x}u);\n"
        f"    if (bits < 0x{smallest:x}u) {{\n"
        f"        size += 0x1p{(magic >> 23) - 127}f;\n"
        "        memcpy(&bits, &size, sizeof bits);\n"
        f"        return ({kind})(sign | (bits - 0x{magic:x}u));\n    }}\n"
        f"    bits += 0x{(1 << (lost - 1)) - 1:x}u + (bits >> {lost} & 1u);\n"
        f"    bits = (bits - 0x{(127 - bias) << 23:x}u) >> {lost};\n"
        f"    return ({kind})(sign | (bits < 0x{top:x}u ? bits : 0x{top:x}u));"
    )


_LAYOUTS: Final = {"f16": (10, 15, 0x7C00), "fp8e4m3": (3, 7, 0x7F), "fp8e5m2": (2, 15, 0x7C)}
"""Bits of the fraction, bias of the exponent, and the code of what is too large."""

_ODD_FLOAT: Final = """float odd_float(double a)
{
    float b = (float)a;
    uint32_t bits;
    double error = fabs(a) - fabs((double)b);
    memcpy(&bits, &b, sizeof bits);
    if (error != 0 && a - a == 0 && !(bits & 1u))
        bits += error > 0 ? 1u : ~0u;
    memcpy(&b, &bits, sizeof b);
    return b; /* the last bit is set where anything was lost: rounding again is right */
}
"""

_ODD_SUM: Final = """double odd_sum(double a, double b)
{
    double total = a + b, part = total - a, error = (a - (total - part)) + (b - part);
    uint64_t bits;
    memcpy(&bits, &total, sizeof bits);
    if (error != 0 && total - total == 0 && !(bits & 1u))
        bits += (error > 0) == (total > 0) ? 1u : ~UINT64_C(0);
    memcpy(&total, &bits, sizeof bits);
    return total;
}
"""

_ODD_LONG: Final = """double odd_long(int negative, uint64_t a)
{
    uint64_t size = negative ? 0u - a : a;
    if (size >> 53)
        size = (size & ~UINT64_C(0x7ff)) | (size & 0x7ffu ? 0x800u : 0);
    return negative ? -(double)size : (double)size;
}
"""
