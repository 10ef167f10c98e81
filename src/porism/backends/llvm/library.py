"""Library: kernels as functions that the pool can run.

LLVM needs Python only to be called. So it works in a thread of its own, on some kernels while the
next ones are still being lowered; what it makes are several object files, kept one behind the
other with their lengths.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from porism.backends.function import Function, function
from porism.backends.llvm.compile import attributes, object_code
from porism.backends.llvm.linking import Code, link_objects
from porism.backends.llvm.render import Renderer
from porism.ir.node import UOp

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

LOT: Final = 1000
"""Lines of kernels that are handed to LLVM together: some tens of milliseconds of work."""

TURN: Final = 0.001
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


def build(named: Iterable[tuple[str, Sequence[UOp]]]) -> bytes:
    """Linear kernels with their names as object files; the kernels may be lowered on the way."""
    from concurrent.futures import ThreadPoolExecutor

    made: list[Future[bytes]] = []
    lot: dict[str, Sequence[UOp]] = {}
    last: list[bytes] = []
    worker = ThreadPoolExecutor(1, "porism-llvm")  # a thread starts when it has something to do
    try:
        with _short_turns():
            for name, lines in named:
                lot[name] = lines
                if sum(map(len, lot.values())) >= LOT:
                    made.append(_begun(worker, module(lot)))
                    lot = {}
        if lot:
            last.append(object_code(module(lot)))
        return packed([*(future.result() for future in made), *last])
    finally:
        worker.shutdown(cancel_futures=True)


def _begun(worker: Executor, text: str) -> Future[bytes]:
    """The machine code of a module, when it is ready."""
    from concurrent.futures import Future

    try:
        return worker.submit(object_code, text)
    except RuntimeError:  # when the interpreter is about to end, it starts no threads
        made: Future[bytes] = Future()
        made.set_result(object_code(text))
        return made


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
    code = link(build(named.items()), list(named))
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
