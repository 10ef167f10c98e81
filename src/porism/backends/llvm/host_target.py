"""Host target: the CPU that this process compiles for, as a `Target`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Final

import llvmlite.binding as llvm

from porism.backends.llvm.compiled_cpu import Cpu, compiled_cpu
from porism.base.machines.host_machine import host_cores, host_machine, host_memory
from porism.base.machines.machine import Machine
from porism.base.settings import unoverridden
from porism.base.target import GENERIC_CPU, Target

_VECTOR_BITS: Final = (("avx512f", 512), ("avx", 256), ("sse2", 128), ("neon", 128))

_CPUS: Final[Mapping[str, Mapping[str, float]]] = {
    "znver1": {"fma_bits": 128},
    "znver4": {
        "fma_bits": 256, "l2_bandwidth": 20, "l3_bandwidth": 8, "miss": 16, "fork_join": 4000,
    },
    "znver5": {
        "l2_bandwidth": 60, "l3_bandwidth": 26, "memory_bandwidth": 6.8,
        "lone_memory_bandwidth": 10.7, "miss": 8, "fork_join": 2000,
    },
}  # fmt: skip
"""Quantities of CPUs by LLVM's name: widths of units from AMD's optimization guides, and the others
measured by `porism doctor --measure` on two cores of servers."""


_latest: tuple[object, Target | None] = (None, None)
"""The settings when the target was last asked for, and that target."""


def host_target() -> Target:
    """Return the target of this machine: its vector widths, ops, caches, rates and cores."""
    global _latest
    values, (known, target) = unoverridden(), _latest  # in hand: another thread may replace it
    if values is None or values is not known or target is None:
        cpu = compiled_cpu()
        target = _target_of(cpu, host_machine(**_known_quantities(cpu)), host_cores())
        _latest = unoverridden(), target
    return target


@functools.lru_cache(maxsize=16)
def _known_quantities(cpu: Cpu) -> Mapping[str, float]:
    """Return what is known of the processor that runs the code, whatever it is compiled for."""
    return _CPUS.get(cpu.name if cpu.triple else llvm.get_host_cpu_name(), {})


@functools.lru_cache(maxsize=16)
def _target_of(cpu: Cpu, machine: Machine, cores: int) -> Target:
    features = cpu.features
    widths = sorted({bits for name, bits in _VECTOR_BITS if name in features} | _scalable(cpu))
    extra_ops = {"MAX", "MIN", "RECIPROCAL", "TRUNC", "FLOOR", "CEIL", "ROUND"}
    if "fma" in features or "neon" in features:
        extra_ops.add("MULACC")
    if {"avx512f", "avx512vl"} <= features:
        extra_ops.add("LDEXP")
    # AVX-512's conversions to bf16 are not used: they flush subnormal numbers to 0.
    converts = {"f16"} if features & {"f16c", "neon"} else set()
    return dataclasses.replace(
        GENERIC_CPU,
        name="host",
        ops=GENERIC_CPU.ops | extra_ops,
        converts=frozenset(converts),
        vector_bits=tuple(widths) or (128,),
        memory=host_memory(32 if "avx512f" in features or "neon" in features else 16),
        machine=machine,
        cores=cores,
    )


def _scalable(cpu: Cpu) -> set[int]:
    return {cpu.scalable_bits} if cpu.scalable_bits else set()
