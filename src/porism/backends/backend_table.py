"""The table of backends: what turns linear kernels into functions, by name.

A backend says what its machine can do, as a `Target`, and loads kernels that were lowered for it.
What belongs to one is imported when it is first used: none costs anything to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from porism.backends.kernel_function import Function
from porism.base.settings import settings
from porism.base.target import REFERENCE, Target
from porism.ir.node import UOp

Lines = Sequence[UOp]
"""A kernel of the linear level."""


@dataclass(frozen=True, slots=True)
class Objects:
    """Machine code that can be kept: made in one process, linked in another."""

    version: Callable[[], str]
    """The compiler and the machine it compiles for, in words."""
    build: Callable[[Iterable[tuple[str, Lines]], int], bytes]
    """So many kernels with their names as machine code; they may be lowered while others are
    compiled."""
    link: Callable[[bytes, Sequence[str]], tuple[Mapping[str, int], object]]
    """The addresses of kernels by name, and what has to live as long as they are called."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One way to run kernels."""

    name: str
    doc: str
    target: Callable[[], Target]
    """The machine that kernels are lowered for."""
    load: Callable[[Mapping[str, Lines]], dict[str, Function]] | None
    """Kernels by name as functions; None for the evaluator, which runs kernels as they are."""
    source: Callable[[Lines, str], str] | None
    """The text of a kernel of some name, for people."""
    objects: Objects | None = None
    """How its machine code is kept on disk; None where it is not."""
    assembly: Callable[[Lines, str], str] | None = None
    """The machine code of a kernel of some name, for people."""


def _llvm_target() -> Target:
    from porism.backends.llvm.host_target import host

    return host()


def _llvm_load(named: Mapping[str, Lines]) -> dict[str, Function]:
    from porism.backends.llvm.llvm_library import load

    return load(named)


def _llvm_version() -> str:
    from porism.backends.llvm.llvm_compiler import version

    return version()


def _llvm_build(named: Iterable[tuple[str, Lines]], amount: int) -> bytes:
    from porism.backends.llvm.llvm_library import build

    return build(named, amount)


def _llvm_link(code: bytes, names: Sequence[str]) -> tuple[Mapping[str, int], object]:
    from porism.backends.llvm.llvm_library import link

    linked = link(code, names)
    return linked.addresses, linked


def _llvm_source(lines: Lines, name: str) -> str:
    from porism.backends.llvm.llvm_renderer import Renderer

    return Renderer(name, lines).text()


def _llvm_assembly(lines: Lines, name: str) -> str:
    from porism.backends.llvm.llvm_compiler import assembly
    from porism.backends.llvm.llvm_library import module

    return assembly(module({name: lines}))


def _c_target() -> Target:
    from porism.backends.c.c_compiler import target

    return target()


def _c_load(named: Mapping[str, Lines]) -> dict[str, Function]:
    from porism.backends.c.c_compiler import load

    return load(named)


def _c_version() -> str:
    from porism.backends.c.c_compiler import version

    return version()


def _c_build(named: Iterable[tuple[str, Lines]], _amount: int) -> bytes:
    from porism.backends.c.c_compiler import build

    return build(dict(named))


def _c_link(code: bytes, names: Sequence[str]) -> tuple[Mapping[str, int], object]:
    from porism.backends.c.c_compiler import link

    return link(code, names)


def _c_source(lines: Lines, name: str) -> str:
    from porism.backends.c.c_renderer import text

    return text(lines, name)


def _c_assembly(lines: Lines, name: str) -> str:
    from porism.backends.c.c_compiler import assembly
    from porism.backends.c.c_renderer import text

    return assembly(text(lines, name))


BACKENDS: Final[Mapping[str, Backend]] = {
    row.name: row
    for row in (
        Backend(
            "llvm",
            "machine code in this process",
            _llvm_target,
            _llvm_load,
            _llvm_source,
            Objects(_llvm_version, _llvm_build, _llvm_link),
            _llvm_assembly,
        ),
        Backend(
            "c",
            "C, by gcc or clang",
            _c_target,
            _c_load,
            _c_source,
            Objects(_c_version, _c_build, _c_link),
            _c_assembly,
        ),
        Backend("reference", "the evaluator", lambda: REFERENCE, None, None),
    )
}


def chosen() -> Backend:
    """The backend that the setting `backend` names.

    >>> with settings.override(backend="c"):
    ...     chosen().doc
    'C, by gcc or clang'
    """
    return BACKENDS[settings.backend]


def native() -> Backend:
    """The backend that the setting names if it makes machine code, else `llvm`.

    >>> with settings.override(backend="reference"):
    ...     native().name
    'llvm'
    """
    found = chosen()
    return BACKENDS["llvm"] if found.load is None else found
