"""PTX memory: loads and stores of device, shared and private memory, with masks.

Pointers are generic in the text; LLVM infers their address spaces from the casts of parameters and
of shared memory. Buffers and shared memory begin at multiples of `BUFFER_ALIGNMENT`, and what is
known of an index says how wide an access may be.

A masked load reads the first elements of the buffer where the mask is not set, which needs no
branch; where the buffer is too small for that, and for stores, there is a branch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from porism.backends.llvm.llvm_memory import MemoryWriter, access_gate, buffer_of, index_of
from porism.backends.llvm.llvm_types import memory_type, type_of
from porism.base.dtypes import DType, Space
from porism.ir import ops
from porism.ir.node import UOp
from porism.rules.addresses.grid_dims import ALIGNMENT, aligned_bytes

BUFFER_ALIGNMENT: Final = ALIGNMENT
"""Bytes whose multiples buffers begin at: the widest access of a thread."""

SHARED: Final = "porism_shared"
"""The name of the shared memory of all kernels of a module: its size is a launch parameter."""


class PtxMemory(MemoryWriter):
    """Writes the memory accesses of a kernel."""

    shared_bytes = 0
    """Bytes of shared memory that the kernel has taken so far."""

    def memory(self, node: UOp) -> None:
        """Write the address of shared memory, or of an array of the thread."""
        if node.dtype.space is not Space.LOCAL:
            super().memory(node)
            return
        offset = self.shared_bytes
        self.shared_bytes += aligned_bytes(node, node.dtype.size)
        name, shared = self.fresh(), "ptr addrspace(3)"
        place = f"getelementptr (i8, {shared} @{SHARED}, i64 {offset})" if offset else f"@{SHARED}"
        self.entry.append(f"  {name} = addrspacecast {shared} {place} to ptr")
        self.values[node] = name

    def prefetch(self, place: UOp) -> None:
        """Write nothing: warps that wait are what hides latency."""

    def load(self, node: UOp) -> None:
        place = node.src[0]
        register = self.registers.register_of_index.get(place)
        if register is not None:
            self.values[node] = self.registers.current.get(register, "poison")
            return
        gate, other = _open_gate(place), node.src[1] if len(node.src) > 1 else None
        width, passed = node.dtype.count, None if other is None else self._in_memory(other)
        is_scattered = index_of(place).dtype.count > 1
        if not is_scattered and (gate is None or gate.dtype.count == 1):
            mask = None if gate is None else self.value(gate)
            value = self._load_part(place, node.dtype, self.value(place), mask, passed)
        else:
            lane = node.dtype.element
            vector, kind = memory_type(node.dtype), memory_type(lane)
            value = "poison"
            for k, address in enumerate(self._addresses_of_lanes(place, width)):
                mask = None if gate is None else self._lane(gate, k)
                lane_passed = None
                if passed is not None:
                    lane_passed = self.emit(f"extractelement {vector} {passed}, i32 {k}")
                part = self._load_part(place, lane, address, mask, lane_passed, k)
                value = self.emit(f"insertelement {vector} {value}, {kind} {part}, i32 {k}")
        self.values[node] = self._as_value(value, node.dtype)

    def _load_part(
        self,
        place: UOp,
        dtype: DType,
        address: str,
        mask: str | None,
        passed: str | None,
        lane: int = 0,
    ) -> str:
        """Write a load with one mask; return its value as it is in memory."""
        kind, align = memory_type(dtype), access_alignment(place, dtype, lane)
        if mask is None:
            return self.emit(f"load {kind}, ptr {address}, align {align}")
        if passed is None:
            passed = "zeroinitializer"
        base = buffer_of(place)
        if base.dtype.size >= dtype.count:
            chosen = self.emit(f"select i1 {mask}, ptr {address}, ptr {self.value(base)}")
            value = self.emit(f"load {kind}, ptr {chosen}, align {align}")
            return self.emit(f"select i1 {mask}, {kind} {value}, {kind} {passed}")
        before, name = self.block, self.fresh().removeprefix("%")
        self.do(f"br i1 {mask}, label %{name}.load, label %{name}.loaded")
        self.label(f"{name}.load")
        value = self.emit(f"load {kind}, ptr {address}, align {align}")
        self.do(f"br label %{name}.loaded")
        self.label(f"{name}.loaded")
        return self.emit(f"phi {kind} [ {passed}, %{before} ], [ {value}, %{name}.load ]")

    def store(self, node: UOp) -> None:
        place, value = node.src
        self.values[node] = ""
        register = self.registers.register_of_index.get(place)
        if register is not None:
            self.registers.current[register] = self.value(value)
            return
        gate, data, dtype = _open_gate(place), self._in_memory(value), value.dtype
        if index_of(place).dtype.count == 1 and (gate is None or gate.dtype.count == 1):
            mask = None if gate is None else self.value(gate)
            self._store_part(place, dtype, self.value(place), mask, data)
            return
        for k, address in enumerate(self._addresses_of_lanes(place, dtype.count)):
            if gate is not None and gate.op is ops.VCONST and not gate.arg[k]:
                continue
            closed = gate is None or gate.op is ops.VCONST
            mask = None if closed or gate is None else self._lane(gate, k)
            part = self.emit(f"extractelement {memory_type(dtype)} {data}, i32 {k}")
            self._store_part(place, dtype.element, address, mask, part, k)

    def _store_part(
        self,
        place: UOp,
        dtype: DType,
        address: str,
        mask: str | None,
        data: str,
        lane: int = 0,
    ) -> None:
        """Write a store with one mask."""
        align = access_alignment(place, dtype, lane)
        text = f"store {memory_type(dtype)} {data}, ptr {address}, align {align}"
        if mask is None:
            self.do(text)
            return
        name = self.fresh().removeprefix("%")
        self.do(f"br i1 {mask}, label %{name}.store, label %{name}.stored")
        self.label(f"{name}.store")
        self.do(text)
        self.do(f"br label %{name}.stored")
        self.label(f"{name}.stored")

    def _lane(self, gate: UOp, lane: int) -> str:
        """Return the mask of a lane."""
        if gate.dtype.count == 1:
            return self.value(gate)
        return self.emit(f"extractelement {type_of(gate.dtype)} {self.value(gate)}, i32 {lane}")

    def _addresses_of_lanes(self, place: UOp, width: int) -> Sequence[str]:
        """Return the address of each lane of an access."""
        base, lane = self.value(place), memory_type(buffer_of(place).dtype.element)
        offsets = self.offsets.get(_access(place))
        if isinstance(offsets, UOp):
            kind = type_of(offsets.dtype)
            element = type_of(offsets.dtype.element)
            numbers = [
                f"{element} " + self.emit(f"extractelement {kind} {self.value(offsets)}, i32 {k}")
                for k in range(width)
            ]
        else:
            known = range(width) if index_of(place).dtype.count == 1 else offsets or [0] * width
            numbers = [f"i64 {offset}" for offset in known]
        return [self.emit(f"getelementptr {lane}, ptr {base}, {number}") for number in numbers]


def access_alignment(place: UOp, dtype: DType, after: int = 0) -> int:
    """Return the alignment of an access in bytes, by what is known of its index.

    Of an access with one index for several lanes it may be a lane that is so many elements `after`.
    What is known of a vector of indices is true of every lane. LLVM joins neighbouring accesses of
    one element where the first is aligned for all of them.
    """
    lane = dtype.element if dtype.count > 1 else dtype
    size = max(lane.bits // 8, 1)
    buffer, index = buffer_of(place), index_of(place)
    if buffer.dtype.element.count > 1:
        return size
    elements = math.gcd(*index.residue, after if index.dtype.count == 1 else 0)
    aligned = elements & -elements if elements else BUFFER_ALIGNMENT
    return max(min(aligned * size, BUFFER_ALIGNMENT), size)


def _open_gate(place: UOp) -> UOp | None:
    """Return the mask of an access; None if it is always set."""
    gate = access_gate(place)
    return None if gate is not None and gate.op is ops.CONST and gate.arg else gate


def _access(place: UOp) -> UOp:
    """Return the INDEX of a pointer that was cast."""
    while place.op is not ops.INDEX:
        place = place.src[0]
    return place
