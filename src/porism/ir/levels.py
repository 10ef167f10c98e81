"""Levels: which ops and invariants a graph may have between the stages.

Going down the levels, tensors become loops, unrolled loops become lanes, lanes become operations
of the target. Every stage of the pipeline names the level that it leaves; `check` then raises an
error at the first node that the level does not allow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.base.dtypes import Kind
from porism.base.errors import LevelError
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.ops import Group, Op
from porism.ir.text.expression import show
from porism.ir.traversal import toposort

Check = Callable[[UOp], str | None]
"""A function that returns what is wrong with a node, or None."""


@dataclass(frozen=True)
class Invariant:
    """A property of every node of a level, beyond its op."""

    name: str
    check: Check = field(repr=False)


@dataclass(frozen=True)
class Level:
    """The ops and invariants of graphs at a point of the pipeline."""

    name: str
    doc: str
    ops: frozenset[Op] = field(repr=False)
    invariants: tuple[Invariant, ...] = field(repr=False, default=())
    roots: frozenset[Op] | None = field(repr=False, default=None)  # None: the root may be anything


def check(root: UOp, level: Level, stage: str = "unnamed") -> None:
    """Raise a `LevelError` at the first node, sources first, that the level does not allow.

    >>> x = UOp.variable("x", 0, 9)
    >>> check(x + 1, GRAPH)
    >>> looped = UOp(ops.ADD, None, (UOp.range(4, 0), x))
    >>> check(looped, GRAPH, stage="split reductions")
    Traceback (most recent call last):
        ...
    porism.base.errors.LevelError: stage 'split reductions' left a RANGE in the graph level
      where: r0, used in r0 + x
      why: RANGE (...) is allowed in the levels ranged, kernel, schedule, ...
      fix: rewrite it in this stage, or have the stage leave another level
    """
    if level.roots is not None and root.op not in level.roots:
        wanted = ", ".join(sorted(op.name for op in level.roots))
        raise LevelError(
            f"stage {stage!r} left a {root.op.name} as the root in the {level.name} level",
            where=show(root),
            why=f"it is {level.doc}; the root is a {wanted}",
        )
    nodes = toposort(root)
    _check_nodes(nodes, level, stage)
    if level is KERNEL:
        _check_loop_names(nodes, stage)


def _check_loop_names(nodes: Sequence[UOp], stage: str) -> None:
    """Raise a `LevelError` if two loops of a kernel have one axis: actions name loops by it."""
    named: dict[tuple[int, ...], UOp] = {}
    for node in nodes:
        if node.op is ops.RANGE and named.setdefault(node.arg[0], node) is not node:
            raise LevelError(
                f"stage {stage!r} left two loops with one name in a kernel",
                where=_where(node, nodes),
                why=f"there are a {node.arg[1].name} and a {named[node.arg[0]].arg[1].name} "
                f"{show(node)}",
                fix="number a new loop as no other is",
            )


def check_linear(lines: Sequence[UOp], stage: str = "unnamed") -> None:
    """Raise a `LevelError` where a list of instructions is no program of the linear level.

    Each node occurs once and after its sources; loops and conditions are properly nested.
    """
    _check_nodes(lines, LINEAR, stage)
    seen: set[UOp] = set()
    blocks: list[UOp] = []
    for node in lines:
        wrong = _order_fault(node, seen, blocks)
        if wrong is not None:
            raise LevelError(
                f"stage {stage!r} left a {node.op.name} at the wrong position of the list",
                where=f"{show(node)}, number {len(seen)} of the list",
                why=wrong,
            )
        seen.add(node)
    if blocks:
        raise LevelError(
            f"stage {stage!r} left a {blocks[-1].op.name} that nothing closes",
            where=show(blocks[-1]),
            why="a RANGE is closed by its END, an IF by its ENDIF",
        )


def _order_fault(node: UOp, seen: set[UOp], blocks: list[UOp]) -> str | None:
    """Return why an instruction cannot come next, or None; update the open blocks."""
    if node in seen:
        return "the same node came before"
    for source in node.src:
        if source not in seen:
            return f"its source {show(source, limit=80)} has not come yet"
    if node.op in (ops.RANGE, ops.IF):
        blocks.append(node)
    elif node.op in (ops.END, ops.ENDIF):
        closed = node.src[-1 if node.op is ops.END else 0]
        if not blocks or blocks[-1] is not closed:
            inner = show(blocks[-1], limit=80) if blocks else "nothing"
            return f"it closes {show(closed, limit=80)}, but {inner} is what is open"
        blocks.pop()
    return None


def levels_with(op: Op) -> list[str]:
    """Return the names of the levels that allow an op, in the order of the pipeline."""
    return [level.name for level in LEVELS if op in level.ops]


def _check_nodes(nodes: Sequence[UOp], level: Level, stage: str) -> None:
    allowed = level.ops
    checks = [(invariant.name, invariant.check) for invariant in level.invariants]
    for node in nodes:
        if node.op not in allowed:
            raise _forbidden(node, nodes, level, stage)
        for name, wrong in checks:
            why = wrong(node)
            if why is not None:
                raise LevelError(
                    f"stage {stage!r} left a {node.op.name} that breaks the invariant {name!r} of "
                    f"the {level.name} level",
                    where=_where(node, nodes),
                    why=why,
                )


def _where(node: UOp, nodes: Sequence[UOp]) -> str:
    user = next((n for n in nodes if node in n.src), None)
    used = "" if user is None else f", used in {show(user, limit=200)}"
    return f"{show(node, limit=300)}{used}"


def _forbidden(node: UOp, nodes: Sequence[UOp], level: Level, stage: str) -> LevelError:
    op = node.op
    others = levels_with(op)
    if others:
        where_else = f"is allowed in the level{'s' * (len(others) > 1)} {', '.join(others)}"
    else:
        where_else = "is in no level: it belongs to the text of rewrite rules"
    return LevelError(
        f"stage {stage!r} left a {op.name} in the {level.name} level",
        where=_where(node, nodes),
        why=f"{op.name} ({op.doc}) {where_else}",
        fix="rewrite it in this stage, or have the stage leave another level",
    )


# -- invariants ------------------------------------------------------------------------------------


def _scalar(node: UOp) -> str | None:
    if node.dtype.count > 1:
        return f"it is {node.dtype}, and vectors appear only in the lanes"
    return None


def _no_pointer(node: UOp) -> str | None:
    if node.dtype.kind is Kind.POINTER:
        return f"it is {node.dtype}, and pointers appear only in kernels"
    return None


def _pointer_parameter(node: UOp) -> str | None:
    if node.op is ops.PARAM and node.dtype.kind is not Kind.POINTER:
        return f"a kernel's parameters are pointers, and it is {node.dtype}"
    return None


def _sink_is_root(node: UOp) -> str | None:
    if any(s.op is ops.SINK for s in node.src) and node.op is not ops.CALL:
        return "one of its sources is a SINK, which is the root of a graph"
    return None


def _validity(node: UOp) -> str | None:
    for number, s in enumerate(node.src):
        if s.op is not ops.INVALID or (node.op is ops.WHERE and number == 2):
            continue
        if node.op is not ops.INDEX:  # an access whose mask is never true has the index INVALID
            return "INVALID lives only as an index, or as the last source of WHERE(valid, index, …)"
    return None


def _closes_ranges(node: UOp) -> str | None:
    if node.op in (ops.END, ops.REDUCE):
        for s in node.src[1:]:
            if s.op is not ops.RANGE:
                return f"it closes ranges, and {show(s, limit=80)} is none"
    return None


def _ranges_ended(node: UOp) -> str | None:
    if node.op is ops.SINK and node.ranges:
        return f"nothing ends {', '.join(show(r) for r in node.ranges[:8])}"
    return None


def _bufferizes_ranges(node: UOp) -> str | None:
    if node.op is ops.BUFFERIZE:
        for s in node.src[1:]:
            if s.op not in (ops.RANGE, ops.CONST):
                return f"it stores a value for ranges, and {show(s, limit=80)} is none"
    return None


def _unit_axis_index(node: UOp) -> str | None:
    if node.op is ops.INDEX and node.src[0].op in (ops.BUFFERIZE, ops.PARAM, ops.BUFFER):
        for number, (dim, at) in enumerate(zip(shape(node.src[0]), node.src[1:], strict=False)):
            if at.op is ops.WHERE and at.src[2].op is ops.INVALID:
                at = at.src[1]
            is_zero = at.vmin == at.vmax == 0 or at.op is ops.INVALID
            if dim.vmin == dim.vmax == 1 and not is_zero:
                return f"axis {number} has size 1, and its index is {show(at, limit=80)}, not 0"
    return None


def _flat_access(node: UOp) -> str | None:
    if node.op is ops.INDEX and node.src[0].dtype.kind is Kind.POINTER:
        gate = len(node.src) > 1 and node.src[-1].dtype.kind is Kind.BOOL
        count = len(node.src) - 1 - gate
        if count != 1:
            return f"memory behind a pointer has one index, not {count}"
    return None


def _no_lane_ranges(node: UOp) -> str | None:
    if node.op is ops.RANGE and node.arg[1] in (Axis.UPCAST, Axis.UNROLL):
        return f"a range of the kind {node.arg[1].value} has become lanes"
    return None


def _has_width(node: UOp) -> str | None:
    if node.dtype.kind is Kind.INDEX:
        return "it is an index without a width, which no machine has"
    return None


def _explicit_access(node: UOp) -> str | None:
    if node.op is ops.INDEX and node.dtype.kind is not Kind.POINTER:
        return "it stands for the element itself; here INDEX is the pointer, and LOAD the element"
    if node.op is ops.STORE and node.src[0].dtype.kind is not Kind.POINTER:
        return f"it stores to {node.src[0].dtype}, which is no pointer"
    return None


def _one_range(node: UOp) -> str | None:
    if node.op is ops.END and len(node.src) != 2:
        return f"an END closes one range, and this one closes {len(node.src) - 1}"
    return None


SCALAR: Final = Invariant("scalars", _scalar)
NO_POINTERS: Final = Invariant("no pointers", _no_pointer)
POINTER_PARAMETERS: Final = Invariant("pointer parameters", _pointer_parameter)
SINK_IS_ROOT: Final = Invariant("one sink, at the root", _sink_is_root)
VALIDITY: Final = Invariant("invalid only where not valid", _validity)
CLOSES_RANGES: Final = Invariant("ranges are closed by name", _closes_ranges)
RANGES_ENDED: Final = Invariant("ranges are ended", _ranges_ended)
BUFFERIZES_RANGES: Final = Invariant("buffers have an axis per range", _bufferizes_ranges)
UNIT_AXIS_INDEX: Final = Invariant("the index of an axis of size 1 is 0", _unit_axis_index)
FLAT_ACCESS: Final = Invariant("one index per pointer", _flat_access)
NO_LANE_RANGES: Final = Invariant("no unrolled ranges", _no_lane_ranges)
CONCRETE: Final = Invariant("concrete widths", _has_width)
EXPLICIT_ACCESS: Final = Invariant("explicit loads", _explicit_access)
ONE_RANGE: Final = Invariant("one range per end", _one_range)

# -- the levels ------------------------------------------------------------------------------------


def _group(*groups: Group) -> frozenset[Op]:
    return frozenset(op for op in ops.table() if op.group in groups)


_TRUNCATING: Final = frozenset({ops.CDIV, ops.CMOD})  # what machines have instead of IDIV and MOD
_ARITHMETIC: Final = _group(*ops.ELEMENTWISE, Group.CONVERSION) - _TRUNCATING
_VALUES: Final = _ARITHMETIC | {ops.CONST, ops.VARIABLE, ops.BIND}
_LOOPS: Final = frozenset({ops.RANGE, ops.INDEX, ops.REDUCE, ops.BUFFERIZE, ops.INVALID})
_EFFECTS: Final = frozenset({ops.STORE, ops.END, ops.AFTER, ops.GROUP, ops.SINK, ops.NOOP})
_MACHINE: Final = frozenset(
    {ops.SPECIAL, ops.DEFINE_LOCAL, ops.DEFINE_REG, ops.LOAD, ops.BARRIER, ops.WMMA}
)
_SINK: Final = frozenset({ops.SINK})

GRAPH: Final = Level(
    "graph",
    "tensors with dims: elementwise ops, movement, reductions over axes",
    _VALUES
    | _group(Group.MOVEMENT)
    | {ops.PARAM, ops.BUFFER, ops.IOTA, ops.REDUCE_AXIS, ops.GATHER}
    | {ops.CONTIGUOUS, ops.COPY, ops.ASSIGN}
    | {ops.AFTER, ops.SINK},
    (SCALAR, NO_POINTERS, SINK_IS_ROOT),
)
TENSOR: Final = Level(
    "tensor",
    "a graph as functions on tensors built it, some values with a stated derivative",
    GRAPH.ops | {ops.PULLBACK},
    GRAPH.invariants,
)
RANGED: Final = Level(
    "ranged",
    "loops instead of axes: values at ranges, read by INDEX, kept by BUFFERIZE",
    _VALUES
    | _LOOPS
    | {ops.PARAM, ops.BUFFER, ops.CONTIGUOUS, ops.COPY, ops.ASSIGN, ops.AFTER, ops.SINK},
    (
        SCALAR,
        NO_POINTERS,
        SINK_IS_ROOT,
        VALIDITY,
        CLOSES_RANGES,
        BUFFERIZES_RANGES,
        UNIT_AXIS_INDEX,
    ),
)
KERNEL: Final = Level(
    "kernel",
    "one kernel: stores in loops over pointers that are its parameters",
    _VALUES | _LOOPS | _EFFECTS | {ops.PARAM, ops.DEFINE_LOCAL},
    (
        SCALAR,
        POINTER_PARAMETERS,
        SINK_IS_ROOT,
        VALIDITY,
        CLOSES_RANGES,
        BUFFERIZES_RANGES,
        FLAT_ACCESS,
        RANGES_ENDED,
    ),
    _SINK,
)
SCHEDULE: Final = Level(
    "schedule",
    "kernels run on buffers, in the order of their AFTERs",
    KERNEL.ops | {ops.CALL, ops.BUFFER, ops.COPY},
    (SINK_IS_ROOT, VALIDITY, CLOSES_RANGES, RANGES_ENDED),
)
THREADS: Final = Level(
    "threads",
    "a kernel whose parallel loops are the indices of blocks and threads, where there are such",
    KERNEL.ops | _MACHINE | {ops.VECTORIZE, ops.GEP, ops.VCONST},
    (POINTER_PARAMETERS, SINK_IS_ROOT, VALIDITY, CLOSES_RANGES, FLAT_ACCESS, RANGES_ENDED),
    _SINK,
)
LANES: Final = Level(
    "lanes",
    "a kernel whose unrolled iterations are lanes: of unrolled axes, or of vectors",
    KERNEL.ops | _MACHINE | _group(Group.VECTOR) | {ops.VCONST},
    (
        POINTER_PARAMETERS,
        SINK_IS_ROOT,
        VALIDITY,
        CLOSES_RANGES,
        FLAT_ACCESS,
        NO_LANE_RANGES,
        RANGES_ENDED,
    ),
    _SINK,
)
WORDS: Final = Level(
    "words",
    "lanes in the types of a machine: integers of a width, gates instead of masks",
    (LANES.ops | _TRUNCATING) - {ops.INVALID},
    (
        CONCRETE,
        POINTER_PARAMETERS,
        SINK_IS_ROOT,
        CLOSES_RANGES,
        FLAT_ACCESS,
        NO_LANE_RANGES,
        RANGES_ENDED,
    ),
    _SINK,
)
TARGET: Final = Level(
    "target",
    "a kernel in what a machine has: integers of a width, pointers, explicit loads and stores",
    _VALUES
    | _TRUNCATING
    | _EFFECTS
    | _MACHINE
    | {ops.PARAM, ops.RANGE, ops.INDEX, ops.VCONST, ops.VECTORIZE, ops.GEP, ops.CAT}
    | {ops.IF, ops.ENDIF},
    (
        CONCRETE,
        EXPLICIT_ACCESS,
        POINTER_PARAMETERS,
        SINK_IS_ROOT,
        CLOSES_RANGES,
        ONE_RANGE,
        FLAT_ACCESS,
        NO_LANE_RANGES,
        RANGES_ENDED,
    ),
    _SINK,
)
LINEAR: Final = Level(
    "linear",
    "a target kernel as a list of nodes in the order in which they run",
    TARGET.ops,
    TARGET.invariants,
)

LEVELS: Final = (TENSOR, GRAPH, RANGED, KERNEL, SCHEDULE, THREADS, LANES, WORDS, TARGET, LINEAR)
"""All levels, in the order of the pipeline."""
