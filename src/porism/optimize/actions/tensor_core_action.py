"""Tensor cores: a matrix product by the instruction that the target has for it.

    TC("r0", "r1", "r2")    rows, columns, and the loop of the sum

Rows and columns are split among the threads of a warp as the instruction wants them, and the sum
into the part that one instruction does, a range of the kind WARP that a REDUCE closes:

    rows      r0_0 * m + r0_1 * 8 + r0_2         r0_2: the 8 rows of a warp
    columns   r1_0 * 8 + r1_3 * 2 + r1_1         r1_3: the 4 columns of a warp
    sum       r2_0 * k + r2_1                    r2_1: in one instruction

The kernel says the same as before. Lowering makes the instruction of it (`lower.tensor_cores`).
"""

from __future__ import annotations

from dataclasses import dataclass

from porism.base.target import Target, TensorCore
from porism.ir import fragments, ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.block_actions import BlockAction
from porism.optimize.actions.loop_transforms import replaced
from porism.rules.addresses.grid_dims import is_independent, problem
from porism.rules.reductions.matrix_products import core_for, product_of


@dataclass(frozen=True)
class TC(BlockAction):
    """A matrix product by tensor cores."""

    rows: str
    columns: str
    terms: str

    def apply(self, kernel: UOp, target: Target) -> UOp:
        rows, columns, terms = (
            self.loop(kernel, name) for name in (self.rows, self.columns, self.terms)
        )
        self.need_threads(kernel, target)
        for counter in (rows, columns):
            self.need_kind(counter, (Axis.LOOP, Axis.GLOBAL))
            if not is_independent(kernel, counter):
                raise self.refuse(
                    "the rows or columns depend on each other",
                    "several write one element, or one reads what another writes",
                    "leave this kernel as it is",
                )
        self.need_kind(terms, (Axis.REDUCE,))
        core = self._core(kernel, target, rows, columns, terms)
        for counter, size in ((rows, core.m), (columns, core.n), (terms, core.k)):
            self.divided(counter, size)
        kernel = _split(kernel, rows, columns, terms, core)
        wrong = problem(kernel, target)
        if wrong is not None:
            raise self.refuse(*wrong, "apply it before Local, or with smaller amounts of Local")
        return kernel

    def _core(self, kernel: UOp, target: Target, rows: UOp, columns: UOp, terms: UOp) -> TensorCore:
        """The tensor core for the one reduction over the terms."""
        sums = [n for n in toposort(kernel) if n.op is ops.REDUCE and terms in n.src[1:]]
        product = product_of(sums[0], [rows], [columns]) if len(sums) == 1 else None
        if product is None:
            raise self.refuse(
                f"{self.terms} is not the loop of a matrix product",
                f"one sum of products is, of what depends on {self.rows} and not on "
                f"{self.columns}, and of what depends on {self.columns} and not on {self.rows}",
                "choose other loops",
            )
        if any(r.arg[1] is Axis.GROUP for r in sums[0].src[1:]):
            raise self.refuse(
                "the sum is that of a group of threads", "a warp does it", "leave Group out"
            )
        core = core_for(product, sums[0], target)
        if core is None:
            kinds = sorted({f"{c.dtype_in} → {c.dtype_out}" for c in target.tensor_cores})
            raise self.refuse(
                f"no tensor core multiplies {product.left.dtype} and {product.right.dtype} "
                f"to {sums[0].dtype}",
                f"the target {target.name} has {', '.join(kinds) or 'none'}",
                "convert the factors, or leave the loops as they are",
            )
        return core


def _split(kernel: UOp, rows: UOp, columns: UOp, terms: UOp, core: TensorCore) -> UOp:
    copies = core.m // fragments.ROWS
    kernel = _parts(
        kernel,
        rows,
        core.m,
        [(1, copies, fragments.ROWS, Axis.UPCAST), (2, fragments.ROWS, 1, Axis.WARP)],
    )
    kernel = _parts(
        kernel, columns, core.n, [(3, fragments.COLUMNS, 2, Axis.WARP), (1, 2, 1, Axis.UPCAST)]
    )
    return _parts(kernel, terms, core.k, [(1, core.k, 1, Axis.WARP)])


def _parts(kernel: UOp, counter: UOp, amount: int, parts: list[tuple[int, int, int, Axis]]) -> UOp:
    """A loop as one around others: (the end of its name, size, stride, kind)."""
    axis, kind = counter.arg
    outer = UOp.range(int(counter.src[0].arg) // amount, (*axis, 0), kind)
    value, ranges = outer * amount, [outer]
    if int(outer.src[0].arg) == 1:
        value, ranges = UOp.const(counter.dtype, 0), []
    for last, size, stride, of_kind in parts:
        if size > 1:
            ranges.append(UOp.range(size, (*axis, last), of_kind))
            value = value + ranges[-1] * stride
    return replaced(kernel, counter, value, ranges)
