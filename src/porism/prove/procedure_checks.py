"""Checks of procedures: each procedure is compared with another source of truth.

A rule is proved from its declaration. A procedure is a function: the evaluator compares graphs
before and after it, on examples that the caller passes in. Folding of constants and lanes of
pointers have checks here, which need no examples. A procedure that has neither fails.
"""

from __future__ import annotations

import itertools
import math
import operator
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import DType, Kind, Scalar
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.prove.example_variations import Example
from porism.prove.procedure_trials import cases_of, try_procedure
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import Procedure, RuleSet

Check = Callable[[Procedure], Iterator[str]]
"""Yields for each case that was tried what is wrong with it, or an empty string."""

Checks = Mapping[str, tuple[str, Check]]
"""By the names of procedures: how each is established, in words, and the check that does it."""


@dataclass(frozen=True, slots=True)
class Examples:
    """What procedures are tried on; a source checkout has it in tests/examples."""

    graphs: Mapping[str, Callable[[], Iterator[Example]]]
    """By the names of procedures: graphs to be evaluated before and after."""
    checks: Checks
    """For procedures that need something else than the evaluator on a graph."""


NO_EXAMPLES: Final = Examples({}, {})


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of the check of a procedure."""

    name: str
    how: str
    cases: int
    seconds: float
    fault: str = ""
    """The first difference; empty if there is none."""

    @property
    def ok(self) -> bool:
        return not self.fault


def has_check(procedure: Procedure, examples: Examples) -> bool:
    """Whether there is a check of this procedure, here or among the examples."""
    return any(procedure.name in listed for listed in (BUILT_IN, examples.graphs, examples.checks))


def check(procedure: Procedure, examples: Examples = NO_EXAMPLES) -> CheckResult:
    """Try a procedure on its examples, or by the check that is listed for it."""
    began = time.perf_counter()
    name = procedure.name
    if name in examples.graphs:
        trial = try_procedure(procedure, cases_of(procedure, examples.graphs[name]()))
        fault = trial.fault or ("" if trial.fired else "it fires on none of its examples")
        seconds = time.perf_counter() - began
        return CheckResult(name, "by the evaluator", trial.tried, seconds, fault)
    listed = BUILT_IN.get(name) or examples.checks.get(name)
    if listed is None:
        return CheckResult(name, "", 0, 0.0, "it has no examples in tests/examples")
    how, cases = listed
    count, fault = 0, ""
    for fault in cases(procedure):
        count += 1
        if fault:
            break
    return CheckResult(name, how, count, time.perf_counter() - began, fault)


# -- folding ---------------------------------------------------------------------------------------


def _truncated(a: int, b: int) -> int:
    return int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b))


def _shifted_left(a: int, k: int, bits: int) -> int | None:
    if bits and not 0 <= k < bits:
        return 0
    return None if k < 0 else a << k


def _shifted_right(a: int, k: int, bits: int) -> int | None:
    if bits and not 0 <= k < bits:
        return -1 if a < 0 else 0
    return None if k < 0 else a >> k


_PYTHON: Final[dict[Op, Callable[..., Any]]] = {
    ops.NEG: operator.neg,
    ops.ADD: operator.add,
    ops.SUB: operator.sub,
    ops.MUL: operator.mul,
    ops.IDIV: operator.floordiv,
    ops.MOD: operator.mod,
    ops.CDIV: _truncated,
    ops.CMOD: lambda a, b: a - b * _truncated(a, b),
    ops.MAX: max,
    ops.MIN: min,
    ops.AND: operator.and_,
    ops.OR: operator.or_,
    ops.XOR: operator.xor,
    ops.NOT: lambda a: (not a) if isinstance(a, bool) else ~a,
    ops.LT: operator.lt,
    ops.LE: operator.le,
    ops.GT: operator.gt,
    ops.GE: operator.ge,
    ops.EQ: operator.eq,
    ops.NE: operator.ne,
    ops.MULACC: lambda a, b, c: a * b + c,
}
"""Python's own integers: the second source of truth."""

_DIVISIONS: Final = (ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD)
_ON_TRUTHS: Final = (ops.AND, ops.OR, ops.XOR, ops.NOT, ops.MAX, ops.MIN)

_NUMPY: Final[dict[Op, Callable[..., Any]]] = {
    ops.NEG: np.negative,
    ops.ADD: np.add,
    ops.SUB: np.subtract,
    ops.MUL: np.multiply,
    ops.FDIV: np.divide,
    ops.SQRT: np.sqrt,
    ops.MAX: np.maximum,
    ops.MIN: np.minimum,
    ops.TRUNC: np.trunc,
    ops.FLOOR: np.floor,
    ops.CEIL: np.ceil,
    ops.ROUND: np.rint,
    ops.LT: np.less,
    ops.LE: np.less_equal,
    ops.GT: np.greater,
    ops.GE: np.greater_equal,
    ops.EQ: np.equal,
    ops.NE: np.not_equal,
}
"""NumPy's floats, in their own precision."""

_INTEGERS: Final[dict[DType, tuple[Scalar, ...]]] = {
    dtypes.index: (-7, -2, -1, 0, 1, 2, 3, 12, 1 << 70),
    dtypes.i8: (-128, -127, -3, -1, 0, 1, 2, 7, 8, 127),
    dtypes.u8: (0, 1, 2, 3, 7, 8, 9, 128, 255),
    dtypes.i64: (-(1 << 63), -1, 0, 1, 3, (1 << 63) - 1),
    dtypes.boolean: (False, True),
}
_FLOATS: Final = (0.0, -0.0, 1.0, -1.0, 0.1, 2.5, -3.5, math.inf, -math.inf, math.nan, 1e-8, 6e4)


def expected(op: Op, dtype: DType, *values: Any) -> Scalar | None:
    """Return the result of an op on a type by Python's integers; None where it is undefined."""
    bits = dtype.bits if dtype.is_integer else 0
    if op in _DIVISIONS and values[1] == 0:
        return 0 if bits else None
    if op is ops.SHL or op is ops.SHR:
        shift = _shifted_left if op is ops.SHL else _shifted_right
        result = shift(values[0], values[1], bits)
    else:
        result = _PYTHON[op](*values)
    if result is None or op.group is ops.COMPARISON or dtype.kind is Kind.BOOL:
        return result
    low = int(dtype.min) if bits else 0
    return (int(result) - low) % (1 << bits) + low if bits else int(result)


def fold_cases(procedure: Procedure) -> Iterator[str]:
    """Yield differences between folding and Python's integers or NumPy's floats."""
    yield from _integer_fold_cases(procedure)
    yield from _float_fold_cases(procedure)


def _integer_fold_cases(procedure: Procedure) -> Iterator[str]:
    """Yield differences between folding integers or booleans and Python's integers."""
    for dtype, values in _INTEGERS.items():
        known = [*_PYTHON, ops.SHL, ops.SHR]
        if dtype.kind is Kind.BOOL:
            known = [op for op in known if op in _ON_TRUTHS or op.group is ops.COMPARISON]
        for op in known:
            for chosen in itertools.product(values[:: 2 if op.arity == 3 else 1], repeat=op.arity):
                if op is ops.SHL and abs(chosen[1]) > 1 << 30 and not dtype.bits:
                    continue  # too large to be computed, and so not folded
                yield _difference(procedure, op, dtype, chosen, expected(op, dtype, *chosen))


def _float_fold_cases(procedure: Procedure) -> Iterator[str]:
    """Yield differences between folding floats and NumPy's floats."""
    for dtype in (dtypes.f32, dtypes.f64):
        for op, function in _NUMPY.items():
            for floats in itertools.product(_FLOATS, repeat=op.arity):
                with np.errstate(all="ignore"):
                    exact = function(*[np.asarray(v).astype(dtype.numpy)[()] for v in floats])
                chosen = tuple(dtype.canonical(v) for v in floats)
                yield _difference(procedure, op, dtype, chosen, exact.item())


def _difference(
    procedure: Procedure, op: Op, dtype: DType, chosen: tuple[Any, ...], wanted: Scalar | None
) -> str:
    src = tuple(UOp.const(dtype, value) for value in chosen)
    result = dtype.mask if op.group is ops.COMPARISON else dtype
    constant = procedure.function(op, result, src, None)
    folded = None if constant is None else constant.arg
    if repr(folded) == repr(wanted):
        return ""
    return f"{op.name} of {chosen} as {dtype} is {wanted}, and was folded to {folded}"


# -- lanes of pointers, which the evaluator cannot represent ---------------------------------------


def pointer_cases(procedure: Procedure) -> Iterator[str]:
    """Yield differences between lanes of up to four pointers and those pointers."""
    alone = RuleSet("alone", rules=(procedure,))
    kind = dtypes.f32.pointer(size=4)
    for count in range(1, 5):
        pointers = tuple(UOp(ops.PARAM, kind, (), number) for number in range(count))
        joined = UOp(ops.PTRCAT, None, pointers)
        for size in range(1, count + 1):
            for lanes in itertools.product(range(count), repeat=size):
                after = rewrite(UOp(ops.GEP, None, (joined,), lanes), alone, exactly=True)
                chosen = tuple(pointers[lane] for lane in lanes)
                right = after.src == chosen if after.op is ops.PTRCAT else (after,) == chosen
                yield "" if right else f"lanes {lanes} of {count} pointers give {after!r}"


BUILT_IN: Final[Checks] = {
    "fold": ("against Python's integers and NumPy's floats", fold_cases),
    "gep-pointers": ("by the pointers that come out", pointer_cases),
}
"""Checks of procedures that need no written examples."""
