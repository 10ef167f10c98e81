"""Pre-packed weights: constants that are packed once in the order in which a kernel reads them.

    for j_0: for k: for j_1:                 for j_0: for k: for j_1:
        … b[k * n + j_0 * 8 + j_1] …             … p[(j_0 * m + k) * 8 + j_1] …

The kernel has scheduled loops already. Two kinds of its accesses read a packed copy instead:

- a panel of a constant that the kernel would pack in each call is packed beforehand, for all
  iterations of the loops around it;
- rows of a constant that a register tile reads together are interleaved, if their addresses would
  conflict in the sets of a cache.

So a register tile reads one sequential piece of memory. A copy is described by a kernel of plain
loops that makes it, which is run once, before all calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import DType, Kind, Space, index
from porism.base.target import CACHE_LINE, GENERIC_CPU, Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import substitute, toposort, users
from porism.optimize.actions.loop_substitution import CLOSERS, with_kind
from porism.optimize.actions.memory.packed_panels import strided_offset
from porism.optimize.analysis.loop_strides import trip_count
from porism.optimize.model.column_cost import MAX_PREPACK_GROWTH
from porism.optimize.model.core_rates import core_rates
from porism.rules.addresses.strides import stride
from porism.rules.addresses.validity import is_masked, masked

MIN_BYTES: Final = 1 << 12
"""Bytes of a constant that is packed, at least: a page (chosen by hand)."""

MIN_CONFLICTS: Final = 1.5
"""Rows in one cache set, on average, from which on they are interleaved (measured)."""

UNROLLED: Final = (Axis.UNROLL, Axis.UPCAST)

VARYING: Final = frozenset({ops.AFTER, ops.DEFINE_LOCAL, ops.REDUCE, ops.VARIABLE, ops.BIND})
"""Ops whose value may differ from call to call, or is not known before the kernel runs."""


@dataclass(frozen=True, slots=True)
class PackedConstant:
    """A constant in the order in which a kernel reads it."""

    number: int
    """The number of its PARAM in the kernel."""
    source: int
    """The number of the PARAM that it is packed from."""
    kernel: UOp
    """The kernel that packs it: from PARAM 1 to PARAM 0, in plain loops."""
    size: int
    """Elements."""
    dtype: DType
    axes: tuple[str, ...]
    """The names of the loops that it is packed for, the innermost last."""


@dataclass(frozen=True, slots=True)
class PrepackedKernel:
    """A kernel that reads packed constants."""

    kernel: UOp
    copies: tuple[PackedConstant, ...]


def prepack_constants(
    kernel: UOp, constants: Collection[int], target: Target = GENERIC_CPU
) -> PrepackedKernel | None:
    """Return a scheduled kernel that reads packed constants; None if none is worth packing."""
    number = max((int(n.arg) for n in toposort(kernel) if n.op is ops.PARAM), default=0) + 1
    copies: list[PackedConstant] = []
    for prepack in (_prepack_panels, _interleave_rows):
        changes = list(prepack(kernel, constants, number + len(copies), target))
        replacements = {old: new for nodes, _ in changes for old, new in nodes.items()}
        kernel = substitute(kernel, replacements)
        copies += [copy for _, copy in changes]
    return PrepackedKernel(kernel, tuple(copies)) if copies else None


Change = tuple[dict[UOp, UOp], PackedConstant]
"""Nodes of a kernel with their replacements, and the packed constant that these read."""


# -- panels ----------------------------------------------------------------------------------------


def _is_only_read(filled: UOp, users_of_it: Iterable[UOp]) -> bool:
    """Return whether a filled buffer is used by nothing but loads of its elements."""
    return all(user.op is ops.INDEX and user.src[0] is filled for user in users_of_it)


def _has_fixed_trip_count(loops: Iterable[UOp]) -> bool:
    """Return whether loops are not unrolled and have constant extents."""
    return all(r.arg[1] not in UNROLLED and r.src[0].op is ops.CONST for r in loops)


def _prepack_panels(
    kernel: UOp, constants: Collection[int], number: int, _: Target
) -> Iterator[Change]:
    """Yield changes of local buffers that are filled from a constant into a packed constant."""
    above = users(kernel)
    for filled in toposort(kernel):
        if filled.op is not ops.AFTER or filled.src[0].op is not ops.DEFINE_LOCAL:
            continue
        local, end = filled.src[0], filled.src[-1]
        if len(filled.src) != 2 or end.op is not ops.END or end.src[0].op is not ops.STORE:
            continue
        access, value = end.src[0].src
        around = end.ranges
        param = _only_constant(value, constants)
        if param is None or access.src[0] is not local or set(above[local]) != {filled, access}:
            continue
        if not _is_only_read(filled, above[filled]) or not _has_fixed_trip_count(around):
            continue
        size = _in_whole_lines(local.dtype.size, value.dtype)
        total = size * trip_count(around)
        if not _is_worth_packing(param, total):
            continue
        packed = _param(value.dtype, total, number)
        panel = strided_offset(around, _strides(around, size))
        copy = PackedConstant(
            number,
            int(param.arg),
            _packing_kernel(access.src[1], panel, value, param, total, (*around, *end.src[1:])),
            total,
            value.dtype,
            tuple(map(show, (*around, *end.src[1:]))),
        )
        yield (
            {n: packed.index(_add_offset(n.src[1], panel), dtype=n.dtype) for n in above[filled]},
            copy,
        )
        number += 1


def _only_constant(value: UOp, constants: Collection[int]) -> UOp | None:
    """Return the PARAM that a value reads, if it is a constant, and all that the value reads."""
    order = toposort(value)
    params = [n for n in order if n.op is ops.PARAM]
    if len(params) != 1 or int(params[0].arg) not in constants:
        return None
    return None if any(n.op in VARYING for n in order) else params[0]


# -- rows with cache-set conflicts -----------------------------------------------------------------


def _interleave_rows(
    kernel: UOp, constants: Collection[int], number: int, target: Target
) -> Iterator[Change]:
    """Yield changes of loads of conflicting rows into loads of a packed constant."""
    vector_loops = _vector_loops(kernel)
    for load in _constant_loads(kernel, constants):
        param = load.src[0]
        axes = _loops_in_order(kernel, load)
        if len(axes) != len(load.ranges) or any(r.src[0].op is not ops.CONST for r in axes):
            continue
        total = trip_count(axes)
        if not _is_worth_packing(param, total):
            continue
        if not _has_conflicting_rows(load, axes, vector_loops, target):
            continue
        address = strided_offset(axes, _strides(axes))
        packed = _param(load.dtype, total, number)
        copy = PackedConstant(
            number,
            int(param.arg),
            _packing_kernel(address, UOp.const(index, 0), load, param, total, axes),
            total,
            load.dtype,
            tuple(map(show, axes)),
        )
        yield {load: packed.index(_with_mask_of(load.src[1], address), dtype=load.dtype)}, copy
        number += 1


def _has_conflicting_rows(
    load: UOp, axes: Sequence[UOp], vector_loops: Collection[UOp], target: Target
) -> bool:
    """Return whether a load reads one element of each of some rows that share cache sets.

    The tile needs twice as many lanes as rows: fewer, and interleaved rows would be vectorized in
    their place.
    """
    address = load.src[1].src[1] if is_masked(load.src[1]) else load.src[1]
    strides = {r: stride(address, r) for r in axes if r.arg[1] in UNROLLED}
    if len(strides) != 1 or 1 in strides.values() or not strides.keys().isdisjoint(vector_loops):
        return False
    ((row_loop, row_stride),) = strides.items()
    rows = int(row_loop.vmax) + 1
    lanes = max((int(r.vmax) + 1 for r in vector_loops), default=0)
    itemsize = load.dtype.numpy.itemsize
    conflicts = rows * core_rates(target).same_set_fraction(row_stride, itemsize)
    return conflicts >= MIN_CONFLICTS and lanes >= 2 * rows


def _constant_loads(kernel: UOp, constants: Collection[int]) -> list[UOp]:
    """Return the loads of constants that reductions repeat for each of their iterations."""
    loads: dict[UOp, None] = {}
    for node in toposort(kernel):
        if node.op is ops.REDUCE:
            for load in toposort(node.src[0], within=lambda n: n.op is not ops.END):
                if (
                    load.op is ops.INDEX
                    and len(load.src) == 2
                    and load.dtype.kind is not Kind.POINTER
                    and load.src[0].op is ops.PARAM
                    and _only_constant(load, constants) is not None
                    and any(r in node.src[1:] for r in load.ranges)
                ):
                    loads[load] = None
    return list(loads)


def _vector_loops(kernel: UOp) -> set[UOp]:
    """Return the unrolled loops along which a store is contiguous."""
    order = toposort(kernel)
    addresses = [node.src[0].src[1] for node in order if node.op is ops.STORE]
    unmasked = [at.src[1] if is_masked(at) else at for at in addresses]
    unrolled = [n for n in order if n.op is ops.RANGE and n.arg[1] in UNROLLED]
    return {r for r in unrolled if any(stride(at, r) == 1 for at in unmasked)}


def _loops_in_order(kernel: UOp, load: UOp) -> list[UOp]:
    """Return the loops that a load depends on, the outermost first and the unrolled ones last."""
    loops: list[UOp] = []
    above = {load}
    for node in toposort(kernel):  # from the innermost loops outwards
        if node not in above and any(s in above for s in node.src):
            above.add(node)
            if node.op in CLOSERS:
                loops = [r for r in node.src[1:] if r in load.ranges and r not in loops] + loops
    return sorted(loops, key=lambda r: r.arg[1] in UNROLLED)


# -- packed constants ------------------------------------------------------------------------------


def _is_worth_packing(param: UOp, total: int) -> bool:
    """Return whether a constant is large enough, and packed, with its padding, not much larger."""
    size = param.dtype.size
    item = param.dtype.element.numpy.itemsize
    return size * item >= MIN_BYTES and total <= MAX_PREPACK_GROWTH * size


def _packing_kernel(
    address: UOp, offset: UOp, value: UOp, param: UOp, total: int, loops: Iterable[UOp]
) -> UOp:
    """Return a kernel that stores a value for all iterations of some loops, in plain loops."""
    access = _param(value.dtype, total, 0).index(_add_offset(address, offset), dtype=value.dtype)
    plain = {r: with_kind(r, Axis.LOOP) for r in loops}
    store = access.store(substitute(value, {param: ops.PARAM(dtype=param.dtype, arg=1)}))
    return ops.SINK(substitute(store, plain).end(*plain.values()))


def _param(dtype: DType, size: int, number: int) -> UOp:
    return ops.PARAM(dtype=dtype.pointer(Space.GLOBAL, size), arg=number)


def _in_whole_lines(size: int, dtype: DType) -> int:
    """Return a number of elements, rounded up to whole cache lines."""
    line = max(CACHE_LINE // dtype.numpy.itemsize, 1)
    return -(-size // line) * line


def _strides(axes: Sequence[UOp], innermost: int = 1) -> list[int]:
    """Return the stride of each axis, in elements, given that of the innermost."""
    strides: list[int] = []
    for axis in reversed(axes):
        strides.insert(0, innermost)
        innermost *= int(axis.vmax) + 1
    return strides


def _add_offset(address: UOp, offset: UOp) -> UOp:
    """Return an index plus an offset, under the same mask."""
    if is_masked(address):
        return masked(address.src[0], address.src[1] + offset)
    return address + offset


def _with_mask_of(address: UOp, other: UOp) -> UOp:
    """Return an index under the mask of another one, if that has one."""
    return masked(address.src[0], other) if is_masked(address) else other
