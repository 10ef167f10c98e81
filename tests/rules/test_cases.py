"""The case files: what the simplifier must do, a line each, for the tier that the file names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.rewrite.construction import COMMUTE
from porism.rewrite.graph_rewrite import normalize, rewrite
from porism.rewrite.rewrite_trace import Trace
from porism.rewrite.rule import RuleSet
from porism.rules.algebra.fast_math_rules import FAST_MATH
from porism.rules.index.normalize import simplify
from porism.rules.rule_sets import ALGEBRA, SIMPLE, SYMBOLIC, SYMBOLIC_LATE
from tests.examples.procedure_examples import EXAMPLES
from tests.rules.expressions import Case, read

FOLDER: Final = Path(__file__).parent / "cases"


def _by_pass(rules: RuleSet) -> Callable[[UOp, Trace], UOp]:
    return lambda graph, trace: rewrite(graph, rules, trace=trace)


TIERS: Final[Mapping[str, Callable[[UOp, Trace], UOp]]] = {
    "algebra": normalize,
    "simple": _by_pass(SIMPLE),
    "symbolic": _by_pass(SYMBOLIC),
    "symbolic-late": _by_pass(SYMBOLIC_LATE),
    "fast-math": _by_pass(FAST_MATH),
    "normal-form": lambda graph, trace: simplify(graph),
}
"""By the names that case files use: how each tier of `porism.rules.rule_sets` is applied."""

FILES: Final = {path.stem: read(path.read_text(), TIERS) for path in sorted(FOLDER.glob("*.txt"))}
CASES: Final = {
    f"{name}:{case.line}": (file.tier, case) for name, file in FILES.items() for case in file.cases
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    tier, case = CASES[name]
    fault = case_fault(tier, case)
    assert not fault, fault


def case_fault(tier: str, case: Case) -> str:
    """Return what is wrong with a case, or an empty string; name the tier that would do it."""
    trace = Trace()
    before, after = TIERS[tier](case.before, Trace()), TIERS[tier](case.after, trace)
    if before is after:
        # the right side is a normal form already, but for the order of operands
        further = set(trace.counts()) - {COMMUTE}
        return f"{show(case.after)} becomes {show(after)} by {sorted(further)}" if further else ""
    result = f"the tier {tier!r} makes {show(before)} of {show(case.before)}"
    for other, apply in TIERS.items():
        trace = Trace()
        if other != tier and apply(case.before, trace) is apply(case.after, Trace()):
            rules = ", ".join(name for name in trace.counts() if name != COMMUTE)
            return (
                f"{result}\nthe tier {other!r} makes {show(case.after)} of it"
                + (f", by {rules}" if rules else "")
                + f": move the line to a case file with 'tier: {other}'"
            )
    return f"{result}, not {show(case.after)}"


def test_every_rule_of_the_algebra_has_a_case() -> None:
    fired: set[str] = set()
    for tier, case in CASES.values():
        if tier == "algebra":
            trace = Trace()
            normalize(case.before, trace)
            fired |= set(trace.counts())
    # procedures about structure have examples of their own
    assert {item.name for item in ALGEBRA if item.name not in EXAMPLES} - fired == set()


# -- mistakes in a case file -----------------------------------------------------------------------


def only_case(text: str) -> tuple[str, Case]:
    file = read(text)
    return file.tier, file.cases[0]


def test_a_case_for_a_rule_of_another_tier_is_told_which() -> None:
    fault = case_fault(*only_case("tier: algebra\ni: index\ni ** 1  =>  i"))
    assert fault == (
        "the tier 'algebra' makes i ** 1 of i ** 1\n"
        "the tier 'simple' makes i of it, by pow-one: move the line to a case file with "
        "'tier: simple'"
    )


def test_a_case_that_no_tier_does_is_told_what_comes_out() -> None:
    fault = case_fault(*only_case("tier: simple\ni: index\ni + 0  =>  i + 1"))
    assert fault == "the tier 'simple' makes i of i + 0, not i + 1"


def test_a_right_side_that_is_rewritten_further_is_told() -> None:
    fault = case_fault(*only_case("tier: algebra\ni: index\n0 + i  =>  i + 0"))
    assert fault == "i + 0 becomes i by ['add-zero']"


@pytest.mark.parametrize("text", ["i: index\ni + 0  =>  i", "tier: nonsense\ni: index"])
def test_a_case_file_says_which_tier_it_tests(text: str) -> None:
    with pytest.raises(ValueError, match="say which tier the cases test"):
        read(text, TIERS)
