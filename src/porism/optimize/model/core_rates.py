"""Core rates: what a target's machine does in the time of one multiply-add on a whole vector.

That time is the unit of all estimates of contractions, a *slot*: arithmetic takes a slot for each
vector, whatever the width of a vector and however many of them a core starts in a cycle.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Final

from porism.base.target import Target

MIN_CACHE: Final = 1 << 15
"""Bytes of a cache whose size is not known."""


@dataclass(frozen=True, slots=True)
class CoreRates:
    """Rates of one core in a slot, and the sizes of what it reads from."""

    slot: float
    """Cycles."""
    unit_bits: int
    """Bits of an arithmetic unit: a part of a vector of more bits takes less than a slot."""
    vector_bits: int
    latency: float
    """Slots from a multiply-add to the next on the same accumulator."""
    load: float
    """Slots to load a whole vector from the L1 cache."""
    broadcast: float
    """Slots to load a scalar into all lanes."""
    l2_bytes: float
    """Bytes from the L2 cache in a slot."""
    l3_bytes: float
    """Bytes from the last cache in a slot."""
    memory_bytes: float
    """Bytes from memory in a slot, if all cores read."""
    miss: float
    """Slots to begin to access another part of memory."""
    fork_join: float
    """Slots to start a kernel on all cores and to wait for them."""
    l1: int
    l2: int
    last_cache: int
    registers: int
    cores: int
    l1_way: int
    """Bytes of a way of the L1 cache: addresses a multiple of it apart share a cache set."""
    l1_ways: int
    l2_way: int
    l2_ways: int
    prefetch_streams: int
    tlb_bytes: int
    """Bytes of the pages that can be accessed in turn without a miss of the first TLB."""

    def vector_cost(self, register_bits: int) -> float:
        """Return the slots of a multiply-add on a register of some bits."""
        return max(register_bits, self.unit_bits) / max(self.vector_bits, self.unit_bits)

    def same_set_fraction(self, stride: int | None, item: int) -> float:
        """Return which fraction of rows, `stride` elements apart, falls into the same L1 set."""
        return math.gcd((stride or 1) * item, self.l1_way) / self.l1_way

    def has_set_conflicts(self, stride: int, count: int) -> bool:
        """Return whether so many lines, `stride` bytes apart, exceed half the L2's ways."""
        return count * math.gcd(stride, self.l2_way) > self.l2_way * self.l2_ways // 2

    def pays_to_fork(self, slots: float) -> bool:
        """Return whether work of so many slots is done faster by all cores than by one."""
        return slots * (1 - 1 / self.cores) > self.fork_join


@functools.lru_cache(maxsize=32)
def core_rates(target: Target) -> CoreRates:
    """Return the rates of a core of a CPU."""
    machine, memory = target.machine, target.memory
    vector_bits = max(target.vector_bits, default=64)
    unit_bits = machine.fma_bits or vector_bits
    slot = max(vector_bits / unit_bits, 1.0) / machine.fma_units
    load = max(vector_bits / unit_bits, 1.0) / machine.load_units
    l1, l2 = max(memory.l1, MIN_CACHE), max(memory.l2, MIN_CACHE)
    return CoreRates(
        slot=slot,
        unit_bits=unit_bits,
        vector_bits=vector_bits,
        latency=machine.fma_latency / slot,
        load=load / slot,
        broadcast=1 / machine.load_units / slot,
        l2_bytes=machine.l2_bandwidth * slot,
        l3_bytes=machine.l3_bandwidth * slot,
        memory_bytes=machine.memory_bandwidth * slot,
        miss=machine.miss / slot,
        fork_join=machine.fork_join / slot,
        l1=l1,
        l2=l2,
        last_cache=memory.last_cache,
        registers=memory.registers,
        cores=target.cores,
        l1_way=max(l1 // machine.l1_ways, 1),
        l1_ways=machine.l1_ways,
        l2_way=max(l2 // machine.l2_ways, 1),
        l2_ways=machine.l2_ways,
        prefetch_streams=machine.prefetch_streams,
        tlb_bytes=machine.tlb_pages * machine.page,
    )
