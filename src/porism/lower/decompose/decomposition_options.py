"""Decomposition options: what decompositions need to know of a machine beyond its `Target`."""

from __future__ import annotations

from dataclasses import dataclass

from porism.base.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A target, and how its instructions or the compiler behind it treat the edge cases."""

    target: Target
    fuse: bool = False
    """Whether x*y + z of floats becomes MULACC, which rounds once instead of twice."""
    total_division: bool = False
    """Whether CDIV and CMOD by zero give 0, and the least integer by -1 wraps; else they trap."""
    total_shifts: bool = False
    """Whether a shift by the width or more gives 0 or the sign; else its result is undefined."""
    saturating_casts: bool = False
    """Whether casting a float out of range saturates, and NaN gives 0; else it is undefined."""
    divides_by_constants: bool = False
    """Whether the compiler behind strength-reduces divisions by constants: then only those are
    reduced here whose bounds allow a product of the same width, which it cannot know."""
    shifts_for_products: bool = False
    """Whether a product with a power of two becomes a shift."""

    @property
    def fused(self) -> bool:
        """Whether the target has a fused multiply-add."""
        return "MULACC" in self.target.ops

    def has(self, name: str) -> bool:
        """Return whether the target has an instruction for an op."""
        return name in self.target.ops
