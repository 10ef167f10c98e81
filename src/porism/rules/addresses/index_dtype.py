"""Index dtype: each `index` of a kernel gets a width, i32 where all values fit, else i64.

`index` is unbounded; a machine's integers wrap. So a node becomes i32 only if its bounds and those
of its operands prove that no value exceeds i32; it becomes i64 if they fit there, and is an error
otherwise. Afterwards no node has the type `index`, and none that had it can wrap.

Sources first, each node becomes CAST(value of a width, index), and its users take the value:

    x                            CAST(x of i32, index)
    CAST(a, index) + CAST(b, …)  CAST(CAST(a, i64) + b, index)   where b, or the sum, needs i64
    INDEX(p, CAST(a, index))     INDEX(p, a)
    CAST(CAST(a, index), f32)    CAST(a, f32)

Constants take the width of the other operand. A range, and a thread index, needs a width that holds
its extent. The byte offset of an access is larger than its index: where it does not fit i32, the
index of the INDEX is i64, so that a backend may scale it in its own width.

That is what the rules do. Where all indices are i32, `lower_to_i32` does the same in one walk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from porism.base.dtypes import DType, Kind, Theory, i32, i64, index
from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.facts.intervals import Bound, Interval, times
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rewrite_trace import Trace, process_trace
from porism.rewrite.rule import RuleSet, procedure
from porism.rules.addresses.access_gates import DIVISOR_LEMMAS, GATES, MASKS_OUT, masks_to_gates
from porism.rules.addresses.address_wrapping import wrap_addresses

_COMPARISONS: Final = tuple(op for op in ops.table() if op.group is Group.COMPARISON)
_ARITHMETIC: Final = tuple(
    op for op in ops.table() if op.elementwise and op not in (*_COMPARISONS, ops.WHERE)
)
_MEMORY: Final = (ops.PARAM, ops.DEFINE_LOCAL, ops.DEFINE_REG)
WIDTHS: Final = (i32, i64)


def lower_index_dtype(root: UOp, trace: Trace | None = None) -> UOp:
    """Return a kernel in which every index has a width and every mask is a gate.

    >>> i = UOp.range(1 << 20, 0)
    >>> x = UOp(ops.PARAM, i32.pointer(), (), 0)
    >>> lowered = lower_index_dtype(x.index(i * 4 + 1))
    >>> [node.dtype for node in (lowered.src[1], *lowered.src[1].src)]
    [i32, i32, i32]
    """
    root = wrap_addresses(masks_to_gates(root, trace))
    is_traced = trace is not None or process_trace() is not None
    narrow = None if is_traced else lower_to_i32(root)
    return lower_by_rules(root, trace) if narrow is None else narrow


def lower_by_rules(root: UOp, trace: Trace | None = None) -> UOp:
    """Lower a graph without masks by the rules."""
    for node in toposort(root):  # before rewriting, so that the message shows the original graph
        if node.dtype.kind is Kind.INDEX and node.op is not ops.CAST:
            width(node)
    root = rewrite(root, BINDINGS, trace=trace)
    root = rewrite(root, INDEX_WIDTHS, trace=trace)
    for node in toposort(root):
        if node.dtype.element.kind is Kind.INDEX or node.op is ops.INVALID:
            raise _without_width(node)
    return root


# -- widths ----------------------------------------------------------------------------------------


def fits(dtype: DType, low: Bound, high: Bound) -> bool:
    """Whether a type holds all values from low to high."""
    return dtype.min <= low and high <= dtype.max


def width(*nodes: UOp) -> DType:
    """Return the first of i32 and i64 that holds every value of the nodes.

    >>> width(UOp.variable("n", 0, 2**31 - 1)), width(UOp.variable("n", 0, 2**31))
    (i32, i64)
    """
    for node in nodes:
        if not fits(i64, node.vmin, node.vmax):
            raise _too_wide(node)
    return i32 if all(fits(i32, node.vmin, node.vmax) for node in nodes) else i64


def _too_wide(node: UOp) -> PorismError:
    low, high = node.vmin, node.vmax
    below = "has no lower bound" if low == -math.inf else f"may be as low as {low}"
    above = "has no upper bound" if high == math.inf else f"may be as high as {high}"
    return PorismError(
        "an index does not provably fit 64 bits",
        where=show(node, limit=300),
        why=f"it {below} and {above}, and machines count from {i64.min} to {i64.max}",
        fix="give each variable in it both of its bounds, cast what is no integer to i32 or i64 "
        "first, or keep the value small with % or min and max",
    )


def _without_width(node: UOp) -> PorismError:
    if node.op is ops.INVALID:
        why = "INVALID stands here as a value; it can only mask an index"
    elif node.dtype.kind is Kind.POINTER:
        why = "memory holds integers of a width, and it points to `index`"
    else:
        why = f"{node.op.name} of `index` has no counterpart of a width"
    return PorismError(
        f"a {node.op.name} cannot be given a width",
        where=show(node, limit=300),
        why=why,
        fix="cast what is stored or computed to i32 or i64",
    )


# -- all in i32 ------------------------------------------------------------------------------------

_I32_OPS: Final = frozenset(
    (*(op for op in ops.table() if op.elementwise and op is not ops.MULACC),
     ops.RANGE, ops.SPECIAL, ops.REDUCE, ops.AFTER, ops.VECTORIZE, ops.CAT, ops.GEP)
)  # fmt: skip


def lower_to_i32(root: UOp) -> UOp | None:
    """Do the same as `lower_by_rules` in one walk if every index fits i32; else return None.

    Almost all kernels are such. Then a node has the width of its sources, and only the index of an
    access may need i64, for its byte offset.
    """
    new: dict[UOp, UOp] = {}
    for node in toposort(root):
        op, dtype = node.op, node.dtype
        if dtype.element.kind is Kind.INDEX:
            lowered = _to_i32(node, new) if fits(i32, node.vmin, node.vmax) else None
        elif op is ops.INVALID or op is ops.BIND:
            lowered = None
        elif op is ops.INDEX:
            base, *indices = [new[s] for s in node.src]
            indices = [_access_index(base, s) if s.dtype.is_integer else s for s in indices]
            lowered = node.replace((base, *indices))
        elif op is ops.CAST and node.src[0].dtype.kind is Kind.INDEX:
            lowered = convert_integer(new[node.src[0]], dtype)
        else:
            lowered = node.replace(tuple([new[s] for s in node.src]))
        if lowered is None:
            return None
        new[node] = lowered
    return new[root]


def _to_i32(node: UOp, new: Mapping[UOp, UOp]) -> UOp | None:
    """Return an index that fits i32 in i32; None where the rules must decide."""
    op, dtype = node.op, i32.vec(node.dtype.count)
    if node.dtype.kind is not Kind.INDEX:
        return None
    if op in (ops.CONST, ops.VCONST, ops.VARIABLE):
        return op(dtype=dtype, arg=node.arg)
    if op is ops.CAST:
        source = node.src[0].dtype.element
        narrow = source.kind is Kind.BOOL or (source.is_integer and 0 < source.bits <= i32.bits)
        return convert_integer(new[node.src[0]], dtype) if narrow else None
    return op(*[new[s] for s in node.src], arg=node.arg) if op in _I32_OPS else None


# -- lowered values --------------------------------------------------------------------------------


def is_lowered(node: UOp) -> bool:
    """Whether an index is a constant, or a cast of an integer that has a width."""
    if node.op is ops.CAST:
        source = node.src[0].dtype
        return source.kind is Kind.BOOL or (source.is_integer and source.kind is not Kind.INDEX)
    return node.op in (ops.CONST, ops.VCONST)


def to_width(node: UOp, dtype: DType) -> UOp:
    """Return a lowered index as a value of a width that holds it."""
    wanted = dtype.vec(node.dtype.count)
    if not is_lowered(node):
        raise _without_width(node)
    if node.op is ops.CAST:
        return convert_integer(node.src[0], wanted)
    return node.op(dtype=wanted, arg=node.arg)


def convert_integer(value: UOp, dtype: DType) -> UOp:
    """Cast an integer, without intermediate casts that change no value."""
    while value.op is ops.CAST and value.dtype is not dtype:
        if not value.src[0].dtype.fits_in(value.dtype):
            break
        value = value.src[0]
    return value if value.dtype is dtype else value.cast(dtype)


def lowered_value(node: UOp) -> UOp:
    """Return the i32 or i64 value of a lowered index."""
    if node.op is ops.CAST and node.src[0].dtype.element in WIDTHS:
        return node.src[0]
    return to_width(node, width(node))


def without_index_cast(node: UOp) -> UOp:
    """Return a source of a node without the cast to index, if it has one."""
    return lowered_value(node) if node.dtype.kind is Kind.INDEX else node


def as_index(value: UOp) -> UOp:
    """Return a value of a width cast to index, for users that are not lowered yet."""
    return value.cast(index.vec(value.dtype.count))


# -- leaves ----------------------------------------------------------------------------------------


@procedure("index-variable", (ops.VARIABLE,), seeds="000.5.P1 000.5.sel")
def index_variable(node: UOp) -> UOp | None:
    """Give a variable the width that holds its bounds."""
    if node.dtype.kind is not Kind.INDEX:
        return None
    return as_index(ops.VARIABLE(dtype=width(node), arg=node.arg))


@procedure("index-bind", (ops.BIND,), seeds="000.5.P1 000.5.P2b")
def index_bind(node: UOp) -> UOp | None:
    """Bind a variable in a width that holds it and its value."""
    variable, value = node.src
    if variable.dtype.kind is not Kind.INDEX:
        return None
    dtype = width(variable, value)
    return as_index(ops.BIND(ops.VARIABLE(dtype=dtype, arg=variable.arg), value.cast(dtype)))


@procedure(
    "index-loop",
    (ops.RANGE, ops.SPECIAL, ops.END, ops.REDUCE, ops.BUFFERIZE, ops.AFTER, ops.SINK, ops.GROUP,
     ops.BARRIER, ops.NOOP, ops.IF, ops.ENDIF),
    seeds="000.5.P2b 000.5.P2c 000.5.P3a",
)  # fmt: skip
def index_loop(node: UOp) -> UOp | None:
    """Give a range the width that holds its extent, also where it is closed or waited for."""
    if not any(s.dtype.kind is Kind.INDEX for s in node.src):
        return None
    first, *others = node.src
    rest = [without_index_cast(s) for s in others]
    if node.op in (ops.RANGE, ops.SPECIAL):
        return as_index(node.op(to_width(first, width(first, node)), *rest, arg=node.arg))
    value = without_index_cast(first)
    if node.op is ops.REDUCE and first.dtype.kind is Kind.INDEX:
        whole = UOp(ops.REDUCE, None, (first, *rest), node.arg)  # its bounds see the ranges
        value = to_width(first, width(whole, first))
    lowered = node.op(value, *rest, arg=node.arg)
    return as_index(lowered) if node.dtype.kind is Kind.INDEX else lowered


# -- arithmetic ------------------------------------------------------------------------------------


@procedure("index-arithmetic", _ARITHMETIC, seeds="000.5.P1 000.5.P2a 000.5.sel")
def index_arithmetic(node: UOp) -> UOp | None:
    """Compute in the width that holds the operands, the result and the product of a MULACC."""
    if node.dtype.kind is not Kind.INDEX:
        return None
    products = (UOp(ops.MUL, None, node.src[:2]),) if node.op is ops.MULACC else ()
    dtype = width(*node.src, *products, node)
    return as_index(node.op(*[to_width(s, dtype) for s in node.src]))


@procedure("index-comparison", _COMPARISONS, seeds="000.5.P2a")
def index_comparison(node: UOp) -> UOp | None:
    """Compare in the width that holds both sides."""
    if node.src[0].dtype.kind is not Kind.INDEX:
        return None
    dtype = width(*node.src)
    return node.op(*[to_width(s, dtype) for s in node.src])


@procedure("index-choice", (ops.WHERE,), seeds="000.5.P2b")
def index_choice(node: UOp) -> UOp | None:
    """Select in the width that holds both branches."""
    if node.dtype.kind is not Kind.INDEX:
        return None
    condition, *branches = node.src
    dtype = width(*branches)
    return as_index(ops.WHERE(condition, *[to_width(s, dtype) for s in branches]))


@procedure(
    "index-lanes",
    (ops.VECTORIZE, ops.CAT, ops.GEP, ops.UNROLL, ops.CONTRACT),
    seeds="000.5.P1 000.5.P2b",
)
def index_lanes(node: UOp) -> UOp | None:
    """Give all lanes the width that holds each of them."""
    if node.dtype.kind is not Kind.INDEX:
        return None
    if node.op in (ops.VECTORIZE, ops.CAT):
        dtype = width(*node.src)
        return as_index(node.op(*[to_width(s, dtype) for s in node.src]))
    return as_index(node.op(lowered_value(node.src[0]), arg=node.arg))


# -- uses ------------------------------------------------------------------------------------------


@procedure("index-cast", (ops.CAST,), seeds="000.5.P3a")
def index_cast(node: UOp) -> UOp | None:
    """Cast the value of a lowered index directly."""
    source = node.src[0]
    if source.dtype.kind is not Kind.INDEX:
        return None
    if node.dtype.kind is Kind.INDEX:
        return source
    if source.op is ops.CAST and is_lowered(source):
        return convert_integer(source.src[0], node.dtype)
    return to_width(source, width(source)).cast(node.dtype)


@procedure("index-access", (ops.INDEX,), seeds="000.5.P3a 000.5.sel")
def index_access(node: UOp) -> UOp | None:
    """Access an element by an index in a width that holds its byte offset too."""
    base, *indices = node.src
    lowered = [_access_index(base, s) if s.dtype.is_integer else s for s in indices]
    return None if lowered == indices else ops.INDEX(base, *lowered, dtype=node.dtype)


def _access_index(base: UOp, node: UOp) -> UOp:
    value = without_index_cast(node)
    if base.dtype.kind is not Kind.POINTER or value.dtype.bits == 64:
        return value
    if fits(i32, *byte_offsets(base, node)):
        return value
    return convert_integer(value, i64.vec(value.dtype.count))


def byte_offsets(base: UOp, node: UOp) -> Interval:
    """Return bounds of the byte offset of an access that is executed, so inside its buffer."""
    low, high = node.vmin, node.vmax
    memory = base
    while memory.op is ops.AFTER:
        memory = memory.src[0]
    if memory.op in _MEMORY and memory.dtype.size > 0:
        last = memory.dtype.size - 1
        low, high = min(max(low, 0), last), max(min(high, last), 0)
    element = base.dtype.element
    size = max(element.bits // 8, 1) * element.count
    return times(low, size), times(high, size)


BINDINGS = RuleSet("index-bindings", theory=Theory.STRUCTURE, rules=(index_bind,))

INDEX_WIDTHS = RuleSet(
    "index-widths",
    theory=Theory.STRUCTURE,
    rules=(
        index_variable,
        index_loop,
        index_arithmetic,
        index_comparison,
        index_choice,
        index_lanes,
        index_cast,
        index_access,
    ),
)

INDEX_DTYPE = RuleSet(
    "index-dtype", rules=[*DIVISOR_LEMMAS, *MASKS_OUT, *GATES, *BINDINGS, *INDEX_WIDTHS]
)
"""All rules of the lowering, in the order in which they are applied."""
