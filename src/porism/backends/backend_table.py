"""Backend table: the backends by name; each compiles linear kernels into functions.

A backend describes its machine as a `Target`, and compiles kernels that were lowered for it. Its
modules are imported when it is first used, so an unused backend costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from porism.backends.kernel_function import KernelFunction
from porism.base.settings import settings
from porism.base.target import Target
from porism.ir.node import UOp

Instructions = Sequence[UOp]
"""A linear kernel: its instructions in order."""


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """How a backend makes relocatable object code, which another process can link."""

    version: Callable[[], str]
    """Return the compiler and the machine it compiles for: what object code depends on."""
    build: Callable[[Iterable[tuple[str, Instructions]], int], bytes]
    """Compile named kernels, whose number is given, to object code; the iterable may lower the
    next kernels while others are compiled."""
    link: Callable[[bytes, Sequence[str]], tuple[Mapping[str, int], object]]
    """Link object code; return the addresses of kernels by name, and an object that keeps them
    loaded."""


@dataclass(frozen=True, slots=True)
class Backend:
    """A way to compile and run kernels."""

    name: str
    doc: str
    target: Callable[[], Target]
    """Return the target that kernels are lowered for."""
    load: Callable[[Mapping[str, Instructions]], dict[str, KernelFunction]] | None
    """Compile kernels by name into functions; None for the evaluator, which interprets them."""
    source: Callable[[Instructions, str], str] | None
    """Return the source text of a kernel with a name, for display."""
    objects: ObjectCode | None = None
    """How its object code is made and linked; None if it cannot be cached on disk."""
    assembly: Callable[[Instructions, str], str] | None = None
    """Return the assembly of a kernel with a name, for display."""


def _llvm_target() -> Target:
    from porism.backends.llvm.host_target import host_target

    return host_target()


def _llvm_load(named: Mapping[str, Instructions]) -> dict[str, KernelFunction]:
    from porism.backends.llvm.llvm_library import load

    return load(named)


def _llvm_version() -> str:
    from porism.backends.llvm.llvm_compiler import version

    return version()


def _llvm_build(named: Iterable[tuple[str, Instructions]], count: int) -> bytes:
    from porism.backends.llvm.llvm_library import build

    return build(named, count)


def _llvm_link(code: bytes, names: Sequence[str]) -> tuple[Mapping[str, int], object]:
    from porism.backends.llvm.object_linking import link

    linked = link(code, names)
    return linked.addresses, linked


def _llvm_source(instructions: Instructions, name: str) -> str:
    from porism.backends.llvm.llvm_renderer import Renderer

    return Renderer(name, instructions).text()


def _llvm_assembly(instructions: Instructions, name: str) -> str:
    from porism.backends.llvm.llvm_compiler import assembly
    from porism.backends.llvm.llvm_library import module_text

    return assembly(module_text({name: instructions}))


def _c_target() -> Target:
    from porism.backends.c.c_compiler import target

    return target()


def _c_load(named: Mapping[str, Instructions]) -> dict[str, KernelFunction]:
    from porism.backends.c.c_compiler import load

    return load(named)


def _c_version() -> str:
    from porism.backends.c.c_compiler import version

    return version()


def _c_build(named: Iterable[tuple[str, Instructions]], _count: int) -> bytes:
    from porism.backends.c.c_compiler import build

    return build(dict(named))


def _c_link(code: bytes, names: Sequence[str]) -> tuple[Mapping[str, int], object]:
    from porism.backends.c.c_compiler import link

    return link(code, names)


def _c_source(instructions: Instructions, name: str) -> str:
    from porism.backends.c.c_renderer import text

    return text(instructions, name)


def _c_assembly(instructions: Instructions, name: str) -> str:
    from porism.backends.c.c_compiler import assembly
    from porism.backends.c.c_renderer import text

    return assembly(text(instructions, name))


def _reference_target() -> Target:
    from porism.evaluate.reference_target import REFERENCE

    return REFERENCE


BACKENDS: Final[Mapping[str, Backend]] = {
    row.name: row
    for row in (
        Backend(
            "llvm",
            "machine code in this process",
            _llvm_target,
            _llvm_load,
            _llvm_source,
            ObjectCode(_llvm_version, _llvm_build, _llvm_link),
            _llvm_assembly,
        ),
        Backend(
            "c",
            "C, by gcc or clang",
            _c_target,
            _c_load,
            _c_source,
            ObjectCode(_c_version, _c_build, _c_link),
            _c_assembly,
        ),
        Backend("reference", "the evaluator", _reference_target, None, None),
    )
}


def selected_backend() -> Backend:
    """Return the backend that the setting `backend` names.

    >>> with settings.override(backend="c"):
    ...     selected_backend().doc
    'C, by gcc or clang'
    """
    return BACKENDS[settings.backend]


def native_backend() -> Backend:
    """Return the backend that the setting names if it makes machine code, else `llvm`.

    >>> with settings.override(backend="reference"):
    ...     native_backend().name
    'llvm'
    """
    backend = selected_backend()
    return BACKENDS["llvm"] if backend.load is None else backend
