"""Device program: a schedule that runs on a device with memory of its own.

It takes and returns storages as `engine.run.program.Program` does, which runs on the processor. The
temporaries share an arena, as the memory plan says; the arguments of all kernels are words of
*launches*, and a run sets only those that have changed.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from porism.backends.backend_table import Backend
from porism.base.settings import settings
from porism.engine.device.device import Device, Launches
from porism.engine.profile import kernel_observer
from porism.engine.run.argument_block import lay_out_arguments
from porism.engine.run.bound_sizes import element_count, evaluate_size
from porism.engine.run.buffer_storage import Storage
from porism.engine.run.program import (
    NOTHING_FIXED,
    FixedInputs,
    compile_schedule,
    in_place_outputs,
    output_order,
    variable_names,
    words_by_role,
)
from porism.schedule.schedule import Role, Schedule

BYTES: Final = np.dtype(np.uint8)

MOST_SIZES: Final = 4096
"""Values of the variables for which a program keeps sizes, chosen by hand."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run, for some values of the variables."""

    variables: tuple[int, ...]
    outputs: tuple[int, ...]
    """The elements of each output."""
    shared: tuple[int, ...]
    """The iterations of the parallel loop of each kernel; 1 if it has none."""
    temporaries: tuple[tuple[int, int], ...]
    """Offsets in the arena, and the argument words that hold the addresses."""
    arena: int
    """Bytes of the arena."""


class Bound:
    """Launches, and the values of their argument words."""

    __slots__ = ("launches", "sizes", "values")

    def __init__(self, launches: Launches, words: int) -> None:
        self.launches = launches
        self.values: list[int | None] = [None] * words
        self.sizes: Sizes | None = None

    def set_word(self, word: int, value: int) -> None:
        """Set an argument unless it has that value already."""
        if self.values[word] != value:
            self.values[word] = value
            self.launches.set_word(word, value)


class DeviceProgram:
    """A compiled schedule that can be run repeatedly on a device."""

    def __init__(self, schedule: Schedule, device: Device, backend: Backend) -> None:
        self.schedule = schedule
        self.device = device
        self.backend = backend
        with settings.override(beam=0):  # candidates are only timed on the processor
            compiled = compile_schedule(schedule, backend, NONE)
        self.functions = compiled.functions
        layout = lay_out_arguments(schedule, compiled)
        self._layout = layout
        words_of = words_by_role(schedule, layout)
        self.inputs = [(b.number, word) for b, words in words_of[Role.INPUT] for word in words]
        """PARAM number and argument word of each use of an input."""
        self.outputs = words_of[Role.OUTPUT]
        self.temporaries = [(b.number, word) for b, ws in words_of[Role.TEMPORARY] for word in ws]
        """Number and argument word of each use of a temporary."""
        self.output_order = output_order(schedule)
        self.in_place = in_place_outputs(schedule)
        """Outputs by number, and the numbers of the inputs in whose memory they may be written."""
        self.is_recent = True
        """Whether it was used since unused programs were last evicted."""
        self.variable_names = tuple(sorted(variable_names(schedule)))
        self._sizes: dict[tuple[int, ...], Sizes] = {}
        self._idle: list[Bound] = []
        self._lock = threading.Lock()

    def call(
        self,
        inputs: Sequence[Storage],
        variables: Mapping[str, int],
        fixed: FixedInputs = NOTHING_FIXED,
        overwritten: Collection[int] = (),
    ) -> list[Storage]:
        """Run on memory of the device; return the outputs.

        Some outputs, by the numbers of `in_place`, overwrite the inputs that they replace.
        """
        bound = self._take()
        values = tuple([variables[name] for name in self.variable_names])
        sizes = self._sizes.get(values) or self._new_sizes(values, variables)
        if bound.sizes is not sizes:
            bound.sizes = sizes
            bound.launches.set_shared(sizes.shared, variables)
            for word, name in self._layout.variables:
                bound.set_word(word, variables[name])
        for number, word in self.inputs:
            bound.set_word(word, inputs[number][1])
        outputs: list[Storage] = []
        for size, (buffer, words) in zip(sizes.outputs, self.outputs, strict=True):
            if overwritten and len(outputs) in overwritten:
                outputs.append(inputs[self.in_place[len(outputs)]])
            else:
                outputs.append(self.device.allocate(size, buffer.dtype.numpy))
            for word in words:
                bound.set_word(word, outputs[-1][1])
        arena = self._arena(bound, sizes) if sizes.arena else None
        self._run(bound, variables)
        del arena  # it was in use until here: what frees it comes after the kernels
        self._idle.append(bound)
        return outputs if self.output_order is None else [outputs[k] for k in self.output_order]

    def _take(self) -> Bound:
        """Return launches that no other run uses."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        launches = self.device.build(self.schedule, self._layout, self.functions)
        return Bound(launches, self._layout.word_count)

    def _new_sizes(self, values: tuple[int, ...], variables: Mapping[str, int]) -> Sizes:
        parallel = [function.parallel for function in self.functions]
        plan = self.schedule.arena
        sizes = Sizes(
            values,
            tuple(element_count(buffer, variables) for buffer, _ in self.outputs),
            tuple(1 if size is None else evaluate_size(size, variables) for size in parallel),
            tuple((plan.offsets[number], word) for number, word in self.temporaries),
            plan.peak if self.temporaries else 0,
        )
        if len(self._sizes) >= MOST_SIZES:
            self._sizes.clear()
        self._sizes[values] = sizes
        return sizes

    def _arena(self, bound: Bound, sizes: Sizes) -> Storage:
        """Return memory for the temporaries, and set their addresses."""
        arena = self.device.allocate(sizes.arena, BYTES)
        for offset, word in sizes.temporaries:
            bound.set_word(word, arena[1] + offset)
        return arena

    def _run(self, bound: Bound, variables: Mapping[str, int]) -> None:
        if not kernel_observer.is_observed():
            bound.launches.run()
            return

        def run_one(number: int) -> tuple[()]:
            bound.launches.run_one(number)
            return ()  # its threads are not the host's

        values = {name: variables[name] for name in self.variable_names}
        kernel_observer.run_observed(self.schedule, self.backend, values, run_one)


NONE: Final = frozenset[int]()
