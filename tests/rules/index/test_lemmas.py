"""The steps of the normal form: each is an instance of its lemma, with true premises."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.index_corpus import corpus
from porism.catalogue.rule_listing import KNOWN
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.prove.lemma_instances import check_expression, step_faults
from porism.prove.random_index_expressions import random_expressions
from porism.rewrite.rule import Rule
from porism.rules.index import quotients
from porism.rules.index.form_arena import Arena
from porism.rules.index.lemma_steps import Quotient, bind
from porism.rules.index.linear_form import Form, Monomial
from porism.rules.index.normalize import derive, simplify
from porism.rules.rule_sets import ALGEBRA
from porism.simplifier.parser import parse
from porism.simplifier.variable_bounds import box
from tests.examples.index_edge_examples import (
    edge_expressions,
    simplification_faults,
    simplified,
    unchanged_expressions,
)

assert len(ALGEBRA)

EXPRESSIONS = 600
LEAST = 2
"""How many instances of each lemma are checked at least."""

USED = frozenset(
    {
        *("form-combine", "form-distribute", "form-modulo"),
        *("quotient-multiples", "quotient-one-bucket", "quotient-common", "quotient-remainder"),
        *("quotient-flatten", "quotient-proper", "quotient-common-form"),
        *("quotient-below", "quotient-above", "bound-above-by-fact", "bound-below-by-fact"),
        *("compare-common", "compare-remainder", "compare-lift-below", "compare-lift-above"),
        *(
            "compare-moved",
            "compare-larger",
            "compare-smaller",
            "equal-common",
            "quotient-one-bucket-form",
            "compare-no-multiple",
        ),
        *("le-always", "le-never", "eq-always", "eq-never", "eq-never-below"),
    }
)
"""The lemmas that the code of the normal form names."""


@pytest.mark.slow
def test_steps_on_random_expressions_are_instances_of_their_lemmas() -> None:
    count: Counter[str] = Counter()
    for root, facts in random_expressions(EXPRESSIONS):
        derivation = derive(root, facts)
        count.update(step.lemma for step in derivation.steps)
        fault = next(step_faults(derivation), None)
        assert fault is None, f"{root!r} where {facts}: {fault}"
    assert set(count) == USED
    assert min(count.values()) >= LEAST, count


def test_steps_on_layouts_are_instances_of_their_lemmas() -> None:
    for row in corpus(30, seed=11):
        root = parse(row["expr"], box(row["vars"]).variables)
        fault = next(step_faults(derive(root)), None)
        assert fault is None, f"{row['expr']}: {fault}"


def test_steps_at_the_limits_of_the_normal_form_are_instances_of_their_lemmas() -> None:
    for root, facts in edge_expressions():
        fault = next(step_faults(derive(root, facts)), None)
        assert fault is None, f"{root!r} where {facts}: {fault}"


def test_simplification_at_the_limits_of_the_normal_form() -> None:
    """In each way, also with a trace, and never to a costlier expression."""
    for root, facts in edge_expressions():
        assert list(simplification_faults(root, facts, simplified(root, facts))) == []
    for root in unchanged_expressions():
        assert simplify(root) is root


def test_every_lemma_that_is_used_is_stated_and_proved_for_integers() -> None:
    stated = {item.name: item for item in KNOWN if isinstance(item, Rule)}
    assert not USED - set(stated)
    assert all("integers" in [t.value for t in stated[name].theories] for name in USED)


def test_steps_are_recorded_on_request_only() -> None:
    x = UOp.variable("x", 0, 99)
    arena = Arena()
    quotients.floor_divide(arena, arena.leaf(x), 7)
    assert arena.budget.steps is None
    asked = derive(raw(ops.IDIV, None, (x, x.lift(7)), None))
    assert asked.steps
    assert asked.after is simplify(asked.before)


# -- steps that are wrong on purpose ---------------------------------------------------------------

X = UOp.variable("x", -40, 40)


def div(a: UOp, d: int) -> UOp:
    return raw(ops.IDIV, None, (a, a.lift(d)), None)


def plus(a: UOp, k: int) -> UOp:
    return raw(ops.ADD, None, (a, a.lift(k)), None)


NESTED = div(plus(div(plus(X, 3), 4), 3), 8)


def test_a_constant_dropped_in_flatten_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """floor((floor((x + 3)/4) + 3)/8), of which one of the two constants is lost."""
    assert check_expression(NESTED) == []
    right = quotients._flatten

    def wrong(arena: Arena, constant: int, rest: dict[Monomial, int], d: int) -> Form | None:
        steps, arena.budget.steps = arena.budget.steps, None
        result = right(arena, 0, rest, d)
        arena.budget.steps = steps
        if steps is not None and result is not None:
            whole = Quotient(arena.form(constant, rest), d)
            terms = bind(x=whole.numerator, c0=1, y=0, c1=d)
            arena.here.note("quotient-flatten", whole, result, terms)
        return result

    monkeypatch.setattr(quotients, "LEMMAS", (wrong,))
    assert any(fault.startswith("quotient-flatten at ") for fault in check_expression(NESTED))


def test_bounds_that_are_too_narrow_are_detected() -> None:
    arena = Arena()
    arena.budget.steps = []
    a = arena.leaf(X)
    whole = Quotient(a, 64)
    terms = bind(x=a, c0=64)
    arena.here.note("quotient-one-bucket", whole, 0, terms, x=(0, 40))
    done = derive(X)._replace(steps=arena.budget.steps)
    (fault,) = step_faults(done)
    assert "what came out is 0" in fault
    inside = UOp.variable("y", 0, 40)
    a = arena.leaf(inside)
    arena.budget.steps = []
    arena.here.note("quotient-one-bucket", Quotient(a, 64), 0, bind(x=a, c0=64), x=(0, 64))
    (fault,) = step_faults(derive(inside)._replace(steps=arena.budget.steps))
    assert "does not hold" in fault, "64 is in another bucket"
