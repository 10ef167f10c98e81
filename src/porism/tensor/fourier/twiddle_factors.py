"""Twiddle factors: tables of roots of unity, computed in double precision and kept for reuse."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from porism.base.dtypes import DType
from porism.engine.run.buffer_storage import note_movable
from porism.ir.node import UOp
from porism.tensor.conversion import from_array
from porism.tensor.jit.tracing import current
from porism.tensor.tensor import Tensor

MOST_BYTES: Final = 1 << 27
"""Bytes of tables that are kept: those of the transforms of a few million elements."""

_kept: OrderedDict[Any, tuple[UOp, UOp, int]] = OrderedDict()


def roots(exponents: Any, order: int) -> Any:
    """Return exp(-2πi · exponent / order), in double precision; exponents are reduced exactly.

    >>> bool(np.abs(roots(np.array([0, 2, 6]), 8) - [1, -1j, 1j]).max() < 1e-15)
    True
    """
    angle = (np.asarray(exponents) % order) * (-2 * np.pi / order)
    return np.cos(angle) + 1j * np.sin(angle)


def table(key: Any, dtype: DType, make: Callable[[], Any]) -> tuple[Tensor, Tensor]:
    """Return the real and imaginary part of an array of complex numbers, made once for a key."""
    found = _kept.pop((key, dtype), None)
    if found is None:
        values = make()
        token = current.set(None)  # it belongs to no trace
        try:
            parts = [from_array(part.astype(dtype.numpy)) for part in (values.real, values.imag)]
            for part in parts:  # whatever uses it, on which device it may be
                note_movable(part.node, part.node)
            found = (parts[0].node, parts[1].node, 2 * values.size * dtype.numpy.itemsize)
        finally:
            current.reset(token)
    _kept[key, dtype] = found
    while len(_kept) > 1 and sum(size for _, _, size in list(_kept.values())) > MOST_BYTES:
        _kept.popitem(last=False)
    return Tensor(found[0]), Tensor(found[1])
