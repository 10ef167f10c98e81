"""Tuning worker: the main program of a worker process, which compiles and times candidates.

It reads jobs as lines of JSON and answers each with a line. A compiler or a kernel that crashes or
never returns ends this process only. "The heuristic" chooses the actions of kernels that are not
tuned; its machine code is the baseline of candidates.

    compile    a kernel and actions → its machine code
    open       a kernel and the baseline's machine code → its time; keeps it and makes input data
    time       machine code → its time divided by the baseline's, if its result is right
    compare    machine code → its time and the baseline's, timed alternately
    tune       a schedule → the fastest actions of each kernel, found with workers of its own
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from porism.backends.backend_table import native_backend
from porism.backends.kernel_function import KernelFunction, kernel_function
from porism.base.errors import PorismError
from porism.engine.tune.kernel_timing import Benchmark
from porism.engine.tune.worker_pool import Answer, Job
from porism.ir.node import UOp
from porism.ir.text.argument_text import Limits
from porism.ir.text.serialization import parse, to_text
from porism.optimize.actions.action_serialization import read_actions, write_actions
from porism.pipeline import lower_kernel

FUNCTION_NAME: Final = "kernel"


@functools.lru_cache(maxsize=64)
def _parse_kernel(text: str) -> UOp:
    return parse(text, Limits(characters=1 << 28, nodes=1 << 22))


def compile_candidate(job: Job) -> Answer:
    """Return the machine code of a kernel with the job's actions, the heuristic's if they are null.

    With it are the buffers, variables and parallel extent that `link_function` needs.
    """
    backend = native_backend()
    assert backend.objects is not None
    actions_text = job["actions"]
    actions = None if actions_text is None else read_actions(actions_text)
    instructions = lower_kernel(_parse_kernel(job["kernel"]), backend.target(), actions=actions)
    code = backend.objects.build([(FUNCTION_NAME, instructions)], 1)
    signature = kernel_function(instructions, 0, None)
    return {
        "code": base64.b64encode(code).decode(),
        "buffers": signature.buffers,
        "variables": signature.variables,
        "parallel": None if signature.parallel is None else to_text(signature.parallel),
    }


def link_function(binary: Mapping[str, Any]) -> KernelFunction:
    """Load machine code that was compiled in another process."""
    objects = native_backend().objects
    assert objects is not None
    addresses, alive = objects.link(base64.b64decode(binary["code"]), [FUNCTION_NAME])
    parallel = binary["parallel"]
    return KernelFunction(
        addresses[FUNCTION_NAME],
        tuple(binary["buffers"]),
        tuple(binary["variables"]),
        None if parallel is None else parse(parallel),
        alive,
    )


_open_benchmark: list[Benchmark] = []
"""The benchmark of the last `open` job, as a list of at most one."""


def open_benchmark(job: Job) -> Answer:
    """Make data for a kernel, and time the heuristic's version as the baseline."""
    _open_benchmark[:] = [Benchmark(_parse_kernel(job["kernel"]), link_function(job["binary"]))]
    return {"seconds": _open_benchmark[0].seconds()}


def time_candidate(job: Job) -> Answer:
    """Check the result of a candidate, and time it against the baseline.

    `job["bar"]` is the ratio to beat: the best candidate's time so far divided by the baseline's.
    """
    (benchmark,) = _open_benchmark
    candidate = link_function(job["binary"])
    mismatch = benchmark.mismatch(candidate)
    return {"wrong": mismatch} if mismatch else {"ratio": benchmark.ratio(candidate, job["bar"])}


def compare_candidate(job: Job) -> Answer:
    """Time a candidate and the baseline alternately."""
    (benchmark,) = _open_benchmark
    before, after = benchmark.compare(link_function(job["binary"]))
    return {"before": before, "after": after}


def tune_program(job: Job) -> Answer:
    """Tune the new kernels of a program, until the time is over or the parent process is gone.

    Tuned kernels that make the whole program slower are reverted to the heuristic.
    """
    from porism.engine.cache.schedule_cache import deserialize
    from porism.engine.tune import program_comparison, tuning, tuning_cache

    schedule = deserialize(job["schedule"])
    kernels = [step.kernel for step in schedule.steps]
    # The job names the parent: if it is gone by now, `os.getppid` returns another process.
    parent = job["parent"]

    def stop_if_orphaned(_: tuning.TuningState | None = None) -> None:
        if os.getppid() != parent:
            raise KeyboardInterrupt

    stop_if_orphaned()

    backend = native_backend()
    for number, actions, before, after in job["known"]:
        tuning_cache.record(
            kernels[number], backend, read_actions(actions), before, after, on_disk=False
        )
    new_kernels = [
        kernel for kernel in kernels if not tuning_cache.TuningCache(backend).get(kernel)
    ]
    width, seconds = job["width"], job["seconds"] * (1 - program_comparison.COMPARISON_SHARE)
    nice = 0  # workers inherit the priority of this process
    tuning.tune(
        new_kernels, backend, width=width, seconds=seconds, nice=nice, listener=stop_if_orphaned
    )
    cache = tuning_cache.TuningCache(backend)
    if faster := list(tuning_cache.known_actions(new_kernels, backend)):
        constants = frozenset(job["constants"])
        program_comparison.keep_faster_kernels(
            schedule,
            backend,
            constants,
            faster,
            job["seconds"] * program_comparison.COMPARISON_SHARE,
        )
    entries = [(number, cache.get(kernel)) for number, kernel in enumerate(kernels)]
    return {
        "tuned": [
            [number, write_actions(entry.actions), entry.before, entry.after]
            for number, entry in entries
            if entry is not None and kernels[number] in new_kernels
        ]
    }


JOBS: Final[Mapping[str, Callable[[Job], Answer]]] = {
    "compile": compile_candidate,
    "open": open_benchmark,
    "time": time_candidate,
    "compare": compare_candidate,
    "tune": tune_program,
}


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End this process by SIGALRM when the block takes longer, even if the parent is gone."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def limit_memory(size: int) -> None:
    """Limit the address space of this process to some bytes.

    So compiling a kernel that is too large fails, and does not exhaust the memory of the machine.
    """
    if sys.platform != "win32":
        import resource

        _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
        size = size if hard_limit == resource.RLIM_INFINITY else min(size, hard_limit)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (size, hard_limit))


def machine_memory_bytes() -> int:
    """Return the memory of this machine in bytes; a huge number if it is not known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def main() -> None:
    """Run jobs from standard input until its end."""
    limit_memory(machine_memory_bytes())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # printed text must not mix with the answers
    if len(sys.argv) > 1 and hasattr(os, "nice"):
        os.nice(int(sys.argv[1]))
    for line in sys.stdin:
        job = json.loads(line)
        with time_limit(job["limit"]):
            try:
                answer = JOBS[job["job"]](job)
            except PorismError as error:
                answer = {"error": error.what}
            except (Exception, RecursionError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
