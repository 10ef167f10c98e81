"""Example variations: the examples of a procedure with random changes, to test its guards.

Written examples show what a procedure is for. Its guards exclude the rest: a type that wraps, a
constant at the limit of its type, a loop without iterations, another op, an operand that depends on
the loop. A variation makes up to three such changes:

    types       i32 becomes u8, f32 becomes f16, wherever it stands
    constants   0, 1, -1, the limits of the type; of floats -0.0, infinities, NaN
    extents     of loops: 0, 1, 2, one less
    ops         another op of the same kind: MIN for MAX, LE for LT, SUB for ADD
    operands    another node of the graph that has the same type; a masked index, INVALID
    reductions  over one loop more

and takes inputs at the limits of their types. A graph that cannot be built, or has no value, is
skipped. The changes depend on the examples alone, so that each run tries the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import DType, Kind, boolean, index
from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort

Example = tuple[UOp, Mapping[Any, Any]]
"""A graph and its inputs, as `porism.evaluate.evaluate` takes them."""

COUNT: Final = 400
"""Variations on which a procedure is tried; chosen by hand."""

INPUTS: Final = 3
"""Inputs for each variation."""

MOST_CHANGES: Final = 3
LARGEST_DATA: Final = 1 << 10
"""Elements of the largest input of an example that is varied; larger ones take too long."""

_WORDS: Final = (dtypes.i8, dtypes.u8, dtypes.i16, dtypes.i32, dtypes.u32, dtypes.i64, dtypes.u64)
_FLOATS: Final = (dtypes.f16, dtypes.bf16, dtypes.f32, dtypes.f64)
_EXACT_FLOATS: Final = (dtypes.f32, dtypes.f64)
_INTERCHANGEABLE: Final[tuple[tuple[Op, ...], ...]] = (
    (ops.ADD, ops.SUB, ops.MUL, ops.MAX, ops.MIN, ops.IDIV, ops.MOD, ops.AND, ops.OR, ops.XOR),
    (ops.ADD, ops.SUB, ops.MUL, ops.MAX, ops.MIN, ops.FDIV),
    (ops.AND, ops.OR, ops.XOR),
    (ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE),
    (ops.NEG, ops.NOT),
    (ops.SHL, ops.SHR),
    (ops.TRUNC, ops.FLOOR, ops.CEIL, ops.ROUND),
)
_REDUCTION_OPS: Final = (ops.ADD, ops.MUL, ops.MAX, ops.MIN, ops.AND, ops.OR)
_FLOAT_EDGES: Final = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 2.0**15, math.inf, -math.inf, math.nan),
)
_EXACT: Final = (0.0, 1.0, -1.0, 0.5, -2.5, 3.0)
_INDICES: Final = (-3, -1, 0, 1, 2, 3, 4, 7, 1 << 40)

Changed = dict[UOp, UOp | Callable[[tuple[UOp, ...]], UOp]]
"""Nodes of a graph, each with its replacement: a node, or a function of its new sources."""


def vary(
    examples: Iterable[Example], count: int = COUNT, *, exact: bool = False
) -> Iterator[Example]:
    """Yield variations of examples; with `exact`, on floats whose sums and products are exact."""
    graphs: dict[UOp, list[Mapping[Any, Any]]] = {}
    for graph, inputs in examples:
        graphs.setdefault(graph, []).append(inputs)
    every = [g for g, inputs in graphs.items() if all(map(_is_small, inputs))]
    random = Random(0)
    yielded = 0
    for _ in range(20 * count if every else 0):
        before = random.choice(every)
        inputs = random.choice(graphs[before])
        try:
            graph, types = _vary_graph(before, random, exact)
        except (PorismError, OverflowError):
            continue
        for _ in range(INPUTS):
            yield graph, _inputs(graph, inputs, types, random, exact)
        yielded += 1
        if yielded == count:
            return


def _is_small(inputs: Mapping[Any, Any]) -> bool:
    return all(np.size(value) <= LARGEST_DATA for value in inputs.values())


def _vary_graph(graph: UOp, random: Random, exact: bool) -> tuple[UOp, dict[DType, DType]]:
    """Return a graph with some changes, and the types that were replaced."""
    types: dict[DType, DType] = {}
    if random.random() < 0.6:
        present = {node.dtype.element.scalar for node in toposort(graph)}
        for family in (_WORDS, _EXACT_FLOATS if exact else _FLOATS):
            for dtype in family:
                if dtype in present:
                    types[dtype] = random.choice(family)
        graph = _rebuild(graph, {}, types)
    for _ in range(random.randint(0 if types else 1, MOST_CHANGES)):
        nodes = toposort(graph)
        change = random.choice(_CHANGES)(nodes, random)
        if change and not (exact and any(map(_is_infinite, change.values()))):
            graph = _rebuild(graph, change, {})
    return graph, types


def _is_infinite(new: object) -> bool:
    """Whether a replacement is a constant that is infinite or NaN."""
    return isinstance(new, UOp) and new.op is ops.CONST and not math.isfinite(new.arg)


def _rebuild(root: UOp, change: Changed, types: Mapping[DType, DType]) -> UOp:
    """Return a graph with nodes or types replaced, unsimplified."""
    new: dict[UOp, UOp] = {}
    for node in toposort(root):
        src = tuple(new[s] for s in node.src)
        other = change.get(node)
        if other is not None:
            new[node] = other if isinstance(other, UOp) else other(src)
            continue
        if src == node.src and not types:
            new[node] = node
            continue
        given = None if node.dtype_given is None else _retype(node.dtype_given, types)
        new[node] = UOp(node.op, given, src, node.arg)
    return new[root]


def _retype(dtype: DType, types: Mapping[DType, DType]) -> DType:
    """Return a type with its element type replaced."""
    if dtype.kind is Kind.POINTER:
        assert dtype.space is not None
        return _retype(dtype.element, types).pointer(dtype.space, dtype.size)
    return types.get(dtype.scalar, dtype.scalar).vec(dtype.count)


# -- changes ---------------------------------------------------------------------------------------


def _fixed(nodes: Sequence[UOp]) -> set[UOp]:
    """Return the nodes that are extents or sizes, or ranges of a reduction or a buffer."""
    sized = (ops.RANGE, ops.PARAM, ops.SPECIAL)
    candidates = {s for node in nodes if node.op in sized for s in node.src}
    over = (ops.REDUCE, ops.END, ops.BUFFERIZE, ops.BIND)
    return candidates | {s for node in nodes if node.op in over for s in node.src[1:]}


def _constant(nodes: Sequence[UOp], random: Random) -> Changed:
    """Replace a constant by one at the limit of its type."""
    fixed = _fixed(nodes)
    candidates = [n for n in nodes if n.op is ops.CONST and n not in fixed]
    if not candidates:
        return {}
    node = random.choice(candidates)
    return {node: UOp.const(node.dtype, random.choice(edges(node.dtype.scalar)))}


def _size(nodes: Sequence[UOp], random: Random) -> Changed:
    """Replace the extent of a loop."""
    candidates = [n for n in nodes if n.op is ops.RANGE and n.src[0].op is ops.CONST]
    if not candidates:
        return {}
    node = random.choice(candidates)
    count = node.src[0].arg
    size = random.choice((0, 1, 2, max(count - 1, 0)))
    src = (UOp.const(index, size), *node.src[1:])
    return {node: UOp(ops.RANGE, node.dtype_given, src, node.arg)}


def _op(nodes: Sequence[UOp], random: Random) -> Changed:
    """Replace an op by another of the same kind."""
    candidates = [
        n for n in nodes if n.op is ops.REDUCE or any(n.op in alike for alike in _INTERCHANGEABLE)
    ]
    if not candidates:
        return {}
    node = random.choice(candidates)
    every = random.random() < 0.5  # of its op, or this one alone
    if node.op is ops.REDUCE:
        arg, new = random.choice(_REDUCTION_OPS), ops.REDUCE
    else:
        arg, new = None, random.choice(random.choice([a for a in _INTERCHANGEABLE if node.op in a]))
    same = [n for n in candidates if n.op is node.op and n.arg is node.arg] if every else [node]
    return {n: partial(_on_sources, new, n.dtype_given, arg) for n in same}


def _on_sources(op: Op, dtype: DType | None, arg: Any, src: tuple[UOp, ...]) -> UOp:
    return UOp(op, dtype, src, arg)


def _operand(nodes: Sequence[UOp], random: Random) -> Changed:
    """Replace a node by another of the same type from the graph."""
    fixed = _fixed(nodes)
    candidates = [n for n in nodes[:-1] if n.dtype.kind not in (Kind.VOID, Kind.POINTER)]
    candidates = [
        n for n in candidates if n not in fixed and n.op is not ops.RANGE and not _is_array(n)
    ]
    if not candidates:
        return {}
    node = random.choice(candidates)
    others = [n for n in nodes if n.dtype is node.dtype and n is not node and n not in fixed]
    others = [n for n in others if not _is_array(n)]
    others.append(UOp.const(node.dtype, random.choice(edges(node.dtype.scalar))))
    return {node: random.choice(others)}


def _is_array(node: UOp) -> bool:
    """Whether a node is an array, to be indexed."""
    return node.op is ops.BUFFERIZE or node.shaped


def _masked(nodes: Sequence[UOp], random: Random) -> Changed:
    """Replace an index by a masked one, or by INVALID."""
    fixed = _fixed(nodes)
    candidates = [n for n in nodes[:-1] if n.dtype is index and n not in fixed]
    candidates = [n for n in candidates if n.op is not ops.RANGE and n.op is not ops.INVALID]
    if not candidates:
        return {}
    node = random.choice(candidates)
    nothing = UOp(ops.INVALID, index)
    conditions = [n for n in nodes if n.dtype is boolean and node not in toposort(n)]
    conditions.append(UOp(ops.LT, None, (node, UOp.const(index, 2))))
    masked = UOp(ops.WHERE, None, (random.choice(conditions), node, nothing))
    return {node: random.choice((masked, masked, nothing))}


def _reduction(nodes: Sequence[UOp], random: Random) -> Changed:
    """Add a range to a reduction: one of the graph, or a new one."""
    candidates = [n for n in nodes if n.op is ops.REDUCE]
    if not candidates:
        return {}
    node = random.choice(candidates)
    loops = [n for n in nodes if n.op is ops.RANGE and n not in node.src]
    new = UOp(ops.RANGE, None, (UOp.const(index, random.choice((0, 1, 2, 3))),), _LAST)
    src = [*node.src[1:], random.choice([new, *loops])]
    random.shuffle(src)
    return {node: UOp(ops.REDUCE, node.dtype_given, (node.src[0], *src), node.arg)}


_LAST: Final = ((97,), Axis.REDUCE)
_CHANGES: Final[tuple[Callable[[Sequence[UOp], Random], Changed], ...]] = (
    *(_constant, _size, _op, _op, _operand, _operand, _masked, _reduction),
)


# -- inputs ----------------------------------------------------------------------------------------


def edges(dtype: DType) -> tuple[Any, ...]:
    """Return the boundary values of a type."""
    if dtype.kind is Kind.BOOL:
        return False, True
    if dtype is index:
        return _INDICES
    if dtype.is_float:
        return _FLOAT_EDGES
    low, high = int(dtype.min), int(dtype.max)
    near = {low, low + 1, high, high - 1, high // 2, high // 2 + 1, low // 2, 0, 1, 2, 3, 5}
    return tuple(sorted(near | ({-1, -2, -7} if low < 0 else set())))


def _inputs(
    graph: UOp,
    given: Mapping[Any, Any],
    types: Mapping[DType, DType],
    random: Random,
    exact: bool,
) -> dict[Any, Any]:
    """Return inputs for a graph whose types have changed: some unchanged, some boundary values."""
    candidates = dict(given)
    keep = random.random() < 0.4
    for node in toposort(graph):
        if node.op is not ops.PARAM or node.arg not in given:
            continue
        lane = node.dtype.element.scalar
        old = given[node.arg]
        if keep and lane not in types.values():
            continue
        if lane is index:
            candidates[node.arg] = random.choice(_INDICES)
            continue
        values = _EXACT if exact and lane.is_float else edges(lane)
        picked = [random.choice(values) for _ in range(np.size(old))]
        data = np.asarray([lane.canonical(value) for value in picked], dtype=lane.numpy)
        candidates[node.arg] = data.reshape(np.shape(old))[()]
    return candidates
