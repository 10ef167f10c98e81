"""Size expressions: sizes as torch writes them, computed with ints or as symbolic sizes.

Torch traces a size that may change as an expression of sympy over symbols. Here the same arithmetic
is done with whatever stands for the symbols: ints in a call, bound variables in a trace. Classes
are told by their names, so that neither sympy nor torch is imported.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from porism.ir.node import UOp


class UnknownSizeError(Exception):
    """A size whose expression has an operation that is not known here, or an unknown symbol."""


def evaluate_expression(expression: Any, symbols: Mapping[Any, Any]) -> Any:
    """Return the value of an expression, an int or a node, for values of its symbols."""
    if isinstance(expression, int):
        return expression
    if expression.is_Symbol:
        try:
            return symbols[expression]
        except KeyError:
            raise UnknownSizeError(f"the size {expression} is not known") from None
    if expression.is_Integer:
        return int(expression)
    name = type(expression).__name__
    if name == "Mul":
        return _product(expression.args, symbols)
    if name == "Pow":
        base, exponent = expression.args
        if not (exponent.is_Integer and int(exponent) > 0):
            raise UnknownSizeError(f"the power {expression}")
        factors = [evaluate_expression(base, symbols)] * int(exponent)
        return functools.reduce(operator.mul, factors)
    if name == "ModularIndexing":
        base, divisor, modulus = (evaluate_expression(a, symbols) for a in expression.args)
        return base // divisor % modulus
    meaning = _MEANINGS.get(name)
    if meaning is None:
        return _evaluated_by_sympy(expression, symbols)
    return functools.reduce(meaning, (evaluate_expression(a, symbols) for a in expression.args))


def _evaluated_by_sympy(expression: Any, symbols: Mapping[Any, Any]) -> int:
    """Return the value of an expression for ints; others cannot be computed with nodes."""
    values = {symbol: symbols.get(symbol) for symbol in expression.free_symbols}
    if all(isinstance(value, int) for value in values.values()):
        found = expression.subs(values)
        if found.is_Integer:
            return int(found)
    raise UnknownSizeError(f"{type(expression).__name__} in the size {expression}")


def symbols_of(sizes: Iterable[Any]) -> set[Any]:
    """Return the symbols in sizes, each an int or an expression."""
    return {s for size in sizes if not isinstance(size, int) for s in size.free_symbols}


def _product(factors: Iterable[Any], symbols: Mapping[Any, Any]) -> Any:
    """Return a product; by a fraction it is divided last, since a size is whole."""
    total: Any = 1
    divisor = 1
    for factor in factors:
        if factor.is_Rational and not factor.is_Integer:
            divisor *= int(factor.q)
            value: Any = int(factor.p)
        else:
            value = evaluate_expression(factor, symbols)
        total = value if isinstance(total, int) and total == 1 else total * value
    return total if divisor == 1 else total // divisor


def _largest(a: Any, b: Any) -> Any:
    if isinstance(a, UOp):
        return a.maximum(b)
    return b.maximum(a) if isinstance(b, UOp) else max(a, b)


def _smallest(a: Any, b: Any) -> Any:
    if isinstance(a, UOp):
        return a.minimum(b)
    return b.minimum(a) if isinstance(b, UOp) else min(a, b)


_MEANINGS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "Add": operator.add,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Max": _largest,
    "Min": _smallest,
}
"""Operations by the names of their classes."""
