"""Source: the text that a kernel becomes for a machine: LLVM IR, assembly or C."""

from __future__ import annotations

from typing import Final

from porism.backends.backend_table import BACKENDS, Backend, native
from porism.base.errors import PorismError
from porism.base.target import Target
from porism.engine.tune.tuning_cache import tuned_actions
from porism.ir.node import UOp
from porism.optimize.actions.action import Actions
from porism.pipeline import lower_kernel

KINDS: Final = ("llvm", "assembly", "c")
"""The texts that there are."""


def kind_of(wanted: str | bool) -> str:
    """One of the kinds; `True` is what the backend of the settings compiles."""
    if wanted is True:
        return native().name
    if wanted not in KINDS:
        raise PorismError(
            f"there is no source of the kind {wanted!r}",
            why=f"a kernel can be read as {', '.join(KINDS)}",
            fix="give one of these, or True for what the backend compiles",
        )
    return str(wanted)


def source_of(kernel: UOp, wanted: str | bool = True, name: str = "kernel") -> str:
    """A kernel as text, as it is compiled for this machine; the same text in every process."""
    kind = kind_of(wanted)
    backend = native() if kind == "assembly" else BACKENDS[kind]
    target, actions = _compiled_for(kernel, backend)
    lines = lower_kernel(kernel, target, actions=actions)
    write = backend.assembly if kind == "assembly" else backend.source
    assert write is not None, "only the evaluator has no source"
    return write(lines, name)


def _compiled_for(kernel: UOp, backend: Backend) -> tuple[Target, Actions | None]:
    """What the text is for, and the actions if the kernel was tuned for that.

    C can be read where no compiler of it is.
    """
    try:
        return backend.target(), tuned_actions(kernel, backend)
    except PorismError:
        return BACKENDS["llvm"].target(), None
