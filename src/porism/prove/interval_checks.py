"""Interval checks: the bounds and residues of every op, tested on all small intervals.

A *box* is an interval for each operand. The functions of `porism.ir.facts.intervals` and
`porism.ir.facts.residues` are called on it as when a node is made, and their result must contain
the op's value for every value in the box. On `index` all intervals within -4 … 4 are tried, and
those that are infinite on a side, represented by values up to ±12; on fixed widths all intervals
between values near the limits and near zero, with every value in between.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import INFINITY, DType, Kind
from porism.ir import ops
from porism.ir.facts import intervals, residues, semantics
from porism.ir.facts.semantics import Array
from porism.ir.ops import Op
from porism.prove.arithmetic.op_meanings import DIVISIONS, SHIFTS

INDEX_EDGE: Final = 4
INDEX_FAR: Final = 12
ENDS: Final[dict[DType, tuple[int, ...]]] = {
    dtypes.i8: (-128, -127, -3, -1, 0, 1, 5, 126, 127),
    dtypes.u8: (0, 1, 2, 7, 9, 128, 254, 255),
}
TYPES: Final = (dtypes.index, dtypes.i8, dtypes.u8, dtypes.boolean)
MODULI: Final = (1, 2, 3, 4, 6)
MOST_OF_THREE: Final = 32
"""Values for each operand of a ternary op, where residues are tried."""


@dataclass(frozen=True, slots=True)
class Box:
    """An operand as a bounds function sees it: the attributes of a node that it reads."""

    vmin: int | float
    vmax: int | float
    dtype: DType
    residue: tuple[int, int] = residues.ANY
    op: Op = ops.VARIABLE


@dataclass(frozen=True, slots=True)
class BoundsCheck:
    """The outcome of checking one op on one type."""

    op: Op
    dtype: DType
    boxes: int
    seconds: float
    fault: str = ""

    @property
    def ok(self) -> bool:
        return not self.fault

    @property
    def name(self) -> str:
        return f"{self.op.name} on {self.dtype}"


def checked_ops() -> tuple[Op, ...]:
    """Return the ops that have a bounds or residue function."""
    return tuple(
        op
        for op in ops.table()
        if (op.elementwise or op is ops.CAST)
        and (op.bounds is not intervals.unknown or op.residue is not residues.unknown)
    )


def check(op: Op) -> list[BoundsCheck]:
    """Check the bounds and residues of an op on every type that it takes."""
    checks = []
    for dtype in TYPES:
        if not _takes(op, dtype):
            continue
        began = time.perf_counter()
        boxes, fault = 0, ""
        for tried in (_casts if op is ops.CAST else _intervals, _residues):
            for fault in tried(op, dtype):
                boxes += 1
                if fault:
                    break
            if fault:
                break
        checks.append(BoundsCheck(op, dtype, boxes, time.perf_counter() - began, fault))
    return checks


_ON_TRUTHS: Final = (*(ops.AND, ops.OR, ops.XOR, ops.NOT, ops.MAX, ops.MIN, ops.WHERE), ops.CAST)


def _takes(op: Op, dtype: DType) -> bool:
    if dtype.kind is Kind.BOOL:
        return op in _ON_TRUTHS or op.group is ops.COMPARISON
    return True


# -- values and meanings ---------------------------------------------------------------------------


def _values(dtype: DType) -> Array:
    if dtype.kind is Kind.INDEX:
        return np.arange(-INDEX_FAR, INDEX_FAR + 1)
    return np.arange(int(dtype.min), int(dtype.max) + 1).astype(dtype.numpy)


def _interval_list(dtype: DType, most: int | None = None) -> list[tuple[float | int, float | int]]:
    """Return all intervals between chosen ends of a type, of at most `most` values each."""
    if dtype.kind is Kind.INDEX:
        ends: list[int | float] = [*range(-INDEX_EDGE, INDEX_EDGE + 1)]
        ends = [-INFINITY, *ends, INFINITY]
    elif dtype.kind is Kind.BOOL:
        ends = [0, 1]
    else:
        ends = [*ENDS[dtype]]
    pairs = itertools.combinations_with_replacement(ends, 2)
    return [
        (low, high)
        for low, high in pairs
        if abs(low) + abs(high) != INFINITY or low != high
        if most is None or high - low <= most
    ]


def _place(dtype: DType, interval: tuple[float | int, float | int]) -> slice:
    """Return the positions of an interval's values among all values of the type."""
    first = -INDEX_FAR if dtype.kind is Kind.INDEX else int(dtype.min)
    last = INDEX_FAR if dtype.kind is Kind.INDEX else int(dtype.max)
    low, high = max(interval[0], first), min(interval[1], last)
    return slice(int(low) - first, int(high) - first + 1)


def _meaning(op: Op, dtype: DType, operands: Sequence[Array]) -> tuple[Array, Array]:
    """Return the results of an op as integers, and where it is defined."""
    assert op.meaning is not None
    shape = np.broadcast_shapes(*(o.shape for o in operands))
    defined = np.ones(shape, dtype=np.bool_)
    if dtype.kind is Kind.INDEX and (op in DIVISIONS or op in SHIFTS):
        a, b = operands
        good = b != 0 if op in DIVISIONS else b >= 0
        operands = (a, np.where(good, b, 1))
        defined = np.broadcast_to(good, shape)
    result = np.broadcast_to(op.meaning(dtype, *operands), shape)
    return result.astype(np.int64), defined


def _result_type(op: Op, dtype: DType) -> DType:
    return dtype.mask if op.group is ops.COMPARISON else dtype


def _fault(op: Op, boxes: Sequence[Box], low: Any, high: Any, given: Any) -> str:
    """Return a message if the given bounds do not contain the actual ones."""
    if given[0] <= low and high <= given[1]:
        return ""
    where = ", ".join(f"{b.vmin} … {b.vmax}" for b in boxes)
    return f"{op.name} of {where} takes the values {low} … {high}, its bounds are {given}"


# -- intervals -------------------------------------------------------------------------------------


def _intervals(op: Op, dtype: DType) -> Iterator[str]:
    """Yield for every box of intervals its fault, or an empty string."""
    if op is ops.WHERE:
        yield from _choices(op, dtype)
        return
    result = _result_type(op, dtype)
    values = _values(dtype)
    if op.arity == 3:
        yield from _small_boxes(op, dtype)
        return
    shaped = [values] if op.arity == 1 else [values[:, None], values[None, :]]
    table, defined = _meaning(op, dtype, shaped)
    lowest = np.where(defined, table, np.iinfo(np.int64).max)
    highest = np.where(defined, table, np.iinfo(np.int64).min)
    spans = _interval_list(dtype)
    for box in itertools.product(spans, repeat=op.arity):
        place = tuple(_place(dtype, span) for span in box)
        low, high = lowest[place].min(), highest[place].max()
        if low <= high:
            boxes = [Box(*span, dtype) for span in box]
            yield _fault(op, boxes, low, high, op.bounds(result, tuple(boxes), None))
    if op.arity == 2:
        for span in spans:  # the same node on both sides
            place = (_place(dtype, span),) * 2
            low, high = lowest[place].diagonal().min(), highest[place].diagonal().max()
            if low <= high:
                same = Box(*span, dtype)
                yield _fault(op, [same, same], low, high, op.bounds(result, (same, same), None))


def _small_boxes(op: Op, dtype: DType) -> Iterator[str]:
    """Yield faults of boxes of few values, for ops of three operands."""
    spans = [s for s in _interval_list(dtype, most=3) if math.isfinite(s[0] - s[1])][::2]
    values = {s: np.arange(s[0], s[1] + 1).astype(dtype.numpy) for s in spans}
    for box in itertools.product(spans, repeat=3):
        a, b, c = (values[s] for s in box)
        table, _ = _meaning(op, dtype, (a[:, None, None], b[None, :, None], c[None, None, :]))
        boxes = tuple(Box(*s, dtype) for s in box)
        yield _fault(op, boxes, table.min(), table.max(), op.bounds(dtype, boxes, None))


def _choices(op: Op, dtype: DType) -> Iterator[str]:
    spans = _interval_list(dtype)
    for condition in ((0, 0), (1, 1), (0, 1)):
        for yes, no in itertools.product(spans, repeat=2):
            chosen = [span for span, n in ((no, 0), (yes, 1)) if condition[0] <= n <= condition[1]]
            boxes = (Box(*condition, dtypes.boolean), Box(*yes, dtype), Box(*no, dtype))
            low, high = min(s[0] for s in chosen), max(s[1] for s in chosen)
            yield _fault(op, boxes, low, high, op.bounds(dtype, boxes, None))


def _casts(op: Op, dtype: DType) -> Iterator[str]:
    """Yield faults of casts from this type to each of the others."""
    values = _values(dtype)
    for target in (*TYPES, dtypes.i16, dtypes.u32):
        table = np.asarray(semantics.cast(dtype, target, values)).astype(np.int64)
        for span in _interval_list(dtype):
            some = table[_place(dtype, span)]
            box = Box(*span, dtype)
            yield _fault(op, [box], some.min(), some.max(), op.bounds(target, (box,), None))


# -- residues --------------------------------------------------------------------------------------


def _residue_boxes(dtype: DType) -> list[tuple[Box, Array]]:
    """Return operands with a known residue, each with the values that have it."""
    values = _values(dtype).astype(np.int64)
    spans = [(int(values[0]), int(values[-1])), (0, 7)]
    if dtype.kind is Kind.INDEX:
        spans[0] = (-INDEX_FAR, INDEX_FAR)
    outcome = []
    for low, high in spans:
        inside = values[(values >= low) & (values <= high)]
        for m in MODULI:
            for r in range(m):
                some = inside[inside % m == r]
                outcome.append((Box(low, high, dtype, residues.canonical(m, r)), some))
    constants = {0, 1, 2, 3, 4, 6, *(n for n in (-1, -2, -4) if n >= dtype.min)}
    constants |= {int(values[0]), int(values[-1])}
    outcome += [(Box(n, n, dtype, (0, n)), np.asarray([n])) for n in sorted(constants)]
    return [(box, some.astype(dtype.numpy)) for box, some in outcome]


def _residues(op: Op, dtype: DType) -> Iterator[str]:
    """Yield for every combination of residues its fault, or an empty string."""
    if op.residue is residues.unknown or dtype.kind is Kind.BOOL:
        return
    operands = _residue_boxes(dtype)
    if op is ops.CAST:
        for target in (dtypes.index, dtypes.i8, dtypes.u8, dtypes.i16):
            for box, some in operands:
                table = np.asarray(semantics.cast(dtype, target, some)).astype(np.int64)
                yield _residue_fault(op, (box,), table, op.residue(target, (box,), None))
        return
    if op is ops.WHERE:
        condition = Box(0, 1, dtypes.boolean)
        for (a, some), (b, more) in itertools.product(operands, repeat=2):
            choice = (condition, a, b)
            table = np.concatenate([some, more]).astype(np.int64)
            yield _residue_fault(op, choice, table, op.residue(dtype, choice, None))
        return
    values = _values(dtype)
    if op.arity == 3:
        operands = operands[::5]
        values = values[:: max(1, len(values) // MOST_OF_THREE)]
    table, defined = _meaning(op, dtype, np.ix_(*[values] * op.arity))
    placed = [(box, np.flatnonzero(np.isin(values, some))) for box, some in operands]
    for chosen in itertools.product(placed, repeat=op.arity):
        boxes = tuple(box for box, _ in chosen)
        place = np.ix_(*[where for _, where in chosen])
        there = table[place][defined[place]]
        if there.size:
            yield _residue_fault(op, boxes, there, op.residue(dtype, boxes, None))


def _residue_fault(op: Op, boxes: Sequence[Box], table: Array, given: tuple[int, int]) -> str:
    m, r = given
    right = table == r if m == 0 else (table - r) % m == 0
    if right.all():
        return ""
    where = ", ".join(f"{b.residue} in {b.vmin} … {b.vmax}" for b in boxes)
    return f"{op.name} of {where} can be {table[~right][0]}, its residue is {given}"
