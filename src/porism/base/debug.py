"""Debug output: what is written to the standard error, by the level in `PORISM_DEBUG`.

1  every kernel that runs, with its time and speed; why a function is traced
2  the loops of a kernel when it first runs
3  the steps of compiling in milliseconds, and cache hits on disk
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
    """Return the debug level in force, 0 for no output."""
    return settings.debug if is_debugging() else 0


def log(text: str, more: str = "") -> None:
    """Write a line, and below it a longer text, indented."""
    below = "\n" + textwrap.indent(more.rstrip("\n"), "    ") if more else ""
    print(f"porism: {text}{below}", file=sys.stderr)


@contextmanager
def timed_step(text: str) -> Iterator[None]:
    """Write how many milliseconds the `with` block took, at the level COMPILING."""
    begin = time.perf_counter()
    yield
    if level() >= COMPILING:
        log(f"{text} in {1e3 * (time.perf_counter() - begin):.1f} ms")
