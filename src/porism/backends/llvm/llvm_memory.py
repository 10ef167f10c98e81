"""Memory: addresses, and what is read and written there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from porism.backends.kernel_function import fetched
from porism.backends.llvm.llvm_loops import Loop, Loops
from porism.backends.llvm.llvm_types import alignment, mangled, memory_type, type_of
from porism.backends.llvm.llvm_writer import ALIGNMENT
from porism.backends.llvm.nontemporal_stores import SHORTEST, Streams
from porism.base.dtypes import DType, Kind, boolean
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.op_signatures import STREAM

LINE: Final = 64
"""Bytes that a cache fetches together."""

PAGE: Final = 4096
"""Bytes beyond a buffer, from which on there may be no memory."""

SCATTERED: Final = 8
"""Lanes that are stored in one step; one step of 16 was slower than two on AMD's Zen 4."""

_SCALES: Final = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
"""Steps in bytes that an address takes as they are, as types."""


class Memory(Loops):
    """Loads and stores of a kernel."""

    def __init__(self, lines: Sequence[UOp]) -> None:
        super().__init__(lines)
        self.known: dict[object, str] = {}
        """Parts of addresses outside of all loops."""
        self.offsets: dict[UOp, UOp | Sequence[int]] = {}
        """For each INDEX of lanes: what they add to its address."""
        self.streams = Streams()
        self.fetched = fetched(lines)

    def memory(self, node: UOp) -> None:
        if node in self.registers.values:
            self.values[node] = ""
            return
        kept = node.dtype.element
        lane = memory_type(kept)
        size = f"[{max(node.dtype.size, 1)} x {lane}]" if node.dtype.size != 1 else lane
        self.values[node] = self.allocate(f"{size}, align {ALIGNMENT}")

    def pointer(self, node: UOp) -> None:
        """INDEX: the address; for lanes the one that their offsets are added to."""
        if node in self.registers.places:
            self.values[node] = ""
            return
        base, total = node.src[0], self.addresses.sums[node]
        address, size = self.value(base), _size(base.dtype.element)
        key: tuple[object, ...] = (address,)
        parts = []
        for value, times in total.terms.items():
            if value.dtype.count > 1:
                self.offsets[node] = value
            elif times:
                parts.append((self.depths[value], self.values[value], value, times * size))
        for depth, name, value, step in sorted(parts, key=lambda part: part[:2]):
            key = (*key, name, step)
            known = self._known(depth)
            if key not in known:
                known[key] = self._moved(address, value, step)
            address = known[key]
        constant = total.constant
        if isinstance(constant, tuple):
            self.offsets[node] = [lane - constant[0] for lane in constant]
            constant = constant[0]
        if constant:
            key = (*key, constant)
            known = self._known(len(self.loops))
            if key not in known:
                known[key] = self.emit(f"getelementptr i8, ptr {address}, i64 {constant * size}")
            address = known[key]
        self.values[node] = address

    def _known(self, depth: int) -> dict[object, str]:
        """What was computed where as many loops were open."""
        return self.loops[depth - 1].known if depth else self.known

    def _moved(self, address: str, value: UOp, step: int) -> str:
        """An address, moved by some bytes for each of a value."""
        lane, depth = _SCALES.get(step), self.depths[value]
        if lane is None:
            multiple = self._multiple(value, step)
            return self.outside(depth, f"getelementptr i8, ptr {address}, i64 {multiple}")
        return self.outside(depth, f"getelementptr {lane}, ptr {address}, i64 {self._word(value)}")

    def _multiple(self, value: UOp, step: int) -> str:
        """Some times a value; in an innermost loop, its counter's multiples count themselves."""
        depth = self.depths[value]
        known, key = self._known(depth), (value, step)
        if key not in known:
            text = f"mul i64 {self._word(value)}, {step}"
            if value.op is ops.RANGE:
                known[key] = self._counted(self.loops[depth - 1], text, step)
            else:
                known[key] = self.outside(depth, text)
        return known[key]

    def _counted(self, loop: Loop, text: str, step: int) -> str:
        name = self.fresh()
        if loop.node in self.innermost and loop.start == "0":
            loop.steps.append((name, step))
        else:
            loop.first.append(f"  {name} = {text}")
        return name

    def _word(self, value: UOp) -> str:
        """A number as wide as an address."""
        depth = self.depths[value]
        if value.op is ops.RANGE:
            return self.loops[depth - 1].counter
        if value.dtype.bits == 64:
            return self.value(value)
        known = self._known(depth)
        if value not in known:
            wider = "zext" if value.dtype.kind is Kind.UNSIGNED else "sext"
            known[value] = self.outside(depth, f"{wider} {self.typed(value)} to i64")
        return known[value]

    def _places(self, place: UOp, lanes: Sequence[int]) -> str:
        """The addresses of some lanes."""
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
        register = self.registers.places.get(place)
        if register is not None:
            self.values[node] = self.registers.kept.get(register, "poison")
            return
        gate, other = _gate(place), node.src[1] if len(node.src) > 1 else None
        scattered = _index(place).dtype.count > 1
        align = alignment(node.dtype)
        if scattered:
            value = self._gather(node, place, gate, other)
        elif gate is None:
            value = self.emit(f"load {kind}, ptr {self.value(place)}, align {align}")
        elif gate.dtype.count > 1:
            value = self._masked_load(node, place, gate, other)
        else:
            safe = self.emit(
                f"select i1 {self.value(gate)}, ptr {self.value(place)}, ptr {self.dummy(kind)}"
            )
            value = self.emit(f"load {kind}, ptr {safe}, align {align}")
        if node in self.fetched and not scattered:
            self._fetch(place, node.dtype, self.fetched[node])
        value = self._as_value(value, node.dtype)
        if gate is not None and other is not None and gate.dtype.count == 1 and not scattered:
            both = type_of(node.dtype)
            value = self.emit(
                f"select i1 {self.value(gate)}, {both} {value}, {both} {self.value(other)}"
            )
        self.values[node] = value

    def _fetch(self, place: UOp, dtype: DType, ahead: int) -> None:
        """What is some elements ahead, a line of the cache at a time; it need not be in memory."""
        lane, size = memory_type(dtype.element), max(dtype.element.bits // 8, 1)
        for first in range(0, dtype.count, max(LINE // size, 1)):
            there = f"getelementptr {lane}, ptr {self.value(place)}, i64 {ahead + first}"
            self._fetch_line(self.emit(there))

    def fetch(self, place: UOp) -> None:
        """The line of the cache that a pointer points to."""
        self._fetch_line(self.value(place))

    def _fetch_line(self, pointer: str) -> None:
        kinds = ("i32 0", "i32 2", "i32 1")  # to read, into the second cache, data
        self.call("llvm.prefetch.p0", "void", f"ptr {pointer}", *kinds)

    def _masked_load(self, node: UOp, place: UOp, gate: UOp, other: UOp | None) -> str:
        kind = memory_type(node.dtype)
        passed = self._in_memory(other) if other is not None else "zeroinitializer"
        return self.call(
            f"llvm.masked.load.{mangled(kind)}.p0", kind,
            f"ptr align {alignment(node.dtype)} {self._reached(place, node.dtype)}",
            self.typed(gate), f"{kind} {passed}",
        )  # fmt: skip

    def _reached(self, place: UOp, dtype: DType) -> str:
        """Where a masked load is; if all lanes are far from the buffer, the beginning of that.

        Not to read where there is no memory takes a processor a thousand cycles.
        """
        pointer, at, base = self.value(place), _index(place), _base(place)
        size, room = base.dtype.size, PAGE // max(dtype.element.bits // 8, 1)
        if size < 0 or (at.vmin >= -room and at.vmax < size + room):
            return pointer
        bytes_each, before = max(dtype.element.bits // 8, 1), dtype.count - 1
        here = self.emit(f"ptrtoint ptr {pointer} to i64")
        there = self.emit(f"ptrtoint ptr {self.value(base)} to i64")
        moved = self.emit(f"sub i64 {here}, {there}")
        last = self.emit(f"add i64 {moved}, {before * bytes_each}")
        inside = self.emit(f"icmp ult i64 {last}, {(size + before) * bytes_each}")
        return self.emit(f"select i1 {inside}, ptr {pointer}, ptr {self.value(base)}")

    def _gather(self, node: UOp, place: UOp, gate: UOp | None, other: UOp | None) -> str:
        kind, width = memory_type(node.dtype), node.dtype.count
        mask = self._mask(gate, width)
        passed = self._in_memory(other) if other is not None else "zeroinitializer"
        return self.call(
            f"llvm.masked.gather.{mangled(kind)}.v{width}p0", kind,
            f"<{width} x ptr> align {alignment(node.dtype)} {self._places(place, range(width))}",
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
        register = self.registers.places.get(place)
        if register is not None:
            self.registers.kept[register] = self.value(value)
            return
        gate = _gate(place)
        kind, data = memory_type(value.dtype), self._in_memory(value)
        align = alignment(value.dtype)
        if _index(place).dtype.count > 1:
            self._scatter(node, data, gate)
        elif gate is not None and gate.dtype.count > 1:
            if node.arg != STREAM or not self._stream_whole(node, data, gate):
                self._masked_store(node, data, gate)
        else:
            where = self.value(place)
            if gate is not None:
                dummy = self.dummy(kind)
                where = self.emit(f"select i1 {self.value(gate)}, ptr {where}, ptr {dummy}")
            if node.arg != STREAM or gate is not None or not self._stream(node, data):
                self.do(f"store {kind} {data}, ptr {where}, align {align}")

    def _masked_store(self, node: UOp, data: str, gate: UOp) -> None:
        place, value = node.src
        kind, align = memory_type(value.dtype), alignment(value.dtype)
        self.call(
            f"llvm.masked.store.{mangled(kind)}.p0", "void", f"{kind} {data}",
            f"ptr align {align} {self.value(place)}", self.typed(gate),
        )  # fmt: skip

    def _scatter(self, node: UOp, data: str, gate: UOp | None) -> None:
        """Stores of lanes, not too many at once: some processors are slow at that."""
        place, value = node.src
        width, lane = value.dtype.count, memory_type(value.dtype.element)
        part = SCATTERED if width % SCATTERED == 0 else width
        mask = "splat (i1 true)" if gate is None else self._mask(gate, width)
        for first in range(0, width, part):
            chosen, kind = range(first, first + part), f"<{part} x {lane}>"
            stored, kept = data, mask
            if part < width:
                whole = f"<{width} x {lane}>"
                stored = self.shuffle(f"{whole} {data}", f"{whole} poison", chosen)
                if gate is not None:
                    bits = f"<{width} x i1>"
                    kept = self.shuffle(f"{bits} {mask}", f"{bits} poison", chosen)
            self.call(
                f"llvm.masked.scatter.{mangled(kind)}.v{part}p0", "void", f"{kind} {stored}",
                f"<{part} x ptr> align {alignment(value.dtype)} {self._places(place, chosen)}",
                f"<{part} x i1> {kept}",
            )  # fmt: skip

    def _stream_whole(self, node: UOp, data: str, gate: UOp) -> bool:
        """A store past the caches where all lanes are stored; where not, as usual."""
        if not self._streamed_lanes(node):
            return False
        mask = self.typed(gate)
        whole = self.call(f"llvm.vector.reduce.and.v{gate.dtype.count}i1", "i1", mask)
        name = self.fresh().removeprefix("%")
        self.do(f"br i1 {whole}, label %{name}.whole, label %{name}.part")
        self.label(f"{name}.whole")
        self._stream(node, data)
        self.do(f"br label %{name}.stored")
        self.label(f"{name}.part")
        self._masked_store(node, data, gate)
        self.do(f"br label %{name}.stored")
        self.label(f"{name}.stored")
        return True

    def _streamed_lanes(self, node: UOp) -> int:
        """How many lanes are stored past the caches at once; 0 if that cannot be."""
        place, value = node.src
        if place.src[0].op is not ops.PARAM:
            return 0
        lanes = math.gcd(*place.src[1].residue, value.dtype.count)
        return lanes if lanes * max(value.dtype.element.bits // 8, 1) >= SHORTEST else 0

    def _stream(self, node: UOp, data: str) -> bool:
        """A store past the caches, in parts where it is not at a multiple of its size."""
        place, value = node.src
        base, lanes = place.src[0], self._streamed_lanes(node)
        if not lanes:
            return False
        width, size = value.dtype.count, max(value.dtype.element.bits // 8, 1)
        lane, align = memory_type(value.dtype.element), lanes * size
        pointer = self.value(place)
        for first in range(0, width, lanes):
            part, there = data, pointer
            if lanes < width:
                whole = f"{memory_type(value.dtype)} {data}"
                poison = f"{memory_type(value.dtype)} poison"
                part = self.shuffle(whole, poison, range(first, first + lanes))
                there = self.emit(f"getelementptr inbounds {lane}, ptr {pointer}, i64 {first}")
            text = f"  store <{lanes} x {lane}> {part}, ptr {there}"
            line = len(self.body)
            self.body.append(self.streams.store(line, self.value(base), text, size, align))
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


def _gate(place: UOp) -> UOp | None:
    while place.op is not ops.INDEX:
        place = place.src[0]
    return place.src[-1] if place.src[-1].dtype.element is boolean else None


def _index(place: UOp) -> UOp:
    while place.op is not ops.INDEX:
        place = place.src[0]
    return place.src[1]


def _base(place: UOp) -> UOp:
    while place.op is not ops.INDEX:
        place = place.src[0]
    return place.src[0]


def _size(element: DType) -> int:
    """The bytes from one element to the next: those of a vector are a power of two."""
    lane = element.element if element.count > 1 else element
    size = max(lane.bits // 8, 1) * element.count
    return size if element.count == 1 else 1 << (size - 1).bit_length()
