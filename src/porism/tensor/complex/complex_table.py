"""Complex table: the implementations of all functions on complex tensors, by name."""

from __future__ import annotations

from porism.tensor.complex import (
    complex_arithmetic,
    complex_exponentials,
    complex_movement,
    complex_products,
)
from porism.tensor.complex.complex_tensor import IMPLEMENTATIONS

__all__ = [
    "IMPLEMENTATIONS",
    "complex_arithmetic",
    "complex_exponentials",
    "complex_movement",
    "complex_products",
]
