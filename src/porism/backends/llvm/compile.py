"""Compile: LLVM IR to machine code in this process.

Of LLVM's passes only a few are used: registers out of memory, and a clean-up. Loops, vectors
and unrolling are ours already, so the usual pipeline takes ten times as long and finds nothing.

Neither does its reduction of strengths, which looks for better counters of loops: addresses are a
sum of what is known outside, a counter and a constant. It can only be switched for the whole
process, so it is off for as long as one of our modules is compiled.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding import ffi

from porism.base.forking import held_while_forking

LEVEL: Final = 2
"""How much LLVM tries when it chooses instructions."""


@functools.cache
def machine() -> llvm.TargetMachine:
    """The machine that this process runs on."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=LEVEL,
        codemodel="small",
        reloc="pic",
    )


@functools.cache
def version() -> str:
    """The compiler, and the machine that it compiles for: what object code depends on."""
    number = ".".join(str(part) for part in llvm.llvm_version_info)
    found = machine()
    return (
        f"LLVM {number} by llvmlite {llvmlite.__version__} for {llvm.get_host_cpu_name()}, "
        f"{found.triple}, level {LEVEL} without strengths, {llvm.get_host_cpu_features().flatten()}"
    )


@functools.cache
def attributes() -> str:
    """What is said of every function, and of stores past the caches."""
    features = llvm.get_host_cpu_features().flatten()
    cpu = llvm.get_host_cpu_name()
    return (
        f'attributes #0 = {{ nounwind "target-cpu"="{cpu}" "target-features"="{features}" '
        '"prefer-vector-width"="512" "no-trapping-math"="true" }\n'
        "!0 = !{i32 1}"
    )


def optimized(text: str) -> llvm.ModuleRef:
    """A module, parsed, checked and optimised."""
    module = llvm.parse_assembly(_heading() + text)
    passes, builder = _passes()
    passes.run(module, builder)
    return module


@functools.cache
def _heading() -> str:
    """What a module says of the machine."""
    found = machine()
    return f'target triple = "{found.triple}"\ntarget datalayout = "{found.target_data}"\n'


@functools.cache
def _passes() -> tuple[llvm.ModulePassManager, llvm.PassBuilder]:
    builder = llvm.create_pass_builder(machine(), llvm.create_pipeline_tuning_options(LEVEL))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    return passes, builder


held_while_forking(ffi.lib._lock._lock)  # llvmlite's: what LLVM is at is finished first
_emitting = held_while_forking(threading.Lock())
"""Held while LLVM's settings are ours; llvmlite's is taken inside of it, so that comes first."""


@contextmanager
def _our_settings() -> Iterator[None]:
    with _emitting:
        llvm.set_option("porism", "-disable-lsr=true")
        try:
            yield
        finally:
            llvm.set_option("porism", "-disable-lsr=false")


def object_code(text: str) -> bytes:
    """Machine code as an object file."""
    module = optimized(text)
    with _our_settings():
        return bytes(machine().emit_object(module))


def assembly(text: str) -> str:
    """Machine code as text, to be read."""
    module = optimized(text)
    with _our_settings():
        return str(machine().emit_assembly(module))
