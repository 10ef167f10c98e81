"""Verdict: prove or refute a conjecture with the solver, and print what was found.

Only this module of the simplifier uses the solver, and imports it when it is called.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from porism.ir.text.expression import show
from porism.rewrite.rule import Rule
from porism.rewrite.termination import shrinks
from porism.simplifier.conjecture import Conjecture

if TYPE_CHECKING:
    from porism.prove.rule_proof import Result

PROVED: Final = "proved"
REFUTED: Final = "refuted"
UNKNOWN: Final = "unknown"
VACUOUS: Final = "vacuous"
STYLES: Final = {PROVED: "bold green", REFUTED: "bold red"}

_CASE: Final = re.compile(r"(?P<values>.*): before is (?P<before>.*), after is (?P<after>.*)")


def run(conjecture: Conjecture) -> int:
    """Prove or refute a conjecture, print the verdict, and return the exit status."""
    from porism.prove.rule_proof import Status, prove

    proof = prove(conjecture.goal())
    idle = list(proof.idle)
    if any(result.status is Status.REFUTED for result in proof.results):
        word = REFUTED
    elif not all(result.status.ok for result in proof.results):
        word = UNKNOWN
    elif proof.idle_in or (conjecture.conditions and _is_proved(conjecture.vacuity())):
        word = VACUOUS
    else:
        word = PROVED
        idle += [
            show(part)
            for part in conjecture.conditions
            if _is_proved(conjecture.goal(without=part))
        ]
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        Text(word, style=STYLES.get(word, "bold yellow")).append(f": {conjecture}", "default")
    )
    lines = [sentence(result) for result in proof.results]
    if word == VACUOUS:
        lines.append("it can never fire: no values fulfil its guard and can be computed with")
    lines += [f"a part of the guard is idle, the rule holds without it: {part}" for part in idle]
    lines += remarks(conjecture) if word == PROVED else []
    for line in lines:
        console.print(Text(f"  {line}"))
    return 0 if word == PROVED else 1


def _is_proved(rule: Rule) -> bool:
    """Whether a rule is proved within the time for additional questions."""
    from porism.prove.rule_proof import EXTRA_MILLISECONDS, Status, prove

    results = prove(rule, milliseconds=EXTRA_MILLISECONDS).results
    return all(result.status is Status.PROVED for result in results)


def sentence(result: Result) -> str:
    """Return the result in one theory as a sentence."""
    head = f"on {result.theory.value}"
    if result.types:
        head += f" ({result.types})"
    case = _CASE.fullmatch(result.counterexample)
    if case is not None:
        values, before, after = case["values"], case["before"], case["after"]
        return f"{head}: for {values} the left side is {before}, and the right side is {after}"
    more = result.counterexample or result.note
    outcome = f"{head}: {result.status.value}" + (f", {more}" if more else "")
    return f"{outcome}, in {result.seconds:.2f} s"


def remarks(conjecture: Conjecture) -> list[str]:
    """Return what stands in the way of using the conjecture as a rule of the compiler."""
    verdict = shrinks(conjecture.rule)
    verb = "shrinks" if verdict else "does not shrink"
    lines = [f"it {verb}, by {verdict.component}: {verdict.reason}"]
    if conjecture.conditions:
        parts = ", ".join(map(show, conjecture.conditions))
        lines.append(
            "it is about values, which the compiler does not know: as a rewrite rule it would "
            f"ask for bounds, such as lo(x) and hi(x), instead of {parts}"
        )
    return lines
