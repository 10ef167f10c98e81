"""Rule counts: how often each rule fired on a corpus of programs, and why idle rules are kept.

The counts are recorded in `fired.json`, by `porism rules --fired --record`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("fired.json")

EVERY_NODE: Final = "every node"
"""Stands for the construction of nodes, in any stage."""

HOW_TO_UPDATE: Final = "run 'porism rules --fired --record'"


BY_HAND: Final = "no pass makes it; for graphs that are built by hand"
FAMILY: Final = "of a family of which others fire"
LANES: Final = "vectorization chooses lanes when it makes them; for kernels that are built by hand"
NO_TARGET: Final = "for machines that need it; no target of this version does"
PLACED: Final = "the scheduler places values by their cost; what it is compared with"
RANGED: Final = "movement ops become indices when ranges are made; for kernels built by hand"

REASONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("invalid-cast", "invalid-choice", "invalid-condition", "invalid-gate", "invalid-load",
         "floor-whole", "ceil-whole", "trunc-whole", "round-whole", "after-nothing",
         "mask-lanes", "mask-off", "index-bind", "flatten-ends", "word-mulacc-as-sum", "word-trunc",
         "word-floor", "word-ceil", "word-round", "bool-max-as-or", "bool-min-as-and"), BY_HAND),
    "index-divisor": "for symbolic divisors that may be 0 behind a mask",
    **dict.fromkeys(("gt-offset", "ne-offset", "reduce-any", "fast-reduce-collapse",
                     "fast-reduce-nested"), FAMILY),
    **dict.fromkeys(
        ("gep-all", "gep-constant", "gep-gep", "gep-vectorize", "gep-arithmetic", "gep-pointers",
         "gep-unroll", "gep-wmma"), LANES),
    **dict.fromkeys(
        ("truncate-by-constant", "multiply-by-power", "cast-inside", "fuse-sum",
         "fuse-difference", "fuse-difference-from", "gt-as-lt", "ge-as-le", "le-as-lt-or-eq",
         "ne-as-not-eq", "sub-as-add", "word-neg-as-sub", "word-not-as-xor", "float-neg-as-sub",
         "bool-not-as-xor"), NO_TARGET),
    **dict.fromkeys(
        ("index-constant", "index-bufferize", "bufferize-copy", "index-dead-axis"), PLACED),
    **dict.fromkeys(
        ("index-movement", "index-index", "after-movement", "end-movement"), RANGED),
    "div-self": "for index expressions that people write, with a divisor that is never 0",
}  # fmt: skip
"""By name, why a rule is kept that does not fire on the corpus; every other rule fires there."""


@dataclass(frozen=True, slots=True)
class Firing:
    """The recorded counts of a rule."""

    count: int
    """How often the rule fired."""
    stages: tuple[str, ...]
    """The stages that try the rule; "every node" for those tried at construction."""


@cache
def recorded() -> Mapping[str, Firing]:
    """Return the record by the names of rules; empty if there is no file."""
    if not FILE.is_file():
        return {}
    rows = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: Firing(row["count"], tuple(row["stages"])) for name, row in rows.items()}


def of(name: str) -> Firing:
    """Return the counts of a rule; one that no pass tried has no stages."""
    return recorded().get(name, Firing(0, ()))


def write(counts: Mapping[str, int], stages: Mapping[str, Iterable[str]]) -> None:
    """Replace the record: a line for each rule, sorted by name."""
    lines = [
        f" {json.dumps(name)}: "
        + json.dumps({"count": counts.get(name, 0), "stages": sorted(stages.get(name, ()))})
        for name in sorted({*counts, *stages})
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    recorded.cache_clear()
