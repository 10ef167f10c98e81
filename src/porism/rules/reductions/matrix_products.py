"""Matrix products: the reductions that a tensor core can do.

REDUCE[ADD](a * b, k…)                      a depends on rows, b on columns
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
class Product:
    """The factors of a sum of products, in the type that they are read in."""

    left: UOp
    right: UOp


def product_of(node: UOp, rows: Iterable[UOp], columns: Iterable[UOp]) -> Product | None:
    """The factors of a reduction: one that depends on the rows, one that does on the columns."""
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
    down, along = set(rows), set(columns)
    inside = {*down, *along, *closed}
    if any(n.op is ops.AFTER and inside & set(n.ranges) for n in toposort(value)):
        return None  # what is kept in memory would have to be kept for each element
    for one, other in (value.src, value.src[::-1]):
        apart = not (along & set(one.ranges) or down & set(other.ranges))
        if apart and down & set(one.ranges) and along & set(other.ranges):
            return Product(_read(one, condition), _read(other, condition))
    return None


def core_for(product: Product, node: UOp, target: Target) -> TensorCore | None:
    """A tensor core of the target for a product, with a layout that is known."""
    kind = product.left.dtype
    if product.right.dtype is not kind:
        return None
    for core in target.tensor_cores:
        fits = (core.dtype_in, core.dtype_out) == (kind.name, node.dtype.name)
        if fits and fragments.is_known(core.m, core.n, core.k, kind, core.threads):
            return core
    return None


def _is_zero(node: UOp) -> bool:
    return node.op is ops.CONST and node.arg == 0


def _read(factor: UOp, condition: UOp | None) -> UOp:
    """A factor before its cast; 0 where the sum has no term."""
    found = factor.src[0] if factor.op is ops.CAST else factor
    if condition is None:
        return found
    return condition.where(found, UOp.const(found.dtype, 0))
