"""The verdict on a claim: proved, refuted by values, or left open, printed for a person.

Only this module of the simplifier asks the solver, and loads it when asked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from porism.ir.text.expression import show
from porism.rewrite.rule import Rule
from porism.rewrite.termination import shrinks
from porism.simplifier.conjecture import Claim

if TYPE_CHECKING:
    from porism.prove.rule_proof import Result

PROVED: Final = "proved"
REFUTED: Final = "refuted"
UNKNOWN: Final = "unknown"
VACUOUS: Final = "vacuous"
STYLES: Final = {PROVED: "bold green", REFUTED: "bold red"}

_CASE: Final = re.compile(r"(?P<values>.*): before is (?P<before>.*), after is (?P<after>.*)")


def run(claim: Claim) -> int:
    """Prove or refute a claim, print what was found, and give the exit status."""
    from porism.prove.rule_proof import Status, prove

    proof = prove(claim.goal())
    idle = list(proof.idle)
    if any(result.status is Status.REFUTED for result in proof.results):
        word = REFUTED
    elif not all(result.status.ok for result in proof.results):
        word = UNKNOWN
    elif proof.idle_in or (claim.conditions and _is_proved(claim.vacuous())):
        word = VACUOUS
    else:
        word = PROVED
        idle += [show(part) for part in claim.conditions if _is_proved(claim.goal(without=part))]
    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(word, style=STYLES.get(word, "bold yellow")).append(f": {claim}", "default"))
    lines = [sentence(result) for result in proof.results]
    if word == VACUOUS:
        lines.append("it can never fire: no values fulfil its guard and can be computed with")
    lines += [f"a part of the guard is idle, the rule holds without it: {part}" for part in idle]
    lines += remarks(claim) if word == PROVED else []
    for line in lines:
        console.print(Text(f"  {line}"))
    return 0 if word == PROVED else 1


def _is_proved(rule: Rule) -> bool:
    from porism.prove.rule_proof import EXTRA_MILLISECONDS, Status, prove

    found = prove(rule, milliseconds=EXTRA_MILLISECONDS).results
    return all(result.status is Status.PROVED for result in found)


def sentence(result: Result) -> str:
    """What was found in one theory."""
    head = f"on {result.theory.value}"
    if result.types:
        head += f" ({result.types})"
    case = _CASE.fullmatch(result.counterexample)
    if case is not None:
        values, before, after = case["values"], case["before"], case["after"]
        return f"{head}: for {values} the left side is {before}, and the right side is {after}"
    more = result.counterexample or result.note
    found = f"{head}: {result.status.value}" + (f", {more}" if more else "")
    return f"{found}, in {result.seconds:.2f} s"


def remarks(claim: Claim) -> list[str]:
    """Whether it could be a rule of the compiler as it stands."""
    found = shrinks(claim.stated)
    verb = "shrinks" if found else "does not shrink"
    lines = [f"it {verb}, by {found.component}: {found.reason}"]
    if claim.conditions:
        parts = ", ".join(map(show, claim.conditions))
        lines.append(
            "it is about values, which the compiler does not know: as a rewrite rule it would "
            f"ask for bounds, such as lo(x) and hi(x), instead of {parts}"
        )
    return lines
