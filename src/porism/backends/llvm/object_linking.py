"""Object linking: object files loaded into this process by LLVM's JIT linker.

JITLink places all sections of an object file in one block of memory. Code depends on that: it
refers to its constants by offsets of 32 bits, and a process may map many gigabytes.

The code of the thread pool is cached on disk, keyed by its text, the compiler and the sources.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import llvmlite.binding as llvm

from porism.backends.llvm.llvm_compiler import object_code, target_machine, version
from porism.base import source_digest
from porism.base.file_store import name_of, store
from porism.base.fork_locks import held_while_forking
from porism.base.interrupts import run_off_main_thread


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """Loaded functions; they are unloaded with this object."""

    addresses: dict[str, int]
    tracker: Any
    jit: Any
    """The JIT that owns the code: a call that still runs when Python exits needs it."""


_LENGTH_BYTES: Final = 8
"""Bytes of the length that precedes an object file."""

_numbers = itertools.count()
_lock = held_while_forking(threading.Lock())
_jit: Any = None


def compile_and_link(text: str, names: Sequence[str]) -> LoadedCode:
    """Compile LLVM IR, or load it from disk; return the addresses of some functions."""
    disk, digest = store(), source_digest.digest()
    if disk is None or digest is None:
        return link_objects([object_code(text)], names)
    name = name_of(digest, version(), text)
    object_file = disk.get("objects", name)
    if object_file is None:
        object_file = object_code(text)
        disk.put("objects", name, object_file)
    return link_objects([object_file], names)


def link_objects(codes: Sequence[bytes], names: Sequence[str]) -> LoadedCode:
    """Load object files; return the addresses of some of their functions."""
    return run_off_main_thread(lambda: _link_objects(codes, names))


def _link_objects(codes: Sequence[bytes], names: Sequence[str]) -> LoadedCode:
    global _jit
    with _lock:
        if _jit is None:
            _jit = llvm.create_lljit_compiler(target_machine(), use_jit_link=True)
        builder = llvm.JITLibraryBuilder()
        for code in codes:
            builder.add_object_img(code)
        builder.add_current_process()
        for name in names:
            builder.export_symbol(name)
        tracker = builder.link(_jit, f"porism{next(_numbers)}")
        return LoadedCode({name: int(tracker[name]) for name in names}, tracker, _jit)


def link(code: bytes, names: Sequence[str]) -> LoadedCode:
    """Load what `build` returned; return the addresses of functions."""
    return link_objects(split_objects(code), names)


def join_objects(objects: Sequence[bytes]) -> bytes:
    """Return object files joined, each after its length.

    >>> split_objects(join_objects([b"first", b"", b"third"]))
    [b'first', b'', b'third']
    """
    return b"".join(len(code).to_bytes(_LENGTH_BYTES, "little") + code for code in objects)


def split_objects(code: bytes) -> list[bytes]:
    """Return the object files that were joined."""
    objects, offset = [], 0
    while offset < len(code):
        begin = offset + _LENGTH_BYTES
        offset = begin + int.from_bytes(code[offset:begin], "little")
        if offset > len(code):
            raise ValueError("an object file ends too early")
        objects.append(code[begin:offset])
    return objects
