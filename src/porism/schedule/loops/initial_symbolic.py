"""Initial symbolic: algebraic rules on a whole graph, and index arithmetic under its masks.

An INDEX reads an element only where its mask holds, so its indices are simplified under that mask:
`WHERE(r < 24, p[r // 24], …)` reads p[0]. Indices without a division are in normal form when they
are built; only sums are flattened, so that equal terms are combined or cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.base.dtypes import Kind, boolean, index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import rebuild, toposort
from porism.rewrite.graph_rewrite import rewrite
from porism.rules.addresses.validity import is_masked
from porism.rules.index.normalize import conjuncts, simplify
from porism.rules.rule_sets import SYMBOLIC
from porism.schedule.affine_forms import collect_terms

DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD})


def simplify_symbolically(graph: UOp) -> UOp:
    """Return the graph in the normal form of the algebraic rules, with simplified indices."""
    return collect_terms(remove_invalid_accesses(simplify_indices(rewrite(graph, SYMBOLIC))))


def simplify_indices(graph: UOp) -> UOp:
    """Return the graph with each index and condition simplified where it is used."""
    order = toposort(graph)
    if not any(n.op in DIVISIONS and n.dtype is index for n in order):
        return graph
    return remove_invalid_accesses(_IndexSimplifier(order).run(graph))


def remove_invalid_accesses(graph: UOp) -> UOp:
    """Return the graph without accesses at INVALID: a load becomes 0, and a store is removed."""
    order = toposort(graph)
    if not any(is_invalid_element(n) for n in order):
        return graph

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        first = src[0] if src else None
        if node.op is ops.STORE and first is not None and is_invalid_element(first):
            return ops.NOOP()
        addresses = 1 if node.op in (ops.STORE, ops.AFTER) else 0  # these are not loaded
        loads = [UOp.const(s.dtype, 0) if is_invalid_element(s) else s for s in src[addresses:]]
        return node.replace((*src[:addresses], *loads))

    return rebuild(graph, change)


def is_invalid_element(node: UOp) -> bool:
    """Return whether a node is the element at the index INVALID, and not a pointer to it."""
    if node.op is not ops.INDEX or node.dtype.kind is Kind.POINTER:
        return False
    return any(s.op is ops.INVALID for s in node.src[1:])


def _is_arithmetic(node: UOp) -> bool:
    """Return whether a node is a part of an index or a condition, and not a user of one."""
    return node.op.elementwise and (node.dtype is index or node.dtype is boolean)


class _IndexSimplifier:
    def __init__(self, order: Sequence[UOp]) -> None:
        self.divided: set[UOp] = set()  # indices and conditions with divisions in them
        self.visited: set[UOp] = set()
        self.simplified: dict[tuple[UOp, UOp | None], UOp] = {}
        for node in order:
            self._visit(node)

    def _visit(self, node: UOp) -> None:
        """Note whether an index or a condition contains a division."""
        self.visited.add(node)
        if _is_arithmetic(node):
            divides = node.op in DIVISIONS and node.dtype is index
            if divides or any(s in self.divided for s in node.src):
                self.divided.add(node)

    def run(self, graph: UOp) -> UOp:
        return rebuild(graph, self._change)

    def _change(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        if _is_arithmetic(node):
            return self._rebuild_arithmetic(node, src)
        if not any(s in self.divided for s in src):
            return node.replace(src)
        if node.op is ops.INDEX:
            src = self._simplify_access(src)
        else:
            src = tuple([self._simplify(s, None) for s in src])
        return node.replace(src)

    def _rebuild_arithmetic(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        if src == node.src:
            return node
        rebuilt = node.replace(src)
        for part in toposort(rebuilt, within=lambda n: n not in self.visited):
            self._visit(part)
        return rebuilt

    def _simplify_access(self, src: tuple[UOp, ...]) -> tuple[UOp, ...]:
        """Simplify the sources of an INDEX: the mask of one index holds for all of them."""
        base, *indices = src
        valid = next((i.src[0] for i in indices if is_masked(i)), None)
        if indices and indices[-1].dtype.kind is Kind.BOOL and valid is None:
            valid = indices[-1]
        return (
            base,
            *(self._simplify(i, None if is_masked(i) or i is valid else valid) for i in indices),
        )

    def _simplify(self, node: UOp, valid: UOp | None) -> UOp:
        """Return an index or a condition, simplified where `valid` holds."""
        if node not in self.divided:
            return node
        key = (node, valid)
        simpler = self.simplified.get(key)
        if simpler is None:
            facts = () if valid is None else conjuncts(valid)
            simpler = self.simplified[key] = simplify(node, facts=facts)
        return simpler
