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

from porism.rewrite.construction import install
from porism.rewrite.rule import RuleSet
from porism.rules.addresses.index_dtype import INDEX_DTYPE
from porism.rules.addresses.validity import ACCESSES, MASKS
from porism.rules.addresses.where_on_load import WHERE_ON_LOAD
from porism.rules.algebra.booleans import BOOLEANS, SELF_COMPARISONS
from porism.rules.algebra.casts import CASTS, CONVERSIONS
from porism.rules.algebra.comparisons import (
    BOUND_LEMMAS,
    BY_BOUNDS,
    FLOAT_COMPARISONS,
    INDEX_COMPARISONS,
    WRAPPING_COMPARISONS,
)
from porism.rules.algebra.conditionals import (
    BOOLEAN_WHERE_LEMMAS,
    WHERE_LEMMAS,
    WHERE_PROCEDURES,
    WHERE_RULES,
)
from porism.rules.algebra.constant_folding import FOLDING
from porism.rules.algebra.division import (
    DIVMOD,
    INDEX_DIVISION,
    REPEATED_DIVISION,
    SELF_DIVISION,
    SIGNED_DIVISION,
    WRAPPING_DIVISION,
)
from porism.rules.algebra.fast_math_rules import FAST_MATH, FLOAT_DIVISION
from porism.rules.algebra.identities import (
    CHAINS,
    CONSTANTS_OUT,
    FLOAT_IDENTITIES,
    IDENTITIES,
    POWERS,
)
from porism.rules.algebra.lane_selection import GEP
from porism.rules.algebra.minmax import INDEX_MINMAX, MINMAX, WRAPPING_MINMAX
from porism.rules.buffers.buffer_rules import BUFFERS
from porism.rules.buffers.dead_loops import DEAD_LOOPS
from porism.rules.reductions.reduction_rules import (
    FAST_REDUCTIONS,
    LIFTING_EQUATIONS,
    LIFTING_LEMMAS,
    REDUCTIONS,
)
from porism.rules.reductions.reduction_splitting import SPLIT_REDUCTION


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
    WHERE_RULES,
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
    WHERE_PROCEDURES,
    POWERS,
    DEAD_LOOPS,
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
    WHERE_LEMMAS,
    BOOLEAN_WHERE_LEMMAS,
    BUFFERS,
    REDUCTIONS,
    FAST_REDUCTIONS,
    LIFTING_LEMMAS,
    LIFTING_EQUATIONS,
    SPLIT_REDUCTION,
)

install(ALGEBRA)
