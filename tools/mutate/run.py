"""Runs: a mutant in a process of its own, until a check notices it or its time is over."""

from __future__ import annotations

import contextlib
import enum
import io
import math
import os
import pickle
import resource
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.mutate.guards import RuleMutant, refuted
from tools.mutate.mutants import PROBE, Mutant

Check = Callable[[], str]
"""What is wrong, or nothing."""

Results = Mapping[Any, Any]
"""What functions make of what they are tried on; None where they refuse it."""

MEMORY: Final = 4 << 30
"""Bytes of address space beyond what a process has, that a mutant may take."""

PATIENCE: Final = 20
"""How many times its seconds of a processor a mutant may wait for one."""


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


def run_rule(mutant: RuleMutant, seconds: float) -> tuple[str, str]:
    """Prove a weakened rule in a process of its own: what refutes it, or else the reason."""
    found = in_a_child(lambda: refuted(mutant), seconds)
    if not isinstance(found, tuple):
        return "", "open"
    counterexample, why = found
    return counterexample, "" if counterexample else "open" if "solver" in why else "defined"


def run(
    mutant: Mutant,
    checks: Sequence[tuple[str, Check]],
    results: Callable[[], Results],
    seconds: float,
) -> Outcome:
    """Try the checks in their order on a mutant, in a process of its own."""
    began = time.perf_counter()
    found = in_a_child(lambda: _tried(mutant, checks, results), seconds)
    took = time.perf_counter() - began
    if isinstance(found, str):
        return Outcome("an end", found, Reach.DIFFERS, Effect.OTHER, took)
    killed, fault, reach, effect = found
    return Outcome(killed, fault, reach, effect, took)


def in_a_child(work: Callable[[], Any], seconds: float) -> Any:
    """What a function returns in a process of its own; a text if it never does."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _serve(work, write, seconds)
    os.close(write)
    data = b""
    deadline = time.monotonic() + PATIENCE * seconds
    try:
        while select.select([read], [], [], max(0.0, deadline - time.monotonic()))[0]:
            some = os.read(read, 1 << 16)
            if not some:
                break
            data += some
        else:
            os.kill(child, signal.SIGKILL)
            return f"no end within {PATIENCE * seconds:g} s"
    finally:
        os.close(read)
        _, status = os.waitpid(child, 0)
    if data:
        return pickle.loads(data)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return f"no end within {seconds:g} s of a processor"
    return "the process died"


def _serve(work: Callable[[], Any], write: int, seconds: float) -> None:
    """The life of the process: it never returns."""
    found: Any
    try:
        _limit_memory()
        # Of a processor, and not of a clock: a busy machine makes no mutant endless.
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found = work()
    except BaseException as error:
        found = f"{type(error).__name__}: {error}"
    try:
        os.write(write, pickle.dumps(found))
    finally:
        os._exit(0)


def _limit_memory() -> None:
    """Let this process take little more memory than it has, where that can be told."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        now = int(statm.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, resource.RLIM_INFINITY))


def _tried(
    mutant: Mutant, checks: Sequence[tuple[str, Check]], results: Callable[[], Results]
) -> Said:
    probe = _Probe()
    mutant.function.__globals__[PROBE] = probe
    mutant.function.__code__ = mutant.code()
    for name, check in checks:
        try:
            fault = check()
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        if fault:
            return name, fault[:2000], probe.reach, Effect.NONE
    return "", "", probe.reach, _effect(mutant, results)


def _effect(mutant: Mutant, results: Callable[[], Results]) -> Effect:
    """What a mutant makes of whatever it is tried on, beside what the function itself makes."""
    new = results()
    mutant.function.__globals__[PROBE] = lambda old, _: old()
    old = results()
    changed = [key for key in old if new.get(key) is not old[key]]
    if not changed:
        return Effect.NONE
    return Effect.LESS if all(new.get(key) is None for key in changed) else Effect.OTHER
