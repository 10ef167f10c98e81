"""Formulas: indices and conditions of kernels as questions to the solver.

Integers are unbounded, with division stated and not computed. Words are too, and that no value of
theirs leaves its type is proved first. What a buffer holds is a function of the address of which
nothing is known but the limits of its type.
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
    """The world of formulas: see `porism.verification.accesses.index_evaluation.World`."""

    def __init__(self) -> None:
        self.integers = Integers()
        self.truths = Booleans()
        self.symbols: dict[Symbol, Any] = {}
        self.known: list[Any] = []
        """What holds of symbols and elements."""
        self.wanted: list[Any] = []
        """What must hold so that words do not wrap."""
        self.data = False
        """Whether elements of buffers were asked for."""
        self.fitting: list[Any] = []
        """What holds where data does not wrap."""

    def constant(self, dtype: DType, value: bool | int | float) -> Any:
        if dtype.kind is Kind.BOOL:
            return z3.BoolVal(bool(value))
        if dtype.is_float:
            raise Unsupported("a float in an index")
        return z3.IntVal(int(value))

    def symbol(self, node: UOp, copy: int, low: int, end: Any) -> Any:
        found = self.symbols.get((node, copy))
        if found is None:
            found = self.symbols[node, copy] = z3.Int(f"symbol {len(self.symbols)}")
            self.known += [found >= low, found < end]
        return found

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
        return self._kept(value, target)

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
        made = self.integers.apply(op, *operands)
        return made if op.group is ops.COMPARISON else self._kept(made, dtype)

    def _masked(self, a: Any, b: Any) -> Any:
        """The low bits of a number."""
        for value, mask in ((a, b), (b, a)):
            if z3.is_int_value(mask) and (mask.as_long() & (mask.as_long() + 1)) == 0:
                return self.integers.apply(ops.MOD, value, z3.IntVal(mask.as_long() + 1))
        raise Unsupported("bits of an index")

    def _kept(self, value: Any, dtype: DType) -> Any:
        if dtype.kind is Kind.INDEX or z3.is_int_value(value):
            return value
        fits = [value >= int(dtype.min), value <= int(dtype.max)]
        if not self.data:
            self.wanted += fits
            return value
        # Data may be anything, and wrap: to something of which only the limits are said.
        self.fitting += fits
        wrapped = z3.Function(f"wrapped to {dtype}", z3.IntSort(), z3.IntSort())(value)
        self.known += [wrapped >= int(dtype.min), wrapped <= int(dtype.max)]
        return z3.If(z3.And(*fits), value, wrapped)


def decide(
    make: Callable[[Formulas], Any], milliseconds: int, *, any_data: bool = False
) -> tuple[bool | None, dict[Symbol, int], bool]:
    """Decide whether a condition holds for all values; if not, return values for which it fails.

    None if the solver does not know. The last part says whether elements of buffers matter. With
    `any_data` values also count if it is some data with which the condition is false.
    """
    world = Formulas()
    try:
        goal = make(world)
    except Unsupported:
        return None, {}, world.data
    known = [*world.known, *world.integers.statements, *world.truths.statements]
    if world.wanted:
        wrong = z3.Not(z3.And(*world.wanted))
        if ask([*known, wrong], milliseconds=milliseconds)[0] is not Answer.NO:
            return None, {}, world.data
    answer, model = ask([*known, z3.Not(goal)], milliseconds=milliseconds)
    if answer is Answer.NO:
        return True, {}, world.data
    if answer is Answer.YES and world.data and any_data and world.fitting:
        answer, model = ask([*known, *world.fitting, z3.Not(goal)], milliseconds=milliseconds)
    if answer is Answer.YES and world.integers.faithful and (any_data or not world.data):
        point = {s: int(value_in(model, value)) for s, value in world.symbols.items()}
        return False, point, world.data
    return None, {}, world.data
