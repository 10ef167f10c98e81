"""Sorting network: integer keys in the order of values, and a bitonic network that sorts them.

Comparisons do not order floats, since NaN compares with nothing; their bits do. The sort key of a
value is an integer; that of NaN is the largest one, so NaN comes last as in NumPy.

For n = 2^p elements the bitonic network has p(p+1)/2 steps. Each compares every element with the
one whose index differs in one bit, by movement ops. It sorts tuples of words lexicographically: an
index as the second word makes the sort stable.

Steps that exchange by the same few bits of an index are done in one kernel, for each setting of the
other bits on its own; what they exchange stays in local buffers. Between such groups of steps the
values are materialized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from porism.base import dtypes
from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.movement.pad import pad_end
from porism.tensor.primitive import Dim

GROUP_BITS: Final = 6
"""Bits of the index by which the steps of one kernel exchange elements: it keeps 64 at a time."""

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


def padded_keys(x: UOp, key: Callable[[UOp], UOp]) -> UOp:
    """Return keys of values, padded along the last axis to a power of two by the largest key.

    They are computed in the shape of the first steps, so that they are kept with the blocks of
    elements that are exchanged, and not by rows.
    """
    *others, length = shape(x)
    size = int(length.arg)
    width = 1 << (size - 1).bit_length() if size else 0
    padded = pad_end(x, len(others), width, 0)

    def keys(blocks: UOp) -> UOp:
        outcome = key(blocks)
        if width == size:
            return outcome
        position = primitive.reshape(primitive.iota(shape(padded), len(others)), shape(blocks))
        return ops.WHERE(position < size, outcome, UOp.const(outcome.dtype, outcome.dtype.max))

    return _in_blocks(padded, keys)


def argsort_keys(keys: UOp) -> UOp:
    """Return the indices that sort keys along the last axis, stably, as i64.

    The size of the axis is 0 or a power of two.
    """
    sizes = shape(keys)
    positions = primitive.iota(sizes, len(sizes) - 1)
    if keys.dtype.bits > 32:
        return sort_last_axis([keys, primitive.cast(positions, dtypes.i64)])[1]
    # key·2³² + index: one word, so that a step is a minimum and a maximum.
    word = dtypes.u64 if keys.dtype is dtypes.u32 else dtypes.i64

    def with_positions(blocks: UOp) -> UOp:
        numbers = primitive.reshape(positions, shape(blocks))
        return primitive.cast(blocks, word) * (1 << 32) + primitive.cast(numbers, word)

    (ordered,) = sort_last_axis([_in_blocks(keys, with_positions)])
    return primitive.cast(ordered & 0xFFFFFFFF, dtypes.i64)


def sort_last_axis(words: Sequence[UOp]) -> list[UOp]:
    """Return words sorted along the last axis, by the first word, then the second.

    The size of the axis is 0 or a power of two.
    """
    *others, size = shape(words[0])
    bits = int(size.arg).bit_length() - 1
    is_one_row = all(n.op is ops.CONST and n.arg == 1 for n in others)
    # Local buffers are filled in a loop: a single row is done in parts.
    most = min(GROUP_BITS, bits - 1) if is_one_row else GROUP_BITS
    for number, group in enumerate(_groups(bits, max(most, 1))):
        if number:
            words = [primitive.contiguous(word, "a sort network") for word in words]
        words = _exchange_in_group(words, group, bits)
    return list(words)


def _in_blocks(x: UOp, function: Callable[[UOp], UOp]) -> UOp:
    """Return an elementwise function of values, computed in the shape of the first steps."""
    *others, size = shape(x)
    block = min(1 << GROUP_BITS, int(size.arg))
    blocks = primitive.reshape(x, [*others, size.arg // block, block]) if block else x
    return primitive.reshape(function(blocks), [*others, size])


def truncate(x: UOp, size: int) -> UOp:
    """Return the first `size` elements along the last axis of sorted values."""
    dims = shape(x)
    if int(dims[-1].arg) == size:
        return x
    # Stored as a whole, so that the last steps are done in blocks.
    whole = primitive.contiguous(x, "a sort network")
    return primitive.shrink(whole, [*[(0, d) for d in dims[:-1]], (0, size)])


class Group(NamedTuple):
    """Steps of a network that exchange elements by some bits of their index, in one kernel."""

    low: int
    high: int
    """The bits low … high - 1 of an index."""
    steps: tuple[tuple[int, int], ...]
    """For each step its bit, and the number of a bit that an index of a descending block has."""


def _groups(bits: int, most: int) -> Iterator[Group]:
    """Yield the steps of a network for 2^bits elements, in groups of so many bits at most.

    >>> list(_groups(2, 6))
    [Group(low=0, high=2, steps=((0, 1), (1, 2), (0, 2)))]
    """
    first = min(bits, most)
    if first > 0:
        blocks = range(1, first + 1)
        yield Group(0, first, tuple((bit, k) for k in blocks for bit in reversed(range(k))))
    for block in range(first + 1, bits + 1):
        high = block
        while high:
            low = (high - 1) // most * most
            yield Group(low, high, tuple((bit, block) for bit in reversed(range(low, high))))
            high = low


def _exchange_in_group(words: Sequence[UOp], group: Group, bits: int) -> list[UOp]:
    """Return words after the steps of a group, which are independent outside of its bits."""
    dims = shape(words[0])
    low, high = group.low, group.high
    sizes: list[Dim] = [*dims[:-1], 1 << bits - high, 1 << high - low, 1 << low]
    inside = [primitive.reshape(word, sizes) for word in words]
    for bit, block in group.steps:
        # The last block of all is ascending.
        inside = _compare_exchange(inside, bit - low, block - low if block < bits else None)
    return [primitive.reshape(word, dims) for word in inside]


def _compare_exchange(words: Sequence[UOp], bit: int, block: int | None) -> list[UOp]:
    """Return words with those exchanged whose indices along the last axis but one differ in a bit.

    The smaller one comes first, but not where the index has the bit `block`, which is a bit along
    the same axis or, if that has fewer, along the one before.
    """
    dims = shape(words[0])
    *others, outer, middle, inner = dims
    high = middle.arg >> bit + 1
    halves: list[Dim] = [*others, outer, high, 2, 1 << bit, inner]
    axis = len(others) + 2
    words_here = [primitive.reshape(word, halves) for word in words]
    partners = [primitive.flip(word, (axis,)) for word in words_here]
    smaller_here = primitive.iota(halves, axis).eq(0)
    if block is not None:
        shift = block - bit - 1  # from the first bit of the axis before the halves
        is_inside = high >> shift > 1
        if not is_inside:
            shift -= high.bit_length() - 1
        number = primitive.iota(halves, axis - 1 if is_inside else axis - 2)
        smaller_here = smaller_here.eq((number >> shift & 1).eq(0))
    if len(words) == 1:
        smaller = ops.MIN(words_here[0], partners[0])
        larger = ops.MAX(words_here[0], partners[0])
        chosen = [ops.WHERE(smaller_here, smaller, larger)]
    else:
        keep = _lexicographic_less(words_here, partners).eq(smaller_here)
        chosen = [ops.WHERE(keep, a, b) for a, b in zip(words_here, partners, strict=True)]
    return [primitive.reshape(word, dims) for word in chosen]


def _lexicographic_less(mine: Sequence[UOp], others: Sequence[UOp]) -> UOp:
    """Return whether words are before others: at the first word that differs."""
    result = mine[-1] < others[-1]
    for a, b in zip(reversed(mine[:-1]), reversed(others[:-1]), strict=True):
        result = (a < b) | (a.eq(b) & result)
    return result
