"""The language of case files: expressions in Python's syntax over declared variables.

    tier: algebra             the rule set that the cases of the file test
    i, j: index 0 .. 3        a variable of a type, and its bounds
    k: i8                     … with no bounds but those of its type
    x: f32                    a float or a bool
    (i * 4 + j) // 4  =>  i   a case: an expression and its normal form
    i32(k)                    a conversion

Nodes are made exactly as written; a number takes the type of what stands beside it.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection
from dataclasses import dataclass

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op

OPERATORS: dict[str, Op] = {
    "Add": ops.ADD, "Sub": ops.SUB, "Mult": ops.MUL, "Div": ops.FDIV, "FloorDiv": ops.IDIV,
    "Mod": ops.MOD, "Pow": ops.POW, "BitAnd": ops.AND, "BitOr": ops.OR, "BitXor": ops.XOR,
    "LShift": ops.SHL, "RShift": ops.SHR, "Lt": ops.LT, "LtE": ops.LE, "Gt": ops.GT, "GtE": ops.GE,
    "Eq": ops.EQ, "NotEq": ops.NE, "USub": ops.NEG, "Invert": ops.NOT,
    "max": ops.MAX, "min": ops.MIN, "where": ops.WHERE,
    "floor": ops.FLOOR, "ceil": ops.CEIL, "trunc": ops.TRUNC, "round": ops.ROUND,
}  # fmt: skip
DECLARATION = re.compile(r"([\w, ]+): (\w+)(?: (-?\d+) \.\. (-?\d+))?")

TIER = "tier:"


@dataclass(frozen=True, slots=True)
class Case:
    """An expression, and what the simplifier must make of it."""

    line: int
    before: UOp
    after: UOp


@dataclass(frozen=True, slots=True)
class CaseFile:
    """The cases of a file, and the rule set that they test, by its name."""

    tier: str
    cases: tuple[Case, ...]


def variable(name: str, dtype: DType, low: str | None, high: str | None, number: int) -> UOp:
    if dtype.is_integer:
        bounds = [None, None] if dtype is dtypes.index else [int(dtype.min), int(dtype.max)]
        given = [
            bound if text is None else int(text)
            for bound, text in zip(bounds, (low, high), strict=True)
        ]
        return UOp(ops.VARIABLE, dtype, (), (name, *given))
    return UOp(ops.PARAM, dtype, (), number)


def parse(text: str, names: dict[str, UOp], dtype: DType = dtypes.index) -> UOp:
    """The node of an expression; numbers alone are of the type given."""

    def build(node: ast.expr, like: DType) -> UOp:
        match node:
            case ast.Name(id="nan"):
                return UOp.const(like, math.nan)
            case ast.Name(id=name):
                return names[name]
            case ast.Constant(value=value):
                return UOp.const(dtypes.boolean if isinstance(value, bool) else like, value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return UOp.const(like, -value)
            case ast.UnaryOp(op=op, operand=operand):
                return made(OPERATORS[type(op).__name__], [operand], like)
            case ast.BinOp(left=left, op=op, right=right):
                return made(OPERATORS[type(op).__name__], [left, right], like)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return made(OPERATORS[type(op).__name__], [left, right], like)
            case ast.Call(func=ast.Name(id="where"), args=[condition, *rest]):
                return made(ops.WHERE, rest, like, build(condition, dtypes.boolean))
            case ast.Call(func=ast.Name(id=name), args=[operand]) if name not in OPERATORS:
                whole = isinstance(operand, ast.Constant) and isinstance(operand.value, int)
                inner = dtypes.index if whole else dtypes.f64
                return UOp(ops.CAST, dtypes.dtype(name), (build(operand, inner),))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return made(OPERATORS[name], arguments, like)
        raise ValueError(f"cannot read {ast.unparse(node)!r}")

    def made(op: Op, operands: list[ast.expr], like: DType, *first: UOp) -> UOp:
        like = next((t for o in operands if (t := type_of(o)) is not None), like)
        return UOp(op, None, (*first, *[build(o, like) for o in operands]))

    def type_of(node: ast.expr) -> DType | None:
        """The type that the variables in an operand give it."""
        if isinstance(node, ast.Compare):
            return dtypes.boolean
        if isinstance(node, ast.Name):
            return names[node.id].dtype if node.id in names else None
        inner = ast.iter_child_nodes(node)
        if isinstance(node, ast.Call):
            named = node.func.id if isinstance(node.func, ast.Name) else ""
            if named not in OPERATORS:
                return dtypes.dtype(named)
            where = isinstance(node.func, ast.Name) and node.func.id == "where"
            inner = iter(node.args[1:] if where else node.args)
        actual = (type_of(part) for part in inner if isinstance(part, ast.expr))
        return next((t for t in actual if t is not None), None)

    return build(ast.parse(text.strip(), mode="eval").body, dtype)


def read(text: str, tiers: Collection[str] = ()) -> CaseFile:
    """Return the tier and the cases of a file; the tier must be one of `tiers`, if given."""
    names: dict[str, UOp] = {}
    tier = ""
    cases = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        declaration = DECLARATION.fullmatch(line)
        if line.startswith(TIER):
            tier = line.removeprefix(TIER).strip()
        elif declaration is not None:
            declared, kind, low, high = declaration.groups()
            for name in declared.split(","):
                node = variable(name.strip(), dtypes.dtype(kind), low, high, len(names))
                names[name.strip()] = node
        elif line:
            before, after = line.split("=>")
            left = parse(before, names)
            cases.append(Case(number, left, parse(after, names, left.dtype)))
    if not tier or (tiers and tier not in tiers):
        known = f": {', '.join(tiers)}" if tiers else ""
        raise ValueError(f"say which tier the cases test, in a line 'tier: NAME'{known}")
    return CaseFile(tier, tuple(cases))
