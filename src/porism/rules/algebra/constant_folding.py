"""Constant folding: an op on constants becomes a constant."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from porism.base.dtypes import DType, Kind, Theory, wrap
from porism.base.errors import EvaluationError
from porism.ir import ops
from porism.ir.facts import semantics
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.rewrite.rule import RuleSet, procedure

_ON_INTEGERS: Final[dict[Op, Callable[..., Any]]] = {
    ops.ADD: operator.add,
    ops.SUB: operator.sub,
    ops.MUL: operator.mul,
    ops.IDIV: operator.floordiv,
    ops.MOD: operator.mod,
    ops.NEG: operator.neg,
    ops.AND: operator.and_,
    ops.OR: operator.or_,
    ops.XOR: operator.xor,
    ops.MAX: max,
    ops.MIN: min,
    ops.LT: operator.lt,
    ops.LE: operator.le,
    ops.GT: operator.gt,
    ops.GE: operator.ge,
    ops.EQ: operator.eq,
    ops.NE: operator.ne,
}
"""Ops that Python's own integers compute; the result then wraps to its type."""

_DIVISIONS: Final = (ops.IDIV, ops.MOD)

LARGEST_BITS: Final = 1 << 20
"""Bits of the largest `index` constant that folding computes; chosen by hand."""

FOLDED: Final = (*(op for op in ops.table() if op.elementwise), ops.CAST)


def _all_constant(signature: tuple[Op | None, ...]) -> bool:
    return all(op is ops.CONST or op is ops.VCONST for op in signature)


@procedure(
    "fold",
    FOLDED,
    seeds="002.1.1 002.1.2 002.1.3 002.1.4 002.5.1 002.6.1 002.10.2",
    on_sources=True,
    only=_all_constant,
)
def fold(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Compute an elementwise op on constants, unless it is undefined for them."""
    if op is ops.CAST:
        return _fold_cast(dtype, src[0])
    if op in _DIVISIONS and dtype.count == 1 and src[1].arg == 0:
        return None if dtype.kind is Kind.INDEX else UOp.const(dtype, 0)
    if dtype.count == 1 and src[0].dtype.is_integer and op in _ON_INTEGERS:
        value = _ON_INTEGERS[op](*[s.arg for s in src])
        if dtype.bits > 1:
            value = wrap(dtype, value)
        return _constant_unless_huge(dtype, value)
    if src[0].dtype.is_integer and op in _ON_INTEGERS and op not in _DIVISIONS:
        return _fold_lanes(op, dtype, src)
    return _fold_by_evaluation(op, dtype, src)


def _fold_lanes(op: Op, dtype: DType, src: tuple[UOp, ...]) -> UOp:
    """Fold an integer op on vectors of constants, lane by lane."""
    lanes = [s.arg if s.op is ops.VCONST else (s.arg,) * dtype.count for s in src]
    values = list(map(_ON_INTEGERS[op], *lanes))
    if dtype.bits > 1:
        values = [wrap(dtype.element, value) for value in values]
    if values.count(values[0]) == len(values):
        return UOp.const(dtype, values[0])
    return ops.VCONST(dtype=dtype, arg=tuple(values))


def _fold_cast(dtype: DType, source: UOp) -> UOp | None:
    """Fold a cast of a constant: integers wrap, floats saturate, NaN becomes 0."""
    values = []
    for lane in range(dtype.count):
        array = semantics.array_of(source.dtype.element, _lane(source, lane))
        values.append(_scalar(semantics.cast(source.dtype, dtype, array)))
    return _constant(dtype, values)


def _fold_by_evaluation(op: Op, dtype: DType, src: tuple[UOp, ...]) -> UOp | None:
    """Fold any op on any type, lane by lane, by the meaning that the evaluator uses."""
    assert op.meaning is not None
    lanes = max(s.dtype.count for s in src)
    operand = src[1 if op is ops.WHERE else 0].dtype.element
    if op in (ops.SHL, ops.POW) and operand.kind is Kind.INDEX and _may_be_huge(src):
        return None
    values = []
    for lane in range(lanes):
        arrays = [semantics.array_of(s.dtype.element, _lane(s, lane)) for s in src]
        try:
            values.append(_scalar(op.meaning(operand, *_as_python_integers(operand, arrays))))
        except (EvaluationError, OverflowError):
            return None
    return _constant(dtype, values)


def _constant(dtype: DType, values: list[Any]) -> UOp | None:
    if len({value if isinstance(value, int) else repr(value) for value in values}) == 1:
        return _constant_unless_huge(dtype, values[0])
    return ops.VCONST(dtype=dtype, arg=tuple(values))


def _as_python_integers(operand: DType, arrays: list[Any]) -> list[Any]:
    """Return `index` operands as arrays of Python integers, which are exact at any size."""
    if operand.kind is not Kind.INDEX:
        return arrays
    return [a if a.dtype == np.bool_ else a.astype(object) for a in arrays]


def _scalar(array: Any) -> bool | int | float:
    value = np.asarray(array)[()]
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (bool, int)) else float(value)


def _lane(node: UOp, lane: int) -> bool | int | float:
    value = node.arg[lane] if node.op is ops.VCONST else node.arg
    assert isinstance(value, (bool, int, float))
    return value


def _may_be_huge(src: tuple[UOp, ...]) -> bool:
    exponent = max(abs(int(_lane(src[1], i))) for i in range(src[1].dtype.count))
    base = max(int(_lane(src[0], i)).bit_length() for i in range(src[0].dtype.count))
    return exponent * max(base, 1) > LARGEST_BITS


def _constant_unless_huge(dtype: DType, value: Any) -> UOp | None:
    if isinstance(value, int) and value.bit_length() > LARGEST_BITS:
        return None
    return UOp.const(dtype, value)


FOLDING = RuleSet(
    "folding",
    theory=(Theory.INTEGERS, Theory.FIXED_WIDTH, Theory.FLOATS, Theory.BOOLEANS),
    rules=(fold,),
)
