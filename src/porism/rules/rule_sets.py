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

`ALGEBRA` is in `construction_rules`. `EVERYTHING` has all of them and the lemmas that procedures
use: what is listed and proved.
"""

from porism.rules.addresses.index_dtype import INDEX_DTYPE
from porism.rules.addresses.validity import ACCESSES
from porism.rules.addresses.where_on_load import WHERE_ON_LOAD
from porism.rules.algebra.casts import CONVERSIONS
from porism.rules.algebra.comparisons import BOUND_LEMMAS, BY_BOUNDS
from porism.rules.algebra.conditionals import (
    BOOLEAN_WHERE_LEMMAS,
    WHERE_LEMMAS,
    WHERE_PROCEDURES,
)
from porism.rules.algebra.division import SELF_DIVISION, SIGNED_DIVISION
from porism.rules.algebra.fast_math_rules import FAST_MATH
from porism.rules.algebra.identities import CONSTANTS_OUT, POWERS
from porism.rules.algebra.lane_selection import GEP
from porism.rules.algebra.minmax import INDEX_MINMAX, MINMAX, WRAPPING_MINMAX
from porism.rules.buffers.buffer_rules import BUFFERS
from porism.rules.buffers.dead_loops import DEAD_LOOPS
from porism.rules.construction_rules import ALGEBRA as ALGEBRA
from porism.rules.construction_rules import named
from porism.rules.reductions.reduction_rules import (
    FAST_REDUCTIONS,
    LIFTING_EQUATIONS,
    LIFTING_LEMMAS,
    REDUCTIONS,
)
from porism.rules.reductions.reduction_splitting import SPLIT_REDUCTION

SIMPLE = named(
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

SYMBOLIC = named("symbolic", SIMPLE, GEP)

SYMBOLIC_LATE = named("symbolic-late", SYMBOLIC, WHERE_ON_LOAD)

EVERYTHING = named(
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
