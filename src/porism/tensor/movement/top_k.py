"""Top-k selection: the indices of the k smallest keys of an axis, without sorting all of them.

    keys        5 3 | 9 1 | 7 8 | 2 6    the two smallest
    minima        3     1     7     2    blocks 1 and 3 have the smallest minima
    candidates  9 1 | 2 6                no other key can be among the two

The k smallest keys are in the k blocks with the smallest minima. So blocks are selected first, in
the same way, and then keys of these blocks. A few keys are ranked by counting the keys that are
before each of them. Of equal keys the first ones are taken: selected blocks and candidates stay in
the order of their indices.
"""

from __future__ import annotations

from typing import Final

from porism.base import dtypes
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.movement import sorting_network
from porism.tensor.movement.pad import pad_end
from porism.tensor.movement.reshape import slice_axis
from porism.tensor.primitive import Dim

MAX_RANKED: Final = 32
"""Keys of a row up to which all are ranked by counting; chosen by hand."""

MAX_QUADRATIC: Final = 64
"""Keys up to which ranking (n² comparisons) is faster than sorting; chosen by hand."""

MIN_KEYS_PER_RESULT: Final = 8
"""Keys for each result from which on blocks are selected first; chosen by hand."""


def is_cheaper_than_sorting(size: int, count: int) -> bool:
    """Return whether selecting `count` of `size` keys is less work than sorting them."""
    return size <= MAX_QUADRATIC or MIN_KEYS_PER_RESULT * count <= size <= dtypes.i32.max


def smallest_indices(keys: UOp, count: int) -> UOp:
    """Return the indices along the last axis of the `count` smallest keys, in order, as i32."""
    *others, length = shape(keys)
    size, last = int(length.arg), len(others)
    if size <= MAX_RANKED or MIN_KEYS_PER_RESULT * count > size <= MAX_QUADRATIC:
        return _select_by_rank(_ranks(keys), _positions(keys), count)
    if not is_cheaper_than_sorting(size, count):
        padded = sorting_network.padded_keys(keys, lambda blocks: blocks)
        positions = primitive.cast(sorting_network.argsort_keys(padded), dtypes.i32)
        return slice_axis(positions, last, 0, count)
    block = _block_size(size, count)
    blocks = -(-size // block)
    padded = pad_end(keys, last, blocks * block, keys.dtype.max)
    block_minima = primitive.reduce(
        primitive.reshape(padded, (*others, blocks, block)), ops.MIN, (last + 1,)
    )
    block_minima = primitive.reshape(block_minima, (*others, blocks))
    blocks_chosen = _sort_few(smallest_indices(block_minima, count))
    sizes: tuple[Dim, ...] = (*others, count, block)
    starts = primitive.expand(primitive.reshape(blocks_chosen, (*others, count, 1)), sizes) * block
    positions = starts + primitive.cast(primitive.iota(sizes, last + 1), dtypes.i32)
    positions = primitive.reshape(positions, (*others, count * block))
    candidates = ops.WHERE(
        positions < size, gather_last(keys, positions), UOp.const(keys.dtype, keys.dtype.max)
    )
    chosen_candidates = smallest_indices(candidates, count)
    chosen_blocks = gather_last(blocks_chosen, chosen_candidates // block)
    return chosen_blocks * block + chosen_candidates % block


def gather_last(x: UOp, indices: UOp) -> UOp:
    """Return the elements at indices along the last axis."""
    sizes = shape(indices)
    last = len(sizes) - 1
    leading = [primitive.iota(sizes, k) for k in range(last)]
    return primitive.gather(x, [*leading, primitive.clamp_index(indices, shape(x)[last])])


def _block_size(size: int, count: int) -> int:
    """Return the keys of a block: a power of two that balances blocks and candidates."""
    return 1 << (size // max(count, 1)).bit_length() // 2


def _sort_few(numbers: UOp) -> UOp:
    """Return distinct integers along the last axis in ascending order."""
    count = int(shape(numbers)[-1].arg)
    if count > MAX_QUADRATIC:
        padded = sorting_network.padded_keys(numbers, lambda blocks: blocks)
        return sorting_network.truncate(sorting_network.sort_last_axis([padded])[0], count)
    return _select_by_rank(_ranks(numbers), numbers, count)


def _positions(keys: UOp) -> UOp:
    """Return the index of each key along the last axis, as i32."""
    sizes = shape(keys)
    return primitive.cast(primitive.iota(sizes, len(sizes) - 1), dtypes.i32)


def _ranks(keys: UOp) -> UOp:
    """Return how many keys are before each key along the last axis, stably."""
    *others, size = shape(keys)
    last = len(others)
    table: tuple[Dim, ...] = (*others, size, size)
    own_keys = primitive.expand(primitive.reshape(keys, (*others, size, 1)), table)
    others_keys = primitive.expand(primitive.reshape(keys, (*others, 1, size)), table)
    in_front = primitive.iota(table, last + 1) < primitive.iota(table, last)
    before = (others_keys < own_keys) | (others_keys.eq(own_keys) & in_front)
    total = primitive.reduce(primitive.cast(before, dtypes.i32), ops.ADD, (last + 1,))
    return primitive.reshape(total, (*others, size))


def _select_by_rank(ranks: UOp, values: UOp, count: int) -> UOp:
    """Return the values whose ranks are 0, 1, … count - 1 along the last axis."""
    *others, size = shape(ranks)
    last = len(others)
    table: tuple[Dim, ...] = (*others, count, size)
    wanted = primitive.cast(primitive.iota(table, last), dtypes.i32)
    rank = primitive.expand(primitive.reshape(ranks, (*others, 1, size)), table)
    value = primitive.expand(primitive.reshape(values, (*others, 1, size)), table)
    chosen = ops.WHERE(rank.eq(wanted), value, UOp.const(dtypes.i32, 0))
    total = primitive.reduce(chosen, ops.ADD, (last + 1,))
    return primitive.reshape(total, (*others, count))
