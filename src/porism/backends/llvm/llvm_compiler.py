"""Compile: LLVM IR to machine code in this process.

Of LLVM's passes only a few are used: registers out of memory, and a clean-up. Loops, vectors
and unrolling are ours already, so the usual pipeline takes ten times as long and finds nothing.

Neither does its reduction of strengths, which looks for better counters of loops: addresses are a
sum of what is known outside, a counter and a constant. It can only be switched for the whole
process, so it is off for as long as one of our modules is compiled.

LLVM works for several threads at once if each has a context and a machine of its own. llvmlite lets
in one at a time, so its functions are called without its lock where they take long.

None is called in the main thread, where an interrupt may come as llvmlite has just taken its lock.
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

from porism.base.fork_locks import held_while_forking
from porism.base.interrupts import apart

LEVEL: Final = 2
"""How much LLVM tries when it chooses instructions."""


SEATS: Final = 2
"""Threads that LLVM works for at once."""


@functools.cache
def machine() -> llvm.TargetMachine:
    """The machine that this process runs on."""
    return apart(_machine)


def _machine() -> llvm.TargetMachine:
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
    return apart(_version)


def _version() -> str:
    number = ".".join(str(part) for part in llvm.llvm_version_info)
    found = machine()
    return (
        f"LLVM {number} by llvmlite {llvmlite.__version__} for {llvm.get_host_cpu_name()}, "
        f"{found.triple}, level {LEVEL} without strengths, {llvm.get_host_cpu_features().flatten()}"
    )


@functools.cache
def attributes() -> str:
    """What is said of every function, and of stores past the caches."""
    return apart(_attributes)


def _attributes() -> str:
    features = llvm.get_host_cpu_features().flatten()
    cpu = llvm.get_host_cpu_name()
    return (
        f'attributes #0 = {{ nounwind "target-cpu"="{cpu}" "target-features"="{features}" '
        '"prefer-vector-width"="512" "no-trapping-math"="true" }\n'
        "!0 = !{i32 1}"
    )


@functools.cache
def _heading() -> str:
    """What a module says of the machine."""
    return apart(_target)


def _target() -> str:
    found = machine()
    return f'target triple = "{found.triple}"\ntarget datalayout = "{found.target_data}"\n'


def object_code(text: str, seat: int = 0) -> bytes:
    """Machine code as an object file; those on other seats are made at the same time."""
    return apart(lambda: _emitted(text, _seats[seat], is_object=True))


def assembly(text: str) -> str:
    """Machine code as text, to be read."""
    return apart(lambda: _emitted(text, _seats[0], is_object=False)).decode()


# -- in several threads ----------------------------------------------------------------------------


def _unlocked(function: Any) -> Callable[..., Any]:
    """A function of llvmlite without its lock; as it is, if there is none."""
    found: Callable[..., Any] = getattr(function, "_cfn", function)
    return found


_parse: Final = _unlocked(ffi.lib.LLVMPY_ParseAssembly)
_run: Final = _unlocked(ffi.lib.LLVMPY_RunNewModulePassManager)
_emit: Final = _unlocked(ffi.lib.LLVMPY_TargetMachineEmitToMemory)


class _Seat:
    """What LLVM needs to work for a thread."""

    def __init__(self) -> None:
        self.lock = held_while_forking(threading.Lock())

    @functools.cached_property
    def machine(self) -> llvm.TargetMachine:
        return _machine()

    @functools.cached_property
    def passes(self) -> tuple[llvm.ModulePassManager, llvm.PassBuilder]:
        options = llvm.create_pipeline_tuning_options(LEVEL)
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        return passes, llvm.create_pass_builder(self.machine, options)


# A fork takes the last lock first: what LLVM is at is finished, then nobody is inside llvmlite.
held_while_forking(ffi.lib._lock._lock)
_switching = held_while_forking(threading.Lock())
_seats: Final = tuple(_Seat() for _ in range(SEATS))
_with_our_settings: set[_Seat] = set()


@contextmanager
def _our_settings(seat: _Seat) -> Iterator[None]:
    try:
        _switch(seat, ours=True)
        yield
    finally:
        _switch(seat, ours=False)


def _switch(seat: _Seat, *, ours: bool) -> None:
    """Our settings are those of LLVM as long as one seat has them."""
    with _switching:
        before = bool(_with_our_settings)
        (_with_our_settings.add if ours else _with_our_settings.discard)(seat)
        if before != bool(_with_our_settings):
            llvm.set_option("porism", f"-disable-lsr={'true' if ours else 'false'}")


def _emitted(text: str, seat: _Seat, *, is_object: bool) -> bytes:
    """A module parsed, optimised and made into machine code."""
    with seat.lock, llvm.create_context() as context, ffi.OutputString() as error:
        parsed = _parse(context, (_heading() + text).encode(), error)
        with llvm.ModuleRef(parsed, context) as module:
            if error:
                raise RuntimeError(f"LLVM does not take this: {error}")
            passes, builder = seat.passes
            _run(passes, module, builder)
            with _our_settings(seat):
                made = _emit(seat.machine, module, int(is_object), error)
        if not made:
            raise RuntimeError(f"LLVM makes no machine code of this: {error}")
        try:
            return ctypes.string_at(
                ffi.lib.LLVMPY_GetBufferStart(made), ffi.lib.LLVMPY_GetBufferSize(made)
            )
        finally:
            ffi.lib.LLVMPY_DisposeMemoryBuffer(made)
