"""Packing: constants laid out once in the order in which a kernel reads them.

    for j_0: for k: for j_1: … b[k * n + j_0 * 8 + j_1] …        … p[(j_0 * m + k) * 8 + j_1] …

The kernel has its loops already. A copy that it would make of a constant in each call is made
beforehand, for all iterations of the loops around it. Rows that are read side by side are stored
side by side, if they would be in the same places of a cache. So a tile reads a piece of memory from
its begin to its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import DType, Kind, Space, index
from porism.base.target import LINE
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import substitute, toposort, users
from porism.optimize.actions.loop_transforms import CLOSERS, with_kind
from porism.optimize.actions.packed_panels import placed
from porism.optimize.analysis.loop_strides import iterations
from porism.optimize.strategy.tile_costs import MAX_PREPACK_GROWTH, same_set_fraction
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked, masked

LEAST: Final = 1 << 12
"""Bytes of a constant that is worth it."""

CROWDED: Final = 1.5
"""Rows in one place of a cache, so many that they are better next to each other."""

SIDE_BY_SIDE: Final = (Axis.UNROLL, Axis.UPCAST)

VARYING: Final = frozenset({ops.AFTER, ops.DEFINE_LOCAL, ops.REDUCE, ops.VARIABLE, ops.BIND})
"""What may be different in each call, or is not there beforehand."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A constant as a kernel reads it."""

    number: int
    """That of its PARAM in the kernel."""
    source: int
    """The PARAM that it is a copy of."""
    kernel: UOp
    """What makes it: PARAM 0 of PARAM 1, in plain loops."""
    size: int
    dtype: DType
    axes: tuple[str, ...]
    """The loops that it is laid out for, the fastest last."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A kernel that reads copies of constants."""

    kernel: UOp
    copies: tuple[Copy, ...]


def packed(kernel: UOp, constants: Collection[int]) -> Packed | None:
    """An arranged kernel that reads copies of constants; None if there are none to be made."""
    number = max((int(n.arg) for n in toposort(kernel) if n.op is ops.PARAM), default=0) + 1
    copies: list[Copy] = []
    for pack in (_copied_inside, _apart):
        changes = list(pack(kernel, constants, number + len(copies)))
        kernel = substitute(kernel, {old: new for each, _ in changes for old, new in each.items()})
        copies += [copy for _, copy in changes]
    return Packed(kernel, tuple(copies)) if copies else None


Change = tuple[dict[UOp, UOp], Copy]
"""What takes the place of what in a kernel, and the copy that it reads then."""


# -- copies that are made inside -------------------------------------------------------------------


def _copied_inside(kernel: UOp, constants: Collection[int], number: int) -> Iterator[Change]:
    """Local memory that is filled with constants, which becomes memory that is there already."""
    above = users(kernel)
    for filled in toposort(kernel):
        if filled.op is not ops.AFTER or filled.src[0].op is not ops.DEFINE_LOCAL:
            continue
        local, end = filled.src[0], filled.src[-1]
        if len(filled.src) != 2 or end.op is not ops.END or end.src[0].op is not ops.STORE:
            continue
        place, value = end.src[0].src
        around = end.ranges
        param = _constant(value, constants)
        if param is None or place.src[0] is not local or set(above[local]) != {filled, place}:
            continue
        if any(user.op is not ops.INDEX or user.src[0] is not filled for user in above[filled]):
            continue
        if any(r.arg[1] in SIDE_BY_SIDE or r.src[0].op is not ops.CONST for r in around):
            continue
        size = _up_to_a_line(local.dtype.size, value.dtype)
        total = size * iterations(around)
        if not _is_worth_it(param, total):
            continue
        new = _param(value.dtype, total, number)
        first = placed(around, _steps(around, size))
        copy = Copy(
            number,
            int(param.arg),
            _copying(place.src[1], first, value, param, total, (*around, *end.src[1:])),
            total,
            value.dtype,
            tuple(map(show, (*around, *end.src[1:]))),
        )
        yield (
            {n: new.index(_shifted(n.src[1], first), dtype=n.dtype) for n in above[filled]},
            copy,
        )
        number += 1


def _constant(value: UOp, constants: Collection[int]) -> UOp | None:
    """The PARAM that a value reads, if that is all that it reads, and it is a constant."""
    order = toposort(value)
    params = [n for n in order if n.op is ops.PARAM]
    if len(params) != 1 or int(params[0].arg) not in constants:
        return None
    return None if any(n.op in VARYING for n in order) else params[0]


# -- rows that are far apart -----------------------------------------------------------------------


def _apart(kernel: UOp, constants: Collection[int], number: int) -> Iterator[Change]:
    """Rows that reductions read side by side, and that are far apart in memory."""
    lanes = _lanes(kernel)
    for load in _loads(kernel, constants):
        param = load.src[0]
        axes = _walked(kernel, load)
        if len(axes) != len(load.ranges) or any(r.src[0].op is not ops.CONST for r in axes):
            continue
        total = iterations(axes)
        if not _is_worth_it(param, total) or not _is_crowded(load, axes, lanes):
            continue
        at = placed(axes, _steps(axes))
        new = _param(load.dtype, total, number)
        copy = Copy(
            number,
            int(param.arg),
            _copying(at, UOp.const(index, 0), load, param, total, axes),
            total,
            load.dtype,
            tuple(map(show, axes)),
        )
        yield {load: new.index(_masked_as(load.src[1], at), dtype=load.dtype)}, copy
        number += 1


def _is_crowded(load: UOp, axes: Sequence[UOp], lanes: Collection[UOp]) -> bool:
    """Whether a load reads rows side by side that get in each other's way in a cache.

    It reads one element of each at a time. More lanes than rows, so that the lanes stay what they
    are when rows become neighbours.
    """
    at = load.src[1].src[1] if is_masked(load.src[1]) else load.src[1]
    side = {r: stride(at, r) for r in axes if r.arg[1] in SIDE_BY_SIDE}
    if len(side) != 1 or 1 in side.values() or not side.keys().isdisjoint(lanes):
        return False
    ((row, step),) = side.items()
    rows, widest = int(row.vmax) + 1, max((int(r.vmax) + 1 for r in lanes), default=0)
    return (
        rows * same_set_fraction(step, load.dtype.numpy.itemsize) >= CROWDED and widest >= 2 * rows
    )


def _loads(kernel: UOp, constants: Collection[int]) -> list[UOp]:
    """What reductions read of constants, once for each of their terms."""
    found: dict[UOp, None] = {}
    for node in toposort(kernel):
        if node.op is ops.REDUCE:
            for load in toposort(node.src[0], within=lambda n: n.op is not ops.END):
                if (
                    load.op is ops.INDEX
                    and len(load.src) == 2
                    and load.dtype.kind is not Kind.POINTER
                    and load.src[0].op is ops.PARAM
                    and _constant(load, constants) is not None
                    and any(r in node.src[1:] for r in load.ranges)
                ):
                    found[load] = None
    return list(found)


def _lanes(kernel: UOp) -> set[UOp]:
    """Loops whose iterations go side by side, and are stored next to each other."""
    order = toposort(kernel)
    stores = [node.src[0].src[1] for node in order if node.op is ops.STORE]
    plain = [at.src[1] if is_masked(at) else at for at in stores]
    side = [n for n in order if n.op is ops.RANGE and n.arg[1] in SIDE_BY_SIDE]
    return {r for r in side if any(stride(at, r) == 1 for at in plain)}


def _walked(kernel: UOp, load: UOp) -> list[UOp]:
    """The loops that a load depends on as they are walked, the outermost first.

    Those whose iterations go side by side are walked fastest.
    """
    found: list[UOp] = []
    above = {load}
    for node in toposort(kernel):  # from what is inside to what is around it
        if node not in above and any(s in above for s in node.src):
            above.add(node)
            if node.op in CLOSERS:
                found = [r for r in node.src[1:] if r in load.ranges and r not in found] + found
    return sorted(found, key=lambda r: r.arg[1] in SIDE_BY_SIDE)


# -- copies ----------------------------------------------------------------------------------------


def _is_worth_it(param: UOp, total: int) -> bool:
    size = param.dtype.size
    item = param.dtype.element.numpy.itemsize
    return (
        size * item >= LEAST and total <= MAX_PREPACK_GROWTH * size
    )  # parts overlap, rows have room


def _copying(at: UOp, first: UOp, value: UOp, param: UOp, total: int, loops: Iterable[UOp]) -> UOp:
    """A kernel that stores a value for all iterations of some loops."""
    place = _param(value.dtype, total, 0).index(_shifted(at, first), dtype=value.dtype)
    plain = {r: with_kind(r, Axis.LOOP) for r in loops}
    store = place.store(substitute(value, {param: ops.PARAM(dtype=param.dtype, arg=1)}))
    return ops.SINK(substitute(store, plain).end(*plain.values()))


def _param(dtype: DType, size: int, number: int) -> UOp:
    return ops.PARAM(dtype=dtype.pointer(Space.GLOBAL, size), arg=number)


def _up_to_a_line(size: int, dtype: DType) -> int:
    line = max(LINE // dtype.numpy.itemsize, 1)
    return -(-size // line) * line


def _steps(axes: Sequence[UOp], last: int = 1) -> list[int]:
    """How far apart neighbours are, by axis."""
    steps: list[int] = []
    for axis in reversed(axes):
        steps.insert(0, last)
        last *= int(axis.vmax) + 1
    return steps


def _shifted(at: UOp, first: UOp) -> UOp:
    return masked(at.src[0], at.src[1] + first) if is_masked(at) else at + first


def _masked_as(at: UOp, other: UOp) -> UOp:
    """An index that is masked where another is."""
    return masked(at.src[0], other) if is_masked(at) else other
