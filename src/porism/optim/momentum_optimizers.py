"""Momentum optimizers: steps along a mean of past gradients, plain or orthogonalized."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from porism.base.errors import ShapeError
from porism.optim.optimizer import Optimizer, ParameterGroup, State, check_range, zeros_like
from porism.tensor.api.arithmetic import maximum, sqrt
from porism.tensor.api.comparison import where
from porism.tensor.shapes import to_text
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line


class SGD(Optimizer):
    """Gradient descent, with momentum where it is asked for.

    >>> w = porism.nn.Parameter([1.0, 2.0])
    >>> opt = porism.optim.SGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.tolist()
    [0.8..., 1.6...]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        master_weights: bool = False,
    ) -> None:
        check_range("lr", lr)
        check_range("momentum", momentum)
        check_range("weight_decay", weight_decay)
        if nesterov:
            check_range("momentum", momentum, 1e-300)
            check_range("dampening", dampening, 0, 1e-300)
        options = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, options, master_weights=master_weights)

    def initial_state(self, p: Tensor, group: ParameterGroup) -> State:
        """Return the momentum, if there is one."""
        return {"momentum_buffer": zeros_like(p)} if group["momentum"] else {}

    def update(
        self, p: Tensor, grad: Tensor, state: State, group: ParameterGroup, step: Tensor
    ) -> tuple[Tensor, State]:
        """Return the parameter after p - lr · momentum, and the momentum."""
        momentum, dampening = group["momentum"], group["dampening"]
        grad = -grad if group["maximize"] else grad
        grad = grad + p * group["weight_decay"] if group["weight_decay"] else grad
        new: State = {}
        if momentum:
            mean = state["momentum_buffer"] * momentum + grad * (1 - dampening)
            if dampening:  # the first momentum is the whole gradient
                mean = where(step == 1, grad, mean)
            new["momentum_buffer"] = mean
            grad = grad + mean * momentum if group["nesterov"] else mean
        return p - group.scalar(p) * grad, new


class Muon(Optimizer):
    """Muon: momentum whose singular values are made equal, for weights that are matrices.

    Biases, embeddings and the like belong to another optimizer. The orthogonal factor comes from
    Newton-Schulz iterations, products of matrices alone.

    >>> porism.optim.Muon([porism.nn.Parameter(porism.eye(2))])
    Muon(1 parameters at lr=0.001)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
        *,
        master_weights: bool = False,
    ) -> None:
        check_range("lr", lr)
        check_range("weight_decay", weight_decay)
        check_range("momentum", momentum)
        check_range("ns_steps", ns_steps, 1, 100)
        options = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, options, master_weights=master_weights)

    def initial_state(self, p: Tensor, group: ParameterGroup) -> State:
        """Return the momentum, which is 0; refuse what is no matrix."""
        if p.ndim != 2:
            raise ShapeError(
                f"Muon of a parameter of shape {to_text(p.shape)}",
                where=users_line(),
                why="it makes the singular values of a matrix equal",
                fix="give such parameters to another optimizer, as AdamW",
            )
        return {"momentum_buffer": zeros_like(p)}

    def update(
        self, p: Tensor, grad: Tensor, state: State, group: ParameterGroup, step: Tensor
    ) -> tuple[Tensor, State]:
        """Return the parameter after p - lr · orthogonalized momentum, and the momentum."""
        momentum, decay = group["momentum"], group["weight_decay"]
        mean = state["momentum_buffer"] + (grad - state["momentum_buffer"]) * (1 - momentum)
        direction = grad + (mean - grad) * momentum if group["nesterov"] else mean
        change = _orthogonalize(
            direction, group["ns_coefficients"], group["ns_steps"], group["eps"]
        )
        rows, columns = (static_size(size, "Muon") for size in p.shape)
        rate = group.scalar(p)
        adjusted = rate * _rate_factor(rows, columns, group["adjust_lr_fn"])
        return p * (1 - rate * decay) - adjusted * change, {"momentum_buffer": mean}


def _rate_factor(rows: int, columns: int, rule: str | None) -> float:
    """Return by how much the learning rate depends on the shape of a matrix."""
    if rule == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / columns))


def _orthogonalize(
    x: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Return a matrix with the singular vectors of x, and singular values near 1.

    Each iteration maps a singular value s to a·s + b·s³ + c·s⁵.
    """
    a, b, c = coefficients
    rows, columns = (static_size(size, "Muon") for size in x.shape)
    wide = x.T if rows > columns else x  # so that the products of rows are small
    y = wide / maximum(sqrt((wide * wide).sum()), eps)
    for _ in range(steps):
        gram = y @ y.T
        y = y * a + (gram * b + gram @ gram * c) @ y
    return y.T if rows > columns else y
