"""Library: compiled kernels that can be called."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from porism.backends.llvm.compile import attributes, machine, object_code
from porism.backends.llvm.render import Renderer, parameters
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel as a function of addresses."""

    call: Any
    """A C function of the buffers, the variables, and the part of the outermost loop."""
    variables: tuple[str, ...]
    parallel: UOp | None
    """The size of the loop that may be shared among cores."""
    tracker: Any
    """Keeps the code in memory."""

    def __call__(self, addresses: Sequence[int], variables: Mapping[str, int]) -> None:
        values = [variables[name] for name in self.variables]
        self.call(*addresses, *values, 0, 1 if self.parallel is None else int(self.parallel.vmax))


_numbers = itertools.count()
_jit: Any = None


def load(named: Mapping[str, Sequence[UOp]]) -> dict[str, Function]:
    """Compile linear kernels, all in one module."""
    text = "".join(Renderer(name, lines).text() for name, lines in named.items())
    declarations = sorted({t for t in text.splitlines() if t.startswith("declare ")})
    rest = [t for t in text.splitlines() if not t.startswith("declare ")]
    whole = "\n".join([*declarations, *rest, attributes()])
    code = object_code(whole)
    global _jit
    if _jit is None:
        _jit = llvm.create_lljit_compiler(machine(), use_jit_link=False, suppress_errors=False)
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name in named:
        builder.export_symbol(name)
    tracker = builder.link(_jit, f"kernels{next(_numbers)}")
    return {name: _function(lines, tracker[name], tracker) for name, lines in named.items()}


def _function(lines: Sequence[UOp], address: int, tracker: Any) -> Function:
    buffers, variables = parameters(lines)
    kinds = [ctypes.c_void_p] * len(buffers) + [ctypes.c_int64] * (len(variables) + 2)
    call = ctypes.CFUNCTYPE(None, *kinds)(address)
    threads = [n for n in lines if n.op is ops.RANGE and n.arg[1] is Axis.THREAD]
    names = tuple(str(v.arg[0]) for v in variables)
    return Function(call, names, threads[0].src[0] if threads else None, tracker)
