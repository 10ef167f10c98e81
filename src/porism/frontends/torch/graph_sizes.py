"""Graph sizes: the symbolic sizes of a graph of torch, and their values in a call.

The symbols of a graph are read off its arguments: a symbolic number, or the size of an axis that is
one. Each becomes a variable, whose bounds leave room above the sizes of the first call; what
exceeds them is traced once more, with wider ones. A symbol is *static*, with a program for each of
its values, if torch lets it be 0 or 1, or if some operator cannot be traced with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.fx import Node

from porism.frontends.torch.node_tracing import expression_of
from porism.frontends.torch.size_expressions import symbols_of
from porism.ir.node import UOp
from porism.tensor.symbolic_sizes import Variable

LEAST_BOUND: Final = 4096
"""The least upper bound of a variable, chosen by hand: most sizes of models are below it."""

HEADROOM: Final = 4
"""How many times the size of the first call a variable may become before it is traced again."""


ROWS: Final = 8
"""The least value of a variable, until a smaller one comes: register tiles have so many rows."""


@dataclass(slots=True, eq=False)
class CallSizes:
    """The values of the symbols in a call."""

    values: Mapping[Any, int]
    key: tuple[int, ...]
    """The values in the order of the symbols."""
    by_name: Mapping[str, int]
    """The values of the variables, by name."""


NO_SIZES: Final = CallSizes({}, (), {})


@dataclass(slots=True, eq=False)
class GraphSizes:
    """The symbols of a graph, where their values are found, and those that are variables."""

    sources: dict[Any, tuple[int, int]] = field(default_factory=dict)
    """Of each symbol the number of an argument and of an axis of it; -1 for a number itself."""
    variables: dict[Any, Variable] = field(default_factory=dict)
    version: int = 0
    """How often the variables have changed."""
    lows: dict[Any, int] = field(default_factory=dict)

    @staticmethod
    def of_graph(placeholders: Sequence[Node]) -> GraphSizes:
        """Return the symbols of a graph; all are static before the first call."""
        found = GraphSizes()
        for number, node in enumerate(placeholders):
            meta = node.meta.get("val")
            if isinstance(meta, torch.SymInt):
                found._add(meta, (number, -1))
            elif isinstance(meta, torch.Tensor):
                for axis, size in enumerate(meta.shape):
                    found._add(size, (number, axis))
        return found

    def _add(self, size: Any, source: tuple[int, int]) -> None:
        """Note where the value of a size is found, if it is a symbol alone."""
        expression = expression_of(size)
        if isinstance(expression, int) or not expression.is_Symbol:
            return
        if expression not in self.sources or self.sources[expression][1] >= 0 > source[1]:
            self.sources[expression] = source
        low = size.node.shape_env.var_to_range[expression].lower
        if low >= 2:
            self.lows[expression] = int(low)

    def of_call(self, args: Sequence[Any]) -> CallSizes:
        """Return the values of the symbols for some arguments; bounds are widened for them."""
        values = {
            symbol: int(args[number]) if axis < 0 else args[number].shape[axis]
            for symbol, (number, axis) in self.sources.items()
        }
        if not self.variables and not self.version:
            self.variables = {s: self._variable(s, values[s]) for s in self.lows}
            self.version = 1
        for symbol, variable in self.variables.items():
            if not variable.low <= values[symbol] <= variable.high:
                self.variables[symbol] = self._variable(symbol, values[symbol])
                self.version += 1
        names = {v.name: values[symbol] for symbol, v in self.variables.items()}
        return CallSizes(values, tuple(values.values()), names)

    def _variable(self, symbol: Any, value: int) -> Variable:
        known = self.variables.get(symbol)
        low = max(self.lows[symbol], ROWS)
        if value < low or (known is not None and known.low < low):
            low = self.lows[symbol]
        high = max(LEAST_BOUND, 1 << (HEADROOM * value - 1).bit_length())
        if known is not None:
            high = max(high, known.high)
        return Variable(str(symbol), low, high)

    def make_static(self, symbols: Sequence[Any]) -> None:
        """Let each value of some symbols have programs of its own."""
        for symbol in symbols:
            self.variables.pop(symbol, None)
        self.version += 1

    def bound(self, values: Mapping[Any, int]) -> dict[Any, int | UOp]:
        """Return what stands for each symbol in a trace: a bound variable, or its value."""
        return {
            symbol: self.variables[symbol].bind(value) if symbol in self.variables else value
            for symbol, value in values.items()
        }

    def knows(self, sizes: Sequence[Any]) -> bool:
        """Whether all symbols in sizes, ints and expressions, have values in a call."""
        return symbols_of(sizes) <= self.sources.keys()
