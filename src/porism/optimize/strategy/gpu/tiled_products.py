"""Tiled products: loop schedules on a GPU of kernels with the form of a matrix product.

    rows      m_0 a block, m_1_0 the threads or warps of the tile, m_1_1 in the registers of one
    columns   likewise; the elements of a thread are vectors that its neighbours continue
    k         k_0 the steps, in each of which both strips are copied to shared memory; k_1 unrolled

Extents that no tile divides are padded. Where a tensor core of the target multiplies the types of
the operands, a part of the tile is done by its instruction (`TC`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from porism.base.errors import ActionError
from porism.base.target import Target, TensorCore
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.gpu.shared_tile import Stage
from porism.optimize.actions.gpu.tensor_core_action import TC
from porism.optimize.actions.gpu.thread_block_actions import Local
from porism.optimize.actions.loops.loop_tiling import Split
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.analysis.buffer_loads import loads_of
from porism.optimize.analysis.contraction_accesses import Contraction, Operand, match_contraction
from porism.optimize.analysis.loop_strides import access_stride, extent_of, trip_count
from porism.optimize.strategy.gpu.thread_plan import ThreadPlan, name_of, power_divisor
from porism.optimize.strategy.gpu.tile_shapes import TileShape, estimated_seconds, tile_shapes
from porism.rules.reductions.matrix_products import match_matrix_product, tensor_core_for

MIN_EXTENT: Final = 8
"""Rows, columns and k from which on a product is tiled: fewer are bound by memory."""

MAX_SHAPES: Final = 4
"""Shapes that are tried, the best estimate first, before the product is left untiled."""

UNROLLED_PRODUCTS: Final = 512
"""Multiply-adds of a thread that are unrolled: of more, operands no longer fit in registers."""

SHARED_PADDING: Final = 16
"""Bytes after each row of a strip: an access of a thread, so that columns are in other banks."""


@dataclass(frozen=True)
class _Product:
    """The loops and operands of a product."""

    rows: UOp
    columns: UOp
    k: UOp
    left: Operand
    """The operand that depends on the rows."""
    right: Operand
    batch: int
    """Iterations of the other output loops."""


def plan_product(kernel: UOp, target: Target) -> ThreadPlan | None:
    """Return a plan for a kernel that is a product of matrices; None for another one."""
    contraction = match_contraction(kernel)
    product = None if contraction is None else _product(contraction)
    if contraction is None or product is None:
        return None
    k_count = trip_count(contraction.k_loops)
    sizes = (product.batch, extent_of(product.rows), extent_of(product.columns), k_count)
    cores = [None] if (core := _core(kernel, target, product)) is None else [core, None]
    for found in cores:
        itemsize = product.left.load.dtype.numpy.itemsize
        threads = range(target.warp, target.block_threads + 1)
        shapes = [s for s in tile_shapes(target, found) if s.threads in threads]
        shapes.sort(key=lambda s: estimated_seconds(s, target, sizes, itemsize))
        for shape in shapes[:MAX_SHAPES]:
            plan = ThreadPlan(kernel, target)
            try:
                _apply(plan, product, shape)
            except ActionError:  # the kernel has more in it, or an extent cannot be padded so far
                continue
            return plan
    return None


def _product(contraction: Contraction) -> _Product | None:
    """Return the rows, columns and k of a contraction of two operands that both are reused."""
    operands = [o for o in contraction.operands if o.ranges & set(contraction.k_loops)]
    if len(operands) != 2 or contraction.reductions != 1:
        return None
    own = [o.ranges & set(contraction.outputs) for o in operands]
    stored = [r for r in contraction.outputs if contraction.is_stored_along(r)]
    for right, left in ((1, 0), (0, 1)):
        columns = [r for r in contraction.outputs if r in own[right] - own[left]]
        rows = [r for r in contraction.outputs if r in own[left] - own[right]]
        k = [r for r in contraction.k_loops if all(r in o.ranges for o in operands)]
        if not columns or not rows or not k:
            return None
        if stored and stored[0] in rows:
            continue  # the columns are what is stored contiguously
        column = stored[0] if stored and stored[0] in columns else max(columns, key=extent_of)
        row, inner = max(rows, key=extent_of), max(k, key=extent_of)
        if min(map(extent_of, (row, column, inner))) < MIN_EXTENT:
            return None
        if any(r.src[0].op is not ops.CONST for r in (row, column, inner)):
            return None
        batch = trip_count(r for r in contraction.outputs if r not in (row, column))
        return _Product(row, column, inner, operands[left], operands[right], batch)
    return None


def _core(kernel: UOp, target: Target, product: _Product) -> TensorCore | None:
    """Return the tensor core that multiplies the types of a product, or None."""
    node = next(n for n in toposort(kernel) if n.op is ops.REDUCE and product.k in n.src[1:])
    matched = match_matrix_product(node, [product.rows], [product.columns])
    return None if matched is None else tensor_core_for(matched, node, target)


# -- applying a shape ------------------------------------------------------------------------------

Parts = dict[str, int]
"""Loops, each with its stride in iterations of the loop that they were split from."""


def _apply(plan: ThreadPlan, product: _Product, shape: TileShape) -> None:
    """Apply the actions of a shape; raise ActionError if it does not fit."""
    m, n, k = (name_of(r) for r in (product.rows, product.columns, product.k))
    plan.pad(m, shape.block_rows)
    plan.pad(n, shape.block_columns)
    plan.pad(k, shape.depth)
    if shape.core is not None:
        rows, columns, depth = _apply_core(plan, (m, n, k), shape, shape.core)
    else:
        rows, columns, depth = _apply_threads(plan, (m, n, k), shape)
    for operand, across in ((product.left, rows), (product.right, columns)):
        _stage(plan, operand, across, depth, shape)
    step = next(iter(depth))
    if shape.core is None:
        each = min(plan.extent(step), UNROLLED_PRODUCTS // (shape.part_rows * shape.part_columns))
        plan.do(Unroll(step, max(each, 2)))
    elif len(depth) > 1:
        plan.do(Unroll(step, plan.extent(step)))


def _split(plan: ThreadPlan, axis: str, amount: int) -> str:
    """Split off the iterations of a block; return the name of the loop over them."""
    if plan.extent(axis) == amount:
        return axis
    plan.do(Split(axis, amount))
    return f"{axis}_1"


def _distribute(plan: ThreadPlan, axis: str, threads: int) -> str | None:
    """Run all iterations of a loop by threads; return its new name, None if there is one thread."""
    if threads == 1:
        return None
    plan.do(Local(axis, threads))
    return f"{axis}_1"


def _apply_threads(
    plan: ThreadPlan, axes: tuple[str, str, str], shape: TileShape
) -> tuple[Parts, Parts, Parts]:
    """Tile by threads that multiply and add; return the parts of rows, columns and k."""
    m, n, k = axes
    m = _split(plan, m, shape.block_rows)
    rows: Parts = {}
    plan.do(Upcast(m, shape.part_rows))
    rows[f"{m}_1"] = 1
    local = _distribute(plan, f"{m}_0", shape.rows)
    if local is not None:
        rows[local] = shape.part_rows
    n = _split(plan, n, shape.block_columns)
    lanes, columns = min(shape.part_columns, 4), Parts()
    plan.do(Upcast(n, lanes))
    columns[f"{n}_1"] = 1
    n = f"{n}_0"
    if shape.part_columns > lanes:
        plan.do(Upcast(n, shape.part_columns // lanes, top=True))
        columns[f"{n}_1"] = lanes * shape.columns
        n = f"{n}_0"
    local = _distribute(plan, n, shape.columns)
    if local is not None:
        columns[local] = lanes
    return rows, columns, {_split(plan, k, shape.depth): 1}


def _apply_core(
    plan: ThreadPlan, axes: tuple[str, str, str], shape: TileShape, core: TensorCore
) -> tuple[Parts, Parts, Parts]:
    """Tile by warps with a tensor core; return the parts of rows, columns and k."""
    m, n, k = axes
    before = set(plan.loops())
    plan.do(TC(m, n, k))
    new = set(plan.loops()) - before
    rows = {f"{m}_1": 8, f"{m}_2": 1}
    columns = {f"{n}_3": 2, f"{n}_1": 1}
    for axis, count, size, parts, warps in (
        (m, shape.part_rows // core.m, core.m, rows, shape.rows),
        (n, shape.part_columns // core.n, core.n, columns, shape.columns),
    ):
        outer = f"{axis}_0"
        if outer in new and count > 1:
            plan.do(Upcast(outer, count))
            parts[f"{outer}_1"] = size
            outer = f"{outer}_0"
        if outer in plan.loops() and warps > 1:
            plan.do(Local(outer, warps))
            parts[f"{outer}_1"] = size * count
    depth = {f"{k}_1": 1}
    if shape.depth > core.k:
        depth = {_split(plan, f"{k}_0", shape.depth // core.k): core.k, **depth}
    loops = plan.loops()
    return ({a: s for a, s in rows.items() if a in loops}, columns, depth)


def _stage(
    plan: ThreadPlan, operand: Operand, across: Parts, depth: Parts, shape: TileShape
) -> None:
    """Copy a strip of an operand to shared memory in each step."""
    buffer, itemsize = operand.buffer, operand.load.dtype.numpy.itemsize
    lines, steps = _sum(across), _sum(depth)
    first = next(iter(across))
    number, load = next(
        (number, load)
        for number, load in enumerate(loads_of(plan.kernel, buffer))
        if plan.loop(first) in load.ranges
    )
    along_k = plan.loop(next(reversed(depth)))
    is_k_contiguous = _has_unit_stride(load, along_k)
    axes = (lines, steps) if shape.core is not None and is_k_contiguous else (steps, lines)
    extent = shape.depth if is_k_contiguous else _extent(plan, across)
    vector = power_divisor(extent, max(16 // itemsize, 1))
    padding = max(SHARED_PADDING // itemsize, 1)
    unit = is_k_contiguous or any(_has_unit_stride(load, plan.loop(a)) for a in across)
    for width in (vector, 1) if unit and vector > 1 else (1,):
        if plan.attempt(Stage(buffer, axes, shape.threads, width, padding, number)):
            return


def _extent(plan: ThreadPlan, parts: Parts) -> int:
    """Return how many values the sum of some loops has."""
    return 1 + sum((plan.extent(axis) - 1) * stride for axis, stride in parts.items())


def _has_unit_stride(load: UOp, loop: UOp) -> bool:
    """Return whether a load is contiguous along a loop."""
    return access_stride(load.src[1], loop) == 1


def _sum(parts: Parts) -> str:
    """Return a sum of loops as the action Stage names it."""
    return "+".join(axis if stride == 1 else f"{stride}*{axis}" for axis, stride in parts.items())
