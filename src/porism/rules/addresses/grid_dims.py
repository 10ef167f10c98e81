"""Grid dimensions: which block and thread indices the parallel ranges of a kernel are mapped to.

Ranges of equal extent that are neither nested nor closed together share a slot: the threads that
reduce a row together are then those that write it. Nests of other ranges share the indices too: 256
threads that fill a tile together are the 16 × 16 threads that compute with it. A slot is an index
of the machine, or a part of one: `fit_dimensions` maps the slots of a kernel to the few dimensions
of a grid or a block.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import Kind, Space, index
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import BLOCK_AXES, THREAD_AXES, Axis
from porism.ir.facts.effect_scopes import base_of, scopes
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked

UNROLLED_AXES: Final = frozenset({Axis.UPCAST, Axis.UNROLL})
"""Kinds of ranges whose iterations are vectorized or unrolled in one thread."""

ALIGNMENT: Final = 16
"""Alignment of buffers in local memory, in bytes: that of the widest load, 128 bits."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A block or thread index, and the ranges that are mapped to it."""

    extent: UOp
    ranges: tuple[UOp, ...]


def trip_count(ranges: Sequence[UOp]) -> int:
    """Return the product of the largest extents of ranges."""
    return math.prod(int(r.vmax) + 1 for r in ranges)


@dataclass(frozen=True, slots=True)
class SlotNests:
    """The slots of a kernel, by nests: ranges of two nests are never around the same node.

    So nests share the machine's indices: the first, which has the most iterations, has an index for
    each slot, and those of another are parts of one linear index over all of them.
    """

    slots: tuple[Slot, ...]
    """The slots of the first nest, the fastest-varying first."""
    others: tuple[tuple[Slot, ...], ...] = ()


def assign_slots(kernel: UOp, kinds: frozenset[Axis]) -> SlotNests:
    """Return the slots of the ranges of some kinds, the fastest-varying first."""
    order = toposort(kernel)
    nested_with = _nested_ranges(order, kinds)
    accesses = [n for n in order if n.op is ops.INDEX and base_of(n).op is ops.PARAM]
    shared: list[list[UOp]] = []
    for loop in sorted(nested_with, key=lambda r: _slot_order(r, accesses)):
        of_extent = [ranges for ranges in shared if ranges[0].src[0] is loop.src[0]]
        free = next((ranges for ranges in of_extent if nested_with[loop].isdisjoint(ranges)), None)
        if free is None:
            shared.append([loop])
        else:
            free.append(loop)
    slots = [Slot(ranges[0].src[0], tuple(ranges)) for ranges in shared]
    return _divide_into_nests(slots, nested_with)


def _divide_into_nests(slots: Sequence[Slot], nested_with: Mapping[UOp, set[UOp]]) -> SlotNests:
    """Divide slots into nests; a nest that cannot share the indices of the first belongs to it."""
    nests: list[list[Slot]] = []
    for slot in slots:
        around = set().union(*(nested_with[r] for r in slot.ranges))
        together = [nest for nest in nests if any(around & set(s.ranges) for s in nest)]
        nests = [nest for nest in nests if nest not in together]
        nests.append([s for nest in together for s in nest] + [slot])
    if len(nests) < 2:
        return SlotNests(tuple(slots))
    first = max(nests, key=_nest_priority)
    count = trip_count([s.ranges[0] for s in first])
    others = [n for n in nests if n is not first and _can_share(n, count)]
    shared = {id(s) for nest in others for s in nest}
    rest = tuple(s for s in slots if id(s) not in shared)
    return SlotNests(rest, tuple(tuple(s for s in slots if s in nest) for nest in others))


def _nest_priority(nest: Sequence[Slot]) -> tuple[bool, bool, int]:
    """Return a sort key: warps need indices of their own, then extents that are not constant."""
    ranges = [r for slot in nest for r in slot.ranges]
    known = all(slot.extent.op is ops.CONST for slot in nest)
    return (
        any(r.arg[1] is Axis.WARP for r in ranges),
        not known,
        trip_count([s.ranges[0] for s in nest]),
    )


def _can_share(nest: Sequence[Slot], count: int) -> bool:
    """Return whether a nest fits in `count` iterations of another one, as parts of their number."""
    is_warp, is_unknown, own = _nest_priority(nest)
    return not is_warp and not is_unknown and own <= count


def _nested_ranges(order: Sequence[UOp], kinds: frozenset[Axis]) -> dict[UOp, set[UOp]]:
    """Return the ranges of some kinds, each with itself and those nested or closed with it."""
    scope_of = scopes(order)
    closed_by = {n: n.src[1:] for n in order if n.op in (ops.REDUCE, ops.END)}
    summed = {
        s for n in order if n.op is ops.REDUCE for s in n.src[1:] if is_tensor_core_reduction(s)
    }
    nested_with: dict[UOp, set[UOp]] = {}
    for node in order:
        # a node closes ranges that its value may not depend on
        around = dict.fromkeys((*scope_of[node], *closed_by.get(node, ())))
        ranges = [r for r in around if r.op is ops.RANGE and r not in summed]
        nest = [r for r in ranges if r.arg[1] in kinds]
        for loop in nest:
            nested_with.setdefault(loop, set()).update(nest)
    return nested_with


def is_tensor_core_reduction(loop: UOp) -> bool:
    """Whether a range that a REDUCE closes is reduced by a tensor core."""
    return loop.op is ops.RANGE and loop.arg[1] is Axis.WARP


def _slot_order(loop: UOp, accesses: Sequence[UOp]) -> tuple[object, ...]:
    """Return a sort key: warps first, then ranges along which buffers are contiguous, then inner.

    Neighbouring threads with `ALIGNMENT` bytes each are contiguous as well. Accesses count by how
    often a block makes them.
    """
    axis = loop.arg[0]
    if loop.arg[1] is Axis.WARP:
        return False, -axis[-1], axis, loop.key
    contiguous = 0
    for access in accesses:
        if loop in access.ranges and len(access.src) > 1:
            offset = access.src[1]
            apart = stride(offset.src[1] if is_masked(offset) else offset, loop)
            if apart is not None and 0 < apart * access.dtype.element.numpy.itemsize <= ALIGNMENT:
                inside = [r for r in access.ranges if r.arg[1] not in BLOCK_AXES]
                contiguous += trip_count(inside)
    return True, -contiguous, tuple(-n for n in axis), loop.key


# -- the dimensions of a machine -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GridFit:
    """Slots mapped to dimensions: neighbouring slots to each, or all slots to all of them."""

    dims: tuple[UOp, ...]
    groups: tuple[tuple[int, ...], ...] | None
    """The slots of each dimension; None if all slots share one linear index over all of them."""


def fit_dimensions(sizes: Sequence[UOp], limits: Sequence[int]) -> GridFit | None:
    """Map slots of these extents, the fastest first, to dimensions; None if they do not fit.

    Each slot has a dimension of its own if there are enough, else neighbours share one. Where a
    dimension would exceed its limit, one linear index runs over several dimensions, perhaps with
    padding at the end.

    >>> def dims(sizes, limits):
    ...     mapped = fit_dimensions([UOp.const(index, n) for n in sizes], limits)
    ...     return mapped and ([d.arg for d in mapped.dims], mapped.groups)
    >>> dims((4, 3), (8, 8, 8)), dims((4, 3, 2, 5), (8, 8, 8))
    (([4, 3], ((0,), (1,))), ([4, 6, 5], ((0,), (1, 2), (3,))))
    >>> dims((60,), (8, 8, 8)), dims((61,), (8, 8, 8)), dims((600,), (8, 8, 8))
    (([6, 5, 2], None), ([8, 8], None), None)
    """
    for count in range(min(len(sizes), len(limits)), 0, -1):
        for groups in _partitions(len(sizes), count):
            dims = tuple(_product(sizes[k] for k in group) for group in groups)
            if all(d.vmax <= most for d, most in zip(dims, limits, strict=False)):
                return GridFit(dims, groups)
    if not sizes:
        return GridFit((), ())
    total = _product(sizes)
    if total.vmax > math.prod(limits):
        return None
    if total.op is ops.CONST:
        exact = _factors(int(total.arg), tuple(limits))
        if exact is not None:
            return GridFit(tuple(UOp.const(index, n) for n in exact), None)
    return GridFit(_padded_dimensions(total, limits), None)


def _product(sizes: Iterable[UOp]) -> UOp:
    """Return the product, with the constants folded into one factor."""
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
    """Yield every way to cut 0 … length-1 into `count` parts."""
    for cuts in itertools.combinations(range(1, length), count - 1):
        ends = (0, *cuts, length)
        yield tuple(tuple(range(a, b)) for a, b in itertools.pairwise(ends))


def _factors(total: int, limits: tuple[int, ...]) -> tuple[int, ...] | None:
    """Factorize a number into factors within limits, as few and as large as possible."""
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


def _padded_dimensions(total: UOp, limits: Sequence[int]) -> tuple[UOp, ...]:
    """Return dimensions whose product is the total or a little more."""
    dims: list[UOp] = []
    for dim in range(len(limits) - 1, -1, -1):
        most = _product([*dims, UOp.const(index, math.prod(limits[:dim]))])
        if total.vmax <= math.prod(limits[:dim]):
            size = UOp.const(index, 1)
        elif total.op is most.op is ops.CONST:
            size = UOp.const(index, -(-int(total.arg) // int(most.arg)))
        else:
            size = ((total + most - 1) // most).maximum(1)
        dims.insert(0, size)
    while len(dims) > 1 and dims[-1].op is ops.CONST and dims[-1].arg == 1:
        dims.pop()
    return tuple(dims)


# -- the resources of a block ----------------------------------------------------------------------


def thread_ranges(node: UOp) -> list[UOp]:
    """Return the ranges in scope of a value that are threads of a block."""
    return [r for r in node.ranges if r.arg[1] in THREAD_AXES]


def unrolled_ranges(node: UOp) -> list[UOp]:
    """Return the ranges in scope of a value that are vectorized or unrolled in one thread."""
    return [r for r in node.ranges if r.arg[1] in UNROLLED_AXES]


def filling_threads(memory: UOp, order: Sequence[UOp]) -> list[UOp]:
    """Return the thread ranges that fill a local buffer together; none if each has its own."""
    scope_of = scopes(order)
    stores = [n for n in order if n.op is ops.STORE and base_of(n.src[0]) is memory]
    parallel = THREAD_AXES
    ranges = {r for n in stores for r in scope_of[n] if r.op is ops.RANGE and r.arg[1] in parallel}
    return [r for r in ranges if r not in enclosing_ranges(memory, order)]


def enclosing_ranges(memory: UOp, order: Sequence[UOp]) -> list[UOp]:
    """Return the ranges that enclose both the stores to a local buffer and its reads."""
    uses = [n for n in order if n.op is ops.AFTER and n.src[0] is memory]
    return list(dict.fromkeys(r for n in uses for r in n.ranges))


def local_bytes(kernel: UOp) -> int:
    """Return the bytes of local memory that a block of the kernel needs."""
    order = toposort(kernel)
    total = 0
    for node in order:
        count = 0
        if node.op is ops.DEFINE_LOCAL and filling_threads(node, order):
            kinds = THREAD_AXES | UNROLLED_AXES
            count = trip_count([r for r in enclosing_ranges(node, order) if r.arg[1] in kinds])
            count *= node.dtype.size
        elif node.op is ops.REDUCE and any(r.arg[1] is Axis.GROUP for r in node.src[1:]):
            count = trip_count(partial_result_ranges(node))
        total += aligned_bytes(node, count) if count else 0
    return total


def aligned_bytes(node: UOp, count: int) -> int:
    """Return the bytes of `count` elements of a node's type, rounded up to the alignment."""
    return -(-count * node.dtype.element.numpy.itemsize // ALIGNMENT) * ALIGNMENT


def partial_result_ranges(node: UOp) -> list[UOp]:
    """Return the ranges for which a grouped reduction keeps partial results in local memory."""
    value, *closed = node.src
    around = [r for r in thread_ranges(value) if r not in closed]
    groups = [r for r in closed if r.arg[1] is Axis.GROUP]
    lanes = [r for r in unrolled_ranges(value) if r not in closed]
    return [*around, *groups, *lanes]


def stores_of(end: UOp) -> Iterator[UOp]:
    """Yield the stores that an effect consists of."""
    if end.op is ops.STORE:
        yield end
    elif end.op in (ops.END, ops.GROUP, ops.SINK):
        for s in end.src if end.op is not ops.END else end.src[:1]:
            yield from stores_of(s)


def has_independent_iterations(kernel: UOp, loop: UOp) -> bool:
    """Whether each iteration of a loop writes elements that no other reads or writes."""
    order = toposort(kernel)
    scope_of = scopes(order)
    stores = [n for n in order if n.op is ops.STORE and loop in scope_of[n]]
    private = [n for n in stores if loop in enclosing_ranges(base_of(n.src[0]), order)]
    if any(loop not in n.src[0].ranges for n in stores if n not in private):
        return False
    targets = {n.src[0] for n in stores}
    buffers = {base_of(n) for n in targets if base_of(n).op is ops.PARAM}
    # the target of a STORE may be read as well, before it is written
    return not any(n.op is ops.INDEX and n not in targets and base_of(n) in buffers for n in order)


def block_limit_problem(kernel: UOp, target: Target) -> tuple[str, str] | None:
    """Return why a kernel exceeds the limits of a block, as (what, limit); None if it does not."""
    slots = assign_slots(kernel, THREAD_AXES).slots
    threads = math.prod(int(s.extent.vmax) for s in slots)
    fit = fit_dimensions([s.extent for s in slots], target.block)
    launched = threads if fit is None else math.prod(int(d.vmax) for d in fit.dims)
    if fit is None or launched > target.block_threads:
        limits = f"{target.block_threads}, {' × '.join(map(str, target.block))} at most"
        return f"a block would have {launched} threads", f"the target has {limits}"
    needed = local_bytes(kernel)
    if needed > target.memory.local:
        return (
            f"a block would need {needed} bytes of local memory",
            f"the target has {target.memory.local}",
        )
    return None


def memory_space(access: UOp) -> Space | None:
    """Return the memory space that an access goes to; None if it has no pointer."""
    base = base_of(access)
    return base.dtype.space if base.dtype.kind is Kind.POINTER else None
