"""One suite for all backends: what they compute is what the evaluator says, bit by bit."""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.backends.backend_table import Backend
from porism.base import dtypes
from porism.base.dtypes import DType, boolean, f32, f64, i32
from porism.base.errors import EvaluationError
from porism.base.settings import settings
from porism.engine.run.program import Program
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.lower.decompose.decompose import decompose
from porism.lower.decompose.decomposition_options import Machine
from porism.lower.linearize import linearize
from porism.pipeline import KERNEL_STAGES, lower_kernel, schedule_graph
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
from tests.graphs import examples, kernels, tensor_graphs
from tests.schedule.test_stages import arrays_for
from tests.tiers import quick_if
from tests.watching import same

SCALARS: Final = [d for d in dtypes.scalars() if d is not dtypes.index]
WIDE: Final = [d for d in SCALARS if not (d.is_float and d.bits < 32)]
"""The types that a CPU computes in; the others are decomposed."""

SUMMED: Final = [*WIDE, dtypes.f16]
"""The types whose sums of a few small numbers are nearly the same in every order."""

TRANSCENDENTAL: Final = frozenset(op for op in ops.table() if op.approximate)
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
        actual = [b.copy() for b in buffers]
        call(functions[name], actual)
        compare(name, named[name], expected, actual)


def compare(name: str, lines: Sequence[UOp], expected: Data, actual: Data) -> None:
    zeros = any(n.op in EITHER_ZERO for n in lines)
    for number, (a, b) in enumerate(zip(expected, actual, strict=True)):
        same_bits(a, b, f"{name}, buffer {number}", zeros=zeros)


# -- every op on every type, in scalars and vectors ------------------------------------------------


def computed_ops(dtype: DType) -> Iterator[Op]:
    for op in ops.table():
        if not op.elementwise or op is ops.THREEFRY or op in TRANSCENDENTAL:
            continue
        try:
            applied(op, [UOp.const(dtype, 1)] * 3)
        except Exception:
            continue
        yield op


def applied(op: Op, values: Sequence[UOp]) -> UOp:
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


def op_kernel(op: Op, dtype: DType, width: int, size: int) -> UOp:
    """Parameter 0 = an op of the others."""
    return elementwise_kernel(lambda values: applied(op, values), dtype, width, size)


def elementwise_kernel(
    make: Callable[[list[UOp]], UOp], dtype: DType, width: int, size: int
) -> UOp:
    """Parameter 0 = what is made of the elements of parameters 1, 2, 3."""
    i = UOp.range(UOp.const(i32, size // width), 0)
    sources = [pointer(k, dtype, size) for k in (1, 2, 3)]
    value = make([s.index(i * width, dtype=dtype.vec(width)) for s in sources])
    out = pointer(0, value.dtype.element, size)
    return ops.SINK(out.index(i * width, dtype=value.dtype).store(value).end(i))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", SCALARS, ids=str)
@pytest.mark.parametrize("width", [1, 4, 16, 3])
def test_every_op(backend: Backend, dtype: DType, width: int) -> None:
    data, size = operands(dtype, width)
    cases = {}
    for op in computed_ops(dtype):
        kernel = op_kernel(op, dtype, width, size)
        out = next(n for n in toposort(kernel) if n.op is ops.PARAM and n.arg == 0)
        result = np.zeros(size, out.dtype.element.numpy)
        cases[f"kernel_{op.name}"] = (kernel, [result, *data])
    assert len(cases) > 10
    check(backend, cases)


# -- conversions -----------------------------------------------------------------------------------


def conversion_kernel(op: Op, source: DType, target: DType, width: int, size: int) -> UOp:
    i = UOp.range(UOp.const(i32, size // width), 0)
    value = pointer(1, source, size).index(i * width, dtype=source.vec(width))
    value = op(value, dtype=target.vec(width))
    out = pointer(0, target, size)
    return ops.SINK(out.index(i * width, dtype=value.dtype).store(value).end(i))


def one_way(source: DType, size: int) -> Array:
    return np.resize(special_values(source), size)


@pytest.mark.slow
@pytest.mark.parametrize("source", SCALARS, ids=str)
@pytest.mark.parametrize("width", [1, 8])
def test_every_cast(backend: Backend, source: DType, width: int) -> None:
    cases = {
        f"kernel_{target.name}": (
            conversion_kernel(ops.CAST, source, target, width, 48),
            [np.zeros(48, target.numpy), one_way(source, 48)],
        )
        for target in SCALARS
        if target is not source
    }
    check(backend, cases)


@pytest.mark.parametrize("source", SCALARS, ids=str)
@pytest.mark.parametrize("width", [1, 8])
def test_every_bitcast(backend: Backend, source: DType, width: int) -> None:
    cases = {
        f"kernel_{target.name}": (
            conversion_kernel(ops.BITCAST, source, target, width, 48),
            [np.zeros(48, target.numpy), one_way(source, 48)],
        )
        for target in SCALARS
        if target.numpy.itemsize == source.numpy.itemsize and boolean not in (source, target)
    }
    if source is not boolean:
        check(backend, cases)


# -- memory: wide, repeated, scattered, under conditions -------------------------------------------

ACCESS_WIDTHS: Final = (1, 2, 3, 4, 8, 16, 32)


def lanes(width: int, numbers: Sequence[int]) -> UOp:
    if width == 1:
        return UOp.const(i32, numbers[0])
    return UOp(ops.VCONST, i32.vec(width), (), tuple(numbers))


def spread(value: UOp, width: int) -> UOp:
    return value if width == 1 else UOp(ops.VECTORIZE, None, (value,) * width)


def access_kernels(dtype: DType, width: int) -> Iterator[tuple[str, UOp, int]]:
    """Kernels that copy parameter 1 to 0 in all ways of access, and how many elements there are."""
    rounds = 3
    size = rounds * width
    i = UOp.range(UOp.const(i32, rounds), 0)
    vector = dtype.vec(width)
    out, given, truths = pointer(0, dtype, size), pointer(1, dtype, size), pointer(2, boolean, size)
    start = i * width
    each = spread(start, width) + lanes(width, range(width))
    back = lanes(width, range(size - 1, size - 1 - width, -1)) - spread(start, width)
    some = truths.index(start, dtype=boolean.vec(width))
    one = truths.index(start, dtype=boolean)
    inside = each < size - width - 1
    wide = given.index(start, dtype=vector)

    def kernel(place: UOp, value: UOp) -> UOp:
        return ops.SINK(place.store(value).end(i))

    whole = out.index(start, dtype=vector)
    yield "wide", kernel(whole, wide), size
    yield "gathered", kernel(whole, given.index(back, dtype=vector)), size
    yield "scattered", kernel(out.index(back, dtype=vector), wide), size
    yield "gated_load", kernel(whole, given.index(start, one, dtype=vector)), size
    yield "gated_store", kernel(out.index(start, one, dtype=vector), wide), size
    beyond = each + width  # outside where the gate is closed
    yield "masked_gather", kernel(whole, given.index(beyond, inside, dtype=vector)), size
    yield "masked_scatter", kernel(out.index(beyond, inside, dtype=vector), wide), size
    yield "masked_store", kernel(out.index(start, some, dtype=vector), wide), size
    yield "masked_load", kernel(whole, given.index(start, some, dtype=vector)), size
    if width > 1:
        middle = UOp(ops.VECTORIZE, None, tuple(wide.gep(k) for k in reversed(range(width))))
        yield "reversed", kernel(whole, middle), size
        yield "shuffled", kernel(whole, wide.gep(*(k * 3 % width for k in range(width)))), size
        one_lane = spread(wide.gep(width - 1), width)
        yield "repeated", kernel(whole, some.where(one_lane, wide)), size


@pytest.mark.slow
@pytest.mark.parametrize("dtype", SCALARS, ids=str)
def test_every_access(backend: Backend, dtype: DType) -> None:
    cases = {}
    for width in ACCESS_WIDTHS:
        for name, kernel, size in access_kernels(dtype, width):
            start = random_data(dtype, size, 3)
            data = [start, random_data(dtype, size, width), random_data(boolean, size, width)]
            cases[f"{name}{width}"] = (kernel, data)
    check(backend, cases)


MASKS: Final = {
    "first": lambda lane, width: lane == 0,
    "middle": lambda lane, width: lane == width // 2,
    "last": lambda lane, width: lane == width - 1,
    "some": lambda lane, width: lane < width // 2 + 1,
    "odd": lambda lane, width: lane % 2 == 1,
    "all": lambda lane, width: True,
    "none": lambda lane, width: False,
}
"""Which lanes a constant mask leaves open."""


@pytest.mark.parametrize(
    "source",
    quick_if(lambda dtype: dtype is dtypes.i16, [dtypes.i16, i32, dtypes.i64, f32, dtypes.f64]),
    ids=str,
)
def test_narrowed_values_are_stored_by_constant_masks(backend: Backend, source: DType) -> None:
    """A compiler may join a conversion with the store after it, lane by lane."""
    cases = {}
    for dtype in (d for d in SCALARS if d.bits < source.bits and d.is_float == source.is_float):
        for width, (name, is_open) in itertools.product((2, 4, 8, 16, 32), MASKS.items()):
            place = UOp.const(i32, 1)
            value = pointer(1, source, width).index(UOp.const(i32, 0), dtype=source.vec(width))
            gate = tuple(is_open(lane, width) for lane in range(width))
            mask = UOp(ops.VCONST, boolean.vec(width), (), gate)
            stored = pointer(0, dtype, width + 8).index(place, mask, dtype=dtype.vec(width))
            kernel = ops.SINK(stored.store(value.cast(dtype.vec(width))))
            data = [random_data(dtype, width + 8, 3), one_way(source, width)]
            cases[f"{dtype}_{name}{width}"] = (kernel, data)
    check(backend, cases)


def test_memory_beyond_a_closed_gate_is_not_touched(backend: Backend) -> None:
    """The buffers end where pages end that may not be touched."""
    width, size = 16, 24
    i = UOp.range(UOp.const(i32, 2), 0)
    each = spread(i * width, width) + lanes(width, range(width))
    inside = each < size
    value = pointer(1, f32, size).index(i * width, inside, dtype=f32.vec(width))
    kernel = ops.SINK(pointer(0, f32, size).index(i * width, inside, dtype=value.dtype)
                      .store(value).end(i))  # fmt: skip
    function = loaded(backend, {"kernel": lowered(kernel, backend)})["kernel"]
    given = at_the_end_of_a_page(size)
    given[:] = np.arange(size)
    actual = at_the_end_of_a_page(size)
    call(function, [actual, given])
    np.testing.assert_array_equal(actual, given)


def test_memory_beyond_a_constant_gate_is_not_touched(backend: Backend) -> None:
    """A compiler may replace lanes that it knows to be closed by a wider access and a blend.

    It does so in kernels that are too large to be inlined, hence the many loads.
    """
    for width, count in ((32, 20), (32, 31), (16, 12), (16, 3), (8, 5), (4, 3)):
        kind, size = f32.vec(width), count + 15
        gate = UOp(ops.VCONST, boolean.vec(width), (), tuple(k < count for k in range(width)))
        starts = [UOp.const(i32, k) for k in range(16)]
        parts = [pointer(1, f32, size).index(start, gate, dtype=kind) for start in starts]
        total = functools.reduce(lambda a, b: a.minimum(b * a), parts)
        kernel = ops.SINK(
            pointer(0, f32, width).index(starts[0], dtype=kind).store(total),
            pointer(2, f32, count).index(starts[0], gate, dtype=kind).store(total),
        )
        function = loaded(backend, {"kernel": lowered(kernel, backend)})["kernel"]
        whole, given, stored = map(at_the_end_of_a_page, (width, size, count))
        given[:] = np.linspace(0.5, 1.5, size)
        call(function, [whole, given, stored])
        expected = given[:count]
        for k in range(1, 16):
            expected = np.minimum(expected, given[k : k + count] * expected)
        np.testing.assert_array_equal(stored, expected)
        np.testing.assert_array_equal(whole, [*expected, *[0] * (width - count)])


def at_the_end_of_a_page(size: int) -> Array:
    """Floats behind which there is memory that must not be touched."""
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    _KEPT.append(area)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(start + page, page, 0) == 0
    whole = np.frombuffer(area, np.float32, count=page // 4)
    return whole[page // 4 - size :]


_KEPT: Final[list[mmap.mmap]] = []


# -- kernels of the pipeline -----------------------------------------------------------------------


def buffers_for(kernel: UOp, seed: int) -> Data:
    actual: dict[int, Array] = {}
    for node in toposort(kernel):
        if node.op is ops.PARAM:
            actual[node.arg] = random_data(
                node.dtype.element, max(node.dtype.size, 1), seed + node.arg
            )
    return [actual.get(k, np.zeros(1, np.uint8)) for k in range(max(actual, default=-1) + 1)]


def exact(kernel: UOp) -> bool:
    """Whether what a kernel computes does not hang on the order of float operations."""
    return not any(
        (n.op is ops.REDUCE and n.dtype.is_float and n.arg in (ops.ADD, ops.MUL))
        or (n.op in TRANSCENDENTAL and n.dtype.is_float)
        for n in toposort(kernel)
    )


def finished(kernel: UOp) -> UOp:
    """A kernel after the stages that every kernel goes through."""
    for stage in KERNEL_STAGES:
        kernel = stage.run(kernel)
    return kernel


@pytest.mark.slow
@examples(40)
@given(st.lists(kernels(types=SCALARS), min_size=4, max_size=8), st.integers(0, 1000))
def test_random_kernels(backend: Backend, drawn: list[UOp], seed: int) -> None:
    """Bit by bit what the evaluator computes of the kernel as it was drawn."""
    chosen = [kernel for kernel in drawn if exact(kernel)]
    target = backend.target()
    named = {
        f"kernel{k}": lower_kernel(finished(kernel), target) for k, kernel in enumerate(chosen)
    }
    functions = loaded(backend, named)
    for name, kernel in zip(named, chosen, strict=True):
        buffers = buffers_for(kernel, seed)
        try:
            expected = evaluated(kernel, buffers)
        except EvaluationError:
            continue  # a kernel without a meaning
        actual = [b.copy() for b in buffers]
        call(functions[name], actual)
        compare(name, named[name], expected, actual)


@pytest.mark.slow
@examples(40)
@given(st.lists(tensor_graphs(types=SUMMED), min_size=4, max_size=8), st.integers(0, 1000))
def test_random_tensor_programs(backend: Backend, roots: list[UOp], seed: int) -> None:
    for root in roots:
        check_program(backend, root, arrays_for(root, seed))


@examples(20)
@given(tensor_graphs(empty=True), st.integers(0, 1000))
def test_empty_tensor_programs(backend: Backend, root: UOp, seed: int) -> None:
    check_program(backend, root, arrays_for(root, seed))


def check_program(backend: Backend, root: UOp, data: Mapping[int, Array]) -> None:
    sink = ops.SINK(root)
    with np.errstate(all="ignore"):
        expected = evaluate(sink, data)[0]
        schedule = schedule_graph(sink)
        inputs = [
            np.ascontiguousarray(data.get(k, np.zeros(0))).reshape(-1)
            for k in range(max(data, default=-1) + 1)
        ]
        actual = Program(schedule, backend).run(inputs, {})[0]
    same(backend.name, expected, actual.reshape(expected.shape))


# -- sizes around the widths of vectors, threads, symbolic sizes -----------------------------------

SIZES: Final = range(1, 41)
TAIL_TYPES: Final = (
    dtypes.f32,
    dtypes.f64,
    dtypes.i8,
    dtypes.u16,
    dtypes.i64,
    boolean,
    dtypes.bf16,
)


def tail_kernels(dtype: DType, size: int) -> Iterator[tuple[str, UOp]]:
    i, k = UOp.range(size, 0), UOp.range(size, 1, Axis.REDUCE)
    out, given = pointer(0, dtype, size), pointer(1, dtype, size * size)
    plus = ops.OR if dtype is boolean else ops.ADD
    times = ops.AND if dtype is boolean else ops.MUL
    yield "copy", ops.SINK(out.index(i).store(given.index(i)).end(i))
    yield "backwards", ops.SINK(out.index(i).store(given.index(size - 1 - i)).end(i))
    row = given.index(i * size + k)
    yield "rows", ops.SINK(out.index(i).store(row.reduce(plus, k)).end(i))
    column = given.index(k * size + i)
    yield "columns", ops.SINK(out.index(i).store(column.reduce(plus, k)).end(i))
    product = times(row, given.index(k))
    yield "products", ops.SINK(out.index(i).store(product.reduce(plus, k)).end(i))
    largest = row.reduce(ops.MAX, k)
    yield "largest", ops.SINK(out.index(i).store(largest).end(i))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TAIL_TYPES, ids=str)
def test_tails(backend: Backend, dtype: DType) -> None:
    named, cases = {}, {}
    for size in SIZES:
        data = [small_numbers(dtype, size, 1), small_numbers(dtype, size * size, 2)]
        for name, kernel in tail_kernels(dtype, size):
            named[f"{name}{size}"] = lower_kernel(kernel, backend.target())
            cases[f"{name}{size}"] = (kernel, data)
    functions = loaded(backend, named)
    for name, (kernel, buffers) in cases.items():
        actual = [b.copy() for b in buffers]
        call(functions[name], actual)
        compare(name, named[name], evaluated(kernel, buffers), actual)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads(backend: Backend, threads: int) -> None:
    """A loop that is shared among threads leaves the same, however it is cut."""
    sizes = [UOp.const(dtypes.index, n) for n in (300, 211)]
    a, b = (UOp(ops.PARAM, f32, tuple(sizes), k) for k in range(2))
    total = UOp(ops.REDUCE_AXIS, None, (a * b + a,), (ops.ADD, (1,)))
    generator = np.random.default_rng(0)
    data = {k: generator.integers(-4, 5, (300, 211)).astype(np.float32) for k in range(2)}
    with settings.override(threads=threads):
        check_program(backend, a * b + a, data)
        check_program(backend, total, data)


def test_a_shared_loop_can_be_cut_anywhere(backend: Backend) -> None:
    i = UOp.range(UOp.const(i32, 100), 0, Axis.THREAD)
    value = pointer(1, f64, 100).index(i) * 3.0
    kernel = ops.SINK(pointer(0, f64, 100).index(i).store(value).end(i))
    function = loaded(backend, {"kernel": lowered(kernel, backend)})["kernel"]
    given = np.arange(100.0)
    for parts in (1, 3, 7, 100, 101):
        actual = np.zeros(100)
        call(function, [actual, given], parts=parts)
        np.testing.assert_array_equal(actual, given * 3)


def test_variables_are_given_at_run_time(backend: Backend) -> None:
    n = UOp.variable("n", 0, 40)
    i = UOp.range(n, 0)
    kernel = ops.SINK(pointer(0, f32, 40).index(i).store(pointer(1, f32, 40).index(i)).end(i))
    function = loaded(backend, {"kernel": lower_kernel(kernel, backend.target())})["kernel"]
    given = np.arange(40, dtype=np.float32)
    for size in (0, 1, 17, 40):
        actual = np.full(40, -1, np.float32)
        call(function, [actual, given], {"n": size})
        np.testing.assert_array_equal(actual[:size], given[:size])
        assert (actual[size:] == -1).all()
