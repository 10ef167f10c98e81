"""A worker: the program of a process that compiles and times candidates for its crew.

It reads jobs as lines of JSON and answers each with one. What goes wrong in it, a compiler or a
kernel that crashes or never ends, ends this process and nothing else.

    compile    a kernel and actions → its machine code
    open       a kernel and the machine code of the heuristic → data, the wanted result, the time
    time       machine code → its time beside the heuristic's, if the result is the wanted one
    duel       machine code → its time and that of the heuristic, by turns
    tune       kernels → the best actions for each, with workers of its own
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

from porism.backends.backend_table import native
from porism.backends.kernel_function import Function, function
from porism.base.errors import PorismError
from porism.engine.tune.kernel_timing import Bench
from porism.engine.tune.worker_pool import Answer, Job
from porism.ir.node import UOp
from porism.ir.text.argument_text import Limits
from porism.ir.text.serialization import parse, to_text
from porism.optimize.actions.action_serialization import read_actions, write_actions
from porism.pipeline import lower_kernel

NAME: Final = "kernel"


@functools.lru_cache(maxsize=64)
def _kernel(text: str) -> UOp:
    return parse(text, Limits(characters=1 << 28, nodes=1 << 22))


def compiled(job: Job) -> Answer:
    """A kernel with its loops as actions arrange them, or the heuristic, in machine code."""
    backend = native()
    assert backend.objects is not None
    given = job["actions"]
    actions = None if given is None else read_actions(given)
    lines = lower_kernel(_kernel(job["kernel"]), backend.target(), actions=actions)
    code = backend.objects.build([(NAME, lines)], 1)
    made = function(lines, 0, None)
    return {
        "code": base64.b64encode(code).decode(),
        "buffers": made.buffers,
        "variables": made.variables,
        "parallel": None if made.parallel is None else to_text(made.parallel),
    }


def linked(made: Mapping[str, Any]) -> Function:
    """The function in machine code that came from another process."""
    objects = native().objects
    assert objects is not None
    addresses, alive = objects.link(base64.b64decode(made["code"]), [NAME])
    parallel = made["parallel"]
    return Function(
        addresses[NAME],
        tuple(made["buffers"]),
        tuple(made["variables"]),
        None if parallel is None else parse(parallel),
        alive,
    )


_benches: list[Bench] = []
"""The one that is open."""


def opened(job: Job) -> Answer:
    """Make data for a kernel, and run it once as the heuristic arranges it."""
    _benches[:] = [Bench(_kernel(job["kernel"]), linked(job["made"]))]
    return {"seconds": _benches[0].seconds()}


def timed(job: Job) -> Answer:
    """Check and time a candidate."""
    (bench,) = _benches
    candidate = linked(job["made"])
    wrong = bench.fault(candidate)
    return {"wrong": wrong} if wrong else {"ratio": bench.ratio(candidate, job["bar"])}


def duelled(job: Job) -> Answer:
    """Time a candidate and the heuristic's kernel by turns."""
    (bench,) = _benches
    before, after = bench.duel(linked(job["made"]))
    return {"before": before, "after": after}


def all_tuned(job: Job) -> Answer:
    """Tune the new kernels of a program, until the time is over or whoever asked is gone.

    Those with which the program as a whole is slower are as before.
    """
    from porism.engine.cache.schedule_cache import read
    from porism.engine.tune import program_comparison, tuning, tuning_cache

    schedule = read(job["schedule"])
    kernels = [step.kernel for step in schedule.steps]
    parent = os.getppid()

    def listen(state: tuning.State) -> None:
        if os.getppid() != parent:
            raise KeyboardInterrupt

    backend = native()
    for place, actions, before, after in job["known"]:
        tuning_cache.keep(
            kernels[place], backend, read_actions(actions), before, after, lasting=False
        )
    new = [kernel for kernel in kernels if not tuning_cache.Tunings(backend).get(kernel)]
    width, seconds = job["width"], job["seconds"] * (1 - program_comparison.PART)
    nice = 0  # workers have the priority of this process
    tuning.tune(new, backend, width=width, seconds=seconds, nice=nice, listener=listen)
    known = tuning_cache.Tunings(backend)
    if faster := list(tuning_cache.known_actions(new, backend)):
        constants = frozenset(job["constants"])
        program_comparison.settle(
            schedule, backend, constants, faster, job["seconds"] * program_comparison.PART
        )
    found = [(place, known.get(kernel)) for place, kernel in enumerate(kernels)]
    return {
        "tuned": [
            [place, write_actions(each.actions), each.before, each.after]
            for place, each in found
            if each is not None and kernels[place] in new
        ]
    }


JOBS: Final[Mapping[str, Callable[[Job], Answer]]] = {
    "compile": compiled,
    "open": opened,
    "time": timed,
    "duel": duelled,
    "tune": all_tuned,
}


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End this process when something takes longer, even if whoever asked is gone."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def limit_memory(size: int) -> None:
    """Let no more memory than so many bytes be taken by this process: then it fails, and no other.

    A compiler that is given too much to do may want all that the machine has.
    """
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        size = size if most == resource.RLIM_INFINITY else min(size, most)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (size, most))


def memory_of_machine() -> int:
    """In bytes; without end if nobody says."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def main() -> None:
    """Do jobs until there are no more."""
    limit_memory(memory_of_machine())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints does not answer
    if len(sys.argv) > 1 and hasattr(os, "nice"):
        os.nice(int(sys.argv[1]))
    for line in sys.stdin:
        job = json.loads(line)
        with limited(job["limit"]):
            try:
                answer = JOBS[job["job"]](job)
            except PorismError as error:
                answer = {"error": error.what}
            except (Exception, RecursionError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
