"""Compile queue: modules that a second thread compiles while the first renders the next ones.

When all modules are queued, the first thread also compiles what still waits. The second thread ends
when the queue is empty, and is started again for the next module. On an interrupt the module that
LLVM compiles at the moment is abandoned: neither this code nor the interpreter waits for it.
"""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType

from porism.backends.llvm.llvm_compiler import object_code

QueuedModule = tuple[int, str]
"""The number of a module, and its LLVM IR."""


class CompileQueue:
    """Modules to be compiled; at the end of the `with` no thread compiles, unless interrupted."""

    def __init__(self) -> None:
        self._waiting: deque[QueuedModule] = deque()
        self._count = 0
        self._compiled: dict[int, bytes] = {}
        self._error: BaseException | None = None
        self._worker: threading.Thread | None = None

    def __enter__(self) -> CompileQueue:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._waiting.clear()
        if kind is None or issubclass(kind, Exception):
            self._wait()

    def add(self, text: str) -> None:
        """Queue a module; it is compiled by `object_codes` or by a running thread."""
        self._waiting.append((self._count, text))
        self._count += 1

    def add_and_start(self, text: str) -> None:
        """Queue a module, and start the second thread if it does not run."""
        self.add(text)
        if self._worker is not None and self._worker.is_alive():
            return
        if not threading.main_thread().is_alive():  # at exit no thread can be started
            return
        self._worker = threading.Thread(target=self._work, name="porism-llvm", daemon=True)
        try:
            self._worker.start()
        except RuntimeError:  # too many threads, or the interpreter exits
            self._worker = None

    def object_codes(self) -> list[bytes]:
        """Compile what waits; return the object code of all modules, in order."""
        self._compile(state=0)
        self._wait()
        if self._error is not None:
            raise self._error
        return [self._compiled[number] for number in range(self._count)]

    def _compile(self, state: int) -> None:
        """Compile queued modules until the queue is empty."""
        while self._waiting:
            try:
                number, text = self._waiting.popleft()
            except IndexError:  # the other thread took the last one
                return
            self._compiled[number] = object_code(text, state)

    def _work(self) -> None:
        try:
            self._compile(state=1)
        except BaseException as error:  # `object_codes` raises it
            self._error = error

    def _wait(self) -> None:
        """Wait until the second thread has ended."""
        if self._worker is not None and self._worker.is_alive():
            self._worker.join()
