"""Float arithmetic: building blocks of float formulas as nodes, for f32 and f64 and their vectors.

A double-double is a pair (high, low), where low is the rounding error of high. The sum and the
product of two floats are exactly such pairs; see `total` and `product`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from porism.base.dtypes import DType, f32, f64, i32, i64, u32, u64
from porism.ir import ops
from porism.ir.node import UOp

Pair = tuple[UOp, UOp]
"""A double-double: a float and its rounding error."""

WORDS: Final = {f32: i32, f64: i64}
"""Signed integers of the same width."""

UNSIGNED: Final = {f32: u32, f64: u64}
"""Unsigned integers of the same width."""


class Floats:
    """Constructors of nodes of one float type.

    `fused` says whether the target has MULACC, `scales` whether it also has LDEXP.
    """

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
        """Return a constant of the float type."""
        return UOp.const(self.dtype, value)

    def integer(self, value: int) -> UOp:
        """Return a constant of the integer type of the same width."""
        return UOp.const(self.word, value)

    def bits(self, x: UOp) -> UOp:
        """Return the bits of a float as an integer."""
        return x.bitcast(self.word)

    def of_bits(self, word: UOp) -> UOp:
        """Return the float of these bits."""
        return word.bitcast(self.dtype)

    def magnitude(self, x: UOp) -> UOp:
        """Return |x|."""
        return self.of_bits(self.bits(x) & ((1 << (self.width - 1)) - 1))

    # -- arithmetic --------------------------------------------------------------------------------

    def fused_sum(self, a: UOp, b: UOp, c: UOp) -> UOp:
        """Return a*b + c, rounded once where the target has MULACC."""
        return ops.MULACC(a, b, c) if self.fused else a * b + c

    def polynomial(self, x: UOp, coefficients: Sequence[float]) -> UOp:
        """Return a polynomial by Horner's rule; the coefficients begin with the constant."""
        total = self.number(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = self.fused_sum(total, x, self.number(c))
        return total

    def total(self, a: UOp, b: UOp) -> Pair:
        """Return a + b exactly (fast two-sum), where a is 0 or |a| is at least |b|."""
        high = a + b
        return high, b - (high - a)

    def product(self, a: UOp, b: UOp) -> Pair:
        """Return a*b exactly (two-product), unless it overflows or is subnormal."""
        high = a * b
        if self.fused:
            return high, ops.MULACC(a, b, -high)
        a_high, a_low = self.halves(a)
        b_high, b_low = self.halves(b)
        rest = a_high * b_high - high
        return high, a_low * b_low + (a_low * b_high + (a_high * b_low + rest))

    def halves(self, x: UOp) -> Pair:
        """Return x as a sum of two floats of half the bits each; the upper one is rounded."""
        cut = (self.fraction + 2) // 2
        high = self.of_bits((self.bits(x) + (1 << (cut - 1))) & -(1 << cut))
        return high, x - high

    def bounded(self, x: UOp, least: float, most: float) -> UOp:
        """Return x clamped to bounds; NaN stays NaN."""
        above = (x < least).where(self.number(least), x)
        return (above > most).where(self.number(most), above)

    # -- rounding ----------------------------------------------------------------------------------

    def nearest(self, x: UOp) -> Pair:
        """Return the nearest integer as a float, and a float with that integer in its lowest bits.

        Adding the magic number shifts the fraction out; this is correct for |x| up to half of
        2**fraction.
        """
        shifted = x + self.magic
        return shifted - self.magic, shifted

    def above_magic(self, word: UOp) -> UOp:
        """Return the magic number plus a small signed integer, as a float."""
        return self.of_bits(word + self.magic_bits)


INFINITY: Final = math.inf
NAN: Final = math.nan
