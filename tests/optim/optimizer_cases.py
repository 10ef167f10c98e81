"""Cases of optimizers and schedules, the same in PyTorch; gradients follow a formula."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

STEPS: Final = 7
SHAPES: Final = ((3, 4), (5,), ())
MATRICES: Final = ((3, 4), (6, 2), (4, 4))

OPTIMIZERS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.5, "maximize": True}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.2}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5}),
    ("RMSprop", {"lr": 0.1}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Muon", {"lr": 0.1}),
    ("Muon", {"lr": 0.1, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}),
)

SCHEDULES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("StepLR", {"step_size": 3, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [2, 5], "gamma": 0.1}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("ConstantLR", {"factor": 0.5, "total_iters": 4}),
    ("LinearLR", {"start_factor": 0.2, "total_iters": 6}),
    ("PolynomialLR", {"total_iters": 8, "power": 2.0}),
    ("CosineAnnealingLR", {"T_max": 8, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 12}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 12, "anneal_strategy": "linear"}),
)
SCHEDULE_STEPS: Final = 11


def case_name(name: str, options: dict[str, Any]) -> str:
    """Return a readable name."""
    return f"{name}({', '.join(f'{k}={v}' for k, v in options.items())})"


def values(sizes: tuple[int, ...], seed: int) -> Array:
    """Return numbers from -1 to 1 that look random."""
    wave: Array = np.sin((np.arange(int(np.prod(sizes))) + 1) * (seed + 2.5) * 0.7351)
    return wave.reshape(sizes).astype(np.float32)


def shapes_for(name: str) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the parameters of a case."""
    return MATRICES if name == "Muon" else SHAPES
