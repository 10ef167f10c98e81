"""Activations: erf and the nonlinear functions between the layers of a network; NaN propagates."""

from __future__ import annotations

import math
from typing import Any, Final

from porism.gradient.stated_pullbacks import pullback, stated
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor.api.exponentials import exp_node, sigmoid_node, softplus_node, tanh_node
from porism.tensor.api.operands import float_node
from porism.tensor.conversion import as_tensor
from porism.tensor.float_formulas import in_f32, magnitude, polynomial, select
from porism.tensor.promotion import NUMBERS, require_dtype, type_error
from porism.tensor.tensor import Tensor, method

# Coefficients from interpolation at Chebyshev nodes, of erf by its series in higher precision.
_ERF_SMALL: Final = {
    32: (
        7.875874871388078e-05,
        -0.000801686430349946,
        0.005189087241888046,
        -0.02685421146452427,
        0.11283594369888306,
        -0.3761262595653534,
        0.1283791670955126,
    ),
    64: (
        -4.242803334595226e-12,
        8.69778766282359e-11,
        -1.2154960874809823e-09,
        1.4789548750158158e-08,
        -1.636417670281444e-07,
        1.646199807904247e-06,
        -1.4925644411870569e-05,
        0.00012055332763468705,
        -0.0008548327017901265,
        0.005223977625349672,
        -0.02686617064512192,
        0.11283791670955075,
        -0.37612638903183754,
        0.1283791670955126,
    ),
}
"""Coefficients of P in erf x = x + x·P(x²) for |x| < 1, by the width of the type in bits."""

_ERF_LARGE: Final = {
    32: (
        0.0021227682009339333,
        -0.0011547718895599246,
        0.012479972094297409,
        -0.03615119308233261,
        0.12626270949840546,
        -0.5290409326553345,
        -1.556817889213562,
    ),
    64: (
        -2.8683239555631435e-05,
        -0.0002066075981461224,
        -0.0006457424169351142,
        -0.0011954827961854553,
        -0.0013879951775593777,
        -0.0010283992528483709,
        -0.00042656342652601945,
        0.00010047075301618914,
        -0.00019801388826039365,
        0.0009544690901642476,
        -0.0023601624552027204,
        0.005953169742448931,
        -0.014385640012669529,
        0.03412816598454515,
        -0.08165092543373278,
        0.20779340958741502,
        -0.665248970647039,
        -1.8624374021411385,
    ),
}
"""Coefficients of log(1 - erf x) + x², with x from 1 to _ERF_END scaled to ±1.

The errors are smallest where erf is not yet near 1.
"""

_ERF_END: Final = {32: 4.0, 64: 6.0}
"""The x from which erf rounds to 1."""


def erf_node(x: UOp) -> UOp:
    """Return the error function, within 2 ulp."""
    bits = x.dtype.bits
    absolute = magnitude(x)
    near = ops.MULACC(x, polynomial(x * x, _ERF_SMALL[bits]), x)
    end = _ERF_END[bits]
    inside = absolute.minimum(end)
    scaled = (inside - (end + 1) / 2) * (2 / (end - 1))
    log_complement = ops.MULACC(-inside, inside, polynomial(scaled, _ERF_LARGE[bits]))
    far = (absolute < end).where(x.lift(1.0) - exp_node(log_complement), x.lift(1.0))
    return stated("erf", select(x.ne(x), x, absolute < 1.0, near, x < 0.0, -far, far), x)


_GELU: Final = (
    5.152724913415341e-10,
    -2.5980879669873502e-08,
    5.582993480857112e-07,
    -6.6311390582995955e-06,
    4.63890319224447e-05,
    -0.00017160231072921306,
    -4.1266950574936345e-05,
    0.004857861436903477,
    -0.036372896283864975,
    0.18169833719730377,
    -0.7978851199150085,
    -0.6931471824645996,
)
"""Coefficients of log(1 - Φ(x)) + x²/2 for x from 0 to _GELU_END, in f32.

A least-squares fit, weighted to minimize the largest error of the result; the weights are at least
2^-13 of that at 0, so that small results are accurate too.
"""

_GELU_END: Final = 10.0
"""The |x| at which the tail is clamped: x·(1 - Φ(x)) is below 1e-22 there."""


@pullback("gelu", "g · (Φ(x) + x·exp(-x²/2)/sqrt(2π)), with Φ the normal distribution function")
def _pull_gelu(g: UOp, y: UOp, inputs: tuple[UOp]) -> list[UOp]:
    (x,) = inputs
    distribution = erf_node(x * math.sqrt(0.5)) * 0.5 + 0.5
    density = exp_node(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
    return [g * (distribution + x * density)]


def gelu_node(x: UOp) -> UOp:
    """Return x·Φ(x), with Φ the normal distribution function."""
    return stated("gelu", _gelu(x), x)


def _gelu(x: UOp) -> UOp:
    """Return x·Φ(x) as max(x, 0) - |x|·(1 - Φ(|x|)), with Φ the normal distribution function."""
    if x.dtype.bits > 32:
        return x * 0.5 * (erf_node(x * math.sqrt(0.5)) + 1.0)
    absolute = magnitude(x)
    absolute = (absolute < _GELU_END).where(absolute, x.lift(_GELU_END))
    beyond = exp_node(ops.MULACC(absolute * -0.5, absolute, polynomial(absolute, _GELU)))
    return ops.MULACC(-absolute, beyond, (x < 0.0).where(x.lift(0.0), x))


def _gelu_tanh(x: UOp) -> UOp:
    """Return the approximation of gelu by tanh."""
    inner = x * math.sqrt(2 / math.pi) * (x * x * 0.044715 + 1.0)
    return x * 0.5 * (tanh_node(inner) + 1.0)


# -- functions -------------------------------------------------------------------------------------


@method
def erf(x: Any) -> Tensor:
    """Return the error function of x: 2/sqrt(pi) times the integral of exp(-t²) from 0 to x.

    >>> porism.erf([0.0, 1.0]).tolist()
    [0.0, 0.842700...]
    """
    return Tensor(in_f32(erf_node, float_node(x)))


@method
def relu(x: Any) -> Tensor:
    """Return max(x, 0).

    >>> porism.relu([-2, 0, 3]).tolist()
    [0, 0, 3]
    """
    node = as_tensor(x).node
    require_dtype(node.dtype, NUMBERS, "relu", "convert it first, with astype")
    return Tensor(stated("relu", node.maximum(0), node))


@method
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Tensor:
    """Return x where it is not negative, else x times `negative_slope`.

    >>> porism.leaky_relu([-2.0, 3.0], 0.5).tolist()
    [-1.0, 3.0]
    """

    def formula(node: UOp) -> UOp:
        slope = node.lift(negative_slope)
        return stated("leaky_relu", (node < 0.0).where(node * slope, node), node, slope)

    return Tensor(in_f32(formula, float_node(x)))


@method
def sigmoid(x: Any) -> Tensor:
    """Return the logistic function 1 / (1 + e^-x).

    >>> porism.sigmoid([0.0, 100.0]).tolist()
    [0.5, 1.0]
    """
    return Tensor(in_f32(sigmoid_node, float_node(x)))


@method
def silu(x: Any) -> Tensor:
    """Return x · sigmoid(x), also called swish.

    >>> porism.silu([0.0, 1.0]).tolist()
    [0.0, 0.731058...]
    """
    return Tensor(in_f32(lambda node: node * sigmoid_node(node), float_node(x)))


@method
def softplus(x: Any, beta: float = 1.0) -> Tensor:
    """Return log(1 + e^(beta·x)) / beta, without overflow.

    >>> porism.softplus([0.0, 1000.0]).tolist()
    [0.693147..., 1000.0]
    """
    if beta == 1:
        return Tensor(in_f32(softplus_node, float_node(x)))
    return Tensor(in_f32(lambda node: softplus_node(node * beta) * (1 / beta), float_node(x)))


@method
def gelu(x: Any, approximate: str = "none") -> Tensor:
    """Return x·Φ(x), where Φ is the distribution function of the standard normal distribution.

    `approximate` is 'none' for Φ by the error function, or 'tanh' for the approximation by tanh.

    >>> porism.gelu([-1.0, 0.0, 1.0]).tolist()
    [-0.158655..., 0.0, 0.841344...]
    """
    if approximate not in ("none", "tanh"):
        raise type_error(
            f"gelu with approximate={approximate!r}",
            "'none' is by erf, 'tanh' by a formula with tanh",
            "pass 'none' or 'tanh'",
        )
    return Tensor(in_f32(gelu_node if approximate == "none" else _gelu_tanh, float_node(x)))
