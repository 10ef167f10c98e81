"""LLVM memory: addresses, loads, stores, masks, gathers, prefetches and non-temporal stores."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final

from porism.backends.kernel_function import prefetch_distances
from porism.backends.llvm.host_target import host_target
from porism.backends.llvm.llvm_loops import LoopWriter, OpenLoop
from porism.backends.llvm.llvm_types import alignment, mangle, memory_type, type_of
from porism.backends.llvm.llvm_writer import ALIGNMENT
from porism.backends.llvm.nontemporal_stores import MIN_BYTES, NontemporalStores
from porism.base.dtypes import DType, Kind, boolean
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.op_signatures import NON_TEMPORAL

CACHE_LINE: Final = 64
"""Bytes of a cache line."""

PAGE_BYTES: Final = 4096
"""Bytes of a page: further than this from a buffer, memory may be unmapped."""

SCATTER_LANES: Final = 8
"""Lanes of one scatter; measured on AMD Zen 4, where one of 16 is slower than two of 8."""

_SCALED_TYPES: Final = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
"""Strides in bytes that x86 addressing modes scale by, as LLVM types."""


class MemoryWriter(LoopWriter):
    """Writes the addresses, loads and stores of a kernel."""

    def __init__(self, instructions: Sequence[UOp]) -> None:
        super().__init__(instructions)
        self.known: dict[object, str] = {}
        """Parts of addresses that were computed outside of all loops."""
        self.offsets: dict[UOp, UOp | Sequence[int]] = {}
        """The offsets of the lanes in elements, for each INDEX with a vector index."""
        self.nontemporal = NontemporalStores()
        self.prefetched = prefetch_distances(instructions)

    def memory(self, node: UOp) -> None:
        if node in self.registers.values:
            self.values[node] = ""
            return
        element = node.dtype.element
        lane = memory_type(element)
        size = f"[{max(node.dtype.size, 1)} x {lane}]" if node.dtype.size != 1 else lane
        self.values[node] = self.allocate(f"{size}, align {ALIGNMENT}")

    def pointer(self, node: UOp) -> None:
        """Write the address of an INDEX; lanes add their offsets to it."""
        if node in self.registers.register_of_index:
            self.values[node] = ""
            return
        base, total = node.src[0], self.addresses.sums[node]
        address, size = self.value(base), _element_stride(base.dtype.element)
        key: tuple[object, ...] = (address,)
        parts = []
        for value, coefficient in total.terms.items():
            if value.dtype.count > 1:
                self.offsets[node] = value
            elif coefficient:
                parts.append((self.depths[value], self.values[value], value, coefficient * size))
        for depth, name, value, stride in sorted(parts, key=lambda part: part[:2]):
            key = (*key, name, stride)
            known = self._known_parts(depth)
            if key not in known:
                known[key] = self._advance(address, value, stride)
            address = known[key]
        constant = total.constant
        if isinstance(constant, tuple):
            self.offsets[node] = [lane - constant[0] for lane in constant]
            constant = constant[0]
        if constant:
            key = (*key, constant)
            known = self._known_parts(len(self.loops))
            if key not in known:
                known[key] = self.emit(f"getelementptr i8, ptr {address}, i64 {constant * size}")
            address = known[key]
        self.values[node] = address

    def _known_parts(self, depth: int) -> dict[object, str]:
        """Return the parts of addresses that were computed at a loop depth."""
        return self.loops[depth - 1].known if depth else self.known

    def _advance(self, address: str, value: UOp, stride: int) -> str:
        """Return an address plus a value times a stride in bytes."""
        lane, depth = _SCALED_TYPES.get(stride), self.depths[value]
        if lane is None:
            multiple = self._multiple(value, stride)
            return self.hoist(depth, f"getelementptr i8, ptr {address}, i64 {multiple}")
        return self.hoist(depth, f"getelementptr {lane}, ptr {address}, i64 {self._as_i64(value)}")

    def _multiple(self, value: UOp, stride: int) -> str:
        """Return a value times a stride; an induction variable of its own in innermost loops."""
        depth = self.depths[value]
        known, key = self._known_parts(depth), (value, stride)
        if key not in known:
            text = f"mul i64 {self._as_i64(value)}, {stride}"
            if value.op is ops.RANGE:
                known[key] = self._strided_variable(self.loops[depth - 1], text, stride)
            else:
                known[key] = self.hoist(depth, text)
        return known[key]

    def _strided_variable(self, loop: OpenLoop, text: str, stride: int) -> str:
        name = self.fresh()
        if loop.node in self.innermost and loop.start == "0":
            loop.strides.append((name, stride))
        else:
            loop.header.append(f"  {name} = {text}")
        return name

    def _as_i64(self, value: UOp) -> str:
        """Return a value as a 64-bit integer."""
        depth = self.depths[value]
        if value.op is ops.RANGE:
            return self.loops[depth - 1].variable
        if value.dtype.bits == 64:
            return self.value(value)
        known = self._known_parts(depth)
        if value not in known:
            wider = "zext" if value.dtype.kind is Kind.UNSIGNED else "sext"
            known[value] = self.hoist(depth, f"{wider} {self.typed(value)} to i64")
        return known[value]

    def _lane_addresses(self, place: UOp, lanes: Sequence[int]) -> str:
        """Return a vector with the addresses of some lanes."""
        while place.op is not ops.INDEX:
            place = place.src[0]
        offsets = self.offsets.get(place, [0] * place.src[1].dtype.count)
        if isinstance(offsets, UOp):
            index = self.typed(offsets)
            if len(lanes) < offsets.dtype.count:
                kind = type_of(offsets.dtype)
                part = self.shuffle(index, f"{kind} poison", lanes)
                index = f"<{len(lanes)} x {type_of(offsets.dtype.element)}> {part}"
        else:
            kind = "i32" if max(map(abs, offsets)) < 1 << 31 else "i64"
            numbers = ", ".join(f"{kind} {offsets[lane]}" for lane in lanes)
            index = f"<{len(lanes)} x {kind}> <{numbers}>"
        lane = memory_type(place.src[0].dtype.element)
        return self.emit(f"getelementptr {lane}, ptr {self.value(place)}, {index}")

    def load(self, node: UOp) -> None:
        place, kind = node.src[0], memory_type(node.dtype)
        register = self.registers.register_of_index.get(place)
        if register is not None:
            self.values[node] = self.registers.current.get(register, "poison")
            return
        gate, other = access_gate(place), node.src[1] if len(node.src) > 1 else None
        scattered = index_of(place).dtype.count > 1
        align = alignment(node.dtype)
        if scattered:
            value = self._gather(node, place, gate, other)
        elif gate is None:
            value = self.emit(f"load {kind}, ptr {self.value(place)}, align {align}")
        elif gate.dtype.count > 1:
            value = self._masked_load(node, place, gate, other)
        else:
            address = self.emit(
                f"select i1 {self.value(gate)}, ptr {self.value(place)}, ptr {self.dummy(kind)}"
            )
            value = self.emit(f"load {kind}, ptr {address}, align {align}")
        if node in self.prefetched and not scattered:
            self._prefetch_ahead(place, node.dtype, self.prefetched[node])
        value = self._as_value(value, node.dtype)
        if gate is not None and other is not None and gate.dtype.count == 1 and not scattered:
            kind = type_of(node.dtype)
            value = self.emit(
                f"select i1 {self.value(gate)}, {kind} {value}, {kind} {self.value(other)}"
            )
        self.values[node] = value

    def _prefetch_ahead(self, place: UOp, dtype: DType, ahead: int) -> None:
        """Prefetch a vector some elements ahead, by cache lines; the address may be unmapped."""
        lane, size = memory_type(dtype.element), max(dtype.element.bits // 8, 1)
        for first in range(0, dtype.count, max(CACHE_LINE // size, 1)):
            there = f"getelementptr {lane}, ptr {self.value(place)}, i64 {ahead + first}"
            self._prefetch_line(self.emit(there))

    def prefetch(self, place: UOp) -> None:
        """Prefetch the cache line that a pointer points to."""
        self._prefetch_line(self.value(place))

    def _prefetch_line(self, pointer: str) -> None:
        kinds = ("i32 0", "i32 2", "i32 1")  # read, locality 2 (L2), data cache
        self.call("llvm.prefetch.p0", "void", f"ptr {pointer}", *kinds)

    def _masked_load(self, node: UOp, place: UOp, gate: UOp, other: UOp | None) -> str:
        """Write a masked load, of those registers alone that have an open lane.

        LLVM 22 makes a plain load for AVX2 of a register whose lanes are all closed by constants.
        """
        kind, count = memory_type(node.dtype), node.dtype.count
        passed = self._in_memory(other) if other is not None else "zeroinitializer"
        address, mask = self._safe_address(place, node.dtype), self.typed(gate)
        width = max(max(host_target().vector_bits) // max(node.dtype.bits, 8), 1)
        may_be_open = _lanes_not_closed(gate)
        parts = [range(k, min(k + width, count)) for k in range(0, count, width)]
        if all(any(may_be_open[k] for k in part) for part in parts):
            return self._load_under_mask(node.dtype, kind, address, mask, passed)
        for part in parts:
            if any(may_be_open[k] for k in part):
                lane = memory_type(node.dtype.element)
                place_of_part = self.emit(f"getelementptr {lane}, ptr {address}, i64 {part[0]}")
                part_mask = self.shuffle(mask, f"<{count} x i1> poison", part)
                kept = self.shuffle(f"{kind} {passed}", f"{kind} poison", part)
                part_kind = f"<{len(part)} x {lane}>"
                loaded = self._load_under_mask(
                    node.dtype, part_kind, place_of_part, f"<{len(part)} x i1> {part_mask}", kept
                )
                wide = [k - part[0] if k in part else 0 for k in range(count)]
                widened = self.shuffle(f"{part_kind} {loaded}", f"{part_kind} poison", wide)
                chosen = [count + k if k in part else k for k in range(count)]
                passed = self.shuffle(f"{kind} {passed}", f"{kind} {widened}", chosen)
        return passed

    def _load_under_mask(
        self, dtype: DType, kind: str, address: str, mask: str, passed: str
    ) -> str:
        return self.call(
            f"llvm.masked.load.{mangle(kind)}.p0", kind,
            f"ptr align {alignment(dtype)} {address}", mask, f"{kind} {passed}",
        )  # fmt: skip

    def _safe_address(self, place: UOp, dtype: DType) -> str:
        """Return the address of a masked load; the buffer itself if all lanes are outside of it.

        A masked load from an unmapped page takes about a thousand cycles, though it reads nothing.
        """
        pointer, index, base = self.value(place), index_of(place), buffer_of(place)
        size, margin = base.dtype.size, PAGE_BYTES // max(dtype.element.bits // 8, 1)
        if size < 0 or (index.vmin >= -margin and index.vmax < size + margin):
            return pointer
        bytes_each, extra_lanes = max(dtype.element.bits // 8, 1), dtype.count - 1
        address = self.emit(f"ptrtoint ptr {pointer} to i64")
        base_address = self.emit(f"ptrtoint ptr {self.value(base)} to i64")
        offset = self.emit(f"sub i64 {address}, {base_address}")
        last = self.emit(f"add i64 {offset}, {extra_lanes * bytes_each}")
        inside = self.emit(f"icmp ult i64 {last}, {(size + extra_lanes) * bytes_each}")
        return self.emit(f"select i1 {inside}, ptr {pointer}, ptr {self.value(base)}")

    def _gather(self, node: UOp, place: UOp, gate: UOp | None, other: UOp | None) -> str:
        kind, width = memory_type(node.dtype), node.dtype.count
        mask = self._mask(gate, width)
        passed = self._in_memory(other) if other is not None else "zeroinitializer"
        addresses = self._lane_addresses(place, range(width))
        return self.call(
            f"llvm.masked.gather.{mangle(kind)}.v{width}p0", kind,
            f"<{width} x ptr> align {alignment(node.dtype)} {addresses}",
            f"<{width} x i1> {mask}", f"{kind} {passed}",
        )  # fmt: skip

    def _mask(self, gate: UOp | None, width: int) -> str:
        if gate is None:
            return "splat (i1 true)"
        if gate.dtype.count == width:
            return self.value(gate)
        return self.splat("i1", self.value(gate), width)

    def store(self, node: UOp) -> None:
        place, value = node.src
        self.values[node] = ""
        register = self.registers.register_of_index.get(place)
        if register is not None:
            self.registers.current[register] = self.value(value)
            return
        gate = access_gate(place)
        if gate is not None and gate.op is ops.CONST and gate.arg:
            gate = None
        kind, data = memory_type(value.dtype), self._in_memory(value)
        align = alignment(value.dtype)
        if index_of(place).dtype.count > 1:
            self._scatter(node, data, gate)
        elif gate is not None and gate.op is ops.VCONST:
            self._store_open_lanes(node, data)
        elif gate is not None and gate.dtype.count > 1:
            if node.arg != NON_TEMPORAL or not self._store_nontemporal_if_full(node, data, gate):
                self._masked_store(node, data, gate)
        else:
            address = self.value(place)
            if gate is not None:
                dummy = self.dummy(kind)
                address = self.emit(f"select i1 {self.value(gate)}, ptr {address}, ptr {dummy}")
            if (
                node.arg != NON_TEMPORAL
                or gate is not None
                or not self._store_nontemporal(node, data)
            ):
                self.do(f"store {kind} {data}, ptr {address}, align {align}")

    def _masked_store(self, node: UOp, data: str, gate: UOp) -> None:
        place, value = node.src
        kind, align = memory_type(value.dtype), alignment(value.dtype)
        self.call(
            f"llvm.masked.store.{mangle(kind)}.p0", "void", f"{kind} {data}",
            f"ptr align {align} {self.value(place)}", self.typed(gate),
        )  # fmt: skip

    def _store_open_lanes(self, node: UOp, data: str) -> None:
        """Write plain stores of the lanes that a constant mask (VCONST) leaves open.

        LLVM 22 turns a masked store of one lane into a store of a scalar, and forgets to truncate
        it if the vector was truncated just before: it overwrites the next elements.
        """
        place, value = node.src
        gate, align = access_gate(place), alignment(value.dtype)
        kind, lane = memory_type(value.dtype), memory_type(value.dtype.element)
        assert gate is not None
        for first, count in _open_runs(gate.arg):
            if count == 1:
                part_type, part = lane, self.emit(f"extractelement {kind} {data}, i32 {first}")
            else:
                run = range(first, first + count)
                part = self.shuffle(f"{kind} {data}", f"{kind} poison", run)
                part_type = f"<{count} x {lane}>"
            pointer = self.value(place)
            address = self.emit(f"getelementptr inbounds {lane}, ptr {pointer}, i64 {first}")
            self.do(f"store {part_type} {part}, ptr {address}, align {align}")

    def _scatter(self, node: UOp, data: str, gate: UOp | None) -> None:
        """Write scatters of at most `SCATTER_LANES` lanes."""
        place, value = node.src
        width, lane = value.dtype.count, memory_type(value.dtype.element)
        part = SCATTER_LANES if width % SCATTER_LANES == 0 else width
        mask = "splat (i1 true)" if gate is None else self._mask(gate, width)
        for first in range(0, width, part):
            chosen, kind = range(first, first + part), f"<{part} x {lane}>"
            stored, part_mask = data, mask
            if part < width:
                whole = f"<{width} x {lane}>"
                stored = self.shuffle(f"{whole} {data}", f"{whole} poison", chosen)
                if gate is not None:
                    bits = f"<{width} x i1>"
                    part_mask = self.shuffle(f"{bits} {mask}", f"{bits} poison", chosen)
            addresses = self._lane_addresses(place, chosen)
            self.call(
                f"llvm.masked.scatter.{mangle(kind)}.v{part}p0", "void", f"{kind} {stored}",
                f"<{part} x ptr> align {alignment(value.dtype)} {addresses}",
                f"<{part} x i1> {part_mask}",
            )  # fmt: skip

    def _store_nontemporal_if_full(self, node: UOp, data: str, gate: UOp) -> bool:
        """Write a non-temporal store if the whole mask is set, else a masked store."""
        if not self._nontemporal_lanes(node):
            return False
        mask = self.typed(gate)
        whole = self.call(f"llvm.vector.reduce.and.v{gate.dtype.count}i1", "i1", mask)
        name = self.fresh().removeprefix("%")
        self.do(f"br i1 {whole}, label %{name}.whole, label %{name}.part")
        self.label(f"{name}.whole")
        self._store_nontemporal(node, data)
        self.do(f"br label %{name}.stored")
        self.label(f"{name}.part")
        self._masked_store(node, data, gate)
        self.do(f"br label %{name}.stored")
        self.label(f"{name}.stored")
        return True

    def _nontemporal_lanes(self, node: UOp) -> int:
        """Return the lanes of one aligned non-temporal store; 0 if there can be none."""
        place, value = node.src
        if place.src[0].op is not ops.PARAM:
            return 0
        lanes = math.gcd(*place.src[1].residue, value.dtype.count)
        return lanes if lanes * max(value.dtype.element.bits // 8, 1) >= MIN_BYTES else 0

    def _store_nontemporal(self, node: UOp, data: str) -> bool:
        """Write non-temporal stores, in parts that are aligned; return whether that is possible."""
        place, value = node.src
        base, lanes = place.src[0], self._nontemporal_lanes(node)
        if not lanes:
            return False
        width, size = value.dtype.count, max(value.dtype.element.bits // 8, 1)
        lane, align = memory_type(value.dtype.element), lanes * size
        pointer = self.value(place)
        for first in range(0, width, lanes):
            part, address = data, pointer
            if lanes < width:
                whole = f"{memory_type(value.dtype)} {data}"
                poison = f"{memory_type(value.dtype)} poison"
                part = self.shuffle(whole, poison, range(first, first + lanes))
                address = self.emit(f"getelementptr inbounds {lane}, ptr {pointer}, i64 {first}")
            text = f"  store <{lanes} x {lane}> {part}, ptr {address}"
            line = len(self.body)
            self.body.append(self.nontemporal.store(line, self.value(base), text, size, align))
        return True

    def _as_value(self, loaded: str, dtype: DType) -> str:
        if memory_type(dtype) == type_of(dtype):
            return loaded
        zero = "zeroinitializer" if dtype.count > 1 else "0"
        return self.emit(f"icmp ne {memory_type(dtype)} {loaded}, {zero}")

    def _in_memory(self, node: UOp) -> str:
        kind = memory_type(node.dtype)
        if kind == type_of(node.dtype):
            return self.value(node)
        return self.emit(f"zext {self.typed(node)} to {kind}")


def _lanes_not_closed(gate: UOp) -> Sequence[bool]:
    """Return for each lane of a mask whether constants leave it open."""
    if gate.op is ops.VCONST:
        return [bool(value) for value in gate.arg]
    if gate.op is ops.AND:
        return [all(both) for both in zip(*map(_lanes_not_closed, gate.src), strict=True)]
    return [True] * gate.dtype.count


def _open_runs(mask: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the open lanes of a mask as (first, count), each count a power of two.

    >>> list(_open_runs((True, True, True, False, True)))
    [(0, 2), (2, 1), (4, 1)]
    """
    first = 0
    for is_open, run in itertools.groupby(mask):
        length = len(list(run))
        while is_open and length:
            count = 1 << length.bit_length() - 1
            yield first, count
            first, length = first + count, length - count
        first += length


def access_gate(place: UOp) -> UOp | None:
    """Return the mask of an access, or None."""
    while place.op is not ops.INDEX:
        place = place.src[0]
    return place.src[-1] if place.src[-1].dtype.element is boolean else None


def index_of(place: UOp) -> UOp:
    """Return the index of an access."""
    while place.op is not ops.INDEX:
        place = place.src[0]
    return place.src[1]


def buffer_of(place: UOp) -> UOp:
    """Return the buffer of an access."""
    while place.op is not ops.INDEX:
        place = place.src[0]
    return place.src[0]


def _element_stride(element: DType) -> int:
    """Return the bytes from one element to the next; a vector takes a power of two."""
    lane = element.element if element.count > 1 else element
    size = max(lane.bits // 8, 1) * element.count
    return size if element.count == 1 else 1 << (size - 1).bit_length()
