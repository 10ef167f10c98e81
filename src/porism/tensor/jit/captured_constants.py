"""Captured constants: tensors that a jitted function uses and does not assign to, such as weights.

Subgraphs that depend on constants alone are computed once, and weights are packed once, until one
of the tensors is assigned to. A value is identified by the number of its BUFFER, which is unique;
memory that is overwritten gets another BUFFER. So a call only compares numbers.

Memory that a tensor shares with other code may change at any time. What depends on such a tensor is
computed in every call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from porism.base.device_use import HOST
from porism.engine.run import array_allocator
from porism.engine.run.backend_runners import Prepared, Runner
from porism.engine.run.buffer_storage import (
    NoValue,
    Storage,
    device_name_of,
    find_storage,
    node_storage,
    storage_on,
)
from porism.engine.run.program import FixedInputs
from porism.engine.run.realize import realize
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.schedule.schedule import Schedule
from porism.tensor.jit.tracing import no_value
from porism.tensor.tensor import Tensor

NO_ARRAY: Final = np.empty(0)
"""Stands for an array that is kept alive elsewhere."""


def storage_of(tensor: Tensor) -> Storage:
    """Return the array and the address of a tensor's values, computed if need be."""
    storage = find_storage(tensor._node)
    if storage is not None:
        return storage
    try:
        buffer = realize([tensor._node])[0]
        if all(dim.op is ops.CONST for dim in shape(tensor._node)):
            tensor._node = buffer
        return node_storage(buffer)
    except NoValue:
        raise no_value() from None


def owns_memory(tensor: Tensor) -> bool:
    """Whether no other code can write to the values of a tensor."""
    storage = find_storage(tensor._node)
    if storage is None:
        return True  # it will be computed into memory of its own
    return array_allocator.is_pool_array(storage[0])


@dataclass(frozen=True, slots=True)
class CallConstants:
    """What a call needs besides its arguments, derived from certain values of the constants."""

    buffer_numbers: list[Any]
    """The numbers of the BUFFERs that hold those values."""
    inputs: list[Any]
    """The inputs of the program; None where each call has its own."""
    fixed: FixedInputs
    """Constants packed in the order in which the kernels read them, and which inputs vary."""
    program: Prepared | None
    """The program that the packed constants are for."""


@dataclass(frozen=True, slots=True)
class ConstantProgram:
    """The program that computes what depends on constants alone."""

    schedule: Schedule | None
    """The kernels; None of a program of several devices."""
    run: Runner
    sources: list[int | Storage]
    """Of each input, which of the constant tensors it is, or its storage."""
    targets: list[int]
    """Of each output, the input of the main program that it becomes."""
    sizes: list[int]
    """Of each output, its bytes."""
    device: str | None
    """The device that runs it; None of a program of several."""


@dataclass(slots=True, eq=False)
class CapturedConstants:
    """The constant tensors of a replay, and what was computed from them."""

    tensors: list[Tensor]
    input_count: int
    """How many inputs the program has."""
    inputs: list[tuple[int, int]]
    """Inputs of the program, and which of the tensors each is."""
    literals: list[tuple[int, Storage]]
    """Inputs of the program that never change."""
    constant_program: ConstantProgram | None
    program: Prepared | None
    """What runs in each call; None if there is nothing to compute."""
    precomputed: frozenset[int]
    """Those of the tensors from which something is computed or packed once."""
    device: str | None = HOST
    """The device of the program; None if it uses several."""
    latest: CallConstants | None = field(default=None, init=False)
    """The latest result, unless one of those tensors shares memory that may change unseen."""

    def is_current(self) -> bool:
        """Whether all tensors have the values from which the latest result was computed."""
        latest = self.latest
        return latest is not None and latest.buffer_numbers == [t._node.arg for t in self.tensors]

    def current(self) -> tuple[CallConstants, list[UOp]]:
        """Return what the present values give, and their BUFFERs, to be kept alive in the call."""
        nodes = [tensor._node for tensor in self.tensors]
        latest = self.latest
        if (
            latest is not None
            and latest.program is self.program
            and latest.buffer_numbers == [node.arg for node in nodes]
        ):
            return latest, nodes
        return self._recompute()

    def _recompute(self) -> tuple[CallConstants, list[UOp]]:
        """Run the constant program and pack constants anew."""
        nodes = [_buffer(tensor) for tensor in self.tensors]
        values = [node_storage(node) for node in nodes]
        inputs: list[Any] = [None] * self.input_count
        for number, literal in self.literals:
            inputs[number] = literal
        for number, which in self.inputs:
            inputs[number] = values[which]
            if self.device is not None:  # what moves by itself is moved once
                inputs[number] = storage_on(values[which], self.device)
        constant_program, program = self.constant_program, self.program
        if constant_program is not None:
            sources = [values[s] if isinstance(s, int) else s for s in constant_program.sources]
            if constant_program.device is not None:
                sources = [storage_on(source, constant_program.device) for source in sources]
            outputs = constant_program.run(sources, {})
            for number, output in zip(constant_program.targets, outputs, strict=True):
                inputs[number] = output
        packs = program.pack(inputs) if program is not None else ()
        varying = frozenset(number for number, storage in enumerate(inputs) if storage is None)
        for number, which in self.inputs:
            if self.device == HOST == device_name_of(values[which]):
                inputs[number] = (NO_ARRAY, values[which][1])
        fixed = FixedInputs(packs, varying)
        latest = CallConstants([node.arg for node in nodes], inputs, fixed, program)
        owned = all(array_allocator.is_pool_array(values[k][0]) for k in self.precomputed)
        self.latest = latest if owned else None
        return latest, nodes


def _buffer(tensor: Tensor) -> UOp:
    """Return the BUFFER with the values of a tensor of static shape, computed if need be."""
    node = tensor._node
    while find_storage(node) is None:
        storage_of(tensor)
        node = tensor._node
    return node
