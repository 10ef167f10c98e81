"""Tensors of some values, and the kernels that they become."""

from __future__ import annotations

from typing import Any

import numpy as np

import porism


def values(*shape: int) -> Any:
    generator = np.random.default_rng(0)
    return porism.asarray(generator.random(shape, np.float32))


def kernel_of(tensor: Any) -> Any:
    (kernel,) = porism.kernels(tensor)
    return kernel
