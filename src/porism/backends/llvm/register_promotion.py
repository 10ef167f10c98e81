"""Registers: those that a kernel keeps as values.

What a loop changes is a value at its head, the one before the loop or that of the last round, so
that LLVM need not find out.
"""

from __future__ import annotations

from collections.abc import Sequence

from porism.ir import ops
from porism.ir.node import UOp


class Registers:
    """The registers of a linear kernel that need no memory."""

    def __init__(self, lines: Sequence[UOp]) -> None:
        self.places: dict[UOp, UOp] = {}
        """For each place that is read or written: its register."""
        self.values: set[UOp] = set()
        """The registers that are values."""
        self.changed: dict[UOp, dict[UOp, None]] = {}
        """For each loop the registers that are set in it."""
        self.kept: dict[UOp, str] = {}
        """What is in each at this point."""
        found = {n for n in lines if n.op is ops.DEFINE_REG and n.dtype.size == 1}
        if found:
            self._use(lines, found)

    def _use(self, lines: Sequence[UOp], found: set[UOp]) -> None:
        places: dict[UOp, UOp] = {}
        bases = {register: register for register in found}
        within: dict[UOp, tuple[UOp, ...]] = {}  # the loops around all that is done with it
        stores: list[tuple[UOp, tuple[UOp, ...]]] = []
        loops: tuple[UOp, ...] = ()
        for node in lines:
            if node.op is ops.RANGE:
                loops = (*loops, node)
            elif node.op is ops.END:
                loops = loops[:-1]
            elif node.op is ops.AFTER:
                if node.src[0] in bases:
                    bases[node] = bases[node.src[0]]
            elif node.op is ops.INDEX:
                if node.src[0] in bases:
                    register = places[node] = bases[node.src[0]]
                    if len(node.src) > 2 or node.src[1].arg != 0:
                        found.discard(register)
            elif node.op in (ops.LOAD, ops.STORE) and node.src[0] in places:
                register = places[node.src[0]]
                value = node if node.op is ops.LOAD else node.src[1]
                if value.dtype is not register.dtype.element:
                    found.discard(register)
                if node.op is ops.STORE:
                    stores.append((register, loops))
                around = within.get(register, loops)
                both = zip(around, loops, strict=False)
                within[register] = tuple(a for a, b in both if a is b)
            elif node.op is ops.CAST and node.src[0] in places:
                found.discard(places[node.src[0]])
        self.values = found
        self.places = {place: register for place, register in places.items() if register in found}
        for register, inside in stores:
            if register in found:
                for loop in inside[len(within[register]) :]:
                    self.changed.setdefault(loop, {})[register] = None
