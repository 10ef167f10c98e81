"""Machine: what decompositions ask of the machine they are for, beyond its `Target`."""

from __future__ import annotations

from dataclasses import dataclass

from porism.base.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A target, and how its instructions, or the compiler behind them, behave at the edges."""

    target: Target
    fuse: bool = False
    """Whether x*y + z of floats becomes MULACC, which rounds once instead of twice."""
    total_division: bool = False
    """Whether CDIV and CMOD by zero give 0, and the least integer by -1 wraps; else they trap."""
    total_shifts: bool = False
    """Whether a shift by the width or more moves everything out; else its result is anything."""
    saturating_casts: bool = False
    """Whether a float out of range becomes the nearest integer, and NaN 0; else anything."""
    divides_by_constants: bool = False
    """Whether a compiler makes products of divisions by constants: then only those products are
    made here that fit the width, which it cannot know."""
    shifts_for_products: bool = False
    """Whether a product with a power of two becomes a shift."""

    @property
    def fused(self) -> bool:
        """Whether there is an instruction for x*y + z."""
        return "MULACC" in self.target.ops

    def has(self, name: str) -> bool:
        return name in self.target.ops
