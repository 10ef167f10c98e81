"""Array access: loads and stores through a pointer, for all lanes and iterations at once.

A load of an element that is out of bounds or was never written gives a fault, which is raised when
the element is used. A store raises at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import DType, Kind
from porism.base.errors import EvaluationError
from porism.evaluate.faults import (
    Fault,
    Faults,
    ThreadText,
    describe,
    failure,
    fault_text,
    iteration_text,
    no_thread,
)
from porism.evaluate.pointers import (
    Pointer,
    as_index,
    consecutive,
    rank_error,
    repeat_lanes,
    row_major_address,
    scale_address,
)
from porism.evaluate.threads.tracked_memory import Memory
from porism.evaluate.varying_value import (
    GOOD,
    INVALID,
    Aligned,
    Axes,
    Value,
    merge_states,
    narrow_integers,
    none_if_good,
)
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp

Touch = Callable[[UOp, Memory, Array, bool], None]
"""Called for each access with the node, the memory, the addresses, and whether it writes."""


class _Access:
    """The addresses, masks and values of one load or store, broadcast to one shape."""

    def __init__(self, node: UOp, pointer: Pointer, lanes: int, values: Sequence[Value]) -> None:
        own = pointer.address.lanes
        if lanes % own:
            raise failure(
                Fault(
                    node,
                    f"an access of {lanes} lanes through {own} addresses",
                    "each address is the first of the same number of lanes",
                    "give as many addresses as there are lanes, or one",
                )
            )
        gates = [] if pointer.gate is None else [pointer.gate]
        aligned = Aligned([pointer.address, *gates, *values], node)
        address, *rest = aligned.data
        pointed, *states = aligned.states
        self.axes: Axes = aligned.axes
        self.address = consecutive(address, lanes)
        self.gated = bool(gates)
        shape: list[tuple[int, ...]] = [self.address.shape, *(d.shape for d in rest)]
        self.shape = (*np.broadcast_shapes(*(s[:-1] for s in shape)), lanes)
        self.pointed = self._state(pointed, lanes)
        self.open: Array = np.ones(self.shape, np.bool_)
        self.gate_state: Array | None = None
        if gates:
            gate, *rest = rest
            gate_state, *states = states
            self.gate_state = self._state(gate_state, lanes)
            self.open = np.broadcast_to(repeat_lanes(gate, lanes), self.shape)
            if self.gate_state is not None:
                # a gate that is INVALID is closed; one that is undefined is checked separately
                self.open = self.open & (self.gate_state == GOOD)
        self.values = [np.broadcast_to(d, self.shape) for d in rest]
        self.states = [None if s is None else np.broadcast_to(s, self.shape) for s in states]
        self.valid = self.open
        if self.pointed is not None:
            self.valid = self.open & (self.pointed != INVALID)
        size = len(pointer.memory.data)
        inside = np.asarray((self.address >= 0) & (self.address < size), np.bool_)
        self.inside = np.broadcast_to(inside, self.shape)
        safe = np.where(inside, self.address, 0).astype(np.int64)
        self.safe = np.broadcast_to(safe, self.shape)

    def _state(self, state: Array | None, lanes: int) -> Array | None:
        return None if state is None else np.broadcast_to(repeat_lanes(state, lanes), self.shape)

    def first_address(self, where: Array) -> int:
        """Return the first of some addresses, for a message."""
        return int(np.broadcast_to(self.address, self.shape)[where].reshape(-1)[0])


def _outside(access: _Access, bad: Array, memory: Memory) -> tuple[str, str, str]:
    """Return the parts of the message for an access out of bounds."""
    if memory.dims is not None:
        return (
            f"an element outside of the dims {memory.dims} is accessed",
            "an index is at least 0 and below its dimension",
            "close the gate, or make an index INVALID, where it is outside",
        )
    return (
        f"element {access.first_address(bad)} of {len(memory.data)} is accessed",
        f"an index is at least 0 and below {len(memory.data)}, the number of elements",
        "close the gate, or make the index INVALID, where it is outside",
    )


def read(
    node: UOp,
    pointer: Pointer,
    dtype: DType,
    alternative: Value | None,
    faults: Faults,
    touch: Touch | None = None,
) -> Value:
    """Return the elements at a pointer; the alternative, or 0, where the gate is closed."""
    memory = pointer.memory
    access = _Access(node, pointer, dtype.count, [] if alternative is None else [alternative])
    data = memory.viewed(dtype, node)
    other = access.values[0] if alternative is not None else np.zeros(1, data.dtype)
    missed = access.states[0] if alternative is not None else None
    wanted = access.valid
    state = None if access.pointed is None else np.where(wanted, access.pointed, np.int32(GOOD))
    bad = wanted & ~access.inside if state is None else wanted & ~access.inside & (state == GOOD)
    if bad.any():
        state = faults.mark(state, bad, node, *_outside(access, bad, memory))
    good = wanted & access.inside
    if memory.written is not None:
        unwritten = good & ~memory.written[access.safe] if len(data) else good
        if unwritten.any():
            state = faults.mark(
                state,
                unwritten,
                node,
                f"element {access.first_address(unwritten)} is read before it was written",
                "memory has no value until something is stored there",
                "store first, and read AFTER the store; if another thread stores, after a BARRIER",
            )
    if touch is not None:
        used = good if state is None else good & (state == GOOD)
        touch(node, memory, access.safe[used], False)
    elements = data[access.safe] if len(data) else np.zeros(access.shape, data.dtype)
    result = np.where(good, elements, other).astype(data.dtype)
    if missed is not None:
        state = np.where(wanted, np.int32(GOOD) if state is None else state, missed)
    if access.gate_state is not None:
        undefined = access.gate_state > GOOD
        state = np.where(undefined, access.gate_state, np.int32(GOOD) if state is None else state)
    if dtype.element.kind is Kind.INDEX:
        result = narrow_integers(result)
    return Value(result, access.axes, 0, None if state is None else state.astype(np.int32))


def element_of(
    node: UOp, base: Value, indices: Sequence[Value], gate: Value | None, faults: Faults
) -> Value:
    """Return the element of an INDEX of a value with dims, such as a BUFFERIZE.

    Each iteration of the value's own named axes reads the elements of that iteration.
    """
    if len(indices) != base.rank:
        raise rank_error(node, base.rank, len(indices))
    positions = [as_index(value, s) for value, s in zip(indices, node.src[1:], strict=False)]
    address = row_major_address(node, positions, base.dims)
    if base.axes:
        size = int(np.prod(base.dims, dtype=np.int64))
        own = base.data.shape[: len(base.axes)]
        copies = np.arange(int(np.prod(own))).reshape((*own, 1)) * size
        aligned = Aligned((address, Value(copies, base.axes)), node)
        row, copy = aligned.data
        address = aligned.value(np.where(row < 0, -1, row + copy), merge_states(aligned.states))
    address = scale_address(address, base.lanes)
    memory = Memory(base.data.reshape(-1), dims=base.dims)
    value = read(node, Pointer(memory, address, gate), node.dtype, None, faults)
    if base.state is None:
        return value
    states = Memory(base.states.reshape(-1), dims=base.dims)
    state_pointer = Pointer(states, address, gate)
    stored = read(node, state_pointer, dtypes.i32.vec(node.dtype.count), None, faults)
    state = np.where(value.states != GOOD, value.states, stored.data)
    return Value(value.data, value.axes, 0, none_if_good(state))


def write(
    node: UOp,
    pointer: Pointer,
    value: Value,
    faults: Faults,
    *,
    active: Callable[[Axes], Array | None] = lambda axes: None,
    ordered: Callable[[Any], bool] = lambda axis: True,
    nest: Axes = (),
    touch: Touch | None = None,
    thread: ThreadText = no_thread,
) -> None:
    """Store a value; `ordered` axes are loops, in which the last iteration wins.

    `nest` is the nest of these loops, outermost first.
    """
    memory = pointer.memory
    access = _Access(node, pointer, value.lanes, [value])
    executed = active(access.axes)
    happens = np.ones(access.shape, np.bool_)
    if executed is not None:
        happens = np.broadcast_to(executed, access.shape)
    if access.gate_state is not None:
        gate = Value(access.open, access.axes, 0, access.gate_state)
        faults.demand(gate, node, happens, thread)
    opened = happens & access.open
    if access.gated and access.pointed is not None:
        _raise_where(
            node,
            opened & (access.pointed == INVALID),
            access.axes,
            thread,
            "a store through INVALID with an open gate",
            "INVALID is the index of no element, and the gate says that there is one",
            "put the condition under which the index is valid into the gate",
        )
    happens = happens & access.valid
    faults.demand(Value(access.safe, access.axes, 0, access.pointed), node, happens, thread)
    bad = happens & ~access.inside
    if bad.any():
        _raise_where(node, bad, access.axes, thread, *_outside(access, bad, memory))
    state = access.states[0]
    faults.demand(Value(access.values[0], access.axes, 0, state), node, happens, thread)
    if state is not None:
        _raise_where(
            node,
            happens & (state == INVALID),
            access.axes,
            thread,
            "INVALID is stored as a value",
            "INVALID is the index of no element; it can only be used as an index",
            "store a number where it is INVALID: WHERE(valid, value, 0)",
        )
    address = access.safe[happens]
    if len(address) > 1:
        _check_collisions(node, access, happens, address, ordered)
    if touch is not None:
        touch(node, memory, address, True)
    data = memory.viewed(node.src[1].dtype, node)
    arrays = access.safe, access.values[0], happens
    address, values, happens = (_loops_first(array, access.axes, nest) for array in arrays)
    data[address[happens]] = values[happens].astype(data.dtype)
    if memory.written is not None:
        memory.written[address[happens]] = True


def _loops_first(array: Array, axes: Axes, nest: Axes) -> Array:
    """Return an array with the axes of loops first, outermost first."""
    loops = [axes.index(axis) for axis in nest if axis in axes]
    return np.moveaxis(array, loops, range(len(loops))) if loops else array


def _raise_where(
    node: UOp, bad: Array, axes: Axes, thread: ThreadText, what: str, why: str, fix: str
) -> None:
    if bad.any():
        first = np.unravel_index(int(np.argmax(bad)), bad.shape)
        raise failure(Fault(node, what, why, fix), None, fault_text(axes, first, thread))


def _check_collisions(
    node: UOp,
    access: _Access,
    happens: Array,
    address: Array,
    ordered: Callable[[Any], bool],
) -> None:
    """Raise if two parallel iterations write one element."""
    order = np.argsort(address, kind="stable")
    addresses = address[order]
    same = addresses[1:] == addresses[:-1]
    if not same.any():
        return
    # the number of the parallel iteration in which each element was written
    parallel = np.zeros(happens.shape, np.int64)
    for k, axis in enumerate((*access.axes, None)):
        if axis is None or not ordered(axis):
            size = happens.shape[k]
            steps = np.arange(size).reshape([-1 if j == k else 1 for j in range(happens.ndim)])
            parallel = parallel * size + steps
    parallels = parallel[happens][order]
    clash = same & (parallels[1:] != parallels[:-1])
    if not clash.any():
        return
    k = int(np.argmax(clash))
    iterations = np.argwhere(happens)
    one, other = (iteration_text(access.axes, iterations[order[i]].tolist()) for i in (k, k + 1))
    raise EvaluationError(
        f"two iterations write the same element, {int(addresses[k])}",
        where=f"{describe(node)}\nat {one or 'one lane'} and at {other or 'another lane'}",
        why="iterations of parallel ranges, and lanes, have no order, so no value is the last one",
        fix="let the index depend on the range, or make it a LOOP",
    )
