"""Loops: what is written at their heads, before them, and where they end.

A counter that addresses are made of is as wide as an address. Registers that a loop changes are
values at its head: what was there before it, or at the end of the last round.

LLVM is told how many rounds a loop has. It would take each for one of thirty, so that in

    for tile: { for k < 1024: sums += …    for i < 6: for j < 4: y[i, j] = exp(sums[i, j]) }

the deepest loop would seem to be the one that matters, and its constants would be in the registers
that the sums need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.backends.llvm.address_hoisting import Addresses
from porism.backends.llvm.llvm_types import type_of
from porism.backends.llvm.llvm_writer import Writer
from porism.backends.llvm.register_promotion import Registers
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp

MOST_ROUNDS: Final = (1 << 31) - 1
"""That LLVM can be told of."""


@dataclass(slots=True)
class Loop:
    """An open loop."""

    node: UOp
    counter: str
    kind: str
    """Its type."""
    start: str
    end: str
    before: str
    """The block that it is entered from."""
    is_certain: bool
    """Whether it runs at least once."""
    place: int
    """The line for what belongs before it."""
    head: int
    """The line for what belongs at its head."""
    outside: list[str] = field(default_factory=list)
    first: list[str] = field(default_factory=list)
    """What is computed at its head."""
    steps: list[tuple[str, int]] = field(default_factory=list)
    """Values that count by themselves, from 0 on, and their steps."""
    registers: dict[UOp, tuple[str, str]] = field(default_factory=dict)
    """Those that it changes: the name at its head, and what was there before."""
    known: dict[object, str] = field(default_factory=dict)
    """Parts of addresses for all that is inside."""


class Loops(Writer):
    """The loops of a kernel."""

    def __init__(self, lines: Sequence[UOp]) -> None:
        super().__init__(lines)
        self.addresses = Addresses(lines)
        self.registers = Registers(lines)
        self.innermost = innermost(lines)
        self.loops: list[Loop] = []
        self.depths: dict[UOp, int] = {}
        """How many loops were open where a value was computed."""
        self.begun = 0

    def loop(self, node: UOp) -> None:
        number, bound, is_shared = self.begun, node.src[0], node.arg[1] is Axis.THREAD
        self.begun += 1
        is_wide = node in self.addresses.counters
        kind = "i64" if is_wide else type_of(node.dtype)
        start, end = "0", self.value(bound)
        if is_shared:
            start, end = "%begin", "%end"
            if kind != "i64":
                start = self.emit(f"trunc i64 {start} to {kind}")
                end = self.emit(f"trunc i64 {end} to {kind}")
        elif kind != type_of(node.dtype) and bound.op is not ops.CONST:
            end = self.emit(f"sext {self.typed(bound)} to {kind}")
        is_certain, before, place = not is_shared and bound.vmin >= 1, self.block, self.later()
        if is_certain:
            self.do(f"br label %loop{number}")
        else:
            some = self.emit(f"icmp slt {kind} {start}, {end}")
            self.do(f"br i1 {some}, label %loop{number}, label %after{number}")
        self.label(f"loop{number}")
        counter = f"%r{number}"
        loop = Loop(node, counter, kind, start, end, before, is_certain, place, self.later())
        self.loops.append(loop)
        self.values[node] = counter
        if kind != type_of(node.dtype) and node in self.addresses.needed:
            self.values[node] = f"{counter}.short"
            loop.first.append(
                f"  {counter}.short = trunc {kind} {counter} to {type_of(node.dtype)}"
            )
        kept = self.registers.kept
        for register in self.registers.changed.get(node, ()):
            if register in kept:
                name = self.fresh()
                loop.registers[register] = name, kept[register]
                kept[register] = name

    def end(self, node: UOp) -> None:
        loop, kept = self.loops.pop(), self.registers.kept
        came, last = f"%{loop.before}", f"%{self.block}"
        heads = [self._next(loop, loop.kind, loop.counter, loop.start, 1)]
        more = self.emit(f"icmp slt {loop.kind} {loop.counter}.next, {loop.end}")
        heads += [self._next(loop, "i64", name, "0", step) for name, step in loop.steps]
        for register, (name, before) in loop.registers.items():
            kind = type_of(register.dtype.element)
            heads.append(
                f"  {name} = phi {kind} [ {before}, {came} ], [ {kept[register]}, {last} ]"
            )
        self.body[loop.place] = "\n".join(loop.outside)
        self.body[loop.head] = "\n".join([*heads, *loop.first])
        number = loop.counter.removeprefix("%r")
        self.do(f"br i1 {more}, label %loop{number}, label %after{number}{_rounds(loop.node)}")
        self.label(f"after{number}")
        if not loop.is_certain:
            for register in self.registers.changed.get(loop.node, ()):
                kind = type_of(register.dtype.element)
                before = loop.registers[register][1] if register in loop.registers else "poison"
                kept[register] = self.emit(
                    f"phi {kind} [ {before}, {came} ], [ {kept[register]}, {last} ]"
                )

    def _next(self, loop: Loop, kind: str, name: str, start: str, step: int) -> str:
        """Count on at the end of a round; what stands at the head."""
        self.do(f"{name}.next = add nsw {kind} {name}, {step}")
        return f"  {name} = phi {kind} [ {start}, %{loop.before} ], [ {name}.next, %{self.block} ]"

    def outside(self, depth: int, text: str) -> str:
        """A value that is computed where as many loops are open, now or before."""
        if depth == len(self.loops):
            return self.emit(text)
        name = self.fresh()
        self.loops[depth].outside.append(f"  {name} = {text}")
        return name


def _rounds(counter: UOp) -> str:
    """What is said of the end of a loop: how often it goes on, and how often not."""
    size = counter.src[0]
    if size.op is not ops.CONST or counter.arg[1] is Axis.THREAD:
        return ""
    more = min(max(int(size.arg) - 1, 0), MOST_ROUNDS)
    return f', !prof !{{!"branch_weights", i32 {more}, i32 1}}'


def innermost(lines: Sequence[UOp]) -> set[UOp]:
    """The loops that have no others inside."""
    found: set[UOp] = set()
    last: UOp | None = None
    for node in lines:
        if node.op is ops.RANGE:
            last = node
        elif node.op is ops.END and last is not None:
            found.add(last)
            last = None
    return found
