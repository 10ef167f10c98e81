"""Accounting: every row of the seed pages on algebra, and what it became.

A row is implemented by rules and procedures, which name it in `seeds`, by a lemma of the normal
form of index arithmetic (`porism.rules.index.index_lemmas`), or by a step of the engine (`STEPS`).
`accounts()` tells which.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from porism.rewrite.construction import COMMUTE
from porism.rules.index.index_lemmas import LEMMAS

STEPS: Final = {
    "000.6.1": COMMUTE,
    "002.18.1": COMMUTE,
    "003.split": "split-ranges",
    "003.merge": "merge-ranges",
    "003.flatten": "flatten-ends",
    "004.1.1": "index-movement",
    "004.1.2": "after-movement",
    "004.1.3": "end-movement",
    "004.1.4": "index-index",
    "004.1.5": "index-index",
    "004.3.1": "split-ranges",
    "004.5.1": "merge-ranges",
}
"""Rows that the engine itself, or a pass of the scheduler, implements: the name of the step."""


def _rows(prefix: str, names: str) -> Iterator[str]:
    """`_rows("000.1", "1 2 3-5")`: the ids 000.1.1 … 000.1.5."""
    for name in names.split():
        first, _, last = name.partition("-")
        if last:
            yield from (f"{prefix}.{n}" for n in range(int(first), int(last) + 1))
        else:
            yield f"{prefix}.{name}"


ROWS: Final = (
    *_rows("000.1", "1-5"),
    *_rows("000.2", "1-6"),
    *_rows("000.3", "1d 1m 2 3 4m 4d 4x 5d 5m 5k 6d 6m 6m2 7d 7m 8"),
    *_rows("000.4", "1-6"),
    *_rows("000.5", "P1 P2a P2b P2c P3a P3b sel"),
    "000.6.1",
    "000.W.1",
    *_rows("002.1", "1-4"),
    *_rows("002.2", "1-3 5-11"),
    *_rows("002.3", "1-4"),
    *_rows("002.4", "1-3"),
    *_rows("002.5", "1-5"),
    *_rows("002.6", "1-5"),
    *_rows("002.7", "1-3"),
    *_rows("002.8", "1-7"),
    *_rows("002.9", "1-3 5 9"),
    *_rows("002.10", "1-5 6a 6b"),
    *_rows("002.11", "1-4"),
    *_rows("002.12", "1 3 5 6 8 9"),
    *_rows("002.13", "1-4 6 8 9 11"),
    *_rows("002.14", "1-7"),
    "002.15.1",
    *_rows("002.16", "1-18"),
    *_rows("002.17", "1-2"),
    "002.18.1",
    *_rows("002.19", "1-22"),
    *_rows("003", "loadcollapse distr mulbool splitreduce"),
    *_rows("003.rc", "lower upper two ne"),
    *_rows("003.lift", "lt ge eq"),
    *_rows("003.unpar", "add mul max"),
    *_rows("003", "split merge flatten deadaxis"),
    *_rows("003.buf", "1-4"),
    *_rows("004.1", "1-5"),
    "004.2.1",
    "004.3.1",
    *_rows("004.4", "1-3"),
    "004.5.1",
)
"""The rows of the seed pages 000, 002, 003 and 004.

A row that states several has the number of its first.
"""


def accounts() -> dict[str, list[str]]:
    """For each row the names of the rules, procedures, lemmas and steps that implement it."""
    from porism.rules.rule_sets import EVERYTHING

    found: dict[str, list[str]] = {row: [] for row in ROWS}
    for item in (*EVERYTHING, *LEMMAS):
        for row in item.seeds:
            if row in found:
                found[row].append(item.name)
    for row, step in STEPS.items():
        found[row].append(step)
    return found
