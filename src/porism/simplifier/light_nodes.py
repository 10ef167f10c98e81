"""Parts: the nodes of one expression while it is read and written, cheaper to make than UOps.

A UOp is one object in the whole process and knows its bounds. Most nodes of an expression that is
simplified are looked at a few times and then forgotten. A part is a node of the same fields; equal
parts of one expression are one object, and its bounds are computed if somebody asks for them.
Variables are UOps in any case. `settled` makes UOps of parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from porism.base import dtypes
from porism.ir import ops
from porism.ir.draft import Draft
from porism.ir.node import UOp, const, raw
from porism.ir.ops import Op
from porism.ir.text import structural_digest
from porism.ir.traversal import rebuild

Make = Callable[[Op, tuple[UOp, ...]], UOp]
"""Makes a node of an op and its sources, exactly as stated."""

_BOOL: Final = dtypes.boolean
_INDEX: Final = dtypes.index
_MASK: Final = structural_digest.MASK
_TURNED: Final = {ops.GT: ops.LT, ops.GE: ops.LE}
_low: Final = vars(Draft)["vmin"].__set__
_high: Final = vars(Draft)["vmax"].__set__
_get_high: Final = vars(Draft)["vmax"].__get__


class Part(UOp):
    """A node of one expression."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """The bounds, when they are asked for; those of all parts below first."""
        if name not in ("vmin", "vmax"):
            raise AttributeError(name)
        stack: list[UOp] = [self]
        while stack:
            node = stack[-1]
            waiting = [s for s in node.src if s.__class__ is Part and not _is_bounded(s)]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            low, high = node.op.bounds(node.dtype, node.src, node.arg)
            _low(node, low)
            _high(node, high)
        return getattr(self, name)


def _is_bounded(node: UOp) -> bool:
    try:
        _get_high(node)
    except AttributeError:
        return False
    return True


def made(op: Op, src: tuple[UOp, ...]) -> UOp:
    """A UOp: the node that everybody has who makes the same."""
    return raw(op, None, src, None)


def remade(node: UOp, src: tuple[UOp, ...], make: Make) -> UOp:
    """A node on other sources."""
    if node.arg is None and node.op.elementwise:
        return make(node.op, src)
    return raw(node.op, node.dtype_given, src, node.arg)


class Parts:
    """The parts of one expression."""

    def __init__(self) -> None:
        self.nodes: dict[tuple[Op, tuple[UOp, ...]], UOp] = {}

    def make(self, op: Op, src: tuple[UOp, ...]) -> UOp:
        """The part with this op and these sources; of a choice between equals, that."""
        if op is ops.WHERE and src[1] is src[2]:
            return src[1]
        key = (op, src)
        found = self.nodes.get(key)
        if found is None:
            node = Draft()
            node.op = op
            node.src = src
            node.arg = None
            node.dtype = _BOOL if op.group is ops.COMPARISON else src[-1].dtype
            node.order = _fingerprint(op, src)
            node.on_memory = False
            node.__class__ = Part
            found = self.nodes[key] = cast(UOp, node)
        return found

    def of(self, root: UOp) -> UOp:
        """A graph of UOps as parts, but for what has an argument."""
        return rebuild(root, lambda node, src: remade(node, src, self.make) if src else node)


def _fingerprint(op: Op, src: tuple[UOp, ...]) -> int:
    """A number that is the same for all orders and groupings of sums, products and conditions.

    It is the value of an expression whose variables, and operations other than sums and products,
    have random values.
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
        if op in _TURNED:
            op, x, y = _TURNED[op], y, x
        elif op.commutative and y < x:
            x, y = y, x
        return hash((op.code, x, y)) & _MASK
    numbers = [s.arg if s.op is ops.CONST else s.order for s in src]
    if op is ops.NEG:
        return -numbers[0] & _MASK
    return hash((op.code, *numbers)) & _MASK


def number(value: int) -> UOp:
    """A constant, which is a UOp."""
    return const(_INDEX, value)


def settled(root: UOp) -> UOp:
    """The same graph as UOps."""
    return rebuild(root, _as_uop) if root.__class__ is Part else root


def _as_uop(node: UOp, src: tuple[UOp, ...]) -> UOp:
    return raw(node.op, None, src, None) if node.__class__ is Part else node
