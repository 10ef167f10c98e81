"""Merging: two loops, one directly inside of the other, as one.

    for y < 7: for x < 7: … a[y * 7 + x] …        for t < 49: … a[t] …

An index in which a step of the outer loop is as far as the inner one goes counts on. In any other
expression the two counters are `t // 7` and `t % 7`.
"""

from __future__ import annotations

from dataclasses import dataclass

from porism.base.target import Target
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.loop_actions import Action
from porism.optimize.actions.loop_transforms import CLOSERS, ranges_of
from porism.optimize.analysis.linear_indices import linear, total


@dataclass(frozen=True)
class Merge(Action):
    """A loop and the one directly inside of it as one, which gets the next free name."""

    axis: str
    inner: str

    def apply(self, kernel: UOp, target: Target) -> UOp:
        outer, inner = self.loop(kernel, self.axis), self.loop(kernel, self.inner)
        for counter in (outer, inner):
            self.need_kind(counter, (Axis.LOOP, Axis.REDUCE))
            self.counted(counter)
        order = toposort(kernel)
        closers = [n for n in order if n.op in CLOSERS and {outer, inner} & set(n.src[1:])]
        if outer is inner or not all(_is_inside(n, outer, inner) for n in closers):
            raise self.refuse(
                f"{self.inner} is not directly inside of {self.axis}",
                "loops become one where nothing stands between them",
                "Swap or Move them first",
            )
        return merged(kernel, outer, inner)


def _is_inside(closer: UOp, outer: UOp, inner: UOp) -> bool:
    ranges = closer.src[1:]
    if outer not in ranges or inner not in ranges:
        return False
    return ranges.index(inner) == ranges.index(outer) + 1


def merged(kernel: UOp, outer: UOp, inner: UOp) -> UOp:
    """A kernel in which two ranges are one."""
    size = int(inner.src[0].arg)
    number = max(r.arg[0][0] for r in ranges_of(kernel)) + 1
    one = UOp.range(int(outer.src[0].arg) * size, number, outer.arg[1])
    new: dict[UOp, UOp] = {outer: one // size, inner: one % size}
    forms: dict[UOp, dict[UOp, int]] = {}
    for node in toposort(kernel):
        if node in (outer, inner):
            forms[node] = {node: 1}
        elif node.op in CLOSERS and outer in node.src[1:]:
            ranges = [one if s is outer else new[s] for s in node.src[1:] if s is not inner]
            new[node] = node.replace((new[node.src[0]], *ranges))
        elif {outer, inner} & set(node.ranges) and (form := linear(node, forms)) is not None:
            forms[node] = form
            new[node] = _counting_on(form, outer, inner, size, one, new)
        else:
            src = tuple([new[s] for s in node.src])
            new[node] = node if src == node.src else node.replace(src)
    return new[kernel]


def _counting_on(
    form: dict[UOp, int], outer: UOp, inner: UOp, size: int, one: UOp, new: dict[UOp, UOp]
) -> UOp:
    """A sum of multiples in which the two ranges are one, if their steps fit."""
    parts: dict[UOp, int] = {}
    for atom, times in form.items():
        if atom not in (outer, inner) or form.get(outer, 0) != form.get(inner, 0) * size:
            other = new.get(atom, atom)
            parts[other] = parts.get(other, 0) + times
    if form.get(outer, 0) == form.get(inner, 0) * size:
        parts[one] = form.get(inner, 0)
    return total(parts)
