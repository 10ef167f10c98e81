"""Prepacked constants: kernels that read copies of constants in the layout of their packed panels.

    Before    C[i, j] += A[i, k] * W[k, j], with panels of W packed in every run
    After     P = pack(W) once, by a kernel of its own;  C[i, j] += A[i, k] * P[panel of j, k, …]

The choice is cached in memory by backend, kernel, constant buffers and tuned actions, and for whole
programs on disk (`cache/program_cache`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from porism.backends.backend_table import Backend
from porism.base.errors import ActionError
from porism.base.settings import settings
from porism.engine.cache.program_cache import ConstantCopy
from porism.engine.tune.tuning_cache import known_actions
from porism.ir.node import UOp
from porism.schedule.schedule import Role, Schedule

if TYPE_CHECKING:
    from porism.optimize.actions.action import Actions
    from porism.optimize.strategy.contractions.prepacked_weights import PrepackedKernel

MAX_KERNELS: Final = 10_000
"""Entries of the table in memory, chosen by hand; a full table is cleared."""

MIN_PACKED_BYTES: Final = 1 << 12
"""Bytes of a constant that is packed, at least (`prepacked_weights.MIN_BYTES`)."""

_packed_kernels: dict[tuple[str, UOp, tuple[int, ...], Actions | None], PrepackedKernel | None] = {}


def forget_prepacked() -> None:
    """Clear the table of prepacked kernels."""
    _packed_kernels.clear()


class Prepacking:
    """The kernels of a schedule with constant inputs, and the prepacked copies that they read."""

    def __init__(self, schedule: Schedule, backend: Backend, constants: frozenset[int]) -> None:
        self.kernels = [step.kernel for step in schedule.steps]
        self.copies: list[ConstantCopy] = []
        """Each copy once."""
        self.copy_kernels: list[UOp] = []
        """The kernel that makes each copy."""
        self.copy_of_parameter: dict[tuple[int, int], int] = {}
        """The number of the copy by step and PARAM number of its kernel."""
        self.scheduled: set[UOp] = set()
        """The kernels, also those that copy, whose loops are scheduled already."""
        if constants and not backend.target().block:
            self._pack(schedule, backend, constants)

    def _pack(self, schedule: Schedule, backend: Backend, constants: frozenset[int]) -> None:
        if settings.beam:
            from porism.engine.tune.tuning import tune_new_kernels

            tune_new_kernels(self.kernels, backend)
        tuned = known_actions(self.kernels, backend)
        copy_numbers: dict[tuple[int, UOp], int] = {}
        for k, step in enumerate(schedule.steps):
            buffers = [schedule.buffers[b] for b in step.buffers]
            inputs = {n: b.number for n, b in enumerate(buffers) if n and b.role is Role.INPUT}
            numbers = tuple(n for n, number in inputs.items() if number in constants)
            if all(buffers[n].bytes < MIN_PACKED_BYTES for n in numbers):
                continue
            prepacked = _prepack_kernel(step.kernel, numbers, backend, tuned.get(step.kernel))
            if prepacked is None:
                continue
            self.kernels[k] = prepacked.kernel
            self.scheduled.add(prepacked.kernel)
            for copy in prepacked.copies:
                self.scheduled.add(copy.kernel)  # run once: simple loops compile faster
                source = inputs[copy.source]
                copy_number = copy_numbers.setdefault((source, copy.kernel), len(self.copies))
                if copy_number == len(self.copies):
                    self.copies.append(ConstantCopy(source, copy.size, copy.dtype, copy.axes))
                    self.copy_kernels.append(copy.kernel)
                self.copy_of_parameter[k, copy.number] = copy_number


def _prepack_kernel(
    kernel: UOp, numbers: tuple[int, ...], backend: Backend, actions: Actions | None
) -> PrepackedKernel | None:
    """Return a kernel that reads prepacked copies of some constant buffers; None if it has none."""
    if not numbers:
        return None
    key = (backend.name, kernel, numbers, actions)
    if key not in _packed_kernels:
        from porism.pipeline import prepack_kernel  # loaded where constants are prepacked

        if len(_packed_kernels) >= MAX_KERNELS:
            _packed_kernels.clear()
        try:
            result = prepack_kernel(kernel, backend.target(), numbers, actions)
        except ActionError:  # imported actions may not fit the kernel
            result = None
        _packed_kernels[key] = result
    return _packed_kernels[key]
