"""C dialect: what differs between C and related languages.

The renderer asks a dialect for the names of types, for qualifiers, and for what plain C does not
have: thread indices, shared memory, barriers. Another dialect overrides what differs.
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
    """The C type of each scalar type; small floats are held as their bits."""
    headers: tuple[str, ...] = ("math.h", "stdbool.h", "stdint.h", "string.h")
    entry: str = "void"
    """The return type and qualifiers of a kernel."""
    helper: str = "static inline"
    """The qualifiers of a helper function that kernels call."""
    restrict: str = "restrict"
    local: str = ""
    """The qualifier of memory that the threads of a block share."""
    vector_arithmetic: bool = True
    """Whether operators such as + apply to vectors; else they are written lane by lane."""
    as_written: str = "AS_WRITTEN"
    """What a loop begins with: vectors are in the code already, and gcc is not to look for more.
    Its vectorizer has read other elements than those of computed indices (gcc 12.2, -O2)."""
    prelude: str = (
        "#if defined(__GNUC__) && !defined(__clang__)\n"
        '#define AS_WRITTEN __asm__ volatile ("");\n'
        "#else\n"
        "#define AS_WRITTEN\n"
        "#endif\n\n"
        "/* a comparison may be decided by the types alone */\n"
        '#pragma GCC diagnostic ignored "-Wtype-limits"\n'
        '#pragma GCC diagnostic ignored "-Wtautological-compare"\n'
    )

    def scalar(self, dtype: DType) -> str:
        """Return the type of a lane as a value."""
        return self.scalars[dtype.scalar.name]

    def memory_type(self, dtype: DType) -> str:
        """Return the type of a lane in memory, where a bool takes a byte."""
        return self.scalars["u8"] if dtype.scalar is boolean else self.scalar(dtype)

    def vector(self, name: str, lane: str, size: int, count: int) -> str:
        """Return the definition of a vector type that is aligned like one element."""
        return (
            f"typedef {lane} {name} "
            f"__attribute__((vector_size({size * count}), aligned({size}), may_alias));"
        )

    def view(self, name: str, lane: str) -> str:
        """Return the definition of a scalar type that may alias memory of another type."""
        return f"typedef {lane} {name} __attribute__((may_alias));"

    def aligned(self, size: int) -> str:
        """Return the alignment attribute of an array, for `size` bytes."""
        return f" __attribute__((aligned({size})))"

    def special(self, node: UOp) -> str:
        """Return the expression of the index of a block or a thread."""
        raise self.missing(node)

    def barrier(self, node: UOp) -> str:
        """Return the barrier statement of the threads of a block."""
        raise self.missing(node)

    def missing(self, node: UOp) -> PorismError:
        """Return the error for a node that the dialect cannot express."""
        return PorismError(
            f"{node.op.name} of {node.dtype} has no form in {self.name}",
            where=show(node, limit=200),
            why="it should have been lowered before",
        )


C99: Final = Dialect()


def vector_lanes(count: int) -> int:
    """Return the lanes of the vector type that holds `count` values: a power of two."""
    return 1 << (count - 1).bit_length()


def is_held_as_bits(dtype: DType) -> bool:
    """Return whether a type is a small float, held as an integer with its bits."""
    return dtype.kind is Kind.FLOAT and dtype.bits < 32
