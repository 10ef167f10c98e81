"""Rule instances: a term of a rule, with nodes for its holes and types for its schema types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from porism.base import dtypes
from porism.base.dtypes import DType, Theory
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.traversal import toposort

THEORY_TYPES: Final = {
    Theory.INTEGERS: dtypes.index,
    Theory.FIXED_WIDTH: dtypes.i32,
    Theory.FLOATS: dtypes.f32,
    Theory.BOOLEANS: dtypes.boolean,
}
"""For each theory the type in which its rules are shown."""


def instantiate(term: UOp, nodes: dict[UOp, UOp], types: Mapping[DType, DType]) -> UOp:
    """Return a term with these nodes for its holes, unsimplified.

    `types` maps schema types to concrete ones. The node of each part of the term is added to
    `nodes`.
    """
    for part in toposort(term):
        if part in nodes:
            continue
        dtype = types.get(part.dtype, part.dtype)
        if part.op is ops.CONST:
            nodes[part] = UOp.const(dtype, part.arg)
        else:
            stated = dtype if part.op in (ops.CAST, ops.BITCAST) else None
            nodes[part] = raw(part.op, stated, tuple(nodes[s] for s in part.src), part.arg)
    return nodes[term]
