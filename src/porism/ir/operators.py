"""Operators: the Python operators of a node, `x + 1` for `ADD(x, 1)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from porism.ir import ops
from porism.ir.ops import Op

if TYPE_CHECKING:
    from porism.ir.node import UOp

    Operator = Callable[[UOp, Any], UOp]


class Operators:
    """The types of the operators that `install` adds to the node class."""

    __slots__ = ()

    __add__: Operator
    __sub__: Operator
    __mul__: Operator
    __truediv__: Operator
    __floordiv__: Operator
    __mod__: Operator
    __pow__: Operator
    __and__: Operator
    __or__: Operator
    __xor__: Operator
    __lshift__: Operator
    __rshift__: Operator
    __lt__: Operator
    __le__: Operator
    __gt__: Operator
    __ge__: Operator
    __radd__: Operator
    __rsub__: Operator
    __rmul__: Operator
    __rtruediv__: Operator
    __rfloordiv__: Operator
    __rmod__: Operator
    __rpow__: Operator
    __rand__: Operator
    __ror__: Operator
    __rxor__: Operator
    __rlshift__: Operator
    __rrshift__: Operator


OPERATORS: Final = {
    "add": ops.ADD,
    "sub": ops.SUB,
    "mul": ops.MUL,
    "truediv": ops.FDIV,
    "floordiv": ops.IDIV,
    "mod": ops.MOD,
    "pow": ops.POW,
    "and": ops.AND,
    "or": ops.OR,
    "xor": ops.XOR,
    "lshift": ops.SHL,
    "rshift": ops.SHR,
    "lt": ops.LT,
    "le": ops.LE,
    "gt": ops.GT,
    "ge": ops.GE,
}


def install(node: type, binary: Callable[[Op, UOp, UOp], UOp], const: Callable[..., UOp]) -> None:
    """Add the operators to the node class; each tries the intern table before it makes a node."""
    for name, op in OPERATORS.items():
        setattr(node, f"__{name}__", _operator(node, op, binary, const))
        if op.group is ops.BINARY:
            setattr(node, f"__r{name}__", _reflected(op, const))


def _operator(
    node: type, op: Op, binary: Callable[[Op, UOp, UOp], UOp], const: Callable[..., UOp]
) -> Operator:
    nodes = op.nodes

    def operator(self: UOp, other: Any) -> UOp:
        if other.__class__ is not node:
            other = const(self.dtype, other)
        interned = nodes.get((self, other))
        return interned if interned is not None else binary(op, self, other)

    return operator


def _reflected(op: Op, const: Callable[..., UOp]) -> Operator:
    def operator(self: UOp, other: Any) -> UOp:
        return op(const(self.dtype, other), self)

    return operator
