"""Kernel source: the generated code of a kernel as text: LLVM IR, assembly or C."""

from __future__ import annotations

from typing import Final

from porism.backends.backend_table import BACKENDS, Backend, native_backend
from porism.base.errors import PorismError
from porism.base.target import Target
from porism.engine.tune.tuning_cache import tuned_actions
from porism.ir.node import UOp
from porism.optimize.actions.action import Actions
from porism.pipeline import lower_kernel

KINDS: Final = ("llvm", "assembly", "c")
"""The languages that a kernel can be read in."""


def kind_of(wanted: str | bool) -> str:
    """Return one of the kinds; for `True` the language that the backend compiles."""
    if wanted is True:
        return native_backend().name
    if wanted not in KINDS:
        raise PorismError(
            f"there is no source of the kind {wanted!r}",
            why=f"a kernel can be read as {', '.join(KINDS)}",
            fix="give one of these, or True for what the backend compiles",
        )
    return str(wanted)


def source_of(kernel: UOp, wanted: str | bool = True, name: str = "kernel") -> str:
    """Return the generated code of a kernel for this machine; the same text in every process."""
    kind = kind_of(wanted)
    backend = native_backend() if kind == "assembly" else BACKENDS[kind]
    target, actions = _target_and_actions(kernel, backend)
    instructions = lower_kernel(kernel, target, actions=actions)
    write = backend.assembly if kind == "assembly" else backend.source
    assert write is not None, "only the evaluator has no source"
    return write(instructions, name)


def _target_and_actions(kernel: UOp, backend: Backend) -> tuple[Target, Actions | None]:
    """Return the target, and the tuned actions of a kernel if there are any.

    C can be shown without a C compiler: then it is for the target of LLVM.
    """
    try:
        return backend.target(), tuned_actions(kernel, backend)
    except PorismError:
        return BACKENDS["llvm"].target(), None
