"""Nests: random loop nests with random legal actions compute the same after every stage.

Each nest is evaluated as it was made. With each of some lists of actions it is taken through all
stages of a kernel and of a target, and the lines that come out are run and compared exactly. Where
they differ, the stage or the action that is to blame is found with the evaluator, and the nest and
its actions are shrunk.

    ./dev fuzz nests --minutes 10 --jobs 2
    ./dev fuzz nests --count 2000000 --jobs 2     so many nests
    ./dev fuzz nests --seed 17 --count 1          the nest with this number
    ./dev fuzz nests --only Pack                  every list tries this action often
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from fuzz.loop_nests.cases import MACHINE_CODE, Counts, Fault, check
from fuzz.loop_nests.choices import Choices, shrunk
from fuzz.search import fresh_seed
from porism.base.settings import settings
from porism.ir.text.expression import show
from porism.optimize.actions.action_registry import ACTIONS
from porism.optimize.actions.loop_substitution import ranges_of
from porism.pipeline import GRAPH_STAGES, KERNEL_STAGES, RANGED_STAGES, TARGET_STAGES

PROGRAMS = 8
"""One of so many seeds is a program, whose kernels are nests."""
LISTS = 5
PROGRAM_LISTS = 2
"""Lists of actions for one nest, and for one kernel of a program."""
CHECKED = 16
"""One of so many has its levels checked after each stage."""
COLLECTED = (200_000, 20, 20)
"""Objects after which garbage is collected: less often than usual, as little of it is left."""
SHRINKING = 10
"""Seconds for one of two rounds of shrinking a fault."""
CHUNK = 200
"""Nests that a process does at a time."""
LIFE = 10
"""Chunks after which a process is replaced: what it keeps of each kernel adds up."""

STAGES = (
    *(stage.name for stage in GRAPH_STAGES),
    "rangeify",
    *(stage.name for stage in RANGED_STAGES),
    *(stage.name for stage in KERNEL_STAGES),
    *(stage.name for stage in TARGET_STAGES),
    "linearize",
    MACHINE_CODE,
)

Chosen = tuple[Fault, list[int], list[int]]
"""A fault, the choices of its nest or program, and those of its list of actions."""


@dataclass
class Found:
    """What a run has counted, and one fault of each kind, in words."""

    counts: Counts = field(default_factory=Counts)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    said: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, other: Found) -> None:
        self.counts.add(other.counts)
        self.faults += other.faults
        for key, text in other.said.items():
            self.said.setdefault(key, text)


# -- one seed --------------------------------------------------------------------------------------


def faults_of(seed: int, counts: Counts, only: str | None = None) -> Iterator[Chosen]:
    """The faults of the nest, or of the program, with a number."""
    is_program = seed % PROGRAMS == PROGRAMS - 1
    choices = Choices(seed)
    lists = PROGRAM_LISTS if is_program else LISTS

    def listed(number: int) -> list[Choices]:
        first = seed * 1009 + number * lists + 1
        return [Choices(first + k) for k in range(lists)]

    with settings.override(check=seed % CHECKED == 0):
        for actions, fault in check(choices, listed, counts, is_program=is_program, only=only):
            yield fault, choices.taken, [] if actions is None else actions.taken


def smaller(seed: int, found: Chosen, only: str | None = None) -> Fault:
    """The simplest fault of the same kind that comes of simpler choices."""
    fault, made, listed = found
    is_program = seed % PROGRAMS == PROGRAMS - 1
    best = [fault]

    def fails(made: Sequence[int], listed: Sequence[int]) -> bool:
        lists = [Choices(given=listed)]
        try:
            found = check(
                Choices(given=made), lambda _: lists, Counts(), is_program=is_program, only=only
            )
            other = next((f for _, f in found if f.key == fault.key), None)
        except Exception:  # choices that give no nest
            return False
        if other is None:
            return False
        best[0] = other
        return True

    with settings.override(check=seed % CHECKED == 0):
        for _ in range(2):
            end = time.monotonic() + SHRINKING
            listed = shrunk(listed, partial(fails, made), end)
            made = shrunk(made, partial(_swapped, fails, listed), end)
    return best[0]


def _swapped(
    fails: Callable[[Sequence[int], Sequence[int]], bool],
    listed: Sequence[int],
    made: Sequence[int],
) -> bool:
    return fails(made, listed)


def told(fault: Fault, seed: int) -> str:
    """A fault in words: the nest, what was done to it, and how to find it again."""
    kernel = fault.nest.kernel
    loops = ", ".join(f"{show(r)} < {int(r.vmax) + 1}" for r in ranges_of(kernel))
    types = ", ".join(f"p{k}: {array.dtype}" for k, array in fault.nest.data.items())
    return "\n".join(
        (
            f"{fault.name}: {fault.what}",
            f"  nest     {show(kernel, limit=4000)}",
            f"  loops    {loops}",
            f"  buffers  {types}",
            f"  actions  {', '.join(map(str, fault.actions)) or 'none'}, for {fault.target.name}",
            f"  found    {fault.detail}",
            f"  again    ./dev fuzz nests --seed {seed} --count 1",
        )
    )


# -- running ---------------------------------------------------------------------------------------


def search(seeds: range, only: str | None = None, end: float | None = None) -> Found:
    """Try the nests with these numbers, until a time if one is given."""
    gc.set_threshold(*COLLECTED)
    found = Found()
    for seed in seeds:
        if end is not None and time.time() > end:
            break
        for one in faults_of(seed, found.counts, only):
            key = one[0].key
            found.faults[key] += 1
            if key not in found.said:
                found.said[key] = told(smaller(seed, one, only), seed)
    return found


def _chunks(begin: int, count: int | None) -> Iterator[range]:
    start = begin
    while count is None or start < begin + count:
        stop = start + CHUNK if count is None else min(start + CHUNK, begin + count)
        yield range(start, stop)
        start = stop


def run(begin: int, count: int | None, jobs: int, only: str | None, end: float | None) -> Found:
    """Try nests from a number on, in so many processes, with progress on the way."""
    whole = Found()
    chunks = _chunks(begin, count)
    started = time.time()
    while batch := list(islice(chunks, jobs * LIFE)):
        if end is None or time.time() < end:
            _run_batch(batch, jobs, only, end, whole, started)
        else:
            break
    return whole


def _run_batch(
    batch: Sequence[range], jobs: int, only: str | None, end: float | None, whole: Found,
    started: float,
) -> None:  # fmt: skip
    """Try chunks of nests in new processes, and add what they find."""
    with ProcessPoolExecutor(jobs) as pool:
        left = {pool.submit(search, chunk, only, end) for chunk in batch}
        while left:
            done = next(as_completed(left))
            left.remove(done)
            known = set(whole.said)
            whole.add(done.result())
            for key in set(whole.said) - known:
                print(whole.said[key], flush=True)
            rate = whole.counts.cases / (time.time() - started)
            print(
                f"nests: {whole.counts.nests:,} nests, {whole.counts.cases:,} cases, "
                f"{rate:.0f} a second, {sum(whole.faults.values())} faults",
                file=sys.stderr,
                flush=True,
            )


def summary(found: Found, begin: int) -> str:
    """The counts of a run in a few lines."""
    counts = found.counts
    lines = [
        f"nests: {counts.nests} nests from seed {begin}, {counts.programs} programs, "
        f"{counts.cases} cases, {sum(found.faults.values())} faults of {len(found.faults)} kinds",
        "actions: " + ", ".join(f"{name} {counts.actions[name]}" for name in ACTIONS),
        "stages: " + ", ".join(f"{name} {counts.stages[name]}" for name in STAGES),
    ]
    lines += [f"fault: {name}, {what}: {n} times" for (name, what), n in found.faults.items()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the fuzzer; 1 if something was wrong."""
    names = sorted({*ACTIONS, *STAGES})
    parser = argparse.ArgumentParser(prog="./dev fuzz nests", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, help="how long to look (default 1)")
    parser.add_argument("--count", type=int, help="how many nests to try")
    parser.add_argument("--seed", type=int, help="the number of the first nest")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    words = "an action that is tried often, or a stage: only its faults count"
    parser.add_argument("--only", choices=names, metavar="STAGE-OR-ACTION", help=words)
    options = parser.parse_args(arguments)
    begin = fresh_seed() if options.seed is None else options.seed
    minutes = options.minutes if options.minutes or options.count else 1.0
    end = None if minutes is None else time.time() + 60 * minutes
    found = run(begin, options.count, options.jobs, options.only, end)
    print(summary(found, begin))
    wrong = [key for key in found.faults if options.only in (None, key[0])]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
