"""Packing: the kernels of a program that read constants as they were laid out for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from porism.backends.backend_table import Backend
from porism.base.errors import ActionError
from porism.base.settings import settings
from porism.engine.tune.tuning_cache import known_actions
from porism.ir.node import UOp
from porism.optimize.actions.action import Actions
from porism.optimize.strategy.prepacked_weights import PackedConstant, PrepackedKernel
from porism.pipeline import prepack_kernel
from porism.schedule.schedule import Role, Schedule

MOST: Final = 10_000
"""Kernels of which it is remembered how they read constants."""

_known: dict[tuple[str, UOp, tuple[int, ...], Actions | None], PrepackedKernel | None] = {}


def forget_packed() -> None:
    """Forget how kernels read constants."""
    _known.clear()


class Packing:
    """For a schedule and its inputs that are constants: which kernels run, and on which copies."""

    def __init__(self, schedule: Schedule, backend: Backend, constants: frozenset[int]) -> None:
        self.kernels = [step.kernel for step in schedule.steps]
        self.copies: list[PackedConstant] = []
        """Each once; its source is the input that it is a copy of."""
        self.places: dict[tuple[int, int], int] = {}
        """By step and number of the parameter which of the copies that is."""
        self.arranged: set[UOp] = set()
        """Those of the kernels whose loops are arranged already."""
        if constants and not backend.target().block:
            self._pack(schedule, backend, constants)

    def _pack(self, schedule: Schedule, backend: Backend, constants: frozenset[int]) -> None:
        if settings.beam:
            from porism.engine.tune.tuning import tune_new

            tune_new(self.kernels, backend)
        tuned = known_actions(self.kernels, backend)
        made: dict[tuple[int, UOp], int] = {}
        for k, step in enumerate(schedule.steps):
            buffers = [schedule.buffers[b] for b in step.buffers]
            inputs = {n: b.number for n, b in enumerate(buffers) if n and b.role is Role.INPUT}
            numbers = tuple(n for n, number in inputs.items() if number in constants)
            found = _packed(step.kernel, numbers, backend, tuned.get(step.kernel))
            if found is None:
                continue
            self.kernels[k] = found.kernel
            self.arranged.add(found.kernel)
            for copy in found.copies:
                self.arranged.add(copy.kernel)  # it is run once: plain loops are compiled faster
                source = inputs[copy.source]
                place = made.setdefault((source, copy.kernel), len(self.copies))
                if place == len(self.copies):
                    self.copies.append(replace(copy, source=source))
                self.places[k, copy.number] = place


def _packed(
    kernel: UOp, numbers: tuple[int, ...], backend: Backend, actions: Actions | None
) -> PrepackedKernel | None:
    """A kernel that reads copies of some of its buffers; None if it reads none."""
    if not numbers:
        return None
    key = (backend.name, kernel, numbers, actions)
    if key not in _known:
        if len(_known) >= MOST:
            _known.clear()
        try:
            found = prepack_kernel(kernel, backend.target(), numbers, actions)
        except ActionError:  # those of an imported file may be any
            found = None
        _known[key] = found
    return _known[key]
