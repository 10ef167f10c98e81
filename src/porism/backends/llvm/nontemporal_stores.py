"""Non-temporal stores: stores that bypass the caches, and a fallback for unaligned buffers.

A non-temporal store needs an address that is a multiple of its size. Memory of the allocator is
aligned; a user's array may not be. So a kernel with such stores is rendered twice, with and without
them, and the alignment of its buffers decides at run time which function is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.ir.node import UOp

MIN_BYTES: Final = 16
"""The least bytes of a non-temporal vector store on x86 (MOVNTPS) and Arm (STNP)."""


class NontemporalStores:
    """The non-temporal stores of one kernel."""

    def __init__(self) -> None:
        self.plain: dict[int, str] = {}
        """By line number of the body: an ordinary store with the same effect."""
        self.aligned: dict[str, int] = {}
        """By buffer: the alignment in bytes that its non-temporal stores need."""

    def store(self, line: int, buffer: str, text: str, size: int, align: int) -> str:
        """Return the text of a non-temporal store of elements of `size` bytes, for a line."""
        self.plain[line] = f"{text}, align {size}"
        self.aligned[buffer] = max(align, self.aligned.get(buffer, 1))
        return f"{text}, align {align}, !nontemporal !0"

    def fallback_body(self, body: Sequence[str]) -> list[str]:
        """Return the lines of a kernel with ordinary stores."""
        return [self.plain.get(number, line) for number, line in enumerate(body)]

    def dispatch(self, buffers: Sequence[UOp], fallback_call: str) -> list[str]:
        """Return code that calls the fallback and returns if a buffer `%a…` is not aligned."""
        lines, misalignment = [], "0"
        for position, node in enumerate(buffers):
            align = self.aligned.get(f"%p{node.arg}")
            if align is not None:
                lines.append(f"  %i{position} = ptrtoint ptr %a{position} to i64")
                lines.append(f"  %o{position} = and i64 %i{position}, {align - 1}")
                lines.append(f"  %s{position} = or i64 {misalignment}, %o{position}")
                misalignment = f"%s{position}"
        return [
            *lines,
            f"  %fits = icmp eq i64 {misalignment}, 0",
            "  br i1 %fits, label %aligned, label %other",
            "other:",
            f"  {fallback_call}",
            "  ret void",
            "aligned:",
        ]
