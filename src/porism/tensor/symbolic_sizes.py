"""Symbolic sizes: a variable with bounds, which gets a value for each computation.

The graph of a tensor sliced as `x[:n]` is the same for every value of n, so that one compiled
kernel serves all values.
"""

from __future__ import annotations

from typing import NoReturn

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor.shapes import OutOfRange, as_int, shape_error
from porism.tensor.user_line import users_line


class Variable:
    """An integer with inclusive bounds, used as a size or an index once it is bound.

    >>> n = Variable("n", 1, 8)
    >>> n, n.bind(5)
    (Variable('n', 1, 8), n=5)
    """

    __slots__ = ("high", "low", "name")

    def __init__(self, name: str, low: int, high: int) -> None:
        self.name = name
        self.low, self.high = as_int(low, "low"), as_int(high, "high")
        if self.low > self.high or self.low < 0:
            raise OutOfRange(
                f"the variable {name} from {low} to {high}",
                where=users_line(),
                why="a size is not negative, and the bounds contain a value",
                fix="give bounds with 0 <= low <= high",
            )

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.low}, {self.high})"

    def __index__(self) -> NoReturn:
        raise shape_error(
            f"the variable {self.name} is used as a number",
            "it has no value yet",
            f"give it one: {self.name}.bind(value)",
        )

    def bind(self, value: int) -> UOp:
        """Return the variable with a value, as shapes and slices take it."""
        number = as_int(value, "the value of a variable")
        if not self.low <= number <= self.high:
            raise OutOfRange(
                f"{self.name} = {number} is outside of its bounds",
                where=users_line(),
                why=f"it was declared from {self.low} to {self.high}, and graphs rely on that",
                fix="bind a value inside, or declare wider bounds",
            )
        variable = UOp.variable(self.name, self.low, self.high)
        return ops.BIND(variable, UOp.const(index, number))
