"""Verify: prove that the kernels compiled for tensors are right, and report each check."""

from __future__ import annotations

from typing import Final

from porism.engine.run.buffer_storage import realized_buffer
from porism.engine.run.compile_verification import report_of
from porism.engine.run.realize import request
from porism.tensor.shapes import shape_error
from porism.tensor.tensor import Tensor
from porism.verification.verification_report import Report

__all__ = ["Report", "verify"]

LEVELS: Final = (1, 2, 3)
"""The levels of verification: 1 proofs, 2 also values, 3 also machine code (docs/verify.md)."""


def verify(*tensors: Tensor, level: int = 1) -> Report:
    """Verify all that is compiled for some tensors, without running it on their data.

    Level 1 proves indices, bounds, writes and the memory plan. Level 2 also compares the values of
    every kernel with those of the graph, and level 3 those that machine code computes.

    >>> import porism
    >>> x = porism.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> report = verify(x @ x)
    >>> report.rows[0].detail
    'proved'
    """
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise shape_error(
                f"a {type(tensor).__name__} is not compiled",
                "the kernels that compute tensors are verified",
                "pass tensors, such as porism.asarray(…).exp()",
            )
    if level not in LEVELS:
        raise shape_error(
            f"there is no level {level!r} of verification",
            "level 1 is proofs, 2 adds values, 3 adds machine code",
            "pass level=1, 2 or 3",
        )
    unrealized = [t.node for t in tensors if realized_buffer(t.node) is None]
    return report_of(request(unrealized).graph, level) if unrealized else Report(())
