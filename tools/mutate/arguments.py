"""Arguments: why no case can make a difference to a condition that is mutated so.

A mutant that has an argument here, and that no case tells from the function, is listed as `argued`
and not as `alike` or `unreached`. One that a case does tell has another reason: its argument is
false, and a test says so.
"""

from __future__ import annotations

from typing import Final

_DIVISION: Final = "lower.decompose.integer_division."

_GROUPS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "`multiplier` returns an odd m: half of an even one, with a shift of one less, satisfies "
        "the same inequality. A product that is a power of two has m = 1, and is `largest`, "
        "which the type holds.",
        (
            f"{_DIVISION}quotient: largest * m <= kind.max -> largest * m <= kind.max + 1",
            f"{_DIVISION}quotient: largest * m <= own.max -> largest * m <= own.max + 1",
            f"{_DIVISION}quotient: largest * m <= wide.max -> largest * m <= wide.max + 1",
            f"{_DIVISION}quotient: m < 1 << 64 -> m <= 1 << 64",
        ),
    ),
    (
        "The factors of 2**32 - 1 and 2**64 - 1 are few, and of no pair of them is one the "
        "multiplier of a divisor for the other, where the other has half the bits.",
        (f"{_DIVISION}quotient: largest * m <= wide.max -> largest * m < wide.max",),
    ),
    (
        "Of all pointers, only an INDEX has a source that is an index.",
        (
            "rules.addresses.validity._is_invalid_access: pointer.op is ops.INDEX and "
            "any((s.op is ops.INVALID for s in pointer.src[1:])) -> "
            "any((s.op is ops.INVALID for s in pointer.src[1:]))",
        ),
    ),
    (
        "No type has two bits.",
        (
            "rules.algebra.constant_folding._fold_lanes: dtype.bits > 1 -> dtype.bits > 1 + 1",
            "rules.algebra.constant_folding.fold: dtype.bits > 1 -> dtype.bits > 1 + 1",
        ),
    ),
    (
        "An infinity less 1 is the infinity.",
        (
            "lower.decompose.missing_ops._double_double_mulacc: "
            "size < math.inf -> size < math.inf - 1",
            "rules.reductions.reduction_rules._preserves_order: "
            "0 < factor.arg < math.inf -> 0 < factor.arg < math.inf - 1",
        ),
    ),
)

ARGUMENTS: Final = {name: argument for argument, names in _GROUPS for name in names}
"""The argument for each mutant that has one, by its name."""
