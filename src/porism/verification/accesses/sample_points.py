"""Sample points: values of the symbols, all of them or a sample, evaluated as arrays.

A point has a value for each symbol. If there are few enough, all points are evaluated; otherwise a
pseudo-random sample, the same in every run, which includes the ends of all loops.

The contents of buffers are unknown: an element is a hash of its address, within the range of values
that indices have.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from porism.base.dtypes import DType, Kind, boolean, index
from porism.evaluate.op_evaluation import meaning
from porism.ir import ops
from porism.ir.facts import semantics
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.verification.accesses.index_evaluation import Buffer, Unknown

MAX_EXHAUSTIVE: Final = 1 << 16
"""Up to so many points, all are evaluated; chosen by hand."""

SAMPLE_POINTS: Final = 10_000
"""How many points are sampled where there are more; chosen by hand."""

Symbol = tuple[UOp, int]
"""A node and its copy."""

_DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD})


def value_range(node: UOp) -> tuple[int, int]:
    """Return the least value of a symbol, and how many values it has at most."""
    if node.vmin == -math.inf or node.vmax == math.inf:
        raise Unknown("a symbol without bounds")
    return int(node.vmin), max(int(node.vmax) - int(node.vmin) + 1, 0)


class PointDomain:
    """The domain of arrays with one element per point."""

    def __init__(
        self,
        symbols: Sequence[Symbol],
        *,
        max_exhaustive: int = MAX_EXHAUSTIVE,
        sample: int = SAMPLE_POINTS,
        width: int = 0,
    ) -> None:
        self.symbols = list(symbols)
        spans = [value_range(node) for node, _ in self.symbols]
        self.total = math.prod(count for _, count in spans)
        self.is_exhaustive = self.total <= max_exhaustive
        """Whether all points are evaluated."""
        self.count = self.total if self.is_exhaustive else sample
        self.width = width
        """Bound of the absolute values of elements."""
        self.values: dict[Symbol, Array] = {}
        self.active = np.ones(self.count, np.bool_)
        """Which points are within the extents of all loops."""
        self.reads_data = False
        """Whether elements of buffers were read."""
        self._bounded: set[Symbol] = set()
        generator = np.random.default_rng(2024)
        numbers = np.arange(self.count)
        step = 1
        for position, (symbol, (low, count)) in enumerate(zip(self.symbols, spans, strict=True)):
            if self.is_exhaustive:
                own = numbers // step % max(count, 1)
                step *= max(count, 1)
            else:
                own = generator.integers(0, max(count, 1), self.count)
                _set_ends(own, position, count)
            self.values[symbol] = own + low

    def at(self, point: int) -> dict[Symbol, int]:
        """Return the values of the symbols at a point."""
        return {symbol: int(self.values[symbol][point]) for symbol in self.symbols}

    # -- the domain --------------------------------------------------------------------------------

    def constant(self, dtype: DType, value: bool | int | float) -> Array:
        if dtype.is_float:
            raise Unknown("a float in an index")
        return semantics.array_of(dtype, value)

    def symbol(self, node: UOp, copy: int, low: int, end: Array) -> Array:
        values = self.values.get((node, copy))
        if values is None:
            raise Unknown("a symbol that is not among the points")
        if (node, copy) not in self._bounded:
            self._bounded.add((node, copy))
            self.active &= np.asarray(values < end, np.bool_)
        return semantics.cast(index, node.dtype.element, values) if _is_word(node.dtype) else values

    def element(self, buffer: Buffer, dtype: DType, address: Array) -> Array:
        self.reads_data = True
        seed = zlib.crc32(repr(buffer).encode())
        mixed = (np.asarray(address).astype(np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B1)
        mixed ^= mixed >> np.uint64(15)
        if dtype.kind is Kind.BOOL:
            return np.asarray(mixed % np.uint64(2) == 1, np.bool_)
        low = max(int(dtype.min), -self.width - 2)
        high = min(int(dtype.max), self.width + 2)
        spread = (mixed % np.uint64(high - low + 1)).astype(np.int64) + low
        return spread.astype(dtype.numpy)

    def cast(self, value: Array, source: DType, target: DType) -> Array:
        if source.is_float or target.is_float:
            raise Unknown("a float in an index")
        return np.asarray(semantics.cast(source, target, value))

    def apply(self, op: Op, dtype: DType, *operands: Array) -> Array:
        if dtype.is_float:
            raise Unknown("a float in an index")
        if op in _DIVISIONS:
            a, b = operands
            operands = (a, np.where(b == 0, 1, b).astype(np.asarray(b).dtype))
        return meaning(op, dtype, *operands)

    def truth(self, value: Any) -> Array:
        """Return a condition at each point; true outside of the loops."""
        return np.asarray(np.broadcast_to(value, self.count) | ~self.active, np.bool_)


def _is_word(dtype: DType) -> bool:
    return dtype.kind is not Kind.INDEX and dtype is not boolean


def _set_ends(values: Array, position: int, count: int) -> None:
    """Set the first points: all symbols first or last, then each alone last, and alone first."""
    last = max(count - 1, 0)
    values[0], values[1] = 0, last
    if 3 + 2 * position < len(values):
        values[2 : min(66, len(values)) : 2] = 0
        values[3 : min(67, len(values)) : 2] = last
        values[2 + 2 * position], values[3 + 2 * position] = last, 0


def point_text(point: Mapping[Symbol, int], names: Mapping[UOp, str]) -> str:
    """Return a point as text: `r0 = 3, r1 = 5`; the second copy of a symbol has a prime."""
    shown = [
        f"{names.get(node, node.op.name.lower())}{chr(39) * copy} = {value}"
        for (node, copy), value in point.items()
    ]
    return ", ".join(shown) or "every iteration"
