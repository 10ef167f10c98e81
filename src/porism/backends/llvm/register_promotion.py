"""Register promotion: scalar DEFINE_REG memory becomes SSA values.

A register that a loop changes is a phi at the head of the loop: the value from before the loop, or
that of the previous iteration. So LLVM need not promote it from memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from porism.ir import ops
from porism.ir.node import UOp


class PromotedRegisters:
    """The registers of a linear kernel that are SSA values."""

    def __init__(self, instructions: Sequence[UOp]) -> None:
        self.register_of_index: dict[UOp, UOp] = {}
        """The register that each INDEX accesses."""
        self.values: set[UOp] = set()
        """The registers that are SSA values."""
        self.changed: dict[UOp, dict[UOp, None]] = {}
        """For each loop, the registers that are stored in it."""
        self.current: dict[UOp, str] = {}
        """The SSA value of each register at the current point."""
        promoted = {n for n in instructions if n.op is ops.DEFINE_REG and n.dtype.size == 1}
        if promoted:
            self._promote(instructions, promoted)

    def _promote(self, instructions: Sequence[UOp], promoted: set[UOp]) -> None:
        register_of_index: dict[UOp, UOp] = {}
        bases = {register: register for register in promoted}
        common_loops: dict[UOp, tuple[UOp, ...]] = {}  # the loops around all accesses of a register
        stores: list[tuple[UOp, tuple[UOp, ...]]] = []
        loops: tuple[UOp, ...] = ()
        for node in instructions:
            if node.op is ops.RANGE:
                loops = (*loops, node)
            elif node.op is ops.END:
                loops = loops[:-1]
            elif node.op is ops.AFTER:
                if node.src[0] in bases:
                    bases[node] = bases[node.src[0]]
            elif node.op is ops.INDEX:
                if node.src[0] in bases:
                    register = register_of_index[node] = bases[node.src[0]]
                    if len(node.src) > 2 or node.src[1].arg != 0:
                        promoted.discard(register)
            elif node.op in (ops.LOAD, ops.STORE) and node.src[0] in register_of_index:
                register = register_of_index[node.src[0]]
                value = node if node.op is ops.LOAD else node.src[1]
                if value.dtype is not register.dtype.element:
                    promoted.discard(register)
                if node.op is ops.STORE:
                    stores.append((register, loops))
                common = common_loops.get(register, loops)
                both = zip(common, loops, strict=False)
                common_loops[register] = tuple(a for a, b in both if a is b)
            elif node.op is ops.CAST and node.src[0] in register_of_index:
                promoted.discard(register_of_index[node.src[0]])
        self.values = promoted
        self.register_of_index = {
            index: register for index, register in register_of_index.items() if register in promoted
        }
        for register, loops in stores:
            if register in promoted:
                for loop in loops[len(common_loops[register]) :]:
                    self.changed.setdefault(loop, {})[register] = None
