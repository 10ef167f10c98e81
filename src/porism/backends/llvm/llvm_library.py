"""Library: kernels as functions that the pool can run.

LLVM needs Python only to be called. So it works in a thread of its own, on some kernels while the
next ones are still being lowered, and at last in two; what it makes are several object files, kept
one behind the other with their lengths.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from porism.backends.kernel_function import Function, function
from porism.backends.llvm.compile_queue import Lots
from porism.backends.llvm.llvm_compiler import attributes
from porism.backends.llvm.llvm_renderer import Renderer
from porism.backends.llvm.object_linking import Code, link_objects
from porism.ir.node import UOp

LOT: Final = 300
"""Lines of kernels that are handed to LLVM together: ten milliseconds of work or more."""

TURN: Final = 0.0001
"""Seconds after which Python gives LLVM's thread a turn, which needs one for each call."""

_LENGTH: Final = 8
"""Bytes of the length before an object file."""

_turning: Final = threading.Lock()


def module(named: Mapping[str, Sequence[UOp]]) -> str:
    """Linear kernels as one module of LLVM IR."""
    lines = [
        line for name, lines in named.items() for line in Renderer(name, lines).text().splitlines()
    ]
    declarations = dict.fromkeys(line for line in lines if line.startswith("declare "))
    code = [line for line in lines if not line.startswith("declare ")]
    return "\n".join([*declarations, *code, attributes()]) + "\n"


def build(named: Iterable[tuple[str, Sequence[UOp]]], amount: int) -> bytes:
    """So many linear kernels with their names as object files; they may be lowered on the way."""
    lot: dict[str, Sequence[UOp]] = {}
    with Lots() as lots:
        with _short_turns():
            for number, (name, lines) in enumerate(named, 1):
                lot[name] = lines
                if number < amount and sum(map(len, lot.values())) >= LOT:
                    lots.begin(module(lot))
                    lot = {}
        if lot:
            lots.add(module(lot))
        return packed(lots.made())


@contextmanager
def _short_turns() -> Iterator[None]:
    """Have Python's threads take turns more often, unless another thread has seen to that."""
    if not _turning.acquire(blocking=False):
        yield
        return
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(TURN, before))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
        _turning.release()


def link(code: bytes, names: Sequence[str]) -> Code:
    """Functions of what `build` has made, in memory."""
    return link_objects(unpacked(code), names)


def load(named: Mapping[str, Sequence[UOp]]) -> dict[str, Function]:
    """Compile linear kernels."""
    code = link(build(named.items(), len(named)), list(named))
    return {name: function(lines, code.addresses[name], code) for name, lines in named.items()}


def packed(objects: Sequence[bytes]) -> bytes:
    """Files as one.

    >>> unpacked(packed([b"first", b"", b"third"]))
    [b'first', b'', b'third']
    """
    return b"".join(len(one).to_bytes(_LENGTH, "little") + one for one in objects)


def unpacked(code: bytes) -> list[bytes]:
    """The files that were packed into one."""
    found, at = [], 0
    while at < len(code):
        begin = at + _LENGTH
        at = begin + int.from_bytes(code[at:begin], "little")
        if at > len(code):
            raise ValueError("an object file ends too early")
        found.append(code[begin:at])
    return found
