"""Random tensors, and the kernel of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

import porism


def values(*shape: int) -> Any:
    """Return a tensor of random values between 0 and 1."""
    generator = np.random.default_rng(0)
    return porism.asarray(generator.random(shape, np.float32))


def kernel_of(tensor: Any) -> Any:
    """Return the one kernel that computes a tensor."""
    (kernel,) = porism.kernels(tensor)
    return kernel
