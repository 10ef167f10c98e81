"""Store reason: why a value is stored, as text, with the node of the tensor graph that it is."""

from __future__ import annotations

from collections.abc import Iterable

from porism.ir.node import UOp


class StoreReason(str):
    """A reason, and the tensor that is stored; one that was read from disk is a plain text.

    >>> from porism.ir import ops
    >>> StoreReason("it is an output", ops.SINK())
    'it is an output'
    """

    tensor: UOp

    def __new__(cls, text: str, tensor: UOp) -> StoreReason:
        made = super().__new__(cls, text)
        made.tensor = tensor
        return made


def joined_reasons(reasons: Iterable[str]) -> str:
    """Return the reasons of a kernel with several results as one, with the tensor of the first."""
    known = list(reasons)
    text = "; ".join(known)
    first = known[0] if known else ""
    return StoreReason(text, first.tensor) if isinstance(first, StoreReason) else text
