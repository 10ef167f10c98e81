"""Linking: machine code brought into this process."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from porism.backends.llvm.compile import machine, object_code, version
from porism.base import sources
from porism.base.store import name_of, store


@dataclass(frozen=True, slots=True)
class Code:
    """Functions in memory; they stay as long as this object does."""

    addresses: dict[str, int]
    tracker: Any


_numbers = itertools.count()
_lock = threading.Lock()
_jit: Any = None


def link(text: str, names: Sequence[str]) -> Code:
    """Compile LLVM IR, or find it compiled; the addresses of some of its functions."""
    kept, code = store(), sources.digest()
    if kept is None or code is None:
        return link_object(object_code(text), names)
    name = name_of(code, version(), text)
    found = kept.get("objects", name)
    if found is None:
        found = object_code(text)
        kept.put("objects", name, found)
    return link_object(found, names)


def link_object(code: bytes, names: Sequence[str]) -> Code:
    """Load an object file and give the addresses of some of its functions."""
    global _jit
    with _lock:
        if _jit is None:
            _jit = llvm.create_lljit_compiler(machine(), use_jit_link=False)
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in names:
            builder.export_symbol(name)
        tracker = builder.link(_jit, f"porism{next(_numbers)}")
        return Code({name: int(tracker[name]) for name in names}, tracker)
