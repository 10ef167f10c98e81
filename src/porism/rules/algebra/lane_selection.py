"""Vectors: GEP moves towards where the lanes come from, so that single lanes can be simplified.

    GEP(GEP(x, a), b)               GEP(x, a[b])
    GEP(VECTORIZE(x, y, z), 1)      y
    GEP(CAT(x, y), 5)               GEP(y, 1)
    GEP(x + y, i)                   GEP(x, i) + GEP(y, i)      on index
    VECTORIZE(GEP(x, 0), …)         GEP(x, 0 …)

Through arithmetic GEP moves on `index` only: elsewhere each lane would repeat the whole expression.
"""

from __future__ import annotations

from typing import Any, Final

from porism.base.dtypes import Kind, Theory
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.rewrite.rule import RuleSet, procedure

_ARITHMETIC: Final = tuple(op for op in ops.table() if op.elementwise)


def picked(node: UOp, lanes: tuple[int, ...]) -> UOp:
    """Some lanes of a value; a scalar is the same in each."""
    if node.dtype.count == 1:
        return node if len(lanes) == 1 else ops.VECTORIZE(*[node] * len(lanes))
    return node.gep(*lanes)


def _below(*wanted: Op) -> Any:
    return lambda signature: signature[0] in wanted


@procedure("gep-all", (ops.GEP,), seeds="002.16.4 002.16.6 002.16.17")
def gep_all(node: UOp) -> UOp | None:
    """All lanes in order are the value itself; so is the only lane of a scalar."""
    source = node.src[0]
    if source.dtype.kind is Kind.VOID:
        return source
    whole = source.dtype.kind is not Kind.POINTER and len(node.arg) == source.dtype.count
    return source if whole and node.arg == tuple(range(source.dtype.count)) else None


@procedure("gep-gep", (ops.GEP,), seeds="002.16.1", only=_below(ops.GEP))
def gep_gep(node: UOp) -> UOp | None:
    """Lanes of lanes."""
    source = node.src[0]
    if source.dtype.kind is Kind.POINTER:
        return None
    return source.src[0].gep(*[source.arg[lane] for lane in node.arg])


@procedure("gep-vectorize", (ops.GEP,), seeds="002.16.2 002.16.3", only=_below(ops.VECTORIZE))
def gep_vectorize(node: UOp) -> UOp | None:
    """A lane is the scalar that was put there."""
    chosen = [node.src[0].src[lane] for lane in node.arg]
    return chosen[0] if len(chosen) == 1 else ops.VECTORIZE(*chosen)


@procedure("gep-constant", (ops.GEP,), seeds="002.16.5", only=_below(ops.CONST, ops.VCONST))
def gep_constant(node: UOp) -> UOp | None:
    """Lanes of a constant are constant."""
    source = node.src[0]
    if source.op is ops.CONST:
        return UOp.const(node.dtype, source.arg)
    chosen = tuple(source.arg[lane] for lane in node.arg)
    if len(set(map(repr, chosen))) == 1:
        return UOp.const(node.dtype, chosen[0])
    return ops.VCONST(dtype=node.dtype, arg=chosen)


@procedure(
    "gep-arithmetic",
    (ops.GEP,),
    seeds="002.16.7 002.16.8 002.16.9 002.16.10",
    only=_below(*_ARITHMETIC),
)
def gep_arithmetic(node: UOp) -> UOp | None:
    """Compute on lanes of index in place of taking lanes of the result."""
    source = node.src[0]
    if source.dtype.element.kind is not Kind.INDEX:
        return None
    one_for_all = source.op is ops.WHERE and source.src[0].dtype.count == 1
    parts = [
        s if one_for_all and place == 0 else picked(s, node.arg)
        for place, s in enumerate(source.src)
    ]
    return source.op(*parts)


@procedure("gep-cat", (ops.GEP,), seeds="002.16.11", only=_below(ops.CAT))
def gep_cat(node: UOp) -> UOp | None:
    """Lanes of vectors side by side, if all of them are of one."""
    begin = 0
    for part in node.src[0].src:
        end = begin + part.dtype.count
        if all(begin <= lane < end for lane in node.arg):
            return picked(part, tuple(lane - begin for lane in node.arg))
        begin = end
    return None


@procedure("gep-pointers", (ops.GEP,), seeds="002.16.12", only=_below(ops.PTRCAT))
def gep_pointers(node: UOp) -> UOp | None:
    """Some of several pointers, where each is one lane."""
    parts = node.src[0].src
    if any(part.dtype.element.count > 1 for part in parts) or max(node.arg) >= len(parts):
        return None
    chosen = [parts[lane] for lane in node.arg]
    return chosen[0] if len(chosen) == 1 else ops.PTRCAT(*chosen)


@procedure("gep-cast", (ops.GEP,), seeds="002.16.13 002.16.14", only=_below(ops.CAST, ops.BITCAST))
def gep_cast(node: UOp) -> UOp | None:
    """Convert lanes in place of taking lanes of what is converted, where lanes stay lanes."""
    source = node.src[0]
    inner = source.src[0]
    if Kind.POINTER in (source.dtype.kind, inner.dtype.kind):
        return None
    if inner.dtype.count != source.dtype.count or inner.dtype.count == 1:
        return None
    return source.op(inner.gep(*node.arg), dtype=node.dtype)


@procedure("gep-unroll", (ops.GEP,), seeds="002.16.16", only=_below(ops.UNROLL))
def gep_unroll(node: UOp) -> UOp | None:
    """Take the lanes before the rest become values of axes: at each position the same ones."""
    source = node.src[0]
    inner = source.src[0]
    left = source.dtype.count
    lanes = [begin + lane for begin in range(0, inner.dtype.count, left) for lane in node.arg]
    return ops.UNROLL(picked(inner, tuple(lanes)), arg=source.arg, dtype=node.dtype)


def _rectangle(lanes: tuple[int, ...], width: int) -> tuple[list[int], list[int]] | None:
    """The rows and columns whose crossings are these lanes, row by row."""
    rows = list(dict.fromkeys(lane // width for lane in lanes))
    columns = list(dict.fromkeys(lane % width for lane in lanes))
    whole = tuple(row * width + column for row in rows for column in columns)
    return (rows, columns) if whole == lanes else None


@procedure("gep-wmma", (ops.GEP,), seeds="002.16.15", only=_below(ops.WMMA))
def gep_wmma(node: UOp) -> UOp | None:
    """Multiply only the rows and columns that are asked for, where they are whole tiles.

    The argument is (name, sizes, tile): of the matrices and of what the machine multiplies at once.
    """
    a, b, c = node.src[0].src
    if len(node.src[0].arg) < 3:
        return None
    name, (_, n, k), tile = node.src[0].arg[:3]
    found = _rectangle(node.arg, n)
    if found is None:
        return None
    rows, columns = found
    if len(rows) % tile[0] or len(columns) % tile[1]:
        return None
    left = picked(a, tuple(row * k + i for row in rows for i in range(k)))
    right = picked(b, tuple(i * n + column for i in range(k) for column in columns))
    sizes = (len(rows), len(columns), k)
    arg = (name, sizes, tile, *node.src[0].arg[3:])
    return ops.WMMA(left, right, picked(c, node.arg), arg=arg)


@procedure("vectorize-geps", (ops.VECTORIZE,), seeds="002.16.18", only=_below(ops.GEP))
def vectorize_geps(node: UOp) -> UOp | None:
    """Lanes of one vector side by side are lanes of it."""
    first = node.src[0].src[0]
    if first.dtype.count == 1 or any(
        s.op is not ops.GEP or s.src[0] is not first for s in node.src
    ):
        return None
    return first.gep(*[s.arg[0] for s in node.src])


GEP = RuleSet(
    "gep",
    theory=Theory.STRUCTURE,
    rules=(
        gep_all,
        gep_gep,
        gep_vectorize,
        gep_constant,
        gep_arithmetic,
        gep_cat,
        gep_pointers,
        gep_cast,
        gep_unroll,
        gep_wmma,
        vectorize_geps,
    ),
)
