"""Places: which indices of blocks and threads the parallel ranges of a kernel take.

Ranges of one size that are never inside of each other take turns in one place: the threads that
reduce a row together are then those that write it. A place is an index of the machine, or a part
of one: `fit` puts the places of a kernel into the few dimensions that a machine has.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import Kind, Space, index
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import THREAD_AXES, Axis
from porism.ir.facts.effect_scopes import base_of, scopes
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked

LANES: Final = frozenset({Axis.UPCAST, Axis.UNROLL})
"""Kinds of ranges whose iterations are side by side in one thread."""

ALIGNMENT: Final = 16
"""Of local memory, in bytes."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place among the blocks or the threads, and the ranges that take turns in it."""

    size: UOp
    ranges: tuple[UOp, ...]


def size_of(ranges: Sequence[UOp]) -> int:
    """The iterations of ranges whose sizes are numbers, or the most there are."""
    return math.prod(int(r.vmax) + 1 for r in ranges)


def slots(kernel: UOp, kinds: frozenset[Axis]) -> list[Slot]:
    """The places of the ranges of some kinds, the fastest first."""
    order = toposort(kernel)
    found = scopes(order)
    together: dict[UOp, set[UOp]] = {}
    summed = {s for n in order if n.op is ops.REDUCE for s in n.src[1:] if is_term(s)}
    for node in order:
        ranges = [r for r in found[node] if r.op is ops.RANGE and r.arg[1] in kinds]
        inside = [r for r in ranges if r not in summed]
        for counter in inside:
            together.setdefault(counter, set()).update(inside)
    accesses = [n for n in order if n.op is ops.INDEX and base_of(n).op is ops.PARAM]
    taken: list[list[UOp]] = []
    for counter in sorted(together, key=lambda r: _speed(r, accesses)):
        for slot in taken:
            same = slot[0].src[0] is counter.src[0]
            if same and not any(other in together[counter] for other in slot):
                slot.append(counter)
                break
        else:
            taken.append([counter])
    return [Slot(slot[0].src[0], tuple(slot)) for slot in taken]


def is_term(counter: UOp) -> bool:
    """Whether a range that a REDUCE closes is what a tensor core sums up."""
    return counter.op is ops.RANGE and counter.arg[1] is Axis.WARP


def _speed(counter: UOp, accesses: Sequence[UOp]) -> tuple[object, ...]:
    """Warps first, as they are laid out, then ranges along which memory is read element by
    element, then inner ones."""
    axis = counter.arg[0]
    if counter.arg[1] is Axis.WARP:
        return False, -axis[-1], axis, counter.key
    beside = 0
    for access in accesses:
        if counter in access.ranges and len(access.src) > 1:
            at = access.src[1]
            beside += stride(at.src[1] if is_masked(at) else at, counter) == 1
    return True, -beside, tuple(-n for n in axis), counter.key


# -- the dimensions of a machine -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fit:
    """Places in dimensions: a group of neighbouring places in each, or all of them in all."""

    dims: tuple[UOp, ...]
    groups: tuple[tuple[int, ...], ...] | None
    """The places in each dimension; None where all are parts of one number in all dimensions."""


def fit(sizes: Sequence[UOp], limits: Sequence[int]) -> Fit | None:
    """How places of these sizes, the fastest first, fit in dimensions; None if they do not.

    Each has a dimension of its own if there are enough of them, else neighbours share one. Where a
    dimension would be too long, all are counted by one number over several dimensions, some of
    whose last values may be of no use.

    >>> def dims(sizes, limits):
    ...     found = fit([UOp.const(index, n) for n in sizes], limits)
    ...     return found and ([d.arg for d in found.dims], found.groups)
    >>> dims((4, 3), (8, 8, 8)), dims((4, 3, 2, 5), (8, 8, 8))
    (([4, 3], ((0,), (1,))), ([4, 6, 5], ((0,), (1, 2), (3,))))
    >>> dims((60,), (8, 8, 8)), dims((61,), (8, 8, 8)), dims((600,), (8, 8, 8))
    (([6, 5, 2], None), ([8, 8], None), None)
    """
    for count in range(min(len(sizes), len(limits)), 0, -1):
        for groups in _partitions(len(sizes), count):
            dims = tuple(_product(sizes[k] for k in group) for group in groups)
            if all(d.vmax <= most for d, most in zip(dims, limits, strict=False)):
                return Fit(dims, groups)
    if not sizes:
        return Fit((), ())
    total = _product(sizes)
    if total.vmax > math.prod(limits):
        return None
    if total.op is ops.CONST:
        exact = _factors(int(total.arg), tuple(limits))
        if exact is not None:
            return Fit(tuple(UOp.const(index, n) for n in exact), None)
    return Fit(_rounded(total, limits), None)


def _product(sizes: Iterable[UOp]) -> UOp:
    """The product, where it is known as a number."""
    known, total = 1, None
    for size in sizes:
        if size.op is ops.CONST:
            known *= int(size.arg)
        else:
            total = size if total is None else total * size
    if total is None:
        return UOp.const(index, known)
    return total if known == 1 else total * known


def _partitions(length: int, count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every way to cut 0 … length-1 into so many parts."""
    for cuts in itertools.combinations(range(1, length), count - 1):
        ends = (0, *cuts, length)
        yield tuple(tuple(range(a, b)) for a, b in itertools.pairwise(ends))


def _factors(total: int, limits: tuple[int, ...]) -> tuple[int, ...] | None:
    """A number as a product of factors within limits, as few and as large as possible."""
    if not limits:
        return () if total == 1 else None
    if total == 1:
        return ()
    if total > math.prod(limits):
        return None
    for factor in sorted(_divisors(total, limits[0]), reverse=True):
        rest = _factors(total // factor, limits[1:])
        if rest is not None and factor > 1:
            return (factor, *rest)
    return None


def _divisors(total: int, most: int) -> set[int]:
    small = [n for n in range(1, math.isqrt(total) + 1) if total % n == 0]
    return {n for d in small for n in (d, total // d) if n <= most}


def _rounded(total: UOp, limits: Sequence[int]) -> tuple[UOp, ...]:
    """Dimensions whose product is the total or a little more."""
    dims: list[UOp] = []
    for place in range(len(limits) - 1, -1, -1):
        most = _product([*dims, UOp.const(index, math.prod(limits[:place]))])
        if total.vmax <= math.prod(limits[:place]):
            size = UOp.const(index, 1)
        elif total.op is most.op is ops.CONST:
            size = UOp.const(index, -(-int(total.arg) // int(most.arg)))
        else:
            size = ((total + most - 1) // most).maximum(1)
        dims.insert(0, size)
    while len(dims) > 1 and dims[-1].op is ops.CONST and dims[-1].arg == 1:
        dims.pop()
    return tuple(dims)


# -- what a kernel needs of a block ----------------------------------------------------------------


def thread_ranges(node: UOp) -> list[UOp]:
    """The ranges around a value that are threads of a block."""
    return [r for r in node.ranges if r.arg[1] in THREAD_AXES]


def lane_ranges(node: UOp) -> list[UOp]:
    """The ranges around a value that are side by side in one thread."""
    return [r for r in node.ranges if r.arg[1] in LANES]


def shared_among(memory: UOp, order: Sequence[UOp]) -> list[UOp]:
    """The thread ranges that fill local memory together; none if each thread has its own."""
    known = scopes(order)
    filling = [n for n in order if n.op is ops.STORE and base_of(n.src[0]) is memory]
    inside = {r for n in filling for r in known[n] if r.op is ops.RANGE and r.arg[1] in THREAD_AXES}
    return [r for r in inside if r not in kept_around(memory, order)]


def kept_around(memory: UOp, order: Sequence[UOp]) -> list[UOp]:
    """The ranges that local memory is filled and read inside of."""
    uses = [n for n in order if n.op is ops.AFTER and n.src[0] is memory]
    return list(dict.fromkeys(r for n in uses for r in n.ranges))


def local_bytes(kernel: UOp) -> int:
    """The local memory of a block, once memory is shared and reductions are grouped."""
    order = toposort(kernel)
    total = 0
    for node in order:
        count = 0
        if node.op is ops.DEFINE_LOCAL and shared_among(node, order):
            kinds = THREAD_AXES | LANES
            count = size_of([r for r in kept_around(node, order) if r.arg[1] in kinds])
            count *= node.dtype.size
        elif node.op is ops.REDUCE and any(r.arg[1] is Axis.GROUP for r in node.src[1:]):
            count = size_of(grouped_over(node))
        total += rounded_bytes(node, count) if count else 0
    return total


def rounded_bytes(node: UOp, count: int) -> int:
    """The bytes of so many elements of a node's type, with what alignment takes."""
    return -(-count * node.dtype.element.numpy.itemsize // ALIGNMENT) * ALIGNMENT


def grouped_over(node: UOp) -> list[UOp]:
    """The ranges that the partial results of a grouped reduction are kept for."""
    value, *closed = node.src
    around = [r for r in thread_ranges(value) if r not in closed]
    groups = [r for r in closed if r.arg[1] is Axis.GROUP]
    lanes = [r for r in lane_ranges(value) if r not in closed]
    return [*around, *groups, *lanes]


def stores(end: UOp) -> Iterator[UOp]:
    """The stores that an effect is made of."""
    if end.op is ops.STORE:
        yield end
    elif end.op in (ops.END, ops.GROUP, ops.SINK):
        for s in end.src if end.op is not ops.END else end.src[:1]:
            yield from stores(s)


def is_independent(kernel: UOp, counter: UOp) -> bool:
    """Whether the iterations of a loop write elements of their own, which none of them reads."""
    order = toposort(kernel)
    known = scopes(order)
    written = [n for n in order if n.op is ops.STORE and counter in known[n]]
    own = [n for n in written if counter in kept_around(base_of(n.src[0]), order)]
    if any(counter not in n.src[0].ranges for n in written if n not in own):
        return False
    targets = {n.src[0] for n in written}
    buffers = {base_of(n) for n in targets if base_of(n).op is ops.PARAM}
    # what a STORE writes to may be read as well, before it is written
    return not any(n.op is ops.INDEX and n not in targets and base_of(n) in buffers for n in order)


def problem(kernel: UOp, target: Target) -> tuple[str, str] | None:
    """What of a kernel does not fit a block of the target, and why; None if all does."""
    places = slots(kernel, THREAD_AXES)
    threads = math.prod(int(s.size.vmax) for s in places)
    found = fit([s.size for s in places], target.block)
    launched = threads if found is None else math.prod(int(d.vmax) for d in found.dims)
    if found is None or launched > target.block_threads:
        limits = f"{target.block_threads}, {' × '.join(map(str, target.block))} at most"
        return f"a block would have {launched} threads", f"the target has {limits}"
    needed = local_bytes(kernel)
    if needed > target.memory.local:
        return (
            f"a block would need {needed} bytes of local memory",
            f"the target has {target.memory.local}",
        )
    return None


def space_of(access: UOp) -> Space | None:
    """The memory that an access goes to."""
    base = base_of(access)
    return base.dtype.space if base.dtype.kind is Kind.POINTER else None
