"""LLVM writer: the lines of a function in LLVM IR, and the names of its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from porism.backends.llvm.llvm_types import type_of
from porism.ir.node import UOp

ALIGNMENT: Final = 64
"""Bytes that local buffers are aligned to: a cache line."""


class Writer:
    """Collects the lines of a function: the entry block, and the body."""

    def __init__(self, instructions: Sequence[UOp]) -> None:
        self.instructions = instructions
        self.values: dict[UOp, str] = {}
        self.entry: list[str] = []
        self.body: list[str] = []
        self.declared: dict[str, None] = {}
        self.count = 0
        self.block = "entry"
        self.dummies: dict[str, str] = {}

    def fresh(self) -> str:
        self.count += 1
        return f"%x{self.count}"

    def emit(self, text: str) -> str:
        """Write an instruction that defines a value; return its name."""
        name = self.fresh()
        self.body.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        self.body.append(f"  {text}")

    def reserve_line(self) -> int:
        """Reserve a line to be written later; return its number."""
        self.body.append("")
        return len(self.body) - 1

    def value(self, node: UOp) -> str:
        return self.values[node]

    def typed(self, node: UOp) -> str:
        return f"{type_of(node.dtype)} {self.value(node)}"

    def call(self, name: str, result: str, *arguments: str, flags: str = "") -> str:
        """Write a call of an intrinsic with fast-math flags; return the name of its result."""
        types = ", ".join(_split_type(a) for a in arguments)
        self.declared[f"declare {result} @{name}({types})"] = None
        text = f"call {flags}{result} @{name}({', '.join(arguments)})"
        if result == "void":
            self.do(text)
            return ""
        return self.emit(text)

    def allocate(self, text: str) -> str:
        name = self.fresh()
        self.entry.append(f"  {name} = alloca {text}")
        return name

    def dummy(self, memory: str) -> str:
        """Return the address of stack memory that may always be read and written."""
        if memory not in self.dummies:
            self.dummies[memory] = self.allocate(f"{memory}, align {ALIGNMENT}")
        return self.dummies[memory]

    def label(self, name: str) -> None:
        self.body.append(f"{name}:")
        self.block = name

    def splat(self, scalar: str, value: str, width: int) -> str:
        vector = f"<{width} x {scalar}>"
        inserted = self.emit(f"insertelement {vector} poison, {scalar} {value}, i32 0")
        zeros = f"<{width} x i32> zeroinitializer"
        return self.emit(f"shufflevector {vector} {inserted}, {vector} poison, {zeros}")

    def shuffle(self, first: str, second: str, lanes: Sequence[int]) -> str:
        numbers = ", ".join(f"i32 {lane}" for lane in lanes)
        mask = f"<{len(lanes)} x i32> <{numbers}>"
        return self.emit(f"shufflevector {first}, {second}, {mask}")


def _split_type(argument: str) -> str:
    """Return the type of an argument that is written as `type [align n] value`."""
    if argument.startswith("<"):
        end = argument.index(">") + 1
        return argument[:end]
    return argument.split()[0]
