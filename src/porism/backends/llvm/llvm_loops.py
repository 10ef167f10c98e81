"""LLVM loops: the header, preheader and latch of each loop.

An induction variable that addresses use is 64 bits wide. Registers that a loop changes are phis at
its header: the value from before the loop, or from the end of the previous iteration.

Branch weights tell LLVM the trip count of each loop. It would assume about thirty for each, so that
in

    for tile: { for k < 1024: sums += …    for i < 6: for j < 4: y[i, j] = exp(sums[i, j]) }

the deepest loop would seem to be the hottest, and its constants would take the registers that the
sums need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from porism.backends.llvm.address_hoisting import AddressParts
from porism.backends.llvm.llvm_types import type_of
from porism.backends.llvm.llvm_writer import Writer
from porism.backends.llvm.register_promotion import PromotedRegisters
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp

MAX_BRANCH_WEIGHT: Final = (1 << 31) - 1
"""The largest branch weight, a signed 32-bit number."""


@dataclass(slots=True)
class OpenLoop:
    """A loop whose end is not written yet."""

    node: UOp
    variable: str
    kind: str
    """The LLVM type of the induction variable."""
    start: str
    end: str
    before: str
    """The basic block that enters the loop."""
    is_certain: bool
    """Whether the loop runs at least once."""
    preheader_line: int
    """The number of the line reserved for the preheader."""
    header_line: int
    """The number of the line reserved for the header."""
    preheader: list[str] = field(default_factory=list)
    """Lines of the preheader."""
    header: list[str] = field(default_factory=list)
    """Lines of the header, after the phis."""
    strides: list[tuple[str, int]] = field(default_factory=list)
    """Further induction variables from 0, and their strides in bytes."""
    registers: dict[UOp, tuple[str, str]] = field(default_factory=dict)
    """The registers that the loop changes: the name of the phi, and the value before the loop."""
    known: dict[object, str] = field(default_factory=dict)
    """Parts of addresses that were computed in this loop, for reuse inside of it."""


class LoopWriter(Writer):
    """Writes the loops of a kernel."""

    def __init__(self, instructions: Sequence[UOp]) -> None:
        super().__init__(instructions)
        self.addresses = AddressParts(instructions)
        self.registers = PromotedRegisters(instructions)
        self.innermost = innermost_loops(instructions)
        self.loops: list[OpenLoop] = []
        self.depths: dict[UOp, int] = {}
        """The loop depth at which each value was computed."""
        self.loop_count = 0

    def loop(self, node: UOp) -> None:
        number, bound, is_shared = self.loop_count, node.src[0], node.arg[1] is Axis.THREAD
        self.loop_count += 1
        is_wide = node in self.addresses.loops
        kind = "i64" if is_wide else type_of(node.dtype)
        start, end = "0", self.value(bound)
        if is_shared:
            start, end = "%begin", "%end"
            if kind != "i64":
                start = self.emit(f"trunc i64 {start} to {kind}")
                end = self.emit(f"trunc i64 {end} to {kind}")
        elif kind != type_of(node.dtype) and bound.op is not ops.CONST:
            end = self.emit(f"sext {self.typed(bound)} to {kind}")
        is_certain, before, place = (
            not is_shared and bound.vmin >= 1,
            self.block,
            self.reserve_line(),
        )
        if is_certain:
            self.do(f"br label %loop{number}")
        else:
            runs = self.emit(f"icmp slt {kind} {start}, {end}")
            self.do(f"br i1 {runs}, label %loop{number}, label %after{number}")
        self.label(f"loop{number}")
        variable = f"%r{number}"
        loop = OpenLoop(
            node, variable, kind, start, end, before, is_certain, place, self.reserve_line()
        )
        self.loops.append(loop)
        self.values[node] = variable
        if kind != type_of(node.dtype) and node in self.addresses.needed:
            self.values[node] = f"{variable}.short"
            loop.header.append(
                f"  {variable}.short = trunc {kind} {variable} to {type_of(node.dtype)}"
            )
        current = self.registers.current
        for register in self.registers.changed.get(node, ()):
            if register in current:
                name = self.fresh()
                loop.registers[register] = name, current[register]
                current[register] = name

    def end(self, node: UOp) -> None:
        loop, current = self.loops.pop(), self.registers.current
        entry, latch = f"%{loop.before}", f"%{self.block}"
        phis = [self._next(loop, loop.kind, loop.variable, loop.start, 1)]
        continues = self.emit(f"icmp slt {loop.kind} {loop.variable}.next, {loop.end}")
        phis += [self._next(loop, "i64", name, "0", step) for name, step in loop.strides]
        for register, (name, before) in loop.registers.items():
            kind = type_of(register.dtype.element)
            phis.append(
                f"  {name} = phi {kind} [ {before}, {entry} ], [ {current[register]}, {latch} ]"
            )
        self.body[loop.preheader_line] = "\n".join(loop.preheader)
        self.body[loop.header_line] = "\n".join([*phis, *loop.header])
        number = loop.variable.removeprefix("%r")
        weights = _branch_weights(loop.node)
        self.do(f"br i1 {continues}, label %loop{number}, label %after{number}{weights}")
        self.label(f"after{number}")
        if not loop.is_certain:
            for register in self.registers.changed.get(loop.node, ()):
                kind = type_of(register.dtype.element)
                before = loop.registers[register][1] if register in loop.registers else "poison"
                current[register] = self.emit(
                    f"phi {kind} [ {before}, {entry} ], [ {current[register]}, {latch} ]"
                )

    def _next(self, loop: OpenLoop, kind: str, name: str, start: str, step: int) -> str:
        """Write the increment of an induction variable; return its phi."""
        self.do(f"{name}.next = add nsw {kind} {name}, {step}")
        return f"  {name} = phi {kind} [ {start}, %{loop.before} ], [ {name}.next, %{self.block} ]"

    def hoist(self, depth: int, text: str) -> str:
        """Compute a value at a loop depth, hoisted if needed; return its name."""
        if depth == len(self.loops):
            return self.emit(text)
        name = self.fresh()
        self.loops[depth].preheader.append(f"  {name} = {text}")
        return name


def _branch_weights(loop: UOp) -> str:
    """Return the branch weights of a latch: how often the loop continues, and how often not."""
    extent = loop.src[0]
    if extent.op is not ops.CONST or loop.arg[1] is Axis.THREAD:
        return ""
    weight = min(max(int(extent.arg) - 1, 0), MAX_BRANCH_WEIGHT)
    return f', !prof !{{!"branch_weights", i32 {weight}, i32 1}}'


def innermost_loops(instructions: Sequence[UOp]) -> set[UOp]:
    """Return the loops that contain no other loop."""
    innermost: set[UOp] = set()
    last: UOp | None = None
    for node in instructions:
        if node.op is ops.RANGE:
            last = node
        elif node.op is ops.END and last is not None:
            innermost.add(last)
            last = None
    return innermost
