"""PTX arithmetic: the ops whose instruction is not LLVM's general intrinsic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from porism.backends.llvm.llvm_arithmetic import ARITHMETIC, Arithmetic
from porism.backends.llvm.llvm_types import type_of
from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op

if TYPE_CHECKING:
    from porism.backends.llvm.llvm_renderer import Renderer


def _in_lanes(scalar: Callable[[Renderer, str], str]) -> Arithmetic:
    """Return the writer of an op that has a scalar instruction alone."""

    def write(r: Renderer, node: UOp, lane: DType) -> str:
        value = r.value(node.src[0])
        if node.dtype.count == 1:
            return scalar(r, f"{type_of(lane)} {value}")
        kind, vector = type_of(node.dtype), "poison"
        for k in range(node.dtype.count):
            part = r.emit(f"extractelement {kind} {value}, i32 {k}")
            result = scalar(r, f"{type_of(lane)} {part}")
            vector = r.emit(f"insertelement {kind} {vector}, {type_of(lane)} {result}, i32 {k}")
        return vector

    return write


def _exp2(r: Renderer, x: str) -> str:
    """Write `ex2.approx`: at most 2 ulp wrong, also for subnormal numbers (PTX ISA, ex2)."""
    return r.call("llvm.nvvm.ex2.approx.f32", "float", x)


PTX_ARITHMETIC: Final[dict[Op, Arithmetic]] = {**ARITHMETIC, ops.EXP2: _in_lanes(_exp2)}
