"""Op evaluation: constants, arithmetic, conversions, reductions and vector ops on values.

The arithmetic itself is `op.meaning`; here operands are aligned, states are propagated, and
operands for which an op is undefined are replaced before NumPy computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from porism.base.dtypes import DType, Kind, Scalar
from porism.base.errors import EvaluationError
from porism.evaluate.faults import Fault, Faults, describe, failure
from porism.evaluate.varying_value import (
    GOOD,
    INVALID,
    Aligned,
    Axes,
    AxisName,
    Value,
    align_axes,
    broadcast_axes,
    merge_states,
    narrow_integers,
    none_if_good,
    select_state,
    union_axes,
    widen_integers,
)
from porism.ir import ops
from porism.ir.facts import semantics
from porism.ir.facts.reduction_identity import identity
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.ops import Op

# -- constants -------------------------------------------------------------------------------------


def number(dtype: DType, value: Scalar) -> Value:
    """Return a constant with the same number in every lane."""
    return Value(np.repeat(semantics.array_of(dtype.element, value), dtype.count))


def constant(node: UOp) -> Value:
    """Return the value of a CONST or VCONST."""
    if node.op is ops.CONST:
        return number(node.dtype, node.arg)
    lanes = [semantics.array_of(node.dtype.element, lane) for lane in node.arg]
    return Value(np.stack(lanes))


def no_element(node: UOp) -> Value:
    """Return the value of INVALID: zeros, all in the state INVALID."""
    zeros = number(node.dtype, 0).data
    return Value(zeros, state=np.full(zeros.shape, INVALID, np.int32))


# -- arithmetic ------------------------------------------------------------------------------------

_DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD})
_SHIFTS: Final = frozenset({ops.SHL, ops.SHR})
_GUARDED: Final = _DIVISIONS | _SHIFTS | {ops.POW}


def meaning(op: Op, lane: DType, *arrays: Array) -> Array:
    """Return what an op computes of operands of the scalar type `lane`; exact on `index`."""
    assert op.meaning is not None
    if lane.kind is not Kind.INDEX:
        result = op.meaning(lane, *arrays)
        return result if isinstance(result, np.ndarray) else np.asarray(result)
    result = np.asarray(op.meaning(lane, *widen_integers(op, list(arrays))))
    return result if op.group is ops.COMPARISON else narrow_integers(result)


def elementwise(node: UOp, values: Sequence[Value], faults: Faults) -> Value:
    """Return the value of an elementwise op."""
    op = node.op
    aligned = Aligned(values, node)
    data = aligned.data
    lane = node.src[-1].dtype.element
    if op is ops.WHERE:
        return aligned.value(meaning(op, lane, *data), _state_of_choice(aligned))
    if lane.kind is Kind.BOOL and (op is ops.AND or op is ops.OR):
        return aligned.value(meaning(op, lane, *data), _state_of_logic(op, aligned))
    state = merge_states(aligned.states)
    if lane.kind is Kind.INDEX and op in _GUARDED:
        data[1], state = _defined_operand(node, data[1], state, faults)
    return aligned.value(meaning(op, lane, *data), state)


def _state_of_choice(aligned: Aligned) -> Array | None:
    """Return the state of a WHERE: that of the selected element."""
    condition, yes, no = aligned.states
    chosen = select_state(aligned.data[0], yes, no)
    if condition is None:
        return chosen
    if chosen is None:
        return condition
    return np.where(condition != GOOD, condition, chosen)


def _state_of_logic(op: Op, aligned: Aligned) -> Array | None:
    """Return the state of AND and OR: false & x is false and true | x is true for every x.

    So conditions can be joined: WHERE(a, WHERE(b, x, y), y) is WHERE(a & b, x, y) even where `b`
    makes sense only under `a`.
    """
    state = merge_states(aligned.states)
    if state is None:
        return None
    decided: Any = np.bool_(False)
    for data, own in zip(aligned.data, aligned.states, strict=True):
        deciding = data if op is ops.OR else ~data
        decided = decided | (deciding if own is None else deciding & (own == GOOD))
    return none_if_good(np.where(decided, np.int32(GOOD), state))


def conjunction(node: UOp, a: Value, b: Value) -> Value:
    """Return the conjunction of two conditions."""
    aligned = Aligned((a, b), node)
    both, state = aligned.data[0] & aligned.data[1], _state_of_logic(ops.AND, aligned)
    return aligned.value(both, state)


def _defined_operand(
    node: UOp, second: Array, state: Array | None, faults: Faults
) -> tuple[Array, Array | None]:
    """Return a second operand for which the op is defined on `index`, and the new state."""
    op = node.op
    if op in _DIVISIONS:
        bad, safe = second == 0, 1
        state = faults.mark(
            state,
            np.asarray(bad, np.bool_),
            node,
            f"{op.name} by zero",
            "division by zero is undefined on index",
            "guard it: WHERE(divisor != 0, quotient, other), or prove the divisor positive",
        )
        return np.where(bad, safe, second).astype(second.dtype), state
    if op in _SHIFTS:
        bad, safe = second < 0, 0
        state = faults.mark(
            state,
            np.asarray(bad, np.bool_),
            node,
            f"{op.name} by a negative amount",
            "shifting by less than 0 is undefined on index",
            "guard it: WHERE(amount >= 0, shifted, other)",
        )
    if state is None:
        return second, None
    # what is not used may be anything, and a shift or power of it might fill the memory
    return np.where(state != GOOD, 0, second).astype(second.dtype), state


def convert(node: UOp, value: Value) -> Value:
    """Return the value of a CAST or BITCAST."""
    source, target = node.src[0].dtype.element, node.dtype.element
    convert = semantics.cast if node.op is ops.CAST else semantics.bitcast
    data = np.asarray(convert(source, target, value.data))
    if target.kind is Kind.INDEX:
        data = narrow_integers(data)
    return Value(data, value.axes, value.rank, value.state)


# -- reductions ------------------------------------------------------------------------------------


def reduce_first_axis(
    node: UOp,
    op: Op,
    data: Array,
    state: Array | None,
    active: Array | None,
    faults: Faults,
) -> tuple[Array, Array | None]:
    """Reduce the first axis, in order, from the identity on; only `active` iterations count."""
    lane = node.dtype.element
    start = identity(op, lane)
    if state is not None:
        state = np.broadcast_to(state, data.shape)
        state = merge_states(state if active is None else np.where(active, state, np.int32(GOOD)))
    if start is not None:
        total = _initial(lane, lane.canonical(start), data)
        return _fold(op, lane, total, data, active), state
    # no identity: begin with the first iteration there is
    shape = data.shape[1:]
    some = np.full(shape, len(data) > 0) if active is None else np.any(active, axis=0)
    state = faults.mark(
        state,
        np.broadcast_to(~some, shape),
        node,
        f"a {op.name} of no elements",
        "index is unbounded, so there is no largest or smallest value to begin with",
        "guard it with the range's size, or reduce in a fixed-width type",
    )
    if len(data) == 0:
        return np.zeros(shape, np.int64), state
    if active is None:
        return _fold(op, lane, data[0], data[1:], None), state
    first = np.argmax(np.broadcast_to(active, data.shape), axis=0)
    total = np.take_along_axis(data, first[None], axis=0)[0]
    return _fold(op, lane, total, data, active), state


def _initial(lane: DType, value: Scalar, data: Array) -> Array:
    """Return the start of a reduction, in the shape and type of its result."""
    total = np.broadcast_to(semantics.array_of(lane, value), data.shape[1:])
    return total.astype(data.dtype) if lane.kind is not Kind.INDEX else total


_MAX_SEQUENTIAL: Final = 64
"""Iterations from which on an exact reduction is done in halves; chosen by hand."""


def _fold(op: Op, lane: DType, total: Array, data: Array, active: Array | None) -> Array:
    """Fold the iterations in order; in halves where the order makes no difference."""
    if active is None and not lane.is_float:
        while len(data) > _MAX_SEQUENTIAL:
            half = len(data) // 2
            paired = meaning(op, lane, data[:half], data[half : 2 * half])
            data = np.concatenate([paired, data[2 * half :]]) if len(data) % 2 else paired
    for k in range(len(data)):
        combined = meaning(op, lane, total, data[k])
        total = combined if active is None else np.where(active[k], combined, total)
    return total


# -- vectors ---------------------------------------------------------------------------------------


def concatenate(node: UOp, values: Sequence[Value]) -> Value:
    """Return the value of a VECTORIZE or CAT."""
    aligned = Aligned(values, node)
    whole = np.broadcast_shapes(*(d.shape[:-1] for d in aligned.data))
    parts = [np.broadcast_to(d, (*whole, d.shape[-1])) for d in aligned.data]
    state: Array | None = None
    if any(s is not None for s in aligned.states):
        state = np.concatenate(
            [
                np.broadcast_to(np.int32(GOOD) if s is None else s, d.shape)
                for s, d in zip(aligned.states, parts, strict=True)
            ],
            axis=-1,
        )
    return aligned.value(np.concatenate(parts, axis=-1), state)


def select_lanes(node: UOp, value: Value) -> Value:
    """Return the value of a GEP."""
    lanes = list(node.arg)
    state = None if value.state is None else value.states[..., lanes]
    return Value(value.data[..., lanes], value.axes, value.rank, none_if_good(state))


def unroll_lanes(node: UOp, value: Value, sizes: dict[AxisName, int]) -> Value:
    """Return the value of an UNROLL: lanes become named axes, the last axis fastest.

    Lane `n` is at position `n // rest` of the axes, where `rest` lanes are left.
    """
    for axis, size in node.arg:
        if axis in value.axes or sizes.setdefault(axis, size) != size:
            known = sizes[axis]
            raise EvaluationError(
                f"axis {axis} is unrolled twice, to {known} and to {size}",
                where=node.op.name,
                why="an unrolled axis has one size, and a value varies with it once",
                fix="give the second one another number",
            )
    names = tuple(axis for axis, _ in node.arg)
    split = tuple(size for _, size in node.arg)
    axes = union_axes((value.axes, *((name,) for name in names)))

    def rearrange(array: Array) -> Array:
        own = len(value.axes)
        parts = array.reshape((*array.shape[:-1], *split, -1))
        first = parts.ndim - 1 - len(names)
        place = {name: first + k for k, name in enumerate(names)}
        place |= {name: k for k, name in enumerate(value.axes)}
        order = [place[a] for a in axes] + [*range(own, first), parts.ndim - 1]
        return parts.transpose(order)

    state = None if value.state is None else rearrange(value.states)
    return Value(rearrange(value.data), axes, value.rank, state)


def contract_axes(node: UOp, value: Value, sizes: dict[AxisName, int]) -> Value:
    """Return the value of a CONTRACT: axes become lanes, the last fastest, then the old lanes."""
    for axis, size in node.arg:
        if sizes.setdefault(axis, size) != size:
            raise EvaluationError(
                f"axis {axis} is unrolled to {sizes[axis]} and contracted from {size}",
                where=node.op.name,
                why="an unrolled axis has one size",
                fix="contract all of it",
            )
    names = tuple(axis for axis, _ in node.arg)
    value = broadcast_axes(value, names, sizes)
    outer = tuple(axis for axis in value.axes if axis not in names)

    def rearrange(array: Array) -> Array:
        place = {axis: k for k, axis in enumerate(value.axes)}
        last = array.ndim - 1
        dims = range(len(value.axes), last)
        order = [*(place[a] for a in outer), *dims, *(place[n] for n in names), last]
        ordered = array.transpose(order)
        return ordered.reshape((*ordered.shape[: len(outer) + len(dims)], -1))

    state = None if value.state is None else rearrange(value.states)
    return Value(rearrange(value.data), outer, value.rank, state)


def matrix_product(node: UOp, a: Value, b: Value, c: Value) -> Value:
    """Return the value of a WMMA `(name, (m, n, k), …)`: c + a·b, summed along k in order.

    `a` has m*k lanes, `b` k*n and `c` m*n, in row-major order. Products and sums are computed in
    the type of `c`.
    """
    sizes: Any = node.arg[1] if len(node.arg) > 1 else None
    good = isinstance(sizes, tuple) and len(sizes) == 3 and all(type(n) is int for n in sizes)
    m, n, k = sizes if good else (0, 0, 0)
    if not good or (a.lanes, b.lanes, c.lanes) != (m * k, k * n, m * n):
        raise failure(
            Fault(
                node,
                f"a WMMA of {a.lanes}, {b.lanes} and {c.lanes} lanes as {node.arg!r}",
                "for (name, (m, n, k)) its sources have m*k, k*n and m*n lanes",
                "give the sizes of the matrices as the second part of the argument",
            )
        )
    aligned = Aligned((a, b, c), node)
    lane = node.dtype.element
    left, right, total = (
        d.reshape((*d.shape[:-1], *shape))
        for d, shape in zip(aligned.data, ((m, k), (k, n), (m, n)), strict=True)
    )
    left = np.asarray(semantics.cast(node.src[0].dtype, lane, left))
    right = np.asarray(semantics.cast(node.src[1].dtype, lane, right))
    for i in range(k):
        product = meaning(ops.MUL, lane, left[..., :, i, None], right[..., None, i, :])
        total = meaning(ops.ADD, lane, total, product)
    state = merge_states(
        None if s is None else s.max(axis=-1, keepdims=True) for s in aligned.states
    )
    invalid = merge_states(
        None if s is None else s.min(axis=-1, keepdims=True) for s in aligned.states
    )
    if state is not None and invalid is not None:
        state = np.where(invalid == INVALID, np.int32(INVALID), state)
    return aligned.value(total.reshape((*total.shape[:-2], -1)), state)


def reduce_over(
    node: UOp,
    op: Op,
    value: Value,
    axes: Sequence[AxisName],
    sizes: Mapping[AxisName, int],
    active: Value | None,
    faults: Faults,
) -> Value:
    """Reduce named axes as nested loops in this order; `active` says which iterations run."""
    parts = (value.axes, tuple(axes)) if active is None else (value.axes, tuple(axes), active.axes)
    whole = union_axes(parts)
    value = broadcast_axes(value, whole, sizes)
    outer = tuple(axis for axis in whole if axis not in axes)
    order = list(dict.fromkeys(axes))
    places = [whole.index(axis) for axis in order]
    count = int(np.prod([sizes[axis] for axis in order], dtype=np.int64))

    def iterations(array: Array) -> Array:
        rearrange = np.moveaxis(array, places, range(len(places)))
        return rearrange.reshape((count, *rearrange.shape[len(places) :]))

    mask: Array | None = None
    if active is not None:
        own = align_axes(active.data, active.axes, 0, whole, value.rank)
        mask = iterations(np.broadcast_to(own, (*value.data.shape[:-1], 1)))
    state = None if value.state is None else iterations(value.states)
    data, state = reduce_first_axis(node, op, iterations(value.data), state, mask, faults)
    return Value(data, outer, value.rank, state)


# -- elements of a BUFFERIZE -----------------------------------------------------------------------


class BufferizedElements:
    """The elements of a BUFFERIZE, collected over its iterations."""

    def __init__(self, node: UOp, dims: Sequence[int], example: Value, axes: Axes) -> None:
        sizes = dict(zip(example.axes, example.data.shape, strict=False))
        self.axes = tuple(axis for axis in example.axes if axis not in axes)
        self.dims = tuple(dims)
        shape = (*(sizes[axis] for axis in self.axes), *dims, node.dtype.count)
        self.data: Array = np.zeros(shape, example.data.dtype)
        self.state: Array = np.full(shape, GOOD, np.int32)
        self.written: Array = np.zeros(shape, np.bool_)

    def put(self, value: Value, indices: Sequence[Value], active: Array | None) -> None:
        """Store each element at its indices, if its iteration is active."""
        whole = value.data.shape[:-1]
        if value.data.dtype == object and self.data.dtype != object:
            self.data = self.data.astype(object)
        own = [
            align_axes(
                np.arange(value.data.shape[value.axes.index(a)])[:, None], (a,), 0, value.axes, 0
            )
            for a in self.axes
        ]
        positions = [align_axes(v.data, v.axes, 0, value.axes, 0) for v in indices]
        where = tuple(np.broadcast_to(w[..., 0], whole) for w in (*own, *positions))
        happens = np.broadcast_to(np.bool_(True) if active is None else active[..., 0], whole)
        chosen = tuple(w[happens].astype(np.int64) for w in where) if where else ...
        source = happens if where else ...
        self.data[chosen] = value.data[source]
        self.state[chosen] = value.states[source]
        self.written[chosen] = True

    def value(self, node: UOp, faults: Faults) -> Value:
        """Return all elements, with a fault where none was stored."""
        state = faults.mark(
            self.state,
            ~self.written,
            node,
            f"an element of {describe(node)} is read that was never written",
            "no iteration of its ranges has that index",
            "let the ranges cover the dims, or mask the read",
        )
        return Value(self.data, self.axes, len(self.dims), none_if_good(state))
