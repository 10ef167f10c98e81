"""Proofs of rules: `prove(rule)` establishes a rule from its own declaration.

It is proved in each theory of the rule, for every value of its holes and constants, and for any
sound bounds, that

    before is defined, and the guard holds  =>  after is defined, and equals before

This is proved for every type of the theory in which the rule can fire (`prove.type_instances`): by
the solver, with fixed-width integers as bit-vectors or as integers modulo 2^n, or by trying all
values of an 8-bit type. It is also checked that the rule can fire in each of its theories, that
each part of its guard is needed, and that it decreases in the order of
`porism.rewrite.termination`.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import z3

from porism.base.dtypes import Theory
from porism.base.errors import ProofError
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.prove import rule_cases, structure_rules
from porism.prove.arithmetic.op_meanings import DIVISIONS, Truth, Unsupported
from porism.prove.arithmetic.solver import Answer, ask, value_in
from porism.prove.arithmetic.unbounded_integers import Integers
from porism.prove.arithmetic.wrapping_integers import WrappingIntegers
from porism.prove.rule_terms import RuleSemantics
from porism.prove.type_instances import Instance, instances
from porism.rewrite import terms
from porism.rewrite.rule import Rule
from porism.rewrite.termination import Verdict, shrinks

MILLISECONDS: Final = 10_000
"""Time limit of the solver for one query; chosen by hand."""

EXTRA_MILLISECONDS: Final = 1_000
"""Time limit for optional queries: whether the guard can hold, and whether it is needed."""


class Status(enum.Enum):
    """How far a rule is established in a theory."""

    PROVED = "proved"
    EVALUATED = "evaluated"
    CHANGES = "changes results"
    REFUTED = "refuted"
    UNKNOWN = "unknown"

    @property
    def ok(self) -> bool:
        return self not in (Status.REFUTED, Status.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a proof in one theory."""

    theory: Theory
    status: Status
    seconds: float
    types: str = ""  # the types in which it was proved or refuted
    counterexample: str = ""
    note: str = ""

    def __str__(self) -> str:
        parts = [f"{self.theory.value}: {self.status.value}"]
        parts += [f"on {self.types}"] * bool(self.types) + [f"in {self.seconds:.2f} s"]
        more = [part for part in (self.counterexample, self.note) if part]
        return " ".join(parts) + "".join(f"\n    {part}" for part in more)


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of the proof of a rule in all its theories."""

    rule: Rule
    results: tuple[Result, ...]
    idle_in: tuple[Theory, ...]  # theories in which it can never fire
    shrinks: Verdict
    idle: tuple[str, ...]  # parts of the guard that are not needed
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the rule is established, can fire, and has no needless guard."""
        return not any(self.faults())

    @property
    def established(self) -> str:
        """Return how the rule is established in all its theories: "proved" or "evaluated".

        A rule that changes float results is proved on real numbers.
        """
        statuses = {result.status for result in self.results}
        return "evaluated" if Status.EVALUATED in statuses else "proved"

    def faults(self) -> Iterator[str]:
        """Yield what is wrong with the rule, a sentence each."""
        if not self.results:
            yield "it belongs to no theory; a rule set gives it one"
        for result in self.results:
            if not result.status.ok:
                where = f" ({result.types})" if result.types else ""
                reason = result.counterexample or result.note
                yield f"{result.theory.value}: {result.status.value}{where}: {reason}"
        for theory in self.idle_in:
            yield (
                f"{theory.value}: it can never fire: its left side never has a value"
                + ("" if self.rule.when is None else " where its guard holds")
            )
        for part in self.idle:
            yield f"a part of its guard is idle, the rule holds without it: {part}"
        if not self.shrinks and not (self.rule.lemma or self.rule.grows):
            yield f"it does not shrink, by {self.shrinks.component}: {self.shrinks.reason}"

    def explain(self) -> str:
        """Return the outcome in several lines of text."""
        lines = [f"{self.rule.name}: {self.rule}", *(f"  {result}" for result in self.results)]
        if self.rule.when is not None:
            never = ", ".join(theory.value for theory in self.idle_in)
            lines.append("  the guard " + (f"can never hold in {never}" if never else "can hold"))
        lines += [f"  idle in the guard: {part}" for part in self.idle]
        verb = "shrinks" if self.shrinks else "does not shrink"
        lines.append(f"  {verb}, by {self.shrinks.component}: {self.shrinks.reason}")
        return "\n".join(lines)


def prove(
    rule: Rule,
    *,
    milliseconds: int = MILLISECONDS,
    examples: Iterable[structure_rules.Example] = (),
) -> Proof:
    """Prove a rule in all its theories; rules about structure are evaluated on `examples`.

    >>> from porism.rewrite.terms import c0, c1, x
    >>> from dataclasses import replace
    >>> from porism.rewrite.rule import rule
    >>> nested = rule("div-div", (x // c0) // c1, x // (c0 * c1))
    >>> proof = prove(replace(nested, theories=(Theory.INTEGERS,)))
    >>> proof.results[0].counterexample
    'x = 1, c0 = 2, c1 = -1: before is 0, after is -1'
    """
    began = time.perf_counter()
    results, idle_in = [], []
    for theory in rule.theories:
        if theory is Theory.STRUCTURE:
            results.append(_evaluate_examples(rule, examples))
        else:
            result, can_fire = _prove_in_theory(rule, theory, milliseconds)
            results.append(result)
            idle_in += [theory] * (result.status.ok and not can_fire)
    idle: tuple[str, ...] = ()
    if all(result.status.ok for result in results):
        idle = tuple(show(part) for part in terms.conjuncts(rule.when) if _is_redundant(rule, part))
    seconds = time.perf_counter() - began
    return Proof(rule, tuple(results), tuple(idle_in), shrinks(rule), idle, seconds)


def require(proof: Proof) -> None:
    """Raise unless the rule is established."""
    faults = list(proof.faults())
    if faults:
        refuted = any(result.status is Status.REFUTED for result in proof.results)
        raise ProofError(
            f"the rule {proof.rule.name!r} is {'false' if refuted else 'not established'}",
            where=str(proof.rule),
            why="\n".join(faults),
            fix="restrict its theories or add the guard that excludes the counterexample"
            if refuted
            else "see the reasons; a rule that the solver leaves open may be a procedure",
        )


def _evaluate_examples(rule: Rule, examples: Iterable[structure_rules.Example]) -> Result:
    began = time.perf_counter()
    compared = structure_rules.compare_on_examples(rule, examples)
    seconds = time.perf_counter() - began
    if compared.difference:
        status = Status.REFUTED
    else:
        status = Status.EVALUATED if compared.fired else Status.UNKNOWN
    note = f"it fired on {compared.fired} of {compared.tried} examples"
    return Result(Theory.STRUCTURE, status, seconds, "", compared.difference, note)


def _prove_in_theory(rule: Rule, theory: Theory, milliseconds: int) -> tuple[Result, bool]:
    """Prove a rule in one theory; return the result and whether the rule can fire there."""
    began = time.perf_counter()
    shown, notes = [], []
    status, counterexample, can_fire = Status.PROVED, "", False
    changes = bool(rule.fast_math) and theory is Theory.FLOATS
    typed = list(instances(rule, theory))
    if not typed:
        status = Status.UNKNOWN
        notes.append(f"no type of this theory has {rule.op.name} and all literals of the left side")
    for instance in typed:
        outcome = prove_instance(rule, instance, milliseconds)
        can_fire = can_fire or outcome.fires
        if outcome.status.ok:
            shown += [instance.label] * outcome.fires
        elif outcome.status is Status.REFUTED:
            shown = [instance.label]
            status, counterexample = outcome.status, outcome.counterexample
            break
        elif not changes:
            shown = [instance.label]
            status = Status.UNKNOWN
            notes.append(outcome.note)
            break
    if changes and typed:
        notes = [rule.fast_math if counterexample else f"{rule.fast_math}; no case of it was found"]
        outcome = _prove_on_reals(rule, typed[0], milliseconds)
        if outcome.status.ok:
            status = Status.CHANGES
            notes.append("true of real numbers")
        else:
            status, counterexample = outcome.status, outcome.counterexample
            shown, notes = ["real numbers"], [outcome.note]
    seconds = time.perf_counter() - began
    types = " ".join(dict.fromkeys(shown))
    return Result(theory, status, seconds, types, counterexample, "; ".join(notes)), can_fire


def _prove_on_reals(rule: Rule, instance: Instance, milliseconds: int) -> Outcome:
    """Prove a rule that changes float results on real numbers, where it must hold exactly."""
    try:
        question = Question(rule, replace(instance, real=True))
    except Unsupported as gap:
        return Outcome(Status.UNKNOWN, note=str(gap))
    answer, model = question.ask(
        question.has_value, question.fires, question.wrong(), milliseconds=milliseconds
    )
    if answer is Answer.NO:
        return Outcome(Status.PROVED)
    if answer is Answer.UNKNOWN or not question.faithful:
        return Outcome(Status.UNKNOWN, note="the solver does not know whether it is true of them")
    values = {
        hole.arg: value_in(model, question.reading.value(hole, computed=False))
        for hole in terms.holes_of(rule.before)
    }
    case = ", ".join(f"{name} = {value:g}" for name, value in values.items())
    before, after = (
        value_in(model, value) for value in (question.reading.before(), question.reading.after())
    )
    return Outcome(Status.REFUTED, True, f"{case}: before is {before:g}, after is {after:g}")


# -- one instance ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a proof in one choice of types."""

    status: Status
    fires: bool = False
    counterexample: str = ""
    note: str = ""


def prove_instance(rule: Rule, instance: Instance, milliseconds: int) -> Outcome:
    """Refute a rule by a simple case, or prove it by the solver or by trying all values."""
    fires = False
    try:
        searched = rule_cases.try_simple_cases(rule, instance)
        fires = searched.fires
        if searched.counterexample is not None and not _has_several_results(rule, instance):
            return Outcome(Status.REFUTED, True, searched.counterexample)
    except (Unsupported, OverflowError):  # shifts by numbers that are too large to compute
        pass
    outcome = Outcome(Status.UNKNOWN, fires, "", "the solver has no encoding for it")
    for encoding in solver_encodings(rule, instance):
        try:
            outcome = _solve(rule, encoding, milliseconds, fires)
        except Unsupported as gap:
            outcome = Outcome(Status.UNKNOWN, fires, "", str(gap))
        if outcome.status is not Status.UNKNOWN:
            return outcome
    return _prove_by_all_values(rule, instance) or outcome


def solver_encodings(rule: Rule, instance: Instance) -> Iterator[Instance]:
    """Yield the encodings of fixed-width integers to try, the most promising first."""
    nodes = toposort(rule.before, rule.after)
    divides = any(node.op in DIVISIONS for node in nodes) or rule_cases.asks_for_bounds(rule)
    kinds = {dtype.theory for dtype in instance.types.values()}
    if Theory.FIXED_WIDTH not in kinds:
        yield instance
        return
    # bit-vectors are slow for divisions and bounds of wide types, and cannot represent `index`
    first = divides or Theory.INTEGERS in kinds
    yield replace(instance, wrapped=first)
    yield replace(instance, wrapped=not first)


def _prove_by_all_values(rule: Rule, instance: Instance) -> Outcome | None:
    """Prove or refute a rule on all values of its types; None if there are too many."""
    try:
        searched = (
            None
            if _has_several_results(rule, instance)
            else rule_cases.try_all_values(rule, instance)
        )
    except (Unsupported, OverflowError):
        return None
    if searched is None:
        return None
    if searched.counterexample is not None:
        return Outcome(Status.REFUTED, True, searched.counterexample)
    return Outcome(Status.PROVED, searched.fires)


def _has_several_results(rule: Rule, instance: Instance) -> bool:
    """Whether an op has several correct results (max of -0 and 0), of which one is evaluated."""
    return any(
        node.op in (ops.MAX, ops.MIN) and instance.types[node.dtype].is_float
        for node in toposort(rule.before, rule.after)
    )


class Question:
    """A rule as formulas for the solver."""

    def __init__(self, rule: Rule, instance: Instance) -> None:
        self.rule = rule
        self.reading = RuleSemantics(rule, instance.symbolic())
        before, after = self.reading.before(), self.reading.after()
        self.same = self.reading.arithmetic(rule.before).same(before, after)
        self.has_value = self.reading.defined(rule.before, computed=False)
        self.goal = self.reading.defined(rule.after, computed=True) & self.same
        self.fires = self.reading.fires()
        self.kinds = list(dict.fromkeys(self.reading.types.values()))

    @property
    def statements(self) -> list[Truth]:
        return [part for kind in self.kinds for part in kind.constraints]

    @property
    def nonlinear(self) -> bool:
        return any(isinstance(kind, Integers | WrappingIntegers) for kind in self.kinds)

    @property
    def faithful(self) -> bool:
        return all(kind.faithful for kind in self.kinds)

    def wrong(self) -> Truth:
        """Return the formula that no correct result of the left side equals the right side."""
        kept = set(toposort(self.rule.after))
        choices = self.reading.choices.items()
        free = [c for term, of_term in choices if term not in kept for c in of_term]
        whole = z3.BoolVal(True)
        for values in product((True, False), repeat=len(free)):
            chosen = [(c, z3.BoolVal(v)) for c, v in zip(free, values, strict=True)]
            whole = whole & z3.Not(z3.substitute(self.goal, *chosen) if chosen else self.goal)
        return whole

    def ask(self, *goal: Truth, milliseconds: int) -> tuple[Answer, object]:
        """Ask the solver whether these can hold together with the facts about the unknowns."""
        question = [*self.statements, *goal]
        answer, model = ask(question, milliseconds=milliseconds, nonlinear=self.nonlinear)
        if answer is Answer.UNKNOWN and self.nonlinear:
            answer, model = ask(question, milliseconds=milliseconds)
        return answer, model


def _solve(rule: Rule, instance: Instance, milliseconds: int, fires: bool) -> Outcome:
    question = Question(rule, instance)
    goal = (question.has_value, question.fires)
    if not fires:
        answer, _ = question.ask(*goal, milliseconds=min(milliseconds, EXTRA_MILLISECONDS))
        fires = answer is Answer.YES and question.faithful
    answer, model = question.ask(*goal, question.wrong(), milliseconds=milliseconds)
    if answer is Answer.NO:
        return Outcome(Status.PROVED, fires)
    if answer is Answer.UNKNOWN:
        note = f"the solver does not know, after {milliseconds / 1000:g} s"
        return Outcome(Status.UNKNOWN, fires, "", note)
    return _replay_counterexample(rule, instance, question, model)


def _replay_counterexample(
    rule: Rule, instance: Instance, question: Question, model: object
) -> Outcome:
    """Return the outcome of evaluating a counterexample of the solver."""
    case = rule_cases.case_from_model(rule, question.reading, lambda e: value_in(model, e))
    try:
        replayed = rule_cases.try_case(rule, instance, case)
    except (Unsupported, OverflowError):
        replayed = None
    if replayed is not None and replayed.counterexample is not None:
        return Outcome(Status.REFUTED, True, replayed.counterexample)
    values = ", ".join(f"{name} = {rule_cases.show_value(value)}" for name, value in case.items())
    if _has_several_results(rule, instance):
        return Outcome(Status.REFUTED, True, f"{values}, with the other zero from max or min")
    note = f"the solver's counterexample ({values}) is none to the evaluator"
    return Outcome(Status.UNKNOWN, True, "", note)


# -- parts of guards -------------------------------------------------------------------------------


def _is_redundant(rule: Rule, part: UOp) -> bool:
    """Whether the rule holds in all theories without a part of its guard."""
    rest = terms.conjunction([p for p in terms.conjuncts(rule.when) if p is not part])
    weaker = replace(rule, when=rest)
    typed = [
        instance
        for theory in rule.theories
        if theory is not Theory.STRUCTURE
        for instance in instances(weaker, theory)
    ]
    return bool(typed) and all(
        prove_instance(weaker, instance, EXTRA_MILLISECONDS).status is Status.PROVED
        and not _only_states_definedness(rule, instance, part)
        for instance in typed
    )


def _only_states_definedness(rule: Rule, instance: Instance, part: UOp) -> bool:
    """Whether a part of a guard only states that the left side is defined."""
    try:
        question = Question(rule, instance)
        holds = question.reading.condition(part)
    except Unsupported:
        return False
    implied, _ = question.ask(question.has_value, z3.Not(holds), milliseconds=EXTRA_MILLISECONDS)
    always, _ = question.ask(z3.Not(holds), milliseconds=EXTRA_MILLISECONDS)
    return implied is Answer.NO and always is not Answer.NO
