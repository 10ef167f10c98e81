"""Commuted patterns: the operand orders in which a commutative pattern can occur."""

from __future__ import annotations

from itertools import product

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.node import UOp, construct, raw
from porism.ir.traversal import rebuild
from porism.rewrite import terms

SORTED_SLOTS = frozenset({dtypes.index.slot, dtypes.boolean.slot})
"""Slots of the types whose commutative operands are sorted at construction, constants last."""


def variants(pattern: UOp, slot: int, *, sorted_operands: bool = True) -> list[UOp]:
    """Return `pattern` in every order of operands that can occur on types of a slot.

    Where operands are sorted, a constant is the right operand, and the mirrored pattern, which
    could never match, is left out.
    """
    slots = {terms.B: dtypes.boolean.slot}
    if pattern.op.group is ops.COMPARISON or pattern.dtype is terms.T:
        slots[terms.T] = slot
    if not sorted_operands:
        slots = {}
    return list(dict.fromkeys(_variants(pattern, slots)))


def _variants(node: UOp, slots: dict[DType, int]) -> list[UOp]:
    if not node.src:
        return [node]
    patterns = []
    for src in product(*(_variants(s, slots) for s in node.src)):
        orders = [src]
        if node.op.commutative and src[0] is not src[1]:
            mirrored = (src[1], src[0])
            sort_operands = slots.get(node.src[0].dtype) in SORTED_SLOTS
            if sort_operands and _is_constant(src[0]) and not _is_constant(src[1]):
                orders = [mirrored]
            elif not (sort_operands and _is_constant(src[1]) and not _is_constant(src[0])):
                orders.append(mirrored)
        patterns += [construct(node.op, node.dtype_given, order, node.arg) for order in orders]
    return patterns


def sort_operands(term: UOp) -> UOp:
    """Return a term with commutative operands sorted by `node.order`: equal for all variants."""

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        ordered = tuple(sorted(src, key=lambda s: s.order)) if node.op.commutative else src
        return raw(node.op, node.dtype_given, ordered, node.arg)

    return rebuild(term, change)


def _is_constant(node: UOp) -> bool:
    return node.op is ops.CONST or terms.is_constant_hole(node)
