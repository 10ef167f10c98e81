"""LLVM library: linear kernels compiled by LLVM into callable functions.

LLVM releases Python's lock while it compiles. So kernels are compiled in batches by a second
thread, while the next kernels are still being lowered; the last batches by both threads. The result
is several object files, joined with their lengths. (`object_linking` loads them.)
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from porism.backends.kernel_function import KernelFunction, kernel_function
from porism.backends.llvm.compile_queue import CompileQueue
from porism.backends.llvm.llvm_compiler import attributes
from porism.backends.llvm.llvm_renderer import Renderer
from porism.backends.llvm.object_linking import join_objects, link
from porism.ir.node import UOp

BATCH_INSTRUCTIONS: Final = 300
"""Instructions of kernels that are compiled as one module: ten milliseconds of work or more."""

LARGE_BUILD: Final = 16
"""Kernels compiled together, from which on LLVM leaves tens of MiB of free memory behind."""

SWITCH_SECONDS: Final = 0.0001
"""Python's thread switch interval meanwhile, so that LLVM's thread soon gets its next turn."""

_switch_lock: Final = threading.Lock()


def module_text(named: Mapping[str, Sequence[UOp]]) -> str:
    """Return linear kernels as one module of LLVM IR."""
    lines = [
        line for name, lines in named.items() for line in Renderer(name, lines).text().splitlines()
    ]
    declarations = dict.fromkeys(line for line in lines if line.startswith("declare "))
    code = [line for line in lines if not line.startswith("declare ")]
    return "\n".join([*declarations, *code, attributes()]) + "\n"


def build(named: Iterable[tuple[str, Sequence[UOp]]], count: int) -> bytes:
    """Compile `count` named linear kernels; the iterable may lower them on the way."""
    batch: dict[str, Sequence[UOp]] = {}
    with CompileQueue() as queue:
        with _fast_switching():
            for number, (name, instructions) in enumerate(named, 1):
                batch[name] = instructions
                if number < count and sum(map(len, batch.values())) >= BATCH_INSTRUCTIONS:
                    queue.add_and_start(module_text(batch))
                    batch = {}
        if batch:
            queue.add(module_text(batch))
        joined = join_objects(queue.object_codes())
    if count >= LARGE_BUILD:
        _return_free_memory()
    return joined


def _return_free_memory() -> None:
    """Return what LLVM has freed to the system, where the allocator of C keeps it (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


@contextmanager
def _fast_switching() -> Iterator[None]:
    """Shorten Python's thread switch interval, unless another thread has done so."""
    if not _switch_lock.acquire(blocking=False):
        yield
        return
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(SWITCH_SECONDS, before))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
        _switch_lock.release()


def load(named: Mapping[str, Sequence[UOp]]) -> dict[str, KernelFunction]:
    """Compile linear kernels into functions."""
    code = link(build(named.items(), len(named)), list(named))
    return {
        name: kernel_function(instructions, code.addresses[name], code)
        for name, instructions in named.items()
    }
