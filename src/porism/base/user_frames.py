"""User frames: the line of the user's program that an error is about."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_PACKAGE: Final = str(Path(__file__).parents[1]) + "/"


def is_inside(file: str) -> bool:
    """Return whether a file of source is one of this package."""
    return file.startswith(_PACKAGE)


def users_line() -> str | None:
    """Return `file.py, line 12` for the innermost frame outside of this package."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return f"{frame.f_code.co_filename}, line {frame.f_lineno}"
