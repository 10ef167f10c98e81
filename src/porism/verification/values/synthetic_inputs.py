"""Synthetic inputs: integers for the inputs of a program, the same in every process.

Sums and products of small integers are exact in every order, so that values can be compared without
a tolerance. One set of numbers does not show every fault: the maximum of numbers of both signs is
not negative, and small integers do not overflow. So there are several rounds.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

import numpy as np

from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import toposort

ROUNDS: Final = 3
"""Sets of data: of both signs; positive; negative, and integers of any size."""

_FLOATS: Final = ((-3, 3), (1, 4), (-4, -1))
_SHORT_FLOATS: Final = ((-1, 1), (1, 2), (-2, -1))
"""Least and largest floats of each round; of types with few bits the second row."""

_INTEGERS: Final = ((-2, 9), (0, 40))
"""The same of integers; those of the last round are of any size."""

FEW_BITS: Final = 16
"""Bits of a float type whose sums are soon rounded."""


MAX_ELEMENTS: Final = 1 << 27
"""Most elements of one input: a gigabyte of the widest type."""


class TooLarge(Exception):  # noqa: N818 - a limit, not an error
    """There are more elements than can be computed in reasonable time."""


def numbers(
    dtype: DType,
    size: int,
    round_number: int,
    label: str,
    low: float = -np.inf,
    high: float = np.inf,
) -> Array:
    """Return `size` elements of a type for a round, between bounds."""
    if size > MAX_ELEMENTS:
        raise TooLarge
    generator = np.random.default_rng(zlib.crc32(f"{round_number} {label}".encode()))
    if dtype.kind is Kind.BOOL:
        return generator.integers(0, 2, size).astype(np.bool_)
    if dtype.is_float:
        least, most = (_SHORT_FLOATS if dtype.bits <= FEW_BITS else _FLOATS)[round_number % ROUNDS]
    elif round_number % ROUNDS < len(_INTEGERS):
        least, most = _INTEGERS[round_number % ROUNDS]
    else:
        least, most = int(dtype.min), int(dtype.max)
    if low > least:
        least, most = int(np.ceil(low)), int(np.ceil(low)) + most - least
    if high < most:
        least, most = max(least - (most - int(high)), int(max(low, dtype.min))), int(high)
    if not dtype.is_float:
        least, most = max(least, int(dtype.min)), min(most, int(dtype.max))
        return generator.integers(least, max(most, least), size, dtype.numpy, endpoint=True)
    return generator.integers(least, max(most, least) + 1, size).astype(dtype.numpy)


def variables(roots: tuple[UOp, ...], round_number: int) -> dict[str, int]:
    """Return values for the variables of graphs: the largest, the least, or one in between."""
    values: dict[str, int] = {}
    for node in toposort(*roots):
        if node.op is ops.VARIABLE:
            low, high = int(node.vmin), int(node.vmax)
            values[str(node.arg[0])] = (high, low, (low + high) // 2)[round_number % ROUNDS]
    return values


Variables = Mapping[str, int]
