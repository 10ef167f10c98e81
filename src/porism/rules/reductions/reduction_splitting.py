"""Reduction splitting: a large reduction with a small result becomes two, the first parallel.

    Before   REDUCE_AXIS(x[65536], 0)
    After    REDUCE_AXIS(CONTIGUOUS(REDUCE_AXIS(RESHAPE(x, 256, 256), 1)), 0)

The outer part of an axis is reduced by the second reduction; the first one reduces the rest, with
the outer part as a parallel loop. The outer part is the first axis of the partial results, so that
each worker writes its results contiguously. An axis along which the tensor is constant is not
split, since nothing is read along it. Elements are combined in another order than before, which
changes float sums: their order is not specified.

Of an axis whose size has no good divisor a few elements remain. They are added at the end:

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
"""Elements reduced to one, from which on two reductions are faster; chosen by hand."""

LARGEST_PART: Final = 256
SMALLEST_PART: Final = 8
"""Parts into which an axis is split, at most and at least; chosen by hand."""

MANY_PARTS: Final = 32
"""Parts of an axis that are enough, so that no further axis is considered; chosen by hand."""

REMAINDER_RATIO: Final = 32
"""The remainder is at most an axis divided by this; chosen by hand."""

VECTOR_MULTIPLE: Final = 16
"""A long part has a multiple of this many elements, for vector loads."""

MOST_PARTIAL_RESULTS: Final = 1 << 17
"""Elements of the partial results, at most; chosen by hand."""

ENOUGH_PARALLELISM: Final = 1 << 14
"""Elements of a result that are enough parallel work, so nothing is split; chosen by hand."""

Varying = frozenset[int]
"""Axes of a tensor along which its elements may differ."""


def split_reduction(node: UOp, known: dict[UOp, Varying]) -> UOp | None:
    """Return a REDUCE_AXIS as two; None if it should stay. `known` caches varying axes."""
    x = node.src[0]
    dims, axes = shape(x), node.arg[1]
    reduced = _product(dims[axis] for axis in axes)
    results = _product(dim for axis, dim in enumerate(dims) if axis not in axes)
    if reduced is None or results is None or reduced < LEAST_RATIO or results > ENOUGH_PARALLELISM:
        return None
    return _split(node, varying_axes(x, known), results)


def _split(node: UOp, changing: Varying, results: int) -> UOp | None:
    x, (op, axes) = node.src[0], node.arg
    dims = shape(x)
    best, part, inner = -1, 0, 0
    sizes = {a: int(dims[a].arg) for a in axes if a in changing and dims[a].op is ops.CONST}
    for axis, size in sizes.items():  # outer axes first: their parts are contiguous
        if part < MANY_PARTS:
            parts, elements = _choose_parts(size, results)
            if parts > part:
                best, part, inner = axis, parts, elements
    if best < 0:
        return None
    first = _reduce_in_two_steps(_slice_axis(x, best, 0, part * inner), best, part, inner, op, axes)
    rest = sizes[best] - part * inner
    if rest:
        remainder = _slice_axis(x, best, part * inner, sizes[best])
        reduced = ops.RESHAPE(ops.REDUCE_AXIS(remainder, arg=(op, axes)), *shape(first))
        first = op(first, reduced)
    return ops.RESHAPE(first, *shape(node))


def _reduce_in_two_steps(
    x: UOp, axis: int, part: int, inner: int, op: Op, axes: tuple[int, ...]
) -> UOp:
    """Return a reduction in two steps, with `part` partial results along an axis."""
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


def _slice_axis(x: UOp, axis: int, start: int, stop: int) -> UOp:
    """Return the elements of an axis from start to stop."""
    dims = shape(x)
    if start == 0 and stop == dims[axis].arg:
        return x
    bounds = [(UOp.const(d.dtype, 0), d) for d in dims]
    bounds[axis] = (UOp.const(dims[axis].dtype, start), UOp.const(dims[axis].dtype, stop))
    return ops.SHRINK(x, *(bound for pair in bounds for bound in pair))


def _choose_parts(size: int, results: int) -> tuple[int, int]:
    """Return the number of parts of an axis and the elements of one; 0 parts if none is good.

    The largest divisor of the size; if it is small, a number that leaves a small remainder.
    """
    most = min(LARGEST_PART, MOST_PARTIAL_RESULTS // max(results, 1))
    even = (n for n in range(most, SMALLEST_PART - 1, -1) if size % n == 0 and size > n)
    part = next(even, 0)
    if part < MANY_PARTS:
        most = min(most, size)
        candidates = [_remainder(size, n) for n in range(most, max(most // 2, MANY_PARTS) - 1, -1)]
        rest, parts, inner = min(candidates, key=lambda n: n[0], default=(size, 0, 0))
        if parts and rest * REMAINDER_RATIO <= size:
            return parts, inner
    return part, size // part if part else 0


def _remainder(size: int, part: int) -> tuple[int, int, int]:
    """Return the remainder of `part` equal parts, their number, and the elements of one."""
    inner = size // part
    inner -= inner % VECTOR_MULTIPLE if inner >= VECTOR_MULTIPLE * VECTOR_MULTIPLE else 0
    return size - part * inner, part, inner


def _product(dims: Iterator[UOp]) -> int | None:
    """Return the largest product of sizes; None if it is not known."""
    total = 1
    for dim in dims:
        if dim.vmax == float("inf"):
            return None
        total *= max(int(dim.vmax), 0)
    return total


# -- varying axes ----------------------------------------------------------------------------------


def varying_axes(root: UOp, known: dict[UOp, Varying]) -> Varying:
    """Return the axes along which elements may differ: the others are broadcast or of size 1."""
    stack = [root]
    while stack:
        node = stack[-1]
        if node in known:
            stack.pop()
            continue
        sources = _sources_that_vary(node)
        waiting = [s for s in sources if s not in known]
        if waiting:
            stack += waiting
            continue
        known[node] = _varying_axes(node, [known[s] for s in sources])
    return known[root]


def _sources_that_vary(node: UOp) -> tuple[UOp, ...]:
    if node.op.group is Group.MOVEMENT:
        return node.src[:1]
    if node.op.elementwise or node.op is ops.CAST or node.op is ops.BITCAST:
        return node.src
    return ()


def _varying_axes(node: UOp, sources: Sequence[Varying]) -> Varying:
    op, dims = node.op, shape(node)
    if op is ops.PERMUTE:
        return frozenset(new for new, old in enumerate(node.arg) if old in sources[0])
    if op is ops.RESHAPE:
        return _varying_after_reshape(dims, shape(node.src[0]), sources[0])
    if op is ops.PAD:
        pairs = zip(node.src[1::2], node.src[2::2], strict=True)
        padded = {axis for axis, pair in enumerate(pairs) if any(n.vmax > 0 for n in pair)}
        return sources[0] | padded
    if sources:
        return frozenset().union(*sources)
    if op is ops.IOTA:
        return frozenset((node.arg,))
    return frozenset(axis for axis, dim in enumerate(dims) if dim.vmax > 1)


def _varying_after_reshape(new: Shape, old: Shape, changing: Varying) -> Varying:
    """Return the new axes that share elements with an old axis that varies."""
    axes: set[int] = set()
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
            axes |= set(range(first_new, i))
    return frozenset(axis for axis in axes if new[axis].vmax > 1)


def _constant(dim: UOp) -> int:
    """Return a constant size; 0 for a symbolic one, which ends the comparison."""
    return int(dim.arg) if dim.op is ops.CONST else 0


@procedure("split-reduction", (ops.REDUCE_AXIS,), seeds="003.splitreduce")
def split_reductions(node: UOp) -> UOp | None:
    """Split a large reduction with a small result into two, the first of them parallel."""
    return split_reduction(node, {})


SPLIT_REDUCTION = RuleSet("split-reduction", theory=Theory.STRUCTURE, rules=(split_reductions,))
