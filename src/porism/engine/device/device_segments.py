"""Device segments: programs that use several devices, as programs of one device and copies.

    y = (x * 2).to("cuda") + w      a segment computes x * 2 on the processor
                                    its value is copied
                                    a segment computes the sum on the GPU

A COPY whose source is on another device ends a segment: the source is stored, and what is above
reads the copy. A COPY of a value that is on no device, or on the same one, is no step: the value is
computed there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from porism.engine.device.device_placement import default_device
from porism.engine.run.backend_runners import Prepared, Runner, prepare
from porism.engine.run.buffer_storage import (
    Storage,
    buffer_for_array,
    buffer_for_constant,
    new_placeholder,
    node_storage,
    realized_buffer,
    realized_on,
    record_realized,
    storage_on,
)
from porism.engine.run.program import NOTHING_FIXED, FixedInputs
from porism.engine.run.realize import compute_on, realize, request, schedule_of
from porism.ir import ops
from porism.ir.facts.node_device import device_of
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort


def device_for(node: UOp) -> str:
    """Return the device that computes a value."""
    return device_of(node) or default_device()


def existing_buffer(node: UOp) -> UOp | None:
    """Return the BUFFER of a node that needs no kernel, on the device that would compute it."""
    if node.op is ops.CONST:
        return buffer_for_constant(node, default_device())
    return realized_on(node, device_for(node))


def without_copies(nodes: Sequence[UOp], device: str) -> Sequence[UOp]:
    """Return values of one device without the COPYs in them, none of which moves memory."""
    order = toposort(*nodes, within=lambda node: realized_on(node, device) is None)
    new: dict[UOp, UOp] = {}
    for node in order:
        if node.op is ops.COPY:
            new[node] = new.get(node.src[0], node.src[0])
        elif not new.keys().isdisjoint(node.src):
            new[node] = substitute(node, {s: new[s] for s in node.src if s in new})
    return [_computed(new.get(node, node)) for node in nodes] if new else nodes


def _computed(node: UOp) -> UOp:
    """Return a value that a kernel stores, also if it is in memory already."""
    known = realized_buffer(node) is not None
    return ops.CONTIGUOUS(node, arg="a copy") if known else node


def moving_copies(nodes: Sequence[UOp]) -> list[UOp]:
    """Return the COPYs below some nodes that move memory, and are not done, sources first."""
    order = toposort(*nodes, within=lambda node: realized_buffer(node) is None)
    return [n for n in order if n.op is ops.COPY and device_of(n.src[0]) not in (None, n.arg)]


# -- at once ---------------------------------------------------------------------------------------


def compute_on_devices(nodes: Sequence[UOp]) -> list[UOp]:
    """Return the BUFFERs of nodes: move what they need, and let each device compute its own."""
    pending = moving_copies(nodes)
    while pending:
        ready = [copy for copy in pending if not moving_copies([copy.src[0]])]
        sources = realize([copy.src[0] for copy in ready])
        for copy, source in zip(ready, sources, strict=True):
            array, address = storage_on(node_storage(source), copy.arg)
            record_realized(
                copy, buffer_for_array(copy.dtype, source.src, array, address, copy.arg)
            )
        pending = moving_copies(nodes)
    found = {node: buffer for node in nodes if (buffer := realized_buffer(node)) is not None}
    found = {node: b for node, b in found.items() if b.arg[1] == device_for(node)}
    by_device: dict[str, list[UOp]] = {}
    for node in nodes:
        if node not in found:
            by_device.setdefault(device_for(node), []).append(node)
    for device, group in by_device.items():
        found.update(zip(group, compute_on(device, group), strict=True))
    return [found[node] for node in nodes]


# -- as a program ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Segment:
    """A step of a program: kernels of one device, or a copy to one."""

    device: str
    run: Runner | None
    """What computes values; None of a copy."""
    inputs: tuple[int, ...]
    """The numbers of the values that it reads."""
    variables: Mapping[str, int]
    """The symbolic sizes that are bound in it."""


@dataclass(frozen=True, slots=True)
class SegmentedProgram:
    """The values of some nodes, computed by several devices."""

    buffers: tuple[UOp, ...]
    """The BUFFERs that are its inputs, in their order: values 0, 1, …"""
    variables: dict[str, int]
    segments: tuple[Segment, ...]
    """Each adds its results to the values."""
    outputs: tuple[int, ...]
    """The number of the value of each node."""

    def call(
        self,
        inputs: Sequence[Storage],
        variables: Mapping[str, int],
        fixed: FixedInputs = NOTHING_FIXED,
        overwritten: Collection[int] = (),
    ) -> list[Storage]:
        """Run all segments on inputs; return the values of the nodes."""
        values = list(inputs[: len(self.buffers)])
        for segment in self.segments:
            given = [storage_on(values[k], segment.device) for k in segment.inputs]
            if segment.run is None:
                values += given
            else:
                values += segment.run(given, {**segment.variables, **variables})
        return [values[k] for k in self.outputs]

    def prepared(self, constants: frozenset[int] = frozenset()) -> Prepared:
        """Return the program as a jitted function runs it."""
        return Prepared(self.call, lambda _: [], constants, (), {})


def needs_segments(nodes: Sequence[UOp]) -> bool:
    """Return whether nodes are computed by several devices."""
    return len({device_for(node) for node in nodes}) > 1 or bool(moving_copies(nodes))


def segmented_program(nodes: Sequence[UOp]) -> SegmentedProgram:
    """Return the program that computes nodes on the devices that they are on."""
    builder = _Builder()
    targets = list(nodes)
    while copies := moving_copies(targets):
        ready = [copy for copy in copies if not moving_copies([copy.src[0]])]
        sources = [copy.src[0] for copy in ready]
        numbers = builder.compute(sources)
        replacements = {}
        for copy, number in zip(ready, numbers, strict=True):
            stand_in = new_placeholder(copy.dtype, shape(copy), copy.arg)
            builder.copy(number, copy.arg, stand_in)
            replacements[copy] = stand_in
        sink = substitute(ops.SINK(*targets), replacements)
        targets = list(sink.src)
    return builder.program(builder.compute(targets))


class _Builder:
    """Segments, with numbers for their values that are given out at the end."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, Runner | None, list[UOp], Mapping[str, int]]] = []
        self._made: dict[UOp, UOp] = {}
        """The stand-in of each value that a segment computes."""
        self._results: list[list[UOp]] = []
        self.variables: dict[str, int] = {}

    def compute(self, nodes: Sequence[UOp]) -> list[UOp]:
        """Add segments that compute nodes; return the BUFFERs that stand for them."""
        by_device: dict[str, list[UOp]] = {}
        for node in dict.fromkeys(nodes):
            if realized_buffer(node) is None and node not in self._made:
                by_device.setdefault(device_for(node), []).append(node)
        for device, group in by_device.items():
            wanted = request(group, device)
            schedule = schedule_of(wanted.graph, (), device)
            results = [new_placeholder(n.dtype, shape(n), device) for n in group]
            run = prepare(schedule, device=device).run
            self._steps.append((device, run, list(wanted.buffers), wanted.variables))
            self._results.append(results)
            self.variables.update(wanted.variables)
            self._made.update(zip(group, results, strict=True))
        return [self._made[n] if n in self._made else _buffer_of(n) for n in nodes]

    def copy(self, source: UOp, device: str, result: UOp) -> None:
        """Add a copy of a value to a device."""
        self._steps.append((device, None, [source], {}))
        self._results.append([result])

    def program(self, outputs: Sequence[UOp]) -> SegmentedProgram:
        """Return the program, whose inputs are the BUFFERs that no segment makes."""
        made = {b for results in self._results for b in results}
        used = [b for _, _, buffers, _ in self._steps for b in buffers]
        inputs = tuple(dict.fromkeys(b for b in (*used, *outputs) if b not in made))
        number: dict[UOp, int] = {buffer: k for k, buffer in enumerate(inputs)}
        for results in self._results:
            for result in results:
                number[result] = len(number)
        segments = tuple(
            Segment(device, run, tuple(number[b] for b in buffers), variables)
            for device, run, buffers, variables in self._steps
        )
        return SegmentedProgram(inputs, self.variables, segments, tuple(number[b] for b in outputs))


def _buffer_of(node: UOp) -> UOp:
    buffer = realized_buffer(node)
    assert buffer is not None
    return buffer
