"""Mutants of rules, procedures and the normal form: some that must be noticed, and the list."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from porism.catalogue.rule_listing import KNOWN
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.rules.index.normalize import derive
from tools.mutate import arithmetic, conditions, guards, survivors, targets
from tools.mutate.arguments import ARGUMENTS
from tools.mutate.called_functions import callers
from tools.mutate.derivation_keys import Keys
from tools.mutate.run import in_a_child, run

SECONDS = 20.0


def changed(text: str) -> list[tuple[str, str, int]]:
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    return [
        (ast.unparse(c.old), ast.unparse(c.new), c.direction) for c in conditions.changes(function)
    ]


def test_what_refuses_is_made_to_refuse_less() -> None:
    found = changed("def f(x):\n if x.a or x.b < 3:\n  return None\n return x")
    assert found == [
        ("x.a or x.b < 3", "False", conditions.LESS),
        ("x.a or x.b < 3", "x.b < 3", conditions.LESS),
        ("x.a or x.b < 3", "x.a", conditions.LESS),
        ("x.b < 3", "x.b < 3 - 1", conditions.LESS),
    ]


def test_what_allows_is_made_to_allow_more() -> None:
    found = changed("def f(x):\n return x if 0 <= x.a < 4 and not x.b else None")
    news = [new for _, new, direction in found if direction == conditions.MORE]
    assert len(news) == len(found)
    assert news == [
        *("True", "not x.b", "x.a < 4", "0 <= x.a + 1 < 4", "0 <= x.a", "0 <= x.a <= 4"),
        "0 <= x.a < 4",
    ]


def test_arithmetic_is_bent() -> None:
    (function,) = ast.parse("def f(a, b):\n return -a // b + 1").body
    assert isinstance(function, ast.FunctionDef)
    news = {ast.unparse(c.new) for c in arithmetic.changes(function)}
    assert {"-a // b", "-a // b - 1", "1", "a", "0", "2", "-1"} <= news
    assert "-(--a // b)" in news


# -- running them ----------------------------------------------------------------------------------


def _endless() -> None:
    while True:
        pass


def test_a_mutant_without_an_end_is_stopped() -> None:
    assert in_a_child(_endless, 1.0) == "no end within 1 s of a processor"
    assert in_a_child(lambda: 3, 1.0) == 3


def _half(number: int) -> int:
    return number // 2


def _is_even(number: int) -> bool:
    return 2 * _half(number) == number if number > 3 else number == 2


def test_cases_are_listed_by_the_functions_that_they_call() -> None:
    found = callers([1, 2, 4, 5], _is_even)
    assert found[_is_even.__code__] == [1, 2, 4, 5]
    assert found[_half.__code__] == [4, 5]


def test_the_same_steps_have_the_same_key() -> None:
    a, b = UOp.variable("a", 0, 9), UOp.variable("b", 0, 7)
    quotient, remainder = (
        raw(op, None, (a * 4 + b, a.lift(4)), None) for op in (ops.IDIV, ops.MOD)
    )
    keys = Keys()
    first, again, other = (keys.of(derive(root)) for root in (quotient, quotient, remainder))
    assert first == again != other


# -- the mutants of this compiler ------------------------------------------------------------------


@cache
def every() -> tuple[targets.Target, ...]:
    return (*targets.procedure_targets(KNOWN), *targets.normal_form_targets())


def test_every_procedure_and_guarded_rule_has_mutants() -> None:
    using = {item.name for target in every() for item in target.using}
    assert {"reduce-factor", "invalid-store", "gep-all", "bufferize-copy", "after-nothing"} <= using
    guarded = {m.rule.name for m in guards.rule_mutants(KNOWN)}
    assert {"mod-small", "quotient-flatten", "compare-common"} <= guarded


def test_listed_survivors_exist() -> None:
    """A mutant is named by its code: one that has changed must be looked at again."""
    names = [t.mutant.name for t in every()] + [m.name for m in guards.rule_mutants(KNOWN)]
    assert len(set(names)) == len(names)
    assert survivors.stale(names) == []
    assert set(survivors.listed().values()) <= set(survivors.REASONS)


def test_every_argument_is_about_a_mutant_that_no_case_tells_from_the_function() -> None:
    assert {name for name, why in survivors.listed().items() if why == "argued"} == set(ARGUMENTS)


BOUND = "low <= rest.vmin * factor.vmax and rest.vmax * factor.vmax <= high"
PRESERVES_ORDER = "rules.reductions.reduction_rules._preserves_order"
NOTICED = (
    # the upper bound, and both: max(u8 [130, 100] * 2) would be 4
    "rules.reductions.reduction_rules._preserves_order: factor.dtype.kind is Kind.INDEX -> True",
    f"{PRESERVES_ORDER}: {BOUND} -> low <= rest.vmin * factor.vmax",
    f"{PRESERVES_ORDER}: {BOUND} -> rest.vmax * factor.vmax <= high",
    "rules.reductions.reduction_rules._preserves_order: factor.vmin < 0 -> False",
    "rules.buffers.dead_loops.after_nothing: len(node.src) == 1 -> True",
    "rules.addresses.validity._is_invalid_access: pointer.op is ops.INDEX and"
    " any((s.op is ops.INVALID for s in pointer.src[1:])) -> pointer.op is ops.INDEX",
    # a constant that is dropped in a step of the normal form
    "rules.index.quotients._flatten: constant * e + m.numerator.constant -> constant * e",
    "rules.index.quotients._flatten: constant * e + m.numerator.constant -> m.numerator.constant",
    "rules.index.quotients._flatten: constant * e -> constant",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTICED)
def test_these_are_noticed(name: str) -> None:
    target = next(t for t in every() if t.mutant.name == name)
    targets.prepare([target])
    assert run(target.mutant, target.checks, target.results, SECONDS).killed
