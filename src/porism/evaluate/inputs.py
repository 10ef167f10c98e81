"""Inputs: the memory behind PARAM and BUFFER nodes, and the values of variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from porism.base.dtypes import DType, Kind
from porism.base.errors import EvaluationError
from porism.evaluate.faults import Fault, describe, failure
from porism.evaluate.threads.tracked_memory import Memory, lane_of
from porism.ir import ops
from porism.ir.facts import semantics
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp

Slot = UOp | int | str
"""The key of an input: a node, the number of a PARAM, or the id of a BUFFER."""

Given = Mapping[Any, Any]
"""Inputs as the user gives them: from slots to arrays, memories or numbers."""


class Inputs:
    """The memory of PARAMs and BUFFERs: what was given, and new memory for outputs."""

    def __init__(self, given: Given, outputs: Collection[UOp] = (), *, copy: bool = False) -> None:
        self._given = given
        self._outputs = frozenset(_slot(node) for node in outputs)
        self._copy = copy
        self._whole: dict[Slot, Memory] = {}
        self._shapes: dict[Slot, tuple[int, ...]] = {}

    def pinned(self, node: UOp) -> int | None:
        """Return the value given for a RANGE, SPECIAL or VARIABLE, or None."""
        value = self._given.get(node)
        if value is None:
            return None
        if not node.vmin <= int(value) <= node.vmax:
            raise failure(
                Fault(
                    node,
                    f"{int(value)} is given for {describe(node)}",
                    f"its values are {node.vmin} … {node.vmax}",
                    "give a value inside of these bounds",
                )
            )
        return int(value)

    def memory(self, node: UOp, dims: tuple[int, ...]) -> Memory:
        """Return the memory of a PARAM or BUFFER with these dims (none for a pointer)."""
        slot = _slot(node)
        is_pointer = node.dtype.kind is Kind.POINTER
        count = node.dtype.element.count if is_pointer else node.dtype.count
        size = int(np.prod(dims, dtype=np.int64)) if not is_pointer else node.dtype.size
        whole = self._whole.get(slot)
        if whole is None:
            whole = self._whole[slot] = self._allocate(node, slot, size * count, dims)
        if size < 0:
            return whole
        if len(whole.data) < size * count or (not is_pointer and len(whole.data) != size * count):
            raise failure(
                Fault(
                    node,
                    f"a buffer of {len(whole.data)} elements for {describe(node)}",
                    f"the node says that it has {size * count}",
                    "pass an array of that size",
                )
            )
        return whole.part(size * count, None if is_pointer else dims)

    def _allocate(self, node: UOp, slot: Slot, size: int, dims: tuple[int, ...]) -> Memory:
        """Return the memory of what was given for a leaf; empty memory for an output."""
        given = self._given.get(node)
        if given is None:
            given = self._given.get(slot)
        lane = lane_of(node.dtype)
        if given is None:
            if slot in self._outputs and size >= 0:
                self._shapes[slot] = dims if node.dtype.kind is not Kind.POINTER else (size,)
                return Memory.empty(lane, size)
            raise failure(
                Fault(
                    node,
                    f"nothing is given for {describe(node)}",
                    "an input has no value of its own",
                    "pass an array for it: inputs={" + f"{slot!r}: array" + "}",
                )
            )
        if isinstance(given, Memory):
            self._shapes[slot] = given.data.shape
            memory = given
            if self._copy:
                written = None if given.written is None else given.written.copy()
                memory = Memory(given.data.copy(), written)
        else:
            array = self._array(node, given, lane)
            self._shapes[slot] = array.shape
            memory = Memory.of(np.array(array, order="C") if self._copy else array)
        if memory.data.dtype != lane.numpy:
            raise failure(
                Fault(
                    node,
                    f"an array of {memory.data.dtype} for {describe(node)}",
                    f"its elements are {lane}, in NumPy {lane.numpy}",
                    "convert the array with .astype() first",
                )
            )
        return memory

    def _array(self, node: UOp, given: Any, lane: DType) -> Array:
        """Return what was given as an array; raise if its shape is not that of the node."""
        if isinstance(given, (bool, int, float)):
            return semantics.array_of(lane, lane.canonical(given))
        array = np.asarray(given)
        known = node.dtype.kind is not Kind.POINTER and all(s.op is ops.CONST for s in node.src)
        shape = tuple(s.arg for s in node.src)
        if node.dtype.count > 1:
            shape += (node.dtype.count,)
        if known and array.shape != shape and array.ndim != 1:
            raise failure(
                Fault(
                    node,
                    f"an array of shape {array.shape} for {describe(node)}",
                    f"the node's shape is {shape}",
                    "reshape the array first",
                )
            )
        return array

    def contents(self, node: UOp) -> Array:
        """Return the contents of a leaf's memory, in the shape in which it was given."""
        slot = _slot(node)
        memory = self._whole.get(slot)
        if memory is None:  # nothing touched it
            memory = self.memory(node, tuple(int(s.arg) for s in node.src))
        if memory.written is not None and not memory.written.all():
            missing = int(np.argmin(memory.written))
            raise failure(
                Fault(
                    node,
                    f"element {missing} of {describe(node)} was never written",
                    "the result of the program would depend on what was in memory before",
                    "store every element, or give the buffer its first contents as an input",
                )
            )
        return memory.data.reshape(self._shapes[slot])


def _slot(node: UOp) -> Slot:
    slot: Slot = node.arg if node.op is ops.PARAM else node.arg[0]
    return slot


def variable_value(node: UOp, given: Mapping[str, int]) -> int | None:
    """Return the value given for a VARIABLE, or None."""
    name = node.arg[0]
    value = given.get(name)
    return None if value is None else checked_variable(node, int(value), node)


def checked_variable(node: UOp, value: int, user: UOp) -> int:
    """Return the value of a VARIABLE; raise if it is outside of the declared bounds."""
    name, low, high = node.arg
    if (low is not None and value < low) or (high is not None and value > high):
        raise EvaluationError(
            f"{name} = {value} is outside of its bounds",
            where=describe(user),
            why=f"it was declared with {low} … {high}, and rewrites rely on that",
            fix="pass a value inside, or declare wider bounds",
        )
    return value
