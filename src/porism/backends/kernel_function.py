"""Kernel function: a compiled kernel with its arguments, independent of the backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.op_signatures import PREFETCH


@dataclass(frozen=True, slots=True)
class KernelFunction:
    """A kernel in machine code, and the arguments it takes."""

    address: int
    """The address of a C function (arguments, begin, end); begin and end are iterations."""
    buffers: tuple[int, ...]
    """The numbers of the PARAMs whose addresses are the first arguments, in order."""
    variables: tuple[str, ...]
    """The names of the variables whose values follow, in order."""
    parallel: UOp | None
    """The extent of the outermost loop, if threads share its iterations; else None."""
    code: object
    """An object that keeps the machine code loaded."""


def prefetch_distances(instructions: Sequence[UOp]) -> dict[UOp, int]:
    """Return the loads that prefetch, and the distance of each in elements."""
    arg = instructions[-1].arg if instructions and instructions[-1].op is ops.SINK else None
    if not isinstance(arg, tuple) or arg[:1] != (PREFETCH,):
        return {}
    distances = {
        number: (elements, axes) for number, elements, axes, *later in arg[1:] if not later
    }
    loads: dict[UOp, int] = {}
    loops: list[tuple[int, ...]] = []
    for node in instructions:
        if node.op is ops.RANGE:
            loops.append(node.arg[0])
        elif node.op is ops.END:
            loops.pop()
        elif node.op is ops.LOAD:
            base = node.src[0]
            while base.src:
                base = base.src[0]
            elements, axes = distances.get(base.arg, (0, ())) if base.op is ops.PARAM else (0, ())
            if elements and (not axes or any(_is_part_of(axis, axes) for axis in loops)):
                loads[node] = elements
    return loads


def _is_part_of(axis: tuple[int, ...], axes: Sequence[tuple[int, ...]]) -> bool:
    """Return whether a loop is one of some axes, or was split off one."""
    return any(axis[: len(whole)] == whole for whole in axes)


def parameters(instructions: Sequence[UOp]) -> tuple[list[UOp], list[UOp]]:
    """Return the PARAMs of a kernel sorted by number, and its VARIABLEs sorted by name."""
    buffers = sorted((n for n in instructions if n.op is ops.PARAM), key=lambda n: int(n.arg))
    variables = sorted(
        (n for n in instructions if n.op is ops.VARIABLE), key=lambda n: str(n.arg[0])
    )
    return buffers, variables


def kernel_function(instructions: Sequence[UOp], address: int, code: object) -> KernelFunction:
    """Return the function at an address that a linear kernel was compiled to."""
    buffers, variables = parameters(instructions)
    threads = [n for n in instructions if n.op is ops.RANGE and n.arg[1] is Axis.THREAD]
    return KernelFunction(
        address,
        tuple(int(b.arg) for b in buffers),
        tuple(str(v.arg[0]) for v in variables),
        threads[0].src[0] if threads else None,
        code,
    )
