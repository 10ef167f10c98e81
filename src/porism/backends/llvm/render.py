"""Render: a linear kernel as the text of LLVM IR.

A kernel becomes a function of its buffers, its variables, and the part of its outermost loop that
it is to run, if that loop is of the kind THREAD; and one that takes them from an array of 64-bit
words:

    void name.body(ptr p0, ptr p1, …, i64 n, …, i64 begin, i64 end)
    void name(ptr arguments, i64 begin, i64 end)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from porism.backends.function import parameters
from porism.backends.llvm.arithmetic import ARITHMETIC
from porism.backends.llvm.compile import machine
from porism.backends.llvm.streams import SHORTEST, Streams
from porism.backends.llvm.types import (
    alignment,
    conversion,
    literal,
    mangled,
    memory_type,
    type_of,
)
from porism.base.dtypes import DType, Kind, boolean
from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.expression import show
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.signatures import STREAM

ALIGNMENT: Final = 64
"""Of local memory, in bytes."""


class Renderer:
    """One kernel being written."""

    def __init__(self, name: str, lines: Sequence[UOp], *, alias: bool = False) -> None:
        self.name = name
        self.lines = lines
        self.alias = alias
        self.values: dict[UOp, str] = {}
        self.entry: list[str] = []
        self.body: list[str] = []
        self.declared: dict[str, None] = {}
        self.count = 0
        self.block = "entry"
        self.loops: dict[UOp, tuple[str, str, str]] = {}  # counter: its names and blocks
        self.dummies: dict[str, str] = {}
        self.streams = Streams()
        self.joined = {
            s for n in lines if n.op is not ops.GEP or len(n.arg) < 2 for s in n.src
            if s.op is ops.CAT
        }  # fmt: skip

    def text(self) -> str:
        """The function and the declarations that it needs."""
        for node in self.lines:
            handler = _HANDLERS.get(node.op)
            if handler is None:
                raise PorismError(
                    f"{node.op.name} has no form in LLVM IR",
                    where=show(node, limit=200),
                    why="it should have been lowered before",
                )
            handler(self, node)
        if self.streams.plain and machine().triple.startswith("x86_64"):
            self.call("llvm.x86.sse.sfence", "void")  # such stores are seen in any order
        buffers, variables = parameters(self.lines)
        arguments = [self._parameter(p) for p in buffers]
        arguments += [f"i64 %v{k}" for k in range(len(variables))]
        arguments += ["i64 %begin", "i64 %end"]
        code = self._function(f"{self.name}.body", arguments, self.body)
        if self.streams.plain:
            plain = self.streams.without(self.body)
            code += self._function(f"{self.name}.plain", arguments, plain)
        return "\n".join([*self.declared, *code, *self._unpacking(buffers, variables)]) + "\n"

    def _function(self, name: str, arguments: Sequence[str], body: Sequence[str]) -> list[str]:
        head = f"define private void @{name}({', '.join(arguments)}) #0 {{"
        return [head, "entry:", *self.entry, *body, "  ret void", "}"]

    def _unpacking(self, buffers: Sequence[UOp], variables: Sequence[UOp]) -> list[str]:
        """The function that takes its arguments from an array."""
        lines = [f"define void @{self.name}(ptr %arguments, i64 %begin, i64 %end) #0 {{"]
        passed = []
        for place, node in enumerate([*buffers, *variables]):
            kind = "ptr" if node.op is ops.PARAM else "i64"
            lines.append(f"  %at{place} = getelementptr i64, ptr %arguments, i64 {place}")
            lines.append(f"  %a{place} = load {kind}, ptr %at{place}")
            passed.append(f"{kind} %a{place}")
        passed += ["i64 %begin", "i64 %end"]
        values = ", ".join(passed)
        if self.streams.plain:
            lines += self.streams.choice(buffers, f"call void @{self.name}.plain({values})")
        return [*lines, f"  call void @{self.name}.body({values})", "  ret void", "}"]

    def _parameter(self, node: UOp) -> str:
        noalias = "" if self.alias else " noalias"
        return f"ptr{noalias} %p{node.arg}"

    # -- small pieces ------------------------------------------------------------------------------

    def fresh(self) -> str:
        self.count += 1
        return f"%x{self.count}"

    def emit(self, text: str) -> str:
        """A line that defines a value; its name."""
        name = self.fresh()
        self.body.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        self.body.append(f"  {text}")

    def value(self, node: UOp) -> str:
        return self.values[node]

    def typed(self, node: UOp) -> str:
        return f"{type_of(node.dtype)} {self.values[node]}"

    def call(self, name: str, result: str, *arguments: str) -> str:
        """A call of an intrinsic, declared once."""
        types = ", ".join(_split_type(a) for a in arguments)
        self.declared[f"declare {result} @{name}({types})"] = None
        text = f"call {result} @{name}({', '.join(arguments)})"
        if result == "void":
            self.do(text)
            return ""
        return self.emit(text)

    def allocate(self, text: str) -> str:
        name = self.fresh()
        self.entry.append(f"  {name} = alloca {text}")
        return name

    def dummy(self, memory: str) -> str:
        """A place that may always be read and written."""
        if memory not in self.dummies:
            self.dummies[memory] = self.allocate(f"{memory}, align {ALIGNMENT}")
        return self.dummies[memory]

    def label(self, name: str) -> None:
        self.body.append(f"{name}:")
        self.block = name

    # -- leaves ------------------------------------------------------------------------------------

    def constant(self, node: UOp) -> None:
        self.values[node] = literal(node.dtype, node.arg)

    def parameter(self, node: UOp) -> None:
        self.values[node] = f"%p{node.arg}"

    def variable(self, node: UOp) -> None:
        _, variables = parameters(self.lines)
        name = f"%v{variables.index(node)}"
        if node.dtype.bits < 64:
            name = self.emit(f"trunc i64 {name} to {type_of(node.dtype)}")
        self.values[node] = name

    def memory(self, node: UOp) -> None:
        kept = node.dtype.element
        lane = memory_type(kept)
        size = f"[{max(node.dtype.size, 1)} x {lane}]" if node.dtype.size != 1 else lane
        self.values[node] = self.allocate(f"{size}, align {ALIGNMENT}")

    # -- loops -------------------------------------------------------------------------------------

    def loop(self, node: UOp) -> None:
        kind, number = type_of(node.dtype), len(self.loops)
        counter, before = f"%r{number}", self.block
        start, end = "0", self.value(node.src[0])
        if node.arg[1] is Axis.THREAD:
            start, end = "%begin", "%end"
            if node.dtype.bits < 64:
                start = self.emit(f"trunc i64 {start} to {kind}")
                end = self.emit(f"trunc i64 {end} to {kind}")
        head, after = f"loop{number}", f"after{number}"
        if node.arg[1] is Axis.THREAD or node.src[0].vmin < 1:
            some = self.emit(f"icmp slt {kind} {start}, {end}")
            self.do(f"br i1 {some}, label %{head}, label %{after}")
        else:
            self.do(f"br label %{head}")
        self.label(head)
        place = len(self.body)
        self.body.append("")  # the counter, when its last block is known
        self.values[node] = counter
        self.loops[node] = (str(place), end, before + " " + start)

    def end(self, node: UOp) -> None:
        counter = node.src[-1]
        place, end, begun = self.loops[counter]
        before, start = begun.split()
        kind, name = type_of(counter.dtype), self.values[counter]
        following = self.emit(f"add nuw nsw {kind} {name}, 1")
        more = self.emit(f"icmp slt {kind} {following}, {end}")
        number = name.removeprefix("%r")
        self.body[int(place)] = (
            f"  {name} = phi {kind} [ {start}, %{before} ], [ {following}, %{self.block} ]"
        )
        self.do(f"br i1 {more}, label %loop{number}, label %after{number}")
        self.label(f"after{number}")

    # -- memory ------------------------------------------------------------------------------------

    def pointer(self, node: UOp) -> None:
        """INDEX: the address, or one for each lane."""
        base, at = node.src[0], node.src[1]
        lane = memory_type(base.dtype.element)
        self.values[node] = self.emit(
            f"getelementptr inbounds {lane}, ptr {self.value(base)}, {self.typed(at)}"
            if _gate(node) is None
            else f"getelementptr {lane}, ptr {self.value(base)}, {self.typed(at)}"
        )

    def load(self, node: UOp) -> None:
        place, kind = node.src[0], memory_type(node.dtype)
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
        value = self._as_value(value, node.dtype)
        if gate is not None and other is not None and gate.dtype.count == 1 and not scattered:
            both = type_of(node.dtype)
            value = self.emit(
                f"select i1 {self.value(gate)}, {both} {value}, {both} {self.value(other)}"
            )
        self.values[node] = value

    def _masked_load(self, node: UOp, place: UOp, gate: UOp, other: UOp | None) -> str:
        kind = memory_type(node.dtype)
        passed = self._in_memory(other) if other is not None else "zeroinitializer"
        return self.call(
            f"llvm.masked.load.{mangled(kind)}.p0", kind,
            f"ptr align {alignment(node.dtype)} {self.value(place)}", self.typed(gate),
            f"{kind} {passed}",
        )  # fmt: skip

    def _gather(self, node: UOp, place: UOp, gate: UOp | None, other: UOp | None) -> str:
        kind, width = memory_type(node.dtype), node.dtype.count
        mask = self._mask(gate, width)
        passed = self._in_memory(other) if other is not None else "zeroinitializer"
        return self.call(
            f"llvm.masked.gather.{mangled(kind)}.v{width}p0", kind,
            f"<{width} x ptr> align {alignment(node.dtype)} {self.value(place)}",
            f"<{width} x i1> {mask}", f"{kind} {passed}",
        )  # fmt: skip

    def _mask(self, gate: UOp | None, width: int) -> str:
        if gate is None:
            return "splat (i1 true)"
        if gate.dtype.count == width:
            return self.value(gate)
        return self._splat("i1", self.value(gate), width)

    def store(self, node: UOp) -> None:
        place, value = node.src
        gate = _gate(place)
        kind, data = memory_type(value.dtype), self._in_memory(value)
        align = alignment(value.dtype)
        if _index(place).dtype.count > 1:
            width = value.dtype.count
            self.call(
                f"llvm.masked.scatter.{mangled(kind)}.v{width}p0", "void", f"{kind} {data}",
                f"<{width} x ptr> align {align} {self.value(place)}",
                f"<{width} x i1> {self._mask(gate, width)}",
            )  # fmt: skip
        elif gate is not None and gate.dtype.count > 1:
            self.call(
                f"llvm.masked.store.{mangled(kind)}.p0", "void", f"{kind} {data}",
                f"ptr align {align} {self.value(place)}", self.typed(gate),
            )  # fmt: skip
        else:
            where = self.value(place)
            if gate is not None:
                dummy = self.dummy(kind)
                where = self.emit(f"select i1 {self.value(gate)}, ptr {where}, ptr {dummy}")
            if node.arg != STREAM or gate is not None or not self._stream(node, data):
                self.do(f"store {kind} {data}, ptr {where}, align {align}")
        self.values[node] = ""

    def _stream(self, node: UOp, data: str) -> bool:
        """A store past the caches, in parts where it is not at a multiple of its size."""
        place, value = node.src
        base, at = place.src[0], place.src[1]
        if base.op is not ops.PARAM:
            return False
        width, size = value.dtype.count, max(value.dtype.element.bits // 8, 1)
        lanes = math.gcd(*at.residue, width)
        if lanes * size < SHORTEST:
            return False
        lane, align = memory_type(value.dtype.element), lanes * size
        pointer = self.value(place)
        for first in range(0, width, lanes):
            part, there = data, pointer
            if lanes < width:
                whole = f"{memory_type(value.dtype)} {data}"
                poison = f"{memory_type(value.dtype)} poison"
                part = self._shuffle(whole, poison, range(first, first + lanes))
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

    # -- arithmetic --------------------------------------------------------------------------------

    def arithmetic(self, node: UOp) -> None:
        lane = node.src[0].dtype.element if node.src[0].dtype.count > 1 else node.src[0].dtype
        self.values[node] = ARITHMETIC[node.op](self, node, lane)

    def choice(self, node: UOp) -> None:
        self.values[node] = self.emit("select " + ", ".join(map(self.typed, node.src)))

    def fused(self, node: UOp) -> None:
        kind = type_of(node.dtype)
        if not node.dtype.is_float:
            product = self.emit(f"mul {self.typed(node.src[0])}, {self.value(node.src[1])}")
            self.values[node] = self.emit(f"add {kind} {product}, {self.value(node.src[2])}")
            return
        name = f"llvm.fma.{mangled(kind)}"
        self.values[node] = self.call(name, kind, *map(self.typed, node.src))

    def cast(self, node: UOp) -> None:
        source = node.src[0]
        if node.dtype.kind is Kind.POINTER:
            self.values[node] = self.value(source)
            return
        word = conversion(source.dtype, node.dtype)
        target = type_of(node.dtype)
        if word == "nonzero":
            compare = "fcmp une" if source.dtype.is_float else "icmp ne"
            zero = literal(source.dtype, 0.0 if source.dtype.is_float else 0)
            self.values[node] = self.emit(f"{compare} {self.typed(source)}, {zero}")
        elif word == "":
            self.values[node] = self.value(source)
        elif word.endswith("sat"):
            name = f"llvm.{word}.{mangled(target)}.{mangled(type_of(source.dtype))}"
            self.values[node] = self.call(name, target, self.typed(source))
        else:
            self.values[node] = self.emit(f"{word} {self.typed(source)} to {target}")

    def bitcast(self, node: UOp) -> None:
        target = type_of(node.dtype)
        if type_of(node.src[0].dtype) == target:
            self.values[node] = self.value(node.src[0])
        else:
            self.values[node] = self.emit(f"bitcast {self.typed(node.src[0])} to {target}")

    # -- lanes -------------------------------------------------------------------------------------

    def _splat(self, scalar: str, value: str, width: int) -> str:
        vector = f"<{width} x {scalar}>"
        one = self.emit(f"insertelement {vector} poison, {scalar} {value}, i32 0")
        zeros = f"<{width} x i32> zeroinitializer"
        return self.emit(f"shufflevector {vector} {one}, {vector} poison, {zeros}")

    def vectorize(self, node: UOp) -> None:
        kind, width = type_of(node.dtype), node.dtype.count
        scalar = type_of(node.src[0].dtype)
        if len(set(node.src)) == 1:
            self.values[node] = self._splat(scalar, self.value(node.src[0]), width)
            return
        vector = "poison"
        for lane, source in enumerate(node.src):
            vector = self.emit(f"insertelement {kind} {vector}, {self.typed(source)}, i32 {lane}")
        self.values[node] = vector

    def lanes(self, node: UOp) -> None:
        source = node.src[0]
        if source.dtype.count == 1:
            self.values[node] = self.value(source)
        elif len(node.arg) == 1:
            self.values[node] = self.emit(f"extractelement {self.typed(source)}, i32 {node.arg[0]}")
        elif source.op is ops.CAT and len(source.src) == 2:
            first, second = map(self.typed, source.src)
            self.values[node] = self._shuffle(first, second, node.arg)
        else:
            poison = f"{type_of(source.dtype)} poison"
            self.values[node] = self._shuffle(self.typed(source), poison, node.arg)

    def _shuffle(self, first: str, second: str, lanes: Sequence[int]) -> str:
        chosen = ", ".join(f"i32 {lane}" for lane in lanes)
        mask = f"<{len(lanes)} x i32> <{chosen}>"
        return self.emit(f"shufflevector {first}, {second}, {mask}")

    def concatenation(self, node: UOp) -> None:
        """CAT: vectors of one width, two and two, if they are not only shuffled."""
        if len(node.src) == 2 and node not in self.joined:
            return
        parts = [self.value(s) for s in node.src]
        width, lane = node.src[0].dtype.count, type_of(node.dtype.element)
        while len(parts) > 1:
            kind = f"<{width} x {lane}>"
            width *= 2
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self._shuffle(f"{kind} {a}", f"{kind} {b}", range(width)) for a, b in pairs]
        self.values[node] = parts[0]

    # -- order -------------------------------------------------------------------------------------

    def passing(self, node: UOp) -> None:
        self.values[node] = self.values[node.src[0]]

    def nothing(self, node: UOp) -> None:
        self.values[node] = ""


def _split_type(argument: str) -> str:
    """The type of an argument that is written as `type [align n] value`."""
    if argument.startswith("<"):
        end = argument.index(">") + 1
        return argument[:end]
    return argument.split()[0]


def _gate(place: UOp) -> UOp | None:
    while place.op is not ops.INDEX:
        place = place.src[0]
    return place.src[-1] if place.src[-1].dtype.element is boolean else None


def _index(place: UOp) -> UOp:
    while place.op is not ops.INDEX:
        place = place.src[0]
    return place.src[1]


Handler = Callable[[Renderer, UOp], None]

_HANDLERS: Final[dict[Op, Handler]] = {
    ops.CONST: Renderer.constant,
    ops.VCONST: Renderer.constant,
    ops.PARAM: Renderer.parameter,
    ops.VARIABLE: Renderer.variable,
    ops.DEFINE_REG: Renderer.memory,
    ops.DEFINE_LOCAL: Renderer.memory,
    ops.RANGE: Renderer.loop,
    ops.END: Renderer.end,
    ops.INDEX: Renderer.pointer,
    ops.LOAD: Renderer.load,
    ops.STORE: Renderer.store,
    ops.WHERE: Renderer.choice,
    ops.MULACC: Renderer.fused,
    ops.CAST: Renderer.cast,
    ops.BITCAST: Renderer.bitcast,
    ops.VECTORIZE: Renderer.vectorize,
    ops.GEP: Renderer.lanes,
    ops.CAT: Renderer.concatenation,
    ops.AFTER: Renderer.passing,
    ops.GROUP: Renderer.nothing,
    ops.NOOP: Renderer.nothing,
    ops.SINK: Renderer.nothing,
    **dict.fromkeys(ARITHMETIC, Renderer.arithmetic),
}
