"""Kernel references: what a kernel should store, computed from the graph that it was made from.

A reference has data for the buffers that a kernel reads, and the value of any element of the buffer
that it writes. What a kernel reads from other kernels is synthetic data as well, so that each
kernel is compared alone, and errors do not accumulate along a program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np

from porism.base.dtypes import DType
from porism.evaluate import Memory
from porism.evaluate.evaluation import needs_steps
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.schedule import assignments
from porism.schedule.rangeify.rangeify import Ranged
from porism.schedule.schedule import Call
from porism.verification.values import partial_runs, synthetic_inputs
from porism.verification.values.element_indices import Indices
from porism.verification.values.element_values import ElementEvaluator
from porism.verification.values.rounding_bounds import Bounded
from porism.verification.values.synthetic_inputs import MAX_ELEMENTS, TooLarge

MAX_ITERATIONS: Final = 1 << 22
"""Iterations of a kernel that are enumerated to find which of them store some elements."""


class Reference(Protocol):
    """The expected results of a kernel, with data for its inputs."""

    complete: bool
    """Whether all elements of the output buffer must be stored."""

    @property
    def round_number(self) -> int:
        """The number of the round, which determines the synthetic data."""
        ...

    @property
    def variables(self) -> Mapping[str, int]:
        """The values of the variables."""
        ...

    @property
    def dtype(self) -> DType:
        """The element type of the output buffer."""
        ...

    @property
    def size(self) -> int:
        """The number of elements of the output buffer."""
        ...

    @property
    def inputs(self) -> Mapping[int, Array]:
        """The buffers that are read, by the numbers of their parameters."""
        ...

    def expected(self, addresses: Array) -> Bounded:
        """Return the expected elements at some addresses of the output buffer."""
        ...

    def stored(self) -> Array:
        """Return a mask of the elements of the output buffer that are stored."""
        ...


class TensorReference:
    """A kernel beside the part of the tensor graph that it computes."""

    complete = True

    def __init__(
        self, graph: UOp, ranged: Ranged, call: Call, round_number: int, *, alone: bool
    ) -> None:
        """Unless `alone`, the results of other kernels are computed instead of synthetic."""
        self.variables = synthetic_inputs.variables((graph, ranged.sink), round_number)
        self.round_number = round_number
        self.tensors = ranged.tensors
        self.root = call.values[0]
        self.stages: Sequence[tuple[str, Ranged]] = ()
        """The ranged graph after each stage on it."""
        given = {n: self._parameter(n) for n in toposort(graph) if n.op is ops.PARAM}
        self.memory: dict[UOp, Array] = dict(given)
        self.sizes = ElementEvaluator({}, self.variables)
        self.dtype = self.root.dtype.element
        self.size = math.prod(self.sizes.dims(self.root))
        if self.size > MAX_ELEMENTS:
            raise TooLarge
        for value in call.values[1:]:
            if alone and value in self.tensors:
                self._invent(value)
        self.inputs = {k: self._known(v) for k, v in enumerate(call.values) if k}

    def _parameter(self, node: UOp) -> Array:
        size = math.prod(ElementEvaluator({}, self.variables).dims(node))
        return synthetic_inputs.numbers(
            node.dtype.element, size, self.round_number, f"input {node.arg}"
        )

    def _invent(self, value: UOp) -> None:
        """Make synthetic data for a value that another kernel stores."""
        tensor = self.tensors[value]
        size = math.prod(self.sizes.dims(value))
        label = f"value {list(self.tensors).index(value)}"
        low, high = float(tensor.vmin), float(tensor.vmax)
        data = synthetic_inputs.numbers(
            value.dtype.element, size, self.round_number, label, low, high
        )
        self.memory[value] = self.memory[tensor] = data

    def _known(self, value: UOp) -> Array:
        """Return data for a value that the kernel reads; computed if it is not synthetic."""
        if value not in self.memory:
            dims = self.sizes.dims(value)
            elements = (
                ElementEvaluator(dict(self.memory), self.variables).value(value, _grid(dims)).data
            )
            data = np.ascontiguousarray(np.broadcast_to(elements, dims)).reshape(-1)
            self.memory[value] = data.astype(value.dtype.numpy)
        return self.memory[value]

    def expected(self, addresses: Array) -> Bounded:
        tensor = self.tensors.get(self.root)
        node = self.root if tensor is None else tensor
        indices = _unflatten(addresses, self.sizes.dims(node))
        return ElementEvaluator(self.memory, self.variables).value(node, indices)

    def stored(self) -> Array:
        return np.ones(self.size, np.bool_)

    def in_ranges(self, ranged: Ranged, addresses: Array) -> Bounded | None:
        """Return the same elements, as the ranged graph after another stage has them."""
        tensor = self.tensors.get(self.root)
        ranged_values = [b for b, t in ranged.tensors.items() if t is tensor]
        if tensor is None or not ranged_values:
            return None
        materialized = {b: self.memory[t] for b, t in ranged.tensors.items() if t in self.memory}
        indices = _unflatten(addresses, self.sizes.dims(ranged_values[0]))
        return ElementEvaluator({**self.memory, **materialized}, self.variables).value(
            ranged_values[0], indices
        )


class AssignmentReference:
    """The kernel that copies a value to its target, compared with the view that is assigned."""

    complete = False

    def __init__(self, assign: UOp, round_number: int) -> None:
        self.round_number = round_number
        self.variables = synthetic_inputs.variables((assign,), round_number)
        elements = ElementEvaluator({}, self.variables)
        base = assignments.overwritten_buffer(assign)
        self.dtype = base.dtype.element
        self.size = math.prod(elements.dims(base))
        dims = elements.dims(assign.src[0])
        count = math.prod(dims)
        self.inputs = {1: synthetic_inputs.numbers(self.dtype, count, round_number, "assigned")}
        here = ElementEvaluator({base: np.arange(self.size)}, self.variables)
        view = assign.src[0]
        at = np.arange(count) if view is base else here.value(view, _grid(dims)).data
        self.sources = np.full(self.size, -1)
        self.sources[np.broadcast_to(at, dims).reshape(-1) if view is not base else at] = np.arange(
            count
        )

    def expected(self, addresses: Array) -> Bounded:
        return Bounded(self.inputs[1][self.sources[addresses]])

    def stored(self) -> Array:
        return self.sources >= 0


class KernelReference:
    """A kernel as it was before its loops were scheduled."""

    complete = True

    def __init__(
        self,
        kernel: UOp,
        round_number: int,
        sizes: Mapping[int, int] | None = None,
        like: Reference | None = None,
    ) -> None:
        """Use the data of another reference, if one is given."""
        self.kernel = kernel
        self.round_number = round_number
        self.variables = (
            synthetic_inputs.variables((kernel,), round_number) if like is None else like.variables
        )
        pointers = {int(n.arg): n for n in toposort(kernel) if n.op is ops.PARAM}
        self.pointers = pointers
        known = sizes or {}
        if like is not None:
            known = {**known, **{k: data.size for k, data in like.inputs.items()}}
        lengths = {k: known.get(k, p.dtype.size) for k, p in pointers.items()}
        if min(lengths.values()) < 0:
            raise TooLarge  # the size of a buffer is not known
        self.dtype, self.size = pointers[0].dtype.element, lengths[0]
        self.inputs = {
            k: synthetic_inputs.numbers(p.dtype.element, lengths[k], round_number, f"buffer {k}")
            for k, p in pointers.items() if k
        } if like is None else like.inputs  # fmt: skip
        self._stored: tuple[dict[UOp, Array], Array] | None = None
        self._whole: Array | None = None

    def expected(self, addresses: Array) -> Bounded:
        nodes = toposort(self.kernel)
        stores = [n for n in nodes if n.op is ops.STORE]
        if len(stores) != 1 or needs_steps(nodes):
            return Bounded(self._run()[addresses])
        memory = {p: self.inputs[k] for k, p in self.pointers.items() if k}
        elements = ElementEvaluator(memory, self.variables)
        if self._stored is None:
            self._stored = self._iterations(elements, stores[0])
        ranges, order = self._stored
        at = order[addresses]
        chosen = {r: values[at] for r, values in ranges.items()}
        return elements.value(stores[0].src[1], (), chosen)

    def stored(self) -> Array:
        return np.ones(self.size, np.bool_)

    def _iterations(self, elements: ElementEvaluator, store: UOp) -> tuple[dict[UOp, Array], Array]:
        """Return the values of the loops in all iterations, and the iteration of each address."""
        ranges = [r for n in toposort(self.kernel) if n.op is ops.END for r in n.src[1:]]
        if any(r.src[0].ranges for r in ranges):
            raise TooLarge
        extents = [elements.number(r.src[0]) for r in ranges]
        count = math.prod(extents)
        if count > MAX_ITERATIONS:
            raise TooLarge
        flat = np.arange(count)
        values: dict[UOp, Array] = {}
        for r, extent in zip(reversed(ranges), reversed(extents), strict=True):
            values[r] = flat % max(extent, 1)
            flat = flat // max(extent, 1)
        addresses = elements.value(store.src[0].src[1], (), values)
        address = np.broadcast_to(addresses.data, (count,))
        active = np.ones(count, np.bool_) if addresses.missing is None else ~addresses.missing
        order = np.zeros(self.size, np.int64)
        order[address[active]] = np.arange(count)[active]
        return values, order

    def _run(self) -> Array:
        """Return everything that the kernel stores, interpreted."""
        if self._whole is None:
            written = Memory(np.zeros(self.size, self.dtype.numpy))
            if not partial_runs.run(self.kernel, self.buffers(written), self.variables):
                raise TooLarge
            self._whole = written.data
        return self._whole

    def buffers(self, written: Memory) -> list[Memory]:
        """Return the buffers by number."""
        return buffers_of(self, written)


def buffers_of(reference: Reference, written: Memory) -> list[Memory]:
    """Return the memory of a kernel by the numbers of its parameters."""
    count = max(reference.inputs, default=0) + 1
    nothing = np.zeros(0, np.float32)
    return [
        Memory(reference.inputs.get(k, nothing)) if k else written for k in range(count)
    ]  # fmt: skip


def _grid(dims: Sequence[int]) -> Indices:
    return tuple(np.ogrid[tuple(slice(n) for n in dims)])


def _unflatten(addresses: Array, dims: Sequence[int]) -> Indices:
    """Return the indices of elements along each axis from their flat addresses."""
    indices: list[Array] = []
    for size in reversed(dims):
        indices.append(addresses % max(size, 1))
        addresses = addresses // max(size, 1)
    return tuple(reversed(indices))
