"""Quick arrays: an elementwise graph on arrays of millions of numbers.

The same meanings as `ir.facts.semantics`, but where those go element by element (the f64 MULACC,
shifts), here are forms for whole arrays; a test compares the two. Shifts are by amounts inside the
width, and the f64 MULACC is exact where nothing overflows or falls below the normal numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from porism.base.dtypes import DType, f64
from porism.ir import ops
from porism.ir.facts import semantics
from porism.ir.node import UOp
from porism.ir.traversal import toposort

Array = npt.NDArray[Any]


def computed(root: UOp, inputs: Mapping[UOp, Array]) -> Array:
    """The value of a scalar elementwise graph for each element of its inputs."""
    values: dict[UOp, Array] = dict(inputs)
    with np.errstate(all="ignore"):
        for node in toposort(root):
            if node not in values:
                values[node] = _value(node, [values[s] for s in node.src])
    return values[root]


def _value(node: UOp, data: list[Array]) -> Array:
    if node.op is ops.CONST:
        return semantics.array_of(node.dtype, node.arg)
    if node.op is ops.CAST:
        return semantics.cast(node.src[0].dtype, node.dtype, data[0])
    if node.op is ops.BITCAST:
        return semantics.bitcast(node.src[0].dtype, node.dtype, data[0])
    if node.op is ops.SHL:
        return np.asarray(np.left_shift(*data))
    if node.op is ops.SHR:
        return np.asarray(np.right_shift(*data))
    lane: DType = node.src[-1].dtype
    if node.op is ops.MULACC and lane is f64:
        return fused(*data)
    assert node.op.meaning is not None
    return np.asarray(node.op.meaning(lane, *data))


def fused(a: Array, b: Array, c: Array) -> Array:
    """a*b + c in f64, rounded once: the product and the sums exactly, the last bits to odd."""
    high = a * b
    low = _product_error(a, b, high)
    upper, upper_rest = _total(high, c)
    lower, lower_rest = _total(low, upper_rest)
    whole, rest = _total(upper, lower)
    tail = semantics._round_to_odd_sum(rest, lower_rest)
    result = np.asarray(whole + tail)
    return np.where(np.isfinite(low) & np.isfinite(result), result, high + c)


def _total(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _halves(x: Array) -> tuple[Array, Array]:
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def _product_error(a: Array, b: Array, product: Array) -> Array:
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return np.asarray(((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2)
