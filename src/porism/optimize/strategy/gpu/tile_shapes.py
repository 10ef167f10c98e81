"""Tile shapes: how a product of matrices is divided among blocks, warps and threads of a GPU.

A block computes a tile of the result, in steps along k: it copies a strip of both operands to
shared memory, and each thread, or each warp with a tensor core, computes its part. The estimate of
a step is the longest of arithmetic, reads of shared memory and reads of device memory; blocks that
a multiprocessor keeps at the same time hide the latency of each other's copies. The result may not
divide evenly into tiles, or the tiles among multiprocessors: so the shape is chosen by *waves*.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from porism.base.target import Target, TensorCore

COPY_LATENCY: Final = 0.5e-6
"""Seconds from the load of a strip to the barrier after its copy; chosen by hand."""

SHARED_BANKS_BYTES: Final = 128
"""Bytes of shared memory that a multiprocessor reads per cycle: 32 banks of 4."""

CACHE_FACTOR: Final = 1.5
"""How much more than the bandwidth of device memory the L2 cache has; chosen by hand."""

FULL_WARPS: Final = 8
"""Warps of a multiprocessor that keep its arithmetic units busy: two for each of its four parts."""

NOT_OVERLAPPED: Final = 0.25
"""The share of all parts of a step that is not hidden behind the longest one; chosen by hand."""

OTHER_REGISTERS: Final = 48
"""Registers of a thread beside accumulators and operands: addresses, copies; chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileShape:
    """The parts of a tile: of a thread, or of a warp with a tensor core, and how many there are."""

    part_rows: int
    part_columns: int
    rows: int
    """Threads or warps along the rows of the tile."""
    columns: int
    depth: int
    """Elements of k of one step."""
    core: TensorCore | None = None
    """The instruction; None if each thread multiplies and adds."""

    @property
    def block_rows(self) -> int:
        """Rows of the tile of a block."""
        return self.part_rows * self.rows

    @property
    def block_columns(self) -> int:
        """Columns of the tile of a block."""
        return self.part_columns * self.columns

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.rows * self.columns * (1 if self.core is None else self.core.threads)

    def shared_bytes(self, itemsize: int) -> int:
        """Return the bytes of both strips, without padding."""
        return self.depth * (self.block_rows + self.block_columns) * itemsize


def tile_shapes(target: Target, core: TensorCore | None) -> Iterator[TileShape]:
    """Yield the shapes that are considered for a target, large ones first."""
    if core is None:
        for part_rows, part_columns in ((8, 8), (8, 4), (4, 4), (2, 4), (2, 2)):
            for rows, columns in ((16, 16), (8, 16), (8, 8), (4, 8), (4, 4)):
                depth = 16
                yield TileShape(
                    part_rows=part_rows,
                    part_columns=part_columns,
                    rows=rows,
                    columns=columns,
                    depth=depth,
                )
        return
    for down, across in ((4, 4), (4, 8), (2, 4), (2, 2), (1, 2), (1, 1)):
        for rows, columns in ((2, 4), (2, 2), (1, 2), (2, 1), (1, 1)):
            for steps in (2, 1):
                yield TileShape(
                    part_rows=down * core.m,
                    part_columns=across * core.n,
                    rows=rows,
                    columns=columns,
                    depth=steps * core.k,
                    core=core,
                )


def estimated_seconds(
    shape: TileShape, target: Target, sizes: tuple[int, int, int, int], itemsize: int
) -> float:
    """Return the time of a product: (batch, rows, columns, k), with factors of `itemsize` bytes."""
    gpu, (batch, m, n, k) = target.gpu, sizes
    assert gpu is not None
    blocks = batch * -(-m // shape.block_rows) * -(-n // shape.block_columns)
    parts = shape.rows * shape.columns
    registers = shape.part_rows * shape.part_columns
    reads = parts * shape.depth * (shape.part_rows + shape.part_columns) * itemsize
    rate = gpu.fma
    if shape.core is not None:
        registers //= shape.core.threads
        rate = gpu.tensor_fma * 2 / max(itemsize, 1)
    else:  # half of the lanes of a warp read the same words as another
        reads //= 2
    kept = gpu.blocks_per_sm(
        shape.threads, registers + OTHER_REGISTERS, shape.shared_bytes(itemsize), target.warp
    )
    if not kept:
        return math.inf
    together = min(kept, -(-blocks // target.cores))
    warps = -(-shape.threads // target.warp)
    busy = min(1.0, together * warps / FULL_WARPS) * shape.threads / (warps * target.warp)
    volume = shape.block_rows * shape.block_columns * shape.depth
    parts_of_step = (
        volume * target.cores / (rate * busy),
        reads / (SHARED_BANKS_BYTES * gpu.clock),
        shape.shared_bytes(itemsize) * target.cores / (gpu.bandwidth * CACHE_FACTOR),
    )
    step = max(parts_of_step) + NOT_OVERLAPPED * sum(parts_of_step)
    rounds = -(-blocks // (target.cores * together))
    steps = -(-k // shape.depth)
    return rounds * steps * max(together * step, step + COPY_LATENCY)
