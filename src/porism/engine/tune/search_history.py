"""Search history: the candidates that tuning measured in this process, by kernel, for display."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.ir.node import UOp
from porism.optimize.actions.action import Actions

MAX_KERNELS: Final = 1000
"""Kernels whose candidates are kept, chosen by hand; the oldest are dropped."""

_measured: dict[UOp, Sequence[tuple[float, Actions]]] = {}


def keep_candidates(kernel: UOp, candidates: Sequence[tuple[float, Actions]]) -> None:
    """Keep the times of all candidates for a kernel, in the order of measuring."""
    if len(_measured) >= MAX_KERNELS:
        del _measured[next(iter(_measured))]
    _measured[kernel] = candidates


def candidates_of(kernel: UOp) -> Sequence[tuple[float, Actions]]:
    """Return the seconds and the actions of each candidate that was measured."""
    return _measured.get(kernel, ())


def searched(kernel: UOp) -> list[tuple[float, str]]:
    """Return the seconds and the actions of each candidate that was measured, as text."""
    return [
        (seconds, ", ".join(map(str, actions)) or "no actions")
        for seconds, actions in candidates_of(kernel)
    ]
