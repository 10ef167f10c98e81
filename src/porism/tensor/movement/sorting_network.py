"""Sorting network: integer keys in the order of values, and a bitonic network that sorts them.

Comparisons do not order floats, since NaN compares with nothing; their bits do. The sort key of a
value is an integer; that of NaN is the largest one, so NaN comes last as in NumPy.

For n = 2^p elements the bitonic network has p(p+1)/2 stages, each of which compares every element
with one partner, by movement ops. It sorts tuples of words lexicographically: an index as the
second word makes the sort stable. Values are materialized between stages, which read them twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from porism.base import dtypes
from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.movement.pad import pad_end
from porism.tensor.primitive import Dim

_BITS = {8: dtypes.i8, 16: dtypes.i16, 32: dtypes.i32, 64: dtypes.i64}


def key_type(dtype: DType) -> DType:
    """Return the integer type of the sort keys of a type."""
    if dtype.kind is Kind.BOOL:
        return dtypes.u8
    return _BITS[dtype.bits] if dtype.is_float else dtype


def sort_key(x: UOp) -> UOp:
    """Return an integer for each value, in the values' order; -0 is smaller than 0."""
    wanted = key_type(x.dtype)
    if not x.dtype.is_float:
        return primitive.cast(x, wanted)
    bits = ops.BITCAST(x, dtype=wanted)
    positive = UOp.const(wanted, wanted.max)
    ordered = ops.WHERE(bits < 0, bits ^ positive, bits)
    return ops.WHERE(x.ne(x), positive, ordered)


def value_of_key(keys: UOp, dtype: DType) -> UOp:
    """Return the values that have these sort keys."""
    if not dtype.is_float:
        return primitive.cast(keys, dtype)
    return ops.BITCAST(ops.WHERE(keys < 0, keys ^ int(keys.dtype.max), keys), dtype=dtype)


def merge_zeros(x: UOp) -> UOp:
    """Return the values with 0 for -0: equal values must have equal keys in a stable sort."""
    return ops.WHERE(x.eq(0), UOp.const(x.dtype, 0), x) if x.dtype.is_float else x


def argsort_keys(keys: UOp) -> UOp:
    """Return the indices that sort keys along the last axis, stably, as i64."""
    sizes = shape(keys)
    positions = primitive.iota(sizes, len(sizes) - 1)
    if keys.dtype.bits > 32:
        return sort_last_axis([keys, primitive.cast(positions, dtypes.i64)])[1]
    # key·2³² + index: one word, so that a stage is a minimum and a maximum.
    word = dtypes.u64 if keys.dtype is dtypes.u32 else dtypes.i64
    words = primitive.cast(keys, word) * (1 << 32) + primitive.cast(positions, word)
    return primitive.cast(sort_last_axis([words])[0] & 0xFFFFFFFF, dtypes.i64)


def sort_last_axis(words: Sequence[UOp]) -> list[UOp]:
    """Return words sorted along the last axis, by the first word, then the second."""
    size = shape(words[0])[-1].arg
    width = 1 << (size - 1).bit_length() if size else 0
    last = len(shape(words[0])) - 1
    # Padded with the largest value, which stays at the end.
    padded = [pad_end(word, last, width, word.dtype.max) for word in words]
    block = 2
    while block <= width:
        padded = _compare_exchange(padded, block, mirrored=True)
        part = block // 2
        while part > 1:
            padded = _compare_exchange(padded, part, mirrored=False)
            part //= 2
        block *= 2
    return [_truncate(word, size) for word in padded]


def _truncate(word: UOp, size: int) -> UOp:
    """Return the first `size` elements along the last axis."""
    dims = shape(word)
    return primitive.shrink(word, [*[(0, d) for d in dims[:-1]], (0, size)])


def _compare_exchange(words: Sequence[UOp], block: int, *, mirrored: bool) -> list[UOp]:
    """Return each block with its halves compared and exchanged, element by element or mirrored."""
    dims = shape(words[0])
    halves: list[Dim] = [*dims[:-1], dims[-1].arg // block, 2, block // 2]
    last = len(halves) - 1
    words_here = [primitive.reshape(word, halves) for word in words]
    axes = (last - 1, last) if mirrored else (last - 1,)
    partners = [primitive.flip(word, axes) for word in words_here]
    first_half = primitive.iota(halves, last - 1).eq(0)
    if len(words) == 1:
        low = ops.MIN(words_here[0], partners[0])
        high = ops.MAX(words_here[0], partners[0])
        chosen = [ops.WHERE(first_half, low, high)]
    else:
        keep = _lexicographic_less(words_here, partners).eq(first_half)
        chosen = [ops.WHERE(keep, a, b) for a, b in zip(words_here, partners, strict=True)]
    # Materialized in halves, so that the kernel's loops are those over blocks and halves.
    return [
        primitive.reshape(primitive.contiguous(word, "a sort network"), dims) for word in chosen
    ]


def _lexicographic_less(mine: Sequence[UOp], others: Sequence[UOp]) -> UOp:
    """Return whether words are before others: at the first word that differs."""
    result = mine[-1] < others[-1]
    for a, b in zip(reversed(mine[:-1]), reversed(others[:-1]), strict=True):
        result = (a < b) | (a.eq(b) & result)
    return result
