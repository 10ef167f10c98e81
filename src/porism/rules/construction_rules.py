"""Construction rules: the algebra that is applied whenever a node is made.

Importing this module installs `ALGEBRA`, and loads no other rules: building a tensor graph needs
these alone. They are always true, always shrink, and are cheap; they leave alone what a user may
want to build as it is: loops of one iteration, loads and stores through INVALID, lanes.
"""

from porism.rewrite.construction import install
from porism.rewrite.rule import RuleSet
from porism.rules.addresses.validity import MASKS
from porism.rules.algebra.booleans import BOOLEANS, SELF_COMPARISONS
from porism.rules.algebra.casts import CASTS
from porism.rules.algebra.comparisons import (
    FLOAT_COMPARISONS,
    INDEX_COMPARISONS,
    WRAPPING_COMPARISONS,
)
from porism.rules.algebra.conditionals import WHERE_RULES
from porism.rules.algebra.constant_folding import FOLDING
from porism.rules.algebra.division import (
    DIVMOD,
    INDEX_DIVISION,
    REPEATED_DIVISION,
    WRAPPING_DIVISION,
)
from porism.rules.algebra.fast_math_rules import FLOAT_DIVISION
from porism.rules.algebra.identities import CHAINS, FLOAT_IDENTITIES, IDENTITIES


def named(name: str, *parts: RuleSet) -> RuleSet:
    """Return the rules of some sets, in this order, as one set."""
    return RuleSet(name, rules=[item for part in parts for item in part])


# Masks are first: all that follows takes it for granted that INVALID is outside of arithmetic.
ALGEBRA = named(
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

install(ALGEBRA)
