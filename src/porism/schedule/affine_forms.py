"""Affine forms: an index as a sum of terms times coefficients, plus a constant.

The terms are index nodes that are no sums themselves: loops, quotients, elements of tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import rebuild, toposort


class Affine(NamedTuple):
    """`sum(term * coefficient) + constant`."""

    coefficients: Mapping[UOp, int]
    constant: int

    def coefficient(self, term: UOp) -> int:
        """Return the coefficient of a term, 0 if it does not occur."""
        return self.coefficients.get(term, 0)


SUMS: Final = frozenset({ops.ADD, ops.SUB, ops.NEG})


def is_sum(node: UOp) -> bool:
    """Return whether a node is an inner node of an affine form, not a term of it."""
    if node.dtype is not index:
        return False
    return node.op in SUMS or (node.op is ops.MUL and node.src[1].op is ops.CONST)


def affine_forms(order: Sequence[UOp]) -> dict[UOp, Affine]:
    """Return the form of each node of type `index`; `order` has sources before users."""
    forms: dict[UOp, Affine] = {}
    for node in order:
        if node.dtype is not index:
            continue
        if node.op is ops.CONST:
            forms[node] = Affine({}, node.arg)
        elif not is_sum(node):
            forms[node] = Affine({node: 1}, 0)
        elif node.op is ops.MUL:
            forms[node] = _scale(forms[node.src[0]], node.src[1].arg)
        elif node.op is ops.NEG:
            forms[node] = _scale(forms[node.src[0]], -1)
        else:
            sign = -1 if node.op is ops.SUB else 1
            forms[node] = _add(forms[node.src[0]], forms[node.src[1]], sign)
    return forms


def _scale(form: Affine, factor: int) -> Affine:
    if factor == 0:
        return Affine({}, 0)
    return Affine({t: c * factor for t, c in form.coefficients.items()}, form.constant * factor)


def _add(a: Affine, b: Affine, sign: int) -> Affine:
    """Return a + sign * b."""
    coefficients = dict(a.coefficients)
    for term, coefficient in b.coefficients.items():
        total = coefficients.get(term, 0) + sign * coefficient
        if total:
            coefficients[term] = total
        else:
            del coefficients[term]
    return Affine(coefficients, a.constant + sign * b.constant)


def index_uses(order: Sequence[UOp]) -> Iterator[tuple[UOp, UOp]]:
    """Yield each whole index, with the node that uses it and is no sum itself."""
    for node in order:
        if not is_sum(node):
            for s in node.src:
                if s.dtype is index and s.op is not ops.CONST:
                    yield s, node


def collect_terms(graph: UOp) -> UOp:
    """Return the graph with every sum of indices flattened: each term once, times a constant."""
    if not any(_may_cancel(n) for n in toposort(graph)):
        return graph
    known: dict[UOp, UOp] = {}

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        if not is_sum(node):
            src = tuple([_flatten(s, known) if is_sum(s) else s for s in src])
        return node.replace(src)

    return rebuild(graph, change)


def _may_cancel(node: UOp) -> bool:
    """Return whether a sum may have terms that can be combined, or cancel."""
    if node.op is ops.MUL:
        return is_sum(node) and is_sum(node.src[0])
    return node.op in (ops.SUB, ops.NEG) and node.dtype is index


def _flatten(total: UOp, known: dict[UOp, UOp]) -> UOp:
    """Return a sum with its terms combined, if that has fewer nodes; `known` are earlier ones."""
    flat = known.get(total)
    if flat is None:
        order = toposort(total, within=lambda n: n.dtype is index)
        flat = known[total] = _smaller(total, to_expression(affine_forms(order)[total]))
    return flat


def _smaller(old: UOp, new: UOp) -> UOp:
    return new if len(toposort(new)) < len(toposort(old)) else old


def to_expression(form: Affine) -> UOp:
    """Return the sum that a form stands for."""
    total: UOp | None = None
    for term, coefficient in form.coefficients.items():
        product = term * coefficient
        total = product if total is None else total + product
    return UOp.const(index, form.constant) if total is None else total + form.constant
