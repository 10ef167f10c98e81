"""Host target: the CPU that this process compiles for, as a `Target`."""

from __future__ import annotations

import dataclasses
import functools
import os
from pathlib import Path
from typing import Final

from porism.backends.llvm.compiled_cpu import Cpu, compiled_cpu
from porism.base.target import GENERIC_CPU, Memory, Target

_VECTOR_BITS: Final = (("avx512f", 512), ("avx", 256), ("sse2", 128), ("neon", 128))

_FMA_BITS: Final = {"znver1": 128, "znver4": 256}
"""Widths of arithmetic units in bits, of CPUs whose vector registers are twice as wide, by LLVM's
name; from AMD's optimization guides. Others take a whole register at once."""


@functools.cache
def host_target() -> Target:
    """Return the target of this machine: its vector widths, ops, caches and cores."""
    cpu = compiled_cpu()
    features = cpu.features
    widths = sorted({bits for name, bits in _VECTOR_BITS if name in features} | _scalable(cpu))
    extra_ops = {"MAX", "MIN", "RECIPROCAL", "TRUNC", "FLOOR", "CEIL", "ROUND"}
    if "fma" in features or "neon" in features:
        extra_ops.add("MULACC")
    if {"avx512f", "avx512vl"} <= features:
        extra_ops.add("LDEXP")
    # AVX-512's conversions to bf16 are not used: they flush subnormal numbers to 0.
    converts = {"f16"} if features & {"f16c", "neon"} else set()
    registers = 32 if "avx512f" in features or "neon" in features else 16
    return dataclasses.replace(
        GENERIC_CPU,
        name="host",
        ops=GENERIC_CPU.ops | extra_ops,
        converts=frozenset(converts),
        vector_bits=tuple(widths) or (128,),
        fma_bits=_FMA_BITS.get(cpu.name, 0),
        memory=Memory(
            l1=_cache_bytes(1, "Data", 32 << 10),
            l2=_cache_bytes(2, "Unified", 1 << 20),
            l3=_cache_bytes(3, "Unified", 0),
            registers=registers,
        ),
        cores=os.cpu_count() or 1,
    )


def _scalable(cpu: Cpu) -> set[int]:
    return {cpu.scalable_bits} if cpu.scalable_bits else set()


def _cache_bytes(level: int, kind: str, otherwise: int) -> int:
    """Return the size of a cache in bytes from sysfs, or `otherwise` if it is not known."""
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if int((folder / "level").read_text()) != level:
                continue
            if (folder / "type").read_text().strip() != kind:
                continue
            size = (folder / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if size.endswith("K") and size[:-1].isdigit():
            return int(size[:-1]) << 10
    return otherwise
