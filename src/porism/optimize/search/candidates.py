"""Candidates: the neighbourhood of a list of actions, which a search measures.

A neighbour differs by one step: an action is appended, or inserted before the loops are divided
among the cores; one is left out; or one is changed, in its factor or its loop. Which actions a
kernel could be given next is proposed by a function for each action of the registry. The order is
fixed, so that a search is the same every time.

The factors that are proposed were chosen by hand: powers of two, and what divides the usual sizes
of images.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from porism.base.errors import ActionError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import THREAD_AXES, Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action, Actions
from porism.optimize.actions.gpu.shared_tile import Stage
from porism.optimize.actions.gpu.tensor_core_action import TC
from porism.optimize.actions.gpu.thread_block_actions import Group, GroupTop, Local, NoLocals
from porism.optimize.actions.loop_substitution import CLOSERS, ranges_of
from porism.optimize.actions.loops.loop_interchange import Move, Swap
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.loop_tiling import OverlapTail, Split
from porism.optimize.actions.loops.merge_loops import Merge
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.peeling import Peel
from porism.optimize.actions.loops.reduction_blocking import Block
from porism.optimize.actions.loops.scan_loop import Scan, scan_axis
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.actions.memory.epilogue import Epilogue
from porism.optimize.actions.memory.packed_panels import Pack
from porism.optimize.actions.memory.software_prefetch import Prefetch
from porism.optimize.actions.memory.streaming_stores import NonTemporal
from porism.optimize.analysis.buffer_loads import converted_load, loads_of

UNROLL_FACTORS: Final = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28, 32, 48, 64, 128)
"""Iterations that are proposed to be unrolled or vectorized."""

BLOCK_SIZES: Final = (2, 4, 7, 8, 14, 16, 28, 32, 64, 128, 256, 384, 512)
"""Iterations of the inner loop that a loop is proposed to be split by."""

TAIL_FACTORS: Final = (4, 6, 8, 12, 14, 16, 24, 32, 64)
"""Iterations of tiles of which the last is proposed to overlap the one before."""

PAD_MULTIPLES: Final = (4, 6, 8, 12, 14, 16, 24, 32, 64)
"""Multiples that extents are proposed to be padded to, or peeled at."""

PREFETCH_DISTANCES: Final = (1, 4, 16)
"""Iterations that prefetches are proposed to run ahead."""

MAX_PADDING: Final = 1.25
"""Extent of a padded loop, at most, in extents of the loop."""

UNROLLED: Final = (Axis.UPCAST, Axis.UNROLL)


@dataclass(frozen=True)
class KernelLoops:
    """The loops of a kernel after some actions, for which others are proposed."""

    kernel: UOp
    target: Target

    @cached_property
    def loops(self) -> list[UOp]:
        """The loops of constant extent that are neither vectorized nor unrolled."""
        return [
            r
            for r in ranges_of(self.kernel)
            if r.arg[1] in (Axis.LOOP, Axis.THREAD, Axis.REDUCE, Axis.GLOBAL)
            and r.src[0].op is ops.CONST
        ]

    @cached_property
    def nests(self) -> list[list[UOp]]:
        """The loops of each END and REDUCE, the outermost first."""
        closers = [n for n in toposort(self.kernel) if n.op in CLOSERS]
        return [[r for r in closer.src[1:] if r.op is ops.RANGE] for closer in closers]

    def output_loops(self) -> list[UOp]:
        """Return the loops that are not reduced."""
        return [r for r in self.loops if r.arg[1] is not Axis.REDUCE]

    def reduction_loops(self) -> list[UOp]:
        """Return the loops of reductions."""
        return [r for r in self.loops if r.arg[1] is Axis.REDUCE]


def _extent(loop: UOp) -> int:
    """Return the extent of a loop of which it is a constant."""
    return int(loop.src[0].arg)


def _dividing(loop: UOp, factors: Sequence[int]) -> list[int]:
    """Return the factors that divide the extent of a loop, and the extent if it is no larger."""
    extent = _extent(loop)
    dividing = [n for n in factors if n <= extent and extent % n == 0]
    if 1 < extent <= factors[-1] and extent not in dividing:
        dividing.append(extent)
    return dividing


# -- proposals, a function for each action ---------------------------------------------------------


def _upcasts(view: KernelLoops) -> Iterator[Action]:
    for r in view.output_loops():
        for factor in _dividing(r, UNROLL_FACTORS):
            yield Upcast(show(r), factor)


def _unrolls(view: KernelLoops) -> Iterator[Action]:
    for r in view.reduction_loops():
        for factor in _dividing(r, UNROLL_FACTORS):
            yield Unroll(show(r), factor)


def _splits(view: KernelLoops) -> Iterator[Action]:
    for r in view.loops:
        for size in _dividing(r, BLOCK_SIZES):
            if size < _extent(r):
                yield Split(show(r), size)


def _overlapping_tails(view: KernelLoops) -> Iterator[Action]:
    for r in view.output_loops():
        for factor in TAIL_FACTORS:
            if factor < _extent(r) and _extent(r) % factor:
                yield OverlapTail(show(r), factor)


def _blocks(view: KernelLoops) -> Iterator[Action]:
    for k_loop in view.reduction_loops():
        for size in _dividing(k_loop, BLOCK_SIZES):
            for around in view.output_loops():
                if size < _extent(k_loop):
                    yield Block(show(k_loop), size, show(around))


def _peels(view: KernelLoops) -> Iterator[Action]:
    for k_loop in view.reduction_loops():
        extent = _extent(k_loop)
        yield from (Peel(show(k_loop), n) for n in PAD_MULTIPLES if n < extent and extent % n)


def _epilogues(view: KernelLoops) -> Iterator[Action]:
    yield from (Epilogue(lanes) for lanes in (8, 16, 32))


def _scans(view: KernelLoops) -> Iterator[Action]:
    loop = scan_axis(view.kernel)
    if loop is not None and loop.src[0].op is ops.CONST:
        extent = _extent(loop)
        yield from (Scan(show(loop), n) for n in (1, 4, 8, 16) if n < extent and extent % n == 0)


def _threads(view: KernelLoops) -> Iterator[Action]:
    for nest in view.nests:
        if nest:
            yield Thread(show(nest[0]))


def _swaps(view: KernelLoops) -> Iterator[Action]:
    for nest in view.nests:
        for outer, inner in pairwise(nest):
            yield Swap(show(outer), show(inner))


def _moves(view: KernelLoops) -> Iterator[Action]:
    for nest in view.nests:
        for level, inner in enumerate(nest):
            for outer in nest[: max(level - 1, 0)]:  # past one neighbour it is a Swap
                yield Move(show(inner), show(outer))


def _merges(view: KernelLoops) -> Iterator[Action]:
    for nest in view.nests:
        for outer, inner in pairwise(nest):
            yield Merge(show(outer), show(inner))


def _nontemporal_stores(view: KernelLoops) -> Iterator[Action]:
    yield NonTemporal(0)


def _prefetches(view: KernelLoops) -> Iterator[Action]:
    """Propose prefetches of each load along the loops that it depends on."""
    for load in loads_of(view.kernel):
        number = _buffer_number(load)
        for r in view.loops:
            if r in load.ranges:
                yield from (Prefetch(number, show(r), ahead) for ahead in PREFETCH_DISTANCES)


def _buffer_number(load: UOp) -> int:
    """Return the number of the PARAM that a load reads."""
    base = load
    while base.op is not ops.PARAM:
        base = base.src[0]
    return int(base.arg)


def _pads(view: KernelLoops) -> Iterator[Action]:
    for r in view.loops:
        extent = _extent(r)
        for multiple in PAD_MULTIPLES:
            if extent % multiple and -(-extent // multiple) * multiple <= MAX_PADDING * extent:
                yield PadTo(show(r), multiple)


def _packs(view: KernelLoops) -> Iterator[Action]:
    """Propose panels of each load: for all of its reduction loops and lanes, or for some."""
    if any(n.op is ops.VARIABLE for n in toposort(view.kernel)):
        return
    counts: dict[int, int] = {}
    for load in loads_of(view.kernel):
        number = _buffer_number(load)
        which = counts.get(number, 0)
        counts[number] = which + 1
        ranges = sorted(converted_load(view.kernel, load).ranges, key=lambda r: r.arg[0])
        unrolled = [r for r in ranges if r.arg[1] in UNROLLED]
        nested = dict.fromkeys(r for nest in view.nests for r in nest if r in ranges)
        k_loops = [r for r in nested if r.arg[1] is Axis.REDUCE]
        lanes = sorted(unrolled, key=lambda r: int(r.vmax))
        for axes in ([*k_loops, *lanes], [*k_loops[-1:], *lanes], k_loops):
            if axes:
                yield Pack(number, tuple(show(r) for r in axes), which)


def _locals(view: KernelLoops) -> Iterator[Action]:
    for r in view.output_loops():
        for threads in _dividing(r, (2, 4, 8, 16, 32, 64, 128)):
            yield Local(show(r), threads)


def _groups(view: KernelLoops) -> Iterator[Action]:
    for r in view.reduction_loops():
        for threads in _dividing(r, (8, 16, 32, 64, 128, 256)):
            yield Group(show(r), threads)
            yield GroupTop(show(r), threads)


def _stages(view: KernelLoops) -> Iterator[Action]:
    """Propose tiles of each load, for what a block reads of it in one step of the reduction."""
    threads = [int(r.vmax) + 1 for r in ranges_of(view.kernel) if r.arg[1] in THREAD_AXES]
    counts: dict[int, int] = {}
    for load in loads_of(view.kernel):
        number = _buffer_number(load)
        which = counts.get(number, 0)
        counts[number] = which + 1
        parts = [r for r in load.ranges if r.arg[1] in (*THREAD_AXES, *UNROLLED)]
        steps = [r for r in load.ranges if r.arg[1] is Axis.REDUCE]
        for axes in ([*steps[-1:], *parts], [*parts, *steps[-1:]]):
            if parts and len(threads) > 0:
                for width in (4, 1):
                    names = tuple(show(r) for r in axes)
                    yield Stage(number, names, math.prod(threads), width, 0, which)


def _tensor_cores(view: KernelLoops) -> Iterator[Action]:
    for k_loop in view.reduction_loops():
        for m_loop in view.output_loops():
            for n_loop in view.output_loops():
                if m_loop is not n_loop:
                    yield TC(show(m_loop), show(n_loop), show(k_loop))


Proposals = Callable[[KernelLoops], Iterator[Action]]
"""Yields actions of one kind that may be legal, with arguments to be tried."""

CPU_PROPOSALS: Final[Mapping[type[Action], Proposals]] = {
    Upcast: _upcasts,
    Unroll: _unrolls,
    Split: _splits,
    OverlapTail: _overlapping_tails,
    Peel: _peels,
    Block: _blocks,
    Thread: _threads,
    Swap: _swaps,
    Move: _moves,
    Merge: _merges,
    PadTo: _pads,
    Pack: _packs,
    Epilogue: _epilogues,
    Scan: _scans,
    NonTemporal: _nontemporal_stores,
    Prefetch: _prefetches,
}
"""Proposals for a CPU, by action."""

GPU_PROPOSALS: Final[Mapping[type[Action], Proposals]] = {
    Upcast: _upcasts,
    Unroll: _unrolls,
    Split: _splits,
    Swap: _swaps,
    Move: _moves,
    Merge: _merges,
    PadTo: _pads,
    Local: _locals,
    Group: _groups,
    GroupTop: lambda view: iter(()),  # with Group
    TC: _tensor_cores,
    Stage: _stages,
    NoLocals: lambda view: iter((NoLocals(),)),
}
"""Proposals for a GPU, by action."""


def legal_actions(kernel: UOp, target: Target) -> Iterator[tuple[Action, UOp]]:
    """Yield the proposed actions that are legal, each with the kernel that it makes."""
    view = KernelLoops(kernel, target)
    for proposals in (GPU_PROPOSALS if target.block else CPU_PROPOSALS).values():
        for action in dict.fromkeys(proposals(view)):
            try:
                yield action, action.apply(kernel, target)
            except ActionError:
                continue


# -- neighbours ------------------------------------------------------------------------------------


def neighbours(kernel: UOp, actions: Actions, target: Target) -> Iterator[tuple[Actions, UOp]]:
    """Yield the lists of actions that are one step away, each with the kernel that it makes."""
    kernels = [kernel]
    for action in actions:
        kernels.append(action.apply(kernels[-1], target))
    for position in reversed(range(len(actions))):
        for rest in _changed(actions, position, KernelLoops(kernels[position], target)):
            yield from _completed(kernels[position], actions[:position], rest, target)
    for position in reversed(range(len(actions))):
        rest = actions[position + 1 :]
        yield from _completed(kernels[position], actions[:position], rest, target)
    for action, after in legal_actions(kernels[-1], target):
        yield (*actions, action), after
    if actions and isinstance(actions[-1], Thread):  # what comes after it cannot move that loop
        for action, after in legal_actions(kernels[-2], target):
            if isinstance(action, Swap | Move | Split | PadTo):
                before = (*actions[:-1], action)
                yield from _completed(after, before, actions[-1:], target)
                yield from _completed(after, before, _parallelize_outermost(after), target)


def _completed(
    kernel: UOp, applied: Actions, rest: Actions, target: Target
) -> Iterator[tuple[Actions, UOp]]:
    """Yield a list of actions, with the kernel that it makes, if the rest of it is legal."""
    try:
        for action in rest:
            kernel = action.apply(kernel, target)
    except ActionError:
        return
    yield (*applied, *rest), kernel


def _parallelize_outermost(kernel: UOp) -> Actions:
    """Return the action that divides the outermost loop, whichever it is, among the cores."""
    ends = [end for end in kernel.src if end.op is ops.END]
    return (Thread(show(ends[0].src[1])),) if ends and len(ends[0].src) > 1 else ()


FACTOR_FIELDS: Final = ("amount", "multiple")
"""Fields of actions that are factors of a loop."""


def _changed(actions: Actions, position: int, view: KernelLoops) -> Iterator[Actions]:
    """Yield the actions from a position on, with the one there changed in one field."""
    action, rest = actions[position], actions[position + 1 :]
    for name, value in vars(action).items():
        for other in _other_values(action, name, value, view):
            changed = dataclasses.replace(action, **{name: other})  # type: ignore[type-var]
            yield (changed, *rest)
            if name in FACTOR_FIELDS:  # a loop is padded to what it is split into
                followed = [_with_same_factor(later, action, name, other) for later in rest]
                if any(a is not b for a, b in zip(followed, rest, strict=True)):
                    yield (changed, *followed)


def _with_same_factor(later: Action, changed: Action, name: str, factor: int) -> Action:
    """Return a later action with the new factor, if it had the same one of the same loop."""
    old = getattr(changed, name)
    if getattr(later, "axis", None) != getattr(changed, "axis", None):
        return later
    for field in FACTOR_FIELDS:
        if getattr(later, field, None) == old:
            return dataclasses.replace(later, **{field: factor})  # type: ignore[type-var]
    return later


def _other_values(action: Action, name: str, value: Any, view: KernelLoops) -> Iterator[Any]:
    """Yield the values that a field of an action is changed to: factors, loops, or the opposite."""
    if isinstance(value, bool):
        yield not value
    elif name in FACTOR_FIELDS:
        factors = {
            Split: BLOCK_SIZES, Block: BLOCK_SIZES, PadTo: PAD_MULTIPLES, OverlapTail: TAIL_FACTORS
        }.get(type(action), UNROLL_FACTORS)  # fmt: skip
        yield from (n for n in sorted({*factors, 2 * value, value // 2}) if n > 1 and n != value)
    elif isinstance(value, str):
        names = [show(r) for r in view.loops]
        yield from (other for other in names if other != value)
