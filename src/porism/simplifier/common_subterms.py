"""Common subterms: operands that several sums share are grouped, so that they are added once.

A sum of three terms may be grouped in three ways, and which of them is cheap depends on the rest of
the expression: here `r * 4 + v` is needed anyway.

    Before: w * 64 + r * 4 + v if (r * 4 + v) % 16 < w else -1
    After:  w * 64 + (r * 4 + v) if (r * 4 + v) % 16 < w else -1

The same is done for products, conjunctions and the like. The groups depend on the operands alone
and not on how they were grouped, so that every grouping of an expression becomes the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.simplifier.expression_cost import COSTS, measure
from porism.simplifier.light_nodes import Make, make_uop, with_sources
from porism.simplifier.readable_order import may_be_undefined

_CHAIN_OPS: Final[dict[Op, Op]] = {
    ops.SUB: ops.ADD,
    ops.NEG: ops.ADD,
    **{op: op for op in (ops.ADD, ops.MUL, ops.MAX, ops.MIN, ops.AND, ops.OR, ops.XOR)},
}
"""The op of the chain that a node belongs to: a subtraction belongs to a sum."""

MOST_NODES: Final = 2000
"""An expression with more nodes is not regrouped; chosen by hand."""

MOST_OPERAND_LISTS: Final = 48
"""With more chains of one op, their operands are not compared in pairs; chosen by hand."""

SignedOperand = tuple[int, UOp]
"""A sign, 1 or -1, and an operand; only operands of a sum may be negative."""

Operands = tuple[SignedOperand, ...]
"""The operands of one chain, such as the terms of a sum, none of them twice."""


def share_subterms(root: UOp, make: Make = make_uop) -> UOp:
    """Return an equal expression in which common operands are grouped, if that costs less.

    >>> a, b, c = (UOp.variable(name, 0, 9) for name in "abc")
    >>> def plus(x, y): return make_uop(ops.ADD, (x, y))
    >>> share_subterms(make_uop(ops.LT, (plus(plus(a, b), c), plus(b, c))))
    UOp(LT bool a + (b + c) < b + c)
    """
    nodes = toposort(root)
    if len(nodes) > MOST_NODES:
        return root
    chains = _chains(nodes)
    if len(chains) < 2 or not _group(chains, make):
        return root
    regrouped = _rebuilt(root, chains, make)
    before, after = measure(root), measure(regrouped)
    return regrouped if after[0] <= before[0] and after[1] < before[1] else root


def _chains(nodes: Sequence[UOp]) -> dict[UOp, Operands]:
    """Return the operands of each sum, product and the like that is not part of a longer one."""
    heads: set[UOp] = {nodes[-1]}
    long_products = False
    for node in nodes:
        op = _CHAIN_OPS.get(node.op)
        for s in node.src:
            if s.op in _CHAIN_OPS:
                if _CHAIN_OPS[s.op] is not op:
                    heads.add(s)
                elif op is ops.MUL:
                    long_products = True
    if not long_products:  # two products of the same two factors are one node
        heads = {node for node in heads if node.op is not ops.MUL}
    chains = {}
    if len(heads) > 1:
        fixed: bool | None = None
        for node in nodes:
            if node in heads and node.op in _CHAIN_OPS:
                if node.dtype is dtypes.boolean and fixed is None:
                    # A guard stands before the division that it guards, and must stay there.
                    fixed = any(may_be_undefined(n) for n in nodes)
                operands = None if fixed and node.dtype is dtypes.boolean else _operands(node)
                if operands is not None and len(operands) > 1:
                    chains[node] = operands
    return chains


def _operands(root: UOp) -> Operands | None:
    """Return the operands of a chain from left to right; None if one is repeated."""
    op = _CHAIN_OPS[root.op]
    signs: dict[UOp, int] = {}
    stack: list[tuple[UOp, int]] = [(root, 1)]
    while stack:
        node, sign = stack.pop()
        if _CHAIN_OPS.get(node.op) is op:
            stack.append((node.src[-1], -sign if node.op in (ops.SUB, ops.NEG) else sign))
            if len(node.src) > 1:
                stack.append((node.src[0], sign))
        elif node in signs or len(signs) == MOST_NODES:
            return None
        else:
            signs[node] = sign
    return tuple((sign, node) for node, sign in signs.items())


# -- groups ----------------------------------------------------------------------------------------


def _group(chains: dict[UOp, Operands], make: Make) -> bool:
    """Replace operands that chains share by one node, the largest saving first.

    Return whether there were any.
    """
    changed = False
    while (best := _best_group(chains)) is not None:
        changed = True
        op, operands = best
        group = _joined(op, operands, make)
        for head, chain in chains.items():
            if head is not group:
                for sign, wanted in ((1, operands), (-1, _negated(operands))):
                    if _CHAIN_OPS[head.op] is op and set(wanted) <= set(chain):
                        chains[head] = _with_group(chain, wanted, (sign, group))
        chains[group] = operands
    return changed


def _best_group(chains: dict[UOp, Operands]) -> tuple[Op, Operands] | None:
    """Return the two or more operands whose grouping saves most, and the op that joins them."""
    uses: dict[tuple[Op, UOp], int] = {}
    for head, chain in chains.items():
        op = _CHAIN_OPS[head.op]
        for _, node in chain:
            uses[op, node] = uses.get((op, node), 0) + 1
    if max(uses.values(), default=0) < 2:
        return None
    candidates: dict[Op, list[Operands]] = {}
    for head, chain in chains.items():
        op = _CHAIN_OPS[head.op]
        shared = tuple(operand for operand in chain if uses[op, operand[1]] > 1)
        if len(shared) > 1:
            candidates.setdefault(op, []).append(shared)
    best, chosen = 0, None
    for op, operand_lists in candidates.items():
        for operands, saved in _common_operands(operand_lists):
            if saved * COSTS.get(op, 1) > best:
                best, chosen = saved * COSTS.get(op, 1), (op, operands)
    return chosen


def _common_operands(operand_lists: list[Operands]) -> Iterator[tuple[Operands, int]]:
    """Yield the operands that any two lists share, and how many operations grouping them saves."""
    if len(operand_lists) > MOST_OPERAND_LISTS:
        return
    tried: set[frozenset[SignedOperand]] = set()
    for number, first in enumerate(operand_lists):
        for other in operand_lists[number + 1 :]:
            for second in (other, _negated(other)):
                common = frozenset(first).intersection(second)
                if len(common) < 2 or common in tried:
                    continue
                operands = tuple(operand for operand in first if operand in common)
                opposite = frozenset(_negated(operands))
                tried |= {common, opposite}
                uses = sum(common.issubset(b) or opposite.issubset(b) for b in operand_lists)
                if all(sign < 0 for sign, _ in operands):
                    operands = _negated(operands)
                elif any(sign < 0 for sign, _ in operands):  # with the signs it has on its own
                    operands = next((b for b in operand_lists if opposite == set(b)), operands)
                yield operands, (len(operands) - 1) * (uses - 1)


def _negated(operands: Operands) -> Operands:
    """Return operands with the opposite signs."""
    return tuple((-sign, node) for sign, node in operands)


def _with_group(chain: Operands, operands: Operands, group: SignedOperand) -> Operands:
    """Return a chain with a group in place of its operands, where the first of them was."""
    first = next(number for number, operand in enumerate(chain) if operand in operands)
    rest = [operand for operand in chain if operand not in operands]
    return (*rest[:first], group, *rest[first:])


# -- nodes -----------------------------------------------------------------------------------------


def _rebuilt(root: UOp, chains: dict[UOp, Operands], make: Make) -> UOp:
    """Return the graph in which each chain joins its new operands."""
    rebuilt: dict[UOp, UOp] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        chain = chains.get(node)
        sources = node.src if chain is None else [operand for _, operand in chain]
        pending = [s for s in sources if s not in rebuilt]
        if pending:
            stack += pending
            continue
        stack.pop()
        if chain is None:
            src = tuple(rebuilt[s] for s in node.src)
            new = node if src == node.src else with_sources(node, src, make)
        else:
            operands = [(sign, rebuilt[operand]) for sign, operand in chain]
            new = _joined(_CHAIN_OPS[node.op], operands, make)
        rebuilt[node] = new
    return rebuilt[root]


def _joined(op: Op, operands: Sequence[SignedOperand], make: Make) -> UOp:
    """Return operands joined by an op in their order; a sum begins with a positive term."""
    start = next((number for number, (sign, _) in enumerate(operands) if sign > 0), 0)
    sign, whole = operands[start]
    if sign < 0:
        whole = make(ops.NEG, (whole,))
    for sign, node in (*operands[:start], *operands[start + 1 :]):
        whole = make(op if sign > 0 else ops.SUB, (whole, node))
    return whole
