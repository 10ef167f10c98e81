"""Opt: the loops of a kernel changed by hand, to be read, checked and timed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from porism.backends.backend_table import native
from porism.base.errors import ActionError, PorismError
from porism.engine.run import array_allocator
from porism.engine.tune.kernel_trial import (
    Trial,
    difference,
    expected,
    parameters,
    tolerance,
    values_of,
)
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.block_actions import Group, GroupTop, Local
from porism.optimize.actions.epilogue import Finish
from porism.optimize.actions.loop_actions import (
    Action,
    Cover,
    Move,
    NoLocals,
    PadTo,
    Split,
    Swap,
    Thread,
    Unroll,
    Upcast,
    apply_all,
)
from porism.optimize.actions.merge_loops import Merge
from porism.optimize.actions.packed_panels import Stage
from porism.optimize.actions.peeling import Peel
from porism.optimize.actions.reduction_blocking import Block
from porism.optimize.actions.scan_loop import Scan
from porism.optimize.actions.streaming_actions import Prefetch, Stream
from porism.optimize.actions.tensor_core_action import TC
from porism.pipeline import to_loops
from porism.schedule.loop_listing import listing
from porism.tensor.inspect.explain import Kernel
from porism.tensor.user_line import users_line
from porism.verification.verification_report import Report

__all__ = [
    "TC", "Arranged", "Block", "Cover", "Finish", "Group", "GroupTop", "Local", "Merge", "Move",
    "NoLocals", "PadTo", "Peel", "Prefetch", "Scan", "Split", "Stage", "Stream", "Swap", "Thread",
    "Unroll", "Upcast", "opt",
]  # fmt: skip

RUNS: Final = 7


@dataclass(frozen=True)
class Arranged:
    """A kernel and what some actions make of its loops."""

    kernel: Kernel
    actions: tuple[Action, ...]
    node: UOp
    """The kernel after the actions, as a graph."""

    @cached_property
    def text(self) -> str:
        """Its loops, to be read."""
        return listing(self.node, dict(enumerate(self.kernel.names)))

    def __str__(self) -> str:
        return "\n".join([*map(str, self.actions), self.text])

    @cached_property
    def _trial(self) -> Trial:
        return Trial(self.node, native())

    @cached_property
    def _variables(self) -> dict[str, int]:
        """Symbolic sizes as large as they can be."""
        found = [n for n in toposort(self.kernel.node) if n.op is ops.VARIABLE]
        return {str(n.arg[0]): int(n.vmax) for n in found}

    def check(self, seed: int = 0) -> float:
        """Run it on random data, and compare the result with that of the evaluator.

        The largest difference, in proportion to the largest value; an error if it is more than
        rounding in another order explains.
        """
        data = _random_data(parameters(self.kernel.node), seed)
        wanted = expected(self.kernel.node, data, self._variables)
        self._trial.run(data, self._variables)
        worst, place = difference(wanted, data[0])
        if worst > tolerance(wanted):
            raise PorismError(
                "the kernel computes something else after the actions",
                where=f"element {place} is {data[0][place]} and not {wanted[place]}",
                why="an action or the lowering is wrong: this is a fault of Porism",
                fix="leave out actions one by one to see which it is, and report it",
            )
        return worst

    def verify(self, level: int = 1) -> Report:
        """Check what the actions and the stages behind them made of each access; see verify.md.

        An error where an index, a bound or a write of parallel iterations is wrong; at level 2 also
        where a value is.
        """
        from porism.verification.verify_kernel import arranged

        target = native().target()
        before = to_loops(self.kernel.node, target, arrange=False)
        names = dict(enumerate(self.kernel.names))
        return arranged(before, self.node, target, names, self.actions, level=level)

    def time(self, runs: int = RUNS) -> float:
        """The seconds of one run in machine code on random data: the median of several."""
        if runs < 1:
            raise _refused(
                f"{runs} runs are to be timed", "there is at least one", "give 1 or more"
            )
        data = _random_data(parameters(self.kernel.node), 0)
        self._trial.run(data, self._variables)
        return statistics.median(self._trial.run(data, self._variables) for _ in range(runs))


def opt(kernel: Kernel | Arranged, actions: Sequence[Action]) -> Arranged:
    """A kernel with its loops changed by actions, one after the other, and by nothing else.

    >>> import porism
    >>> (kernel,) = porism.kernels(porism.asarray([1, 2] * 16) + 1)
    >>> print(opt(kernel, [porism.Upcast("r0", 8)]).text)
    for r0_0 < 4:
        for r0_1 < 8:  # upcast
            output0[r0_0 * 8 + r0_1] = input0[r0_0 * 8 + r0_1] + 1
    """
    if not isinstance(kernel, Kernel | Arranged):
        raise _refused(
            f"a {type(kernel).__name__} has no loops",
            "actions change the loops of a kernel",
            "pass one of porism.kernels(tensor)",
        )
    target = native().target()
    if isinstance(kernel, Kernel):
        kernel = Arranged(kernel, (), to_loops(kernel.node, target, arrange=False))
    try:
        node = apply_all(kernel.node, actions, target)
    except ActionError as error:
        raise _refused(error.what, error.why, error.fix) from None
    return Arranged(kernel.kernel, (*kernel.actions, *actions), node)


def _refused(what: str, why: str | None, fix: str | None) -> ActionError:
    return ActionError(what, where=users_line(), why=why, fix=fix)


# -- data ------------------------------------------------------------------------------------------


def _random_data(pointers: Mapping[int, UOp], seed: int) -> dict[int, Array]:
    """Arrays for the parameters of a kernel, in memory as that of tensors is."""
    generator = np.random.default_rng(seed)
    found = {}
    for number, pointer in sorted(pointers.items()):
        dtype, size = pointer.dtype.element, pointer.dtype.size
        array, _ = array_allocator.new_array(size, dtype.numpy)
        array[...] = values_of(generator, dtype, size) if number else 0
        found[number] = array
    return found
