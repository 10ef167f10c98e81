"""Order: a kernel as steps to go through, one after the other.

`steps_of_graph` is a linearizer for reference, as plain as it can be and independent of the one in
the compiler: a node stands in the innermost loop that it depends on, a loop is run for the node
that closes it (END, REDUCE, BUFFERIZE or ENDIF), loops nest as this node names them, and what
several loops need is computed in each.
`steps_of_list` takes the order as it is given and checks that loops and sources fit.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from porism.base.errors import EvaluationError
from porism.evaluate.faults import Fault, check_loops_closed, describe, failure
from porism.ir import ops
from porism.ir.facts.effect_scopes import Scope, closed_nest, closed_ranges, postorder, scopes
from porism.ir.node import UOp


class Action(enum.Enum):
    """What to do at a step."""

    RUN = "run"  # execute the node
    OPEN = "open"  # begin the loop of a RANGE, or the body of an IF
    CLOSE = "close"  # go back to the OPEN, or on
    RESET = "reset"  # forget what a REDUCE or BUFFERIZE has gathered
    FOLD = "fold"  # take this iteration into it
    FINISH = "finish"  # its value


@dataclass(slots=True)
class Step:
    """One thing to do; `partner` is the number of the CLOSE of an OPEN and the other way round."""

    action: Action
    node: UOp
    partner: int = -1


@dataclass(frozen=True, slots=True)
class _Loop:
    """Nodes that close the same ranges, and those ranges that are still to be opened."""

    closers: tuple[UOp, ...]
    ranges: tuple[UOp, ...]
    first: bool


_Item = Step | _Loop


def steps_of_graph(root: UOp, order: Sequence[UOp], launched: Collection[UOp]) -> list[Step]:
    """The steps of a kernel graph; `launched` ranges are threads and not loops."""
    return _Linearizer(order, launched).steps(root)


class _Linearizer:
    def __init__(self, order: Sequence[UOp], launched: Collection[UOp]) -> None:
        self.launched = frozenset(launched)
        found = scopes(order)
        self.scope = {n: s - self.launched if s & self.launched else s for n, s in found.items()}
        self.closed = {n: closed_ranges(n) - self.launched for n in order}
        self.stored: set[UOp] = set()

    def steps(self, root: UOp) -> list[Step]:
        check_loops_closed(root, self.scope[root])
        steps: list[Step] = []
        opened: list[int] = []
        stack: list[Iterator[_Item]] = [iter(self.region([root], frozenset(), None))]
        inside: list[Scope] = [frozenset()]
        while stack:
            item = next(stack[-1], None)
            if item is None:
                stack.pop()
                inside.pop()
            elif isinstance(item, _Loop):
                stack.append(iter(self.loop(item, inside[-1])))
                inside.append(inside[-1])
            else:
                _append(steps, opened, item)
                if item.action is Action.OPEN:
                    inside[-1] = inside[-1] | {item.node}
        return steps

    def loop(self, loop: _Loop, outside: Scope) -> Iterator[_Item]:
        """The steps of a loop, with the loops inside of it as items of their own."""
        gathering = [c for c in loop.closers if c.op is not ops.END and c.op is not ops.ENDIF]
        opener, *rest = loop.ranges
        inside = outside | {opener}
        if loop.first:
            yield from (Step(Action.RESET, node) for node in gathering)
        yield Step(Action.OPEN, opener)
        if rest:
            yield from self.region(self.frontier(loop.closers, inside), inside, outside)
            yield _Loop(loop.closers, tuple(rest), False)
        else:
            bodies = [s for c in loop.closers for s in c.src if s not in self.closed[c]]
            yield from self.region(bodies, inside, outside)
            yield from (Step(Action.FOLD, node) for node in gathering)
        yield Step(Action.CLOSE, opener)
        if loop.first:
            for node in loop.closers:
                yield Step(Action.FINISH if node in gathering else Action.RUN, node)

    def region(self, targets: Sequence[UOp], inside: Scope, outside: Scope | None) -> list[_Item]:
        """What is to be computed in one loop for the targets, but not in a loop within."""
        needs = postorder(
            targets,
            lambda node: self.needs(node, inside),
            lambda node: outside is not None and self.scope[node] <= outside,
        )
        for node in needs:
            self.once(node)
        # closers at one depth do not depend on each other: those of equal ranges share a loop
        depth: dict[UOp, int] = {}
        levels: list[tuple[list[UOp], dict[tuple[UOp, ...], list[UOp]]]] = []
        for node, below in needs.items():
            level = max((depth[n] + bool(self.closed[n]) for n in below if n in depth), default=0)
            depth[node] = level
            if level == len(levels):
                levels.append(([], {}))
            plain, loops = levels[level]
            if self.closed[node]:
                ranges = tuple(r for r in closed_nest(node) if r not in self.launched)
                loops.setdefault(ranges, []).append(node)
            else:
                plain.append(node)
        items: list[_Item] = []
        preset = inside | self.launched
        for plain, loops in levels:
            items += [Step(Action.RUN, node) for node in plain if node not in preset]
            items += [_Loop(tuple(closers), ranges, True) for ranges, closers in loops.items()]
        return items

    def needs(self, node: UOp, inside: Scope) -> list[UOp]:
        """What must have been computed in this loop before the node can be."""
        if self.closed[node]:
            return self.frontier((node,), inside)
        if node in inside:
            return []
        return [s for s in node.src if s in self.scope]  # not the kernel of a CALL

    def frontier(self, closers: Sequence[UOp], inside: Scope) -> list[UOp]:
        """What the body of a loop takes from outside of it."""
        found: dict[UOp, None] = {}
        seen: set[UOp] = set()
        stack = [s for c in reversed(closers) for s in reversed(c.src)]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node not in self.scope:
                continue
            if self.scope[node] <= inside:
                found[node] = None
            else:
                stack += reversed(node.src)
        return list(found)

    def once(self, node: UOp) -> None:
        """Refuse an effect that two loops would have."""
        if node.op in (ops.STORE, ops.CALL):
            if node in self.stored:
                raise failure(
                    Fault(
                        node,
                        f"{describe(node)} is in two loops",
                        "an effect happens once for each iteration of the ranges around it",
                        "end it once: END(GROUP(effects), ranges), and depend on that END",
                    )
                )
            self.stored.add(node)


def _append(steps: list[Step], opened: list[int], step: Step) -> None:
    """Add a step, and connect the OPEN and CLOSE of a loop."""
    if step.action is Action.OPEN:
        opened.append(len(steps))
    elif step.action is Action.CLOSE:
        step.partner = opened.pop()
        steps[step.partner].partner = len(steps)
    steps.append(step)


# -- lists -----------------------------------------------------------------------------------------


def steps_of_list(nodes: Sequence[UOp], launched: Collection[UOp]) -> list[Step]:
    """The steps of nodes in order: a RANGE opens a loop and its END closes it, IF and ENDIF too."""
    steps: list[Step] = []
    opened: list[int] = []
    loops: list[UOp] = []
    known: list[set[UOp]] = [set(launched)]
    for node in nodes:
        if node in launched:
            continue
        for source in node.src:
            listed = any(source in block for block in known) or source.op is ops.SINK
            if not listed and source.src:
                raise failure(
                    Fault(
                        source,
                        f"{describe(source)} is used where it is not known",
                        "it comes later in the list, or in a loop that is closed",
                        "put sources in front of what uses them, in the same loop or outside",
                    ),
                    node,
                )
        if node.op is ops.RANGE or node.op is ops.IF:
            _append(steps, opened, Step(Action.OPEN, node))
            loops.append(node)
            known.append({node})
            continue
        closes = node.op is ops.END or node.op is ops.ENDIF
        closing = set(closed_ranges(node)) - set(launched) if closes else set()
        while closing:
            if not loops or loops[-1] not in closing:
                raise EvaluationError(
                    f"{describe(node)} closes a loop that is not the innermost",
                    where=describe(next(r for r in closed_nest(node) if r in closing)),
                    why="loops are closed in the opposite order of their opening",
                    fix="close the inner loops first",
                )
            closing.discard(loops[-1])
            _append(steps, opened, Step(Action.CLOSE, loops.pop()))
            known.pop()
        steps.append(Step(Action.RUN, node))
        known[-1].add(node)
    if loops:
        raise EvaluationError(
            f"{describe(loops[-1])} is never closed",
            where=describe(loops[-1]),
            why="every RANGE of a list has an END, and every IF an ENDIF",
            fix="end the loop",
        )
    return steps
