"""Light nodes: the nodes of one expression while it is parsed and printed, cheaper than UOps.

A UOp is hash-consed in the whole process, and its bounds are computed when it is made. Most nodes
of an expression that is simplified are visited a few times and then dropped. A light node has the
same fields; it is hash-consed within one expression, and its bounds are computed on demand.
Variables and constants are UOps in any case. `to_uops` turns light nodes into UOps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import MutableNode, UOp, const, raw
from porism.ir.ops import Op
from porism.ir.text import structural_digest
from porism.ir.traversal import rebuild

Make = Callable[[Op, tuple[UOp, ...]], UOp]
"""Returns the node of an op and its sources, without rewriting."""

_BOOL: Final = dtypes.boolean
_INDEX: Final = dtypes.index
_MASK: Final = structural_digest.MASK
_MIRRORED: Final = {ops.GT: ops.LT, ops.GE: ops.LE}
_low: Final = vars(MutableNode)["vmin"].__set__
_high: Final = vars(MutableNode)["vmax"].__set__
_get_high: Final = vars(MutableNode)["vmax"].__get__


class LightNode(UOp):
    """A node of one expression, whose bounds are computed on demand."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """Compute the bounds of the node, after those of all light nodes below it."""
        if name not in ("vmin", "vmax"):
            raise AttributeError(name)
        stack: list[UOp] = [self]
        while stack:
            node = stack[-1]
            pending = [s for s in node.src if s.__class__ is LightNode and not _is_bounded(s)]
            if pending:
                stack += pending
                continue
            stack.pop()
            low, high = node.op.bounds(node.dtype, node.src, node.arg)
            _low(node, low)
            _high(node, high)
        return getattr(self, name)


def _is_bounded(node: UOp) -> bool:
    """Whether the bounds of a light node are computed."""
    try:
        _get_high(node)
    except AttributeError:
        return False
    return True


def make_uop(op: Op, src: tuple[UOp, ...]) -> UOp:
    """Return the hash-consed UOp of an op and its sources, without rewriting."""
    return raw(op, None, src, None)


def with_sources(node: UOp, src: tuple[UOp, ...], make: Make) -> UOp:
    """Return the node with other sources."""
    if node.arg is None and node.op.elementwise:
        return make(node.op, src)
    return raw(node.op, node.dtype_given, src, node.arg)


class LightNodes:
    """The table of the light nodes of one expression."""

    def __init__(self) -> None:
        self.nodes: dict[tuple[Op, tuple[UOp, ...]], UOp] = {}

    def make(self, op: Op, src: tuple[UOp, ...]) -> UOp:
        """Return the light node of an op and its sources; a choice between equals is that value."""
        if op is ops.WHERE and src[1] is src[2]:
            return src[1]
        key = (op, src)
        existing = self.nodes.get(key)
        if existing is None:
            node = MutableNode()
            node.op = op
            node.src = src
            node.arg = None
            node.dtype = _BOOL if op.group is ops.COMPARISON else src[-1].dtype
            node.order = _fingerprint(op, src)
            node.uses_buffer = False
            node.__class__ = LightNode
            existing = self.nodes[key] = cast(UOp, node)
        return existing

    def from_uops(self, root: UOp) -> UOp:
        """Return a graph of UOps as light nodes; nodes with an argument stay UOps."""
        return rebuild(root, lambda node, src: with_sources(node, src, self.make) if src else node)


def _fingerprint(op: Op, src: tuple[UOp, ...]) -> int:
    """Return a hash that does not depend on the order and grouping of sums, products, conditions.

    It is the value of the expression modulo a power of two when each variable, and each operation
    other than a sum or a product, has a pseudo-random value.
    """
    if len(src) == 2:
        a, b = src
        x = a.arg if a.op is ops.CONST else a.order
        y = b.arg if b.op is ops.CONST else b.order
        if op is ops.ADD:
            return (x + y) & _MASK
        if op is ops.MUL:
            return x * y & _MASK
        if op is ops.SUB:
            return (x - y) & _MASK
        if op is ops.AND or op is ops.OR:
            x, y = (s.order if s.op is op else hash((op.code, s.order)) for s in src)
            return (x + y) & _MASK
        if op in _MIRRORED:
            op, x, y = _MIRRORED[op], y, x
        elif op.commutative and y < x:
            x, y = y, x
        return hash((op.code, x, y)) & _MASK
    numbers = [s.arg if s.op is ops.CONST else s.order for s in src]
    if op is ops.NEG:
        return -numbers[0] & _MASK
    return hash((op.code, *numbers)) & _MASK


def number(value: int) -> UOp:
    """Return a constant of the index type, which is a UOp."""
    return const(_INDEX, value)


def to_uops(root: UOp) -> UOp:
    """Return a graph of light nodes as UOps."""
    return rebuild(root, _as_uop) if root.__class__ is LightNode else root


def _as_uop(node: UOp, src: tuple[UOp, ...]) -> UOp:
    """Return a light node on its new sources as a UOp."""
    return raw(node.op, None, src, None) if node.__class__ is LightNode else node
