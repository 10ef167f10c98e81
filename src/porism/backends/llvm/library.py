"""Library: kernels as functions that the pool can run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from porism.backends.function import Function, function
from porism.backends.llvm.compile import attributes, object_code
from porism.backends.llvm.linking import link_object
from porism.backends.llvm.render import Renderer
from porism.ir.node import UOp


def module(named: Mapping[str, Sequence[UOp]]) -> str:
    """Linear kernels as one module of LLVM IR."""
    lines = [
        line for name, lines in named.items() for line in Renderer(name, lines).text().splitlines()
    ]
    declarations = dict.fromkeys(line for line in lines if line.startswith("declare "))
    code = [line for line in lines if not line.startswith("declare ")]
    return "\n".join([*declarations, *code, attributes()]) + "\n"


def build(named: Mapping[str, Sequence[UOp]]) -> bytes:
    """Linear kernels as one object file."""
    return object_code(module(named))


def load(named: Mapping[str, Sequence[UOp]]) -> dict[str, Function]:
    """Compile linear kernels, all in one module."""
    code = link_object(build(named), list(named))
    return {name: function(lines, code.addresses[name], code) for name, lines in named.items()}
