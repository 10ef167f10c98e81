"""Seed rows: the requirements that the rules began from, and which rules meet each of them.

The rules were collected from four tables of rewrites that a tensor compiler needs, the seed pages:
000 (index arithmetic), 002 (algebra), 003 (loops and reductions), 004 (from movement ops to loops).
A label such as `002.19.4` is page 002, section 19, row 4; some rows have a word for a number. A
rule names the rows that it implements in `seeds="…"`, separated by spaces; the label is for
reference alone, and no rewrite depends on it. A new rule needs none.

A row is implemented by rules and procedures, by a lemma of the normal form of index arithmetic
(`porism.rules.index.index_lemmas`), or by a step of the engine or of the scheduler (`STEPS`). A
test checks that none of the rows is forgotten.
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
"""By label, the rows that a step of the engine or a pass implements: the name of that step."""


def _rows(prefix: str, names: str) -> Iterator[str]:
    """Yield labels: `_rows("000.1", "1 2 3-5")` gives 000.1.1 … 000.1.5."""
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
"""The labels of all rows; a row that states several rewrites has the number of the first."""


def implementations() -> dict[str, list[str]]:
    """Map each row to the names of the rules, procedures, lemmas and steps that implement it."""
    from porism.rules.rule_sets import EVERYTHING

    names: dict[str, list[str]] = {row: [] for row in ROWS}
    for item in (*EVERYTHING, *LEMMAS):
        for row in item.seeds:
            if row in names:
                names[row].append(item.name)
    for row, step in STEPS.items():
        names[row].append(step)
    return names
