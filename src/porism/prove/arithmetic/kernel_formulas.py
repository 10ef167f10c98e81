"""Kernel formulas: indices and conditions of kernels as solver formulas.

Integers are unbounded, with division axiomatized. Fixed-width integers are unbounded as well; that
none overflows is proved first. The contents of a buffer are an uninterpreted function of the
address, within the limits of the element type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3

from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.prove.arithmetic.op_meanings import Unsupported
from porism.prove.arithmetic.solver import Answer, ask, value_in
from porism.prove.arithmetic.solver_booleans import Booleans
from porism.prove.arithmetic.unbounded_integers import Integers

Symbol = tuple[UOp, int]


class Formulas:
    """The domain of solver formulas: see `porism.verification.accesses.index_evaluation.Domain`."""

    def __init__(self) -> None:
        self.integers = Integers()
        self.truths = Booleans()
        self.symbols: dict[Symbol, Any] = {}
        self.known: list[Any] = []
        """Constraints on symbols and elements."""
        self.no_overflow: list[Any] = []
        """Conditions under which no fixed-width integer overflows."""
        self.data = False
        """Whether a formula depends on elements of buffers."""
        self.no_data_overflow: list[Any] = []
        """Conditions under which no integer computed from elements overflows."""

    def constant(self, dtype: DType, value: bool | int | float) -> Any:
        if dtype.kind is Kind.BOOL:
            return z3.BoolVal(bool(value))
        if dtype.is_float:
            raise Unsupported("a float in an index")
        return z3.IntVal(int(value))

    def symbol(self, node: UOp, copy: int, low: int, end: Any) -> Any:
        symbol = self.symbols.get((node, copy))
        if symbol is None:
            symbol = self.symbols[node, copy] = z3.Int(f"symbol {len(self.symbols)}")
            self.known += [symbol >= low, symbol < end]
        return symbol

    def element(self, buffer: tuple[str, Any], dtype: DType, address: Any) -> Any:
        self.data = True
        held = z3.Function(f"{buffer[0]} {buffer[1]}", z3.IntSort(), z3.IntSort())(address)
        if dtype.kind is Kind.BOOL:
            return held != 0
        self.known += [held >= int(dtype.min), held <= int(dtype.max)]
        return held

    def cast(self, value: Any, source: DType, target: DType) -> Any:
        if source.is_float or target.is_float:
            raise Unsupported("a float in an index")
        if source.kind is Kind.BOOL:
            return value if target.kind is Kind.BOOL else z3.If(value, 1, 0)
        if target.kind is Kind.BOOL:
            return value != 0
        return self._in_type(value, target)

    def apply(self, op: Op, dtype: DType, *operands: Any) -> Any:
        if dtype.is_float:
            raise Unsupported("a float in an index")
        if op is ops.WHERE:
            return z3.If(*operands)
        if dtype.kind is Kind.BOOL:
            return self.truths.apply(op, *operands)
        if op is ops.AND:
            return self._masked(*operands)
        if op in (ops.OR, ops.XOR):
            raise Unsupported("bits of an index")
        result = self.integers.apply(op, *operands)
        return result if op.group is ops.COMPARISON else self._in_type(result, dtype)

    def _masked(self, a: Any, b: Any) -> Any:
        """Return a number masked by 2^k - 1, as a remainder; other masks are unsupported."""
        for value, mask in ((a, b), (b, a)):
            if z3.is_int_value(mask) and (mask.as_long() & (mask.as_long() + 1)) == 0:
                return self.integers.apply(ops.MOD, value, z3.IntVal(mask.as_long() + 1))
        raise Unsupported("bits of an index")

    def _in_type(self, value: Any, dtype: DType) -> Any:
        """Return a value of a fixed-width type, with the condition that it does not overflow."""
        if dtype.kind is Kind.INDEX or z3.is_int_value(value):
            return value
        fits = [value >= int(dtype.min), value <= int(dtype.max)]
        if not self.data:
            self.no_overflow += fits
            return value
        # Elements may have any value and overflow: to an unknown within the limits of the type.
        self.no_data_overflow += fits
        wrapped = z3.Function(f"wrapped to {dtype}", z3.IntSort(), z3.IntSort())(value)
        self.known += [wrapped >= int(dtype.min), wrapped <= int(dtype.max)]
        return z3.If(z3.And(*fits), value, wrapped)


def decide(
    make: Callable[[Formulas], Any], milliseconds: int, *, any_data: bool = False
) -> tuple[bool | None, dict[Symbol, int], bool]:
    """Return whether a condition holds for all values, a counterexample, and if it reads data.

    The answer is None if the solver does not know. A counterexample that depends on the contents
    of buffers counts only with `any_data`.
    """
    domain = Formulas()
    try:
        goal = make(domain)
    except Unsupported:
        return None, {}, domain.data
    known = [*domain.known, *domain.integers.constraints, *domain.truths.constraints]
    if domain.no_overflow:
        wrong = z3.Not(z3.And(*domain.no_overflow))
        if ask([*known, wrong], milliseconds=milliseconds)[0] is not Answer.NO:
            return None, {}, domain.data
    answer, model = ask([*known, z3.Not(goal)], milliseconds=milliseconds)
    if answer is Answer.NO:
        return True, {}, domain.data
    if answer is Answer.YES and domain.data and any_data and domain.no_data_overflow:
        answer, model = ask(
            [*known, *domain.no_data_overflow, z3.Not(goal)], milliseconds=milliseconds
        )
    if answer is Answer.YES and domain.integers.faithful and (any_data or not domain.data):
        point = {s: int(value_in(model, value)) for s, value in domain.symbols.items()}
        return False, point, domain.data
    return None, {}, domain.data
