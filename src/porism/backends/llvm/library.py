"""Library: kernels as functions that the pool can run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from porism.backends.llvm.compile import attributes, object_code
from porism.backends.llvm.linking import Code, link_object
from porism.backends.llvm.render import Renderer, parameters
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel in machine code."""

    address: int
    """Of a function of (arguments, begin, end)."""
    buffers: tuple[int, ...]
    """The parameters that are the first of its arguments."""
    variables: tuple[str, ...]
    """The variables that follow."""
    parallel: UOp | None
    """The size of the loop that is shared among threads; None if it runs in one."""
    code: Code


def module(named: Mapping[str, Sequence[UOp]]) -> str:
    """Linear kernels as one module of LLVM IR."""
    lines = [
        line for name, lines in named.items() for line in Renderer(name, lines).text().splitlines()
    ]
    declarations = dict.fromkeys(line for line in lines if line.startswith("declare "))
    code = [line for line in lines if not line.startswith("declare ")]
    return "\n".join([*declarations, *code, attributes()]) + "\n"


def load(named: Mapping[str, Sequence[UOp]]) -> dict[str, Function]:
    """Compile linear kernels, all in one module."""
    code = link_object(object_code(module(named)), list(named))
    return {name: _function(lines, code, name) for name, lines in named.items()}


def _function(lines: Sequence[UOp], code: Code, name: str) -> Function:
    buffers, variables = parameters(lines)
    threads = [n for n in lines if n.op is ops.RANGE and n.arg[1] is Axis.THREAD]
    return Function(
        code.addresses[name],
        tuple(int(b.arg) for b in buffers),
        tuple(str(v.arg[0]) for v in variables),
        threads[0].src[0] if threads else None,
        code,
    )
