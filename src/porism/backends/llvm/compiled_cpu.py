"""Compiled CPU: the processor that LLVM compiles for, by its name and features.

That is the one that this process runs on, unless the setting `cpu` asks for fewer of its features,
or a tool compiles for another architecture. It is the same for the whole process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import llvmlite.binding as llvm

from porism.base.errors import PorismError
from porism.base.interrupts import run_off_main_thread
from porism.base.settings import settings


@dataclass(frozen=True, slots=True)
class Cpu:
    """A processor as LLVM describes it."""

    name: str
    """LLVM's name."""
    features: frozenset[str]
    """The features it has, by LLVM's names; of a level, those that the compiler asks for."""
    flags: str = ""
    """Features besides those that the name implies, as LLVM takes them."""
    triple: str = ""
    """LLVM's triple of the architecture and system; empty for this machine's."""
    scalable_bits: int = 0
    """Bits of the scalable vector registers, of which code assumes that width; 0 for none."""


_V2: Final = frozenset(("sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16"))
_V3: Final = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
_V4: Final = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}

LEVELS: Final = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
"""Features of the levels of the x86-64 ABI, from section 3.1.1 of its supplement."""

_chosen: list[Cpu] = []


def compiled_cpu() -> Cpu:
    """Return the processor that this process compiles for."""
    if not _chosen:
        level = settings.cpu
        _chosen.append(run_off_main_thread(lambda: _cpu_of_setting(level)))
    return _chosen[0]


def compile_for(cpu: Cpu) -> None:
    """Compile for another machine from now on: a tool calls this before anything is compiled."""
    assert not _chosen, "code was compiled for another processor already"
    _chosen.append(cpu)


def _cpu_of_setting(level: str) -> Cpu:
    """Return this machine's processor, or a level of it; a `PorismError` if it lacks the level."""
    host = llvm.get_host_cpu_features()
    present = frozenset(name for name, is_present in host.items() if is_present)
    if level == "native":
        return Cpu(llvm.get_host_cpu_name(), present, host.flatten())
    missing = LEVELS[level] - present
    if missing:
        raise PorismError(
            f"this machine cannot run code for {level}",
            where="the setting PORISM_CPU",
            why=f"its processor has no {', '.join(sorted(missing))}",
            fix="unset PORISM_CPU, or choose a lower level",
        )
    return Cpu(level, LEVELS[level])
