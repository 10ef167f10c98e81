"""Recurrent layers: RNN, LSTM and GRU over a sequence, with PyTorch's weights and gate order.

The steps of time are unrolled: a layer is one product of all inputs with the input weight, and then
a product with the hidden weight in each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from porism.base.errors import PorismError, ShapeError
from porism.nn.linear_layers import uniform_parameter
from porism.nn.module import Module, Parameter
from porism.tensor.api.creation import zeros
from porism.tensor.api.linear_algebra import linear
from porism.tensor.api.random import dropout
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.joining import concat, stack
from porism.tensor.shapes import to_text
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line

State = tuple[Tensor, ...]
"""The state of a layer: the hidden values, and for an LSTM the cell values."""


def _rnn_step(gates: Tensor, hidden: Tensor, state: State, act: Callable[[Any], Any]) -> State:
    """Return act(inputs + hidden)."""
    return (act(gates + hidden),)


def _lstm_step(gates: Tensor, hidden: Tensor, state: State) -> State:
    """Return hidden and cell values after a step; gates are input, forget, cell, output."""
    i, f, g, o = (gates + hidden).chunk(4, axis=-1)
    cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def _gru_step(gates: Tensor, hidden: Tensor, state: State) -> State:
    """Return the hidden values after a step; gates are reset, update, new."""
    (ri, zi, ni), (rh, zh, nh) = gates.chunk(3, axis=-1), hidden.chunk(3, axis=-1)
    update = (zi + zh).sigmoid()
    new = (ni + (ri + rh).sigmoid() * nh).tanh()
    return ((1 - update) * new + update * state[0],)


class _Recurrent(Module):
    """What recurrent layers have in common."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        dtype: Any = None,
    ) -> None:
        if proj_size and self.states == 1:
            raise PorismError(
                f"{type(self).__name__} with proj_size={proj_size}",
                where=users_line(),
                why="only an LSTM projects its hidden values",
                fix="use an LSTM, or a Linear after the layer",
            )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        self.proj_size = proj_size
        bound = 1 / math.sqrt(hidden_size) if hidden_size else 0.0
        rows, out = self.gates * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else out * (1 + bidirectional)
            for suffix in self._suffixes(layer):
                sizes = {f"weight_ih_{suffix}": [rows, inputs], f"weight_hh_{suffix}": [rows, out]}
                if bias:
                    sizes |= {f"bias_ih_{suffix}": [rows], f"bias_hh_{suffix}": [rows]}
                if proj_size:
                    sizes[f"weight_hr_{suffix}"] = [proj_size, hidden_size]
                for name, shape in sizes.items():
                    setattr(self, name, uniform_parameter(shape, bound, dtype))

    def _suffixes(self, layer: int) -> list[str]:
        """Return what the names of a layer's weights end with, for each direction."""
        return [f"l{layer}", f"l{layer}_reverse"][: 1 + self.bidirectional]

    def _weight(self, name: str) -> Parameter | None:
        """Return a weight, or None if there is none of that name."""
        return vars(self).get(name)

    def _step(self, gates: Tensor, hidden: Tensor, state: State) -> State:
        """Return the state after a step, from the products of input and of hidden values."""
        raise AssertionError("each layer defines its step")

    def forward(self, x: Any, state: Any = None) -> tuple[Tensor, Any]:
        """Return the hidden values of every step, and the last state of every layer.

        x is (length, batch, features), or (batch, length, features) with `batch_first`, or without
        a batch; the state is (layers · directions, batch, features), two of them for an LSTM.
        """
        tensor = as_tensor(x)
        if tensor.ndim not in (2, 3) or tensor.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__} of a tensor of shape {to_text(tensor.shape)}",
                where=users_line(),
                why=f"its input is (length, batch, {self.input_size}), or without a batch",
                fix="reshape the input, or build the layer with its features",
            )
        batched = tensor.ndim == 3
        if not batched:
            tensor = tensor.expand_dims(1)
        elif self.batch_first:
            tensor = tensor.transpose(0, 1)
        states = self._initial_states(tensor, state, batched)
        result, last = self._layers(tensor, states)
        finals = tuple(stack([s[k] for s in last]) for k in range(self.states))
        if not batched:
            result, finals = result[:, 0], tuple(f[:, 0] for f in finals)
        elif self.batch_first:
            result = result.transpose(0, 1)
        return result, finals if self.states > 1 else finals[0]

    def _initial_states(self, x: Tensor, state: Any, batched: bool) -> list[State]:
        """Return the first state of each layer and direction; zeros if none is given."""
        count = self.num_layers * (1 + self.bidirectional)
        widths = (self.proj_size or self.hidden_size, self.hidden_size)[: self.states]
        if state is None:
            zero = tuple(zeros(x.shape[1], width, dtype=x.dtype) for width in widths)
            return [zero] * count
        given = [as_tensor(s) for s in (state if self.states > 1 else (state,))]
        given = given if batched else [s.expand_dims(1) for s in given]
        for tensor, width in zip(given, widths, strict=True):
            if tensor.shape != (count, x.shape[1], width):
                raise ShapeError(
                    f"{type(self).__name__} with a state of shape {to_text(tensor.shape)}",
                    where=users_line(),
                    why=f"it is {to_text((count, x.shape[1], width))}: layers · directions, batch, "
                    "features",
                    fix="give the state that a call returned, or none",
                )
        return [tuple(s[k] for s in given) for k in range(count)]

    def _layers(self, x: Tensor, states: list[State]) -> tuple[Tensor, list[State]]:
        """Return the hidden values of the last layer, and the last states of all."""
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.training and self.dropout:
                x = dropout(x, self.dropout)
            results = []
            for direction, suffix in enumerate(self._suffixes(layer)):
                state = states[layer * (1 + self.bidirectional) + direction]
                result, final = self._direction(x, state, suffix, direction == 1)
                results.append(result)
                last.append(final)
            x = results[0] if len(results) == 1 else concat(results, axis=-1)
        return x, last

    def _direction(
        self, x: Tensor, state: State, suffix: str, backwards: bool
    ) -> tuple[Tensor, State]:
        """Return the hidden values of one layer in one direction, and its last state."""
        weight, bias = self._weight(f"weight_hh_{suffix}"), self._weight(f"bias_hh_{suffix}")
        inputs = linear(x, self._weight(f"weight_ih_{suffix}"), self._weight(f"bias_ih_{suffix}"))
        projection = self._weight(f"weight_hr_{suffix}")
        outputs: list[Tensor] = []
        steps = range(len(x))
        for step in reversed(steps) if backwards else steps:
            state = self._step(inputs[step], linear(state[0], weight, bias), state)
            if projection is not None:
                state = (linear(state[0], projection), *state[1:])
            outputs.append(state[0])
        if not outputs:
            return zeros(0, *state[0].shape, dtype=x.dtype), state
        return stack(outputs[::-1] if backwards else outputs), state


class RNN(_Recurrent):
    """Layers of h = tanh(x · W_ihᵀ + b_ih + h · W_hhᵀ + b_hh), or of ReLU.

    >>> result, state = porism.nn.RNN(3, 4)(porism.ones(5, 2, 3))
    >>> result.shape, state.shape
    ((5, 2, 4), (1, 2, 4))
    """

    gates = 1

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if nonlinearity not in ("tanh", "relu"):
            raise PorismError(
                f"an RNN with nonlinearity={nonlinearity!r}",
                where=users_line(),
                why="there are tanh and relu",
                fix="pass one of them",
            )
        self.nonlinearity = nonlinearity

    def _step(self, gates: Tensor, hidden: Tensor, state: State) -> State:
        return _rnn_step(gates, hidden, state, getattr(Tensor, self.nonlinearity))


class LSTM(_Recurrent):
    """Layers of long short-term memory; the state is (hidden, cell).

    >>> result, (hidden, cell) = porism.nn.LSTM(3, 4)(porism.ones(5, 2, 3))
    >>> result.shape, hidden.shape, cell.shape
    ((5, 2, 4), (1, 2, 4), (1, 2, 4))
    """

    gates, states = 4, 2

    def _step(self, gates: Tensor, hidden: Tensor, state: State) -> State:
        return _lstm_step(gates, hidden, state)


class GRU(_Recurrent):
    """Layers of gated recurrent units.

    >>> result, state = porism.nn.GRU(3, 4, bidirectional=True)(porism.ones(5, 2, 3))
    >>> result.shape, state.shape
    ((5, 2, 8), (2, 2, 4))
    """

    gates = 3

    def _step(self, gates: Tensor, hidden: Tensor, state: State) -> State:
        return _gru_step(gates, hidden, state)
