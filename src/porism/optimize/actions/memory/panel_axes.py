"""Panel axes: the load that an action copies, and the sums of loops along which it does."""

from __future__ import annotations

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action
from porism.optimize.analysis.buffer_loads import buffer_number, loads_of
from porism.optimize.analysis.linear_indices import Coefficients


class PanelAction(Action):
    """An action that copies what a load reads inside some loops to local memory before them."""

    buffer: int
    """The number of the buffer: that which the kernel writes is 0."""
    axes: tuple[str, ...]
    """The loops that the panel is made for, the fastest varying last.

    A sum of loops, such as `r3+r5` or `2*r3+r5`, has one element of the panel for each value.
    """
    load: int
    """Which of the loads of this buffer."""

    def load_of(self, kernel: UOp) -> UOp:
        """Return the load that the action names, from a buffer that is only read."""
        stores = [n for n in toposort(kernel) if n.op is ops.STORE]
        if any(buffer_number(store.src[0]) == self.buffer for store in stores):
            raise self.refuse(
                f"buffer {self.buffer} is written as well",
                "a copy would not see what is written",
                "copy a buffer that is only read",
            )
        loads = loads_of(kernel, self.buffer)
        if not 0 <= self.load < len(loads):
            raise self.refuse(
                f"buffer {self.buffer} has no load {self.load}",
                f"the kernel has {len(loads)} of them",
                "name one of these, from 0 on",
            )
        return loads[self.load]

    def panel_axes(self, kernel: UOp, value: UOp) -> list[Coefficients]:
        """Return the sums of loops that the axes name, which the value must depend on."""
        if not self.axes:
            raise self.refuse("it names no loop", "a panel is for some loops", "name them")
        sums = [self._sum(kernel, axis) for axis in self.axes]
        loops = [loop for terms in sums for loop in terms]
        if len(set(loops)) < len(loops):
            raise self.refuse("it names a loop twice", "a panel is for some loops", "name it once")
        for loop in loops:
            if loop not in value.ranges:
                raise self.refuse(
                    f"the load does not depend on {show(loop)}",
                    "each of its iterations would copy the same",
                    f"leave out {show(loop)}",
                )
        if any(n.op is ops.AFTER and not set(n.ranges).isdisjoint(loops) for n in toposort(value)):
            raise self.refuse(
                "the load needs a local buffer that is filled inside of these loops",
                "that buffer would be filled twice",
                "Pack this load first, or name the loops outside of the other buffer",
            )
        return sums

    def _sum(self, kernel: UOp, axis: str) -> Coefficients:
        """Return the loops that an axis names, each with its coefficient."""
        coefficients: Coefficients = {}
        for term in axis.split("+"):
            factor, _, name = term.rpartition("*")
            loop = self.loop(kernel, name.strip())
            self.extent_of(loop)
            if loop in coefficients:
                raise self.refuse("it names a loop twice", "a sum has it once", "name it once")
            number = factor.strip() or "1"
            if not number.isdecimal() or int(number) < 1:
                raise self.refuse(
                    f"{axis!r} is no sum of loops", "a factor is a number", "write '2*r1+r3'"
                )
            coefficients[loop] = int(number)
        if len(coefficients) > 1 and 1 not in coefficients.values():
            raise self.refuse(
                f"no loop of {axis!r} has the factor 1",
                "the panel would have gaps",
                "name one with a factor of 1",
            )
        if len(coefficients) == 1 and set(coefficients.values()) != {1}:
            raise self.refuse(f"{axis!r} is one loop", "it needs no factor", "leave that out")
        return coefficients


def extent_of_sum(terms: Coefficients) -> int:
    """Return how many values a sum of loops has."""
    return 1 + sum(int(loop.vmax) * factor for loop, factor in terms.items())
