"""Register promotion: scalar DEFINE_REG memory becomes SSA values.

A register that a loop changes is a phi at the head of the loop: the value from before the loop, or
that of the previous iteration. So LLVM need not promote it from memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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

    def _promote(self, instructions: Sequence[UOp], registers: set[UOp]) -> None:
        """Set which of the registers are SSA values, and which of those each loop changes."""
        register_of_index = _registers_of_indices(instructions, registers)
        accesses = _accesses_in_loops(instructions, register_of_index)
        in_memory = {r for index, r in register_of_index.items() if not _is_first_element(index)}
        in_memory |= {r for node, r, _ in accesses if not _keeps_type(node, r)}
        self.values = registers - in_memory
        self.register_of_index = {
            index: register
            for index, register in register_of_index.items()
            if register in self.values
        }
        common_loops: dict[UOp, tuple[UOp, ...]] = {}  # the loops around all accesses of a register
        for _, register, loops in accesses:
            both = zip(common_loops.get(register, loops), loops, strict=False)
            common_loops[register] = tuple(a for a, b in both if a is b)
        for node, register, loops in accesses:
            if node.op is ops.STORE and register in self.values:
                for loop in loops[len(common_loops[register]) :]:
                    self.changed.setdefault(loop, {})[register] = None


def _registers_of_indices(instructions: Sequence[UOp], registers: set[UOp]) -> dict[UOp, UOp]:
    """Return every INDEX of some registers, with its register."""
    register_of_index: dict[UOp, UOp] = {}
    bases = {register: register for register in registers}
    for node in instructions:
        if node.op is ops.AFTER and node.src[0] in bases:
            bases[node] = bases[node.src[0]]
        elif node.op is ops.INDEX and node.src[0] in bases:
            register_of_index[node] = bases[node.src[0]]
    return register_of_index


def _accesses_in_loops(
    instructions: Sequence[UOp], register_of_index: Mapping[UOp, UOp]
) -> list[tuple[UOp, UOp, tuple[UOp, ...]]]:
    """Return each LOAD, STORE and CAST of an INDEX, with its register and the loops around it."""
    accesses = []
    loops: tuple[UOp, ...] = ()
    for node in instructions:
        if node.op is ops.RANGE:
            loops = (*loops, node)
        elif node.op is ops.END:
            loops = loops[:-1]
        elif node.op in (ops.LOAD, ops.STORE, ops.CAST) and node.src[0] in register_of_index:
            accesses.append((node, register_of_index[node.src[0]], loops))
    return accesses


def _is_first_element(index: UOp) -> bool:
    """Return whether an INDEX is that of the first element, without a mask."""
    return len(index.src) == 2 and bool(index.src[1].arg == 0)


def _keeps_type(access: UOp, register: UOp) -> bool:
    """Return whether an access is a LOAD or STORE of the type that the register has."""
    if access.op is ops.CAST:
        return False
    value = access if access.op is ops.LOAD else access.src[1]
    return value.dtype is register.dtype.element
