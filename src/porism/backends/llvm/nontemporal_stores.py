"""Streams: stores past the caches, and what a kernel does where memory is not aligned for them.

Such a store writes to a multiple of its size. Memory of the pool begins at one; that of a user's
array may not. So a kernel with such stores is written twice, and the addresses that it is called
with decide which of the two functions runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.ir.node import UOp

SHORTEST: Final = 16
"""Bytes that one store past the caches writes, at least."""


class Streams:
    """The stores past the caches of one kernel."""

    def __init__(self) -> None:
        self.plain: dict[int, str] = {}
        """For each line with such a store: one that is always right."""
        self.aligned: dict[str, int] = {}
        """For each buffer that is written so: what its address is a multiple of."""

    def store(self, line: int, buffer: str, text: str, size: int, align: int) -> str:
        """A store of elements of some size, to be written in a line."""
        self.plain[line] = f"{text}, align {size}"
        self.aligned[buffer] = max(align, self.aligned.get(buffer, 1))
        return f"{text}, align {align}, !nontemporal !0"

    def without(self, body: Sequence[str]) -> list[str]:
        """The lines of a kernel with plain stores."""
        return [self.plain.get(number, line) for number, line in enumerate(body)]

    def choice(self, buffers: Sequence[UOp], otherwise: str) -> list[str]:
        """The other function called, and no more, where a buffer `%a…` is not aligned."""
        lines, off = [], "0"
        for place, node in enumerate(buffers):
            align = self.aligned.get(f"%p{node.arg}")
            if align is not None:
                lines.append(f"  %i{place} = ptrtoint ptr %a{place} to i64")
                lines.append(f"  %o{place} = and i64 %i{place}, {align - 1}")
                lines.append(f"  %s{place} = or i64 {off}, %o{place}")
                off = f"%s{place}"
        return [
            *lines,
            f"  %fits = icmp eq i64 {off}, 0",
            "  br i1 %fits, label %aligned, label %other",
            "other:",
            f"  {otherwise}",
            "  ret void",
            "aligned:",
        ]
