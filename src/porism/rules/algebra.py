"""The algebra: rule sets by name, and where each is used.

| set             | what                                   | where                               |
|-----------------|----------------------------------------|-------------------------------------|
| `ALGEBRA`       | always true, always smaller, cheap     | at construction, in every stage     |
| `SIMPLE`        | accesses, then all that looks further  | late: decompositions and rendering  |
| `SYMBOLIC`      | `SIMPLE`, and GEP moves to its lanes   | before and after optimising a       |
|                 |                                        | kernel, and after index lowering    |
| `SYMBOLIC_LATE` | `SYMBOLIC`, and masks move into loads  | once, after optimising a kernel     |
| `FAST_MATH`     | what changes float results             | beside these, where the user allows |
| `BUFFERS`       | values kept in memory for nothing      | on the whole graph, in each kernel  |
| `REDUCTIONS`    | loops that need not be run             | on the whole graph, in each kernel  |
| `INDEX_DTYPE`   | integers of a width, gates             | once, by `lower_index_dtype`        |

`ALGEBRA` leaves alone what a user may want to build as it is: loops of one iteration, loads and
stores through INVALID, lanes. `EVERYTHING` has all of them and the lemmas that procedures use: what
is listed and proved.
"""

from porism.rewrite.construct import install
from porism.rewrite.rule import RuleSet
from porism.rules.booleans import BOOLEANS, SELF_COMPARISONS
from porism.rules.buffers import BUFFERS as BUFFERS
from porism.rules.casts import CASTS, CONVERSIONS
from porism.rules.choices import CHOICE_LEMMAS, CHOICES, JOINED_CHOICES, TRUTH_LEMMAS
from porism.rules.comparisons import (
    BOUND_LEMMAS,
    BY_BOUNDS,
    FLOAT_COMPARISONS,
    INDEX_COMPARISONS,
    WRAPPING_COMPARISONS,
)
from porism.rules.dead import DEAD
from porism.rules.division import (
    INDEX_DIVISION,
    REPEATED_DIVISION,
    SELF_DIVISION,
    SIGNED_DIVISION,
    WRAPPING_DIVISION,
)
from porism.rules.divmod import DIVMOD
from porism.rules.fast_math import FAST_MATH as FAST_MATH
from porism.rules.fast_math import FLOAT_DIVISION
from porism.rules.folding import FOLDING
from porism.rules.identities import CHAINS, CONSTANTS_OUT, FLOAT_IDENTITIES, IDENTITIES
from porism.rules.index_dtype import INDEX_DTYPE
from porism.rules.invalid import ACCESSES, MASKS
from porism.rules.minmax import INDEX_MINMAX, MINMAX, WRAPPING_MINMAX
from porism.rules.power import POWERS
from porism.rules.reductions import (
    FAST_REDUCTIONS,
    LIFTING_EQUATIONS,
    LIFTING_LEMMAS,
    REDUCTIONS,
)
from porism.rules.split_reduction import SPLIT_REDUCTION
from porism.rules.vectors import GEP
from porism.rules.where_on_load import WHERE_ON_LOAD


def _named(name: str, *parts: RuleSet) -> RuleSet:
    return RuleSet(name, rules=[item for part in parts for item in part])


# Masks are first: all that follows takes it for granted that INVALID is outside of arithmetic.
ALGEBRA = _named(
    "algebra",
    MASKS,
    FOLDING,
    IDENTITIES,
    FLOAT_IDENTITIES,
    FLOAT_DIVISION,
    CHAINS,
    BOOLEANS,
    SELF_COMPARISONS,
    CHOICES,
    REPEATED_DIVISION,
    INDEX_DIVISION,
    WRAPPING_DIVISION,
    CASTS,
    INDEX_COMPARISONS,
    WRAPPING_COMPARISONS,
    FLOAT_COMPARISONS,
    DIVMOD,
)

SIMPLE = _named(
    "simple",
    ACCESSES,
    CONVERSIONS,
    CONSTANTS_OUT,
    SELF_DIVISION,
    SIGNED_DIVISION,
    BY_BOUNDS,
    MINMAX,
    INDEX_MINMAX,
    WRAPPING_MINMAX,
    JOINED_CHOICES,
    POWERS,
    DEAD,
)

SYMBOLIC = _named("symbolic", SIMPLE, GEP)

SYMBOLIC_LATE = _named("symbolic-late", SYMBOLIC, WHERE_ON_LOAD)

EVERYTHING = _named(
    "everything",
    ALGEBRA,
    SYMBOLIC_LATE,
    FAST_MATH,
    INDEX_DTYPE,
    BOUND_LEMMAS,
    CHOICE_LEMMAS,
    TRUTH_LEMMAS,
    BUFFERS,
    REDUCTIONS,
    FAST_REDUCTIONS,
    LIFTING_LEMMAS,
    LIFTING_EQUATIONS,
    SPLIT_REDUCTION,
)

install(ALGEBRA)
