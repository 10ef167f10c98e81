"""Data: the arrays that the rows of the table are about."""

from __future__ import annotations

import numpy as np

from porism.ir.facts.semantics import Array
from tests.tensor.oracle import draw, numpy_type


def arrays(name: str, rows: int = 3, columns: int = 4) -> dict[str, Array]:
    """Arrays of a type by the name that they have in the table."""
    kind = numpy_type(name)
    x = draw(name, (rows, columns), 1)
    y = draw(name, (rows, columns), 2)
    found = {
        "x": x,
        "y": np.where(y == 0, np.ones(1, kind), y).astype(kind) if name != "bool" else y,
        "row": draw(name, (columns,), 3),
        "image": draw(name, (1, 2, 6, 6), 4),
        "taps": draw(name, (3, 2, 2, 2), 5),
        "places": np.array([1, 0, 2]),
        "order": np.stack([np.random.default_rng(k).permutation(columns) for k in range(rows)]),
    }
    if name != "bool":
        found["positive_"] = np.abs(found["x"]) + np.ones(1, kind)
        found["small"] = np.abs(found["x"]) % np.array(4, kind)
    if kind.kind not in "biu":
        found["unit"] = np.tanh(found["x"].astype(np.float64) * 0.3).astype(kind)
    return found
