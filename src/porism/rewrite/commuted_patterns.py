"""Variants: the ordered patterns that a commutative pattern stands for."""

from __future__ import annotations

from itertools import product

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.node import UOp, construct, raw
from porism.ir.traversal import rebuild
from porism.rewrite import terms

SORTED_SLOTS = frozenset({dtypes.index.slot, dtypes.boolean.slot})
"""The types whose commutative operands are put in order at construction, constants last."""


def variants(pattern: UOp, slot: int, *, sorted_operands: bool = True) -> list[UOp]:
    """Every order of operands in which `pattern` can be met on types of a slot.

    Where operands are kept in order a constant stands on the right, and the mirrored pattern, which
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
    found = []
    for src in product(*(_variants(s, slots) for s in node.src)):
        orders = [src]
        if node.op.commutative and src[0] is not src[1]:
            mirrored = (src[1], src[0])
            in_order = slots.get(node.src[0].dtype) in SORTED_SLOTS
            if in_order and _is_constant(src[0]) and not _is_constant(src[1]):
                orders = [mirrored]
            elif not (in_order and _is_constant(src[1]) and not _is_constant(src[0])):
                orders.append(mirrored)
        found += [construct(node.op, node.dtype_given, order, node.arg) for order in orders]
    return found


def in_order(term: UOp) -> UOp:
    """A term with commutative operands in the order of `node.order`: equal for all its variants."""

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        ordered = tuple(sorted(src, key=lambda s: s.order)) if node.op.commutative else src
        return raw(node.op, node.dtype_given, ordered, node.arg)

    return rebuild(term, change)


def _is_constant(node: UOp) -> bool:
    return node.op is ops.CONST or terms.is_constant_hole(node)
