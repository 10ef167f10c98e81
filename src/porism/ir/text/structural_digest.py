"""Stable: numbers and digests of structure, the same in every process.

`order` is a cheap number by which commutative operands are put in order; nodes whose numbers
collide are told apart by their digest. The digest is what caches are keyed by.
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
    """The order of a node; constants come after everything else.

    Tuples of ints hash alike in every process; strings would not. The key is that of the tables.
    """
    if not op.keyed:
        return hash((op.code, *map(_order_of, src))) & MASK
    if op is ops.CONST and arg.__class__ is int:
        # hash() alone would not tell -1 from -2
        return hash((op.code, dtype.code, arg < 0, abs(arg))) & MASK | CONST_LAST
    number = _hashes.get((op, dtype, key[1]))
    if number is None:
        number = _hash_own_fields(op, dtype, arg, key[1])
    found = hash((op.code, number, *map(_order_of, src))) & MASK
    return found | CONST_LAST if op is ops.CONST or op is ops.VCONST else found


_order_of: Final = operator.attrgetter("order")


def _hash_own_fields(op: Op, dtype: DType, arg: Any, key: Any) -> int:
    """A number for what is not a source, which is remembered."""
    text = f"{op.name}:{dtype.name}:{argument_text.to_text(arg)}".encode()
    found = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 3
    if len(_hashes) > _MOST_HASHES:
        _hashes.clear()
    _hashes[op, dtype, key] = found
    return found


def digest(root: UOp) -> bytes:
    """The digest of a node, from the digests of its sources; no recursion."""
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
