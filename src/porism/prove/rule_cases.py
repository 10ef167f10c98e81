"""Rule cases: concrete values for the holes of a rule, evaluated with NumPy on many at once.

Trying some thousand simple cases refutes most wrong rules before the solver is asked, with the
simplest counterexample; trying all values of a small type proves a rule that the solver leaves
open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from porism.base.dtypes import DType, Kind, Scalar
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.prove.arithmetic.array_arithmetic import SLACK
from porism.prove.rule_terms import DEFINED, RuleSemantics, facts_of, is_lazy
from porism.prove.type_instances import Instance
from porism.rewrite import terms
from porism.rewrite.rule import Rule

CHUNK: Final = 1 << 17
"""Cases that are evaluated at once."""

MOST_CASES: Final = 1 << 17
"""Cases that a search tries; a random sample if there are more. Chosen by hand."""

MOST_CASES_IN_PYTHON: Final = 1 << 11
"""The same where numbers may exceed 64 bits, so that Python computes them."""

MOST_EXHAUSTIVE_CASES: Final = 1 << 25
"""Cases of an exhaustive trial, at most: a few seconds."""

EXHAUSTIVE_BITS: Final = 8
"""Width in bits up to which all values of a type are tried."""

SMALL: Final = 6
SLACKS: Final = (0, 1, 3)
MODULI: Final = (0, 1, 2, 3, 4)
FLOATS: Final = (
    *(1.0, 0.0, -0.0, 2.0, -1.0, 0.5, 3.0, math.inf, -math.inf, math.nan),
    *(0.1, -2.5, 1e-7, 60000.0, 3e38, 1e-45, 1e300, 5e-324),
)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The values that are tried for an unknown, the simplest first."""

    name: str
    values: Array


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The outcome of trying cases."""

    counterexample: str | None
    fires: bool  # in some case the left side is defined and the guard holds
    tried: int


def try_simple_cases(rule: Rule, instance: Instance) -> SearchResult:
    """Evaluate a rule on simple cases."""
    choices = list(_candidates(rule, instance))
    total = math.prod(len(c.values) for c in choices)
    most = MOST_CASES_IN_PYTHON if needs_python(rule, choices) else MOST_CASES
    if total <= most:
        return _try_cases(rule, instance, choices, np.arange(total))
    sample = np.random.default_rng(0).integers(0, min(total, 1 << 62), most)
    return _try_cases(rule, instance, choices, sample)


def try_all_values(rule: Rule, instance: Instance) -> SearchResult | None:
    """Evaluate a rule on all values of its holes; None if there are too many."""
    unknown = any(not terms.FACTS[fact.arg].truth for fact in facts_of(rule))
    if unknown or any(
        dtype.bits > EXHAUSTIVE_BITS or not dtype.bits for _, dtype in _holes(rule, instance)
    ):
        return None
    choices = list(_candidates(rule, instance, whole=True))
    total = math.prod(len(c.values) for c in choices)
    if total > MOST_EXHAUSTIVE_CASES:
        return None
    fires = False
    for start in range(0, total, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, total))
        result = _try_cases(rule, instance, choices, numbers)
        if result.counterexample is not None:
            return result
        fires |= result.fires
    return SearchResult(None, fires, total)


def try_case(rule: Rule, instance: Instance, case: Mapping[str, Scalar]) -> SearchResult:
    """Evaluate a rule on one case, with numbers of any size."""
    table = {name: _single(value) for name, value in case.items()}
    for hole, dtype in _holes(rule, instance):
        if dtype.kind is not Kind.INDEX:
            table[hole.arg] = np.asarray([case[hole.arg]]).astype(dtype.numpy)
    reading = RuleSemantics(rule, instance.arrays(table, huge=True))
    return _evaluate_cases(rule, reading, table, np.zeros(1))


def _single(value: Scalar) -> Array:
    if isinstance(value, bool):
        return np.asarray([value])
    return np.asarray([value], dtype=np.float64 if isinstance(value, float) else object)


# -- choosing cases --------------------------------------------------------------------------------


def _holes(rule: Rule, instance: Instance) -> Iterator[tuple[UOp, DType]]:
    """Yield the holes of a rule with their types."""
    for hole in terms.holes_of(rule.before):
        yield hole, instance.types[hole.dtype]


def _candidates(rule: Rule, instance: Instance, *, whole: bool = False) -> Iterator[Candidates]:
    holes = list(_holes(rule, instance))
    for hole, dtype in holes:
        yield Candidates(str(hole.arg), _all_values(dtype) if whole else _values(dtype))
    if is_lazy(rule):
        for hole, _ in holes:
            if not terms.is_constant_hole(hole):
                yield Candidates(DEFINED + str(hole.arg), np.asarray([True, False]))
    facts = facts_of(rule)
    for fact in facts:
        if fact.arg in ("lo", "hi"):
            yield Candidates(SLACK + show(fact), np.asarray(SLACKS))
        elif fact.arg == "constant":
            yield Candidates(show(fact), np.asarray([False, True]))
    for about in dict.fromkeys(f.src[0] for f in facts if f.arg in ("modulus", "remainder")):
        yield Candidates(SLACK + show(terms.modulus(about)), np.asarray(MODULI))


def _all_values(dtype: DType) -> Array:
    """Return all values of a type of 8 bits or less."""
    if dtype.kind is Kind.BOOL:
        return np.asarray([False, True])
    return np.arange(1 << EXHAUSTIVE_BITS, dtype=np.uint8).view(dtype.numpy)


def _values(dtype: DType) -> Array:
    """Return the values that are tried for a hole, the simplest first."""
    if dtype.kind is Kind.BOOL:
        return np.asarray([False, True])
    if dtype.is_float:
        rounded = dict.fromkeys(repr(dtype.canonical(v)) for v in FLOATS)
        return np.asarray([float(v) for v in rounded]).astype(dtype.numpy)
    values = [n for n in range(-SMALL, SMALL + 1) if dtype.min <= n <= dtype.max]
    if dtype.bits:
        edges = {int(dtype.min) + n for n in (0, 1)} | {int(dtype.max) - n for n in (0, 1)}
        edges |= {int(dtype.max) // 2, int(dtype.max) // 2 + 1, int(dtype.min) // 2}
        values = sorted({*values, *edges})
    simplest_first = sorted(values, key=lambda n: (abs(n), n < 0))
    return np.asarray(simplest_first, dtype=object).astype(dtype.numpy)


def _try_cases(
    rule: Rule,
    instance: Instance,
    choices: Sequence[Candidates],
    numbers: Array,
) -> SearchResult:
    """Evaluate a rule on the cases with these numbers, among all combinations."""
    table: dict[str, Array] = {}
    simplicity = np.zeros(len(numbers))
    rest = numbers
    for choice in choices:
        position = rest % len(choice.values)
        rest = rest // len(choice.values)
        table[choice.name] = choice.values[position]
        simplicity += position
    huge = needs_python(rule, choices)
    if huge:
        integers = [name for name in table if table[name].dtype.kind == "i"]
        indices = {str(h.arg) for h, t in _holes(rule, instance) if t.kind is Kind.INDEX}
        for name in integers:
            if name in indices or name.startswith(SLACK):
                table[name] = table[name].astype(object)
    reading = RuleSemantics(rule, instance.arrays(table, huge=huge))
    return _evaluate_cases(rule, reading, table, simplicity)


def asks_for_bounds(rule: Rule) -> bool:
    """Whether a rule uses the bounds of a node or the limits of its type."""
    return any(fact.arg in ("lo", "hi", "least", "most") for fact in facts_of(rule))


def needs_python(rule: Rule, choices: Sequence[Candidates]) -> bool:
    """Whether a number may exceed 64 bits, so that Python must compute it."""
    integers = [
        int(np.abs(c.values.astype(object)).max()) for c in choices if c.values.dtype.kind in "iu"
    ]
    largest = max(integers, default=0)
    parts = (rule.before, rule.after, *terms.conjuncts(rule.when))
    nodes = toposort(*parts)
    products = sum(node.op in (ops.MUL, ops.MULACC, ops.POW) for node in nodes)
    shifts = sum(node.op is ops.SHL for node in nodes)
    bits = (products + 1) * (largest + 8).bit_length() + len(nodes)
    return bits + shifts * min(largest, 64) > 62


# -- evaluating cases ------------------------------------------------------------------------------


def _evaluate_cases(
    rule: Rule, reading: RuleSemantics, table: dict[str, Array], simplicity: Array
) -> SearchResult:
    shape = simplicity.shape
    before, after = reading.before(), reading.after()
    applies = reading.defined(rule.before, computed=False) & reading.fires()
    applies = np.broadcast_to(applies, shape)
    has_value = np.broadcast_to(reading.defined(rule.after, computed=True), shape)
    equal = np.broadcast_to(reading.arithmetic(rule.before).same(before, after), shape)
    wrong = applies & ~(has_value & equal)
    if not wrong.any():
        return SearchResult(None, bool(applies.any()), len(simplicity))
    case = int(np.argmin(np.where(wrong, simplicity, np.inf)))
    values = _describe_case(rule, reading, table, case)
    result = show_value(_at(after, shape, case)) if has_value[case] else "undefined"
    outcome = f"before is {show_value(_at(before, shape, case))}, after is {result}"
    return SearchResult(f"{values}: {outcome}", True, len(simplicity))


def _describe_case(rule: Rule, reading: RuleSemantics, table: dict[str, Array], case: int) -> str:
    """Return the values of holes and facts in one case, as text."""
    parts = []
    holes = sorted(terms.holes_of(rule.before), key=lambda h: terms.is_constant_hole(h))
    for hole in holes:
        exists = table.get(DEFINED + str(hole.arg))
        if exists is not None and not exists[case]:
            parts.append(f"{hole.arg} is undefined")
        else:
            parts.append(f"{hole.arg} = {show_value(table[str(hole.arg)][case])}")
    shape = (len(next(iter(table.values()))),)
    for fact in facts_of(rule):
        if fact.arg in ("lo", "hi", "modulus", "remainder"):
            parts.append(f"{show(fact)} = {show_value(_at(reading.fact(fact), shape, case))}")
        elif fact.arg == "constant" and show(fact) in table:
            parts.append(f"{show(fact)} is {bool(table[show(fact)][case])}")
    return ", ".join(parts)


def _at(value: Any, shape: tuple[int, ...], case: int) -> Any:
    return np.broadcast_to(np.asarray(value), shape)[case]


def show_value(value: Any) -> str:
    """Return a value as text."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return repr(float(value))


def case_from_model(rule: Rule, reading: RuleSemantics, value: Any) -> dict[str, Scalar]:
    """Return the case that a model of the solver describes; `value` evaluates an expression."""
    case: dict[str, Scalar] = {}
    for hole in terms.holes_of(rule.before):
        kind = reading.arithmetic(hole)
        known = reading.value(hole, computed=False)
        truth = kind.dtype is not None and kind.dtype.kind is Kind.BOOL
        case[str(hole.arg)] = value(known if truth else kind.to_number(known))
        case[DEFINED + str(hole.arg)] = value(reading.defined(hole, computed=False))
    for fact in facts_of(rule):
        about = fact.src[0]
        if fact.arg in ("lo", "hi"):
            case[show(fact)] = value(reading.fact(fact))
        elif fact.arg in ("modulus", "remainder"):
            for part in (terms.modulus(about), terms.remainder(about)):
                case[show(part)] = value(reading.fact(part))
        elif fact.arg == "constant":
            case[show(fact)] = value(reading.condition(fact))
    return case
