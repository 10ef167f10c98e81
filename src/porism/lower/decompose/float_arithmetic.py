"""Floats: small pieces of float arithmetic as nodes, for scalars and vectors of f32 and f64.

A number in twice the precision is a pair (high, low), where low is what high has lost. Sums and
products of two numbers are such pairs exactly; see `total` and `product`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from porism.base.dtypes import DType, f32, f64, i32, i64, u32, u64
from porism.ir import ops
from porism.ir.node import UOp

Pair = tuple[UOp, UOp]

WORDS: Final = {f32: i32, f64: i64}
"""The integers of the same width."""

UNSIGNED: Final = {f32: u32, f64: u64}


class Floats:
    """Nodes of one float type; `fused` says whether MULACC is there, and cheap, `scales` LDEXP."""

    def __init__(self, dtype: DType, fused: bool, scales: bool = False) -> None:
        lane = dtype.element
        self.dtype = dtype
        self.name = lane.name
        self.count = dtype.count
        self.fused = fused
        self.scales = fused and scales
        self.word = WORDS[lane].vec(dtype.count)
        self.width = lane.bits
        self.fraction = lane.precision - 1  # bits of the significand that are stored
        self.bias = (1 << (lane.bits - self.fraction - 2)) - 1
        self.magic = 1.5 * 2.0**self.fraction
        self.magic_bits = ((self.bias + self.fraction) << self.fraction) + (
            1 << (self.fraction - 1)
        )

    def number(self, value: float) -> UOp:
        return UOp.const(self.dtype, value)

    def integer(self, value: int) -> UOp:
        return UOp.const(self.word, value)

    def bits(self, x: UOp) -> UOp:
        return x.bitcast(self.word)

    def of_bits(self, word: UOp) -> UOp:
        return word.bitcast(self.dtype)

    def magnitude(self, x: UOp) -> UOp:
        return self.of_bits(self.bits(x) & ((1 << (self.width - 1)) - 1))

    # -- arithmetic --------------------------------------------------------------------------------

    def fused_sum(self, a: UOp, b: UOp, c: UOp) -> UOp:
        """a*b + c, rounded once where that is cheap."""
        return ops.MULACC(a, b, c) if self.fused else a * b + c

    def polynomial(self, x: UOp, coefficients: Sequence[float]) -> UOp:
        """By Horner's rule; the coefficients begin with the constant."""
        total = self.number(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = self.fused_sum(total, x, self.number(c))
        return total

    def total(self, a: UOp, b: UOp) -> Pair:
        """a + b exactly, where a is 0 or |a| is at least |b|."""
        high = a + b
        return high, b - (high - a)

    def product(self, a: UOp, b: UOp) -> Pair:
        """a*b exactly, unless it overflows or falls below the normal numbers."""
        high = a * b
        if self.fused:
            return high, ops.MULACC(a, b, -high)
        a_high, a_low = self.halves(a)
        b_high, b_low = self.halves(b)
        rest = a_high * b_high - high
        return high, a_low * b_low + (a_low * b_high + (a_high * b_low + rest))

    def halves(self, x: UOp) -> Pair:
        """x as a sum of two numbers of half the bits: the upper one is rounded."""
        cut = (self.fraction + 2) // 2
        high = self.of_bits((self.bits(x) + (1 << (cut - 1))) & -(1 << cut))
        return high, x - high

    def bounded(self, x: UOp, least: float, most: float) -> UOp:
        """A number brought into bounds; NaN stays."""
        above = (x < least).where(self.number(least), x)
        return (above > most).where(self.number(most), above)

    # -- rounding ----------------------------------------------------------------------------------

    def nearest(self, x: UOp) -> Pair:
        """The nearest integer as a float, and a float that has it in its lowest bits.

        Right up to half of 2 to the number of stored bits; adding the magic number shifts all
        that is behind the point out.
        """
        shifted = x + self.magic
        return shifted - self.magic, shifted

    def above_magic(self, word: UOp) -> UOp:
        """The magic number plus a small signed word."""
        return self.of_bits(word + self.magic_bits)


INFINITY: Final = math.inf
NAN: Final = math.nan
