"""Exit status: what a program that is run inside of this process ends with."""

from __future__ import annotations

import sys


def exit_status(end: SystemExit) -> int:
    """Return the status of a program that ended so; what is not an int is printed as a message.

    As for Python: no code is success, and one that is not an int is failure.

    >>> exit_status(SystemExit()), exit_status(SystemExit(3))
    (0, 3)
    """
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1
