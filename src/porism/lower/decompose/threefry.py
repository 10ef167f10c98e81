"""Threefry: the counter-based random generator as additions, rotations and xors of 32 bits.

Threefry-2x32 with 20 rounds (Salmon et al., SC 2011): the counter and the key are two words each,
the low one first.
"""

from __future__ import annotations

from typing import Final

from porism.base.dtypes import Theory, u32, u64
from porism.ir import ops
from porism.ir.node import UOp
from porism.rewrite.rule import RuleSet, procedure

_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
"""Rotations, in bits, of the four rounds of even and odd groups."""
_PARITY: Final = 0x1BD11BDA
"""The third key word is the xor of the others and this constant."""
_GROUPS: Final = 5
"""Groups of four rounds; the key schedule is added after each."""


def _words(x: UOp) -> tuple[UOp, UOp]:
    """Return the low and the high 32 bits."""
    word = u32.vec(x.dtype.count)
    return x.cast(word), (x >> 32).cast(word)


def _rotate_left(x: UOp, amount: int) -> UOp:
    return (x << amount) | (x >> (32 - amount))


@procedure("threefry-rounds", (ops.THREEFRY,))
def threefry(node: UOp) -> UOp | None:
    """Compute random bits by 20 rounds of adding, rotating and xoring two words."""
    counter, key = node.src
    low, high = _words(key)
    keys = (low, high, low ^ high ^ _PARITY)
    a, b = (word + k for word, k in zip(_words(counter), keys, strict=False))
    for group in range(_GROUPS):
        for amount in _ROTATIONS[group % 2]:
            a = a + b
            b = _rotate_left(b, amount) ^ a
        a = a + keys[(group + 1) % 3]
        b = b + keys[(group + 2) % 3] + (group + 1)
    wide = u64.vec(node.dtype.count)
    return a.cast(wide) | (b.cast(wide) << 32)


RANDOM_BITS = RuleSet("random-bits", theory=Theory.STRUCTURE, rules=(threefry,))
