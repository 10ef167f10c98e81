"""Machine measurement: the quantities of `Machine` that no system reports, measured in two seconds.

Small kernels in LLVM IR run on one core, or on all at once, each in a thread of its own:

- a chain of dependent integer operations takes a cycle for each, which gives the length of a cycle;
- chains of multiply-adds on registers, one or twelve, in whole and in half vectors;
- sums of a stretch of memory again and again: of the size of each cache, and larger than all;
- an empty kernel on all threads.

A quantity is the best of some rounds: what other programs do meanwhile makes the others worse.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from porism.backends.llvm.host_target import host_target
from porism.base.machines.host_machine import store_measurement
from porism.base.target import Target
from porism.engine.run.program import JOB_BYTES, thread_pool

ROUNDS: Final = 7
"""Rounds of which the best counts."""

SECONDS: Final = 0.004
"""Time of one round, about."""

CHAINS: Final = 12
"""Multiply-adds that do not wait for each other: more than any core's units times latency."""

MAX_BYTES: Final = 1 << 29
"""Bytes that are read from memory, at most, by all cores together."""

Kernel = Callable[[int, int, int, int], None]
"""Takes an address, a count, where to store a result, and a mask of offsets from the address."""


# -- kernels ---------------------------------------------------------------------------------------


def cycle_text() -> str:
    """Return the IR of a kernel of 16 dependent integer operations in each iteration."""
    steps, last = [], "%x"
    for k in range(0, 16, 2):
        steps += [f"  %a{k} = xor i64 {last}, %i", f"  %b{k} = add i64 %a{k}, %i"]
        last = f"%b{k}"
    return _loop("cycle", "%x = phi i64 [ 1, %entry ], [ %b14, %loop ]", steps, "i64 %b14", 1)


def multiply_add_text(lanes: int, chains: int) -> str:
    """Return the IR of a kernel of some chains of multiply-adds of 32-bit floats."""
    vector = f"<{lanes} x float>"
    phis = [
        f"  %a{k} = phi {vector} [ zeroinitializer, %entry ], [ %b{k}, %loop ]"
        for k in range(chains)
    ]
    call = f"call {vector} @llvm.fma.v{lanes}f32({vector} %y, {vector} %y, {vector}"
    steps = [f"  %b{k} = {call} %a{k})" for k in range(chains)]
    total = _sum(vector, "fadd", chains)
    declared = f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})\n"
    entry = f"  %y = load {vector}, ptr %result, align 64"
    return declared + _loop("fma", "\n".join(phis), steps, f"{vector} %s", 1, entry, total)


def read_text(lanes: int) -> str:
    """Return the IR of a kernel that reads memory, eight vectors at a time, again and again."""
    vector, unrolled = f"<{lanes} x i32>", 8
    phis = [
        f"  %a{k} = phi {vector} [ zeroinitializer, %entry ], [ %b{k}, %loop ]"
        for k in range(unrolled)
    ]
    steps = []
    for k in range(unrolled):
        steps += [
            f"  %n{k} = add i64 %i, {k * lanes * 4}",
            f"  %o{k} = and i64 %n{k}, %mask",
            f"  %p{k} = getelementptr i8, ptr %data, i64 %o{k}",
            f"  %v{k} = load {vector}, ptr %p{k}, align 64",
            f"  %b{k} = xor {vector} %a{k}, %v{k}",
        ]
    total = _sum(vector, "xor", unrolled)
    return _loop("read", "\n".join(phis), steps, f"{vector} %s", unrolled * lanes * 4, "", total)


def _sum(vector: str, op: str, count: int) -> list[str]:
    """Return the IR that combines the values `%b0` … of a loop into `%s`."""
    lines, last = [], "%b0"
    for k in range(1, count):
        name = "%s" if k == count - 1 else f"%s{k}"
        lines.append(f"  {name} = {op} {vector} {last}, %b{k}")
        last = name
    return lines or [f"  %s = {op} {vector} %b0, %b0"]


def _loop(
    name: str, phis: str, steps: Sequence[str], result: str, stride: int, entry: str = "",
    after: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return the IR of a kernel with a loop up to the count, in steps of a stride."""
    return "\n".join(
        (
            f"define void @{name}(ptr %data, i64 %count, ptr %result, i64 %mask) {{", "entry:",
            entry,
            "  br label %loop", "loop:", "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            phis, *steps, f"  %next = add i64 %i, {stride}",
            "  %more = icmp ult i64 %next, %count", "  br i1 %more, label %loop, label %end",
            "end:", *after, f"  store {result}, ptr %result, align 64", "  ret void", "}",
        )
    )  # fmt: skip


class _Compiled:
    """A kernel in machine code, with what keeps it in memory."""

    def __init__(self, text: str) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
        )
        self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
        self._engine.finalize_object()
        name = text[text.index("@", text.index("define")) + 1 :].partition("(")[0]
        address = self._engine.get_function_address(name)
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
        self.call: Kernel = kind(address)


# -- timing ----------------------------------------------------------------------------------------


def _seconds(jobs: Sequence[Callable[[], None]], rounds: int = ROUNDS) -> float:
    """Return the least time of some rounds of jobs at once, each in a thread of its own."""
    barrier = threading.Barrier(len(jobs))
    spans: list[list[float]] = [[] for _ in jobs]

    def work(number: int) -> None:
        jobs[number]()
        for _ in range(rounds):
            barrier.wait()
            begin = time.perf_counter()
            jobs[number]()
            spans[number].append(time.perf_counter() - begin)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    least: float = min(statistics.mean(row) for row in zip(*spans, strict=True))
    return least


def _memory(size: int, value: int = 1) -> NDArray[np.uint8]:
    """Return memory that begins with a page and was written to."""
    data = np.full(size + 4096, value, np.uint8)
    skip = -data.ctypes.data % 4096
    return data[skip : skip + size]


class Clock:
    """Runs kernels on some cores, and returns rates per cycle."""

    def __init__(self) -> None:
        self._results = [_memory(4096, 0) for _ in range(os.cpu_count() or 1)]
        self.cycle = 1.0
        self.cycle = 1 / (16 * self.rate(cycle_text(), [0], 0))
        """Seconds of a cycle."""

    def rate(self, text: str, addresses: Sequence[int], mask: int, stride: int = 1) -> float:
        """Return what a kernel has counted in a cycle, on average of some cores.

        Each core runs it on memory of its own, given by its address.
        """
        kernel = _Compiled(text)

        def jobs(count: int) -> list[Callable[[], None]]:
            results = (array.ctypes.data for array in self._results)
            pairs = zip(addresses, results, strict=False)
            return [partial(kernel.call, data, count, result, mask) for data, result in pairs]

        count: int = max(mask + 1, 1 << 14) // stride * stride
        while (seconds := _seconds(jobs(count), 1)) < SECONDS:
            count *= 4
        best: float = min(seconds, _seconds(jobs(count), ROUNDS))
        return count * self.cycle / best

    def bandwidth(self, lanes: int, size: int, cores: int) -> float:
        """Return the bytes that a core reads in a cycle from memory of a power of two in size."""
        size = 1 << (size.bit_length() - 1)
        arrays = [_memory(size) for _ in range(cores)]
        addresses = [array.ctypes.data for array in arrays]
        return self.rate(read_text(lanes), addresses, size - 1, 8 * 4 * lanes)

    def fork_join(self) -> float:
        """Return the cycles of an empty kernel on all threads."""
        pool, times = thread_pool(), 1000
        jobs = (ctypes.c_int64 * (JOB_BYTES // 8))(pool.nothing, 0, os.cpu_count() or 1)

        def run() -> None:
            for _ in range(times):
                pool.run(ctypes.addressof(jobs), 1)

        return _seconds([run]) / times / self.cycle


# -- the measurement -------------------------------------------------------------------------------


def measure(target: Target | None = None) -> dict[str, float]:
    """Return the quantities of this machine that were measured, by their names in `Machine`."""
    target = target or host_target()
    lanes, cores = target.vector_bits[-1] // 32, os.cpu_count() or 1
    clock, memory = Clock(), target.memory
    whole = CHAINS * clock.rate(multiply_add_text(lanes, CHAINS), _on_registers(cores), 0)
    half = CHAINS * clock.rate(multiply_add_text(lanes // 2, CHAINS), _on_registers(cores), 0)
    is_narrow = half > 1.5 * whole
    far = min(4 * memory.last_cache, MAX_BYTES)
    values = {
        "fma_bits": lanes * 16 if is_narrow else 0,
        "fma_units": half if is_narrow else whole,
        "fma_latency": 1 / clock.rate(multiply_add_text(lanes, 1), _on_registers(1), 0),
        "load_units": clock.bandwidth(lanes, memory.l1 // 2, cores)
        / (lanes * (2 if is_narrow else 4)),
        "l2_bandwidth": clock.bandwidth(lanes, memory.l2 // 2, cores),
        "memory_bandwidth": clock.bandwidth(lanes, far // cores, cores),
        "lone_memory_bandwidth": clock.bandwidth(lanes, far, 1),
        "fork_join": clock.fork_join(),
    }
    if memory.l3:
        near = max(2 * memory.l2, memory.l3 // (2 * cores))
        values["l3_bandwidth"] = clock.bandwidth(lanes, near, cores)
    return {name: float(f"{value:.3g}") for name, value in values.items()}


def measure_and_store() -> bool:
    """Measure this machine, and store the result for later programs; return whether it is."""
    return store_measurement(measure())


def _on_registers(cores: int) -> list[int]:
    """Return the addresses of no memory for each core, for kernels that read none."""
    return [0] * cores
