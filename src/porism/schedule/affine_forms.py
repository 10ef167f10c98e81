"""Affine forms: an index as a sum of parts times numbers, and a number.

The parts are what is no sum itself: ranges, quotients, elements of tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import rebuild, toposort


class Affine(NamedTuple):
    """`sum(part * factor) + number`."""

    factors: Mapping[UOp, int]
    number: int

    def of(self, part: UOp) -> int:
        """The factor of a part, 0 if there is none."""
        return self.factors.get(part, 0)


SUMS: Final = frozenset({ops.ADD, ops.SUB, ops.NEG})


def is_sum(node: UOp) -> bool:
    """Whether a node is looked into by `affine_forms`."""
    if node.dtype is not index:
        return False
    return node.op in SUMS or (node.op is ops.MUL and node.src[1].op is ops.CONST)


def affine_forms(order: Sequence[UOp]) -> dict[UOp, Affine]:
    """The form of each node of type `index`, given sources before users."""
    found: dict[UOp, Affine] = {}
    for node in order:
        if node.dtype is not index:
            continue
        if node.op is ops.CONST:
            found[node] = Affine({}, node.arg)
        elif not is_sum(node):
            found[node] = Affine({node: 1}, 0)
        elif node.op is ops.MUL:
            found[node] = _scaled(found[node.src[0]], node.src[1].arg)
        elif node.op is ops.NEG:
            found[node] = _scaled(found[node.src[0]], -1)
        else:
            sign = -1 if node.op is ops.SUB else 1
            found[node] = _sum(found[node.src[0]], found[node.src[1]], sign)
    return found


def _scaled(form: Affine, factor: int) -> Affine:
    if factor == 0:
        return Affine({}, 0)
    return Affine({p: f * factor for p, f in form.factors.items()}, form.number * factor)


def _sum(a: Affine, b: Affine, sign: int) -> Affine:
    factors = dict(a.factors)
    for part, factor in b.factors.items():
        total = factors.get(part, 0) + sign * factor
        if total:
            factors[part] = total
        else:
            del factors[part]
    return Affine(factors, a.number + sign * b.number)


def boundaries(order: Sequence[UOp]) -> Iterator[tuple[UOp, UOp]]:
    """Each index that something other than a sum takes, and what takes it."""
    for node in order:
        if not is_sum(node):
            for s in node.src:
                if s.dtype is index and s.op is not ops.CONST:
                    yield s, node


def collected(graph: UOp) -> UOp:
    """The graph with each sum written out: every part once, times one number."""
    if not any(_is_nested(n) for n in toposort(graph)):
        return graph
    flat: dict[UOp, UOp] = {}

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        if not is_sum(node):
            src = tuple([_written(s, flat) if is_sum(s) else s for s in src])
        return node.replace(src)

    return rebuild(graph, change)


def _is_nested(node: UOp) -> bool:
    """Whether a sum may have parts that go together, or cancel."""
    if node.op is ops.MUL:
        return is_sum(node) and is_sum(node.src[0])
    return node.op in (ops.SUB, ops.NEG) and node.dtype is index


def _written(total: UOp, known: dict[UOp, UOp]) -> UOp:
    found = known.get(total)
    if found is None:
        order = toposort(total, within=lambda n: n.dtype is index)
        found = known[total] = _smaller(total, written(affine_forms(order)[total]))
    return found


def _smaller(old: UOp, new: UOp) -> UOp:
    return new if len(toposort(new)) < len(toposort(old)) else old


def written(form: Affine) -> UOp:
    """The sum that a form stands for."""
    total: UOp | None = None
    for part, factor in form.factors.items():
        term = part * factor
        total = term if total is None else total + term
    return UOp.const(index, form.number) if total is None else total + form.number
