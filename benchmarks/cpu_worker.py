"""One backend of the processor benchmark, in a process of its own: `cpu_worker BACKEND THREADS`.

Reads requests as lines of JSON, and answers each with a line:

- `{"prepare": WORKLOAD, "reference": FILE}` compiles it, runs it, and compares with the file,
- `{"exact": WORKLOAD, "file": FILE}` runs it in float64, and writes its result there,
- `{"sample": WORKLOAD, "count": COUNT}` times so many calls after one that is not timed,
- `{"drop": WORKLOAD}` forgets it. Several can be prepared before the first is sampled.

A sample also says which part of its time its threads were ready but had to wait for a core, so that
samples with other processes in them can be told.
"""

from __future__ import annotations

import contextlib
import gc
import glob
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cpu_backends, cpu_workloads
from benchmarks.cpu_operations import Backend, Call, as_float64, in_pairs

Answer = dict[str, Any]


def waited() -> float:
    """Seconds that the threads of this process were ready and did not run; 0 if none can say."""
    total = 0
    for path in glob.glob("/proc/self/task/*/schedstat"):
        try:
            total += int(Path(path).read_text(encoding="ascii").split()[1])
        except (OSError, IndexError):  # the thread has ended, or there are no such figures
            continue
    return total / 1e9


def schedule(policy: int, priority: int) -> None:
    """How the system schedules all threads of this process; only some users may choose."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(int(thread), policy, os.sched_param(priority))


@contextlib.contextmanager
def in_real_time() -> Iterator[None]:
    """Before other processes, for as long as a sample takes, where that is allowed."""
    schedule(os.SCHED_RR, 1)
    try:
        yield
    finally:
        schedule(os.SCHED_OTHER, 0)


def relative_error(found: Any, reference: Any) -> float:
    """The norm of the difference, in norms of the reference."""
    found, reference = in_pairs(found), in_pairs(reference)
    if found.shape != reference.shape:
        raise ValueError(f"the result is of shape {found.shape}, not {reference.shape}")
    difference = np.linalg.norm((found.astype(np.float64) - reference).ravel())
    return float(difference / (np.linalg.norm(reference.ravel()) or 1.0))


class Worker:
    """A backend, and the workloads that are prepared, by name."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.calls: dict[str, Call] = {}

    def prepare(self, name: str, reference: str) -> Answer:
        workload = cpu_workloads.named(name)
        arrays = workload.inputs(name)
        begin = time.perf_counter()
        call, read = self.backend.prepare(workload.program, arrays, workload.constants(arrays))
        result = call()
        ready = time.perf_counter() - begin
        error = relative_error(np.asarray(read(result)), np.load(reference))
        del result
        call()
        begin = time.perf_counter()
        call()
        self.calls[name] = call
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        once = time.perf_counter() - begin
        found = {"ready": ready, "error": error, "once": once, "megabytes": memory / 1024}
        code = getattr(self.backend, "code", None)
        return found if code is None else {**found, "code": code}

    def exact(self, name: str, file: str) -> Answer:
        workload = cpu_workloads.named(name)
        arrays = as_float64(workload.inputs(name))
        call, read = self.backend.prepare(workload.program, arrays, frozenset())
        np.save(file, in_pairs(np.asarray(read(call()))).astype(np.float64))
        return {}

    def sample(self, name: str, count: int) -> Answer:
        call = self.calls[name]
        with in_real_time():
            call()
            before, begin = waited(), time.perf_counter()
            for _ in range(count):
                call()
            spent = time.perf_counter() - begin
            delay = waited() - before
        return {"seconds": spent / count, "waited": delay / spent}

    def drop(self, name: str) -> Answer:
        self.calls.pop(name, None)
        gc.collect()
        return {}

    def answer(self, request: dict[str, Any]) -> Answer:
        if "prepare" in request:
            return self.prepare(request["prepare"], request["reference"])
        if "exact" in request:
            return self.exact(request["exact"], request["file"])
        if "sample" in request:
            return self.sample(request["sample"], request["count"])
        return self.drop(request["drop"])


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is not an answer
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:threads])  # also for libraries that count the cores themselves
    try:
        worker = Worker(cpu_backends.start(name, threads))
    except Exception as error:
        print(json.dumps(failure(error)), file=answers, flush=True)
        return
    print(json.dumps({"version": worker.backend.version}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            found = worker.answer(json.loads(line))
        except Exception as error:
            found = failure(error)
        print(json.dumps(found), file=answers, flush=True)


def failure(error: Exception) -> Answer:
    """The first lines of a message, short enough for a table."""
    return {"failed": f"{type(error).__name__}: {error}"[:300]}


if __name__ == "__main__":
    main()
