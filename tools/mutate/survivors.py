"""Survivors: mutants that nothing notices, as listed in `survivors.json` with the reasons."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("survivors.json")

REASONS: Final = {
    "alike": "no case makes a difference to the condition: it holds, or fails, wherever it is met",
    "unreached": "no case reaches the condition",
    "argued": "no case can make a difference to the condition, by an argument in `arguments.py`",
    "another": "another graph comes out, of the same value in every case",
    "same": "what comes after it decides the same",
    "steps": "other steps are tried, and each step that is taken is an instance of its lemma",
    "defined": "the rule holds without it: where it fails, the left side has no value",
    "open": "the solver finds neither a proof nor a counterexample",
}
"""Why a mutant is not noticed."""


def listed() -> Mapping[str, str]:
    """The mutants that are known to survive, each with the name of the reason."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: reason for reason, names in found.items() for name in names}


def write(survivors: Mapping[str, str]) -> None:
    """Replace the list."""
    kinds = {
        reason: sorted(name for name, why in survivors.items() if why == reason)
        for reason in REASONS
    }
    FILE.write_text(json.dumps(kinds, indent=1) + "\n", encoding="utf-8")


def stale(known: Iterable[str]) -> list[str]:
    """The listed mutants that no longer exist."""
    there = set(known)
    return [name for name in listed() if name not in there]
