"""Initial symbolic: the algebra on a whole graph, and index arithmetic under the masks it has.

An INDEX asks for an element only where its mask holds, so its indices are simplified under that
mask: `WHERE(r < 24, p[r // 24], …)` reads p[0]. Indices without a division are left alone: what
the algebra makes of them when they are built is as good as it gets, but that a sum is written out:
what is in it twice, or cancels, is found there.
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
from porism.schedule.affine_forms import collected

DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD})


def symbolic(graph: UOp) -> UOp:
    """The graph in the normal form of the algebra, with simplified indices."""
    return collected(without_accesses_of_nothing(simplify_indices(rewrite(graph, SYMBOLIC))))


def simplify_indices(graph: UOp) -> UOp:
    """The graph with each index and condition simplified where it is used."""
    order = toposort(graph)
    if not any(n.op in DIVISIONS and n.dtype is index for n in order):
        return graph
    return without_accesses_of_nothing(_Indices(order).run(graph))


def without_accesses_of_nothing(graph: UOp) -> UOp:
    """The graph without elements that are INVALID everywhere: 0 where read, no store to them."""
    order = toposort(graph)
    if not any(is_no_element(n) for n in order):
        return graph

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        first = src[0] if src else None
        if node.op is ops.STORE and first is not None and is_no_element(first):
            return ops.NOOP()
        kept = 1 if node.op in (ops.STORE, ops.AFTER) else 0
        read = [UOp.const(s.dtype, 0) if is_no_element(s) else s for s in src[kept:]]
        return node.replace((*src[:kept], *read))

    return rebuild(graph, change)


def is_no_element(node: UOp) -> bool:
    """Whether a node is an element at the index INVALID, and not the pointer to it."""
    if node.op is not ops.INDEX or node.dtype.kind is Kind.POINTER:
        return False
    return any(s.op is ops.INVALID for s in node.src[1:])


def _is_arithmetic(node: UOp) -> bool:
    """Whether a node is a part of an index or condition, and not what uses one."""
    return node.op.elementwise and (node.dtype is index or node.dtype is boolean)


class _Indices:
    def __init__(self, order: Sequence[UOp]) -> None:
        self.divided: set[UOp] = set()  # indices and conditions with divisions in them
        self.seen: set[UOp] = set()
        self.done: dict[tuple[UOp, UOp | None], UOp] = {}
        for node in order:
            self._note(node)

    def _note(self, node: UOp) -> None:
        self.seen.add(node)
        if _is_arithmetic(node):
            here = node.op in DIVISIONS and node.dtype is index
            if here or any(s in self.divided for s in node.src):
                self.divided.add(node)

    def run(self, graph: UOp) -> UOp:
        return rebuild(graph, self._change)

    def _change(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        if _is_arithmetic(node):
            return self._made(node, src)
        if not any(s in self.divided for s in src):
            return node.replace(src)
        if node.op is ops.INDEX:
            src = self._access(src)
        else:
            src = tuple([self._simple(s, None) for s in src])
        return node.replace(src)

    def _made(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        if src == node.src:
            return node
        made = node.replace(src)
        for part in toposort(made, within=lambda n: n not in self.seen):
            self._note(part)
        return made

    def _access(self, src: tuple[UOp, ...]) -> tuple[UOp, ...]:
        """The sources of an INDEX: the mask of one index holds for all of them."""
        base, *indices = src
        valid = next((i.src[0] for i in indices if is_masked(i)), None)
        if indices and indices[-1].dtype.kind is Kind.BOOL and valid is None:
            valid = indices[-1]
        made = [self._simple(i, None if is_masked(i) or i is valid else valid) for i in indices]
        return (base, *made)

    def _simple(self, node: UOp, valid: UOp | None) -> UOp:
        if node not in self.divided:
            return node
        key = (node, valid)
        found = self.done.get(key)
        if found is None:
            facts = () if valid is None else conjuncts(valid)
            found = self.done[key] = simplify(node, facts=facts)
        return found
