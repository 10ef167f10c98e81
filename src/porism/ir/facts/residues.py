"""Residues: a congruence that every value of a node satisfies, `x ≡ remainder (mod modulus)`.

A residue is a pair `(modulus, remainder)`. `(1, 0)` says nothing; `(0, r)` says that the value *is*
r. Interval bounds cannot tell that `4*i + 1` never crosses a multiple of 8 that `4*i` does not; its
residue `(4, 1)` can. A fixed-width operation that may wrap keeps only the power of two that
survives the wrap.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from porism.base.dtypes import DType, Kind

if TYPE_CHECKING:
    from porism.ir.node import UOp

Residue = tuple[int, int]
Sources = tuple["UOp", ...]

ANY: Residue = (1, 0)
LARGEST = 1 << 128  # a modulus beyond it is dropped; chosen by hand


def canonical(modulus: int, remainder: int) -> Residue:
    """Return a residue in canonical form: 0 <= remainder < modulus."""
    if modulus == 0:
        return (0, remainder) if -LARGEST < remainder < LARGEST else ANY
    if modulus == 1 or modulus > LARGEST:
        return ANY
    return (modulus, remainder % modulus)


def _exact(dtype: DType, modulus: int, remainder: int, low: Any, high: Any) -> Residue:
    """Return the residue of an exact result in a type that wraps unless `low` … `high` fits."""
    if low >= dtype.min and high <= dtype.max:
        return canonical(modulus, remainder)
    return canonical(gcd(modulus, 1 << dtype.bits), remainder)


def unknown(dtype: DType, src: Sources, arg: Any) -> Residue:
    return ANY


def first(dtype: DType, src: Sources, arg: Any) -> Residue:
    return src[0].residue


def hull(dtype: DType, src: Sources, arg: Any) -> Residue:
    """Return the residue that all sources have."""
    modulus, remainder = src[0].residue
    for s in src[1:]:
        m, r = s.residue
        modulus = gcd(gcd(modulus, m), abs(remainder - r))
    return canonical(modulus, remainder)


def const(dtype: DType, src: Sources, arg: Any) -> Residue:
    return (0, arg) if dtype.is_integer else ANY


def vconst(dtype: DType, src: Sources, arg: Any) -> Residue:
    if not dtype.is_integer:
        return ANY
    modulus = 0
    for lane in arg:
        modulus = gcd(modulus, lane - arg[0])
    return canonical(modulus, arg[0])


def _wraps(dtype: DType, modulus: int, remainder: int) -> Residue:
    """Return the residue of a ring operation: on fixed widths, modulo a power of two at most."""
    return canonical(gcd(modulus, 1 << dtype.bits) if dtype.bits else modulus, remainder)


def add(dtype: DType, src: Sources, arg: Any) -> Residue:
    (m, r), (n, s) = src[0].residue, src[1].residue
    if m == 1 or n == 1:
        return ANY
    if dtype.bits:
        low, high = src[0].vmin + src[1].vmin, src[0].vmax + src[1].vmax
        return _exact(dtype, gcd(m, n), r + s, low, high)
    return canonical(gcd(m, n), r + s)


def sub(dtype: DType, src: Sources, arg: Any) -> Residue:
    (m, r), (n, s) = src[0].residue, src[1].residue
    if m == 1 or n == 1:
        return ANY
    if dtype.bits:
        low, high = src[0].vmin - src[1].vmax, src[0].vmax - src[1].vmin
        return _exact(dtype, gcd(m, n), r - s, low, high)
    return canonical(gcd(m, n), r - s)


def mul(dtype: DType, src: Sources, arg: Any) -> Residue:
    (m, r), (n, s) = src[0].residue, src[1].residue
    if m == 1 and n == 1:
        return ANY
    modulus = gcd(gcd(m * n, m * s), n * r)
    if dtype.bits:
        a, b = src
        products = [x * y for x in (a.vmin, a.vmax) for y in (b.vmin, b.vmax)]
        return _exact(dtype, modulus, r * s, min(products), max(products))
    return canonical(modulus, r * s)


def neg(dtype: DType, src: Sources, arg: Any) -> Residue:
    m, r = src[0].residue
    return _wraps(dtype, m, -r)


def idiv(dtype: DType, src: Sources, arg: Any) -> Residue:
    """Use (m·k + r) // d = (m/d)·k + r//d where d divides m, for a constant d > 0."""
    (m, r), (n, d) = src[0].residue, src[1].residue
    if n == 0 and d > 0 and m % d == 0:
        return canonical(m // d, r // d)
    return ANY


def mod(dtype: DType, src: Sources, arg: Any) -> Residue:
    """Use x % d = x − d·q: the modulus is the gcd of those of x and d."""
    (m, r), (n, d) = src[0].residue, src[1].residue
    if n != 0 or d == 0:
        return ANY
    if m % d == 0:
        return (0, r % d)
    return canonical(gcd(m, d), r)


def shl(dtype: DType, src: Sources, arg: Any) -> Residue:
    """Use x << k = x·2^k for a constant k in range."""
    (m, r), (n, k) = src[0].residue, src[1].residue
    if n != 0 or not 0 <= k < (dtype.bits or 128):
        return ANY
    return _wraps(dtype, m << k, r << k)


def where(dtype: DType, src: Sources, arg: Any) -> Residue:
    if src[2].op.name == "INVALID":
        return src[1].residue
    return hull(dtype, src[1:], arg)


def cast(dtype: DType, src: Sources, arg: Any) -> Residue:
    value = src[0]
    if not dtype.is_integer or not value.dtype.is_integer:
        return ANY
    return _exact(dtype, *value.residue, value.vmin, value.vmax)


def mulacc(dtype: DType, src: Sources, arg: Any) -> Residue:
    m, r = mul(dtype, src[:2], arg)
    n, s = src[2].residue
    return _wraps(dtype, gcd(m, n), r + s)


def zero_padded(dtype: DType, src: Sources, arg: Any) -> Residue:
    m, r = src[0].residue
    return canonical(gcd(m, r), 0) if dtype.kind is not Kind.FLOAT else ANY


def of(root: UOp) -> Residue:
    """Return the residue of a node, from those of its sources, without recursion."""
    stack = [root]
    while stack:
        node = stack[-1]
        residue = ANY
        if node.dtype.is_integer:
            waiting = [s for s in node.src if not hasattr(s, "_residue")]
            if waiting:
                stack += waiting
                continue
            residue = node.op.residue(node.dtype, node.src, node.arg)
        stack.pop()
        object.__setattr__(node, "_residue", residue)
    return root._residue
