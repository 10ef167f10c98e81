"""Function: a kernel as code that a thread pool can run, whichever backend made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.op_signatures import PREFETCH


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


def fetched(lines: Sequence[UOp]) -> dict[UOp, int]:
    """With which loads something ahead is fetched, and how many elements ahead that is."""
    arg = lines[-1].arg if lines and lines[-1].op is ops.SINK else None
    if not isinstance(arg, tuple) or arg[:1] != (PREFETCH,):
        return {}
    said = {number: (elements, axes) for number, elements, axes, *later in arg[1:] if not later}
    found: dict[UOp, int] = {}
    around: list[tuple[int, ...]] = []
    for node in lines:
        if node.op is ops.RANGE:
            around.append(node.arg[0])
        elif node.op is ops.END:
            around.pop()
        elif node.op is ops.LOAD:
            base = node.src[0]
            while base.src:
                base = base.src[0]
            elements, axes = said.get(base.arg, (0, ())) if base.op is ops.PARAM else (0, ())
            if elements and (not axes or any(_is_of(axis, axes) for axis in around)):
                found[node] = elements
    return found


def _is_of(axis: tuple[int, ...], axes: Sequence[tuple[int, ...]]) -> bool:
    """Whether a loop is one of some axes, or a part of one."""
    return any(axis[: len(whole)] == whole for whole in axes)


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
