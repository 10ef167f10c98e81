"""Singles: expected values in single precision, which is the default type of floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from porism.ir.facts.semantics import Array


def singles(values: Any) -> Array:
    """Return nested lists of numbers as an array of float32."""
    return np.array(values, np.float32)
