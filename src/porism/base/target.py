"""Targets: what a machine can do, as data. Passes read a `Target`; they never import a backend.

>>> GENERIC_CPU.lanes(32), GENERIC_CPU.load_lanes(32)
((4,), (1, 2, 4))
>>> "SIN" in GENERIC_CPU.ops
False
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from porism.base import dtypes
from porism.base.errors import TargetError
from porism.base.gpu import Gpu
from porism.base.machines.machine import Machine

KIB: Final = 1024
MIB: Final = 1024 * KIB

DTYPES: Final = frozenset(dtype.name for dtype in dtypes.scalars() if dtype is not dtypes.index)
"""The dtypes a machine can have. `index` is none of them: lowering gives it a width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorCore:
    """An instruction that adds the product of an m×k and a k×n matrix to an m×n matrix."""

    m: int
    n: int
    k: int
    dtype_in: str
    dtype_out: str
    threads: int = 1
    """Threads that hold the matrices and execute the instruction together."""

    def __post_init__(self) -> None:
        where = f"tensor core {self.m}×{self.n}×{self.k} {self.dtype_in} → {self.dtype_out}"
        for name in ("m", "n", "k", "threads"):
            _require(
                getattr(self, name) > 0, f"{name} is {getattr(self, name)}", where, "more than 0"
            )
        _require_dtypes((self.dtype_in, self.dtype_out), where)


ASSUMED_LAST_CACHE: Final = 1 << 24
"""Bytes of the last-level cache where it is not known; chosen by hand."""

CACHE_LINE: Final = 64
"""Bytes of a cache line, on x86-64 and most ARM cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The sizes of caches and memories in bytes; 0 where the machine has no such memory."""

    l1: int = 0
    """Cache of one core."""
    l2: int = 0
    """Cache of one core of a CPU, of the whole device on a GPU."""
    l3: int = 0
    """Cache shared by all cores."""
    local: int = 0
    """Shared memory of one thread block."""
    registers: int = 16
    """Number of registers of one thread: vector registers on a CPU, 32-bit ones on a GPU."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            _require(value >= 0, f"{name} is {value}", "memory", "a size of 0 or more")

    @property
    def last_cache(self) -> int:
        """Return the bytes of the cache in front of DRAM; a common size where it is not known."""
        return self.l3 or ASSUMED_LAST_CACHE


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageModel:
    """What scheduling assumes of storing a value, against computing it again at each use.

    Costs are per element, in additions of floats in a vectorized loop. All values are chosen by
    hand for CPUs: they only have to tell a cached row from a tensor in memory.
    """

    store_global: float = 8.0
    """Cost of writing an element to memory, by a kernel of its own."""
    load_global: float = 4.0
    """Cost of reading it back."""
    store_local: float = 1.0
    """Cost of writing an element to a local buffer, inside the loops of a kernel."""
    load_local: float = 1.0
    """Cost of reading it back."""
    local_bytes: int = 256 * KIB
    """The largest local buffer, in bytes: it should stay in the L2 cache of a core."""
    local_elements: int = 1 << 18
    """The most elements read or computed per iteration of the loops around a local buffer: they
    are read again in every iteration, so they should stay in a cache as well."""
    parallel_iterations: int = 16
    """Iterations that the outermost loops of a kernel should have, to occupy all cores."""
    serial_work: int = 1 << 15
    """Work, in additions, that one core does as fast as many: starting threads takes as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One machine. Ops and dtypes that it does not list are decomposed or emulated by lowering."""

    name: str
    ops: frozenset[str]
    """Names of the arithmetic ops with an instruction of their own."""
    native_ops: frozenset[tuple[str, str]] = frozenset()
    """Further ops that have an instruction for one dtype alone, as (op, dtype)."""
    dtypes: frozenset[str]
    """Names of the dtypes with arithmetic of their own."""
    converts: frozenset[str] = frozenset()
    """Names of the other dtypes that it converts from and to f32, as IEEE 754 says."""
    index_bits: int = 64
    """Width of the integers that address memory."""
    vector_bits: tuple[int, ...] = ()
    """Widths of vector registers in bits, ascending; none where arithmetic is scalar."""
    load_bytes: tuple[int, ...] = (1, 2, 4, 8)
    """Widths of one load or store in bytes, ascending."""
    memory: Memory = field(default_factory=Memory)
    machine: Machine = field(default_factory=Machine)
    """Rates and latencies of a core of a CPU, by which loop schedules are compared."""
    storage: StorageModel = field(default_factory=StorageModel)
    """Costs and limits by which scheduling decides which values are stored."""
    cores: int = 1
    """Cores of a CPU, multiprocessors of a GPU."""
    grid: tuple[int, ...] = ()
    """Most blocks in each dimension; empty where there is no grid."""
    block: tuple[int, ...] = ()
    """Most threads of a block in each dimension; empty where blocks have one thread."""
    block_threads: int = 1
    """Most threads of a block in all."""
    warp: int = 1
    """Threads that run in lockstep."""
    tensor_cores: tuple[TensorCore, ...] = ()
    predicated_store: bool = False
    """Whether a store can be masked; if not, a gated store needs a branch."""
    gpu: Gpu | None = None
    """The resources of a multiprocessor; None for a CPU, and for a GPU that nobody described."""

    def __post_init__(self) -> None:
        where = f"target {self.name!r}"
        _require(
            self.name.isidentifier(), "the name is no identifier", where, "letters, digits and _"
        )
        for op in self.ops:
            _require(op.isidentifier(), f"the op {op!r} is no name", where, "the name of an op")
        _require_dtypes(self.dtypes | self.converts, where)
        _require_dtypes((dtype for _, dtype in self.native_ops), where)
        _require(
            self.index_bits in (32, 64),
            f"index_bits is {self.index_bits}",
            where,
            "either 32 or 64",
        )
        for name in ("vector_bits", "load_bytes"):
            widths: tuple[int, ...] = getattr(self, name)
            sound = all(w > 0 and w & (w - 1) == 0 for w in widths)
            _require(sound, f"{name} is {widths}", where, "powers of two")
            _require(
                widths == tuple(sorted(set(widths))), f"{name} is {widths}", where, "ascending"
            )
        _require(bool(self.load_bytes), "load_bytes is empty", where, "at least one width")
        for name in ("cores", "block_threads", "warp"):
            value = getattr(self, name)
            _require(value > 0, f"{name} is {value}", where, "more than 0")
        for name in ("grid", "block"):
            sizes: tuple[int, ...] = getattr(self, name)
            sound = len(sizes) <= 3 and all(size > 0 for size in sizes)
            _require(sound, f"{name} is {sizes}", where, "up to three sizes, each more than 0")
        _require(
            max(self.block, default=1) <= self.block_threads <= math.prod(self.block),
            f"block is {self.block} with {self.block_threads} threads in all",
            where,
            "in all no less than in one dimension, no more than their product",
        )
        _require(
            self.block_threads % self.warp == 0,
            f"block_threads is {self.block_threads} with a warp of {self.warp}",
            where,
            "whole warps",
        )

    def lanes(self, bits: int) -> tuple[int, ...]:
        """Return how many elements of `bits` each vector register width holds, if more than one."""
        return tuple(width // bits for width in self.vector_bits if width >= 2 * bits)

    def load_lanes(self, bits: int) -> tuple[int, ...]:
        """Return how many elements of `bits` one load or store can move."""
        return tuple(8 * width // bits for width in self.load_bytes if 8 * width >= bits)


def _require(sound: bool, what: str, where: str, allowed: str) -> None:
    if not sound:
        raise TargetError(
            what,
            where=where,
            why=f"allowed is: {allowed}",
            fix="correct the description of the machine",
        )


def _require_dtypes(names: Iterable[str], where: str) -> None:
    for name in names:
        _require(
            name in DTYPES, f"{name!r} is no dtype of a machine", where, ", ".join(sorted(DTYPES))
        )


# Names of rows of the op table.
# fmt: off
_PLAIN_OPS: Final = frozenset((
    "ADD", "SUB", "MUL", "NEG", "CDIV", "CMOD", "FDIV", "SQRT",
    "AND", "OR", "XOR", "NOT", "SHL", "SHR",
    "LT", "LE", "GT", "GE", "EQ", "NE", "WHERE", "CAST", "BITCAST",
))
# fmt: on
_INTEGERS: Final = frozenset(("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"))

GENERIC_CPU: Final = Target(
    name="generic_cpu",
    ops=_PLAIN_OPS,
    dtypes=_INTEGERS | {"f32", "f64"},
    vector_bits=(128,),
    load_bytes=(1, 2, 4, 8, 16),
    memory=Memory(l1=32 * KIB, l2=256 * KIB, registers=16),
)
"""What every current 64-bit CPU has; a backend describes the actual one by detection."""
