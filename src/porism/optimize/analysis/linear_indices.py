"""Linear indices: index expressions as sums of loops with coefficients.

    (i + j - 1) * 4, where t = i + j        t * 4 - 4

Several loops of such a sum can be replaced by one loop over the values of their sum.
"""

from __future__ import annotations

from collections.abc import Mapping

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort

Coefficients = dict[UOp, int]
"""A sum: nodes, most of them loops, and what each is multiplied by."""


def add_term(sum_of: Coefficients, node: UOp, times: int) -> None:
    """Add a multiple of a node to a sum, which may have the node already.

    Different nodes can become the same one when loops are replaced, so that no coefficient is set.
    """
    sum_of[node] = sum_of.get(node, 0) + times


def substitute_sums(value: UOp, sums: Mapping[UOp, Coefficients]) -> UOp | None:
    """Return a value with sums of loops replaced by one loop each.

    None if the value depends on the loops of a sum in another way than through the sum.

    >>> from porism.ir.text.expression import show
    >>> i, j, t = UOp.range(8, 0), UOp.range(3, 1), UOp.range(10, 2)
    >>> show(substitute_sums((i + j) // 2, {t: {i: 1, j: 1}}))
    'r2 // 2'
    """
    replaced = {r for terms in sums.values() for r in terms}
    new: dict[UOp, UOp | None] = {}
    forms: dict[UOp, Coefficients] = {}
    for node in toposort(value):
        if not any(r in replaced for r in node.ranges):
            new[node] = node
            continue
        form = linear_form(node, forms)
        if form is not None:
            forms[node] = form
            new[node] = _substitute_in_form(form, replaced, sums, new)
            continue
        src = [new[s] for s in node.src]
        known = [s for s in src if s is not None]
        if len(known) < len(src):
            return None
        new[node] = node.replace(tuple(known))
    return new[value]


def linear_form(node: UOp, forms: Mapping[UOp, Coefficients]) -> Coefficients | None:
    """Return an index as a sum of nodes with coefficients; None if its op is not linear.

    `forms` are the linear forms of its sources, where they have one.
    """
    if node.dtype is not index:
        return None
    parts = [forms.get(s, {s: 1}) for s in node.src]
    if node.op is ops.RANGE:
        return {node: 1}
    if node.op is ops.MUL:
        for part, factor in zip(parts, reversed(node.src), strict=True):
            if factor.op is ops.CONST:
                return {atom: times * int(factor.arg) for atom, times in part.items()}
        return None
    if node.op not in (ops.ADD, ops.SUB, ops.NEG):
        return None
    signs = {ops.ADD: (1, 1), ops.SUB: (1, -1), ops.NEG: (-1,)}[node.op]
    coefficients: Coefficients = {}
    for part, sign in zip(parts, signs, strict=True):
        for atom, times in part.items():
            add_term(coefficients, atom, sign * times)
    return coefficients


def _substitute_in_form(
    form: Coefficients,
    replaced: set[UOp],
    sums: Mapping[UOp, Coefficients],
    new: Mapping[UOp, UOp | None],
) -> UOp | None:
    """Return a linear index with sums replaced by loops.

    None if the coefficients of the loops of a sum are not one multiple of those in the sum.
    """
    coefficients: Coefficients = {}
    for atom, times in form.items():
        if atom not in replaced:
            other = new.get(atom, atom)
            if other is None:
                return None
            add_term(coefficients, other, times)
    for loop, terms in sums.items():
        multiples = {form.get(r, 0) // times for r, times in terms.items()}
        is_exact = all(form.get(r, 0) % times == 0 for r, times in terms.items())
        if len(multiples) > 1 or not is_exact:
            return None
        add_term(coefficients, loop, multiples.pop())
    return linear_sum(coefficients)


def linear_sum(coefficients: Mapping[UOp, int]) -> UOp:
    """Return the node of a sum with coefficients."""
    total: UOp | None = None
    for atom, times in coefficients.items():
        if atom.op is ops.CONST:
            part = UOp.const(index, int(atom.arg) * times)
        else:
            part = atom if times == 1 else atom * times
        if times:
            total = part if total is None else total + part
    return UOp.const(index, 0) if total is None else total
