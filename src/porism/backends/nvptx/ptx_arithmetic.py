"""PTX arithmetic: the ops whose instruction is not LLVM's general intrinsic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from porism.backends.llvm.llvm_arithmetic import ARITHMETIC, Arithmetic, ldexp_vector
from porism.backends.llvm.llvm_types import type_of
from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op

if TYPE_CHECKING:
    from porism.backends.llvm.llvm_renderer import Renderer


def _in_lanes(scalar: Callable[..., str]) -> Arithmetic:
    """Return the writer of an op that has a scalar instruction alone.

    `scalar` takes the renderer, the LLVM type of a lane, and the names of the operands.
    """

    def write(r: Renderer, node: UOp, lane: DType) -> str:
        kind, values = type_of(lane), [r.value(s) for s in node.src]
        if node.dtype.count == 1:
            return scalar(r, kind, *values)
        vector = "poison"
        for k in range(node.dtype.count):
            parts = [r.emit(f"extractelement {r.typed(s)}, i32 {k}") for s in node.src]
            result = scalar(r, kind, *parts)
            vector = r.emit(
                f"insertelement {type_of(node.dtype)} {vector}, {kind} {result}, i32 {k}"
            )
        return vector

    return write


def _exp2(r: Renderer, kind: str, x: str) -> str:
    """Write `ex2.approx`: at most 2 ulp wrong, also for subnormal numbers (PTX ISA, ex2)."""
    return r.call("llvm.nvvm.ex2.approx.f32", kind, f"{kind} {x}")


def _ldexp(r: Renderer, kind: str, x: str, n: str) -> str:
    return ldexp_vector(r, kind, 1, x, n)


PTX_ARITHMETIC: Final[dict[Op, Arithmetic]] = {
    **ARITHMETIC,
    ops.EXP2: _in_lanes(_exp2),
    ops.LDEXP: _in_lanes(_ldexp),
}
