"""Matrix instructions: the `mma.sync` of each tensor core that a warp executes together.

The registers of a thread are the words of its fragments (`porism.ir.fragments`), in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from porism.backends.llvm.llvm_types import type_of
from porism.base.errors import PorismError
from porism.ir.node import UOp
from porism.ir.text.expression import show

if TYPE_CHECKING:
    from porism.backends.llvm.llvm_renderer import Renderer

Shape = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Mma:
    """An intrinsic of LLVM for a matrix instruction, and the LLVM types of its registers."""

    name: str
    factor: str
    """The type of a register of a and b."""
    total: str
    """The type of a register of c and of the result."""


_MMA: Final[Mapping[tuple[Shape, str, str], Mma]] = MappingProxyType(
    {
        ((16, 8, 16), "f16", "f32"): Mma("m16n8k16.row.col.f32.f32", "<2 x half>", "float"),
        ((16, 8, 16), "f16", "f16"): Mma("m16n8k16.row.col.f16.f16", "<2 x half>", "<2 x half>"),
        ((16, 8, 16), "bf16", "f32"): Mma("m16n8k16.row.col.bf16", "i32", "float"),
        ((16, 8, 32), "i8", "i32"): Mma("m16n8k32.row.col.s8", "i32", "i32"),
        ((16, 8, 32), "fp8e4m3", "f32"): Mma("m16n8k32.row.col.f32.e4m3.e4m3.f32", "i32", "float"),
        ((16, 8, 32), "fp8e5m2", "f32"): Mma("m16n8k32.row.col.f32.e5m2.e5m2.f32", "i32", "float"),
        ((8, 8, 4), "f64", "f64"): Mma("m8n8k4.row.col.f64", "double", "double"),
    }
)
"""By (m, n, k), the type of the factors, and that of the sums."""


def write_product(r: Renderer, node: UOp) -> str:
    """Write a WMMA of a warp; return the name of its result, the fragment as a vector."""
    left, right, total = node.src
    shape = node.arg[1]
    mma = _MMA.get((shape, left.dtype.element.name, node.dtype.element.name))
    if mma is None:
        raise PorismError(
            f"no matrix instruction is known for {node.arg[0]}",
            where=show(node, limit=200),
            why="the target lists a tensor core that the renderer does not have",
        )
    arguments = [
        *_words(r, left, mma.factor),
        *_words(r, right, mma.factor),
        *_words(r, total, mma.total),
    ]
    count = len(_words_of(total, mma.total))
    result = "{ " + ", ".join([mma.total] * count) + " }"
    found = r.call(f"llvm.nvvm.mma.{mma.name}", result, *arguments)
    parts = [r.emit(f"extractvalue {result} {found}, {k}") for k in range(count)]
    return _joined(r, parts, node, mma.total)


def _words_of(node: UOp, kind: str) -> range:
    """Return the numbers of the registers of a fragment."""
    bits = {"<2 x half>": 32, "i32": 32, "float": 32, "double": 64}[kind]
    return range(node.dtype.count * node.dtype.element.bits // bits)


def _words(r: Renderer, node: UOp, kind: str) -> list[str]:
    """Return the registers of a fragment, each with its type."""
    vector, lane = type_of(node.dtype), type_of(node.dtype.element)
    words = _words_of(node, kind)
    if len(words) == node.dtype.count:
        if node.dtype.count == 1:
            return [f"{kind} {r.value(node)}"]
        return [
            f"{kind} " + r.emit(f"extractelement {vector} {r.value(node)}, i32 {k}") for k in words
        ]
    each = node.dtype.count // len(words)
    parts = [
        r.shuffle(f"{vector} {r.value(node)}", f"{vector} poison", range(k * each, (k + 1) * each))
        for k in words
    ]
    part_kind = f"<{each} x {lane}>"
    if part_kind == kind:
        return [f"{kind} {part}" for part in parts]
    return [f"{kind} " + r.emit(f"bitcast {part_kind} {part} to {kind}") for part in parts]


def _joined(r: Renderer, parts: list[str], node: UOp, kind: str) -> str:
    """Return registers of the result as one vector."""
    vector, lane = type_of(node.dtype), type_of(node.dtype.element)
    whole, position = "poison", 0
    for part in parts:
        lanes = [part]
        if kind != lane:
            lanes = [r.emit(f"extractelement {kind} {part}, i32 {k}") for k in range(2)]
        for value in lanes:
            whole = r.emit(f"insertelement {vector} {whole}, {lane} {value}, i32 {position}")
            position += 1
    return whole
