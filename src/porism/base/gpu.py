"""GPU facts: what a multiprocessor of a GPU holds, as data that heuristics and renderers read.

A `Target` of a GPU has a `Gpu`. Nothing here is about one vendor but `arch` and `isa`, which the
renderer of that vendor understands.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """The resources of a GPU beyond the limits of one block."""

    arch: str
    """The name of the instruction set, as the vendor's assembler takes it, such as `sm_90a`."""
    isa: int
    """The version of the assembly language times ten: the oldest that has what is used."""
    sm_threads: int
    """Threads that a multiprocessor keeps at a time."""
    sm_blocks: int
    """Blocks that a multiprocessor keeps at a time."""
    sm_registers: int
    """32-bit registers of a multiprocessor."""
    sm_shared: int
    """Bytes of shared memory of a multiprocessor."""
    block_overhead: int = 1024
    """Bytes of shared memory that each block takes beside its own."""
    clock: float
    """Cycles a second of a multiprocessor, boosted, by the data sheet."""
    bandwidth: float
    """Bytes a second from device memory, by the data sheet."""
    fma: float
    """f32 multiply-adds a second outside of tensor cores, by the data sheet (half its FLOP/s)."""
    tensor_fma: float
    """f16 multiply-adds a second of tensor cores, dense, summed in f32, by the data sheet."""

    def blocks_per_sm(self, threads: int, registers: int, shared: int, warp: int) -> int:
        """Return how many blocks a multiprocessor keeps: the occupancy.

        `threads` are those of a block, `registers` those of a thread, `shared` the bytes of a
        block.

        >>> from porism.base.gpu_targets import A100
        >>> A100.gpu.blocks_per_sm(256, 32, 0, 32), A100.gpu.blocks_per_sm(256, 128, 48 << 10, 32)
        (8, 2)
        """
        warps = -(-threads // warp)
        registers_of_warp = -(-registers * warp // REGISTER_UNIT) * REGISTER_UNIT
        limits = [
            self.sm_blocks,
            self.sm_threads // (warps * warp),
            self.sm_registers // max(warps * registers_of_warp, 1),
        ]
        if shared:
            limits.append(self.sm_shared // (shared + self.block_overhead))
        return max(min(limits), 0)


REGISTER_UNIT = 256
"""Registers are given to warps in units of so many (CUDA's occupancy calculator, 8.0 to 9.0)."""
