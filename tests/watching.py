"""Watching: a pipeline run in which every kernel is evaluated after each of its stages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from porism.base.dtypes import DType, Kind
from porism.evaluate import Memory, run_arrays, run_kernel, run_list
from porism.evaluate.evaluation import needs_steps
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.levels import KERNEL, LANES, THREADS, WORDS, Level
from porism.ir.node import UOp
from porism.ir.traversal import toposort


def numbers(generator: np.random.Generator, dtype: DType, size: int) -> Array:
    """Small numbers of a type, so that sums of floats are exact."""
    if dtype.kind is Kind.BOOL:
        return generator.integers(0, 2, size).astype(np.bool_)
    low = 0 if dtype.kind is Kind.UNSIGNED else -4
    return generator.integers(low, 5, size).astype(dtype.numpy)


def same(what: str, expected: Array, found: Array, *, rounded_once: bool = False) -> None:
    """Equal, where rounding in another order is allowed for floats.

    With `rounded_once`, reductions of small floats may be rounded only at the end: they overflow
    on the way in one and not in the other, so what is not finite is not compared.
    """
    assert found.dtype == expected.dtype, what
    if expected.dtype.kind in "fV":
        a, b = expected.astype(np.float64), found.astype(np.float64)
        if rounded_once and expected.dtype.itemsize <= 2:
            a, b = a[np.isfinite(a)], b[np.isfinite(a)]
        np.testing.assert_allclose(b, a, rtol=2e-2, atol=1e-3, err_msg=what)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=what)


class Kernels:
    """Compares a kernel after each stage with what it was when it came."""

    def __init__(self, seed: int, first: str) -> None:
        self.generator = np.random.default_rng(seed)
        self.first = first
        """The stage at which a new kernel begins."""
        self.data: dict[int, Array] = {}
        self.expected: Array | None = None
        self.stages = 0

    def see(self, name: str, level: Level, graph: UOp) -> None:
        """To be given to `porism.pipeline.watched`."""
        if level not in (KERNEL, THREADS, LANES, WORDS):
            return
        if name == self.first:
            self.begin(graph)
        else:
            self.stages += 1
            same(name, self.wanted, self.result(graph), rounded_once=True)

    @property
    def wanted(self) -> Array:
        assert self.expected is not None
        return self.expected

    def begin(self, kernel: UOp) -> None:
        pointers = [n for n in toposort(kernel) if n.op is ops.PARAM]
        self.sizes = {n.arg: n.dtype for n in pointers}
        self.data = {
            number: numbers(self.generator, t.element, t.size)
            for number, t in self.sizes.items()
            if number
        }
        self.expected = self.result(kernel)

    def result(self, kernel: UOp) -> Array:
        """What a kernel writes."""
        order = toposort(kernel)
        buffers = self.buffers(order)
        if needs_steps(order):
            run_kernel(kernel, buffers)
        else:
            run_arrays(kernel, buffers)
        return buffers[0].data.view(self.sizes[0].element.numpy)

    def check_lines(self, lines: Sequence[UOp]) -> None:
        """The same of a linear list."""
        buffers = self.buffers(lines)
        run_list(lines, buffers)
        written = buffers[0].data.view(self.sizes[0].element.numpy)
        same("linearize", self.wanted, written, rounded_once=True)

    def buffers(self, order: Sequence[UOp]) -> list[Memory]:
        """The memory behind the parameters, in the types that they have at this stage."""
        types = {n.arg: n.dtype.element for n in order if n.op is ops.PARAM}
        rest = []
        for number in range(1, max(self.sizes) + 1):
            data = self.data.get(number, np.zeros(0)).copy()
            rest.append(Memory.of(data.view(types[number].numpy) if number in types else data))
        return [Memory.empty(types[0], self.sizes[0].size), *rest]
