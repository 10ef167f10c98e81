"""Tile plan: how one contraction is computed, as data that prints, compares, and is costed.

As in a GEMM after Goto and BLIS, the innermost loop over k updates a tile of accumulators:

    for each panel of columns: pack it        around the tile: output loops, one of them parallel
        for each m rows:                      the m loop
            for k:                            the reduction, one loop if the strides allow it
                c[m, n * lanes] += a[m, k] * b[k, n * lanes]      unrolled m × n, vectorized

- The *vectorized loop* is an output loop. Operands along it are loaded as vectors; what does not
  depend on it is broadcast. If results are not contiguous along it, the epilogue transposes them.
- The *m loop* is one that only the broadcast operands depend on: unrolled and jammed, so that a
  vector is loaded once for m rows.
- The *n loop* is one that only the vector operands depend on, such as the rows of an image: also
  unrolled, so that a broadcast scalar serves n times as many vectors.
- An operand is *packed* if the panel that all rows read is copied into local memory in the order of
  the inner loops. Where windows of a convolution overlap, the panel holds what they share once.
- Some iterations of an outer loop may be *flattened*: merged with the vectorized loop, where that
  fits no vectors, as in small images. The windows of these rows are then packed each on its own.

Where all operands are contiguous along k, as in a product with a transposed matrix, the vectors may
be along k instead: a tile of m × n dot products, each a vector of partial sums.
"""

from __future__ import annotations

from dataclasses import dataclass

from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.optimize.analysis.contraction_accesses import Operand


@dataclass(frozen=True, slots=True)
class TilePlan:
    """A register tile of m × (n · lanes) results, or of m × n dot products."""

    vector_loop: UOp
    lanes: int
    """Iterations of the vectorized loop in a tile: one or several vectors."""
    m_loop: UOp | None = None
    m: int = 1
    n_loop: UOp | None = None
    n: int = 1
    packed: tuple[Operand, ...] = ()
    """Operands that are packed into panels."""
    vectorizes_k: bool = False
    """Whether the vectorized loop is a loop of the reduction."""
    parallelizes_m: bool = False
    """Whether the m loop, and no other, is divided among the cores."""
    flattened_loop: UOp | None = None
    """An output loop around the vectorized one that is merged with it."""
    flattened: int = 1
    """Iterations of it that are merged."""
    is_transposed: bool = False
    """Whether the results are contiguous along the m loop, and not along the vectorized one."""
    shared_loop: UOp | None = None
    """For a transposed tile: a loop of which some iterations share a packed copy of the windows."""
    shared: int = 1
    """Iterations of it that do."""

    def __str__(self) -> str:
        """Return the loops of a tile with their factors, and what is packed.

        For example `r1 × 32 vectorized, r0 × 6, parallel; buffer 2 packed`.
        """
        words = [f"{show(self.vector_loop)} × {self.lanes} vectorized"]
        pairs = (
            (self.m_loop, self.m),
            (self.n_loop, self.n),
            (self.flattened_loop, self.flattened),
        )
        words += [f"{show(loop)} × {n}" for loop, n in pairs if loop is not None and n > 1]
        words += ["transposed"] * self.is_transposed + ["parallel in m"] * self.parallelizes_m
        packed = ", ".join(f"buffer {o.buffer}" for o in self.packed)
        return ", ".join(words) + (f"; {packed} packed" if packed else "")


@dataclass(frozen=True, slots=True)
class Cycles:
    """The estimated cycles of a plan by part, of all cores together; the parts add up."""

    arithmetic: float = 0.0
    """Multiply-adds on registers."""
    loads: float = 0.0
    """Waiting for the load ports, or for the latency of multiply-adds."""
    caches: float = 0.0
    """Waiting for bytes from the L2 cache and from what is behind it."""
    memory: float = 0.0
    """Operands that are read again, and lines of results that are read before they are written."""
    packing: float = 0.0
    epilogue: float = 0.0
    """From the accumulators to the stored results, and starting the next tile."""
    imbalance: float = 0.0
    """Cores that wait for others."""

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return (
            self.arithmetic + self.loads + self.caches + self.memory + self.packing
            + self.epilogue + self.imbalance
        )  # fmt: skip

    def __str__(self) -> str:
        """Return the total, and the parts that are not 0, in thousands of cycles."""
        parts = {name: getattr(self, name) for name in self.__slots__}
        rows = [f"{name} {cycles / 1000:.1f}" for name, cycles in parts.items() if cycles]
        return f"{self.total / 1000:.1f} thousand cycles: {', '.join(rows)}"
