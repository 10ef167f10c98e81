"""One suite for all backends: what they compute is what the evaluator says, bit by bit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.backends.table import BACKENDS, Backend
from porism.base import dtypes
from porism.base.dtypes import DType, Kind, Space, boolean, f32, f64, i32
from porism.base.settings import settings
from porism.engine.program import Program
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.ops import Group, Op
from porism.ir.semantics import Array
from porism.ir.walk import toposort
from porism.lower.decompose import decompose
from porism.lower.linearize import linearize
from porism.lower.machine import Machine
from porism.pipeline import to_lines, to_schedule
from tests.backends.running import (
    NATIVE,
    Data,
    call,
    evaluated,
    loaded,
    pointer,
    random_data,
    same_bits,
    small_numbers,
    special_values,
)
from tests.graphs import examples, kernels, linear_kernels, tensor_graphs
from tests.schedule.test_stages import arrays_for, same

SCALARS: Final = [d for d in dtypes.scalars() if d is not dtypes.index]
WIDE: Final = [d for d in SCALARS if not (d.is_float and d.bits < 32)]
"""The types that a CPU computes in; the others are decomposed."""

TRANSCENDENTAL: Final = frozenset({ops.EXP2, ops.LOG2, ops.SIN, ops.POW})
EITHER_ZERO: Final = frozenset({ops.MAX, ops.MIN})
"""Of two zeros of different sign these may give either."""

pytestmark = pytest.mark.parametrize("backend", NATIVE)


def lowered(kernel: UOp, backend: Backend) -> list[UOp]:
    """A kernel with lanes, in what the machine has."""
    return linearize(decompose(kernel, Machine(target=backend.target())))


Case = tuple[UOp, Data]
"""A kernel with lanes, and its buffers."""


def check(backend: Backend, cases: Mapping[str, Case]) -> None:
    """Run kernels by name, and compare all buffers with those of the evaluator."""
    named = {name: lowered(kernel, backend) for name, (kernel, _) in cases.items()}
    functions = loaded(backend, named)
    for name, (kernel, buffers) in cases.items():
        expected = evaluated(kernel, buffers)
        found = [b.copy() for b in buffers]
        call(functions[name], found)
        compare(name, named[name], expected, found)


def compare(name: str, lines: Sequence[UOp], expected: Data, found: Data) -> None:
    zeros = any(n.op in EITHER_ZERO for n in lines)
    for number, (a, b) in enumerate(zip(expected, found, strict=True)):
        same_bits(a, b, f"{name}, buffer {number}", zeros=zeros)


# -- every op on every type, in scalars and vectors ------------------------------------------------


def computed_ops(dtype: DType) -> Iterator[Op]:
    for op in ops.table():
        if not op.elementwise or op is ops.THREEFRY or op in TRANSCENDENTAL:
            continue
        try:
            _applied(op, [UOp.const(dtype, 1)] * 3)
        except Exception:
            continue
        yield op


def _applied(op: Op, values: Sequence[UOp]) -> UOp:
    if op is ops.WHERE:
        return UOp(op, None, (values[0].ne(values[1]), values[1], values[2]))
    return UOp(op, None, tuple(values[: op.arity]))


def operands(dtype: DType, width: int) -> tuple[Data, int]:
    """All pairs of special values, with a third one beside each; whole vectors of them."""
    values = special_values(dtype)
    pairs = np.array(list(itertools.product(range(len(values)), repeat=2)))
    pairs = np.resize(pairs, (-(-len(pairs) // width) * width, 2))
    thirds = np.roll(pairs[:, 0], 5)
    return [values[pairs[:, 0]], values[pairs[:, 1]], values[thirds]], len(pairs)


def elementwise_kernel(
    make: Callable[[list[UOp]], UOp], dtype: DType, width: int, size: int
) -> UOp:
    """Parameter 0 = what is made of the elements of parameters 1, 2, 3."""
    i = UOp.range(UOp.const(i32, size // width), 0)
    sources = [pointer(k, dtype, size) for k in (1, 2, 3)]
    value = make([s.index(i * width, dtype=dtype.vec(width)) for s in sources])
    out = pointer(0, value.dtype.element, size)
    return ops.SINK(out.index(i * width, dtype=value.dtype).store(value).end(i))


@pytest.mark.parametrize("dtype", SCALARS, ids=str)
@pytest.mark.parametrize("width", [1, 4, 16, 3])
def test_every_op(backend: Backend, dtype: DType, width: int) -> None:
    data, size = operands(dtype, width)
    cases = {}
    for op in computed_ops(dtype):
        kernel = elementwise_kernel(lambda values, op=op: _applied(op, values), dtype, width, size)
        out = next(n for n in toposort(kernel) if n.op is ops.PARAM and n.arg == 0)
        result = np.zeros(size, out.dtype.element.numpy)
        cases[f"kernel_{op.name}"] = (kernel, [result, *data])
    assert len(cases) > 10
    check(backend, cases)
