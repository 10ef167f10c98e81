"""Manual schedules: apply loop actions to a kernel by hand, then read, check and time it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from porism.backends.backend_table import native_backend
from porism.base.errors import ActionError, PorismError
from porism.engine.run import array_allocator
from porism.engine.tune.kernel_trial import (
    CompiledTrial,
    largest_difference,
    parameters,
    random_values,
    reference_result,
    tolerance,
)
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action, apply_all
from porism.pipeline import unscheduled_kernel
from porism.schedule.loop_listing import listing
from porism.tensor.inspect.explain import Kernel
from porism.tensor.user_line import users_line
from porism.verification.verification_report import Report

RUNS: Final = 7
"""Timed runs, of which the median counts; chosen by hand."""


@dataclass(frozen=True)
class ScheduledKernel:
    """A kernel with a loop schedule: the actions that were applied to its loops, in order."""

    kernel: Kernel
    actions: tuple[Action, ...]
    node: UOp
    """The kernel after the actions, as a graph."""

    @cached_property
    def text(self) -> str:
        """The loops after the actions, as a listing."""
        return listing(self.node, dict(enumerate(self.kernel.names)))

    def __str__(self) -> str:
        return "\n".join([*map(str, self.actions), self.text])

    @cached_property
    def _trial(self) -> CompiledTrial:
        """The compiled kernel, to be run on data."""
        return CompiledTrial(self.node, native_backend())

    @cached_property
    def _variables(self) -> dict[str, int]:
        """The largest value of each symbolic size."""
        variables = [n for n in toposort(self.kernel.node) if n.op is ops.VARIABLE]
        return {str(n.arg[0]): int(n.vmax) for n in variables}

    def check(self, seed: int = 0) -> float:
        """Run the kernel on random data, and compare its result with that of the evaluator.

        Return the largest difference relative to the largest value; raise an error if that is more
        than rounding in another order explains.
        """
        data = _random_data(parameters(self.kernel.node), seed)
        wanted = reference_result(self.kernel.node, data, self._variables)
        self._trial.run(data, self._variables)
        worst, position = largest_difference(wanted, data[0])
        if worst > tolerance(wanted):
            raise PorismError(
                "the kernel computes something else after the actions",
                where=f"element {position} is {data[0][position]} and not {wanted[position]}",
                why="an action or the lowering is wrong: this is a fault of Porism",
                fix="leave out actions one by one to see which it is, and report it",
            )
        return worst

    def verify(self, level: int = 1) -> Report:
        """Verify each access after the actions and after every later stage; see docs/verify.md.

        Raise an error where an index, a bound or a write of parallel iterations is wrong; at level
        2 also where a value is.
        """
        from porism.verification.verify_kernel import verify_actions

        target = native_backend().target()
        before = unscheduled_kernel(self.kernel.node, target)
        names = dict(enumerate(self.kernel.names))
        return verify_actions(before, self.node, target, names, self.actions, level=level)

    def time(self, runs: int = RUNS) -> float:
        """Return the median time of one run as machine code on random data, in seconds."""
        if runs < 1:
            raise _refused(
                f"{runs} runs are to be timed", "there is at least one", "give 1 or more"
            )
        data = _random_data(parameters(self.kernel.node), 0)
        self._trial.run(data, self._variables)
        return statistics.median(self._trial.run(data, self._variables) for _ in range(runs))


def opt(kernel: Kernel | ScheduledKernel, actions: Sequence[Action]) -> ScheduledKernel:
    """Apply actions to the loops of a kernel, one after the other, and nothing else.

    >>> import porism
    >>> (kernel,) = porism.kernels(porism.asarray([1, 2] * 16) + 1)
    >>> print(opt(kernel, [porism.Upcast("r0", 8)]).text)
    for r0_0 < 4:
        for r0_1 < 8:  # upcast
            output0[r0_0 * 8 + r0_1] = input0[r0_0 * 8 + r0_1] + 1
    """
    if not isinstance(kernel, Kernel | ScheduledKernel):
        raise _refused(
            f"a {type(kernel).__name__} has no loops",
            "actions change the loops of a kernel",
            "pass one of porism.kernels(tensor)",
        )
    target = native_backend().target()
    if isinstance(kernel, Kernel):
        kernel = ScheduledKernel(kernel, (), unscheduled_kernel(kernel.node, target))
    try:
        node = apply_all(kernel.node, actions, target)
    except ActionError as error:
        raise _refused(error.what, error.why, error.fix) from None
    return ScheduledKernel(kernel.kernel, (*kernel.actions, *actions), node)


def _refused(what: str, why: str | None, fix: str | None) -> ActionError:
    """Return the error for a wrong call, with the line of the user's program."""
    return ActionError(what, where=users_line(), why=why, fix=fix)


# -- data ------------------------------------------------------------------------------------------


def _random_data(pointers: Mapping[int, UOp], seed: int) -> dict[int, Array]:
    """Return arrays for the parameters of a kernel, in memory that is aligned as tensors are."""
    generator = np.random.default_rng(seed)
    arrays = {}
    for number, pointer in sorted(pointers.items()):
        dtype, size = pointer.dtype.element, pointer.dtype.size
        array, _ = array_allocator.new_array(size, dtype.numpy)
        array[...] = random_values(generator, dtype, size) if number else 0
        arrays[number] = array
    return arrays
