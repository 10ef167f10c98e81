"""Device use: whether this process uses any device beside the processor.

Most processes use the processor alone, and pay nothing for the others: what has to know the device
of a value looks at `others_are_used` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

HOST: Final = "cpu"
"""The name of the processor as a device."""

others_are_used = False
"""Whether another device was named so far; read it as an attribute of this module."""

_callbacks: list[Callable[[], None]] = []


def when_others_are_used(callback: Callable[[], None]) -> None:
    """Call a function when another device is named for the first time; now, if one was."""
    if others_are_used:
        callback()
    else:
        _callbacks.append(callback)


def note_device(name: object) -> None:
    """Note that a device is used."""
    global others_are_used
    if others_are_used or name in (None, HOST):
        return
    others_are_used = True
    while _callbacks:
        _callbacks.pop()()
