"""A worker that compiles something else than it was asked for, now and then, on purpose.

Which candidates it spoils depends on their actions alone. What it makes of them is a real kernel,
that crashes, never ends, or computes something else when it is run, in all elements or in one. Or
the compiler crashes, leaves, or takes all memory that there is.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal

from porism.engine.tune import tuning_worker
from porism.engine.tune.worker_pool import Answer, Job
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.serialization import to_text
from porism.ir.traversal import substitute, toposort

FAULTS = ("crash", "hang", "wrong", "element", "nan", "compiler", "leave", "memory")
MEMORY = 3 << 30
"""Bytes that this worker may have."""
PIECE = 1 << 28
FAR = 1 << 44
LONG = 1 << 60


def fault_of(actions: list[object]) -> str | None:
    """What is wrong with a candidate on purpose: with one in eight."""
    number = int.from_bytes(hashlib.sha256(json.dumps(actions).encode()).digest()[:4], "little")
    return FAULTS[number % 64] if number % 64 < len(FAULTS) else None


def spoiled(kernel: UOp, fault: str) -> UOp:
    (store,) = [n for n in toposort(kernel) if n.op is ops.STORE]
    place, value = store.src
    if fault == "crash":
        return substitute(kernel, {place: place.replace((place.src[0], place.src[1] + FAR))})
    if fault == "wrong":
        return substitute(kernel, {store: store.replace((place, value + 1))})
    if fault == "nan":
        return substitute(kernel, {store: store.replace((place, value * math.nan))})
    if fault == "element":
        one = (place.src[1].eq(7)).where(value + 1, value)
        return substitute(kernel, {store: store.replace((place, one))})
    (total,) = [n for n in toposort(kernel) if n.op is ops.REDUCE]
    counter = UOp.range(LONG, 99, total.src[1].arg[1])
    longer = (total.src[0] + counter.cast(total.dtype)).reduce(ops.ADD, *total.src[1:], counter)
    return substitute(kernel, {total: longer})


def compiled(job: Job) -> Answer:
    fault = None if job["actions"] is None else fault_of(job["actions"])
    if fault == "compiler":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "leave":
        os._exit(3)
    if fault == "memory":
        taken = []
        while True:
            taken.append(bytearray(PIECE))
    if fault is not None:
        kernel = to_text(spoiled(tuning_worker._parse_kernel(job["kernel"]), fault))
        job = {**job, "kernel": kernel, "actions": []}
    return HONEST(job)


HONEST = tuning_worker.JOBS["compile"]

if __name__ == "__main__":
    tuning_worker.JOBS = {**tuning_worker.JOBS, "compile": compiled}  # type: ignore[misc]
    tuning_worker.machine_memory_bytes = lambda: MEMORY
    tuning_worker.main()
