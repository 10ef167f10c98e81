"""The job `mutate`: weakens guards, bends the use of lemmas, and tells what nothing notices."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

from porism.base.errors import PorismError
from porism.catalogue.rule_listing import KNOWN
from tools.mutate import guards, survivors, targets
from tools.mutate.arguments import ARGUMENTS
from tools.mutate.run import Effect, Outcome, Reach, run, run_rule

SECONDS_EACH = 20.0
"""Of a processor, after which a mutant counts as noticed: it does not come to an end."""

PROGRESS = 100
"""Mutants after which a line says how many are done."""

SAMPLE_SEED = 0


def main() -> int:
    """Run the job; its exit status is 1 if a mutant survives that is not listed."""
    arguments = _arguments()
    work = list(_work(arguments.words))
    if not work:
        raise PorismError(
            f"no mutant has {' '.join(arguments.words)!r} in its name",
            fix="--list prints all of them",
        )
    if arguments.list:
        for name, _ in work:
            print(name)
        return 0
    if arguments.sample:
        work = Random(SAMPLE_SEED).sample(work, min(arguments.sample, len(work)))
    return _run(work, arguments.seconds, keep=arguments.record)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev mutate", description=__doc__)
    parser.add_argument("words", nargs="*", help="only mutants whose name, or procedure, has one")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run none")
    parser.add_argument("--seconds", type=float, help="start no mutant after so many seconds")
    parser.add_argument(
        "--sample", type=int, help="only so many, chosen at random but always alike"
    )
    parser.add_argument("--record", action="store_true", help="write survivors to survivors.json")
    return parser.parse_args()


Work = tuple[str, Callable[[], tuple[str, str]]]
"""The name of a mutant, and a run of it: what noticed it, or else the reason it survives."""


def _work(words: Sequence[str]) -> Iterator[Work]:
    """The chosen mutants: of procedures, of rules, of the normal form."""
    for target in targets.chosen(list(targets.procedure_targets(KNOWN)), words):
        yield target.mutant.name, partial(_tried, target)
    for rule in guards.rule_mutants(KNOWN):
        if not words or any(word in rule.name for word in words):
            yield rule.name, partial(run_rule, rule, SECONDS_EACH)
    for target in targets.chosen(list(targets.normal_form_targets()), words):
        yield target.mutant.name, partial(_tried, target)


def _tried(target: targets.Target) -> tuple[str, str]:
    targets.prepare([target])
    found = run(target.mutant, target.checks, target.results, SECONDS_EACH)
    return found.killed, "" if found.killed else _reason(target, found)


def _reason(target: targets.Target, found: Outcome) -> str:
    """Why nothing notices a mutant; empty if it only refuses more than it must."""
    if found.reach is not Reach.DIFFERS:
        if target.mutant.name in ARGUMENTS:
            return "argued"
        return "unreached" if found.reach is Reach.NEVER else "alike"
    if not target.using:
        return "steps"
    if found.effect is Effect.LESS:
        return ""
    return "another" if found.effect is Effect.OTHER else "same"


def _run(work: Sequence[Work], seconds: float | None, *, keep: bool) -> int:
    began = time.monotonic()
    counts: Counter[str] = Counter()
    known, found, new = survivors.listed(), {}, []
    done = []
    for name, tried in work:
        if seconds is not None and time.monotonic() - began > seconds:
            break
        noticed, reason = tried()
        done.append(name)
        if len(done) % PROGRESS == 0:
            print(f"{len(done)} of {len(work)} mutants", file=sys.stderr, flush=True)
        if noticed or not reason:
            counts["noticed" if noticed else "refuse more"] += 1
            continue
        counts["survive"] += 1
        found[name] = reason
        if name not in known:
            new.append(name)
            print(f"{name}\n    {survivors.REASONS[reason]}", flush=True)
    gone = [name for name in done if name in known and name not in found]
    for name in gone:
        print(f"{name}\n    is listed as a survivor, and is noticed now")
    if keep:
        there = {name for name, _ in _work(())}
        kept = {n: why for n, why in known.items() if n not in done and n in there}
        survivors.write(kept | found)
    told = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    passed = time.monotonic() - began
    print(f"{len(done)} of {len(work)} mutants in {passed:.0f} s: {told}")
    print(f"{len(new)} survivors are not listed, {len(gone)} listed ones do not survive")
    return 0 if keep or not (new or gone) else 1


if __name__ == "__main__":
    sys.exit(main())
