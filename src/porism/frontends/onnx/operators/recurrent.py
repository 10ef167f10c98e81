"""Recurrent operators: LSTM, GRU and RNN with all their options, as unrolled steps.

The products with the inputs of all steps are one matrix product; a step multiplies the state alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from porism.frontends.onnx.operator_call import Call, Value
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.onnx.operators.quantized import dynamic_quantization
from porism.frontends.onnx.stored_operands import stored
from porism.frontends.tensor_functions import xp
from porism.tensor import primitive
from porism.tensor.tensor import Tensor

Activation = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """One direction of a recurrent layer."""

    scale: Value
    """The scale of R if it holds integers, else None."""
    inputs: Value
    """The products of the inputs of all steps with W, plus the bias: (steps, batch, gates)."""
    recurrence: Value
    """R, transposed: (hidden, gates)."""
    rows: Value
    """R of 8-bit integers without a zero point: (gates, hidden); None if it is otherwise."""
    recurrent_bias: Value
    """The bias of the state's products, for GRU; None where it is part of the inputs."""
    peepholes: Value
    activations: Sequence[Activation]
    clip: float | None
    hidden: int


def _activation(call: Call, name: str, alpha: float | None, beta: float | None) -> Activation:
    """Return an activation by its name, with its parameters."""

    def given(value: float | None, default: float) -> float:
        return default if value is None else value

    table: dict[str, Activation] = {
        "sigmoid": lambda x: xp.sigmoid(x),
        "tanh": lambda x: xp.tanh(x),
        "relu": lambda x: xp.maximum(x, 0),
        "affine": lambda x: x * given(alpha, 1.0) + given(beta, 0.0),
        "leakyrelu": lambda x: xp.where(x < 0, x * given(alpha, 0.01), x),
        "thresholdedrelu": lambda x: xp.where(x > given(alpha, 1.0), x, 0),
        "scaledtanh": lambda x: xp.tanh(x * given(beta, 1.0)) * given(alpha, 1.0),
        "hardsigmoid": lambda x: xp.clip(x * given(alpha, 0.2) + given(beta, 0.5), 0, 1),
        "elu": lambda x: xp.where(x < 0, xp.expm1(x) * given(alpha, 1.0), x),
        "softsign": lambda x: x / (1 + xp.abs(x)),
        "softplus": lambda x: xp.softplus(x),
    }
    if name.lower() not in table:
        raise call.error(f"{call.node.op} with the activation {name!r}", "there is no such one")
    return table[name.lower()]


def activations_of(call: Call, defaults: Sequence[str], directions: int) -> list[list[Activation]]:
    """Return the activations of each direction."""
    names = call.attribute("activations") or list(defaults) * directions
    alphas = list(call.attribute("activation_alpha") or [])
    betas = list(call.attribute("activation_beta") or [])
    with_alpha = ("affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu")
    with_beta = ("affine", "scaledtanh", "hardsigmoid")
    made = []
    for name in names:
        alpha = alphas.pop(0) if alphas and name.lower() in with_alpha else None
        beta = betas.pop(0) if betas and name.lower() in with_beta else None
        made.append(_activation(call, name, alpha, beta))
    size = len(defaults)
    if len(made) != size * directions:
        raise call.error(
            f"{call.node.op} with {len(made)} activations", f"it has {size} for each direction"
        )
    return [made[k * size : (k + 1) * size] for k in range(directions)]


def _limited(layer: Layer, x: Value) -> Value:
    return x if layer.clip is None else xp.clip(x, -layer.clip, layer.clip)


def _quantized_product(x: Value, w: Value, scale: Value) -> Value:
    """Return a product; of x rounded to 8 bits, if w holds integers that have a scale.

    The integers are held by floats: their products and sums are exact up to 2^24.
    """
    if scale is None:
        return xp.matmul(x, w)
    q, x_scale, zero = dynamic_quantization(stored(x))
    return xp.matmul(stored(q - zero), w) * (scale * x_scale)


def _quantized_state_product(h: Value, rows: Value, scale: Value) -> Value:
    """Return the product of a state, rounded to 8 bits, with rows of 8-bit integers.

    Vectors are along the rows: bytes are read as they are, and sums are exact in int32. The zero
    point of the state is subtracted from the sums, times those of the rows alone.
    """
    q, h_scale, zero = dynamic_quantization(stored(h))
    whole = rows.astype("int32")
    sums = xp.matmul(stored(q.astype("uint8")).astype("int32"), whole.mT).astype("int32")
    sums = sums - zero.astype("int32") * xp.sum(whole, axis=1).astype("int32")
    return sums.astype("float32") * (scale * h_scale)


def _product(state: Value, layer: Layer, begin: int, end: int) -> Value:
    return xp.matmul(state, layer.recurrence[:, begin:end])


# -- steps -----------------------------------------------------------------------------------------


def _lstm_step(layer: Layer, x: Value, h: Value, c: Value, input_forget: bool) -> Any:
    size = layer.hidden
    if layer.rows is not None:
        product = _quantized_state_product(h, layer.rows, layer.scale)
    else:
        product = _quantized_product(h, layer.recurrence, layer.scale)
    gates = stored(x + product)
    f_act, g_act, h_act = layer.activations
    g = g_act(_limited(layer, gates[:, 3 * size :]))
    p = layer.peepholes
    if p is None:  # one activation of three gates: fewer nodes for each step
        iof = f_act(_limited(layer, gates[:, : 3 * size]))
        i, o, f = (iof[:, k * size : (k + 1) * size] for k in range(3))
        c = (1 - i if input_forget else f) * c + i * g
        return o * h_act(c), c
    i, o, f = (gates[:, k * size : (k + 1) * size] for k in range(3))
    i = f_act(_limited(layer, i + p[:size] * c))
    f = 1 - i if input_forget else f_act(_limited(layer, f + p[2 * size :] * c))
    c = f * c + i * g
    o = f_act(_limited(layer, o + p[size : 2 * size] * c))
    return o * h_act(c), c


def _gru_step(layer: Layer, x: Value, h: Value, linear_before_reset: bool) -> Value:
    size = layer.hidden
    f_act, g_act = layer.activations
    bias = layer.recurrent_bias
    if linear_before_reset:
        products = stored(xp.matmul(h, layer.recurrence))
        zr = x[:, : 2 * size] + products[:, : 2 * size]
    else:
        zr = stored(x[:, : 2 * size] + _product(h, layer, 0, 2 * size))
    zr = f_act(_limited(layer, zr + bias[: 2 * size]))
    z, r = zr[:, :size], zr[:, size:]
    own = bias[2 * size :]
    if linear_before_reset:
        inner = r * (products[:, 2 * size :] + own)
    else:
        inner = _product(r * h, layer, 2 * size, 3 * size) + own
    candidate = g_act(_limited(layer, x[:, 2 * size :] + inner))
    return (1 - z) * candidate + z * h


def _rnn_step(layer: Layer, x: Value, h: Value) -> Value:
    (f_act,) = layer.activations
    return f_act(_limited(layer, x + xp.matmul(h, layer.recurrence)))


# -- layers ----------------------------------------------------------------------------------------


def _reversed(x: Value, lengths: Value) -> Value:
    """Return steps in reverse order, each sequence within its own length."""
    if lengths is None:
        return xp.flip(x, axis=0)
    steps = xp.arange(x.shape[0]).reshape((-1, 1))
    index = xp.where(steps < lengths, lengths - 1 - steps, steps)
    index = xp.broadcast_to(index.reshape((*index.shape, *[1] * (x.ndim - 2))), x.shape)
    return xp.gather(x, 0, index)


@dataclass(slots=True)
class Weights:
    """The weights of a recurrent operator, with a first axis for directions."""

    w: Value
    r: Value
    bias: Value
    peepholes: Value = None
    scales: tuple[Value, Value] | None = None
    """The scales (directions, gates or 1) of W and R, if both hold integers; then the inputs and
    the state are quantized to 8 bits before they are multiplied."""
    bytes_of_r: Value = None
    """R as 8-bit integers, if it has a scale and no zero point."""


def recur(call: Call, x: Value, weights: Weights, defaults: Sequence[str]) -> tuple[Value, ...]:
    """Return Y, Y_h and, of an LSTM, Y_c."""
    kind = defaults_kind(call.node.op)
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    batch_first = bool(call.integer("layout"))
    x = x.permute((1, 0, 2)) if batch_first else x
    steps, batch, _ = x.shape
    directions, _, hidden = weights.r.shape
    direction = call.text("direction", "forward")
    lengths = call.optional(4)
    lengths = None if lengths is None else lengths.astype("int64").reshape((1, -1))
    activations = activations_of(call, defaults, directions)
    clip = call.attribute("clip")
    outputs, states, cells = [], [], []
    for d in range(directions):
        backward = direction == "reverse" or d == 1
        own = _reversed(x, lengths) if backward else x
        scales = (None, None) if weights.scales is None else [s[d] for s in weights.scales]
        rows = own.reshape((steps * batch, -1))
        products = _quantized_product(rows, weights.w[d].mT, scales[0])
        bias, recurrent_bias = _biases(weights.bias, d, gates * hidden, kind)
        if bias is not None:
            products = products + bias
        if recurrent_bias is None and kind == "GRU":
            recurrent_bias = xp.full((gates * hidden,), 0, dtype=x.dtype)
        products = products.reshape((steps, batch, gates * hidden))
        p = None if weights.peepholes is None else weights.peepholes[d]
        layer = Layer(
            scales[1],
            products, _rows_of_gates(weights.r[d], scales[1]),
            None if weights.bytes_of_r is None else weights.bytes_of_r[d],
            recurrent_bias, p, activations[d],
            None if clip is None else float(clip), hidden,
        )  # fmt: skip
        h = _initial(call, 5, d, batch, hidden, x, batch_first)
        c = _initial(call, 6, d, batch, hidden, x, batch_first)
        y, h, c = _run(call, kind, layer, h, c, lengths)
        outputs.append(_reversed(y, lengths) if backward else y)
        states.append(h)
        cells.append(c)
    y = xp.stack(outputs, axis=1)
    h, c = xp.stack(states), xp.stack(cells)
    if batch_first:
        y, h, c = y.permute((2, 0, 1, 3)), h.permute((1, 0, 2)), c.permute((1, 0, 2))
    return (y, h, c) if kind == "LSTM" else (y, h)


def _rows_of_gates(r: Value, scale: Value) -> Value:
    """Return R of one direction, transposed in memory: what one step reads for all gates together.

    The state of a step is a vector, so that vectors of a step are along the gates; if R is
    constant, it is transposed once. Integers of 8 bits, which have a scale, are read as they are.
    """
    if scale is not None:
        return r.mT
    return Tensor(primitive.contiguous(r.mT.node, "the weights of all steps"))


def defaults_kind(op: str) -> str:
    """Return which recurrent operator a name means."""
    return next(kind for kind in ("LSTM", "GRU", "RNN") if kind in op)


def _biases(bias: Value, d: int, width: int, kind: str) -> tuple[Value, Value]:
    """Return the bias of the inputs and that of the state, of one direction."""
    if bias is None:
        return None, None
    own, recurrent = bias[d][:width], bias[d][width:]
    return (own, recurrent) if kind == "GRU" else (own + recurrent, None)


def _initial(
    call: Call, number: int, d: int, batch: int, hidden: int, x: Value, batch_first: bool
) -> Value:
    if not call.has(number):
        return xp.full((batch, hidden), 0, dtype=x.dtype)
    state = call.tensor(number)
    return state[:, d] if batch_first else state[d]


def _run(call: Call, kind: str, layer: Layer, h: Value, c: Value, lengths: Value) -> Any:
    """Return the outputs of all steps, and the last states."""
    input_forget = bool(call.integer("input_forget"))
    linear_before_reset = bool(call.integer("linear_before_reset"))
    results = []
    inputs = stored(layer.inputs)
    for step in range(inputs.shape[0]):
        # A position in memory: the kernels of all steps are the same, and are compiled once.
        at = call.builder.constants.position(step)
        x = inputs[at].reshape(inputs.shape[1:])
        new_c = c
        if kind == "LSTM":
            new_h, new_c = _lstm_step(layer, x, h, c, input_forget)
        elif kind == "GRU":
            new_h = _gru_step(layer, x, h, linear_before_reset)
        else:
            new_h = _rnn_step(layer, x, h)
        if lengths is None:
            h, c = new_h, new_c
            results.append(h)
        else:
            within = lengths.reshape((-1, 1)) > step
            h, c = xp.where(within, new_h, h), xp.where(within, new_c, c)
            results.append(xp.where(within, new_h, 0))
    if not results:
        return xp.full((0, *h.shape), 0, dtype=h.dtype), h, c
    return xp.stack(results), h, c


def _weights(call: Call) -> Weights:
    peepholes = call.optional(7) if call.node.op == "LSTM" else None
    return Weights(call.tensor(1), call.tensor(2), call.optional(3), peepholes)


def _row(name: str, defaults: Sequence[str]) -> Operator:
    def build(call: Call) -> tuple[Value, ...]:
        return recur(call, call.tensor(0), _weights(call), defaults)

    return Operator(name, build)


LSTM_ACTIVATIONS: Final = ("Sigmoid", "Tanh", "Tanh")

OPERATORS: Final = (
    _row("LSTM", LSTM_ACTIVATIONS),
    _row("GRU", ("Sigmoid", "Tanh")),
    _row("RNN", ("Tanh",)),
)
"""The rows of this module."""
