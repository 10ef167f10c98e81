"""Kernels for blocks of threads, lowered stage by stage and run on the evaluator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from porism.base.dtypes import DType, Space, i32
from porism.base.gpu import Gpu
from porism.base.gpu_targets import H200
from porism.base.target import Memory, Target
from porism.evaluate import Memory as Cells
from porism.evaluate import run_kernel, run_list
from porism.ir import levels, ops
from porism.ir.axis import Axis
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.lower.expand import expand
from porism.lower.gpu.block_memory import block_memory
from porism.lower.gpu.gpu_dims import gpu_dims, to_blocks
from porism.lower.gpu.group_reduce import group_reduce
from porism.lower.gpu.tensor_core_products import tensor_cores
from porism.lower.linearize import linearize
from porism.lower.local_memory import local_memory
from porism.lower.private_memory import private_memory
from porism.rewrite.graph_rewrite import rewrite
from porism.rules.addresses.index_dtype import lower_index_dtype
from porism.rules.addresses.launch_dims import launch_of
from porism.rules.rule_sets import SYMBOLIC, SYMBOLIC_LATE

CRAMPED = Gpu(
    arch="none",
    isa=0,
    sm_threads=64,
    sm_blocks=4,
    sm_registers=4096,
    sm_shared=4096,
    block_overhead=16,
    clock=1e9,
    bandwidth=1e9,
    fma=1e9,
    tensor_fma=4e9,
)
"""A multiprocessor of few threads, so that a schedule has to choose."""

TINY = Target(
    name="tiny_gpu",
    ops=H200.ops,
    dtypes=H200.dtypes,
    memory=Memory(local=256),
    grid=(4, 3, 2),
    block=(4, 4, 2),
    block_threads=16,
    warp=4,
    predicated_store=True,
    gpu=CRAMPED,
)
"""A GPU with hardly any room."""


SMALL = Target(
    name="small_gpu",
    ops=H200.ops,
    dtypes=H200.dtypes,
    memory=Memory(local=4096),
    grid=(64, 64, 64),
    block=(16, 16, 16),
    block_threads=64,
    warp=4,
    predicated_store=True,
    gpu=CRAMPED,
)
"""A GPU that the evaluator gets through in time."""


def pointer(number: int, size: int, dtype: DType = i32) -> UOp:
    return UOp(ops.PARAM, dtype.pointer(size=size), (), number)


# -- kernels ---------------------------------------------------------------------------------------


def matrix_product(m: int, n: int, k: int, of: DType = i32, to: DType = i32) -> UOp:
    i, j, r = UOp.range(m, 0), UOp.range(n, 1), UOp.range(k, 2, Axis.REDUCE)
    left, right = pointer(1, m * k, of).index(i * k + r), pointer(2, k * n, of).index(r * n + j)
    total = (left.cast(to) * right.cast(to)).reduce(ops.ADD, r)
    return ops.SINK(pointer(0, m * n, to).index(i * n + j).store(total).end(i, j))


def row_sums(m: int, n: int) -> UOp:
    i, r = UOp.range(m, 0), UOp.range(n, 1, Axis.REDUCE)
    total = pointer(1, m * n).index(i * n + r).reduce(ops.ADD, r)
    return ops.SINK(pointer(0, m).index(i).store(total).end(i))


def total_of(n: int) -> UOp:
    """One number: no loop of the output."""
    r = UOp.range(n, 0, Axis.REDUCE)
    total = pointer(1, n).index(r).reduce(ops.MAX, r)
    return ops.SINK(pointer(0, 1).index(UOp.const(r.dtype, 0)).store(total))


def shifted(n: int) -> UOp:
    i = UOp.range(n, 0)
    at = (i >= 1).where(i - 1, UOp(ops.INVALID, i.dtype))
    return ops.SINK(pointer(0, n).index(i).store(pointer(1, n).index(at) + 3).end(i))


def centred(m: int, n: int) -> UOp:
    """Two reductions of a row, the second of the first, and a loop over the row."""
    i, j = UOp.range(m, 0), UOp.range(n, 1)
    r, s = UOp.range(n, 2, Axis.REDUCE), UOp.range(n, 3, Axis.REDUCE)
    x = pointer(1, m * n)
    most = x.index(i * n + r).reduce(ops.MAX, r)
    total = ((x.index(i * n + s) - most) * 3).reduce(ops.ADD, s)
    value = (x.index(i * n + j) - most) * 3 + total
    return ops.SINK(pointer(0, m * n).index(i * n + j).store(value).end(i, j))


def kept_row(m: int, n: int) -> UOp:
    """The same with a row that is computed once, and kept."""
    i, j, k = UOp.range(m, 0), UOp.range(n, 1), UOp.range(n, 2)
    r, s = UOp.range(n, 3, Axis.REDUCE), UOp.range(n, 4, Axis.REDUCE)
    x = pointer(1, m * n)
    most = x.index(i * n + r).reduce(ops.MAX, r)
    row = local(x.index(i * n + k) * 5 - most, k)
    total = row.index(s).reduce(ops.ADD, s)
    value = row.index(n - 1 - j) + total
    return ops.SINK(pointer(0, m * n).index(i * n + j).store(value).end(i, j))


def chained(m: int, n: int, k: int) -> UOp:
    """A sum over rows of what is a product of sums: a row is kept in each step of a reduction."""
    i, j = UOp.range(m, 0), UOp.range(n, 1)
    r, s, t = UOp.range(k, 2, Axis.REDUCE), UOp.range(n, 3, Axis.REDUCE), UOp.range(n, 4)
    x, y = pointer(1, m * k), pointer(2, k * n)
    row = local(x.index(i * k + r) + y.index(r * n + t), t)
    inner = (row.index(s) * (s + 1).cast(i32)).reduce(ops.ADD, s)
    total = (inner * row.index(j)).reduce(ops.ADD, r)
    return ops.SINK(pointer(0, m * n).index(i * n + j).store(total).end(i, j))


def two_outputs(m: int, n: int) -> UOp:
    """Two stores in loops of their own."""
    i, j, r = UOp.range(m, 0), UOp.range(n, 1), UOp.range(m, 2, Axis.REDUCE)
    x = pointer(2, m * n)
    first = pointer(0, m).index(i).store(x.index(i * n) + 1).end(i)
    total = x.index(r * n + j).reduce(ops.ADD, r)
    return ops.SINK(first, pointer(1, n).index(j).store(total).end(j))


def local(value: UOp, *ranges: UOp) -> UOp:
    return UOp(ops.BUFFERIZE, value.dtype, (value, *ranges), Space.LOCAL)


@dataclass(frozen=True)
class Case:
    kernel: UOp
    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    of: DType = i32
    to: DType = i32


def product_case(m: int, n: int, k: int, of: DType, to: DType) -> Case:
    return Case(matrix_product(m, n, k, of, to), (m * n,), (m * k, k * n), of, to)


CASES: Mapping[str, Case] = {
    "product": Case(matrix_product(2, 4, 6), (8,), (12, 24)),
    "odd product": Case(matrix_product(3, 5, 3), (15,), (9, 15)),
    "row sums": Case(row_sums(6, 8), (6,), (48,)),
    "total": Case(total_of(12), (1,), (12,)),
    "shifted": Case(shifted(12), (12,), (12,)),
    "centred": Case(centred(2, 8), (16,), (16,)),
    "kept row": Case(kept_row(2, 8), (16,), (16,)),
    "chained": Case(chained(2, 4, 2), (8,), (4, 8)),
    "two outputs": Case(two_outputs(4, 6), (4, 6), (24,)),
}


# -- lowering --------------------------------------------------------------------------------------

Stage = Callable[[UOp, Target], UOp]

STAGES: Mapping[str, Stage] = {
    "to blocks": to_blocks,
    "private memory": lambda kernel, _: private_memory(kernel),
    "tensor cores": tensor_cores,
    "block memory": block_memory,
    "group reduce": lambda kernel, _: group_reduce(kernel),
    "gpu dims": gpu_dims,
    "masks on loads": lambda kernel, _: rewrite(kernel, SYMBOLIC_LATE),
    "expand": lambda kernel, _: expand(kernel, 16),
    "symbolic on lanes": lambda kernel, _: rewrite(kernel, SYMBOLIC),
    "index dtype": lambda kernel, _: lower_index_dtype(kernel),
}


def started(case: Case) -> UOp:
    """A kernel as actions get it."""
    return local_memory(case.kernel)


def stages(kernel: UOp, target: Target) -> Iterator[tuple[str, UOp]]:
    """The kernel after each stage."""
    for name, stage in STAGES.items():
        kernel = stage(kernel, target)
        yield name, kernel


def lines_of(kernel: UOp, target: Target) -> list[UOp]:
    for _, found in stages(kernel, target):
        kernel = found
    lines = linearize(kernel)
    levels.check_linear(lines, "linearize")
    return lines


def check(case: Case, kernel: UOp, target: Target, expected: Sequence[Array], what: str) -> None:
    """Run a kernel after lowering, its threads in order and in reverse, and compare."""
    graph = dict(stages(kernel, target))["index dtype"]
    lines = linearize(graph)
    levels.check_linear(lines, "linearize")
    # the evaluator has an order of its own for the nodes of a graph
    results = run_graph(case, graph), run_lines(case, lines, reverse=True)
    for result in results:
        for found, wanted in zip(result, expected, strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=what)
    check_launch(lines, target)


def check_launch(lines: Sequence[UOp], target: Target) -> None:
    """Limits of the target are kept."""
    launch = launch_of(lines)
    grid, block = launch.sizes()
    assert all(size <= most for size, most in zip(grid, target.grid, strict=True))
    assert all(size <= most for size, most in zip(block, target.block, strict=True))
    assert math.prod(block) <= target.block_threads
    assert launch.local <= target.memory.local


# -- running ---------------------------------------------------------------------------------------


def data_of(case: Case) -> list[Array]:
    generator = np.random.default_rng(0)
    return [generator.integers(-9, 9, size).astype(case.of.numpy) for size in case.inputs]


def outputs_of(case: Case, run: Callable[[Sequence[Cells]], None]) -> list[Array]:
    """What a run leaves in the outputs, all of which it has to write."""
    buffers = [Cells.empty(case.to, size) for size in case.outputs]
    run([*buffers, *(Cells.of(data) for data in data_of(case))])
    for buffer in buffers:
        assert buffer.written is not None
        assert buffer.written.all()
    return [buffer.data for buffer in buffers]


def run_graph(case: Case, kernel: UOp, *, reverse: bool = False) -> list[Array]:
    return outputs_of(case, lambda buffers: run_kernel(kernel, buffers, reverse=reverse))


def run_lines(case: Case, lines: Sequence[UOp], *, reverse: bool = False) -> list[Array]:
    return outputs_of(case, lambda buffers: run_list(lines, buffers, reverse=reverse))
