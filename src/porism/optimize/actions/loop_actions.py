"""Actions: what can be done to the loops of a kernel, one class each.

An action knows on which kernels and targets it is legal, says why where it is not, and gives a
kernel that computes the same. Loops have the names that listings show: `r0`, and `r0_0` and `r0_1`
after `r0` was split.

    Upcast("r1", 4)    4 iterations of an output loop side by side, as lanes and copies
    Unroll("r2", 4)    the same of a reduction
    Split("r1", 64)    a loop as one around another of 64 iterations
    Cover("r1", 12)    the same where 12 does not divide the size: the last part begins earlier
    Thread("r0")       the outermost loop shared among the cores
    Swap("r0", "r1")   two neighbouring loops in the other order
    Move("r1", "r0")   an output loop directly around another
    PadTo("r1", 8)     a loop made longer, to a multiple; what is beyond its end has no effect
    NoLocals()         no threads of a block from here on

Copies of what is read are in `staging`, reductions in blocks in `blocking`, threads of a block in
`block_actions`, tensor cores in `tensor_cores`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields

from porism.base.errors import ActionError
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.loop_transforms import (
    CLOSERS,
    covered,
    in_parts,
    moved_before,
    named_ranges,
    padded,
    ranges_of,
    replaced_together,
    retyped,
    split,
)
from porism.rules.addresses.grid_dims import problem

MOST_SIDE_BY_SIDE = 2048
"""Copies and lanes of one kernel, at most: more would only be slow to compile."""

NO_LOCALS = "no locals"
"""The argument of a kernel that may not use threads of a block."""


class Action(ABC):
    """A change of a kernel's loops."""

    @abstractmethod
    def apply(self, kernel: UOp, target: Target) -> UOp:
        """The kernel with the change made; an `ActionError` where that is not legal."""

    def is_legal(self, kernel: UOp, target: Target) -> bool:
        """Whether the change can be made."""
        try:
            self.apply(kernel, target)
        except ActionError:
            return False
        return True

    def __str__(self) -> str:
        """As one would write it: what is as usual is left out."""
        said = []
        for field in fields(self):  # type: ignore[arg-type]  # every action is a dataclass
            value = getattr(self, field.name)
            if field.default is MISSING:
                said.append(repr(value))
            elif value != field.default:
                said.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(said)})"

    def refuse(self, what: str, why: str, fix: str) -> ActionError:
        return ActionError(f"{self}: {what}", why=why, fix=fix)

    def loop(self, kernel: UOp, name: str) -> UOp:
        """The loop of a kernel with this name."""
        found = named_ranges(kernel)
        if name not in found:
            raise self.refuse(
                f"there is no loop {name}",
                f"the loops of the kernel are {', '.join(found) or 'none'}",
                "use one of these names",
            )
        return found[name]

    def counted(self, counter: UOp) -> int:
        """The size of a loop, which must be known."""
        size = counter.src[0]
        if size.op is not ops.CONST:
            raise self.refuse(
                f"the size of {show(counter)} is {show(size)}",
                "a loop is split into equal parts only where its size is a number",
                "leave this loop as it is",
            )
        return int(size.arg)

    def divided(self, counter: UOp, amount: int) -> int:
        """The size of a loop, which must be a multiple of the amount."""
        size = self.counted(counter)
        if amount < 2:
            raise self.refuse(f"the amount is {amount}", "it is at least 2", "use a larger amount")
        if size % amount:
            raise self.refuse(
                f"{show(counter)} has {size} iterations",
                f"that is no multiple of {amount}",
                f"PadTo({show(counter)!r}, {amount}) first, or use an amount that divides {size}",
            )
        return size

    def need_kind(self, counter: UOp, kinds: Sequence[Axis]) -> None:
        if counter.arg[1] not in kinds:
            raise self.refuse(
                f"{show(counter)} is a loop of the kind {counter.arg[1].value}",
                f"it must be of the kind {' or '.join(k.value for k in kinds)}",
                "choose another loop",
            )

    def need_no_order(self, kernel: UOp, unless_inside: UOp | None = None) -> None:
        """Refuse a kernel that one thread must run: others would not wait for what it stores.

        A loop inside of one whose iterations have memory of their own does not matter to that.
        """
        ordered = [r for r in ranges_of(kernel) if r.arg[1] is Axis.ORDERED]
        if unless_inside is not None:
            ordered = [r for r in ordered if not _is_inside(kernel, r, unless_inside)]
        if ordered:
            raise self.refuse(
                f"the iterations of {show(ordered[0])} depend on each other, and on what is stored "
                "before",
                "threads do not wait for each other there",
                "leave the kernel to one thread",
            )


def _is_inside(kernel: UOp, ordered: UOp, counter: UOp) -> bool:
    """Whether a loop is run for each iteration of another, and reads no more than local memory of
    what it stores."""
    if any(closer not in kernel.src for closer in _closers(kernel, counter)):
        return False
    stored: set[UOp] = set()
    for closer in _closers(kernel, ordered):
        effect = closer.src[0]
        stores = effect.src if effect.op is ops.GROUP else (effect,)
        if any(s.op is not ops.STORE for s in stores):
            return False
        stored.update(s.src[0] for s in stores if base_of(s.src[0]).op is not ops.DEFINE_LOCAL)
        if stored and counter not in closer.src[1:]:
            return False
    buffers = {base_of(place) for place in stored}
    return not any(
        n.op is ops.INDEX and n not in stored and base_of(n) in buffers for n in toposort(kernel)
    )


def _closers(kernel: UOp, counter: UOp) -> list[UOp]:
    return [n for n in toposort(kernel) if n.op in CLOSERS and counter in n.src[1:]]


def unrolled(kernel: UOp, counter: UOp) -> int:
    """How many copies and lanes there are, at most, of what depends on a loop."""
    return _unrolled(_scopes(kernel), counter)


def _unrolled(scopes: Iterable[tuple[UOp, ...]], counter: UOp) -> int:
    most = 1
    for ranges in scopes:
        if counter in ranges:
            total = 1
            for r in ranges:
                if r.arg[1] in (Axis.UPCAST, Axis.UNROLL):
                    total *= int(r.vmax) + 1
            most = max(most, total)
    return most


def _scopes(kernel: UOp) -> set[tuple[UOp, ...]]:
    return {n.ranges for n in toposort(kernel)}


@dataclass(frozen=True)
class Upcast(Action):
    """Iterations of an output loop side by side."""

    axis: str
    amount: int
    top: bool = False
    """Whether the iterations are far apart, and not neighbours."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        return _spread(self, kernel, target, self.counter(kernel), Axis.UPCAST)

    def counter(self, kernel: UOp) -> UOp:
        """The loop that it is about."""
        found = self.loop(kernel, self.axis)
        self.need_kind(found, (Axis.LOOP, Axis.THREAD, Axis.GLOBAL, Axis.LOCAL))
        return found


@dataclass(frozen=True)
class Unroll(Action):
    """Iterations of a reduction side by side."""

    axis: str
    amount: int
    top: bool = False

    def apply(self, kernel: UOp, target: Target) -> UOp:
        counter = self.loop(kernel, self.axis)
        self.need_kind(counter, (Axis.REDUCE, Axis.GROUP))
        return _spread(self, kernel, target, counter, Axis.UNROLL)


def upcast_together(actions: Sequence[Upcast], kernel: UOp, target: Target) -> UOp:
    """Loops of which none is inside another: as one action after the other, in one walk."""
    if len(actions) < 2 or target.block:
        return apply_all(kernel, actions, target)
    counters = [action.counter(kernel) for action in actions]
    scopes = _scopes(kernel)
    for action, counter in zip(actions, counters, strict=True):
        _check_amount(action, scopes, counter)
    parts = {
        counter: in_parts(counter, action.amount, Axis.UPCAST, top=action.top)[2]
        for action, counter in zip(actions, counters, strict=True)
    }
    return replaced_together(kernel, parts)


def _check_amount(action: Upcast | Unroll, scopes: Iterable[tuple[UOp, ...]], counter: UOp) -> None:
    action.divided(counter, action.amount)
    together = _unrolled(scopes, counter) * action.amount
    if together > MOST_SIDE_BY_SIDE:
        raise action.refuse(
            f"{together} iterations would be side by side",
            f"more than {MOST_SIDE_BY_SIDE} are slow to compile and do not fit in registers",
            "use a smaller amount",
        )


def _spread(action: Upcast | Unroll, kernel: UOp, target: Target, counter: UOp, kind: Axis) -> UOp:
    _check_amount(action, _scopes(kernel), counter)
    changed = split(kernel, counter, action.amount, kind, top=action.top)[0]
    wrong = problem(changed, target) if target.block else None
    if wrong is not None:
        raise action.refuse(*wrong, "use a smaller amount")
    return changed


@dataclass(frozen=True)
class Split(Action):
    """A loop as one around another, which is run in the same order."""

    axis: str
    amount: int
    """Iterations of the inner loop."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        counter = self.loop(kernel, self.axis)
        self.need_kind(counter, (Axis.LOOP, Axis.THREAD, Axis.GLOBAL, Axis.REDUCE))
        if self.divided(counter, self.amount) == self.amount:
            raise self.refuse(
                f"{self.axis} has {self.amount} iterations",
                "one loop of these is what it is already",
                "use a smaller amount",
            )
        kind = Axis.REDUCE if counter.arg[1] is Axis.REDUCE else Axis.LOOP
        return split(kernel, counter, self.amount, kind)[0]


@dataclass(frozen=True)
class Cover(Action):
    """An output loop as one around another, where the size is no multiple.

    The last part begins earlier, so that it ends where the loop does: nothing needs a mask but the
    stores, which leave out what is there already.
    """

    axis: str
    amount: int

    def apply(self, kernel: UOp, target: Target) -> UOp:
        counter = self.loop(kernel, self.axis)
        self.need_kind(counter, (Axis.LOOP, Axis.THREAD, Axis.GLOBAL))
        size = self.counted(counter)
        if not 2 <= self.amount < size or size % self.amount == 0:
            raise self.refuse(
                f"{self.axis} has {size} iterations",
                f"parts of {self.amount} do not overlap there",
                "Split it into equal parts, or use an amount that is smaller than the size",
            )
        if any(n.op is ops.STORE and counter not in n.src[0].ranges and counter in n.src[1].ranges
               for n in toposort(kernel)):  # fmt: skip
            raise self.refuse(
                f"something is stored in the same place by all iterations of {self.axis}",
                "it is not known which of them is there already",
                "choose another loop",
            )
        return covered(kernel, counter, self.amount)


@dataclass(frozen=True)
class Thread(Action):
    """The outermost loop shared among the cores of a CPU."""

    axis: str

    def apply(self, kernel: UOp, target: Target) -> UOp:
        counter = self.loop(kernel, self.axis)
        if target.block:
            raise self.refuse("the target is a GPU", "it has blocks, and no cores", "use Local")
        self.need_kind(counter, (Axis.LOOP,))
        self.need_no_order(kernel, unless_inside=counter)
        if any(r.arg[1] is Axis.THREAD for r in ranges_of(kernel)):
            raise self.refuse("a loop is shared already", "one is", "share the outermost alone")
        outermost = [end for end in kernel.src if end.op is ops.END and end.src[1] is counter]
        if len(outermost) != len(kernel.src):
            raise self.refuse(
                f"{self.axis} is not the outermost loop of the kernel",
                "each core runs a part of all that the kernel does",
                "Swap it outwards first",
            )
        return retyped(kernel, counter, Axis.THREAD)


@dataclass(frozen=True)
class Swap(Action):
    """Two neighbouring loops in the other order."""

    axis: str
    other: str

    def apply(self, kernel: UOp, target: Target) -> UOp:
        first, second = self.loop(kernel, self.axis), self.loop(kernel, self.other)
        closers = _closers(kernel, first)
        together = closers == _closers(kernel, second) and first is not second
        if not together or not all(_are_neighbours(c, first, second) for c in closers):
            raise self.refuse(
                f"{self.axis} and {self.other} are not next to each other",
                "loops are swapped where nothing stands between them",
                "swap neighbours, one step at a time",
            )
        if any(set(n.ranges) & {first, second} for n in (first.src[0], second.src[0])):
            raise self.refuse(
                "the size of one depends on the other", "it must be known first", "leave them"
            )
        if any(_carries(c) for c in closers) and Axis.ORDERED in (first.arg[1], second.arg[1]):
            raise self.refuse(
                "each iteration of one needs what the one before it has kept",
                "it is kept for one iteration of the other",
                "leave them",
            )
        if any(c.op is ops.REDUCE and c.dtype.is_float for c in closers):
            raise self.refuse(
                "they are the loops of a reduction of floats",
                "the order of a sum of floats matters",
                "swap loops of the output",
            )
        new: dict[UOp, UOp] = {}
        for node in toposort(kernel):
            src = [new[s] for s in node.src]
            if node in closers:
                places = [node.src.index(r, 1) for r in (first, second)]
                src[places[0]], src[places[1]] = src[places[1]], src[places[0]]
            new[node] = node.replace(tuple(src))
        return new[kernel]


def _carries(closer: UOp) -> bool:
    """Whether something is kept in local memory, beside what is stored elsewhere."""
    effects = closer.src[0].src if closer.src[0].op is ops.GROUP else ()
    return any(s.op is ops.STORE and base_of(s.src[0]).op is ops.DEFINE_LOCAL for s in effects)


def _are_neighbours(closer: UOp, first: UOp, second: UOp) -> bool:
    return abs(closer.src.index(first, 1) - closer.src.index(second, 1)) == 1


@dataclass(frozen=True)
class Move(Action):
    """A loop of the output directly around another one, which is outside of it so far."""

    axis: str
    before: str

    def apply(self, kernel: UOp, target: Target) -> UOp:
        counter, other = self.loop(kernel, self.axis), self.loop(kernel, self.before)
        for r in (counter, other):
            self.need_kind(r, (Axis.LOOP, Axis.UPCAST))
        closers = _closers(kernel, counter)
        if counter is other or closers != _closers(kernel, other):
            raise self.refuse(
                f"{self.axis} and {self.before} are not loops of the same stores",
                "a loop is moved past others around the same",
                "name two loops of one nest",
            )
        if any(c.op is not ops.END for c in closers):
            raise self.refuse(
                "they are loops of a reduction", "its order is kept", "move loops of the output"
            )
        if any(c.src.index(counter, 1) < c.src.index(other, 1) for c in closers):
            raise self.refuse(
                f"{self.axis} is around {self.before} already", "that is what it does", "leave it"
            )
        if any({counter, other} & set(r.src[0].ranges) for c in closers for r in c.src[1:]):
            raise self.refuse(
                "the size of a loop depends on one of them", "it must be known first", "leave them"
            )
        return moved_before(kernel, counter, other)


@dataclass(frozen=True)
class PadTo(Action):
    """A loop made longer, to a multiple of a number.

    Accesses beyond the old end are masked and reductions take their identity there, so the result
    is the same by construction.
    """

    axis: str
    multiple: int

    def apply(self, kernel: UOp, target: Target) -> UOp:
        counter = self.loop(kernel, self.axis)
        self.need_kind(counter, (Axis.LOOP, Axis.THREAD, Axis.GLOBAL, Axis.REDUCE))
        size = self.counted(counter)
        if self.multiple < 2 or size % self.multiple == 0:
            raise self.refuse(
                f"{self.axis} has {size} iterations",
                f"that is a multiple of {self.multiple} already",
                "nothing needs to be done",
            )
        longer = -(-size // self.multiple) * self.multiple
        if longer > 4 * size:
            raise self.refuse(
                f"{self.axis} would have {longer} iterations instead of {size}",
                "most of them would do nothing",
                "pad to a smaller multiple",
            )
        return padded(kernel, counter, self.multiple)[0]


@dataclass(frozen=True)
class NoLocals(Action):
    """No threads of a block in this kernel."""

    def apply(self, kernel: UOp, target: Target) -> UOp:
        if kernel.arg == NO_LOCALS:
            raise self.refuse("it is said already", "once is enough", "leave it out")
        if any(r.arg[1] in (Axis.LOCAL, Axis.GROUP, Axis.WARP) for r in ranges_of(kernel)):
            raise self.refuse(
                "the kernel has threads of a block",
                "they would have to be taken back",
                "say it before Local and Group",
            )
        return ops.SINK(*kernel.src, arg=NO_LOCALS)


def apply_all(kernel: UOp, actions: Sequence[Action], target: Target) -> UOp:
    """A kernel after some actions, one after the other."""
    for action in actions:
        if not isinstance(action, Action):
            raise ActionError(
                f"{action!r} is no action",
                why="actions are Upcast, Unroll, Split, Cover, Thread, Swap, Move, PadTo, "
                "Merge, Stage, Block, Scan, Stream, Prefetch, NoLocals, Local, Group, GroupTop "
                "and TC",
                fix="make one, such as porism.Upcast('r0', 4)",
            )
        kernel = action.apply(kernel, target)
    return kernel
