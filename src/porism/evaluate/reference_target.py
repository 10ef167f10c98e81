"""Reference target: the machine that the evaluator is, which has every op and dtype."""

from __future__ import annotations

from typing import Final

from porism.base.target import DTYPES, Target
from porism.ir import ops

REFERENCE: Final = Target(
    name="reference",
    ops=frozenset(
        op.name for op in ops.table() if op.elementwise or op.group is ops.Group.CONVERSION
    ),
    dtypes=DTYPES,
    predicated_store=True,
)
"""The target of the backend that evaluates kernels."""
