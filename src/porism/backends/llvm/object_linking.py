"""Linking: machine code brought into this process."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from porism.backends.llvm.llvm_compiler import machine, object_code, version
from porism.base import source_digest
from porism.base.file_store import name_of, store
from porism.base.fork_locks import held_while_forking
from porism.base.interrupts import apart


@dataclass(frozen=True, slots=True)
class Code:
    """Functions in memory; they stay as long as this object does."""

    addresses: dict[str, int]
    tracker: Any
    jit: Any
    """What the tracker's code is in: a call that still runs when Python ends needs it."""


_numbers = itertools.count()
_lock = held_while_forking(threading.Lock())
_jit: Any = None


def link(text: str, names: Sequence[str]) -> Code:
    """Compile LLVM IR, or find it compiled; the addresses of some of its functions."""
    kept, code = store(), source_digest.digest()
    if kept is None or code is None:
        return link_objects([object_code(text)], names)
    name = name_of(code, version(), text)
    found = kept.get("objects", name)
    if found is None:
        found = object_code(text)
        kept.put("objects", name, found)
    return link_objects([found], names)


def link_objects(codes: Sequence[bytes], names: Sequence[str]) -> Code:
    """Load object files and give the addresses of some of their functions."""
    return apart(lambda: _linked(codes, names))


def _linked(codes: Sequence[bytes], names: Sequence[str]) -> Code:
    global _jit
    with _lock:
        if _jit is None:
            _jit = llvm.create_lljit_compiler(machine(), use_jit_link=False)
        builder = llvm.JITLibraryBuilder()
        for code in codes:
            builder.add_object_img(code)
        builder.add_current_process()
        for name in names:
            builder.export_symbol(name)
        tracker = builder.link(_jit, f"porism{next(_numbers)}")
        return Code({name: int(tracker[name]) for name in names}, tracker, _jit)
