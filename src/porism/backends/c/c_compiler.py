"""Compile: C to machine code with a compiler of the system, loaded into this process.

The compiler is the command in the environment variable CC, else gcc, else clang, else cc. What the
machine can do is what the compiler says it compiles for.
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
from porism.base.target import GENERIC_CPU, Memory, Target
from porism.ir.node import UOp

COMMANDS: Final = ("gcc", "clang", "cc")
"""The compilers that are looked for, in this order."""

FLAGS: Final = (
    "-std=c99", "-O2", "-fPIC", "-shared", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off",
    "-fno-math-errno", "-fno-trapping-math",
)  # fmt: skip
"""Beside those for this machine. The text means the same without them, but for -std=c99, which
keeps gcc from joining products and sums."""

_NATIVE: Final = ("-march=native", "-mcpu=native")
_WIDTHS: Final = (("__AVX512F__", 512), ("__AVX__", 256), ("__SSE2__", 128), ("__ARM_NEON", 128))


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler that works."""

    command: tuple[str, ...]
    native: tuple[str, ...]
    """The flags that let it use all that this machine has."""
    macros: frozenset[str]
    """What it defines for this machine."""
    digest: str
    """Of all that it says of itself and of this machine, its version too."""

    def __str__(self) -> str:
        return shlex.join(self.command)


def compiler() -> Compiler:
    """The compiler to use; an error with advice if there is none."""
    return _compiler(os.environ.get("CC", "").strip(), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=16)
def _compiler(wanted: str, path: str) -> Compiler:
    tried = [wanted] if wanted else list(COMMANDS)
    faults = []
    for text in tried:
        try:
            command = tuple(shlex.split(text))
        except ValueError as error:
            faults.append(f"{text}: {error}")
            continue
        if not command or shutil.which(command[0], path=path) is None:
            faults.append(f"{text} was not found")
            continue
        found = _asked(command)
        if isinstance(found, Compiler):
            return found
        faults.append(f"{text}: {found}")
    raise PorismError(
        "there is no C compiler that works",
        where="the environment variable CC" if wanted else "the commands in PATH",
        why="; ".join(faults),
        fix="install gcc or clang, name one in CC, or use PORISM_BACKEND=llvm, which needs none",
    )


def _asked(command: tuple[str, ...]) -> Compiler | str:
    """A compiler and what it says of itself, or what is wrong with it."""
    wrong = "it does not compile"
    for native in (*((flag,) for flag in _NATIVE), ()):
        try:
            done = subprocess.run(
                [*command, *native, "-dM", "-E", "-x", "c", os.devnull],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        except OSError as error:
            return str(error)
        if done.returncode == 0:
            macros = frozenset(
                line.split()[1] for line in done.stdout.splitlines() if line.startswith("#define ")
            )
            if "__LP64__" not in macros:
                return "it does not compile for 64 bits"
            if "__GNUC__" not in macros:
                return "it is neither gcc nor clang, so it has no vector types"
            said = "\n".join(sorted(done.stdout.splitlines())).encode()
            digest = hashlib.blake2b(said, digest_size=16).hexdigest()
            return Compiler(command, native, macros, digest)
        wrong = _first_lines(done.stderr) or wrong
    return wrong


def _first_lines(text: str, most: int = 3) -> str:
    return "\n".join(text.strip().splitlines()[:most])


@functools.lru_cache(maxsize=16)
def _target(found: Compiler) -> Target:
    widths = sorted({bits for macro, bits in _WIDTHS if macro in found.macros})
    more = {"MAX", "MIN", "RECIPROCAL", "TRUNC", "FLOOR", "CEIL", "ROUND"}
    if found.macros & {"__FMA__", "__ARM_FEATURE_FMA"}:
        more.add("MULACC")
    many = 32 if found.macros & {"__AVX512F__", "__ARM_NEON"} else 16
    return dataclasses.replace(
        GENERIC_CPU,
        name="c",
        ops=GENERIC_CPU.ops | more,
        vector_bits=tuple(widths) or (128,),
        memory=Memory(l1=32 << 10, l2=1 << 20, registers=many),
        cores=os.cpu_count() or 1,
    )


def target() -> Target:
    """This machine, as the compiler sees it."""
    return _target(compiler())


# -- from text to functions ------------------------------------------------------------------------


class Library:
    """Machine code in memory; it goes when nothing uses it any more."""

    def __init__(self, path: Path) -> None:
        self.loaded: Any = ctypes.CDLL(os.fspath(path))
        closing = weakref.finalize(self, _close, self.loaded._handle)
        closing.atexit = False

    def address(self, name: str) -> int:
        found = ctypes.cast(getattr(self.loaded, name), ctypes.c_void_p).value
        assert found is not None
        return found


def _close(handle: int) -> None:
    import _ctypes

    if hasattr(_ctypes, "dlclose"):
        _ctypes.dlclose(handle)


def shared_library(source: str, flags: Sequence[str] = ()) -> bytes:
    """A file of C as machine code."""
    return _result(source, (*FLAGS, *flags), "kernels.so")


def assembly(source: str) -> str:
    """A file of C as machine code in text, to be read."""
    flags = [flag for flag in FLAGS if flag != "-shared"]
    flags += ["-S", "-fno-asynchronous-unwind-tables"]
    return _result(source, flags, "kernels.s").decode()


def _result(source: str, flags: Sequence[str], made: str) -> bytes:
    """The file of some name that the compiler makes of a file of C."""
    found = compiler()
    with tempfile.TemporaryDirectory(prefix="porism-") as folder:
        text, result = Path(folder, "kernels.c"), Path(folder, made)
        text.write_text(source, encoding="utf-8")
        command = [*found.command, *found.native, *flags, "-o", str(result), str(text)]
        done = subprocess.run([*command, "-lm"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PorismError(
                "the C compiler refused the text of a kernel",
                where=str(found),
                why=_first_lines(done.stderr, 12) or f"it ended with status {done.returncode}",
                fix="look at the room in the temporary folder, try another compiler in CC, or use "
                "PORISM_BACKEND=llvm; if the text is at fault, please report it",
            )
        return result.read_bytes()


def loaded(code: bytes) -> Library:
    """Machine code in this process."""
    with tempfile.TemporaryDirectory(prefix="porism-") as folder:
        path = Path(folder, "kernels.so")
        path.write_bytes(code)
        return Library(path)


def compiled(source: str, flags: Sequence[str] = ()) -> Library:
    """A file of C as functions in this process."""
    return loaded(shared_library(source, flags))


def version() -> str:
    """The compiler, the machine and the flags: what machine code depends on."""
    found = compiler()
    return f"C by {found}, {found.digest}, {shlex.join((*found.native, *FLAGS))}"


def build(named: Mapping[str, Sequence[UOp]]) -> bytes:
    """Linear kernels as one file of machine code."""
    return shared_library(module(named))


def link(code: bytes, names: Sequence[str]) -> tuple[dict[str, int], Library]:
    """The addresses of kernels by name, and what holds them."""
    library = loaded(code)
    return {name: library.address(f"{name}_run") for name in names}, library


def load(
    named: Mapping[str, Sequence[UOp]], flags: Sequence[str] = ()
) -> dict[str, KernelFunction]:
    """Compile linear kernels, all in one file."""
    library = compiled(module(named), flags)
    return {
        name: kernel_function(lines, library.address(f"{name}_run"), library)
        for name, lines in named.items()
    }
