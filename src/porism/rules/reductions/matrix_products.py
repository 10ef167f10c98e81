"""Matrix products: the reductions that a tensor core can compute.

REDUCE[ADD](a * b, k…)                      a depends on the rows (m), b on the columns (n)
REDUCE[ADD](CAST(a) * CAST(b), k…)          products in the type of the sum
REDUCE[ADD](WHERE(p, a * b, 0), k…)         p depends on the ranges of the sum alone
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from porism.base.target import Target, TensorCore
from porism.ir import fragments, ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """The factors of a sum of products, before their casts."""

    left: UOp
    right: UOp


def match_matrix_product(
    node: UOp, rows: Iterable[UOp], columns: Iterable[UOp], k: Iterable[UOp] | None = None
) -> MatrixProduct | None:
    """Return the factors of a sum of products: one depends on the rows, one on the columns.

    `k` are the loops of the reduction that one instruction runs, or all of them: a factor may come
    from local memory that is filled in the others.
    """
    if node.op is not ops.REDUCE or node.arg is not ops.ADD:
        return None
    value, *closed = node.src
    condition: UOp | None = None
    if value.op is ops.WHERE and _is_zero(value.src[2]):
        condition, value = value.src[:2]
        if not set(condition.ranges) <= set(closed):
            return None
    if value.op is not ops.MUL:
        return None
    m, n = set(rows), set(columns)
    loops = {*m, *n, *(closed if k is None else k)}
    if any(node.op is ops.AFTER and loops & set(node.ranges) for node in toposort(value)):
        return None  # a local buffer would have to be filled for each element
    for left, right in (value.src, value.src[::-1]):
        is_separate = not (n & set(left.ranges) or m & set(right.ranges))
        if is_separate and m & set(left.ranges) and n & set(right.ranges):
            return MatrixProduct(_operand(left, condition), _operand(right, condition))
    return None


def tensor_core_for(product: MatrixProduct, node: UOp, target: Target) -> TensorCore | None:
    """Return a tensor core of the target for a product, whose fragment layout is known."""
    kind = product.left.dtype
    if product.right.dtype is not kind:
        return None
    for core in target.tensor_cores:
        fits = (core.dtype_in, core.dtype_out) == (kind.name, node.dtype.name)
        if fits and fragments.has_layout(core.m, core.n, core.k, kind, core.threads):
            return core
    return None


def _is_zero(node: UOp) -> bool:
    return node.op is ops.CONST and node.arg == 0


def _operand(factor: UOp, condition: UOp | None) -> UOp:
    """Return a factor before its cast; 0 where the condition does not hold."""
    operand = factor.src[0] if factor.op is ops.CAST else factor
    if condition is None:
        return operand
    return condition.where(operand, UOp.const(operand.dtype, 0))
