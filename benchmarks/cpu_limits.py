"""Limits: what the processor itself can do, measured, and the roofline that follows from it.

Small kernels in LLVM IR, compiled here: multiply-adds on registers alone, and streams of vectors
through the memory, with plain and with non-temporal stores, from the last cache, and from DRAM with
some lines prefetched. Each thread runs the kernel on its own part, before other processes if the
system allows it, and the median of some rounds counts: other guests of a shared machine take a part
of its memory bandwidth, now more, now less.
"""

from __future__ import annotations

import ctypes
import glob
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from benchmarks.cpu_worker import in_real_time
from benchmarks.cpu_workloads import MI, Workload

ROUNDS = 9
CHAINS = 12
"""Accumulators that do not wait for each other: more than the units times their latency."""
UNROLLED = 4
"""Vectors of each stream in a step."""
AHEAD = 512
"""Elements from what is read from DRAM to what is fetched meanwhile."""
STEPS = 4_000_000
"""Of a kernel of multiply-adds."""
TYPES = {"f32": ("float", 32), "f64": ("double", 64)}
WIDTHS = (256, 512)
"""Bits of a vector; the better width counts, and LLVM splits what the machine does not have."""
STREAMS = {"read": 1, "copy": 2, "triad": 3}
"""Arrays that each goes through."""
PLAIN, PASSING = "", " nt"
"""Stores through the caches, and past them."""

Limits = dict[str, float]


# -- kernels ---------------------------------------------------------------------------------------


def multiply_adds(name: str, kind: str, lanes: int) -> str:
    """Chains of multiply-adds: `void name(i64 steps, T* result)`."""
    vector = f"<{lanes} x {kind}>"
    suffix = f"v{lanes}{'f32' if kind == 'float' else 'f64'}"
    zero = "zeroinitializer"
    phis, steps = [], []
    for k in range(CHAINS):
        phis.append(f"  %a{k} = phi {vector} [ {zero}, %entry ], [ %b{k}, %loop ]")
        steps.append(
            f"  %b{k} = call {vector} @llvm.fma.{suffix}({vector} %x, {vector} %x, {vector} %a{k})"
        )
    sums, last = [], "%b0"
    for k in range(1, CHAINS):
        sums.append(f"  %s{k} = fadd {vector} {last}, %b{k}")
        last = f"%s{k}"
    return "\n".join(
        (
            f"declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})",
            f"define void @{name}(i64 %steps, ptr %result) {{",
            "entry:",
            f"  %x = load {vector}, ptr %result, align 64",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *phis,
            *steps,
            "  %next = add i64 %i, 1",
            "  %more = icmp ult i64 %next, %steps",
            "  br i1 %more, label %loop, label %end",
            "end:",
            *sums,
            f"  store {vector} {last}, ptr %result, align 64",
            "  ret void",
            "}",
        )
    )


def stream(name: str, passing: bool, ahead: int = 0) -> str:
    """`void name(float* a, float* b, float* c, i64 count)`: c = a, c = a + 3b, or a sum of a.

    What is so many elements ahead is fetched into the second cache.
    """
    vector, lanes = "<16 x float>", 16
    three = "splat (float 3.0)"
    mark = ", !nontemporal !0" if passing else ""
    phis, steps, sums = [], [], []
    for k in range(UNROLLED):
        steps.append(f"  %at{k} = add i64 %i, {k * lanes}")
        for array in ("a", "b") if name == "triad" else ("a",):
            steps.append(f"  %{array}p{k} = getelementptr float, ptr %{array}, i64 %at{k}")
            steps.append(f"  %{array}{k} = load {vector}, ptr %{array}p{k}, align 64")
            if ahead:
                steps.append(f"  %{array}f{k} = getelementptr float, ptr %{array}p{k}, i64 {ahead}")
                steps.append(
                    f"  call void @llvm.prefetch.p0(ptr %{array}f{k}, i32 0, i32 2, i32 1)"
                )
        if name == "read":
            phis.append(f"  %s{k} = phi {vector} [ zeroinitializer, %entry ], [ %t{k}, %loop ]")
            steps.append(f"  %t{k} = fadd {vector} %s{k}, %a{k}")
            continue
        value = f"%a{k}"
        if name == "triad":
            steps.append(f"  %m{k} = fmul contract {vector} %b{k}, {three}")
            steps.append(f"  %v{k} = fadd contract {vector} %a{k}, %m{k}")
            value = f"%v{k}"
        steps.append(f"  %cp{k} = getelementptr float, ptr %c, i64 %at{k}")
        steps.append(f"  store {vector} {value}, ptr %cp{k}, align 64{mark}")
    if name == "read":
        for k in range(UNROLLED):
            sums.append(f"  %cp{k} = getelementptr float, ptr %c, i64 {k * lanes}")
            sums.append(f"  store {vector} %t{k}, ptr %cp{k}, align 64")
    return "\n".join(
        (
            "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)" if ahead else "",
            f"define void @{name}(ptr %a, ptr %b, ptr %c, i64 %count) {{",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *phis,
            *steps,
            f"  %next = add i64 %i, {UNROLLED * lanes}",
            "  %more = icmp ult i64 %next, %count",
            "  br i1 %more, label %loop, label %end",
            "end:",
            *sums,
            *(("  fence seq_cst",) if passing else ()),
            "  ret void",
            "}",
            "!0 = !{i32 1}" if passing else "",
        )
    )


@dataclass
class Kernel:
    """Machine code, and what keeps it in memory."""

    call: Callable[..., None]
    engine: object

    @classmethod
    def compiled(cls, name: str, text: str) -> Kernel:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(text)
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(),
            features=llvm.get_host_cpu_features().flatten(),
            opt=3,
        )
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        place = engine.get_function_address(name)
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * text_arguments(text))(place)
        return cls(function, engine)


def text_arguments(text: str) -> int:
    """How many arguments the function that is defined in a text has."""
    head = text[text.index("define ") :].split("{", 1)[0]
    return head.count("%")


# -- measuring -------------------------------------------------------------------------------------


def seconds(jobs: Sequence[Callable[[], None]]) -> float:
    """The median time of jobs at once, each in a thread: from the first start to the last end."""
    barrier = threading.Barrier(len(jobs))
    spans: list[list[tuple[float, float]]] = [[] for _ in jobs]

    def work(place: int) -> None:
        jobs[place]()
        for _ in range(ROUNDS):
            barrier.wait()
            begin = time.perf_counter()
            jobs[place]()
            spans[place].append((begin, time.perf_counter()))

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(jobs))]
    with in_real_time():  # which the threads take over
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rounds = zip(*spans, strict=True)
    result: list[float] = [max(end for _, end in r) - min(begin for begin, _ in r) for r in rounds]
    return statistics.median(result)


def aligned(bytes_: int) -> NDArray[np.uint8]:
    """Memory that begins with a page and has been written to; in large pages, if it is large."""
    room = np.empty(bytes_ + 4096, np.uint8)
    room.fill(0)
    skip = -room.ctypes.data % 4096
    return room[skip : skip + bytes_]


def peak(kind: str, threads: int) -> float:
    """Operations a second, a multiply-add being two of them."""
    text, bits = TYPES[kind]
    rates = []
    for width in WIDTHS:
        lanes = width // bits
        kernel = Kernel.compiled("fma", multiply_adds("fma", text, lanes))
        places = [aligned(4096) for _ in range(threads)]
        jobs = [partial(kernel.call, STEPS, place.ctypes.data) for place in places]
        rates.append(threads * STEPS * CHAINS * lanes * 2 / seconds(jobs))
    return max(rates)


def bandwidth(name: str, passing: bool, total: int, threads: int, ahead: int = 0) -> float:
    """Bytes a second of a stream through arrays of so many bytes together."""
    arrays = STREAMS[name]
    step = 4 * 16 * UNROLLED * threads
    each = total // arrays // step * step
    room = [aligned(each) for _ in range(arrays)]
    part = each // threads
    repeats = max(1, (64 * MI) // each)
    kernel = Kernel.compiled(name, stream(name, passing, ahead))
    sinks = [aligned(4096) for _ in range(threads)]

    def job(place: int) -> None:
        a, b, c = (room[k % arrays].ctypes.data + place * part for k in (0, 1, arrays - 1))
        if name == "read":
            c = sinks[place].ctypes.data
        for _ in range(repeats):
            kernel.call(a, b, c, part // 4)

    jobs = [partial(job, place) for place in range(threads)]
    return arrays * each * repeats / seconds(jobs)


def last_cache() -> int:
    """Bytes of the largest cache, as the system tells; 32 MiB where it does not."""
    sizes = []
    for path in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*/size"):
        text = Path(path).read_text(encoding="ascii").strip()
        sizes.append(int(text[:-1]) * {"K": 1 << 10, "M": 1 << 20}[text[-1]])
    return max(sizes, default=32 * MI)


def measure(threads: int) -> Limits:
    """All limits of so many threads, and the size of the last cache."""
    cache = last_cache()
    result: Limits = {"cache": cache}
    for kind in TYPES:
        result[f"peak {kind}"] = peak(kind, threads)
    levels = {"L3": cache // 4, "DRAM": 8 * cache}
    for level, total in levels.items():
        ahead = AHEAD if level == "DRAM" else 0
        for name in STREAMS:
            for mark in (PLAIN, PASSING) if level == "DRAM" and name != "read" else (PLAIN,):
                rate = bandwidth(name, mark == PASSING, total, threads, ahead)
                result[f"{level} {name}{mark}"] = rate
    return result


def together(runs: list[Limits]) -> Limits:
    """The medians of several runs."""
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


# -- the roofline ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Roofline:
    """The least seconds that a workload can take here, and what limits it."""

    seconds: float
    bound: str


def roofline(workload: Workload, limits: Mapping[str, float]) -> Roofline:
    """The longer of computing at the peak and moving the bytes by the stream of the same kind.

    What fits into half of the last cache counts as being there.
    """
    total = workload.read + workload.written
    level = "L3" if total <= limits["cache"] / 2 else "DRAM"
    if workload.written < 0.2 * workload.read:
        kind = "read"
    elif workload.written > 0.7 * workload.read:
        kind = "copy"
    else:
        kind = "triad"
    rates = [limits[key] for mark in (PLAIN, PASSING) if (key := f"{level} {kind}{mark}") in limits]
    computing = workload.flops / limits["peak f32"]
    moving = total / max(rates)
    if computing > moving:
        return Roofline(computing, "compute")
    return Roofline(moving, f"{level} {kind}")


def shown(limits: Mapping[str, float]) -> str:
    """The limits in a few lines."""
    peaks = ", ".join(f"{limits[f'peak {kind}'] / 1e9:.0f} GFLOP/s {kind}" for kind in TYPES)
    lines = [f"multiply-adds: {peaks}"]
    for level in ("L3", "DRAM"):
        rates = [
            f"{key.removeprefix(level).strip()} {rate / 1e9:.0f}"
            for key, rate in limits.items()
            if key.startswith(level)
        ]
        lines.append(f"{level}: {', '.join(rates)} GB/s")
    return "\n".join(lines)
