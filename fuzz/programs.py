"""Programs as users write them: random calls of the whole namespace, compared with NumPy.

    ./dev fuzz programs --minutes 10
    ./dev fuzz programs --count 20000 --seed 7 --jobs 2

Each program has 3 to 25 operations on tensors of all types and of many sizes, and is run in one of
several ways: by every backend, with one thread or two, jitted, verified, tuned by random actions.
Whole numbers are compared exactly (see `fuzz/program/values.py`). A program that fails is shrunk
and printed as a script; a worker that crashes or hangs is a finding too. The last lines say how
many programs were run and what was found; the exit status is 1 if anything was.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fuzz.program.workers import Findings

BEGIN: Final = time.monotonic()
SPARE: Final = 2.0
"""Seconds that the beginning and the end of a run take."""


def main() -> int:
    """Run the fuzzer, print what it found, and return the exit status."""
    about, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="./dev fuzz programs", description=about)
    parser.add_argument("--minutes", type=float, help="how long to look (default 1)")
    parser.add_argument("--count", type=int, help="how many programs to run, instead of minutes")
    parser.add_argument("--seed", type=int, help="where to begin, to repeat an earlier run")
    parser.add_argument("--first", type=int, default=0, help="the first program of the seed")
    parser.add_argument("--jobs", type=int, default=0, help="processes (default: one a core)")
    parser.add_argument("--way", help="run all programs so: jit, actions, verify1, check, …")
    options = parser.parse_args()
    from fuzz.program.run import WAYS  # which takes a second, and that counts
    from fuzz.program.workers import Run, search

    if options.way is not None and options.way not in WAYS:
        parser.error(f"there is no way {options.way!r}; the ways are {', '.join(WAYS)}")

    seed = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    minutes = options.minutes
    if minutes is None:
        minutes = 1.0 if options.count is None else 1e6
    end = BEGIN + minutes * 60 - SPARE
    found = search(Run(seed, options.first, options.count, end, options.way), options.jobs)
    report(found, f"--seed {seed}" + (f" --way {options.way}" if options.way else ""))
    return 1 if found.all else 0


def report(found: Findings, again: str) -> None:
    """Print a script for each group of findings, then a line for each, then the count."""
    for group, cases in sorted(found.groups().items()):
        smallest = min(cases, key=lambda case: len(case.script))
        print(f"\n-- {group}: found {len(cases)} times")
        print(f"# to find it again: {again} --first {smallest.number} --count 1")
        print(smallest.script)
    print()
    for group, cases in sorted(found.groups().items(), key=lambda item: -len(item[1])):
        numbers = ", ".join(str(case.number) for case in cases[:8])
        print(f"{len(cases)} × {group} (programs {numbers}{' …' if len(cases) > 8 else ''})")
    seconds = time.monotonic() - BEGIN
    print(
        f"programs: {found.count} programs ({again}) in {seconds:.0f} s, "
        f"{len(found.all)} findings in {len(found.groups())} groups"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
