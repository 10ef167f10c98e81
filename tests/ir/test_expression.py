"""Nodes as expressions: the text means what the node means, and is short and quick to make."""

from __future__ import annotations

import ast
import math
import time
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.base import dtypes
from porism.base.dtypes import DType, Space
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp, raw
from porism.ir.ops import Op
from porism.ir.text.expression import show
from tests import graphs


def make(op: Op, *src: UOp, dtype: DType | None = None, arg: Any = None) -> UOp:
    return raw(op, dtype, src, arg)


def number(value: float, dtype: DType = dtypes.index) -> UOp:
    return make(ops.CONST, dtype=dtype, arg=value)


A, B, C = (UOp.variable(name, 0, 9) for name in "abc")
X, Y = (make(ops.PARAM, dtype=dtypes.f32, arg=n) for n in (0, 1))
P, Q = (make(ops.LT, a, B) for a in (A, C))
POINTER: Final = make(ops.PARAM, dtype=dtypes.f32.pointer(Space.GLOBAL, 64), arg=2)
R: Final = UOp.range(8, 0)
SPLIT: Final = UOp.range(8, (0, 1), Axis.UPCAST)

EXAMPLES: Final = [
    (A, "a"),
    (R, "r0"),
    (SPLIT, "r0_1"),
    (make(ops.SPECIAL, number(4), arg="lidx0"), "lidx0"),
    (make(ops.HOLE, arg="x"), "x"),
    (make(ops.FACT, make(ops.HOLE, arg="x"), arg="lo"), "lo(x)"),
    (make(ops.INVALID), "invalid"),
    (number(-3), "-3"),
    (number(True, dtypes.boolean), "True"),
    (number(-0.0, dtypes.f32), "-0.0"),
    (number(math.nan, dtypes.f32), "nan"),
    (number(-math.inf, dtypes.f32), "-inf"),
    (make(ops.VCONST, dtype=dtypes.index.vec(2), arg=(0, 1)), "(0, 1)"),
    # sums and products
    (make(ops.ADD, make(ops.ADD, A, B), C), "a + b + c"),
    (make(ops.ADD, A, make(ops.ADD, B, C)), "a + (b + c)"),
    (make(ops.SUB, A, make(ops.SUB, B, C)), "a - (b - c)"),
    (make(ops.MUL, make(ops.ADD, A, B), C), "(a + b) * c"),
    (make(ops.ADD, make(ops.MUL, A, B), C), "a * b + c"),
    (make(ops.MOD, make(ops.IDIV, A, B), C), "a // b % c"),
    (make(ops.MUL, A, make(ops.IDIV, B, C)), "a * (b // c)"),
    (make(ops.ADD, A, number(-1)), "a + -1"),
    (make(ops.FDIV, X, Y), "p0 / p1"),
    # signs and powers
    (make(ops.NEG, A), "-a"),
    (make(ops.NEG, make(ops.NEG, A)), "--a"),
    (make(ops.NEG, number(1)), "-(1)"),
    (make(ops.NEG, make(ops.ADD, A, B)), "-(a + b)"),
    (make(ops.MUL, make(ops.NEG, A), B), "-a * b"),
    (make(ops.POW, number(-2), A), "(-2) ** a"),
    (make(ops.POW, A, make(ops.NEG, B)), "a ** -b"),
    (make(ops.POW, make(ops.POW, A, B), C), "(a ** b) ** c"),
    (make(ops.POW, A, make(ops.POW, B, C)), "a ** b ** c"),
    (make(ops.NEG, make(ops.POW, A, B)), "-a ** b"),
    # bits, comparisons, choices
    (make(ops.NOT, P), "~(a < b)"),
    (make(ops.AND, P, Q), "(a < b) & (c < b)"),
    (make(ops.OR, make(ops.AND, A, B), C), "a & b | c"),
    (make(ops.AND, make(ops.OR, A, B), C), "(a | b) & c"),
    (make(ops.SHL, make(ops.ADD, A, B), C), "a + b << c"),
    (make(ops.LT, make(ops.ADD, A, B), make(ops.SHR, B, C)), "a + b < b >> c"),
    (make(ops.EQ, P, Q), "(a < b) == (c < b)"),
    (make(ops.MAX, A, make(ops.ADD, B, C)), "max(a, b + c)"),
    (make(ops.CDIV, A, B), "cdiv(a, b)"),
    (make(ops.WHERE, P, A, B), "where(a < b, a, b)"),
    (make(ops.MULACC, A, B, C), "mulacc(a, b, c)"),
    (make(ops.SQRT, X), "sqrt(p0)"),
    (make(ops.CAST, A, dtype=dtypes.f32), "cast(a, f32)"),
    (make(ops.BITCAST, X, dtype=dtypes.u32), "bitcast(p0, u32)"),
    # memory and the rest
    (make(ops.INDEX, POINTER, make(ops.ADD, A, R)), "p2[a + r0]"),
    (make(ops.INDEX, POINTER, R, P), "p2[r0 if a < b]"),
    (make(ops.LOAD, make(ops.INDEX, POINTER, R, dtype=POINTER.dtype)), "LOAD(p2[r0])"),
    (make(ops.REDUCE, X, R, arg=ops.ADD), "REDUCE[ADD](p0, r0)"),
    (make(ops.GEP, make(ops.VECTORIZE, A, B), arg=(1,)), "GEP[(1,)](VECTORIZE(a, b))"),
    (make(ops.SINK), "SINK()"),
]


@pytest.mark.parametrize(("node", "text"), EXAMPLES, ids=[text for _, text in EXAMPLES])
def test_examples(node: UOp, text: str) -> None:
    assert show(node) == text


def test_repr_shows_op_and_dtype() -> None:
    assert repr(make(ops.ADD, A, B)) == "UOp(ADD index a + b)"


def test_repr_of_a_size_with_a_bound_variable() -> None:
    """Which users meet in shapes."""
    n = ops.BIND(A, UOp.const(dtypes.index, 3))
    assert (repr(n), repr(make(ops.ADD, n, n))) == ("a=3", "a + a")


# -- reading the text with Python's own parser -----------------------------------------------------

SYMBOLS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.USub: "-",
    ast.Invert: "~",
}


def shape_of_text(tree: ast.expr) -> Any:
    """What a text means, as nested tuples; a sign before a number is part of it."""
    match tree:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=value):
            return str(value)
        case ast.UnaryOp(op=op, operand=operand):
            inner = shape_of_text(operand)
            if isinstance(op, ast.USub) and isinstance(inner, str) and signed(inner):
                return inner[1:] if inner[0] == "-" else "-" + inner
            return SYMBOLS[type(op)], inner
        case ast.BinOp(left=left, op=op, right=right):
            return SYMBOLS[type(op)], shape_of_text(left), shape_of_text(right)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return SYMBOLS[type(op)], shape_of_text(left), shape_of_text(right)
        case ast.Call(func=ast.Name(id=name), args=args):
            return name, *[shape_of_text(a) for a in args]
    raise AssertionError(ast.dump(tree))


def signed(text: str) -> bool:
    return text.lstrip("-")[:1].isdigit() or text.lstrip("-") in ("inf", "nan")


def shape_of_node(node: UOp) -> Any:
    """What a node means, in the same form."""
    if node.op is ops.CONST:
        return show(node)
    if not node.src or node.op is ops.RANGE:
        return show(node)
    src = [shape_of_node(s) for s in node.src]
    if node.op is ops.CAST:
        return "cast", src[0], str(node.dtype)
    if node.op is ops.NEG and isinstance(src[0], str) and signed(src[0]):
        return src[0][1:] if src[0][0] == "-" else "-" + src[0]
    return node.op.symbol or node.op.name.lower(), *src


SCALARS: Final = st.sampled_from((dtypes.index, dtypes.i8, dtypes.f32, dtypes.boolean))


@given(SCALARS.flatmap(lambda t: graphs.expressions(t, steps=10)))
@graphs.examples(250)
def test_parentheses_are_right(root: UOp) -> None:
    text = show(root, limit=100_000)
    assert shape_of_text(ast.parse(text, mode="eval").body) == shape_of_node(root)


# -- limits ----------------------------------------------------------------------------------------


@given(graphs.any_graphs(), st.integers(0, 120))
@graphs.examples(120)
def test_the_limit_is_kept(root: UOp, limit: int) -> None:
    text = show(root, limit=limit)
    assert len(text) <= limit
    whole = show(root, limit=100_000)
    if len(whole) <= limit:
        assert text == whole
    elif limit > 0:
        assert "…" in text


def chain(length: int) -> UOp:
    node = A
    for _ in range(length):
        node = make(ops.ADD, node, B)
    return node


def shared(length: int) -> UOp:
    node = A
    for _ in range(length):
        node = make(ops.MUL, node, node)
    return node


def test_deep_and_shared_graphs_are_quick() -> None:
    deep, wide = chain(40_000), shared(1000)
    start = time.perf_counter()
    assert show(deep, limit=60).startswith("…")
    assert show(deep, limit=60).endswith("+ b + b + b")
    assert len(show(wide, limit=1000)) <= 1000
    assert len(repr(wide)) < 200
    assert len(show(make(ops.VECTORIZE, *[A] * 50_000), limit=100)) == 100
    assert time.perf_counter() - start < 5


def test_elision_keeps_the_top() -> None:
    assert show(shared(20), limit=20) == "… * … * (… * …)"
    assert show(shared(20), limit=3) == "… …"
    assert show(shared(20), limit=1) == "…"
    assert show(shared(20), limit=0) == ""


def test_long_constants_are_cut() -> None:
    huge = number(1 << 100_000)
    assert len(show(huge, limit=50)) == 50
    assert len(repr(huge)) < 200
