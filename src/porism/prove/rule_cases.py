"""Cases: values for the holes of a rule, tried by the evaluator's arithmetic.

Trying a few thousand simple cases refutes most wrong rules before the solver is asked, and with
the simplest numbers; trying every case of a range establishes a rule that the solver leaves open.
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
from porism.prove.rule_terms import DEFINED, Reading, facts_of, is_lazy
from porism.prove.type_instances import Instance
from porism.rewrite import terms
from porism.rewrite.rule import Rule

AT_A_TIME: Final = 1 << 17
MOST_TRIED: Final = 1 << 17
"""How many cases a search tries; a sample if there are more."""

MOST_TRIED_SLOWLY: Final = 1 << 11
"""The same, where numbers may be too large for NumPy."""

MOST_OF_ALL: Final = 1 << 25
"""How many cases there may be where all are tried."""

BYTE: Final = 8
"""Types of so many bits have few enough values to try all of them."""

SMALL: Final = 6
SLACKS: Final = (0, 1, 3)
MODULI: Final = (0, 1, 2, 3, 4)
FLOATS: Final = (
    *(1.0, 0.0, -0.0, 2.0, -1.0, 0.5, 3.0, math.inf, -math.inf, math.nan),
    *(0.1, -2.5, 1e-7, 60000.0, 3e38, 1e-45, 1e300, 5e-324),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """An unknown and the values it is given, the simplest first."""

    name: str
    values: Array


@dataclass(frozen=True, slots=True)
class Found:
    """What trying cases has shown."""

    counterexample: str | None
    fires: bool  # in some case the left side has a value and the guard holds
    tried: int


def search(rule: Rule, instance: Instance) -> Found:
    """Try simple cases."""
    choices = list(_choices(rule, instance))
    total = math.prod(len(c.values) for c in choices)
    most = MOST_TRIED_SLOWLY if needs_python(rule, choices) else MOST_TRIED
    if total <= most:
        return _try(rule, instance, choices, np.arange(total))
    sample = np.random.default_rng(0).integers(0, min(total, 1 << 62), most)
    return _try(rule, instance, choices, sample)


def all_values(rule: Rule, instance: Instance) -> Found | None:
    """Try all values that the holes of a rule can have; None if there are too many."""
    unknown = any(not terms.FACTS[fact.arg].truth for fact in facts_of(rule))
    if unknown or any(dtype.bits > BYTE or not dtype.bits for _, dtype in _holes(rule, instance)):
        return None
    choices = list(_choices(rule, instance, whole=True))
    total = math.prod(len(c.values) for c in choices)
    if total > MOST_OF_ALL:
        return None
    fires = False
    for start in range(0, total, AT_A_TIME):
        some = np.arange(start, min(start + AT_A_TIME, total))
        found = _try(rule, instance, choices, some)
        if found.counterexample is not None:
            return found
        fires |= found.fires
    return Found(None, fires, total)


def replay(rule: Rule, instance: Instance, case: Mapping[str, Scalar]) -> Found:
    """Try one case, with numbers of any size."""
    table = {name: _one(value) for name, value in case.items()}
    for hole, dtype in _holes(rule, instance):
        if dtype.kind is not Kind.INDEX:
            table[hole.arg] = np.asarray([case[hole.arg]]).astype(dtype.numpy)
    reading = Reading(rule, instance.arrays(table, huge=True))
    return _judge(rule, reading, table, np.zeros(1))


def _one(value: Scalar) -> Array:
    if isinstance(value, bool):
        return np.asarray([value])
    return np.asarray([value], dtype=np.float64 if isinstance(value, float) else object)


# -- which cases -----------------------------------------------------------------------------------


def _holes(rule: Rule, instance: Instance) -> Iterator[tuple[UOp, DType]]:
    """The holes and their types."""
    for hole in terms.holes_of(rule.before):
        yield hole, instance.types[hole.dtype]


def _choices(rule: Rule, instance: Instance, *, whole: bool = False) -> Iterator[Choice]:
    holes = list(_holes(rule, instance))
    for hole, dtype in holes:
        yield Choice(str(hole.arg), _every_value(dtype) if whole else _values(dtype))
    if is_lazy(rule):
        for hole, _ in holes:
            if not terms.is_constant_hole(hole):
                yield Choice(DEFINED + str(hole.arg), np.asarray([True, False]))
    facts = facts_of(rule)
    for fact in facts:
        if fact.arg in ("lo", "hi"):
            yield Choice(SLACK + show(fact), np.asarray(SLACKS))
        elif fact.arg == "constant":
            yield Choice(show(fact), np.asarray([False, True]))
    for about in dict.fromkeys(f.src[0] for f in facts if f.arg in ("modulus", "remainder")):
        yield Choice(SLACK + show(terms.modulus(about)), np.asarray(MODULI))


def _every_value(dtype: DType) -> Array:
    """All values of a type of a byte or less."""
    if dtype.kind is Kind.BOOL:
        return np.asarray([False, True])
    return np.arange(1 << BYTE, dtype=np.uint8).view(dtype.numpy)


def _values(dtype: DType) -> Array:
    """The values to be tried for a hole, the simplest first."""
    if dtype.kind is Kind.BOOL:
        return np.asarray([False, True])
    if dtype.is_float:
        rounded = dict.fromkeys(repr(dtype.canonical(v)) for v in FLOATS)
        return np.asarray([float(v) for v in rounded]).astype(dtype.numpy)
    found = [n for n in range(-SMALL, SMALL + 1) if dtype.min <= n <= dtype.max]
    if dtype.bits:
        edges = {int(dtype.min) + n for n in (0, 1)} | {int(dtype.max) - n for n in (0, 1)}
        edges |= {int(dtype.max) // 2, int(dtype.max) // 2 + 1, int(dtype.min) // 2}
        found = sorted({*found, *edges})
    simplest_first = sorted(found, key=lambda n: (abs(n), n < 0))
    return np.asarray(simplest_first, dtype=object).astype(dtype.numpy)


def _try(
    rule: Rule,
    instance: Instance,
    choices: Sequence[Choice],
    numbers: Array,
) -> Found:
    """Try the cases with these numbers, counted through all choices."""
    table: dict[str, Array] = {}
    simplicity = np.zeros(len(numbers))
    left = numbers
    for choice in choices:
        place = left % len(choice.values)
        left = left // len(choice.values)
        table[choice.name] = choice.values[place]
        simplicity += place
    huge = needs_python(rule, choices)
    if huge:
        integers = [name for name in table if table[name].dtype.kind == "i"]
        indices = {str(h.arg) for h, t in _holes(rule, instance) if t.kind is Kind.INDEX}
        for name in integers:
            if name in indices or name.startswith(SLACK):
                table[name] = table[name].astype(object)
    reading = Reading(rule, instance.arrays(table, huge=huge))
    return _judge(rule, reading, table, simplicity)


def asks_for_bounds(rule: Rule) -> bool:
    """Whether a rule uses the bounds of a node or the limits of its type."""
    return any(fact.arg in ("lo", "hi", "least", "most") for fact in facts_of(rule))


def needs_python(rule: Rule, choices: Sequence[Choice]) -> bool:
    """Whether a number may get too large for 64 bits, so that Python must compute it."""
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


# -- what they show --------------------------------------------------------------------------------


def _judge(rule: Rule, reading: Reading, table: dict[str, Array], simplicity: Array) -> Found:
    shape = simplicity.shape
    before, after = reading.before(), reading.after()
    applies = reading.defined(rule.before, computed=False) & reading.fires()
    applies = np.broadcast_to(applies, shape)
    has_value = np.broadcast_to(reading.defined(rule.after, computed=True), shape)
    equal = np.broadcast_to(reading.arithmetic(rule.before).same(before, after), shape)
    wrong = applies & ~(has_value & equal)
    if not wrong.any():
        return Found(None, bool(applies.any()), len(simplicity))
    place = int(np.argmin(np.where(wrong, simplicity, np.inf)))
    told = _sentence(rule, reading, table, place)
    result = show_value(_at(after, shape, place)) if has_value[place] else "undefined"
    told += f": before is {show_value(_at(before, shape, place))}, after is {result}"
    return Found(told, True, len(simplicity))


def _sentence(rule: Rule, reading: Reading, table: dict[str, Array], place: int) -> str:
    """The values of holes and facts in one case."""
    parts = []
    holes = sorted(terms.holes_of(rule.before), key=lambda h: terms.is_constant_hole(h))
    for hole in holes:
        exists = table.get(DEFINED + str(hole.arg))
        if exists is not None and not exists[place]:
            parts.append(f"{hole.arg} is undefined")
        else:
            parts.append(f"{hole.arg} = {show_value(table[str(hole.arg)][place])}")
    shape = (len(next(iter(table.values()))),)
    for fact in facts_of(rule):
        if fact.arg in ("lo", "hi", "modulus", "remainder"):
            parts.append(f"{show(fact)} = {show_value(_at(reading.fact(fact), shape, place))}")
        elif fact.arg == "constant" and show(fact) in table:
            parts.append(f"{show(fact)} is {bool(table[show(fact)][place])}")
    return ", ".join(parts)


def _at(value: Any, shape: tuple[int, ...], place: int) -> Any:
    return np.broadcast_to(np.asarray(value), shape)[place]


def show_value(value: Any) -> str:
    """A value in a sentence."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return repr(float(value))


def case_of(rule: Rule, reading: Reading, value: Any) -> dict[str, Scalar]:
    """The case that a model describes; `value` gives what an expression is in the model."""
    case: dict[str, Scalar] = {}
    for hole in terms.holes_of(rule.before):
        kind = reading.arithmetic(hole)
        known = reading.value(hole, computed=False)
        truth = kind.dtype is not None and kind.dtype.kind is Kind.BOOL
        case[str(hole.arg)] = value(known if truth else kind.exactly(known))
        case[DEFINED + str(hole.arg)] = value(reading.defined(hole, computed=False))
    for fact in facts_of(rule):
        about = fact.src[0]
        if fact.arg in ("lo", "hi"):
            case[show(fact)] = value(reading.fact(fact))
        elif fact.arg in ("modulus", "remainder"):
            for each in (terms.modulus(about), terms.remainder(about)):
                case[show(each)] = value(reading.fact(each))
        elif fact.arg == "constant":
            case[show(fact)] = value(reading.condition(fact))
    return case
