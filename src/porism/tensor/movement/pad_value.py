"""Padding: a tensor with another value than zero around it."""

from __future__ import annotations

from collections.abc import Sequence

from porism.base.dtypes import Scalar, boolean
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.primitive import Dim


def filled(x: UOp, pairs: Sequence[tuple[Dim, Dim]], value: Scalar) -> UOp:
    """`value` before and after, for each axis."""
    padded = primitive.pad(x, pairs)
    if padded is x or value == 0:
        return padded
    inside = primitive.pad(primitive.full(boolean, True, shape(x)), pairs)
    return inside.where(padded, x.lift(value))


def filled_end(x: UOp, axis: int, size: int, value: Scalar) -> UOp:
    """An axis of a known size, made longer at its end."""
    dims = shape(x)
    more = size - dims[axis].arg
    return filled(x, [(0, more if k == axis else 0) for k in range(len(dims))], value)
