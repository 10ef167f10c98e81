"""Called functions: what each case of a check calls.

A mutant is tried on the cases that call its function: the others come out as without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any, TypeVar

T = TypeVar("T")

Calls = dict[CodeType, list[T]]
"""For the code of each function, the cases that call it, in their order."""


def callers(cases: Iterable[T], work: Callable[[T], Any]) -> Calls[T]:
    """Do some work on each case, and return which of them call each function."""
    found: Calls[T] = {}
    for case in cases:
        for code in _codes(work, case):
            found.setdefault(code, []).append(case)
    return found


def _codes(work: Callable[[T], Any], case: T) -> set[CodeType]:
    """Do some work, and return the code of each function that it calls."""
    codes: set[CodeType] = set()

    def see(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        work(case)
    finally:
        sys.setprofile(before)
    return codes
