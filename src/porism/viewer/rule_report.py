"""Rule report: the rules that fired, each with its statement and how it is established."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from porism.base.dtypes import Theory
from porism.catalogue import rule_listing
from porism.rewrite.construction import COMMUTE
from porism.rewrite.rule import Rewrite

Row = dict[str, Any]

DOMAINS: Final = {
    Theory.INTEGERS.value: "all integers",
    Theory.FIXED_WIDTH.value: "all integers of every width, signed and unsigned, which wrap",
    Theory.FLOATS.value: "all floats of every type, with NaN, infinities and both zeros",
    Theory.BOOLEANS.value: "both truth values",
}
"""The values of the variables in each theory, in words."""


@cache
def _items() -> dict[str, Rewrite]:
    return {item.name: item for item in rule_listing.KNOWN}


def rule_rows(names: Iterable[str]) -> dict[str, Row]:
    """Return a row for each name of a rule, with its theorem and its proof in words.

    >>> rule_rows(["mul-one"])["mul-one"]["established"]
    'proved'
    """
    rows = {}
    for name in sorted(set(names)):
        item = _items().get(name)
        if item is None and name != COMMUTE:
            continue
        row = rule_listing.step_row() if item is None else rule_listing.row(item)
        rows[name] = {
            key: row[key] for key in ("kind", "before", "after", "when", "theory", "example")
        } | {
            "established": row["established"] or rule_listing.NOT_RECORDED,
            "theorem": theorem(row),
            "proof": proof(row),
        }
    return rows


def theorem(row: Row) -> str:
    """Return the statement of a rule as a sentence."""
    if row["before"] is None:
        return str(row["after"])
    domain = "; ".join(DOMAINS.get(theory, theory) for theory in row["theory"])
    guard = f" with {row['when']}" if row["when"] else ""
    return f"For {domain}{guard}: if {row['before']} is defined, it equals {row['after']}."


def proof(row: Row) -> str:
    """Return how a rule is established, in words."""
    how = row["established"]
    if how == "proved":
        text = (
            "Proved by the solver from the rule's own declaration: no values of its variables and "
            "constants satisfy the guard and make the sides differ. The right side is defined "
            "wherever the left side is, and is smaller in the termination order."
        )
        if row["fast_math"]:
            text += f" It holds for real numbers, and changes floats: {row['fast_math']}."
    elif how == "evaluated":
        text = (
            "No equation states it, so it is evaluated: the reference evaluator computes the "
            "values before and after on all of its examples and their variations."
        )
    else:
        text = "Its proof is not recorded."
    return f"{text} To prove it again: porism prove {row['name']}"
