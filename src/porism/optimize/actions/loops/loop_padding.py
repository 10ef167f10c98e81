"""Loop padding: the extent of a loop rounded up to a multiple, with masks beyond the old end.

for k < 30: s += x[k]        for k < 32: s += x[k] if k < 30 else 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from porism.base.dtypes import Kind
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked, masked

MAX_GROWTH: Final = 4
"""How many times its extent a loop may have after padding; chosen by hand."""


@dataclass(frozen=True)
class PadTo(Action):
    """Round the extent of a loop up to a multiple.

    Accesses beyond the old end are masked and reductions take their identity there, so that the
    result is the same by construction.
    """

    axis: str
    multiple: int

    def apply(self, kernel: UOp, target: Target) -> UOp:
        loop = self.loop(kernel, self.axis)
        self.require_kind(loop, (Axis.LOOP, Axis.THREAD, Axis.GLOBAL, Axis.REDUCE))
        extent = self.extent_of(loop)
        if self.multiple < 2 or extent % self.multiple == 0:
            raise self.refuse(
                f"the extent of {self.axis} is {extent}",
                f"that is a multiple of {self.multiple} already",
                "leave it out",
            )
        padded_extent = -(-extent // self.multiple) * self.multiple
        if padded_extent > MAX_GROWTH * extent:
            raise self.refuse(
                f"the extent of {self.axis} would be {padded_extent} instead of {extent}",
                "most iterations would be padding",
                "pad to a smaller multiple",
            )
        return pad_loop(kernel, loop, self.multiple)[0]


def pad_loop(kernel: UOp, loop: UOp, multiple: int) -> tuple[UOp, UOp]:
    """Round the extent of a loop up to a multiple; return the kernel and the padded loop.

    Accesses beyond the old end are masked, and a reduction takes its identity there. A local buffer
    that has elements there is accessed without a mask: their values have no effect.
    """
    extent = int(loop.src[0].arg)
    padded_extent = -(-extent // multiple) * multiple
    if padded_extent == extent:
        return kernel, loop
    padded = UOp.range(padded_extent, loop.arg[0], loop.arg[1])
    in_bounds = padded < extent
    order = toposort(kernel)
    stored = {n.src[0] for n in order if n.op is ops.STORE}
    new = {loop: padded}  # what does not depend on the loop stays the same node
    changed = new.keys()
    for node in order:
        if changed.isdisjoint(node.src):
            continue
        src = tuple([new.get(s, s) for s in node.src])
        if node.op is ops.INDEX and loop in node.ranges:
            if not _needs_no_mask(node, src[1], padded, node in stored):
                src = (src[0], mask_index(in_bounds, src[1]), *src[2:])
        elif node.op is ops.REDUCE and loop in node.src[1:]:
            src = (in_bounds.where(src[0], UOp.const(node.dtype, _padding_value(node))), *src[1:])
        new[node] = node.replace(src)
    return new.get(kernel, kernel), padded


def _needs_no_mask(access: UOp, index: UOp, loop: UOp, is_stored: bool) -> bool:
    """Return whether a local buffer has an element of its own for every padded iteration.

    Only floats go without a mask: undefined integers could be divisors or indices.
    """
    buffer = access.src[0]
    while buffer.op is ops.AFTER:
        buffer = buffer.src[0]
    if buffer.op is not ops.DEFINE_LOCAL or not access.dtype.is_float or is_masked(index):
        return False
    if index.vmin < 0 or index.vmax >= buffer.dtype.size:
        return False
    if not is_stored:
        return True
    own = stride(index, loop)
    others = [stride(index, r) for r in index.ranges if r is not loop]
    return own == 1 and all(far is not None and far > loop.vmax for far in others)


def _padding_value(reduction: UOp) -> Any:
    """Return a value that does not change a reduction, if possible within its bounds."""
    value = reduction.src[0]
    if reduction.dtype.kind in (Kind.SIGNED, Kind.UNSIGNED):
        if reduction.arg is ops.MAX:
            return value.vmin
        if reduction.arg is ops.MIN:
            return value.vmax
    return identity(reduction.arg, reduction.dtype)


def mask_index(condition: UOp, index: UOp) -> UOp:
    """Return an index that is valid only where a condition holds as well."""
    if is_masked(index):
        return masked(index.src[0] & condition, index.src[1])
    return masked(condition, index)
