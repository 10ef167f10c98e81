"""Draft: the fields of a node, while it is being made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from porism.base.dtypes import DType
from porism.ir.facts import residues
from porism.ir.facts.intervals import Bound
from porism.ir.ops import Op

if TYPE_CHECKING:
    from porism.ir.node import UOp


class Draft:
    """A node being made; it becomes a UOp, which cannot be changed."""

    __slots__ = (
        "__weakref__",
        "_key",
        "_residue",
        "_shape",
        "arg",
        "dtype",
        "held",
        "on_memory",
        "op",
        "order",
        "ranges",
        "shaped",
        "src",
        "vmax",
        "vmin",
    )

    op: Op
    dtype: DType
    src: tuple[UOp, ...]
    arg: Any
    held: Any  # of a BUFFER alone: where its values are, or None
    vmin: Bound
    vmax: Bound
    order: int
    shaped: bool  # a tensor with dims, and not the value of one iteration
    on_memory: bool  # there is a BUFFER below it, or it is one
    ranges: tuple[UOp, ...]  # in scope: it depends on them, and no END or REDUCE closed them
    _key: bytes
    _residue: residues.Residue
    _shape: tuple[UOp, ...] | None
