"""Points: values of the symbols, all of them or some, tried at once as arrays.

A point is a value for each symbol. If there are few enough, all are tried. Otherwise some are, by
chance but always the same ones: the ends of all ranges are among them.

What a buffer holds is not known: an element is a number that depends on its address alone, spread
over values that indices take.
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

ALL: Final = 1 << 16
"""Points of which all are tried."""

SAMPLE: Final = 10_000
"""Points that are tried where there are more."""

Symbol = tuple[UOp, int]
"""A node and its copy."""

_DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD})


def span(node: UOp) -> tuple[int, int]:
    """The least value of a symbol, and how many there are at most."""
    if node.vmin == -math.inf or node.vmax == math.inf:
        raise Unknown("a symbol without bounds")
    return int(node.vmin), max(int(node.vmax) - int(node.vmin) + 1, 0)


class Points:
    """The world of arrays: one element a point."""

    def __init__(
        self, symbols: Sequence[Symbol], *, most: int = ALL, sample: int = SAMPLE, width: int = 0
    ) -> None:
        self.symbols = list(symbols)
        spans = [span(node) for node, _ in self.symbols]
        self.total = math.prod(count for _, count in spans)
        self.every = self.total <= most
        """Whether all points are tried."""
        self.count = self.total if self.every else sample
        self.width = width
        """How far from 0 elements are."""
        self.values: dict[Symbol, Array] = {}
        self.active = np.ones(self.count, np.bool_)
        """Which points are inside of all ranges."""
        self.data = False
        """Whether elements of buffers were asked for."""
        self._bounded: set[Symbol] = set()
        generator = np.random.default_rng(2024)
        numbers = np.arange(self.count)
        step = 1
        for place, (symbol, (low, count)) in enumerate(zip(self.symbols, spans, strict=True)):
            if self.every:
                own = numbers // step % max(count, 1)
                step *= max(count, 1)
            else:
                own = generator.integers(0, max(count, 1), self.count)
                _set_ends(own, place, count)
            self.values[symbol] = own + low

    def at(self, point: int) -> dict[Symbol, int]:
        """The values of the symbols at a point."""
        return {symbol: int(self.values[symbol][point]) for symbol in self.symbols}

    # -- the world ---------------------------------------------------------------------------------

    def constant(self, dtype: DType, value: bool | int | float) -> Array:
        if dtype.is_float:
            raise Unknown("a float in an index")
        return semantics.array_of(dtype, value)

    def symbol(self, node: UOp, copy: int, low: int, end: Array) -> Array:
        found = self.values.get((node, copy))
        if found is None:
            raise Unknown("a symbol that is not among the points")
        if (node, copy) not in self._bounded:
            self._bounded.add((node, copy))
            self.active &= np.asarray(found < end, np.bool_)
        return semantics.cast(index, node.dtype.element, found) if _is_word(node.dtype) else found

    def element(self, buffer: Buffer, dtype: DType, address: Array) -> Array:
        self.data = True
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
        """A truth for each point; where there is no such point, it is true."""
        return np.asarray(np.broadcast_to(value, self.count) | ~self.active, np.bool_)


def _is_word(dtype: DType) -> bool:
    return dtype.kind is not Kind.INDEX and dtype is not boolean


def _set_ends(values: Array, place: int, count: int) -> None:
    """The first points: all at their start, all at their end, each alone at its end, all but it."""
    last = max(count - 1, 0)
    values[0], values[1] = 0, last
    if 3 + 2 * place < len(values):
        values[2 : min(66, len(values)) : 2] = 0
        values[3 : min(67, len(values)) : 2] = last
        values[2 + 2 * place], values[3 + 2 * place] = last, 0


def named(point: Mapping[Symbol, int], names: Mapping[UOp, str]) -> str:
    """A point as text: `r0 = 3, r1 = 5`; the second copy of a symbol has a prime."""
    shown = [
        f"{names.get(node, node.op.name.lower())}{chr(39) * copy} = {value}"
        for (node, copy), value in point.items()
    ]
    return ", ".join(shown) or "every iteration"
