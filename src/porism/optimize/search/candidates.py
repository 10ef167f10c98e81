"""Candidates: the lists of actions that are one step away from a list.

A step adds an action at the end, or before the loops are shared among the cores; leaves one out; or
changes one: another amount, another loop. What a kernel could be given next is listed by `possible`
for each action of the table. All is in a fixed order, so that a search is the same every time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from porism.base.errors import ActionError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action, Actions
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

SIDE_BY_SIDE: Final = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28, 32, 48, 64, 128)
"""Iterations that are tried side by side."""

BLOCKS: Final = (2, 4, 7, 8, 14, 16, 28, 32, 64, 128, 256, 384, 512)
"""Sizes of blocks that a loop is split into."""

COVERS: Final = (4, 6, 8, 12, 14, 16, 24, 32, 64)
"""Parts that a loop is covered by where they do not fit in whole."""

MULTIPLES: Final = (4, 6, 8, 12, 14, 16, 24, 32, 64)
"""What loops are padded to multiples of."""

AHEAD: Final = (1, 4, 16)
"""Iterations that are fetched ahead."""

SPREAD: Final = (Axis.UPCAST, Axis.UNROLL)


@dataclass(frozen=True)
class View:
    """A kernel after some actions, as proposals see it."""

    kernel: UOp
    target: Target

    @cached_property
    def loops(self) -> list[UOp]:
        """Those that nothing was done to, and those shared among cores, of a known size."""
        return [
            r
            for r in ranges_of(self.kernel)
            if r.arg[1] in (Axis.LOOP, Axis.THREAD, Axis.REDUCE, Axis.GLOBAL)
            and r.src[0].op is ops.CONST
        ]

    @cached_property
    def nests(self) -> list[list[UOp]]:
        """The loops that are around the same stores, from outside to inside."""
        ends = [n for n in toposort(self.kernel) if n.op in CLOSERS]
        return [[r for r in end.src[1:] if r.op is ops.RANGE] for end in ends]

    def outputs(self) -> list[UOp]:
        return [r for r in self.loops if r.arg[1] is not Axis.REDUCE]

    def reduced(self) -> list[UOp]:
        return [r for r in self.loops if r.arg[1] is Axis.REDUCE]


def _divisors(counter: UOp, amounts: Sequence[int]) -> list[int]:
    size = int(counter.src[0].arg)
    found = [n for n in amounts if n <= size and size % n == 0]
    if 1 < size <= amounts[-1] and size not in found:
        found.append(size)
    return found


def _upcasts(view: View) -> Iterator[Action]:
    for r in view.outputs():
        for amount in _divisors(r, SIDE_BY_SIDE):
            yield Upcast(show(r), amount)


def _unrolls(view: View) -> Iterator[Action]:
    for r in view.reduced():
        for amount in _divisors(r, SIDE_BY_SIDE):
            yield Unroll(show(r), amount)


def _splits(view: View) -> Iterator[Action]:
    for r in view.loops:
        for amount in _divisors(r, BLOCKS):
            if amount < int(r.src[0].arg):
                yield Split(show(r), amount)


def _covers(view: View) -> Iterator[Action]:
    for r in view.outputs():
        size = int(r.src[0].arg)
        for amount in COVERS:
            if amount < size and size % amount:
                yield OverlapTail(show(r), amount)


def _blocks(view: View) -> Iterator[Action]:
    for terms in view.reduced():
        for amount in _divisors(terms, BLOCKS):
            for around in view.outputs():
                if amount < int(terms.src[0].arg):
                    yield Block(show(terms), amount, show(around))


def _peels(view: View) -> Iterator[Action]:
    for terms in view.reduced():
        size = int(terms.src[0].arg)
        yield from (Peel(show(terms), n) for n in MULTIPLES if n < size and size % n)


def _finishes(view: View) -> Iterator[Action]:
    yield from (Epilogue(lanes) for lanes in (8, 16, 32))


def _scans(view: View) -> Iterator[Action]:
    counter = scan_axis(view.kernel)
    if counter is not None and counter.src[0].op is ops.CONST:
        size = int(counter.src[0].arg)
        yield from (Scan(show(counter), n) for n in (1, 4, 8, 16) if n < size and size % n == 0)


def _threads(view: View) -> Iterator[Action]:
    for nest in view.nests:
        if nest:
            yield Thread(show(nest[0]))


def _swaps(view: View) -> Iterator[Action]:
    for nest in view.nests:
        for first, second in pairwise(nest):
            yield Swap(show(first), show(second))


def _moves(view: View) -> Iterator[Action]:
    for nest in view.nests:
        for place, inner in enumerate(nest):
            for outer in nest[: max(place - 1, 0)]:  # past one neighbour it is a Swap
                yield Move(show(inner), show(outer))


def _merges(view: View) -> Iterator[Action]:
    for nest in view.nests:
        for outer, inner in pairwise(nest):
            yield Merge(show(outer), show(inner))


def _streams(view: View) -> Iterator[Action]:
    yield NonTemporal(0)


def _prefetches(view: View) -> Iterator[Action]:
    """Some lines ahead along the loops that a buffer is read along."""
    for load in loads_of(view.kernel):
        place = load
        while place.op is not ops.PARAM:
            place = place.src[0]
        for r in view.loops:
            if r in load.ranges:
                yield from (Prefetch(int(place.arg), show(r), ahead) for ahead in AHEAD)


def _pads(view: View) -> Iterator[Action]:
    for r in view.loops:
        size = int(r.src[0].arg)
        for multiple in MULTIPLES:
            if size % multiple and -(-size // multiple) * multiple <= 1.25 * size:
                yield PadTo(show(r), multiple)


def _stages(view: View) -> Iterator[Action]:
    """Copies of what is read, for the loops inside of each outer loop that it depends on."""
    if any(n.op is ops.VARIABLE for n in toposort(view.kernel)):
        return
    counts: dict[int, int] = {}
    for load in loads_of(view.kernel):
        place = load
        while place.op is not ops.PARAM:
            place = place.src[0]
        number = int(place.arg)
        which = counts.get(number, 0)
        counts[number] = which + 1
        ranges = sorted(converted_load(view.kernel, load).ranges, key=lambda r: r.arg[0])
        spread = [r for r in ranges if r.arg[1] in SPREAD]
        reduced = [r for nest in view.nests for r in nest if r in ranges]
        reduced = [r for r in dict.fromkeys(reduced) if r.arg[1] is Axis.REDUCE]
        lanes = sorted(spread, key=lambda r: int(r.vmax))
        for inner in ([*reduced, *lanes], [*reduced[-1:], *lanes], reduced):
            if inner:
                yield Pack(number, tuple(show(r) for r in inner), which)


def _locals(view: View) -> Iterator[Action]:
    for r in view.outputs():
        for amount in _divisors(r, (2, 4, 8, 16, 32, 64, 128)):
            yield Local(show(r), amount)


def _groups(view: View) -> Iterator[Action]:
    for r in view.reduced():
        for amount in _divisors(r, (8, 16, 32, 64, 128, 256)):
            yield Group(show(r), amount)
            yield GroupTop(show(r), amount)


def _tensor_cores(view: View) -> Iterator[Action]:
    for terms in view.reduced():
        for rows in view.outputs():
            for columns in view.outputs():
                if rows is not columns:
                    yield TC(show(rows), show(columns), show(terms))


Proposals = Callable[[View], Iterator[Action]]

ON_CPU: Final[Mapping[type[Action], Proposals]] = {
    Upcast: _upcasts,
    Unroll: _unrolls,
    Split: _splits,
    OverlapTail: _covers,
    Peel: _peels,
    Block: _blocks,
    Thread: _threads,
    Swap: _swaps,
    Move: _moves,
    Merge: _merges,
    PadTo: _pads,
    Pack: _stages,
    Epilogue: _finishes,
    Scan: _scans,
    NonTemporal: _streams,
    Prefetch: _prefetches,
}
"""What is proposed for a CPU, by action."""

ON_GPU: Final[Mapping[type[Action], Proposals]] = {
    Upcast: _upcasts,
    Unroll: _unrolls,
    Split: _splits,
    Swap: _swaps,
    PadTo: _pads,
    Local: _locals,
    Group: _groups,
    GroupTop: lambda view: iter(()),  # with Group
    TC: _tensor_cores,
    NoLocals: lambda view: iter((NoLocals(),)),
}


def possible(kernel: UOp, target: Target) -> Iterator[tuple[Action, UOp]]:
    """The actions that can be done next, each with what becomes of the kernel."""
    view = View(kernel, target)
    for proposals in (ON_GPU if target.block else ON_CPU).values():
        for action in dict.fromkeys(proposals(view)):
            try:
                yield action, action.apply(kernel, target)
            except ActionError:
                continue


def neighbours(kernel: UOp, actions: Actions, target: Target) -> Iterator[tuple[Actions, UOp]]:
    """The lists of actions that are one step away, each with what becomes of the kernel."""
    before = [kernel]
    for action in actions:
        before.append(action.apply(before[-1], target))
    for place in reversed(range(len(actions))):
        for changed in _changed(actions, place, View(before[place], target)):
            yield from _finished(before[place], actions[:place], changed, target)
    for place in reversed(range(len(actions))):
        yield from _finished(before[place], actions[:place], actions[place + 1 :], target)
    for action, after in possible(before[-1], target):
        yield (*actions, action), after
    if actions and isinstance(actions[-1], Thread):  # what comes after it cannot move that loop
        for action, after in possible(before[-2], target):
            if isinstance(action, Swap | Move | Split | PadTo):
                yield from _finished(after, (*actions[:-1], action), actions[-1:], target)
                yield from _finished(after, (*actions[:-1], action), _outermost(after), target)


def _finished(
    kernel: UOp, done: Actions, left: Actions, target: Target
) -> Iterator[tuple[Actions, UOp]]:
    """A list of actions that is to be done to its end, if it can be."""
    try:
        for action in left:
            kernel = action.apply(kernel, target)
    except ActionError:
        return
    yield (*done, *left), kernel


def _outermost(kernel: UOp) -> Actions:
    """The outermost loop shared among the cores, whichever that is."""
    ends = [end for end in kernel.src if end.op is ops.END]
    return (Thread(show(ends[0].src[1])),) if ends and len(ends[0].src) > 1 else ()


AMOUNTS: Final = ("amount", "multiple")


def _changed(actions: Actions, place: int, view: View) -> Iterator[Actions]:
    """What is left of a list from some place on, with the action there changed."""
    action, rest = actions[place], actions[place + 1 :]
    for name, value in vars(action).items():
        for other in _other_values(action, name, value, view):
            changed = dataclasses.replace(action, **{name: other})  # type: ignore[type-var]
            yield (changed, *rest)
            if name in AMOUNTS:  # a loop is padded to what it is split into
                together = [_followed(later, action, name, other) for later in rest]
                if any(a is not b for a, b in zip(together, rest, strict=True)):
                    yield (changed, *together)


def _followed(later: Action, changed: Action, name: str, other: int) -> Action:
    """An action after one that was changed, with the same amount of the same loop changed too."""
    old = getattr(changed, name)
    if getattr(later, "axis", None) != getattr(changed, "axis", None):
        return later
    for field in AMOUNTS:
        if getattr(later, field, None) == old:
            return dataclasses.replace(later, **{field: other})  # type: ignore[type-var]
    return later


def _other_values(action: Action, name: str, value: Any, view: View) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif name in AMOUNTS:
        choices = {Split: BLOCKS, Block: BLOCKS, PadTo: MULTIPLES, OverlapTail: COVERS}.get(
            type(action), SIDE_BY_SIDE
        )
        yield from (n for n in sorted({*choices, 2 * value, value // 2}) if n > 1 and n != value)
    elif isinstance(value, str):
        names = [show(r) for r in view.loops]
        yield from (other for other in names if other != value)
