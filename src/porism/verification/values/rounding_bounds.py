"""Rounding bounds: how far a computed number may be from what another order of evaluation gives.

A bound goes with every float. It is zero (None for a whole array) as long as only whole numbers are
met that the type represents exactly: then every order gives the same bits, and a term that is left
out or taken twice cannot hide behind a tolerance. Other numbers get the rounding of their op, and
what the op makes of the bounds of its operands, which is found by moving each of them by its bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from porism.base.dtypes import DType, f64
from porism.evaluate.op_evaluation import meaning
from porism.ir import ops
from porism.ir.facts import semantics
from porism.ir.facts.semantics import Array
from porism.ir.ops import Op

Bound = Array | None
"""For each element the largest rounding difference; None if all are exact."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """Values with their rounding bounds, and a mask of missing ones (those at an INVALID index)."""

    data: Array
    bound: Bound = None
    missing: Array | None = None


UNITS: Final = {
    **dict.fromkeys((ops.ADD, ops.SUB, ops.MUL, ops.MULACC, ops.FDIV, ops.SQRT, ops.LDEXP), 2.0),
    ops.RECIPROCAL: 2.0,
    ops.POW: 256.0,
}
"""Units in the last place by which results of an op may differ, where it is not exact."""

FUNCTION_UNITS: Final = 16.0
"""The same for a function such as the sine, of which targets have approximations."""

EXACT: Final = frozenset(
    {ops.NEG, ops.NOT, ops.WHERE, ops.MAX, ops.MIN, ops.TRUNC, ops.FLOOR, ops.CEIL, ops.ROUND}
    | {op for op in ops.table() if op.group is ops.COMPARISON}
)
"""Ops that round nothing."""

REDUCED_UNITS: Final = 8.0
"""Units for a sum, beside the root of the number of its terms."""


def wide(lane: DType, data: Array) -> Array:
    """Return numbers of a type as f64."""
    return np.asarray(semantics.cast(lane, f64, data))


def unit(lane: DType) -> float:
    """Return the distance from 1 to the next larger number of a float type."""
    return 2.0 ** (1 - lane.precision)


def rounded(lane: DType, data: Array, units: float) -> Bound:
    """Return the bound of newly rounded numbers: none where they are exact integers."""
    numbers = np.abs(wide(lane, data))
    with np.errstate(all="ignore"):
        whole = (numbers == np.trunc(numbers)) & (numbers <= 2.0**lane.precision)
        off = np.where(whole | ~np.isfinite(numbers), 0.0, numbers * (units * unit(lane)))
    return off if off.any() else None


def of_op(op: Op, lane: DType, data: Sequence[Array], bounds: Sequence[Bound],
          result: Array, result_type: DType) -> Bound:  # fmt: skip
    """Return the bound of the result of an op on operands with bounds.

    `lane` is the type of the last operand, `made` that of the result.
    """
    total: Bound = None
    if result_type.is_float and op not in EXACT:
        total = rounded(result_type, result, UNITS.get(op, FUNCTION_UNITS))
    for k, bound in enumerate(bounds):
        if bound is None:
            continue
        unknown = ~np.isfinite(bound)
        for side in (-1.0, 1.0):
            moved = list(data)
            moved[k] = _perturb(lane, data[k], bound, side)
            other = meaning(op, lane, *moved)
            total = _add_bounds(total, _distance(result_type, result, other))
        if unknown.any():
            hidden = unknown if op is not ops.WHERE else unknown & _chosen(data[0], k, unknown)
            total = _add_bounds(total, np.where(hidden, np.inf, 0.0))
    return total


def _chosen(condition: Array, operand: int, unknown: Array) -> Array:
    """Return where an operand of WHERE is selected."""
    if operand == 0:
        return np.ones_like(unknown)
    return np.asarray(condition if operand == 1 else ~condition, np.bool_)


def _perturb(lane: DType, data: Array, bound: Array, side: float) -> Array:
    """Return numbers moved by their bounds to one side."""
    if not lane.is_float:
        return data
    with np.errstate(all="ignore"):
        away = wide(lane, data) + side * np.where(np.isfinite(bound), bound, 0.0)
    return np.asarray(semantics.cast(f64, lane, away))


def _distance(result_type: DType, a: Array, b: Array) -> Array:
    """Return the distance of results; infinite where they are not floats and differ."""
    if not result_type.is_float:
        return np.where(a == b, 0.0, np.inf)
    x, y = wide(result_type, a), wide(result_type, b)
    with np.errstate(all="ignore"):
        off = np.abs(x - y)
    return np.where(
        (x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.where(np.isnan(off), np.inf, off)
    )


def _add_bounds(a: Bound, b: Bound) -> Bound:
    """Return the sum of two bounds."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def of_cast(source: DType, target: DType, data: Array, bound: Bound, result: Array) -> Bound:
    """Return the bound of a cast."""
    total: Bound = None
    if target.is_float and target.precision < _precision(source):
        back = np.asarray(semantics.cast(target, source, result))
        exact = back == data
        if not exact.all():
            near = np.abs(wide(target, result)) * unit(target)
            total = np.where(exact | ~np.isfinite(near), 0.0, near)
    if bound is None:
        return total
    for side in (-1.0, 1.0):
        other = np.asarray(semantics.cast(source, target, _perturb(source, data, bound, side)))
        total = _add_bounds(total, _distance(target, result, other))
    return _add_bounds(total, np.where(np.isfinite(bound), 0.0, np.inf))


def _precision(dtype: DType) -> int:
    return dtype.precision if dtype.is_float else 65


# -- reductions ------------------------------------------------------------------------------------

_LARGE: Final = {
    (64, 53): 2.0**1023, (32, 24): 2.0**127, (16, 11): 2.0**15, (16, 8): 2.0**127,
    (8, 4): 448.0, (8, 3): 2.0**15,
}  # fmt: skip
"""For the bits and the precision of a float type a power of two near its largest number."""

_FOLDS: Final = {
    ops.ADD: np.add,
    ops.MUL: np.multiply,
    ops.MAX: np.maximum,
    ops.MIN: np.minimum,
    ops.AND: np.bitwise_and,
    ops.OR: np.bitwise_or,
    ops.XOR: np.bitwise_xor,
}


def reduce(op: Op, lane: DType, data: Array, bound: Bound) -> tuple[Array, Bound]:
    """Return the first axis reduced, which is not empty, and the bound of the result."""
    fold = _FOLDS[op]
    if not lane.is_float:
        result = np.asarray(fold.reduce(data, axis=0, dtype=data.dtype))
        unsure = None if bound is None else _broadcast(bound, data.shape).max(axis=0)
        return result, unsure
    numbers = wide(lane, data)
    with np.errstate(all="ignore"):
        total = np.asarray(fold.reduce(numbers, axis=0))
        result = np.asarray(semantics.cast(f64, lane, total))
        return result, _reduced_bound(op, lane, numbers, bound, total)


def combine(op: Op, lane: DType, total: Bounded, chunk: Bounded) -> Bounded:
    """Return the reduction of two partial results."""
    both = np.asarray(np.stack(np.broadcast_arrays(total.data, chunk.data)))
    bounds: Bound = None
    if total.bound is not None or chunk.bound is not None:
        bounds = np.stack(
            [
                np.broadcast_to(0.0 if b is None else b, chunk.data.shape)
                for b in (total.bound, chunk.bound)
            ]
        )
    data, bound = reduce(op, lane, both, bounds)
    return Bounded(data, bound)


def _broadcast(bound: Array, dims: tuple[int, ...]) -> Array:
    return np.broadcast_to(bound, dims)


def _reduced_bound(op: Op, lane: DType, numbers: Array, bound: Bound, total: Array) -> Bound:
    """Return the bound of a float reduction: its own rounding, and that of its terms."""
    off = None if bound is None else _broadcast(bound, numbers.shape)
    if op in (ops.MAX, ops.MIN):
        return None if off is None else off.max(axis=0)
    count = len(numbers)
    limit = 2.0**lane.precision
    whole = np.all(numbers == np.trunc(numbers), axis=0)
    if op is ops.ADD:
        size = np.abs(numbers).sum(axis=0)
        whole &= size <= limit
        own = size * (unit(lane) * (REDUCED_UNITS + np.sqrt(count)))
        more = None if off is None else off.sum(axis=0)
        largest = size
    else:
        size = np.abs(total)
        largest = np.multiply.reduce(np.maximum(np.abs(numbers), 1.0))
        whole &= np.abs(np.multiply.reduce(np.where(numbers == 0, 1.0, numbers))) <= limit
        own = size * (unit(lane) * 2.0 * count)
        more = None
        if off is not None:
            away = np.multiply.reduce(np.abs(numbers) + off, axis=0) - size
            more = np.where(np.isfinite(away), away, np.inf)
    own = np.where(whole | ~np.isfinite(total), 0.0, own)
    if np.isfinite(numbers).all():  # in another order, a part of it may overflow
        own = np.where(largest > _largest(lane), np.inf, own)
    total_bound = own if more is None else own + more
    return total_bound if total_bound.any() else None


def _largest(lane: DType) -> float:
    """Return a number near the largest of a float type."""
    return _LARGE[lane.bits, lane.precision]


def agree(lane: DType, expected: Array, bound: Bound, computed: Array) -> Array:
    """Return where computed numbers are the expected ones, within their bounds."""
    if not lane.is_float:
        same = np.asarray(expected == computed)
        return same if bound is None else np.asarray(same | (bound > 0))
    x, y = wide(lane, expected), wide(lane, computed)
    same = np.asarray((x == y) | (np.isnan(x) & np.isnan(y)))
    if bound is None:
        return same
    with np.errstate(all="ignore"):
        return np.asarray(same | (np.abs(x - y) <= bound) | ~np.isfinite(bound))
