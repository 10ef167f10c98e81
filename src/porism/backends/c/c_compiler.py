"""C compiler: C compiled by the system's compiler, and loaded into this process.

The compiler is the command in the environment variable CC, else gcc, else clang, else cc. The
target follows from the macros that the compiler predefines.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from porism.backends.c.c_renderer import module
from porism.backends.kernel_function import KernelFunction, kernel_function
from porism.base.errors import PorismError
from porism.base.machines.host_machine import host_cores, host_machine, host_memory
from porism.base.machines.machine import Machine
from porism.base.target import GENERIC_CPU, Target
from porism.ir.node import UOp

COMMANDS: Final = ("gcc", "clang", "cc")
"""The commands that are tried, in this order."""

FLAGS: Final = (
    "-std=c99", "-O2", "-fPIC", "-shared", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off",
    "-fno-math-errno", "-fno-trapping-math",
)  # fmt: skip
"""Flags beside those for this machine. The code means the same without them, except for -std=c99,
which keeps gcc from contracting products and sums."""

_NATIVE_FLAGS: Final = ("-march=native", "-mcpu=native")
_VECTOR_BITS: Final = (
    ("__AVX512F__", 512),
    ("__AVX__", 256),
    ("__SSE2__", 128),
    ("__ARM_NEON", 128),
)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler that was found to work."""

    command: tuple[str, ...]
    native: tuple[str, ...]
    """The flags that make it compile for this machine."""
    macros: frozenset[str]
    """The names of its predefined macros."""
    digest: str
    """A digest of its predefined macros with their values, which include its version."""

    def __str__(self) -> str:
        return shlex.join(self.command)


def compiler() -> Compiler:
    """Return the compiler to use; a `PorismError` if none works."""
    return _compiler(os.environ.get("CC", "").strip(), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=16)
def _compiler(wanted: str, path: str) -> Compiler:
    tried = [wanted] if wanted else list(COMMANDS)
    problems = []
    for text in tried:
        try:
            command = tuple(shlex.split(text))
        except ValueError as error:
            problems.append(f"{text}: {error}")
            continue
        if not command or shutil.which(command[0], path=path) is None:
            problems.append(f"{text} was not found")
            continue
        probed = _probe(command)
        if isinstance(probed, Compiler):
            return probed
        problems.append(f"{text}: {probed}")
    raise PorismError(
        "there is no C compiler that works",
        where="the environment variable CC" if wanted else "the commands in PATH",
        why="; ".join(problems),
        fix="install gcc or clang, name one in CC, or use PORISM_BACKEND=llvm, which needs none",
    )


def _probe(command: tuple[str, ...]) -> Compiler | str:
    """Return a compiler with its macros, or what is wrong with it."""
    problem = "it does not compile"
    for native in (*((flag,) for flag in _NATIVE_FLAGS), ()):
        try:
            process = subprocess.run(
                [*command, *native, "-dM", "-E", "-x", "c", os.devnull],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        except OSError as error:
            return str(error)
        if process.returncode == 0:
            macros = frozenset(
                line.split()[1]
                for line in process.stdout.splitlines()
                if line.startswith("#define ")
            )
            if "__LP64__" not in macros:
                return "it does not compile for 64 bits"
            if "__GNUC__" not in macros:
                return "it is neither gcc nor clang, so it has no vector types"
            macro_lines = "\n".join(sorted(process.stdout.splitlines())).encode()
            digest = hashlib.blake2b(macro_lines, digest_size=16).hexdigest()
            return Compiler(command, native, macros, digest)
        problem = _first_lines(process.stderr) or problem
    return problem


def _first_lines(text: str, most: int = 3) -> str:
    return "\n".join(text.strip().splitlines()[:most])


@functools.lru_cache(maxsize=16)
def _target(chosen: Compiler, machine: Machine, cores: int) -> Target:
    widths = sorted({bits for macro, bits in _VECTOR_BITS if macro in chosen.macros})
    extra_ops = {"MAX", "MIN", "RECIPROCAL", "TRUNC", "FLOOR", "CEIL", "ROUND"}
    if chosen.macros & {"__FMA__", "__ARM_FEATURE_FMA"}:
        extra_ops.add("MULACC")
    registers = 32 if chosen.macros & {"__AVX512F__", "__ARM_NEON"} else 16
    return dataclasses.replace(
        GENERIC_CPU,
        name="c",
        ops=GENERIC_CPU.ops | extra_ops,
        vector_bits=tuple(widths) or (128,),
        memory=host_memory(registers),
        machine=machine,
        cores=cores,
    )


def target() -> Target:
    """Return this machine as the compiler describes it."""
    return _target(compiler(), host_machine(), host_cores())


# -- from text to functions ------------------------------------------------------------------------


class Library:
    """A loaded shared library; unloaded when nothing refers to it."""

    def __init__(self, path: Path) -> None:
        self.loaded: Any = ctypes.CDLL(os.fspath(path))
        closing = weakref.finalize(self, _close, self.loaded._handle)
        closing.atexit = False

    def address(self, name: str) -> int:
        address = ctypes.cast(getattr(self.loaded, name), ctypes.c_void_p).value
        assert address is not None
        return address


def _close(handle: int) -> None:
    import _ctypes

    if hasattr(_ctypes, "dlclose"):
        _ctypes.dlclose(handle)


def shared_library(source: str, flags: Sequence[str] = ()) -> bytes:
    """Compile C source; return the bytes of a shared library."""
    return _run_compiler(source, (*FLAGS, *flags), "kernels.so")


def assembly(source: str) -> str:
    """Return the assembly of C source."""
    flags = [flag for flag in FLAGS if flag != "-shared"]
    flags += ["-S", "-fno-asynchronous-unwind-tables"]
    return _run_compiler(source, flags, "kernels.s").decode()


def _run_compiler(source: str, flags: Sequence[str], output: str) -> bytes:
    """Run the compiler on C source; return the content of its output file."""
    chosen = compiler()
    with tempfile.TemporaryDirectory(prefix="porism-") as folder:
        text, result = Path(folder, "kernels.c"), Path(folder, output)
        text.write_text(source, encoding="utf-8")
        command = [*chosen.command, *chosen.native, *flags, "-o", str(result), str(text)]
        process = subprocess.run([*command, "-lm"], capture_output=True, text=True, check=False)
        if process.returncode != 0:
            raise PorismError(
                "the C compiler refused the text of a kernel",
                where=str(chosen),
                why=_first_lines(process.stderr, 12)
                or f"it ended with status {process.returncode}",
                fix="look at the space in the temporary folder, try another compiler in CC, or use "
                "PORISM_BACKEND=llvm; if the text is at fault, please report it",
            )
        return result.read_bytes()


def load_library(code: bytes) -> Library:
    """Load the bytes of a shared library into this process."""
    with tempfile.TemporaryDirectory(prefix="porism-") as folder:
        path = Path(folder, "kernels.so")
        path.write_bytes(code)
        return Library(path)


def compile_library(source: str, flags: Sequence[str] = ()) -> Library:
    """Compile C source, and load it into this process."""
    return load_library(shared_library(source, flags))


def version() -> str:
    """Return the compiler, the machine and the flags: what machine code depends on."""
    chosen = compiler()
    return f"C by {chosen}, {chosen.digest}, {shlex.join((*chosen.native, *FLAGS))}"


def build(named: Mapping[str, Sequence[UOp]]) -> bytes:
    """Compile linear kernels; return the bytes of a shared library."""
    return shared_library(module(named))


def link(code: bytes, names: Sequence[str]) -> tuple[dict[str, int], Library]:
    """Load a shared library; return the addresses of kernels by name, and the library."""
    library = load_library(code)
    return {name: library.address(f"{name}_run") for name in names}, library


def load(
    named: Mapping[str, Sequence[UOp]], flags: Sequence[str] = ()
) -> dict[str, KernelFunction]:
    """Compile linear kernels, all in one file, into functions."""
    library = compile_library(module(named), flags)
    return {
        name: kernel_function(instructions, library.address(f"{name}_run"), library)
        for name, instructions in named.items()
    }
