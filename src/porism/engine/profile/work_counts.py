"""Work: what a kernel does in one run, counted from its loops, and a short name for it."""

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

FOLDS: Final[Mapping[Op, str]] = {
    ops.ADD: "sum",
    ops.MUL: "product",
    ops.MAX: "max",
    ops.MIN: "min",
    ops.AND: "all",
    ops.OR: "any",
}
"""What people call a reduction."""


@dataclass(frozen=True, slots=True)
class Work:
    """What there is to do, whichever way it is done."""

    flops: int
    """Operations on floats, each as one: exp2 counts as much as an addition."""
    bytes: int
    """Of the elements that are read and written, each once however often it is used."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Work in a time."""

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
    """The work of a kernel in a run with some values of its variables.

    >>> from porism.base.dtypes import f32
    >>> i, k = UOp.range(2, 0), UOp.range(3, 1)
    >>> x, y = (UOp(ops.PARAM, f32.pointer(size=6), (), n) for n in (1, 0))
    >>> total = (x.index(i * 3 + k) * 2).reduce(ops.ADD, k)
    >>> work_of(ops.SINK(y.index(i).store(total).end(i)), {})
    Work(flops=12, bytes=32)
    """
    order = toposort(kernel)
    trips = _Trips(variables)
    flops = sum(_operations(n) * trips(n) for n in order if n.dtype.is_float)
    return Work(flops, _bytes(order, trips))


def most_steps(kernel: UOp) -> float:
    """How often the nodes of a kernel are computed, all together, for any values of variables."""
    known: dict[tuple[UOp, ...], float] = {(): 1.0}
    total = 0.0
    for node in toposort(kernel):
        ranges = node.ranges
        if node.op is ops.REDUCE:
            ranges += tuple(r for r in node.src[1:] if r.op is ops.RANGE)
        if ranges not in known:
            known[ranges] = math.prod(max(float(r.vmax), 0.0) + 1 for r in ranges)
        total += known[ranges] * EXPENSIVE.get(node.op, 1)
    return total


EXPENSIVE: Final[Mapping[Op, int]] = dict.fromkeys(
    (ops.EXP2, ops.LOG2, ops.SIN, ops.POW, ops.IDIV, ops.MOD), 20
)
"""Instructions of an op that machines do not have, about."""


class _Trips:
    """How often nodes are computed."""

    def __init__(self, variables: Mapping[str, int]) -> None:
        self.variables = variables
        self.sizes: dict[UOp, int] = {}

    def __call__(self, node: UOp) -> int:
        counters = set(node.ranges)
        if node.op is ops.REDUCE:
            counters.update(r for r in node.src[1:] if r.op is ops.RANGE)
        total = 1
        for counter in counters:
            total *= self._size(counter.src[0])
        return total

    def _size(self, size: UOp) -> int:
        if size not in self.sizes:
            # A loop whose length depends on another counts as long as it can be.
            known = not size.ranges
            self.sizes[size] = evaluate_size(size, self.variables) if known else int(size.vmax)
        return self.sizes[size]


def _operations(node: UOp) -> int:
    if node.op is ops.MULACC:
        return 2
    counts = node.op is ops.REDUCE or (node.op.group in ARITHMETIC and node.op is not ops.WHERE)
    return int(counts)


def _bytes(order: Sequence[UOp], trips: _Trips) -> int:
    written = {n.src[0] for n in order if n.op is ops.STORE}
    read = {
        s for n in order for k, s in enumerate(n.src) if not (n.op is ops.STORE and k == 0)
    }  # fmt: skip
    total = 0
    for accesses in (written, read):
        counts: dict[UOp, int] = {}
        for access in accesses:
            place = _place(access)
            if place is not None:
                counts[place] = counts.get(place, 0) + trips(access)
        for place, count in counts.items():
            size = int(place.dtype.size)  # negative where it is not known
            total += (min(count, size) if size >= 0 else count) * place.dtype.element.numpy.itemsize
    return total


def _place(access: UOp) -> UOp | None:
    """The parameter that an INDEX is into."""
    if access.op is not ops.INDEX:
        return None
    place = access.src[0]
    while place.op is ops.AFTER:
        place = place.src[0]
    return place if place.op is ops.PARAM else None


# -- names -----------------------------------------------------------------------------------------


def name_of(kernel: UOp) -> str:
    """A name that says what a kernel does, how large it is, and which of such kernels it is.

    >>> from porism.base.dtypes import f32
    >>> i = UOp.range(64, 0)
    >>> x, y = (UOp(ops.PARAM, f32.pointer(size=64), (), n) for n in (1, 0))
    >>> name_of(ops.SINK(y.index(i).store(x.index(i) + 1).end(i)))
    'map 64 #...'
    """
    order = toposort(kernel)
    folds = [n for n in order if n.op is ops.REDUCE]
    stores = [n for n in order if n.op is ops.STORE and _place(n.src[0]) is not None]
    loops = max((_sizes(s.ranges) for s in stores), key=len, default=[])
    words = ["+".join(dict.fromkeys(FOLDS[n.arg] for n in folds)) or _elementwise(stores)]
    words += ["x".join(loops)] if loops else []
    nests = dict.fromkeys("x".join(_sizes(n.src[1:])) for n in folds)
    words += [f"over {', '.join(nests)}"] if nests else []
    return f"{' '.join(words)} #{kernel.key.hex()[:4]}"


def _elementwise(stores: Iterable[UOp]) -> str:
    """Whether a kernel without reductions computes what it writes, or moves what it reads."""
    return "copy" if all(_is_moved(store.src[1]) for store in stores) else "map"


def _is_moved(value: UOp) -> bool:
    if value.op in (ops.CAST, ops.BITCAST, ops.LOAD):
        return _is_moved(value.src[0])
    if value.op is ops.WHERE:
        return all(_is_moved(branch) for branch in value.src[1:])
    return value.op in (ops.INDEX, ops.CONST)


def _sizes(counters: Iterable[UOp]) -> list[str]:
    found = sorted((r for r in counters if r.op is ops.RANGE), key=lambda r: r.arg[0])
    return [show(r.src[0]) for r in found]
