"""Verification: a report on what is compiled for some tensors, with a proof of each part."""

from __future__ import annotations

from porism.engine.realize import request
from porism.engine.storage import realized
from porism.engine.verification import report_of
from porism.tensor.shapes import refuse
from porism.tensor.tensor import Tensor
from porism.verification.report import Report

__all__ = ["Report", "verify"]


def verify(*tensors: Tensor) -> Report:
    """Check all that is compiled for some tensors, without running it.

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
    missing = [t.node for t in tensors if realized(t.node) is None]
    return report_of(request(missing).graph) if missing else Report(())
