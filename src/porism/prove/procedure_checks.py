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
from porism.base.dtypes import DType, Kind, Scalar, Theory
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.prove.example_variations import Example
from porism.prove.procedure_trials import cases_of, try_procedure
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import Procedure, RuleSet
from porism.rules.algebra.constant_folding import LARGEST_BITS

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
    yield from _vector_fold_cases(procedure)
    yield from _cast_fold_cases(procedure)
    yield from _choice_fold_cases(procedure)
    yield from _huge_fold_cases(procedure)
    yield from _partial_fold_cases(procedure)


def _vector_fold_cases(procedure: Procedure) -> Iterator[str]:
    """Yield differences between folding vectors and folding each of their lanes."""
    for dtype, values in _INTEGERS.items():
        lanes = (values[0], values[-1], values[len(values) // 2])
        vectors = (lanes, lanes[::-1], lanes[:1] * 3)
        known = [*_PYTHON, ops.SHL, ops.SHR]
        if dtype.kind is Kind.BOOL:
            known = [op for op in known if op in _ON_TRUTHS or op.group is ops.COMPARISON]
        for op in known:
            for chosen in itertools.product(vectors, repeat=op.arity):
                if op is ops.SHL and not dtype.bits:
                    continue
                wanted = [expected(op, dtype, *each) for each in zip(*chosen, strict=True)]
                src = tuple(_vector(dtype, some) for some in chosen)
                kind = dtype.vec(3)
                result = kind.mask if op.group is ops.COMPARISON else kind
                folded = _lanes(procedure.function(op, result, src, None))
                right = None if None in wanted else wanted
                yield "" if repr(folded) == repr(right) else f"{op.name} of {chosen}: {folded}"


def _vector(dtype: DType, values: tuple[Scalar, ...]) -> UOp:
    if len(set(values)) == 1:
        return UOp.const(dtype.vec(len(values)), values[0])
    return UOp(ops.VCONST, dtype.vec(len(values)), (), values)


def _lanes(constant: UOp | None) -> list[Scalar] | None:
    """Return the lanes of a constant; a list of equal ones is made by CONST alone."""
    if constant is None or constant.op is ops.CONST:
        return None if constant is None else [constant.arg] * constant.dtype.count
    return list(constant.arg) if len(set(map(repr, constant.arg))) > 1 else []


def _cast_fold_cases(procedure: Procedure) -> Iterator[str]:
    """Yield differences between folding casts and Python's integers or NumPy's floats."""
    whole = [t for t in _INTEGERS if t.is_integer]
    for source, target in itertools.product(whole, whole):
        for vector in (_INTEGERS[source][:1] * 2, (_INTEGERS[source][0], _INTEGERS[source][-1])):
            given = _vector(source, vector)
            wanted = [expected(ops.ADD, target, value, 0) for value in vector]
            folded = _lanes(procedure.function(ops.CAST, target.vec(2), (given,), None))
            yield "" if folded == wanted else f"{given!r} as {target} is {wanted}, not {folded}"
    for target in (dtypes.f16, dtypes.bf16, dtypes.fp8e4m3, dtypes.fp8e5m2, dtypes.f64):
        for value in _FLOATS:
            with np.errstate(all="ignore"):
                exact = float(np.asarray(value, np.float32).astype(target.numpy)[()])
            given = UOp.const(dtypes.f32, value)
            folded = _lanes(procedure.function(ops.CAST, target, (given,), None))
            yield "" if repr(folded) == repr([exact]) else f"{value} as {target} is {folded}"


def _choice_fold_cases(procedure: Procedure) -> Iterator[str]:
    """Yield choices of constants that are not the chosen ones."""
    for dtype, values in _INTEGERS.items():
        for truths in itertools.product((False, True), repeat=2):
            for vector in ((values[0], values[-1]), (values[-1], values[-1])):
                other = vector[::-1]
                src = _vector(dtypes.boolean, truths), _vector(dtype, vector), _vector(dtype, other)
                chosen = zip(truths, vector, other, strict=True)
                wanted = [a if truth else b for truth, a, b in chosen]
                folded = _lanes(procedure.function(ops.WHERE, dtype.vec(2), src, None))
                yield "" if folded == wanted else f"WHERE of {src} is {wanted}, not {folded}"


def _huge_fold_cases(procedure: Procedure) -> Iterator[str]:
    """Yield integers of no width that are folded, and too large, or are neither."""
    most = LARGEST_BITS
    one, two = UOp.const(dtypes.index, 1), UOp.const(dtypes.index, 2)
    large = UOp.const(dtypes.index, (1 << most) - 1)
    half = UOp.const(dtypes.index, 1 << (most // 2))
    for op, src, wanted in (
        (ops.SHL, (one, UOp.const(dtypes.index, most - 1)), 1 << (most - 1)),
        (ops.SHL, (one, UOp.const(dtypes.index, most)), None),
        (ops.SHL, (one, UOp.const(dtypes.index, most + 1)), None),
        (ops.SHL, (one, UOp.const(dtypes.index, 1 << 60)), None),
        (ops.POW, (two, UOp.const(dtypes.index, most // 2)), 1 << (most // 2)),
        (ops.POW, (two, UOp.const(dtypes.index, 1 << 60)), None),
        (ops.ADD, (large, one), None),
        (ops.ADD, (large, UOp.const(dtypes.index, 0)), (1 << most) - 1),
        (ops.MUL, (half, half), None),
    ):
        constant = procedure.function(op, dtypes.index, src, None)
        folded = None if constant is None else constant.arg
        yield "" if folded == wanted else f"{op.name} of integers of 2**20 bits is folded wrongly"


def _partial_fold_cases(procedure: Procedure) -> Iterator[str]:
    """Yield sums of constants and others that are folded, though not all are constants."""
    alone = RuleSet("alone", theory=tuple(Theory), rules=(procedure,))
    kind = dtypes.i32.vec(2)
    sources = (
        UOp.const(kind, 3),
        UOp(ops.VCONST, kind, (), (1, 2)),
        UOp(ops.PARAM, kind, (), 0),
    )
    for src in itertools.product(sources, repeat=2):
        before = UOp(ops.ADD, None, src)
        after = rewrite(before, alone, exactly=True)
        folded = all(s.op is not ops.PARAM for s in src)
        yield "" if (after is not before) == folded else f"{before!r} becomes {after!r}"


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
    pair = UOp(ops.PARAM, dtypes.f32.vec(2).pointer(size=4), (), 4)
    single = UOp(ops.PARAM, kind, (), 5)
    refused = (
        ((pair, pair), range(4)),  # a pointer has two lanes
        ((single, pair), range(3)),
        ((pair, single), range(3)),
        ((single, single), range(2, 4)),  # no such lanes
    )
    for parts, numbers in refused:
        for lane in numbers:
            before = UOp(ops.GEP, None, (UOp(ops.PTRCAT, None, parts),), (lane,))
            after = rewrite(before, alone, exactly=True)
            yield "" if after is before else f"lane {lane} of {parts} gives {after!r}"


BUILT_IN: Final[Checks] = {
    "fold": ("against Python's integers and NumPy's floats", fold_cases),
    "gep-pointers": ("by the pointers that come out", pointer_cases),
}
"""Checks of procedures that need no written examples."""
