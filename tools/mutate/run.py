"""Runs: a mutant in a process of its own, until a check notices it or its time is over."""

from __future__ import annotations

import contextlib
import enum
import io
import os
import pickle
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tools.mutate.mutants import PROBE, Mutant

Check = Callable[[], str]
"""What is wrong, or nothing."""

Results = Mapping[Any, Any]
"""What functions make of what they are tried on; None where they refuse it."""

MEMORY: Final = 4 << 30
"""Bytes of address space beyond what a process has, that a mutant may take."""


class Effect(enum.Enum):
    """What a mutant that was not noticed does to what it is tried on."""

    NONE = "the same result"
    LESS = "refuses more"
    OTHER = "another result"


Said = tuple[str, str, "Reach", Effect]


class Reach(enum.Enum):
    """How far the checks got with a mutant that they did not notice."""

    NEVER = "never reached"
    ALIKE = "never differs"
    DIFFERS = "differs, no result is wrong"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a mutant."""

    killed: str
    """What noticed it; empty if nothing did."""
    fault: str
    reach: Reach
    effect: Effect
    seconds: float


class _Probe:
    """Gives the new value, and remembers whether the old one would have been another."""

    def __init__(self) -> None:
        self.reach = Reach.NEVER

    def __call__(self, old: Callable[[], Any], new: Callable[[], Any]) -> Any:
        if self.reach is Reach.DIFFERS:
            return new()
        value = new()
        self.reach = Reach.ALIKE
        try:
            if bool(old()) != bool(value) if isinstance(value, bool) else old() is not value:
                self.reach = Reach.DIFFERS
        except Exception:  # what the old one says of a value that the mutant has let through
            self.reach = Reach.DIFFERS
        return value


def run(
    mutant: Mutant,
    checks: Sequence[tuple[str, Check]],
    results: Callable[[], Results],
    seconds: float,
) -> Outcome:
    """Try the checks in their order on a mutant, in a process of its own."""
    began = time.perf_counter()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _work(mutant, checks, results, write)
    os.close(write)
    found = _received(read, child, seconds)
    took = time.perf_counter() - began
    if found is None:
        return Outcome("time", f"no end within {seconds:g} s", Reach.DIFFERS, Effect.OTHER, took)
    return Outcome(*found, took)


def _received(read: int, child: int, seconds: float) -> Said | None:
    """What a process says; None if it says nothing within its time."""
    data = b""
    deadline = time.monotonic() + seconds
    try:
        while select.select([read], [], [], max(0.0, deadline - time.monotonic()))[0]:
            some = os.read(read, 1 << 16)
            if not some:
                break
            data += some
        else:
            os.kill(child, signal.SIGKILL)
            return None
    finally:
        os.close(read)
        os.waitpid(child, 0)
    return (
        pickle.loads(data) if data else ("crash", "the process died", Reach.DIFFERS, Effect.OTHER)
    )


def _work(
    mutant: Mutant,
    checks: Sequence[tuple[str, Check]],
    results: Callable[[], Results],
    write: int,
) -> None:
    """The life of the process: it never returns."""
    probe = _Probe()
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, resource.RLIM_INFINITY))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        said: Said = ("", "", probe.reach, Effect.NONE)
        try:
            mutant.function.__globals__[PROBE] = probe
            mutant.function.__code__ = mutant.code()
            for name, check in checks:
                try:
                    fault = check()
                except Exception as error:
                    fault = f"{type(error).__name__}: {error}"
                if fault:
                    said = (name, fault[:2000], probe.reach, Effect.NONE)
                    break
            else:
                said = ("", "", probe.reach, _effect(mutant, results))
        except BaseException as error:
            said = ("crash", f"{type(error).__name__}: {error}", probe.reach, Effect.NONE)
    os.write(write, pickle.dumps(said))
    sys.stdout.flush()
    os._exit(0)


def _effect(mutant: Mutant, results: Callable[[], Results]) -> Effect:
    """What a mutant makes of whatever it is tried on, beside what the function itself makes."""
    new = results()
    mutant.function.__globals__[PROBE] = lambda old, _: old()
    old = results()
    changed = [key for key in old if new.get(key) is not old[key]]
    if not changed:
        return Effect.NONE
    return Effect.LESS if all(new.get(key) is None for key in changed) else Effect.OTHER


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
