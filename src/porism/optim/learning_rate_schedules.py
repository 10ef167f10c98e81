"""Learning-rate schedules: the rate of each step as a formula of its number.

A schedule sets the rate of its optimizer when it is made, and at every `step()`. Every schedule is
a function of the number of steps alone, except `ReduceLROnPlateau`, which follows a metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from porism.base.errors import PorismError
from porism.optim.optimizer import Optimizer
from porism.tensor.user_line import users_line


class Schedule:
    """The base class: `rate(base, step)` is the learning rate, from that of the optimizer."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.base_rates = [float(group["lr"]) for group in optimizer.param_groups]
        self.last_epoch = 0
        """The number of steps so far."""
        self._apply()

    def rate(self, base: float, step: int) -> float:
        """Return the learning rate after a number of steps."""
        raise AssertionError("each schedule defines its rate")

    def step(self) -> None:
        """Go on by one step, and set the learning rates."""
        self.last_epoch += 1
        self._apply()

    def _apply(self) -> None:
        """Set the learning rates of all groups."""
        for group, rate in zip(self.optimizer.param_groups, self.get_last_lr(), strict=True):
            group["lr"] = rate

    def get_last_lr(self) -> list[float]:
        """Return the learning rate of each group."""
        return [self.rate(base, self.last_epoch) for base in self.base_rates]

    def state_dict(self) -> dict[str, Any]:
        """Return the numbers that a schedule has to remember."""
        return {"last_epoch": self.last_epoch, "base_rates": self.base_rates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over numbers that `state_dict` returned."""
        self.last_epoch = int(state["last_epoch"])
        self.base_rates = [float(rate) for rate in state["base_rates"]]
        self._apply()


class LambdaLR(Schedule):
    """The rate times a function of the number of steps.

    >>> opt = porism.optim.SGD([porism.nn.Parameter([1.0])], lr=0.5)
    >>> schedule = porism.optim.lr_scheduler.LambdaLR(opt, lambda step: 1 / (1 + step))
    >>> schedule.step()
    >>> opt.param_groups[0]["lr"]
    0.25
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float]) -> None:
        self.factor = lr_lambda
        super().__init__(optimizer)

    def rate(self, base: float, step: int) -> float:
        """Return the learning rate after a number of steps."""
        return base * self.factor(step)


class StepLR(Schedule):
    """The rate times `gamma` after every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def rate(self, base: float, step: int) -> float:
        """Return the learning rate after a number of steps."""
        return base * float(self.gamma ** (step // self.step_size))


class MultiStepLR(Schedule):
    """The rate times `gamma` at each milestone."""

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer)

    def rate(self, base: float, step: int) -> float:
        """Return the learning rate after a number of steps."""
        return base * float(self.gamma ** sum(step >= m for m in self.milestones))


class ExponentialLR(Schedule):
    """The rate times `gamma` after every step."""

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.gamma = gamma
        super().__init__(optimizer)

    def rate(self, base: float, step: int) -> float:
        """Return the learning rate after a number of steps."""
        return base * float(self.gamma**step)


class ConstantLR(Schedule):
    """The rate times `factor` for the first `total_iters` steps."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5) -> None:
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer)

    def rate(self, base: float, step: int) -> float:
        """Return the learning rate after a number of steps."""
        return base * (self.factor if step < self.total_iters else 1.0)


class LinearLR(Schedule):
    """The rate times a factor that goes linearly from one number to another: a warm-up."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
    ) -> None:
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer)

    def rate(self, base: float, step: int) -> float:
        """Return the learning rate after a number of steps."""
        done = min(step, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * done)


class PolynomialLR(Schedule):
    """The rate times (1 - step / total_iters) to a power."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer)

    def rate(self, base: float, step: int) -> float:
        """Return the learning rate after a number of steps."""
        left = 1 - min(step, self.total_iters) / self.total_iters
        return base * float(left**self.power)


class CosineAnnealingLR(Schedule):
    """The rate along half a cosine, from its first value to `eta_min` in `T_max` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,  # noqa: N803 - PyTorch's name
        eta_min: float = 0.0,
    ) -> None:
        self.period, self.eta_min = T_max, eta_min
        super().__init__(optimizer)

    def rate(self, base: float, step: int) -> float:
        """Return the learning rate after a number of steps."""
        wave = (1 + math.cos(math.pi * step / self.period)) / 2
        return self.eta_min + (base - self.eta_min) * wave


class CosineAnnealingWarmRestarts(Schedule):
    """Half a cosine again and again; each is `T_mult` times as long as the one before."""

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803 - PyTorch's name
        T_mult: int = 1,  # noqa: N803
        eta_min: float = 0.0,
    ) -> None:
        self.first, self.multiple, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer)

    def rate(self, base: float, step: int) -> float:
        """Return the learning rate after a number of steps."""
        length = self.first
        while step >= length:
            step -= length
            length *= self.multiple
        wave = (1 + math.cos(math.pi * step / length)) / 2
        return self.eta_min + (base - self.eta_min) * wave


class OneCycleLR(Schedule):
    """The rate up to `max_lr` in the first part of training, and down to almost 0 in the rest."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float,
        total_steps: int,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise PorismError(
                f"OneCycleLR with anneal_strategy={anneal_strategy!r}",
                where=users_line(),
                why="there are 'cos' and 'linear'",
                fix="pass one of them",
            )
        self.max_lr, self.total_steps, self.anneal_strategy = max_lr, total_steps, anneal_strategy
        self.initial_lr = max_lr / div_factor
        self.min_lr = self.initial_lr / final_div_factor
        self.peak = pct_start * total_steps - 1
        super().__init__(optimizer)

    def rate(self, base: float, step: int) -> float:
        """Return the learning rate after a number of steps."""
        if step <= self.peak:
            return self._between(self.initial_lr, self.max_lr, step / self.peak)
        done = (step - self.peak) / (self.total_steps - 1 - self.peak)
        return self._between(self.max_lr, self.min_lr, min(done, 1.0))

    def _between(self, start: float, end: float, done: float) -> float:
        """Return a number on the way from one to another."""
        if self.anneal_strategy == "linear":
            return start + (end - start) * done
        return end + (start - end) / 2 * (1 + math.cos(math.pi * done))


class SequentialLR(Schedule):
    """Schedules one after the other; each starts at its milestone, and counts from there."""

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[Schedule], milestones: Sequence[int]
    ) -> None:
        if len(milestones) != len(schedulers) - 1:
            raise PorismError(
                f"{len(schedulers)} schedules with {len(milestones)} milestones",
                where=users_line(),
                why="there is a milestone between each schedule and the next",
                fix="pass one milestone less than schedules",
            )
        self.schedulers, self.milestones = list(schedulers), list(milestones)
        super().__init__(optimizer)
        self.base_rates = list(schedulers[0].base_rates)  # those before any schedule
        for schedule in self.schedulers:
            schedule.base_rates = self.base_rates
        self._apply()

    def rate(self, base: float, step: int) -> float:
        """Return the learning rate after a number of steps."""
        position = sum(step >= m for m in self.milestones)
        start = self.milestones[position - 1] if position else 0
        return self.schedulers[position].rate(base, step - start)


class ReduceLROnPlateau:
    """The rate times `factor` when a metric has not improved for `patience` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if mode not in ("min", "max"):
            raise PorismError(
                f"ReduceLROnPlateau with mode={mode!r}",
                where=users_line(),
                why="a metric is better if it is smaller or larger",
                fix="pass 'min' or 'max'",
            )
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.cooldown, self.min_lr, self.eps = threshold, cooldown, min_lr, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.bad_steps = 0
        """Steps since the metric improved."""
        self.cooling = 0
        """Steps for which bad ones are not counted."""

    def step(self, metric: Any) -> None:
        """Take note of a metric, and lower the learning rates if it stays as it was."""
        value = float(metric)
        if self._is_better(value):
            self.best, self.bad_steps = value, 0
        else:
            self.bad_steps += 1
        if self.cooling:
            self.cooling, self.bad_steps = self.cooling - 1, 0
        if self.bad_steps > self.patience:
            for group in self.optimizer.param_groups:
                old = float(group["lr"])
                new = max(old * self.factor, self.min_lr)
                if old - new > self.eps:
                    group["lr"] = new
            self.cooling, self.bad_steps = self.cooldown, 0

    def _is_better(self, value: float) -> bool:
        """Whether a metric is better than the best one, by the threshold."""
        if self.mode == "min":
            return value < self.best * (1 - self.threshold)
        return value > self.best * (1 + self.threshold)
