"""Gradient scaling: gradients clipped, and losses scaled so that small gradients do not vanish."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from porism.base.errors import PorismError
from porism.optim.optimizer import Optimizer
from porism.tensor.api.arithmetic import abs as absolute
from porism.tensor.api.arithmetic import minimum, multiply
from porism.tensor.api.comparison import clip, isfinite, logical_not, where
from porism.tensor.api.reductions import all as all_of
from porism.tensor.api.reductions import max as maximum_of
from porism.tensor.api.reductions import sum as sum_of
from porism.tensor.autodiff.backward import no_grad
from porism.tensor.conversion import from_copy
from porism.tensor.jit.tracing import current
from porism.tensor.movement.joining import stack
from porism.tensor.realization import realize
from porism.tensor.standard.devices import on_device
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line


def _with_gradients(parameters: Iterable[Any]) -> list[Tensor]:
    """Return the parameters that have a gradient."""
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p for p in given if p.grad is not None]


def _scale_gradient(p: Tensor, factor: Tensor) -> Tensor:
    """Multiply the gradient of a parameter by a factor, and return it."""
    assert p.grad is not None
    own = on_device(factor.astype(p.grad.dtype), p.grad.device)
    p.grad = scaled = multiply(p.grad, own)
    return scaled


def get_total_norm(parameters: Iterable[Any], norm_type: float = 2.0) -> Tensor:
    """Return the norm of all gradients of parameters, as of one vector."""
    grads = [p.grad for p in _with_gradients(parameters)]
    if not grads:
        return from_copy(np.zeros((), np.float32))
    if norm_type == math.inf:
        return maximum_of(stack([maximum_of(absolute(g)).astype("float32") for g in grads]))
    if norm_type <= 0:
        raise PorismError(
            f"a norm with norm_type={norm_type}",
            where=users_line(),
            why="it is a positive exponent, or infinity for the largest element",
            fix="pass 2.0",
        )
    powers = [sum_of(absolute(g).astype("float32") ** norm_type) for g in grads]
    return sum_of(stack(powers)) ** (1 / norm_type)


def clip_grad_norm_(parameters: Iterable[Any], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale gradients down so that their norm is at most `max_norm`; return the norm before.

    >>> w = porism.nn.Parameter([3.0, 4.0])
    >>> (w * w).sum().backward()
    >>> porism.optim.clip_grad_norm_([w], 1.0).item()
    10.0
    >>> w.grad.numpy().round(3).tolist()
    [0.6000..., 0.8000...]
    """
    chosen = _with_gradients(parameters)
    with no_grad():
        norm = get_total_norm(chosen, norm_type)
        factor = minimum(max_norm / (norm + 1e-6), 1.0)
        for p in chosen:
            _scale_gradient(p, factor)
    return norm


def clip_grad_value_(parameters: Iterable[Any], clip_value: float) -> None:
    """Clip every element of every gradient to [-clip_value, clip_value].

    >>> w = porism.nn.Parameter([3.0, 0.1])
    >>> (w * w).sum().backward()
    >>> porism.optim.clip_grad_value_([w], 1.0)
    >>> w.grad.tolist()
    [1.0, 0.2...]
    """
    with no_grad():
        for p in _with_gradients(parameters):
            p.grad = clip(p.grad, -clip_value, clip_value)


class GradScaler:
    """Scales a loss, so that gradients in float16 do not vanish; skips steps that overflow.

    The scale halves after an overflow, and doubles after `growth_interval` steps without one. All
    of it is made of tensors, so that it works inside of a jitted function.

    >>> w = porism.nn.Parameter([2.0])
    >>> opt, scaler = porism.optim.SGD([w], lr=0.5), porism.optim.GradScaler()
    >>> scaler.scale((w * w).sum()).backward()
    >>> scaler.step(opt)
    >>> scaler.update()
    >>> w.tolist(), scaler.get_scale()
    ([0.0], 65536.0)
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ) -> None:
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval
        self.factor = from_copy(np.asarray(init_scale, np.float32))
        self.good_steps = from_copy(np.asarray(0, np.int64))
        self.overflowed = from_copy(np.asarray(False))

    def scale(self, loss: Tensor) -> Tensor:
        """Return a loss times the scale."""
        return multiply(loss, on_device(self.factor.astype(loss.dtype), loss.device))

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients by the scale, and note whether one of them is not finite."""
        with no_grad():
            finite = []
            for p in _with_gradients(optimizer.params):
                finite.append(all_of(isfinite(_scale_gradient(p, 1 / self.factor))))
            if finite:
                together = [on_device(flag, self.overflowed.device) for flag in finite]
                self.overflowed.assign(logical_not(all_of(stack(together))))
        self._unscaled = True

    _unscaled = False

    def step(self, optimizer: Optimizer) -> None:
        """Make a step of the optimizer, unless a gradient overflowed."""
        if not self._unscaled:
            self.unscale_(optimizer)
        self._unscaled = False
        optimizer.step(skip=self.overflowed)

    def update(self) -> None:
        """Change the scale, after a step."""
        with no_grad():
            good = where(self.overflowed, 0, self.good_steps + 1)
            grows = good == self.growth_interval
            grown = where(grows, self.factor * self.growth_factor, self.factor)
            self.factor.assign(where(self.overflowed, self.factor * self.backoff_factor, grown))
            self.good_steps.assign(where(grows, 0, good))
        if current.get() is None:
            realize(self.factor, self.good_steps, self.overflowed)

    def get_scale(self) -> float:
        """Return the scale."""
        return float(self.factor.item())
