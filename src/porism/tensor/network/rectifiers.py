"""Rectifiers: activations that are pieces of lines and exponentials, and gates; NaN propagates."""

from __future__ import annotations

from typing import Any, Final

from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor import primitive, shapes
from porism.tensor.api.exponentials import expm1_node, sigmoid_node, softplus_node, tanh_node
from porism.tensor.api.operands import float_node, operand
from porism.tensor.conversion import as_tensor
from porism.tensor.float_formulas import Formula, in_f32, magnitude
from porism.tensor.movement.reshape import slice_axis
from porism.tensor.promotion import NUMBERS
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method

SELU_SCALE: Final = 1.0507009873554805
SELU_ALPHA: Final = 1.6732632423543772
"""The constants with which `selu` keeps mean 0 and variance 1 (Klambauer et al., 2017)."""


def _apply(formula: Formula, x: Any) -> Tensor:
    """Return a formula of the elements of x, in floats."""
    return Tensor(in_f32(formula, float_node(x)))


def _clamp(x: UOp, low: float, high: float) -> UOp:
    """Return x limited to an interval; NaN stays NaN."""
    return x.maximum(low).minimum(high)


# -- exponentials ----------------------------------------------------------------------------------


def _elu(x: UOp, alpha: float) -> UOp:
    """Return x where it is positive, and alpha·(e^x - 1) elsewhere."""
    return (x > 0.0).where(x, expm1_node(x.minimum(0.0)) * alpha)


@method
def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """Return x where it is positive, and alpha·(e^x - 1) elsewhere.

    >>> porism.elu([-1.0, 2.0]).tolist()
    [-0.632120..., 2.0]
    """
    return _apply(lambda node: _elu(node, alpha), x)


@method
def selu(x: Any) -> Tensor:
    """Return `elu` scaled so that layers keep a mean of 0 and a variance of 1.

    >>> porism.selu([-1.0, 2.0]).tolist()
    [-1.11133..., 2.10140...]
    """
    return _apply(lambda node: _elu(node, SELU_ALPHA) * SELU_SCALE, x)


@method
def celu(x: Any, alpha: float = 1.0) -> Tensor:
    """Return x where it is positive, and alpha·(e^(x/alpha) - 1) elsewhere.

    >>> porism.celu([-1.0, 2.0], alpha=2.0).tolist()
    [-0.786938..., 2.0]
    """
    if not alpha:
        raise shapes.shape_error("celu with alpha=0", "x is divided by alpha", "use relu")
    return _apply(
        lambda node: (node > 0.0).where(node, expm1_node(node.minimum(0.0) * (1 / alpha)) * alpha),
        x,
    )


@method
def mish(x: Any) -> Tensor:
    """Return x·tanh(softplus(x)).

    >>> porism.mish([0.0, 1.0]).tolist()
    [0.0, 0.865098...]
    """
    return _apply(lambda node: node * tanh_node(softplus_node(node)), x)


@method
def logsigmoid(x: Any) -> Tensor:
    """Return the logarithm of the sigmoid, also where the sigmoid underflows to 0.

    >>> porism.logsigmoid([0.0, -1000.0]).tolist()
    [-0.693147..., -1000.0]
    """
    return _apply(lambda node: -softplus_node(-node), x)


@method
def tanhshrink(x: Any) -> Tensor:
    """Return x - tanh(x).

    >>> porism.tanhshrink([0.0, 2.0]).tolist()
    [0.0, 1.035972...]
    """
    return _apply(lambda node: node - tanh_node(node), x)


# -- pieces of lines -------------------------------------------------------------------------------


@method
def relu6(x: Any) -> Tensor:
    """Return x limited to the interval from 0 to 6.

    >>> porism.relu6([-1, 3, 9]).tolist()
    [0, 3, 6]
    """
    node = operand(x, NUMBERS, "relu6")
    return Tensor(node.maximum(0).minimum(6))


@method
def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Return x limited to the interval from `min_val` to `max_val`.

    >>> porism.hardtanh([-2.0, 0.5, 2.0]).tolist()
    [-1.0, 0.5, 1.0]
    """
    return _apply(lambda node: _clamp(node, min_val, max_val), x)


@method
def hardsigmoid(x: Any) -> Tensor:
    """Return (x + 3) / 6, limited to the interval from 0 to 1.

    >>> porism.hardsigmoid([-4.0, 0.0, 4.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    return _apply(lambda node: _clamp(node + 3.0, 0.0, 6.0) / node.lift(6.0), x)


@method
def hardswish(x: Any) -> Tensor:
    """Return x · hardsigmoid(x).

    >>> porism.hardswish([0.0, 1.0, 4.0]).tolist()
    [0.0, 0.666666..., 4.0]
    """
    return _apply(lambda node: node * _clamp(node + 3.0, 0.0, 6.0) / node.lift(6.0), x)


@method
def softsign(x: Any) -> Tensor:
    """Return x / (1 + |x|).

    >>> porism.softsign([-1.0, 3.0]).tolist()
    [-0.5, 0.75]
    """
    return _apply(lambda node: node / (magnitude(node) + 1.0), x)


@method
def softshrink(x: Any, lambd: float = 0.5) -> Tensor:
    """Return x moved towards 0 by `lambd`, and 0 where x is nearer to 0.

    >>> porism.softshrink([-2.0, 0.25, 1.0]).tolist()
    [-1.5, 0.0, 0.5]
    """
    return _apply(lambda node: node - _clamp(node, -lambd, lambd), x)


@method
def hardshrink(x: Any, lambd: float = 0.5) -> Tensor:
    """Return x where |x| is more than `lambd`, and 0 elsewhere.

    >>> porism.hardshrink([-2.0, 0.25, 1.0]).tolist()
    [-2.0, 0.0, 1.0]
    """
    return _apply(lambda node: (magnitude(node) <= lambd).where(node.lift(0.0), node), x)


@method
def threshold(x: Any, threshold: float, value: float) -> Tensor:
    """Return x where it is more than the threshold, and `value` elsewhere.

    >>> porism.threshold([-2.0, 0.25, 1.0], 0.5, 9.0).tolist()
    [9.0, 9.0, 1.0]
    """
    return _apply(lambda node: (node <= threshold).where(node.lift(value), node), x)


@method
def prelu(x: Any, weight: Any) -> Tensor:
    """Return x where it is not negative, and x times a weight elsewhere.

    There is one weight, or one for each channel: along axis 1, or axis 0 of a tensor of one axis.

    >>> porism.prelu([[-2.0, -2.0, 3.0]], [0.5, 0.25, 0.5]).tolist()
    [[-1.0, -0.5, 3.0]]
    """
    node = float_node(x)
    weights = as_tensor(weight)
    sizes = shapes.sizes_of(node)
    channel_axis = 1 if len(sizes) > 1 else 0
    count = shapes.product(weights.shape)
    slopes = primitive.cast(weights.node, node.dtype)
    if shapes.is_one(count):
        slopes = primitive.reshape(slopes, [])
    elif not sizes or not shapes.shapes_equal(weights.shape, (sizes[channel_axis],)):
        raise shapes.shape_error(
            f"prelu of shape {shapes.to_text(sizes)} with weights of shape "
            f"{shapes.to_text(weights.shape)}",
            "there is one weight, or one for each channel",
            "reshape the weights to one axis",
        )
    else:
        own = [count if k == channel_axis else 1 for k in range(len(sizes))]
        slopes = primitive.expand(primitive.reshape(slopes, own), sizes)
    return Tensor(in_f32(lambda a, b: (a < 0.0).where(a * b, a), node, slopes))


@method
def glu(x: Any, axis: int = -1) -> Tensor:
    """Return the first half of x along an axis, times the sigmoid of the second half.

    >>> porism.glu([3.0, 4.0, 0.0, 100.0]).tolist()
    [1.5, 4.0]
    """
    node = float_node(x)
    sizes = shapes.sizes_of(node)
    gated_axis = shapes.normalize_axis(axis, len(sizes))
    size = static_size(sizes[gated_axis], "glu")
    if size % 2:
        raise shapes.shape_error(
            f"glu along axis {gated_axis} of a tensor of shape {shapes.to_text(sizes)}",
            f"the axis is cut in halves, and its size {size} is odd",
            "choose an axis of even size",
        )
    half = size // 2
    value = slice_axis(node, gated_axis, 0, half)
    gate = slice_axis(node, gated_axis, half, size)
    return Tensor(in_f32(lambda a, b: ops.MUL(a, sigmoid_node(b)), value, gate))
