"""LLVM compiler: LLVM IR to object code, in this process.

Only three of LLVM's passes run: SROA, instruction combining and CFG simplification. Loops, vectors
and unrolling are already as they should be; the default pipeline takes ten times as long and gains
nothing.

Loop strength reduction (LSR) gains nothing either, since addresses are already split into hoisted
parts, an induction variable and a constant. It can only be disabled for the whole process, so it is
disabled while at least one of our modules is compiled.

LLVM can compile in several threads if each has its own context and target machine. llvmlite
serializes all calls with a lock, so its long-running functions are called without that lock.

No llvmlite function is called in the main thread, where Ctrl-C could arrive while llvmlite holds
its lock.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding import ffi

from porism.backends.llvm.compiled_cpu import compiled_cpu
from porism.base.fork_locks import held_while_forking
from porism.base.interrupts import run_off_main_thread

OPT_LEVEL: Final = 2
"""LLVM's optimization level for code generation, as in -O2."""


COMPILER_THREADS: Final = 2
"""Threads that can compile at the same time."""


@functools.cache
def target_machine() -> llvm.TargetMachine:
    """Return LLVM's target machine for the processor that is compiled for."""
    return run_off_main_thread(_new_target_machine)


def _new_target_machine() -> llvm.TargetMachine:
    cpu = compiled_cpu()
    if cpu.triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        target = llvm.Target.from_triple(cpu.triple)
    else:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=cpu.name,
        features=cpu.flags,
        opt=OPT_LEVEL,
        codemodel="small",
        reloc="pic",
    )


@functools.cache
def version() -> str:
    """Return the compiler and the machine it compiles for: what object code depends on."""
    return run_off_main_thread(_version)


def _version() -> str:
    number = ".".join(str(part) for part in llvm.llvm_version_info)
    cpu = compiled_cpu()
    return (
        f"LLVM {number} by llvmlite {llvmlite.__version__} for {cpu.name}, "
        f"{target_machine().triple}, level {OPT_LEVEL} without strengths, {cpu.flags}"
    )


@functools.cache
def attributes() -> str:
    """Return the attributes of every function, and the metadata of non-temporal stores."""
    return run_off_main_thread(_attributes)


def _attributes() -> str:
    cpu = compiled_cpu()
    width = cpu.scalable_bits // 128
    scalable = f"vscale_range({width},{width}) " if width else ""
    return (
        f'attributes #0 = {{ nounwind {scalable}"target-cpu"="{cpu.name}" '
        f'"target-features"="{cpu.flags}" '
        '"prefer-vector-width"="512" "no-trapping-math"="true" }\n'
        "!0 = !{i32 1}"
    )


@functools.cache
def _module_header() -> str:
    """Return the target triple and data layout lines of a module."""
    return run_off_main_thread(_target_lines)


def _target_lines() -> str:
    host = target_machine()
    return f'target triple = "{host.triple}"\ntarget datalayout = "{host.target_data}"\n'


def object_code(text: str, state: int = 0) -> bytes:
    """Compile LLVM IR to an object file; calls with different `state` numbers run in parallel."""
    return run_off_main_thread(
        lambda: emit_module(_module_header() + text, _states[state], is_object=True)
    )


def assembly(text: str) -> str:
    """Return the assembly of LLVM IR."""
    return run_off_main_thread(
        lambda: emit_module(_module_header() + text, _states[0], is_object=False)
    ).decode()


# -- in several threads ----------------------------------------------------------------------------


def _without_lock(function: Any) -> Callable[..., Any]:
    """Return a function of llvmlite without its lock, or unchanged if it has none."""
    found: Callable[..., Any] = getattr(function, "_cfn", function)
    return found


_parse: Final = _without_lock(ffi.lib.LLVMPY_ParseAssembly)
_run: Final = _without_lock(ffi.lib.LLVMPY_RunNewModulePassManager)
_emit: Final = _without_lock(ffi.lib.LLVMPY_TargetMachineEmitToMemory)


class CompilerState:
    """What one compiling thread needs: a lock, a target machine and passes."""

    def __init__(self, new_machine: Callable[[], llvm.TargetMachine]) -> None:
        self.lock = held_while_forking(threading.Lock())
        self.new_machine = new_machine

    @functools.cached_property
    def target_machine(self) -> llvm.TargetMachine:
        return self.new_machine()

    @functools.cached_property
    def passes(self) -> tuple[llvm.ModulePassManager, llvm.PassBuilder]:
        options = llvm.create_pipeline_tuning_options(OPT_LEVEL)
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        return passes, llvm.create_pass_builder(self.target_machine, options)


# A fork takes the last lock first: running compilations end, then no thread is inside llvmlite.
held_while_forking(ffi.lib._lock._lock)
_lsr_lock = held_while_forking(threading.Lock())
_states: Final = tuple(CompilerState(_new_target_machine) for _ in range(COMPILER_THREADS))
_states_without_lsr: set[CompilerState] = set()


@contextmanager
def _without_lsr(state: CompilerState) -> Iterator[None]:
    try:
        _set_lsr_disabled(state, disabled=True)
        yield
    finally:
        _set_lsr_disabled(state, disabled=False)


def _set_lsr_disabled(state: CompilerState, *, disabled: bool) -> None:
    """Disable LSR while at least one state needs that."""
    with _lsr_lock:
        before = bool(_states_without_lsr)
        (_states_without_lsr.add if disabled else _states_without_lsr.discard)(state)
        if before != bool(_states_without_lsr):
            llvm.set_option("porism", f"-disable-lsr={'true' if disabled else 'false'}")


def emit_module(text: str, state: CompilerState, *, is_object: bool) -> bytes:
    """Parse and optimize a module; return its object code or assembly.

    It is called in another thread than the main one.
    """
    with state.lock, llvm.create_context() as context, ffi.OutputString() as error:
        parsed = _parse(context, text.encode(), error)
        with llvm.ModuleRef(parsed, context) as module:
            if error:
                raise RuntimeError(f"LLVM does not take this: {error}")
            passes, builder = state.passes
            _run(passes, module, builder)
            with _without_lsr(state):
                buffer = _emit(state.target_machine, module, int(is_object), error)
        if not buffer:
            raise RuntimeError(f"LLVM makes no machine code of this: {error}")
        try:
            return ctypes.string_at(
                ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer)
            )
        finally:
            ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)
