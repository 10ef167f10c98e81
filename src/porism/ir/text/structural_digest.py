"""Structural digests: numbers and digests of a node's structure, the same in every process.

Commutative operands are sorted by a cheap order number; nodes whose numbers collide are compared by
their digest. The digest is the key of caches.
"""

from __future__ import annotations

import hashlib
import operator
from typing import TYPE_CHECKING, Any, Final

from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.ops import Op
from porism.ir.text import argument_text

if TYPE_CHECKING:
    from porism.ir.node import UOp

CONST_LAST: Final = 1 << 62
MASK: Final = CONST_LAST - 1
_MOST_HASHES: Final = 100_000

_hashes: dict[Any, int] = {}


def order_number(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any, key: Any) -> int:
    """Return the number by which a node is sorted; constants come after everything else.

    Tuples of ints have the same hash in every process; strings do not. The key is that of the
    intern tables.
    """
    if not op.keyed:
        return hash((op.code, *map(_order_of, src))) & MASK
    if op is ops.CONST and arg.__class__ is int:
        # hash() alone would not tell -1 from -2
        return hash((op.code, dtype.code, arg < 0, abs(arg))) & MASK | CONST_LAST
    number = _hashes.get((op, dtype, key[1]))
    if number is None:
        number = _hash_own_fields(op, dtype, arg, key[1])
    mixed = hash((op.code, number, *map(_order_of, src))) & MASK
    return mixed | CONST_LAST if op is ops.CONST or op is ops.VCONST else mixed


_order_of: Final = operator.attrgetter("order")


def _hash_own_fields(op: Op, dtype: DType, arg: Any, key: Any) -> int:
    """Return a hash of op, dtype and argument, and cache it."""
    text = f"{op.name}:{dtype.name}:{argument_text.to_text(arg)}".encode()
    number = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 3
    if len(_hashes) > _MOST_HASHES:
        _hashes.clear()
    _hashes[op, dtype, key] = number
    return number


def digest(root: UOp) -> bytes:
    """Return the digest of a node, from the digests of its sources, without recursion."""
    stack = [root]
    while stack:
        node = stack[-1]
        waiting = [s for s in node.src if not hasattr(s, "_key")]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        text = f"{node.op.name}:{node.dtype.name}:{argument_text.to_text(node.arg)}:{len(node.src)}"
        state = hashlib.blake2b(text.encode(), digest_size=16)
        for s in node.src:
            state.update(s._key)
        object.__setattr__(node, "_key", state.digest())
    return root._key
