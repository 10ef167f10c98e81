"""Reference runner: run a schedule with the evaluator, one kernel after the other.

Temporaries share an arena as the memory plan says; reading an element that was not written, or was
overwritten by another temporary, is an error of the evaluator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from porism.backends.backend_table import BACKENDS
from porism.engine.profile import kernel_observer
from porism.engine.run.bound_sizes import element_count, lay_out_arena
from porism.evaluate import Memory, run_arrays, run_kernel
from porism.evaluate.evaluation import needs_steps
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.schedule.schedule import Buffer, Role, Schedule


def run(schedule: Schedule, inputs: Sequence[Array], variables: Mapping[str, int]) -> list[Array]:
    """Run a schedule on arrays; return the output arrays, each one-dimensional."""
    offsets, size = lay_out_arena(schedule, variables)
    arena = np.zeros(size, np.uint8)
    memories: dict[int, Memory] = {}
    for position, buffer in enumerate(schedule.buffers):
        if buffer.role is Role.INPUT:
            memories[position] = Memory(inputs[buffer.number])
        elif buffer.role is Role.OUTPUT:
            memories[position] = Memory.empty(buffer.dtype, element_count(buffer, variables))

    def run_step(number: int) -> tuple[()]:
        step = schedule.steps[number]
        written = schedule.buffers[step.buffers[0]]
        if written.role is Role.TEMPORARY:
            memories[step.buffers[0]] = _arena_slice(
                arena, offsets[written.number], written, element_count(written, variables)
            )
        _run_kernel(step.kernel, [memories[b] for b in step.buffers], variables)
        return ()  # no thread but this one

    if kernel_observer.is_observed():
        kernel_observer.run_observed(schedule, BACKENDS["reference"], variables, run_step)
    else:
        for number in range(len(schedule.steps)):
            run_step(number)
    return [memories[position].data for position in schedule.outputs]


def _arena_slice(arena: Array, begin: int, buffer: Buffer, size: int) -> Memory:
    data = arena[begin : begin + size * buffer.dtype.numpy.itemsize].view(buffer.dtype.numpy)
    return Memory(data, np.zeros(size, np.bool_))


def _run_kernel(kernel: UOp, buffers: Sequence[Memory], variables: Mapping[str, int]) -> None:
    if needs_steps(toposort(kernel)):
        run_kernel(kernel, buffers, variables)
    else:
        run_arrays(kernel, buffers, variables)
