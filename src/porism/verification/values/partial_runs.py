"""Partial runs: a kernel run by the evaluator, whole, or at some iterations of its outer loops.

Interpreting all of a large kernel takes hours. Iterations of its outer loops are independent, so
some of them are run, the first and the last among them, with all loops inside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from porism.evaluate import Memory, run_kernel, run_list
from porism.ir import ops
from porism.ir.axis import THREAD_AXES
from porism.ir.facts.effect_scopes import base_of, closed_ranges, loaded_indices, own_nodes, scopes
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.verification.values.element_values import ElementEvaluator
from porism.verification.values.synthetic_inputs import TooLarge

MAX_SAMPLED_STEPS: Final = 10_000
"""Nodes that are executed in a sampled run, about: half a second."""

MAX_ITERATION_STEPS: Final = 4 * MAX_SAMPLED_STEPS
"""A kernel with more nodes in one iteration of its outer loops is not run."""

MAX_WHOLE_STEPS: Final = 20 * MAX_SAMPLED_STEPS
"""A kernel with more nodes in all is not run as a whole."""

MAX_ITERATIONS: Final = 12
"""Most iterations of the outer loops in a sampled run; chosen by hand."""

Kernel = UOp | Sequence[UOp]
"""A SINK, or a list of nodes in order."""


def run(
    kernel: Kernel,
    buffers: Sequence[Memory],
    variables: Mapping[str, int],
    round_number: int = 0,
    *,
    whole: bool = False,
) -> bool:
    """Run a kernel on buffers, which it modifies; return whether all iterations were run.

    Which iterations are sampled depends on the round. A `whole` run is all or nothing.
    """
    nodes = own_nodes(kernel) if isinstance(kernel, UOp) else list(kernel)
    scope = scopes(nodes) if isinstance(kernel, UOp) else _scopes_of_list(nodes)
    with np.errstate(all="ignore"):
        for pinned in _sampled_iterations(nodes, scope, variables, round_number, whole=whole):
            if isinstance(kernel, UOp):
                run_kernel(kernel, buffers, variables, pinned=pinned, garbage=True)
            else:
                run_list(kernel, buffers, variables, pinned=pinned, garbage=True)
    return not pinned


def _sampled_iterations(
    nodes: Sequence[UOp],
    scope: Mapping[UOp, frozenset[UOp]],
    variables: Mapping[str, int],
    round_number: int,
    *,
    whole: bool,
) -> list[dict[UOp, int]]:
    """Return the iterations to run, as values of loops; one without values is everything."""
    extents: dict[UOp, int] = {}
    for node in nodes:
        if node.op is ops.RANGE or node.op is ops.SPECIAL:
            extents[node] = _extent(node, variables)
    if _executed_nodes(nodes, scope, extents) <= (MAX_WHOLE_STEPS if whole else MAX_SAMPLED_STEPS):
        return [{}]
    if whole:
        raise TooLarge
    sampled_loops = [r for r in independent_loops(nodes, scope) if extents[r] > 1]
    nodes_per_iteration = _executed_nodes(
        nodes, scope, {**extents, **dict.fromkeys(sampled_loops, 1)}
    )
    if nodes_per_iteration > MAX_ITERATION_STEPS:
        raise TooLarge
    count = min(max(MAX_SAMPLED_STEPS // max(nodes_per_iteration, 1), 1), MAX_ITERATIONS)
    return (
        list(_sample({r: extents[r] for r in sampled_loops}, count, round_number))
        if sampled_loops
        else [{}]
    )


def _extent(node: UOp, variables: Mapping[str, int]) -> int:
    """Return the extent of a loop, or the largest that it can have."""
    size = node.src[0]
    if size.op is not ops.CONST and not size.ranges:
        return ElementEvaluator({}, variables).number(size)
    return int(size.vmax)


def _executed_nodes(
    nodes: Sequence[UOp], scope: Mapping[UOp, frozenset[UOp]], extents: Mapping[UOp, int]
) -> int:
    """Return how many nodes are executed, counted once for each iteration around them."""
    return sum(math.prod(extents[r] for r in scope[n] if r in extents) for n in nodes)


def _sample(extents: Mapping[UOp, int], count: int, round_number: int) -> Iterator[dict[UOp, int]]:
    """Yield some iterations: the last, the first, then random ones, by the round."""
    generator = np.random.default_rng([round_number, *extents.values()])
    sampled: set[tuple[int, ...]] = set()
    for number in range(round_number, round_number + count):
        if number < 2:
            iteration = tuple((n - 1) * (1 - number) for n in extents.values())
        else:
            iteration = tuple(int(generator.choice([0, n - 1, int(generator.integers(n))]))
                       for n in extents.values())  # fmt: skip
        if iteration not in sampled:
            sampled.add(iteration)
            yield dict(zip(extents, iteration, strict=True))


def independent_loops(nodes: Sequence[UOp], scope: Mapping[UOp, frozenset[UOp]]) -> list[UOp]:
    """Return the loops whose iterations can be run alone.

    No value may pass between them: local memory and registers are used inside of the loop only, so
    that each iteration fills them itself, or are filled before it; and what is stored is not read,
    or is at an index that depends on the loop.
    """
    reads, stores = _accesses_by_buffer(nodes)
    private = [b for b in stores if b.op in (ops.DEFINE_LOCAL, ops.DEFINE_REG)]
    updates = [n for base in stores if base.op is ops.PARAM and base in reads for n in stores[base]]
    return [
        loop
        for loop in _outer_loops(nodes)
        if all(loop in loops_in_address(n.src[0]) for n in updates)
        and all(_is_private_to(loop, scope, stores[b], reads.get(b, ())) for b in private)
    ]


def _outer_loops(nodes: Sequence[UOp]) -> Iterator[UOp]:
    """Yield the sequential loops around stores; without those in whose extents a loop occurs."""
    ended = _closed_by(nodes, ops.END)
    reduced = _closed_by(nodes, ops.REDUCE, ops.BUFFERIZE)
    loops = [n for n in nodes if n.op is ops.RANGE]
    for loop in loops:
        if loop not in ended or loop in reduced or loop.arg[1] in THREAD_AXES:
            continue
        if not loop.src[0].ranges and not any(loop in n.src[0].ranges for n in loops):
            yield loop


def _closed_by(nodes: Sequence[UOp], *kinds: Op) -> set[UOp]:
    """Return the loops that nodes of some ops close."""
    return {r for n in nodes if n.op in kinds for r in closed_ranges(n)}


def _accesses_by_buffer(
    nodes: Sequence[UOp],
) -> tuple[dict[UOp, list[UOp]], dict[UOp, list[UOp]]]:
    """Return the reads and the stores of each buffer."""
    reads: dict[UOp, list[UOp]] = {}
    for node in (*loaded_indices(nodes, ()), *(n for n in nodes if n.op is ops.LOAD)):
        reads.setdefault(base_of(node.src[0]), []).append(node)
    stores: dict[UOp, list[UOp]] = {}
    for node in nodes:
        if node.op is ops.STORE:
            stores.setdefault(base_of(node.src[0]), []).append(node)
    return reads, stores


def loops_in_address(address: UOp) -> set[UOp]:
    """Return the loops that an address depends on, other than through loaded values."""
    others = (ops.LOAD, ops.INDEX, ops.AFTER)
    inner = toposort(address, within=lambda n: n is address or n.op not in others)
    return {n for n in inner if n.op is ops.RANGE}


def _is_private_to(
    r: UOp, scope: Mapping[UOp, frozenset[UOp]], stores: Sequence[UOp], reads: Sequence[UOp]
) -> bool:
    """Return whether memory is used inside of a loop only, or filled outside of it only."""
    return all(r in scope[n] for n in (*stores, *reads)) or all(r not in scope[n] for n in stores)


def _scopes_of_list(nodes: Sequence[UOp]) -> dict[UOp, frozenset[UOp]]:
    """Return for each node of a list the loops around it."""
    around: list[UOp] = []
    scope_of: dict[UOp, frozenset[UOp]] = {}
    for node in nodes:
        if node.op is ops.END:
            closed = closed_ranges(node)
            around = [r for r in around if r not in closed]
        elif node.op is ops.RANGE:
            around.append(node)
        scope_of[node] = frozenset(around)
    return scope_of
