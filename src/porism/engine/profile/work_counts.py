"""Work counts: float operations and bytes of a kernel, counted from its loops, and its name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from porism.engine.run.bound_sizes import evaluate_size
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Group, Op
from porism.ir.text.expression import show
from porism.ir.traversal import toposort

ARITHMETIC: Final = (Group.UNARY, Group.BINARY, Group.TERNARY)

REDUCTION_NAMES: Final[Mapping[Op, str]] = {
    ops.ADD: "sum",
    ops.MUL: "product",
    ops.MAX: "max",
    ops.MIN: "min",
    ops.AND: "all",
    ops.OR: "any",
}
"""The name of the reduction by each op."""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a kernel in one run, independent of its loop schedule."""

    flops: int
    """Operations on floats; exp2 counts as much as an addition."""
    bytes: int
    """Bytes of the elements that are read and written, each counted once."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The work of a kernel, and the seconds it took."""

    seconds: float
    work: Work

    @property
    def gflops(self) -> float:
        """Operations on floats, 10⁹ a second."""
        return self.work.flops / self.seconds * 1e-9 if self.seconds else 0.0

    @property
    def gigabytes(self) -> float:
        """Memory that is read and written, 10⁹ bytes a second."""
        return self.work.bytes / self.seconds * 1e-9 if self.seconds else 0.0


def work_of(kernel: UOp, variables: Mapping[str, int]) -> Work:
    """Return the work of a kernel in a run with some values of its variables.

    >>> from porism.base.dtypes import f32
    >>> i, k = UOp.range(2, 0), UOp.range(3, 1)
    >>> x, y = (UOp(ops.PARAM, f32.pointer(size=6), (), n) for n in (1, 0))
    >>> total = (x.index(i * 3 + k) * 2).reduce(ops.ADD, k)
    >>> work_of(ops.SINK(y.index(i).store(total).end(i)), {})
    Work(flops=12, bytes=32)
    """
    order = toposort(kernel)
    trip_counts = _TripCounts(variables)
    flops = sum(_operations(n) * trip_counts(n) for n in order if n.dtype.is_float)
    return Work(flops, _bytes(order, trip_counts))


Extents = tuple[UOp, ...]
"""The extents of the loops around a node."""


def nodes_by_loops(kernel: UOp) -> dict[Extents, int]:
    """Return how many instructions of a kernel are inside of the same loops, by their extents."""
    counts: dict[Extents, int] = {}
    for node in toposort(kernel):
        loops = node.ranges
        if node.op is ops.REDUCE:
            loops += tuple(r for r in node.src[1:] if r.op is ops.RANGE)
        extents = tuple([loop.src[0] for loop in loops])
        counts[extents] = counts.get(extents, 0) + INSTRUCTIONS.get(node.op, 1)
    return counts


def node_evaluations(counts: Mapping[Extents, int], variables: Mapping[str, int]) -> float:
    """Return how many instructions run, at most, for some values of the variables."""
    extent = _TripCounts(variables).extent
    return sum(
        count * math.prod(float(max(extent(e), 0)) for e in extents)
        for extents, count in counts.items()
    )


INSTRUCTIONS: Final[Mapping[Op, int]] = dict.fromkeys(
    (ops.EXP2, ops.LOG2, ops.SIN, ops.POW, ops.IDIV, ops.MOD), 20
)
"""Approximate instructions of ops that machines compute in software; others take one."""


class _TripCounts:
    """The trip counts of nodes: the product of the extents of their loops."""

    def __init__(self, variables: Mapping[str, int]) -> None:
        self.variables = variables
        self.known: dict[UOp, int] = {}

    def __call__(self, node: UOp) -> int:
        loops = set(node.ranges)
        if node.op is ops.REDUCE:
            loops.update(r for r in node.src[1:] if r.op is ops.RANGE)
        total = 1
        for loop in loops:
            total *= self.extent(loop.src[0])
        return total

    def extent(self, extent: UOp) -> int:
        """Return the extent of a loop."""
        if extent not in self.known:
            # An extent that depends on another loop counts with its upper bound.
            is_known = not extent.ranges
            self.known[extent] = (
                evaluate_size(extent, self.variables) if is_known else int(extent.vmax)
            )
        return self.known[extent]


def _operations(node: UOp) -> int:
    if node.op is ops.MULACC:
        return 2
    counts = node.op is ops.REDUCE or (node.op.group in ARITHMETIC and node.op is not ops.WHERE)
    return int(counts)


def _bytes(order: Sequence[UOp], trip_counts: _TripCounts) -> int:
    written = {n.src[0] for n in order if n.op is ops.STORE}
    read = {
        s for n in order for k, s in enumerate(n.src) if not (n.op is ops.STORE and k == 0)
    }  # fmt: skip
    total = 0
    for accesses in (written, read):
        counts: dict[UOp, int] = {}
        for access in accesses:
            parameter = _parameter(access)
            if parameter is not None:
                counts[parameter] = counts.get(parameter, 0) + trip_counts(access)
        for parameter, count in counts.items():
            size = int(parameter.dtype.size)  # negative where it is not known
            total += (
                min(count, size) if size >= 0 else count
            ) * parameter.dtype.element.numpy.itemsize
    return total


def _parameter(access: UOp) -> UOp | None:
    """Return the PARAM that an INDEX accesses; None for other nodes and local buffers."""
    if access.op is not ops.INDEX:
        return None
    parameter = access.src[0]
    while parameter.op is ops.AFTER:
        parameter = parameter.src[0]
    return parameter if parameter.op is ops.PARAM else None


# -- names -----------------------------------------------------------------------------------------


def kernel_name(kernel: UOp) -> str:
    """Return a name for a kernel: its reductions, its extents and a digest.

    >>> from porism.base.dtypes import f32
    >>> i = UOp.range(64, 0)
    >>> x, y = (UOp(ops.PARAM, f32.pointer(size=64), (), n) for n in (1, 0))
    >>> kernel_name(ops.SINK(y.index(i).store(x.index(i) + 1).end(i)))
    'map 64 #...'
    """
    order = toposort(kernel)
    reductions = [n for n in order if n.op is ops.REDUCE]
    stores = [n for n in order if n.op is ops.STORE and _parameter(n.src[0]) is not None]
    loops = max((_extents(s.ranges) for s in stores), key=len, default=[])
    words = [
        "+".join(dict.fromkeys(REDUCTION_NAMES[n.arg] for n in reductions)) or _elementwise(stores)
    ]
    words += ["x".join(loops)] if loops else []
    reduction_extents = dict.fromkeys("x".join(_extents(n.src[1:])) for n in reductions)
    words += [f"over {', '.join(reduction_extents)}"] if reduction_extents else []
    return f"{' '.join(words)} #{kernel.key.hex()[:4]}"


def _elementwise(stores: Iterable[UOp]) -> str:
    """Return "copy" if a kernel without reductions stores only what it loads, else "map"."""
    return "copy" if all(_is_copied_value(store.src[1]) for store in stores) else "map"


def _is_copied_value(value: UOp) -> bool:
    if value.op in (ops.CAST, ops.BITCAST, ops.LOAD):
        return _is_copied_value(value.src[0])
    if value.op is ops.WHERE:
        return all(_is_copied_value(branch) for branch in value.src[1:])
    return value.op in (ops.INDEX, ops.CONST)


def _extents(loops: Iterable[UOp]) -> list[str]:
    ordered = sorted((r for r in loops if r.op is ops.RANGE), key=lambda r: r.arg[0])
    return [show(r.src[0]) for r in ordered]
