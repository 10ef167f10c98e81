"""Pointers: the memory and the addresses that a pointer or an INDEX refers to.

A pointer has a memory, the address of a scalar in it for each lane, and a condition (`gate`) under
which the access happens. If an access has more lanes than addresses, each address is the first of
several consecutive elements.
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
from porism.evaluate.varying_value import (
    GOOD,
    Aligned,
    Value,
    merge_states,
    narrow_integers,
    none_if_good,
)
from porism.ir import ops
from porism.ir.facts import semantics
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp


@dataclass(slots=True)
class Pointer:
    """Addresses in a memory; `value` is the element that an INDEX read, if the element is used."""

    memory: Memory
    address: Value
    gate: Value | None = None
    value: Value | None = None


_ZERO = Value(np.zeros(1, np.int64))


def as_pointer(base: Memory | Pointer) -> Pointer:
    """Return a pointer to the first element of a memory; a pointer as it is."""
    return Pointer(base, _ZERO) if isinstance(base, Memory) else base


# -- addresses -------------------------------------------------------------------------------------


def pointer_of(
    node: UOp, base: Memory | Pointer, indices: Sequence[Value], gate: Value | None
) -> Pointer:
    """Return the pointer of an INDEX: one index per dimension of a tensor, or one of a pointer."""
    buffer = node.src[0].dtype
    positions = [as_index(value, s) for value, s in zip(indices, node.src[1:], strict=False)]
    if buffer.kind is not Kind.POINTER:
        assert isinstance(base, Memory)
        dims = base.dims or ()
        if len(dims) != len(positions):
            raise rank_error(node, len(dims), len(positions))
        address = row_major_address(node, positions, dims)
        return Pointer(base, scale_address(address, buffer.count), gate)
    if len(positions) > 1:
        raise rank_error(node, 1, len(positions))
    pointer = as_pointer(base)
    if positions:
        offset = scale_address(positions[0], buffer.element.count)
        address = offset if pointer.address is _ZERO else _add(node, pointer.address, offset)
        pointer = Pointer(pointer.memory, address, pointer.gate)
    if gate is None:
        return pointer
    return Pointer(pointer.memory, pointer.address, _conjunction(node, pointer.gate, gate))


def rank_error(node: UOp, wanted: int, got: int) -> EvaluationError:
    """Return the exception for a wrong number of indices."""
    return failure(
        Fault(
            node,
            f"{got} indices for a buffer of {wanted} dimensions",
            "an INDEX has one index for each dimension, and a pointer has one",
            "flatten the indices, or give the buffer its dims",
        )
    )


def as_index(value: Value, source: UOp) -> Value:
    """Return a value converted to `index`."""
    if source.dtype.kind is Kind.INDEX:
        return value
    data = narrow_integers(np.asarray(semantics.cast(source.dtype, dtypes.index, value.data)))
    return Value(data, value.axes, value.rank, value.state)


def row_major_address(node: UOp, indices: Sequence[Value], dims: Sequence[int]) -> Value:
    """Return the row-major address; -1 where an index is outside of its dimension."""
    if not indices:
        return _ZERO
    aligned = Aligned(indices, node)
    address: Array = np.zeros(1, np.int64)
    inside: Any = np.bool_(True)
    for data, size in zip(aligned.data, dims, strict=True):
        fits = np.asarray((data >= 0) & (data < size), np.bool_)
        inside = inside & fits
        address = address * size + np.where(fits, data, 0).astype(np.int64)
    return aligned.value(np.where(inside, address, -1), merge_states(aligned.states))


def scale_address(value: Value, factor: int) -> Value:
    """Return an address multiplied by a number of elements."""
    if factor == 1:
        return value
    scaled = meaning(ops.MUL, dtypes.index, value.data, np.asarray([factor]))
    return Value(scaled, value.axes, value.rank, value.state)


def _add(node: UOp, a: Value, b: Value) -> Value:
    aligned = Aligned((a, b), node)
    return aligned.value(
        meaning(ops.ADD, dtypes.index, *aligned.data),
        merge_states(aligned.states),
    )


def _conjunction(node: UOp, a: Value | None, b: Value) -> Value:
    return b if a is None else conjunction(node, a, b)


def concatenate_pointers(node: UOp, pointers: Sequence[Pointer]) -> Pointer:
    """Return the pointer of a PTRCAT: the addresses of several pointers as lanes."""
    memory = pointers[0].memory
    if any(p.memory is not memory for p in pointers):
        raise failure(
            Fault(
                node,
                "pointers to different buffers are joined",
                "one access goes to one buffer",
                "load from each buffer and join the values with CAT",
            )
        )
    counts = [s.dtype.element.count for s in node.src]
    address = _concatenate_lanes(node, [p.address for p in pointers], counts)
    if all(p.gate is None for p in pointers):
        return Pointer(memory, address)
    true = Value(np.ones(1, np.bool_))
    gates = [true if p.gate is None else p.gate for p in pointers]
    return Pointer(memory, address, _concatenate_lanes(node, gates, counts))


def _concatenate_lanes(node: UOp, values: Sequence[Value], counts: Sequence[int]) -> Value:
    """Return concatenated lanes; an address is the first of `count` consecutive elements."""
    aligned = Aligned(values, node)
    parts, states = [], []
    for data, state, count in zip(aligned.data, aligned.states, counts, strict=True):
        lanes = max(count, data.shape[-1])
        parts.append(consecutive(data, lanes))
        states.append(repeat_lanes(np.int32(GOOD) if state is None else state, lanes))
    whole = np.broadcast_shapes(*(p.shape[:-1] for p in parts))
    data = np.concatenate([np.broadcast_to(p, (*whole, p.shape[-1])) for p in parts], axis=-1)
    state = np.concatenate(
        [np.broadcast_to(s, (*whole, p.shape[-1])) for s, p in zip(states, parts, strict=True)],
        axis=-1,
    )
    return aligned.value(data, none_if_good(state))


def consecutive(address: Array, lanes: int) -> Array:
    """Return one address per lane: each given address is the first of consecutive elements."""
    own = address.shape[-1]
    if own == lanes or address.dtype == np.bool_:
        return repeat_lanes(address, lanes)
    count = lanes // own
    return (address[..., None] + np.arange(count)).reshape((*address.shape[:-1], own * count))


def repeat_lanes(array: Array | Any, lanes: int) -> Array:
    """Return an array repeated for each of the consecutive elements."""
    if np.ndim(array) == 0 or array.shape[-1] in (1, lanes):
        return np.asarray(array)
    return np.repeat(array, lanes // array.shape[-1], axis=-1)
