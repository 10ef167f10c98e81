"""An access that stands where another one of the same kernel belongs is found at every stage."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.dtypes import Kind, f32
from porism.base.target import GENERIC_CPU
from porism.engine.run.realize import request
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.levels import KERNEL, THREADS, Level
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import substitute, toposort
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.optimize.actions.memory.packed_panels import Pack
from porism.pipeline import (
    lower_kernel,
    schedule_graph,
    unscheduled_kernel,
    watched,
)
from porism.verification.accesses import stage_equivalence
from porism.verification.verification_report import How
from porism.verification.verify_kernel import verify_actions

Graph = tuple[str, Level, UOp]


def some(*dims: int) -> Any:
    return porism.asarray(np.ones(dims, np.float32))


def product() -> Any:
    return some(4, 6) @ some(6, 16)


def window() -> Any:
    """Neighbours read by wide loads that overlap: the same elements at other places."""
    x = some(34)
    return x[:32] - x[1:33] * 2 + x[2:] * 3


def difference() -> Any:
    return some(12, 8) - some(8, 12).T * some(8)


def choice() -> Any:
    return porism.concat([some(3, 4), some(5, 4), some(2, 4)]) * 2


PROGRAMS: dict[str, tuple[Callable[[], Any], list[Action]]] = {
    "product": (product, [Upcast("r0", 4), Upcast("r1", 8)]),
    "copied product": (product, [Upcast("r0", 4), Upcast("r1", 8), Pack(2, ("r2", "r1_1"))]),
    "window": (window, [Upcast("r0", 8)]),
    "difference": (difference, [Upcast("r1", 2)]),
    "choice": (choice, []),
}


def graphs(tensor: Any, actions: list[Action]) -> list[Graph]:
    """The kernel of a tensor after some actions, and after each stage from there."""
    (step,) = schedule_graph(request([tensor.node]).graph).steps
    changed = apply_all(unscheduled_kernel(step.kernel, GENERIC_CPU), actions, GENERIC_CPU)
    seen: list[Graph] = [("actions", KERNEL, changed)]
    with watched(lambda name, level, graph: seen.append((name, level, graph))):
        lower_kernel(changed, GENERIC_CPU, scheduled=True)
    return seen


def reads(graph: UOp) -> list[UOp]:
    """The reads that are ever done."""
    order = toposort(graph)
    places = {n.src[0] for n in order if n.op is ops.STORE}
    return [
        n
        for n in order
        if n.op is ops.INDEX
        and n not in places
        and n.dtype.kind is not Kind.POINTER
        and not any(s.op is ops.CONST and s.arg is False for s in n.src[2:])
    ]


def alternatives(graph: UOp) -> Iterator[tuple[UOp, UOp]]:
    """Reads, each with another that could stand in its place: all loops of that are there."""
    users: dict[UOp, list[UOp]] = {}
    for node in toposort(graph):
        for s in node.src:
            users.setdefault(s, []).append(node)
    for read, other in itertools.permutations(reads(graph), 2):
        loops = [{*user.ranges, *user.src} for user in users[read]]
        fits = all(set(other.ranges) <= known for known in loops)
        if fits and read.dtype is other.dtype and read not in toposort(other):
            yield read, other


def is_found(before: UOp, after: UOp, level: Level) -> bool:
    found = stage_equivalence.compare(before, after, needs=level in (KERNEL, THREADS))
    return any(not compared.answer.holds for compared in found)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_read_in_the_place_of_another(name: str) -> None:
    make, actions = PROGRAMS[name]
    tried = 0
    for (_, _, before), (stage, level, after) in itertools.pairwise(graphs(make(), actions)):
        assert not is_found(before, after, level), stage
        for read, other in alternatives(after):
            changed = substitute(after, {read: other})
            assert is_found(before, changed, level), f"{stage}: {show(read)} as {show(other)}"
            tried += 1
    assert tried > 20


def test_two_reads_that_changed_places() -> None:
    """Each of them is still read, but for other elements of the result."""
    make, actions = PROGRAMS["product"]
    tried = 0
    for (_, _, before), (stage, level, after) in itertools.pairwise(graphs(make(), actions)):
        for read, other in alternatives(after):
            if read.src[0] is other.src[0]:
                changed = substitute(after, {read: other, other: read})
                assert is_found(before, changed, level), f"{stage}: {show(read)}, {show(other)}"
                tried += 1
    assert tried > 20


def test_the_error_says_which_element_is_made_of_what() -> None:
    graph = {name: kernel for name, _, kernel in graphs(product(), PROGRAMS["product"][1])}
    read, other = next(alternatives(graph["expand"]))
    changed = substitute(graph["expand"], {read: other})
    found = list(stage_equivalence.compare(graph["masks on loads"], changed, needs=False))
    why = [compared.why for compared in found if compared.why]
    assert any("is not computed any more from p1[" in text for text in why)
    assert any("is computed, and was not, from p1[" in text for text in why)


def test_what_no_choice_takes_may_be_left_out() -> None:
    """Lanes of a sum of which only some are taken."""
    i, k = UOp.range(4, 0, Axis.UPCAST), UOp.range(4, 1, Axis.UNROLL)
    x, y = (UOp(ops.PARAM, f32.pointer(size=4), (), n) for n in (1, 0))
    taken = ops.WHERE(k <= i, x.index(k), UOp.const(f32, 0))
    kernel = ops.SINK(y.index(i).store(taken.reduce(ops.ADD, k)).end(i))
    report = verify_actions(kernel, kernel, GENERIC_CPU, {})
    assert report.counts[How.OPEN] == 0
