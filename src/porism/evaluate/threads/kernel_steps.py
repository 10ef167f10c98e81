"""Kernel steps: a kernel as a list of steps, to be executed in order.

`graph_steps` is a reference linearizer, as simple as possible and independent of the compiler's: a
node is placed in the innermost loop that it depends on, a loop runs for the node that closes it
(END, REDUCE, BUFFERIZE or ENDIF), loops nest in the order of that node's sources, and a node that
several loops need is computed in each.
`list_steps` takes instructions in their order, and checks their loops and sources.
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


class StepKind(enum.Enum):
    """The kinds of steps."""

    RUN = "run"  # execute the node
    OPEN = "open"  # begin the loop of a RANGE, or the body of an IF
    CLOSE = "close"  # jump back to the OPEN, or leave the loop
    RESET = "reset"  # clear the accumulator of a REDUCE, or the elements of a BUFFERIZE
    FOLD = "fold"  # add this iteration to it
    FINISH = "finish"  # set its value


@dataclass(slots=True)
class Step:
    """One step; `partner` is the number of the CLOSE of an OPEN, and the reverse."""

    kind: StepKind
    node: UOp
    partner: int = -1


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop nest: the nodes that close it, and the ranges that are still to be opened."""

    closers: tuple[UOp, ...]
    ranges: tuple[UOp, ...]
    first: bool


_Item = Step | _Loop


def graph_steps(root: UOp, order: Sequence[UOp], launched: Collection[UOp]) -> list[Step]:
    """Return the steps of a kernel graph; `launched` ranges are threads, not loops."""
    return _StepBuilder(order, launched).steps(root)


class _StepBuilder:
    """The linearization of one kernel graph."""

    def __init__(self, order: Sequence[UOp], launched: Collection[UOp]) -> None:
        self.launched = frozenset(launched)
        around = scopes(order)
        self.scope = {n: s - self.launched if s & self.launched else s for n, s in around.items()}
        self.closed = {n: closed_ranges(n) - self.launched for n in order}
        self.stored: set[UOp] = set()

    def steps(self, root: UOp) -> list[Step]:
        """Return the steps of the whole kernel."""
        check_loops_closed(root, self.scope[root])
        steps: list[Step] = []
        open_steps: list[int] = []
        stack: list[Iterator[_Item]] = [iter(self.body_items([root], frozenset(), None))]
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
                _append(steps, open_steps, item)
                if item.kind is StepKind.OPEN:
                    inside[-1] = inside[-1] | {item.node}
        return steps

    def loop(self, loop: _Loop, outside: Scope) -> Iterator[_Item]:
        """Yield the steps of a loop; inner loops are yielded as items."""
        accumulating = [c for c in loop.closers if c.op is not ops.END and c.op is not ops.ENDIF]
        opener, *rest = loop.ranges
        inside = outside | {opener}
        if loop.first:
            yield from (Step(StepKind.RESET, node) for node in accumulating)
        yield Step(StepKind.OPEN, opener)
        if rest:
            yield from self.body_items(self.loop_inputs(loop.closers, inside), inside, outside)
            yield _Loop(loop.closers, tuple(rest), False)
        else:
            bodies = [s for c in loop.closers for s in c.src if s not in self.closed[c]]
            yield from self.body_items(bodies, inside, outside)
            yield from (Step(StepKind.FOLD, node) for node in accumulating)
        yield Step(StepKind.CLOSE, opener)
        if loop.first:
            for node in loop.closers:
                yield Step(StepKind.FINISH if node in accumulating else StepKind.RUN, node)

    def body_items(
        self, targets: Sequence[UOp], inside: Scope, outside: Scope | None
    ) -> list[_Item]:
        """Return the items that the targets need in a loop body; an inner loop is one item."""
        needs = postorder(
            targets,
            lambda node: self.needs(node, inside),
            lambda node: outside is not None and self.scope[node] <= outside,
        )
        for node in needs:
            self.check_single(node)
        # closers of one level do not depend on each other: those of equal ranges share a loop
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
            items += [Step(StepKind.RUN, node) for node in plain if node not in preset]
            items += [_Loop(tuple(closers), ranges, True) for ranges, closers in loops.items()]
        return items

    def needs(self, node: UOp, inside: Scope) -> list[UOp]:
        """Return the nodes that must be computed in this loop body before a node."""
        if self.closed[node]:
            return self.loop_inputs((node,), inside)
        if node in inside:
            return []
        return [s for s in node.src if s in self.scope]  # not the kernel of a CALL

    def loop_inputs(self, closers: Sequence[UOp], inside: Scope) -> list[UOp]:
        """Return the nodes outside of a loop that its body uses."""
        inputs: dict[UOp, None] = {}
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
                inputs[node] = None
            else:
                stack += reversed(node.src)
        return list(inputs)

    def check_single(self, node: UOp) -> None:
        """Raise if an effect is in two loops."""
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


def _append(steps: list[Step], open_steps: list[int], step: Step) -> None:
    """Append a step, and connect the OPEN and CLOSE of a loop."""
    if step.kind is StepKind.OPEN:
        open_steps.append(len(steps))
    elif step.kind is StepKind.CLOSE:
        step.partner = open_steps.pop()
        steps[step.partner].partner = len(steps)
    steps.append(step)


# -- lists -----------------------------------------------------------------------------------------


def list_steps(nodes: Sequence[UOp], launched: Collection[UOp]) -> list[Step]:
    """Return the steps of instructions: RANGE and IF open a block, END and ENDIF close it."""
    steps: list[Step] = []
    open_steps: list[int] = []
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
            _append(steps, open_steps, Step(StepKind.OPEN, node))
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
            _append(steps, open_steps, Step(StepKind.CLOSE, loops.pop()))
            known.pop()
        steps.append(Step(StepKind.RUN, node))
        known[-1].add(node)
    if loops:
        raise EvaluationError(
            f"{describe(loops[-1])} is never closed",
            where=describe(loops[-1]),
            why="every RANGE of a list has an END, and every IF an ENDIF",
            fix="end the loop",
        )
    return steps
