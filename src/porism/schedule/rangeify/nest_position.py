"""Loops: where in a nest of loops an element of a tensor is asked for.

A kernel begins with the loops over its output. A reduction opens loops of its own inside those that
its result depends on; so does a value that is kept for the iterations of some loops.
"""

from __future__ import annotations

from typing import NamedTuple

from porism.ir.node import UOp
from porism.schedule.rangeify.movement_indices import Element
from porism.schedule.rangeify.placement_cost import trips


class Nest:
    """Some loops inside of others."""

    __slots__ = ("around", "kernel", "outer", "ranges")

    def __init__(
        self, kernel: UOp, ranges: frozenset[UOp], outer: Nest | None = None, around: int = 1
    ) -> None:
        self.kernel = kernel
        """The node whose elements the outermost loops are over."""
        self.ranges = ranges
        self.outer = outer
        self.around = around
        """How often these loops are run."""

    def around_of(self, ranges: frozenset[UOp]) -> Nest:
        """The innermost nest that is needed for what depends on some ranges."""
        nest = self
        while nest.outer is not None and not ranges & nest.ranges:
            nest = nest.outer
        return nest

    @property
    def outermost(self) -> Nest:
        nest = self
        while nest.outer is not None:
            nest = nest.outer
        return nest


class Use(NamedTuple):
    """An element that is asked for in a nest of loops."""

    element: Element
    ranges: frozenset[UOp]
    """All that the element depends on."""
    nest: Nest

    @property
    def times(self) -> int:
        """How often it is computed: once for each iteration of the loops that it depends on."""
        return self.nest.around * trips(self.ranges & self.nest.ranges)
