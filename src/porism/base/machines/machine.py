"""Machine: what a core of a CPU does in a cycle, as data that every cost estimate is computed from.

A value is a quantity with a unit and a source. The defaults are for a current x86-64 or ARM core; a
backend detects some, `porism doctor --measure` measures others and stores them, and the setting
`machine` overrides any of them by name.

>>> Machine().override("l2_bandwidth=48,fma_bits=256").l2_bandwidth
48.0
>>> print(Machine().describe("fork_join"))
3000 cycles, default: measured on two cores of an x86-64 server of 2022
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from porism.base.errors import TargetError

MEASURED: Final = "measured on two cores of an x86-64 server of 2022"
"""The source of defaults that no manual states (`docs/machine.md`)."""


def quantity(default: float, unit: str, source: str) -> Any:
    """Return a field of `Machine` with a unit and the source of its default."""
    return field(default=default, metadata={"unit": unit, "source": source})


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The rates and latencies of one core, and of what all cores share."""

    fma_bits: int = quantity(0, "bits", "optimization guides; 0: as wide as a vector register")
    """Bits of a vector register that an arithmetic unit takes at once."""
    fma_units: float = quantity(2.0, "units", "x86-64 cores since 2013, and most ARM cores")
    """Multiply-adds of `fma_bits` that a core starts in a cycle."""
    fma_latency: float = quantity(4.0, "cycles", "most x86-64 and ARM cores since 2015")
    """Cycles from a multiply-add to the next on the same accumulator."""
    load_units: float = quantity(2.0, "units", "x86-64 cores since 2013, and most ARM cores")
    """Loads of `fma_bits` from the L1 cache that a core starts in a cycle."""
    l1_ways: int = quantity(8, "lines", "the least of x86-64 cores since 2010")
    """Lines of a set of the L1 cache."""
    l2_ways: int = quantity(8, "lines", "the least of x86-64 cores since 2010")
    """Lines of a set of the L2 cache."""
    l2_bandwidth: float = quantity(32.0, "bytes a cycle", MEASURED)
    """Bytes that a core reads from its L2 cache in a cycle."""
    l3_bandwidth: float = quantity(12.0, "bytes a cycle", MEASURED)
    """The same from the last cache, if all cores read."""
    memory_bandwidth: float = quantity(4.5, "bytes a cycle", MEASURED)
    """Bytes that a core reads from memory in a cycle, if all cores read."""
    lone_memory_bandwidth: float = quantity(5.6, "bytes a cycle", MEASURED)
    """The same of one core alone."""
    miss: float = quantity(16.0, "cycles", MEASURED)
    """Cycles to begin to access another part of memory, of which no prefetcher knows."""
    prefetch_streams: int = quantity(8, "streams", MEASURED)
    """Streams that the hardware prefetcher of the L1 cache follows."""
    page: int = quantity(4096, "bytes", "x86-64, and most ARM systems")
    """Bytes of a page."""
    tlb_pages: int = quantity(64, "pages", "the least of x86-64 cores since 2010")
    """Pages that can be accessed in turn without a miss of the first TLB."""
    fork_join: float = quantity(3000.0, "cycles", MEASURED)
    """Cycles to start a kernel on all cores and to wait for the last of them."""

    def __post_init__(self) -> None:
        for name, row in fields().items():
            value = getattr(self, name)
            least = 0 if row.default == 0 else 1e-3
            if not (math.isfinite(value) and least <= value <= MAX_VALUE):
                raise TargetError(
                    f"{name} is {value}",
                    where="the description of the machine",
                    why=f"allowed is: a number of {row.metadata['unit']} from {least} to 10⁹",
                    fix="correct it, or measure it by `porism doctor --measure`",
                )

    def override(self, text: str) -> Machine:
        """Return this machine with the values of a text such as `l2_bandwidth=48,fma_bits=256`."""
        return self.updated({name: float(value) for name, value in assignments(text)})

    def updated(self, values: Mapping[str, float]) -> Machine:
        """Return this machine with other values, rounded where the quantity is a whole number."""
        typed: dict[str, Any] = {
            name: round(value) if isinstance(fields()[name].default, int) else float(value)
            for name, value in values.items()
        }
        return dataclasses.replace(self, **typed)

    def describe(self, name: str) -> str:
        """Return a value with its unit and where it is from."""
        row, value = fields()[name], getattr(self, name)
        source = f"default: {row.metadata['source']}" if value == row.default else "of this machine"
        return f"{value:g} {row.metadata['unit']}, {source}"


MAX_VALUE: Final = 1e9
"""The largest value of a quantity, to refuse what is no measurement."""

_ASSIGNMENT: Final = re.compile(r"\s*([a-z][a-z0-9_]*)\s*=\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*")


def fields() -> Mapping[str, dataclasses.Field[Any]]:
    """Return the fields of `Machine` by name."""
    return _FIELDS


_FIELDS: Final = {row.name: row for row in dataclasses.fields(Machine)}


def assignments(text: str) -> list[tuple[str, str]]:
    """Return the names and numbers of a text; raise ValueError if one is not well formed.

    >>> assignments("miss=20, page=16384")
    [('miss', '20'), ('page', '16384')]
    """
    pairs = []
    for part in filter(str.strip, text.split(",")):
        match = _ASSIGNMENT.fullmatch(part)
        if match is None or match[1] not in _FIELDS:
            raise ValueError(f"{part!r} is no quantity of a machine and its value")
        pairs.append((match[1], match[2]))
    return pairs
