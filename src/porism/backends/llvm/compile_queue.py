"""Lots: modules that LLVM compiles in a thread of its own while the next ones are made.

When there are no more to come, the thread that made them takes its share of what still waits. The
other one waits for nothing: it ends when there is nothing to do, and is begun again. Wherever this
is interrupted, what LLVM is at is left to itself: nobody waits for it, the interpreter neither.
"""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType

from porism.backends.llvm.llvm_compiler import object_code

Lot = tuple[int, str]
"""A module and its place among the others."""


class Lots:
    """Modules on their way to machine code; after the `with` none is, unless by an interrupt."""

    def __init__(self) -> None:
        self._waiting: deque[Lot] = deque()
        self._amount = 0
        self._made: dict[int, bytes] = {}
        self._fault: BaseException | None = None
        self._worker: threading.Thread | None = None

    def __enter__(self) -> Lots:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._waiting.clear()
        if kind is None or issubclass(kind, Exception):
            self._wait()

    def add(self, text: str) -> None:
        """Have a module compiled, here or by the other thread."""
        self._waiting.append((self._amount, text))
        self._amount += 1

    def begin(self, text: str) -> None:
        """The same, from now on."""
        self.add(text)
        if self._worker is not None and self._worker.is_alive():
            return
        if not threading.main_thread().is_alive():  # the interpreter waits until no thread is left
            return
        self._worker = threading.Thread(target=self._work, name="porism-llvm", daemon=True)
        try:
            self._worker.start()
        except RuntimeError:  # there are too many, or the interpreter ends
            self._worker = None

    def made(self) -> list[bytes]:
        """The machine code of all modules, in their order."""
        self._compile(seat=0)
        self._wait()
        if self._fault is not None:
            raise self._fault
        return [self._made[number] for number in range(self._amount)]

    def _compile(self, seat: int) -> None:
        """Compile what waits."""
        while self._waiting:
            try:
                number, text = self._waiting.popleft()
            except IndexError:  # the other thread was faster
                return
            self._made[number] = object_code(text, seat)

    def _work(self) -> None:
        try:
            self._compile(seat=1)
        except BaseException as fault:  # it is raised where the results are asked for
            self._fault = fault

    def _wait(self) -> None:
        """Wait until the other thread is done with what it has begun."""
        if self._worker is not None and self._worker.is_alive():
            self._worker.join()
