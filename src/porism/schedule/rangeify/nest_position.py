"""Nest positions: inside which loops an element of a tensor is used.

A kernel begins with the loops over its output. A reduction opens loops of its own inside those that
its result depends on; so does a value that is materialized in a local buffer.
"""

from __future__ import annotations

from typing import NamedTuple

from porism.ir.node import UOp
from porism.schedule.rangeify.movement_indices import Element
from porism.schedule.rangeify.placement_cost import trip_count


class Nest:
    """Loops that are opened together, inside of an outer nest."""

    __slots__ = ("entries", "kernel", "loops", "outer")

    def __init__(
        self, kernel: UOp, loops: frozenset[UOp], outer: Nest | None = None, entries: int = 1
    ) -> None:
        self.kernel = kernel
        """The stored node over whose elements the outermost loops run."""
        self.loops = loops
        self.outer = outer
        self.entries = entries
        """How many times the loops are entered when the kernel runs."""

    def innermost_needed(self, loops: frozenset[UOp]) -> Nest:
        """Return the innermost nest that encloses all the given loops."""
        nest = self
        while nest.outer is not None and not loops & nest.loops:
            nest = nest.outer
        return nest

    @property
    def outermost(self) -> Nest:
        """The nest of the loops over the output of the kernel."""
        nest = self
        while nest.outer is not None:
            nest = nest.outer
        return nest


class Use(NamedTuple):
    """An element that is read inside a nest of loops."""

    element: Element
    loops: frozenset[UOp]
    """All loops that the indices and the condition of the element depend on."""
    nest: Nest

    @property
    def evaluations(self) -> int:
        """How many times the element is computed: once per iteration of the loops it depends on."""
        return self.nest.entries * trip_count(self.loops & self.nest.loops)
