"""Loop merging (collapse): two perfectly nested loops as one.

    for y < 7: for x < 7: … a[y * 7 + x] …        for t < 49: … a[t] …

An index in which the outer stride is the inner stride times the inner extent becomes linear in the
merged loop. In any other expression the two loops become `t // 7` and `t % 7`.
"""

from __future__ import annotations

from dataclasses import dataclass

from porism.base.target import Target
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action
from porism.optimize.actions.local_buffers import next_axis_number
from porism.optimize.actions.loop_substitution import CLOSERS
from porism.optimize.analysis.linear_indices import Coefficients, add_term, linear_form, linear_sum


@dataclass(frozen=True)
class Merge(Action):
    """Merge a loop and the one directly inside of it; the new loop gets the next free name."""

    axis: str
    inner: str

    def apply(self, kernel: UOp, target: Target) -> UOp:
        outer, inner = self.loop(kernel, self.axis), self.loop(kernel, self.inner)
        for loop in (outer, inner):
            self.require_kind(loop, (Axis.LOOP, Axis.REDUCE))
            self.extent_of(loop)
        order = toposort(kernel)
        closers = [n for n in order if n.op in CLOSERS and {outer, inner} & set(n.src[1:])]
        if outer is inner or not all(_is_directly_inside(n, outer, inner) for n in closers):
            raise self.refuse(
                f"{self.inner} is not directly inside of {self.axis}",
                "only loops that are perfectly nested are merged",
                "Swap or Move them first",
            )
        return merge_loops(kernel, outer, inner)


def _is_directly_inside(closer: UOp, outer: UOp, inner: UOp) -> bool:
    """Return whether a node closes both loops, the inner one directly inside of the outer."""
    loops = closer.src[1:]
    if outer not in loops or inner not in loops:
        return False
    return loops.index(inner) == loops.index(outer) + 1


def merge_loops(kernel: UOp, outer: UOp, inner: UOp) -> UOp:
    """Return a kernel in which two loops are one."""
    extent = int(inner.src[0].arg)
    merged = UOp.range(int(outer.src[0].arg) * extent, next_axis_number(kernel), outer.arg[1])
    new: dict[UOp, UOp] = {outer: merged // extent, inner: merged % extent}
    forms: dict[UOp, Coefficients] = {}
    for node in toposort(kernel):
        if node in (outer, inner):
            forms[node] = {node: 1}
        elif node.op in CLOSERS and outer in node.src[1:]:
            loops = [merged if s is outer else new[s] for s in node.src[1:] if s is not inner]
            new[node] = node.replace((new[node.src[0]], *loops))
        elif {outer, inner} & set(node.ranges) and (form := linear_form(node, forms)) is not None:
            forms[node] = form
            new[node] = _merge_in_sum(form, outer, inner, merged, new)
        else:
            src = tuple([new[s] for s in node.src])
            new[node] = node if src == node.src else node.replace(src)
    return new[kernel]


def _merge_in_sum(
    form: Coefficients, outer: UOp, inner: UOp, merged: UOp, new: dict[UOp, UOp]
) -> UOp:
    """Return a linear index in terms of the merged loop, without division if the strides allow."""
    stride = form.get(inner, 0)
    is_linear = form.get(outer, 0) == stride * int(inner.src[0].arg)
    coefficients: Coefficients = {}
    for atom, coefficient in form.items():
        if atom not in (outer, inner) or not is_linear:
            add_term(coefficients, new.get(atom, atom), coefficient)
    if is_linear:
        add_term(coefficients, merged, stride)
    return linear_sum(coefficients)
