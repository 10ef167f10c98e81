"""Search: a property on ever new random inputs for some time, with progress and a reproducer."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

BATCH = 100  # examples of one seed

Property = Callable[[st.DataObject], None]


def search(name: str, properties: Mapping[str, Property], description: str) -> None:
    """Try each property in turn, with a new seed each time, until the minutes are over."""
    parser = argparse.ArgumentParser(prog=f"./dev fuzz {name}", description=description)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to look (default 1)")
    parser.add_argument("--seed", type=int, help="where to begin, to repeat an earlier run")
    parser.add_argument("--only", choices=sorted(properties), help="one property")
    options = parser.parse_args()
    begin = fresh_seed() if options.seed is None else options.seed
    chosen = {options.only: properties[options.only]} if options.only else properties
    console = Console(stderr=True)
    end = time.monotonic() + options.minutes * 60
    cases = 0
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(name, total=options.minutes * 60)
        number = begin
        while time.monotonic() < end:
            for label, check in chosen.items():
                batch(label, check, number)
                cases += BATCH
                done = options.minutes * 60 - max(end - time.monotonic(), 0)
                shown = f"{name}: {cases:,} cases, seed {number}, {label}"
                progress.update(bar, completed=done, description=shown)
                if time.monotonic() >= end:
                    break
            number += 1
    print(f"{name}: {cases} cases from seed {begin}, no counterexample")


def for_seconds(label: str, check: Property, seconds: float, begin: int | None = None) -> int:
    """Try a property with one seed after another for some time; how many cases that were."""
    number = fresh_seed() if begin is None else begin
    end = time.monotonic() + seconds
    cases = 0
    while not cases or time.monotonic() < end:
        batch(label, check, number)
        number += 1
        cases += BATCH
    return cases


def fresh_seed() -> int:
    return random.SystemRandom().randrange(10**9)


def batch(label: str, check: Property, number: int, examples: int = BATCH) -> None:
    """Try a property on the examples of one seed; a counterexample is an exception."""

    @with_seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(st.data())
    def run(data: Any) -> None:
        check(data)

    try:
        run()
    except Exception:
        words = f"--only {label!r} --seed {number}"
        print(f"counterexample to {label!r}; to find it again: {words}", file=sys.stderr)
        raise
