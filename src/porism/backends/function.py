"""Function: a kernel as code that a thread pool can run, whichever backend made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.signatures import PREFETCH


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
    code: object
    """What has to live as long as the function is called."""


def fetched(lines: Sequence[UOp]) -> dict[int, int]:
    """How many elements ahead the buffers of a kernel are fetched, those that are."""
    arg = lines[-1].arg if lines and lines[-1].op is ops.SINK else None
    return dict(arg[1:]) if isinstance(arg, tuple) and arg[:1] == (PREFETCH,) else {}


def parameters(lines: Sequence[UOp]) -> tuple[list[UOp], list[UOp]]:
    """The buffers of a kernel by number, and its variables by name."""
    buffers = sorted((n for n in lines if n.op is ops.PARAM), key=lambda n: int(n.arg))
    variables = sorted((n for n in lines if n.op is ops.VARIABLE), key=lambda n: str(n.arg[0]))
    return buffers, variables


def function(lines: Sequence[UOp], address: int, code: object) -> Function:
    """The function at an address, which a linear kernel has become."""
    buffers, variables = parameters(lines)
    threads = [n for n in lines if n.op is ops.RANGE and n.arg[1] is Axis.THREAD]
    return Function(
        address,
        tuple(int(b.arg) for b in buffers),
        tuple(str(v.arg[0]) for v in variables),
        threads[0].src[0] if threads else None,
        code,
    )
