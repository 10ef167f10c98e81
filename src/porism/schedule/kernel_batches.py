"""Kernel batches: elementwise kernels that do not wait for each other run as one launch.

    before    w3 u3 | w2 u2 | w1 u1          an update u for each parameter, a launch each
    after     w3 | w2 | w1 | u3 u2 u1        one launch: threads share the iterations of all updates

As in the step of an optimizer, whose launches then do not grow with the parameters. Only kernels
that nothing waits for are postponed. What they read stays in memory meanwhile, so that a batch is
launched as soon as more than a fraction of what all of them write is waiting.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.schedule.rangeify.placement_cost import element_count

Values = tuple[UOp, ...]

MAX_WAITING: Final = 1 / 8
"""Bytes of temporaries that wait for a batch, as a part of all bytes that postponed kernels write;
chosen by hand. At most about twice the reciprocal of it are the launches of all batches."""


def batch_order(
    kernels: Sequence[UOp],
    values: Sequence[tuple[Values, Values]],
    outputs: Collection[UOp],
    waits: Mapping[int, Collection[int]],
) -> tuple[list[int], list[int]]:
    """Return an order of kernels, and the number of its batch for each kernel in that order.

    Kernels are given in an order in which they can run, with the values that they compute and those
    they read; some also wait for others, by position. Kernels of one batch follow each other.
    """
    postponed = _postponed(kernels, values, outputs, waits)
    written = sum(_bytes(v) for k in postponed for v in values[k][0])
    allowed = int(written * MAX_WAITING)
    computed = {value for new, _ in values for value in new}
    order: list[int] = []
    batches: list[int] = []
    pending: list[int] = []
    waiting: set[UOp] = set()

    def launch(members: Sequence[int]) -> None:
        number = batches[-1] + 1 if batches else 0
        order.extend(members)
        batches.extend([number] * len(members))

    for k, (_, used) in enumerate(values):
        if k not in postponed:
            launch([k])
            continue
        read = {v for v in used if v in computed}
        if sum(map(_bytes, read)) > allowed:
            launch([k])
            continue
        pending.append(k)
        waiting |= read
        if sum(map(_bytes, waiting)) > allowed:
            launch(pending)
            pending, waiting = [], set()
    if pending:
        launch(pending)
    return order, batches


def _postponed(
    kernels: Sequence[UOp],
    values: Sequence[tuple[Values, Values]],
    outputs: Collection[UOp],
    waits: Mapping[int, Collection[int]],
) -> frozenset[int]:
    """Return the elementwise kernels that compute outputs only, and that no other waits for."""
    waited_for = {other for earlier in waits.values() for other in earlier}
    read = {value for _, used in values for value in used}
    found = {
        k
        for k, (new, _) in enumerate(values)
        if k not in waited_for and all(v in outputs and v not in read for v in new)
    }
    if len(found) < 2:
        return frozenset()
    return frozenset(k for k in found if is_elementwise(kernels[k]))


def is_elementwise(kernel: UOp) -> bool:
    """Return whether a kernel computes each element by itself: it has no reduction, nor memory."""
    return not any(
        n.op in (ops.REDUCE, ops.BUFFERIZE, ops.AFTER, ops.BUFFER) for n in toposort(kernel)
    )


def _bytes(value: UOp) -> int:
    """Return the bytes of a value; of a symbolic size the most it can be."""
    return element_count(shape(value)) * value.dtype.numpy.itemsize
