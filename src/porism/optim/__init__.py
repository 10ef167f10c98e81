"""Optimizers: PyTorch's names, arguments and steps, and learning-rate schedules."""

from porism.optim import learning_rate_schedules as lr_scheduler
from porism.optim.adaptive_optimizers import Adagrad, Adam, AdamW, Lion, RMSprop
from porism.optim.gradient_scaling import (
    GradScaler,
    clip_grad_norm_,
    clip_grad_value_,
    get_total_norm,
)
from porism.optim.momentum_optimizers import SGD, Muon
from porism.optim.optimizer import Optimizer
from porism.tensor import namespace

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "GradScaler",
    "Lion",
    "Muon",
    "Optimizer",
    "RMSprop",
    "clip_grad_norm_",
    "clip_grad_value_",
    "get_total_norm",
    "lr_scheduler",
]

namespace.load()  # optimizers use the methods of tensors
