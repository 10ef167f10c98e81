"""Lane selection: GEP is pushed towards the source of its lanes, so that each can be simplified.

    GEP(GEP(x, a), b)               GEP(x, a[b])
    GEP(VECTORIZE(x, y, z), 1)      y
    GEP(CAT(x, y), 5)               GEP(y, 1)
    GEP(x + y, i)                   GEP(x, i) + GEP(y, i)      on index
    VECTORIZE(GEP(x, 0), …)         GEP(x, 0 …)

GEP is pushed through arithmetic on `index` only: elsewhere each lane would repeat the expression.
"""

from __future__ import annotations

from typing import Any, Final

from porism.base.dtypes import Kind, Theory
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.rewrite.rule import RuleSet, procedure

_ARITHMETIC: Final = tuple(op for op in ops.table() if op.elementwise)


def select_lanes(node: UOp, lanes: tuple[int, ...]) -> UOp:
    """Return these lanes of a vector; a scalar is broadcast to all of them."""
    if node.dtype.count == 1:
        return node if len(lanes) == 1 else ops.VECTORIZE(*[node] * len(lanes))
    return node.gep(*lanes)


def _source_is(*wanted: Op) -> Any:
    """Return a filter on signatures: the first source is one of these ops."""
    return lambda signature: signature[0] in wanted


@procedure("gep-all", (ops.GEP,), seeds="002.16.4 002.16.6 002.16.17")
def gep_all(node: UOp) -> UOp | None:
    """Drop a GEP of all lanes in order, or of a scalar's only lane."""
    source = node.src[0]
    if source.dtype.kind is Kind.VOID:
        return source
    whole = source.dtype.kind is not Kind.POINTER and node.arg == tuple(range(source.dtype.count))
    return source if whole else None


@procedure("gep-gep", (ops.GEP,), seeds="002.16.1", only=_source_is(ops.GEP))
def gep_gep(node: UOp) -> UOp | None:
    """Merge nested GEPs into one."""
    source = node.src[0]
    if source.dtype.kind is Kind.POINTER:
        return None
    return source.src[0].gep(*[source.arg[lane] for lane in node.arg])


@procedure("gep-vectorize", (ops.GEP,), seeds="002.16.2 002.16.3", only=_source_is(ops.VECTORIZE))
def gep_vectorize(node: UOp) -> UOp | None:
    """Replace lanes of a VECTORIZE by the scalars that it is made of."""
    chosen = [node.src[0].src[lane] for lane in node.arg]
    return chosen[0] if len(chosen) == 1 else ops.VECTORIZE(*chosen)


@procedure("gep-constant", (ops.GEP,), seeds="002.16.5", only=_source_is(ops.CONST, ops.VCONST))
def gep_constant(node: UOp) -> UOp | None:
    """Fold lanes of a constant to a constant."""
    source = node.src[0]
    if source.op is ops.CONST:
        return UOp.const(node.dtype, source.arg)
    chosen = tuple(source.arg[lane] for lane in node.arg)
    if len({lane if isinstance(lane, int) else repr(lane) for lane in chosen}) == 1:
        return UOp.const(node.dtype, chosen[0])
    return ops.VCONST(dtype=node.dtype, arg=chosen)


@procedure(
    "gep-arithmetic",
    (ops.GEP,),
    seeds="002.16.7 002.16.8 002.16.9 002.16.10",
    only=_source_is(*_ARITHMETIC),
)
def gep_arithmetic(node: UOp) -> UOp | None:
    """Push a GEP through an op on `index`: compute on the selected lanes only."""
    source = node.src[0]
    if source.dtype.element.kind is not Kind.INDEX:
        return None
    is_scalar_condition = source.op is ops.WHERE and source.src[0].dtype.count == 1
    parts = [
        s if is_scalar_condition and number == 0 else select_lanes(s, node.arg)
        for number, s in enumerate(source.src)
    ]
    return source.op(*parts)


@procedure("gep-cat", (ops.GEP,), seeds="002.16.11", only=_source_is(ops.CAT))
def gep_cat(node: UOp) -> UOp | None:
    """Select lanes of one operand of a CAT, if all selected lanes belong to it."""
    begin = 0
    for part in node.src[0].src:
        end = begin + part.dtype.count
        if all(begin <= lane < end for lane in node.arg):
            return select_lanes(part, tuple(lane - begin for lane in node.arg))
        begin = end
    return None


@procedure("gep-pointers", (ops.GEP,), seeds="002.16.12", only=_source_is(ops.PTRCAT))
def gep_pointers(node: UOp) -> UOp | None:
    """Select pointers of a PTRCAT, where each pointer is one lane."""
    parts = node.src[0].src
    if any(part.dtype.element.count > 1 for part in parts) or max(node.arg) >= len(parts):
        return None
    chosen = [parts[lane] for lane in node.arg]
    return chosen[0] if len(chosen) == 1 else ops.PTRCAT(*chosen)


@procedure(
    "gep-cast", (ops.GEP,), seeds="002.16.13 002.16.14", only=_source_is(ops.CAST, ops.BITCAST)
)
def gep_cast(node: UOp) -> UOp | None:
    """Push a GEP through a cast of a vector: no cast changes the number of lanes."""
    source = node.src[0]
    inner = source.src[0]
    if inner.dtype.count == 1:  # as of a pointer, whatever it points to
        return None
    return source.op(inner.gep(*node.arg), dtype=node.dtype)


@procedure("gep-unroll", (ops.GEP,), seeds="002.16.16", only=_source_is(ops.UNROLL))
def gep_unroll(node: UOp) -> UOp | None:
    """Push a GEP through an UNROLL: the same lanes are selected at each unrolled position."""
    source = node.src[0]
    inner = source.src[0]
    width = source.dtype.count
    lanes = [begin + lane for begin in range(0, inner.dtype.count, width) for lane in node.arg]
    return ops.UNROLL(select_lanes(inner, tuple(lanes)), arg=source.arg, dtype=node.dtype)


def _submatrix(lanes: tuple[int, ...], width: int) -> tuple[list[int], list[int]] | None:
    """Return the rows and columns of which these lanes are the submatrix; None if they are none."""
    rows = list(dict.fromkeys(lane // width for lane in lanes))
    columns = list(dict.fromkeys(lane % width for lane in lanes))
    whole = tuple(row * width + column for row in rows for column in columns)
    return (rows, columns) if whole == lanes else None


@procedure("gep-wmma", (ops.GEP,), seeds="002.16.15", only=_source_is(ops.WMMA))
def gep_wmma(node: UOp) -> UOp | None:
    """Multiply only the selected rows and columns of a WMMA, where they are whole tiles.

    The argument of WMMA is (name, sizes, tile): m, n, k of the matrices and of one instruction.
    """
    a, b, c = node.src[0].src
    if len(node.src[0].arg) < 3:
        return None
    name, (_, n, k), tile = node.src[0].arg[:3]
    submatrix = _submatrix(node.arg, n)
    if submatrix is None:
        return None
    rows, columns = submatrix
    if len(rows) % tile[0] or len(columns) % tile[1]:
        return None
    left = select_lanes(a, tuple(row * k + i for row in rows for i in range(k)))
    right = select_lanes(b, tuple(i * n + column for i in range(k) for column in columns))
    sizes = (len(rows), len(columns), k)
    arg = (name, sizes, tile, *node.src[0].arg[3:])
    return ops.WMMA(left, right, select_lanes(c, node.arg), arg=arg)


@procedure("vectorize-geps", (ops.VECTORIZE,), seeds="002.16.18", only=_source_is(ops.GEP))
def vectorize_geps(node: UOp) -> UOp | None:
    """Replace a VECTORIZE of single lanes of one vector by one GEP."""
    vector = node.src[0].src[0]
    if vector.dtype.count == 1 or any(
        s.op is not ops.GEP or s.src[0] is not vector for s in node.src
    ):
        return None
    return vector.gep(*[s.arg[0] for s in node.src])


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
