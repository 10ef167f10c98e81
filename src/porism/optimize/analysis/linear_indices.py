"""Sums: indices as sums of multiples, and several ranges of them said by one.

(i + j - 1) * 4, where i + j is t        t * 4 - 4
"""

from __future__ import annotations

from collections.abc import Mapping

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort

Sum = dict[UOp, int]
"""Ranges, and what each is multiplied with."""


def in_sums(value: UOp, sums: Mapping[UOp, Sum]) -> UOp | None:
    """A value with sums of ranges said by one range each; None if it depends on more than these.

    >>> from porism.ir.text.expression import show
    >>> i, j, t = UOp.range(8, 0), UOp.range(3, 1), UOp.range(10, 2)
    >>> show(in_sums((i + j) // 2, {t: {i: 1, j: 1}}))
    'r2 // 2'
    """
    every = {r: counter for counter, terms in sums.items() for r in terms}
    new: dict[UOp, UOp | None] = {}
    forms: dict[UOp, dict[UOp, int]] = {}
    for node in toposort(value):
        if not any(r in every for r in node.ranges):
            new[node] = node
            continue
        form = linear(node, forms)
        if form is not None:
            forms[node] = form
            new[node] = _rewritten(form, every, sums, new)
            continue
        src = [new[s] for s in node.src]
        known = [s for s in src if s is not None]
        if len(known) < len(src):
            return None
        new[node] = node.replace(tuple(known))
    return new[value]


def linear(node: UOp, forms: Mapping[UOp, dict[UOp, int]]) -> dict[UOp, int] | None:
    """An index as a sum of multiples of nodes; None if it is no such sum."""
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
    found: dict[UOp, int] = {}
    for part, sign in zip(parts, signs, strict=True):
        for atom, times in part.items():
            found[atom] = found.get(atom, 0) + sign * times
    return found


def _rewritten(
    form: Mapping[UOp, int],
    every: Mapping[UOp, UOp],
    sums: Mapping[UOp, Sum],
    new: Mapping[UOp, UOp | None],
) -> UOp | None:
    """A sum with other ranges; None if those of a sum do not stand in it as they should."""
    parts: dict[UOp, int] = {}
    for atom, times in form.items():
        if atom not in every:
            other = new.get(atom, atom)
            if other is None:
                return None
            parts[other] = parts.get(other, 0) + times
    for counter, terms in sums.items():
        shares = {form.get(r, 0) // times for r, times in terms.items()}
        exact = all(form.get(r, 0) % times == 0 for r, times in terms.items())
        if len(shares) > 1 or not exact:
            return None
        parts[counter] = parts.get(counter, 0) + shares.pop()  # an atom can become a counter
    return total(parts)


def total(terms: Mapping[UOp, int]) -> UOp:
    """A sum of multiples."""
    number: UOp | None = None
    for atom, times in terms.items():
        if atom.op is ops.CONST:
            part = UOp.const(index, int(atom.arg) * times)
        else:
            part = atom if times == 1 else atom * times
        if times:
            number = part if number is None else number + part
    return UOp.const(index, 0) if number is None else number
