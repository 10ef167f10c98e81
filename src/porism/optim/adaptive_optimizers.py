"""Adaptive optimizers: Adam and its relatives, which scale each element by past gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from porism.optim.optimizer import Optimizer, ParameterGroup, State, check_range, zeros_like
from porism.tensor.api.arithmetic import maximum, sign, sqrt
from porism.tensor.tensor import Tensor


class Adam(Optimizer):
    """Adam: steps of the first moment of the gradients over the root of the second.

    >>> w = porism.nn.Parameter([1.0])
    >>> opt = porism.optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> round(w.item(), 4)
    0.9
    """

    decoupled: ClassVar[bool] = False
    """Whether weight decay shrinks the weights themselves, and not through the gradient."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        master_weights: bool = False,
    ) -> None:
        check_range("lr", lr)
        check_range("betas[0]", betas[0], 0, 1)
        check_range("betas[1]", betas[1], 0, 1)
        check_range("eps", eps)
        check_range("weight_decay", weight_decay)
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        super().__init__(params, options, master_weights=master_weights)

    def initial_state(self, p: Tensor, group: ParameterGroup) -> State:
        """Return both moments, which are 0, and the largest second one for `amsgrad`."""
        names = ["exp_avg", "exp_avg_sq", *["max_exp_avg_sq"] * group["amsgrad"]]
        return {name: zeros_like(p) for name in names}

    def update(
        self, p: Tensor, grad: Tensor, state: State, group: ParameterGroup, step: Tensor
    ) -> tuple[Tensor, State]:
        """Return the parameter after p - lr · m̂ / (sqrt(v̂) + eps), and both moments."""
        (beta1, beta2), decay = group["betas"], group["weight_decay"]
        grad = -grad if group["maximize"] else grad
        rate = group.scalar(p)
        if decay and self.decoupled:
            p = p * (1 - rate * decay)
        elif decay:
            grad = grad + p * decay
        first = state["exp_avg"] + (grad - state["exp_avg"]) * (1 - beta1)
        second = state["exp_avg_sq"] * beta2 + grad * grad * (1 - beta2)
        new: State = {"exp_avg": first, "exp_avg_sq": second}
        if group["amsgrad"]:
            second = new["max_exp_avg_sq"] = maximum(state["max_exp_avg_sq"], second)
        step_size = (group.rate / (1 - beta1**step)).astype(p.dtype)
        root = sqrt(1 - beta2**step).astype(p.dtype)
        return p - step_size * first / (sqrt(second) / root + group["eps"]), new


class AdamW(Adam):
    """Adam with decoupled weight decay, 0.01 by default.

    >>> porism.optim.AdamW([porism.nn.Parameter([1.0])])
    AdamW(1 parameters at lr=0.001)
    """

    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        master_weights: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            master_weights=master_weights,
        )


class Adagrad(Optimizer):
    """Adagrad: steps over the root of the sum of all squared gradients.

    >>> porism.optim.Adagrad([porism.nn.Parameter([1.0])])
    Adagrad(1 parameters at lr=0.01)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        master_weights: bool = False,
    ) -> None:
        options = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
        }
        for name, value in options.items():
            check_range(name, value)
        super().__init__(params, {**options, "maximize": maximize}, master_weights=master_weights)

    def initial_state(self, p: Tensor, group: ParameterGroup) -> State:
        """Return the sum of squares, with its first value."""
        return {"sum": zeros_like(p, group["initial_accumulator_value"])}

    def update(
        self, p: Tensor, grad: Tensor, state: State, group: ParameterGroup, step: Tensor
    ) -> tuple[Tensor, State]:
        """Return the parameter after p - lr · g / (sqrt(sum of g²) + eps), and that sum."""
        grad = -grad if group["maximize"] else grad
        grad = grad + p * group["weight_decay"] if group["weight_decay"] else grad
        rate = (group.rate / (1 + (step - 1) * group["lr_decay"])).astype(p.dtype)
        total = state["sum"] + grad * grad
        return p - rate * grad / (sqrt(total) + group["eps"]), {"sum": total}


class RMSprop(Optimizer):
    """RMSprop: steps over the root of a running mean of squared gradients.

    >>> porism.optim.RMSprop([porism.nn.Parameter([1.0])])
    RMSprop(1 parameters at lr=0.01)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
        master_weights: bool = False,
    ) -> None:
        options = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
        }
        for name, value in options.items():
            check_range(name, value)
        switches = {"centered": centered, "maximize": maximize}
        super().__init__(params, {**options, **switches}, master_weights=master_weights)

    def initial_state(self, p: Tensor, group: ParameterGroup) -> State:
        """Return the running means that the options ask for."""
        names = ["square_avg", *["grad_avg"] * group["centered"]]
        names += ["momentum_buffer"] * (group["momentum"] > 0)
        return {name: zeros_like(p) for name in names}

    def update(
        self, p: Tensor, grad: Tensor, state: State, group: ParameterGroup, step: Tensor
    ) -> tuple[Tensor, State]:
        """Return the parameter after p - lr · g / (sqrt(mean of g²) + eps), and the means."""
        alpha, momentum = group["alpha"], group["momentum"]
        grad = -grad if group["maximize"] else grad
        grad = grad + p * group["weight_decay"] if group["weight_decay"] else grad
        square = state["square_avg"] * alpha + grad * grad * (1 - alpha)
        new: State = {"square_avg": square}
        if group["centered"]:
            mean = new["grad_avg"] = state["grad_avg"] + (grad - state["grad_avg"]) * (1 - alpha)
            square = square - mean * mean
        change = grad / (sqrt(square) + group["eps"])
        if momentum > 0:
            change = new["momentum_buffer"] = state["momentum_buffer"] * momentum + change
        return p - group.scalar(p) * change, new


class Lion(Optimizer):
    """Lion: steps of one size by the sign of a mix of momentum and gradient.

    >>> porism.optim.Lion([porism.nn.Parameter([1.0])])
    Lion(1 parameters at lr=0.0001)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        master_weights: bool = False,
    ) -> None:
        check_range("lr", lr)
        check_range("betas[0]", betas[0], 0, 1)
        check_range("betas[1]", betas[1], 0, 1)
        check_range("weight_decay", weight_decay)
        options = {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, options, master_weights=master_weights)

    def initial_state(self, p: Tensor, group: ParameterGroup) -> State:
        """Return the momentum, which is 0."""
        return {"exp_avg": zeros_like(p)}

    def update(
        self, p: Tensor, grad: Tensor, state: State, group: ParameterGroup, step: Tensor
    ) -> tuple[Tensor, State]:
        """Return the parameter after p - lr · (sign(mix) + weight_decay · p), and the momentum."""
        beta1, beta2 = group["betas"]
        grad = -grad if group["maximize"] else grad
        direction = sign(state["exp_avg"] * beta1 + grad * (1 - beta1))
        momentum = state["exp_avg"] * beta2 + grad * (1 - beta2)
        change = direction + p * group["weight_decay"] if group["weight_decay"] else direction
        return p - group.scalar(p) * change, {"exp_avg": momentum}
