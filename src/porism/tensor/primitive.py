"""Primitives: the few graph operations that every function on tensors is built from.

They live in `porism.ir.tensor_nodes`, since stages that choose an algorithm build them too.
"""

from __future__ import annotations

from porism.ir.tensor_nodes import (
    Dim,
    Dims,
    apply,
    as_dim,
    broadcast,
    cast,
    clamp_index,
    contiguous,
    expand,
    flip,
    full,
    gather,
    iota,
    pad,
    permute,
    reduce,
    reshape,
    shrink,
)

__all__ = [
    "Dim",
    "Dims",
    "apply",
    "as_dim",
    "broadcast",
    "cast",
    "clamp_index",
    "contiguous",
    "expand",
    "flip",
    "full",
    "gather",
    "iota",
    "pad",
    "permute",
    "reduce",
    "reshape",
    "shrink",
]
