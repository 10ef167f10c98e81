"""The algebra: rule sets by name, and where each is used.

| set       | where                                                                  |
|-----------|------------------------------------------------------------------------|
| `ALGEBRA` | at construction: what is always true and always simpler                |
"""

from porism.rewrite.construct import install
from porism.rules.booleans import BOOLEANS, CHOICES, SELF_COMPARISONS
from porism.rules.divmod import DIVMOD
from porism.rules.folding import FOLDING
from porism.rules.identities import CHAINS, FLOAT_IDENTITIES, IDENTITIES

ALGEBRA = (
    FOLDING
    + IDENTITIES
    + FLOAT_IDENTITIES
    + CHAINS
    + BOOLEANS
    + SELF_COMPARISONS
    + CHOICES
    + DIVMOD
)

install(ALGEBRA)
