"""Verification: a report on what is compiled for some tensors, with a proof of each part."""

from __future__ import annotations

from typing import Final

from porism.engine.run.buffer_storage import realized
from porism.engine.run.compile_verification import report_of
from porism.engine.run.realize import request
from porism.tensor.shapes import refuse
from porism.tensor.tensor import Tensor
from porism.verification.verification_report import Report

__all__ = ["Report", "verify"]

LEVELS: Final = (1, 2, 3)


def verify(*tensors: Tensor, level: int = 1) -> Report:
    """Check all that is compiled for some tensors, without running it on their data.

    At level 1 that is proofs of indices, bounds, writes and the plan of memory. At level 2 also the
    values of every kernel are compared with those of the graph, at level 3 those of machine code.

    >>> import porism
    >>> x = porism.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> report = verify(x @ x)
    >>> report.rows[0].detail
    'proved'
    """
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise refuse(
                f"a {type(tensor).__name__} is not compiled",
                "what computes tensors is verified",
                "pass tensors, such as porism.asarray(…).exp()",
            )
    if level not in LEVELS:
        raise refuse(
            f"there is no level {level!r} of verification",
            "level 1 is proofs, 2 adds values, 3 adds machine code",
            "pass level=1, 2 or 3",
        )
    missing = [t.node for t in tensors if realized(t.node) is None]
    return report_of(request(missing).graph, level) if missing else Report(())
