"""Split reductions: a reduction of very many elements to few becomes two, the first in parallel.

    Before   REDUCE_AXIS(x[65536], 0)
    After    REDUCE_AXIS(CONTIGUOUS(REDUCE_AXIS(RESHAPE(x, 256, 256), 1)), 0)

The outer part of an axis stays for the second reduction; the first one does the rest, for as many
elements at once as the outer part has. It is the first axis of what lies between, so that whoever
computes a part computes it whole and writes it in one piece. An axis along which nothing changes
is not split, since there is nothing to be read in parallel. Elements are combined in another order
than before, which floats can tell: a sum of floats is in no promised order.

Of an axis whose size has no good divisor a few elements are left over. They join in at the end:

    Before   REDUCE_AXIS(x[65537], 0)
    After    REDUCE_AXIS(CONTIGUOUS(REDUCE_AXIS(RESHAPE(x[:65536], 256, 256), 1)), 0) + x[65536:]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from porism.base.dtypes import Theory
from porism.ir import ops
from porism.ir.facts.node_shape import Shape, shape
from porism.ir.node import UOp
from porism.ir.ops import Group, Op
from porism.rewrite.rule import RuleSet, procedure

LEAST_RATIO: Final = 32768
"""Elements reduced to one, from which on it pays to make two reductions."""

LARGEST_PART: Final = 256
SMALLEST_PART: Final = 8
MANY_PARTS: Final = 32
"""Parts of an axis that are enough, if another axis has more of them."""

LEFT_OVER: Final = 32
"""What is left over is at most this part of an axis."""

EVEN: Final = 16
"""Elements of a long part are a multiple of this: they are read in vectors."""

MOST_BETWEEN: Final = 1 << 17
"""Elements that the first reduction may leave."""

ENOUGH: Final = 1 << 14
"""Elements of a result that keep a machine busy: with more, there is no need to split."""

Varying = frozenset[int]
"""Axes of a tensor along which it may change."""


def split_reduction(node: UOp, known: dict[UOp, Varying]) -> UOp | None:
    """A REDUCE_AXIS as two; None if it should stay. `known` is for what is found out on the way."""
    x = node.src[0]
    dims, axes = shape(x), node.arg[1]
    reduced = _product(dims[axis] for axis in axes)
    left = _product(dim for axis, dim in enumerate(dims) if axis not in axes)
    if reduced is None or left is None or reduced < LEAST_RATIO or left > ENOUGH:
        return None
    return _split(node, varying(x, known), left)


def _split(node: UOp, changing: Varying, left: int) -> UOp | None:
    x, (op, axes) = node.src[0], node.arg
    dims = shape(x)
    best, part, inner = -1, 0, 0
    sizes = {a: int(dims[a].arg) for a in axes if a in changing and dims[a].op is ops.CONST}
    for axis, size in sizes.items():  # the outer ones first: their parts lie in one piece
        if part < MANY_PARTS:
            found, each = _parts(size, left)
            if found > part:
                best, part, inner = axis, found, each
    if best < 0:
        return None
    first = _joined(_within(x, best, 0, part * inner), best, part, inner, op, axes)
    rest = sizes[best] - part * inner
    if rest:
        over = _within(x, best, part * inner, sizes[best])
        others = ops.RESHAPE(ops.REDUCE_AXIS(over, arg=(op, axes)), *shape(first))
        first = op(first, others)
    return ops.RESHAPE(first, *shape(node))


def _joined(x: UOp, axis: int, part: int, inner: int, op: Op, axes: tuple[int, ...]) -> UOp:
    """A reduction in two steps, with as many parts of an axis in between."""
    dims = shape(x)
    sizes = [UOp.const(dims[axis].dtype, n) for n in (part, inner)]
    parts = ops.RESHAPE(x, *dims[:axis], *sizes, *dims[axis + 1 :])
    # the axes of the first reduction: the inner part of the split one, and all others
    first = tuple(a + (a >= axis) for a in axes)
    partial = ops.REDUCE_AXIS(parts, arg=(op, first))
    if axis:
        others = [a for a in range(len(dims) + 1) if a != axis]
        partial = ops.PERMUTE(partial, arg=(axis, *others))
    return ops.REDUCE_AXIS(ops.CONTIGUOUS(partial, arg="a reduction in two steps"), arg=(op, (0,)))


def _within(x: UOp, axis: int, start: int, stop: int) -> UOp:
    """The elements from one place of an axis to another."""
    dims = shape(x)
    if start == 0 and stop == dims[axis].arg:
        return x
    bounds = [(UOp.const(d.dtype, 0), d) for d in dims]
    bounds[axis] = (UOp.const(dims[axis].dtype, start), UOp.const(dims[axis].dtype, stop))
    return ops.SHRINK(x, *(bound for pair in bounds for bound in pair))


def _parts(size: int, left: int) -> tuple[int, int]:
    """How many parts of an axis to make, and the size of one; no parts if there are none.

    The largest number that divides it; if that is small, one that leaves little over.
    """
    most = min(LARGEST_PART, MOST_BETWEEN // max(left, 1))
    even = (n for n in range(most, SMALLEST_PART - 1, -1) if size % n == 0 and size > n)
    part = next(even, 0)
    if part < MANY_PARTS:
        most = min(most, size)
        found = [_uneven(size, n) for n in range(most, max(most // 2, MANY_PARTS) - 1, -1)]
        rest, many, inner = min(found, key=lambda n: n[0], default=(size, 0, 0))
        if many and rest * LEFT_OVER <= size:
            return many, inner
    return part, size // part if part else 0


def _uneven(size: int, part: int) -> tuple[int, int, int]:
    """What so many equal parts leave over, their number, and the size of one."""
    inner = size // part
    inner -= inner % EVEN if inner >= EVEN * EVEN else 0
    return size - part * inner, part, inner


def _product(dims: Iterator[UOp]) -> int | None:
    """How many elements there are at most; None if that is not known."""
    total = 1
    for dim in dims:
        if dim.vmax == float("inf"):
            return None
        total *= max(int(dim.vmax), 0)
    return total


# -- along which axes a tensor changes -------------------------------------------------------------


def varying(root: UOp, known: dict[UOp, Varying]) -> Varying:
    """The axes along which a tensor may change: the others are broadcast, or have size 1."""
    stack = [root]
    while stack:
        node = stack[-1]
        if node in known:
            stack.pop()
            continue
        sources = _looked_into(node)
        waiting = [s for s in sources if s not in known]
        if waiting:
            stack += waiting
            continue
        known[node] = _varying(node, [known[s] for s in sources])
    return known[root]


def _looked_into(node: UOp) -> tuple[UOp, ...]:
    if node.op.group is Group.MOVEMENT:
        return node.src[:1]
    if node.op.elementwise or node.op is ops.CAST or node.op is ops.BITCAST:
        return node.src
    return ()


def _varying(node: UOp, sources: Sequence[Varying]) -> Varying:
    op, dims = node.op, shape(node)
    if op is ops.PERMUTE:
        return frozenset(new for new, old in enumerate(node.arg) if old in sources[0])
    if op is ops.RESHAPE:
        return _reshaped(dims, shape(node.src[0]), sources[0])
    if op is ops.PAD:
        pairs = zip(node.src[1::2], node.src[2::2], strict=True)
        padded = {axis for axis, pair in enumerate(pairs) if any(n.vmax > 0 for n in pair)}
        return sources[0] | padded
    if sources:
        return frozenset().union(*sources)
    if op is ops.IOTA:
        return frozenset((node.arg,))
    return frozenset(axis for axis, dim in enumerate(dims) if dim.vmax > 1)


def _reshaped(new: Shape, old: Shape, changing: Varying) -> Varying:
    """A new axis changes if one of the old axes does that have the same elements."""
    found: set[int] = set()
    i = j = 0
    while i < len(new) and j < len(old):
        first_new, first_old = i, j
        a, b = new[i], old[j]
        i, j = i + 1, j + 1
        if a is not b:
            left, right = int(_constant(a)), int(_constant(b))
            while left != right and left and right:
                if left < right and i < len(new):
                    left, i = left * _constant(new[i]), i + 1
                elif right < left and j < len(old):
                    right, j = right * _constant(old[j]), j + 1
                else:
                    left = right = 0
            if not left or not right:
                i, j = len(new), len(old)
        if any(axis in changing for axis in range(first_old, j)):
            found |= set(range(first_new, i))
    return frozenset(axis for axis in found if new[axis].vmax > 1)


def _constant(dim: UOp) -> int:
    """A size; 0 where it is none that is known, and that ends all comparing."""
    return int(dim.arg) if dim.op is ops.CONST else 0


@procedure("split-reduction", (ops.REDUCE_AXIS,), seeds="003.splitreduce")
def split_reductions(node: UOp) -> UOp | None:
    """Reduce very many elements to few in two steps, the first of them in parallel."""
    return split_reduction(node, {})


SPLIT_REDUCTION = RuleSet("split-reduction", theory=Theory.STRUCTURE, rules=(split_reductions,))
