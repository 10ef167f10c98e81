"""Tensor core action: a matrix product by the tensor core instruction of the target.

    TC("r0", "r1", "r2")    the loops m (rows), n (columns) and k (reduction axis)

Rows and columns are distributed over the threads of a warp as the instruction requires, and k is
split into the part that one instruction does, a loop of the kind WARP that a REDUCE closes:

    rows      r0_0 * m + r0_1 * 8 + r0_2         r0_2: the 8 rows of a warp
    columns   r1_0 * 8 + r1_3 * 2 + r1_1         r1_3: the 4 columns of a warp
    k         r2_0 * k + r2_1                    r2_1: in one instruction

The kernel computes the same as before. Lowering emits the instruction
(`lower.gpu.tensor_core_products`).
"""

from __future__ import annotations

from dataclasses import dataclass

from porism.base.target import Target, TensorCore
from porism.ir import fragments, ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.gpu.thread_block_actions import ThreadBlockAction
from porism.optimize.actions.loop_substitution import replace_loop
from porism.rules.addresses.grid_dims import block_limit_problem, has_independent_iterations
from porism.rules.reductions.matrix_products import match_matrix_product, tensor_core_for


@dataclass(frozen=True)
class TC(ThreadBlockAction):
    """Compute a matrix product by tensor cores."""

    rows: str
    columns: str
    k: str

    def apply(self, kernel: UOp, target: Target) -> UOp:
        rows, columns, k = (self.loop(kernel, name) for name in (self.rows, self.columns, self.k))
        self.require_threads(kernel, target)
        for loop in (rows, columns):
            self.require_kind(loop, (Axis.LOOP, Axis.GLOBAL))
            if not has_independent_iterations(kernel, loop):
                raise self.refuse(
                    "the rows or columns depend on each other",
                    "several write one element, or one reads what another writes",
                    "leave this kernel as it is",
                )
        self.require_kind(k, (Axis.REDUCE,))
        core = self._core(kernel, target, rows, columns, k)
        for loop, amount in ((rows, core.m), (columns, core.n), (k, core.k)):
            self.divisible_extent(loop, amount)
        kernel = _split_to_fragments(kernel, rows, columns, k, core)
        misfit = block_limit_problem(kernel, target)
        if misfit is not None:
            raise self.refuse(*misfit, "apply it before Local, or with smaller amounts of Local")
        return kernel

    def _core(self, kernel: UOp, target: Target, rows: UOp, columns: UOp, k: UOp) -> TensorCore:
        """Return the tensor core for the one reduction over `k`."""
        reductions = [n for n in toposort(kernel) if n.op is ops.REDUCE and k in n.src[1:]]
        product = (
            match_matrix_product(reductions[0], [rows], [columns]) if len(reductions) == 1 else None
        )
        if product is None:
            raise self.refuse(
                f"{self.k} is not the reduction axis of a matrix product",
                f"one sum of products is, of what depends on {self.rows} and not on "
                f"{self.columns}, and of what depends on {self.columns} and not on {self.rows}",
                "choose other loops",
            )
        if any(r.arg[1] is Axis.GROUP for r in reductions[0].src[1:]):
            raise self.refuse(
                "the reduction is that of a group of threads", "a warp does it", "leave Group out"
            )
        core = tensor_core_for(product, reductions[0], target)
        if core is None:
            kinds = sorted({f"{c.dtype_in} → {c.dtype_out}" for c in target.tensor_cores})
            raise self.refuse(
                f"no tensor core multiplies {product.left.dtype} and {product.right.dtype} "
                f"to {reductions[0].dtype}",
                f"the target {target.name} has {', '.join(kinds) or 'none'}",
                "convert the factors, or leave the loops as they are",
            )
        return core


def _split_to_fragments(kernel: UOp, rows: UOp, columns: UOp, k: UOp, core: TensorCore) -> UOp:
    """Split the loops of a product into the parts of one instruction, by threads of a warp."""
    copies = core.m // fragments.WARP_ROWS
    kernel = _split_in_parts(
        kernel,
        rows,
        core.m,
        [(1, copies, fragments.WARP_ROWS, Axis.UPCAST), (2, fragments.WARP_ROWS, 1, Axis.WARP)],
    )
    kernel = _split_in_parts(
        kernel, columns, core.n, [(3, fragments.WARP_COLUMNS, 2, Axis.WARP), (1, 2, 1, Axis.UPCAST)]
    )
    return _split_in_parts(kernel, k, core.k, [(1, core.k, 1, Axis.WARP)])


def _split_in_parts(
    kernel: UOp, loop: UOp, amount: int, parts: list[tuple[int, int, int, Axis]]
) -> UOp:
    """Split a loop into one around others: (the end of its name, extent, stride, kind) of each."""
    axis, kind = loop.arg
    outer = UOp.range(int(loop.src[0].arg) // amount, (*axis, 0), kind)
    value, loops = outer * amount, [outer]
    if int(outer.src[0].arg) == 1:
        value, loops = UOp.const(loop.dtype, 0), []
    for last, extent, stride, part_kind in parts:
        if extent > 1:
            loops.append(UOp.range(extent, (*axis, last), part_kind))
            value = value + loops[-1] * stride
    return replace_loop(kernel, loop, value, loops)
