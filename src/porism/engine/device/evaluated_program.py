"""Evaluated program: a schedule that the evaluator runs on the memory of a fake device."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from porism.engine.device.device import Device, DeviceError
from porism.engine.device.fake_device import FakeDevice
from porism.engine.run import reference_runner
from porism.engine.run.buffer_storage import Storage
from porism.engine.run.program import NOTHING_FIXED, FixedInputs
from porism.schedule.schedule import Schedule


class EvaluatedProgram:
    """A schedule, which the evaluator runs one kernel after the other."""

    def __init__(self, schedule: Schedule, device: Device) -> None:
        if not isinstance(device, FakeDevice):
            raise DeviceError(
                f"the evaluator cannot run on the device {device.name!r}",
                why="it computes in the memory of the processor",
                fix="unset PORISM_BACKEND, or move the tensors to the device 'cpu'",
            )
        self.schedule = schedule
        self.device = device

    def call(
        self,
        inputs: Sequence[Storage],
        variables: Mapping[str, int],
        fixed: FixedInputs = NOTHING_FIXED,
        overwritten: Collection[int] = (),
    ) -> list[Storage]:
        """Run on memory of the device; return the outputs."""
        device = self.device
        arrays: list[Any] = [array for array, _ in inputs]
        with device.opened():
            views = [device.view(a.address, a.size, a.dtype) for a in arrays]
            results = reference_runner.run(self.schedule, views, variables)
        return [device.store(result) for result in results]
