"""Swapped reads: a read replaced by another of the same kernel is detected after every stage."""

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


def ones(*dims: int) -> Any:
    return porism.asarray(np.ones(dims, np.float32))


def product() -> Any:
    return ones(4, 6) @ ones(6, 16)


def window() -> Any:
    """Return a stencil: overlapping vector loads read the same elements in other lanes."""
    x = ones(34)
    return x[:32] - x[1:33] * 2 + x[2:] * 3


def difference() -> Any:
    return ones(12, 8) - ones(8, 12).T * ones(8)


def concatenation() -> Any:
    return porism.concat([ones(3, 4), ones(5, 4), ones(2, 4)]) * 2


PROGRAMS: dict[str, tuple[Callable[[], Any], list[Action]]] = {
    "product": (product, [Upcast("r0", 4), Upcast("r1", 8)]),
    "copied product": (product, [Upcast("r0", 4), Upcast("r1", 8), Pack(2, ("r2", "r1_1"))]),
    "window": (window, [Upcast("r0", 8)]),
    "difference": (difference, [Upcast("r1", 2)]),
    "choice": (concatenation, []),
}


def graphs(tensor: Any, actions: list[Action]) -> list[Graph]:
    """Return the kernel of a tensor after some actions, and after each stage that follows."""
    (step,) = schedule_graph(request([tensor.node]).graph).steps
    scheduled = apply_all(unscheduled_kernel(step.kernel, GENERIC_CPU), actions, GENERIC_CPU)
    stages: list[Graph] = [("actions", KERNEL, scheduled)]
    with watched(lambda name, level, graph: stages.append((name, level, graph))):
        lower_kernel(scheduled, GENERIC_CPU, scheduled=True)
    return stages


def reads(graph: UOp) -> list[UOp]:
    """Return the reads that are executed for some iteration."""
    order = toposort(graph)
    stored = {n.src[0] for n in order if n.op is ops.STORE}
    return [
        n
        for n in order
        if n.op is ops.INDEX
        and n not in stored
        and n.dtype.kind is not Kind.POINTER
        and not any(s.op is ops.CONST and s.arg is False for s in n.src[2:])
    ]


def alternatives(graph: UOp) -> Iterator[tuple[UOp, UOp]]:
    """Yield pairs of reads such that the second can replace the first: its loops are in scope."""
    users: dict[UOp, list[UOp]] = {}
    for node in toposort(graph):
        for s in node.src:
            users.setdefault(s, []).append(node)
    for read, other in itertools.permutations(reads(graph), 2):
        loops = [{*user.ranges, *user.src} for user in users[read]]
        fits = all(set(other.ranges) <= known for known in loops)
        if fits and read.dtype is other.dtype and read not in toposort(other):
            yield read, other


def is_detected(before: UOp, after: UOp, level: Level) -> bool:
    comparisons = stage_equivalence.compare(
        before, after, with_use_conditions=level in (KERNEL, THREADS)
    )
    return any(not comparison.answer.holds for comparison in comparisons)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_read_replaced_by_another(name: str) -> None:
    make, actions = PROGRAMS[name]
    tried = 0
    for (_, _, before), (stage, level, after) in itertools.pairwise(graphs(make(), actions)):
        assert not is_detected(before, after, level), stage
        for read, other in alternatives(after):
            changed = substitute(after, {read: other})
            assert is_detected(before, changed, level), f"{stage}: {show(read)} as {show(other)}"
            tried += 1
    assert tried > 20


def test_two_swapped_reads() -> None:
    """Both are still read, but for other elements of the result."""
    make, actions = PROGRAMS["product"]
    tried = 0
    for (_, _, before), (stage, level, after) in itertools.pairwise(graphs(make(), actions)):
        for read, other in alternatives(after):
            if read.src[0] is other.src[0]:
                changed = substitute(after, {read: other, other: read})
                assert is_detected(before, changed, level), f"{stage}: {show(read)}, {show(other)}"
                tried += 1
    assert tried > 20


def test_the_error_says_which_element_has_wrong_sources() -> None:
    graph = {name: kernel for name, _, kernel in graphs(product(), PROGRAMS["product"][1])}
    read, other = next(alternatives(graph["expand"]))
    changed = substitute(graph["expand"], {read: other})
    comparisons = list(
        stage_equivalence.compare(graph["masks on loads"], changed, with_use_conditions=False)
    )
    why = [comparison.why for comparison in comparisons if comparison.why]
    assert any("is not computed any more from p1[" in text for text in why)
    assert any("is computed, and was not, from p1[" in text for text in why)


def test_reads_that_no_where_selects_may_be_dropped() -> None:
    """Only some lanes of an unrolled sum are selected."""
    i, k = UOp.range(4, 0, Axis.UPCAST), UOp.range(4, 1, Axis.UNROLL)
    x, y = (UOp(ops.PARAM, f32.pointer(size=4), (), n) for n in (1, 0))
    taken = ops.WHERE(k <= i, x.index(k), UOp.const(f32, 0))
    kernel = ops.SINK(y.index(i).store(taken.reduce(ops.ADD, k)).end(i))
    report = verify_actions(kernel, kernel, GENERIC_CPU, {})
    assert report.counts[How.OPEN] == 0
