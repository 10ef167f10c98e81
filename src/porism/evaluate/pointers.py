"""Places: where in memory a pointer or an INDEX leads.

A place is a memory, the address of a scalar in it for each lane, and the condition (`gate`) under
which it may be touched. An address stands for itself, or for as many consecutive elements as an
access has lanes for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import Kind
from porism.base.errors import EvaluationError
from porism.evaluate.faults import Fault, failure
from porism.evaluate.op_evaluation import conjunction, meaning
from porism.evaluate.threads.tracked_memory import Memory
from porism.evaluate.varying_value import GOOD, Aligned, Value, merge, narrowed, settled
from porism.ir import ops
from porism.ir.facts import semantics
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp


@dataclass(slots=True)
class Place:
    """Addresses in a memory; `value` is what an INDEX read there, where the element is wanted."""

    memory: Memory
    address: Value
    gate: Value | None = None
    value: Value | None = None


_ZERO = Value(np.zeros(1, np.int64))


def start_of(base: Memory | Place) -> Place:
    """A pointer to the first element."""
    return Place(base, _ZERO) if isinstance(base, Memory) else base


# -- addresses -------------------------------------------------------------------------------------


def place_of(
    node: UOp, base: Memory | Place, indices: Sequence[Value], gate: Value | None
) -> Place:
    """INDEX into memory: of a tensor by one index a dimension, of a pointer by one index."""
    buffer = node.src[0].dtype
    counted = [as_index(value, s) for value, s in zip(indices, node.src[1:], strict=False)]
    if buffer.kind is not Kind.POINTER:
        assert isinstance(base, Memory)
        dims = base.dims or ()
        if len(dims) != len(counted):
            raise wrong_rank(node, len(dims), len(counted))
        address = flat(node, counted, dims)
        return Place(base, times(address, buffer.count), gate)
    if len(counted) > 1:
        raise wrong_rank(node, 1, len(counted))
    place = start_of(base)
    if counted:
        offset = times(counted[0], buffer.element.count)
        address = offset if place.address is _ZERO else _plus(node, place.address, offset)
        place = Place(place.memory, address, place.gate)
    if gate is None:
        return place
    return Place(place.memory, place.address, _both(node, place.gate, gate))


def wrong_rank(node: UOp, wanted: int, got: int) -> EvaluationError:
    return failure(
        Fault(
            node,
            f"{got} indices for a buffer of {wanted} dimensions",
            "an INDEX has one index for each dimension, and a pointer has one",
            "flatten the indices, or give the buffer its dims",
        )
    )


def as_index(value: Value, source: UOp) -> Value:
    if source.dtype.kind is Kind.INDEX:
        return value
    data = narrowed(np.asarray(semantics.cast(source.dtype, dtypes.index, value.data)))
    return Value(data, value.axes, value.rank, value.state)


def flat(node: UOp, indices: Sequence[Value], dims: Sequence[int]) -> Value:
    """The row-major address; -1 where an index is outside of its dimension."""
    if not indices:
        return _ZERO
    aligned = Aligned(indices, node)
    address: Array = np.zeros(1, np.int64)
    inside: Any = np.bool_(True)
    for data, size in zip(aligned.data, dims, strict=True):
        fits = np.asarray((data >= 0) & (data < size), np.bool_)
        inside = inside & fits
        address = address * size + np.where(fits, data, 0).astype(np.int64)
    return aligned.value(np.where(inside, address, -1), merge(aligned.states))


def times(value: Value, factor: int) -> Value:
    if factor == 1:
        return value
    scaled = meaning(ops.MUL, dtypes.index, value.data, np.asarray([factor]))
    return Value(scaled, value.axes, value.rank, value.state)


def _plus(node: UOp, a: Value, b: Value) -> Value:
    aligned = Aligned((a, b), node)
    return aligned.value(
        meaning(ops.ADD, dtypes.index, *aligned.data),
        merge(aligned.states),
    )


def _both(node: UOp, a: Value | None, b: Value) -> Value:
    return b if a is None else conjunction(node, a, b)


def joined(node: UOp, places: Sequence[Place]) -> Place:
    """PTRCAT: the addresses of several pointers as the lanes of one access."""
    memory = places[0].memory
    if any(p.memory is not memory for p in places):
        raise failure(
            Fault(
                node,
                "pointers to different buffers are joined",
                "one access goes to one buffer",
                "load from each buffer and join the values with CAT",
            )
        )
    counts = [s.dtype.element.count for s in node.src]
    address = _lanes_of(node, [p.address for p in places], counts)
    if all(p.gate is None for p in places):
        return Place(memory, address)
    true = Value(np.ones(1, np.bool_))
    gates = [true if p.gate is None else p.gate for p in places]
    return Place(memory, address, _lanes_of(node, gates, counts))


def _lanes_of(node: UOp, values: Sequence[Value], counts: Sequence[int]) -> Value:
    """Lanes side by side; an address stands for `count` neighbours."""
    aligned = Aligned(values, node)
    parts, states = [], []
    for data, state, count in zip(aligned.data, aligned.states, counts, strict=True):
        lanes = max(count, data.shape[-1])
        parts.append(neighbours(data, lanes))
        states.append(repeated(np.int32(GOOD) if state is None else state, lanes))
    whole = np.broadcast_shapes(*(p.shape[:-1] for p in parts))
    data = np.concatenate([np.broadcast_to(p, (*whole, p.shape[-1])) for p in parts], axis=-1)
    state = np.concatenate(
        [np.broadcast_to(s, (*whole, p.shape[-1])) for s, p in zip(states, parts, strict=True)],
        axis=-1,
    )
    return aligned.value(data, settled(state))


def neighbours(address: Array, lanes: int) -> Array:
    """One address a lane: each of those given stands for as many consecutive elements."""
    own = address.shape[-1]
    if own == lanes or address.dtype == np.bool_:
        return repeated(address, lanes)
    step = lanes // own
    return (address[..., None] + np.arange(step)).reshape((*address.shape[:-1], own * step))


def repeated(array: Array | Any, lanes: int) -> Array:
    """The same for each of the consecutive elements."""
    if np.ndim(array) == 0 or array.shape[-1] in (1, lanes):
        return np.asarray(array)
    return np.repeat(array, lanes // array.shape[-1], axis=-1)
