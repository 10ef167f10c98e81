"""Dialect: what differs between C and its relatives.

The renderer asks a dialect for the names of types, for qualifiers, and for all that a plain C
program does not have: thread indices, memory of a block, barriers. Another dialect overrides what
it has otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from porism.base.dtypes import DType, Kind, boolean
from porism.base.errors import PorismError
from porism.ir.node import UOp
from porism.ir.text.expression import show

_SCALARS: Final = {
    "bool": "bool",
    "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "f32": "float", "f64": "double",
    "f16": "uint16_t", "bf16": "uint16_t", "fp8e4m3": "uint8_t", "fp8e5m2": "uint8_t",
}  # fmt: skip


@dataclass(frozen=True)
class Dialect:
    """C99, with vectors as gcc and clang have them."""

    name: str = "C"
    scalars: Mapping[str, str] = field(default_factory=lambda: dict(_SCALARS))
    """The type of a scalar; small floats are held as their bits."""
    headers: tuple[str, ...] = ("math.h", "stdbool.h", "stdint.h", "string.h")
    entry: str = "void"
    """What stands before the name of a kernel."""
    helper: str = "static inline"
    """What stands before a small function that kernels call."""
    restrict: str = "restrict"
    local: str = ""
    """What stands before memory that the threads of a block share."""
    vector_arithmetic: bool = True
    """Whether + and its like are there for vectors; else they are written lane by lane."""
    independent: str = "INDEPENDENT"
    """What is said of a loop whose iterations do not depend on each other."""
    prelude: str = (
        "#if defined(__GNUC__) && !defined(__clang__)\n"
        '#define INDEPENDENT _Pragma("GCC ivdep")\n'
        "#else\n"
        "#define INDEPENDENT\n"
        "#endif\n\n"
        "/* a comparison may be decided by the types alone */\n"
        '#pragma GCC diagnostic ignored "-Wtype-limits"\n'
        '#pragma GCC diagnostic ignored "-Wtautological-compare"\n'
    )

    def scalar(self, dtype: DType) -> str:
        """The type of a lane, as a value."""
        return self.scalars[dtype.scalar.name]

    def kept(self, dtype: DType) -> str:
        """The type of a lane in memory, where a bool takes a byte."""
        return self.scalars["u8"] if dtype.scalar is boolean else self.scalar(dtype)

    def vector(self, name: str, lane: str, size: int, count: int) -> str:
        """The definition of a vector type; it may lie anywhere that an element may."""
        return (
            f"typedef {lane} {name} "
            f"__attribute__((vector_size({size * count}), aligned({size}), may_alias));"
        )

    def view(self, name: str, lane: str) -> str:
        """The definition of a scalar type through which memory of another type is read."""
        return f"typedef {lane} {name} __attribute__((may_alias));"

    def aligned(self, size: int) -> str:
        """What stands after the name of an array, to place it in memory."""
        return f" __attribute__((aligned({size})))"

    def special(self, node: UOp) -> str:
        """The index of a block or a thread."""
        raise self.missing(node)

    def barrier(self, node: UOp) -> str:
        """A statement at which the threads of a block wait for each other."""
        raise self.missing(node)

    def missing(self, node: UOp) -> PorismError:
        return PorismError(
            f"{node.op.name} of {node.dtype} has no form in {self.name}",
            where=show(node, limit=200),
            why="it should have been lowered before",
        )


C99: Final = Dialect()


def vector_lanes(count: int) -> int:
    """The lanes of the vector type that holds so many values: a power of two."""
    return 1 << (count - 1).bit_length()


def is_bits(dtype: DType) -> bool:
    """A float that is held as its bits."""
    return dtype.kind is Kind.FLOAT and dtype.bits < 32
