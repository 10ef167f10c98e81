"""Loss layers: losses of a prediction and its target, as modules without weights."""

from __future__ import annotations

from typing import Any

from porism.nn.module import Module
from porism.tensor.network.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    l1_loss,
    mse_loss,
    nll_loss,
)
from porism.tensor.tensor import Tensor


class CrossEntropyLoss(Module):
    """Returns the cross entropy of logits and labels or probabilities.

    >>> porism.nn.CrossEntropyLoss()([[0.0, 0.0]], [1]).shape
    ()
    """

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        self.weight = weight
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.label_smoothing = label_smoothing

    def forward(self, x: Any, target: Any) -> Tensor:
        """Return the function of the inputs."""
        return cross_entropy(
            x,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(Module):
    """Returns minus the log-probabilities of labels.

    >>> porism.nn.NLLLoss()([[-1.0, -2.0]], [0]).shape
    ()
    """

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        self.weight = weight
        self.ignore_index = ignore_index
        self.reduction = reduction

    def forward(self, x: Any, target: Any) -> Tensor:
        """Return the function of the inputs."""
        return nll_loss(
            x, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class MSELoss(Module):
    """Returns the mean squared difference.

    >>> porism.nn.MSELoss()([1.0], [3.0]).shape
    ()
    """

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction

    def forward(self, x: Any, target: Any) -> Tensor:
        """Return the function of the inputs."""
        return mse_loss(x, target, reduction=self.reduction)


class L1Loss(Module):
    """Returns the mean absolute difference.

    >>> porism.nn.L1Loss()([1.0], [3.0]).shape
    ()
    """

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction

    def forward(self, x: Any, target: Any) -> Tensor:
        """Return the function of the inputs."""
        return l1_loss(x, target, reduction=self.reduction)


class HuberLoss(Module):
    """Returns the squared difference up to delta, linear beyond.

    >>> porism.nn.HuberLoss()([1.0], [3.0]).shape
    ()
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        self.reduction = reduction
        self.delta = delta

    def forward(self, x: Any, target: Any) -> Tensor:
        """Return the function of the inputs."""
        return huber_loss(x, target, reduction=self.reduction, delta=self.delta)


class BCELoss(Module):
    """Returns the cross entropy of probabilities and targets from 0 to 1.

    >>> porism.nn.BCELoss()([0.5], [1.0]).shape
    ()
    """

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        self.weight = weight
        self.reduction = reduction

    def forward(self, x: Any, target: Any) -> Tensor:
        """Return the function of the inputs."""
        return binary_cross_entropy(x, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(Module):
    """Returns the cross entropy of logits and targets from 0 to 1.

    >>> porism.nn.BCEWithLogitsLoss()([0.0], [1.0]).shape
    ()
    """

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None) -> None:
        self.weight = weight
        self.reduction = reduction
        self.pos_weight = pos_weight

    def forward(self, x: Any, target: Any) -> Tensor:
        """Return the function of the inputs."""
        return binary_cross_entropy_with_logits(
            x, target, weight=self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )
