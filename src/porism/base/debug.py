"""Debug: what is told about the work on the standard error, by the level that the settings ask for.

1  every kernel that runs, with its time and speed; why a function is traced
2  the loops of a kernel when it first runs
3  the steps of compiling in milliseconds, and what was found on disk
4  the source of a kernel when it first runs
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from porism.base.settings import is_debugging, settings

KERNELS: Final = 1
LOOPS: Final = 2
COMPILING: Final = 3
SOURCE: Final = 4


def level() -> int:
    """How much is told here and now."""
    return settings.debug if is_debugging() else 0


def log(text: str, more: str = "") -> None:
    """Tell a line, and below it a longer text."""
    below = "\n" + textwrap.indent(more.rstrip("\n"), "    ") if more else ""
    print(f"porism: {text}{below}", file=sys.stderr)


@contextmanager
def timed_step(text: str) -> Iterator[None]:
    """A step of compiling, told with its milliseconds when it is over."""
    begin = time.perf_counter()
    yield
    if level() >= COMPILING:
        log(f"{text} in {1e3 * (time.perf_counter() - begin):.1f} ms")
