"""Doctor report: the machine and the results of the self-test, as text or as JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from porism.doctor import machine_measurement, machine_report, self_test
from porism.doctor.self_test import Result

WIDTH: Final = 100
"""The width of a line, in characters."""


def run(version: str, *, as_json: bool = False, measures: bool = False) -> int:
    """Print the report; return exit status 0 if every program of the self-test is right, else 1.

    If it `measures`, the quantities of the machine are measured before, and stored.
    """
    if measures and not machine_measurement.measure_and_store():
        print("the measurement cannot be stored: there is no folder for it", file=sys.stderr)
    facts = machine_report.facts(version)
    begin = time.perf_counter()
    results = list(self_test.run())
    seconds = time.perf_counter() - begin
    skipped = [name for name in self_test.usable() if all(r.backend != name for r in results)]
    passed = bool(results) and all(result.ok for result in results)
    if as_json:
        rows = [dataclasses.asdict(result) for result in results]
        test = {"seconds": round(seconds, 3), "results": rows, "left out": skipped}
        print(json.dumps({"ok": passed, **facts, "self-test": test}, indent=1, ensure_ascii=False))
        return int(not passed)
    for topic, details in facts.items():
        print(_section(topic, details))
    summary: dict[str, Any] = dict(self_test.summary(results))
    summary |= dict.fromkeys(skipped, "not tried: the time limit was reached")
    print(_section("self-test", summary))
    print(_verdict(results, passed))
    return int(not passed)


def _verdict(results: Sequence[Result], passed: bool) -> str:
    """Return the last line of the report."""
    if passed:
        return "all is well"
    if not results:
        return "nothing could be tried"
    wrong = sum(not result.ok for result in results)
    return f"{wrong} of {len(results)} programs went wrong; please report this with the text above"


def _section(topic: str, rows: Mapping[str, Any]) -> str:
    """Return a topic and its rows as lines of text."""
    width = max(map(len, rows), default=0) + 2
    lines = [topic]
    for name, value in rows.items():
        text = textwrap.fill(
            _text(value), WIDTH, initial_indent=f"  {name:<{width}}",
            subsequent_indent=" " * (width + 2), break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        lines.append(text)
    return "\n".join(lines) + "\n"


def _text(value: Any) -> str:
    """Return a value of the report as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {item}" for name, item in value.items()) or "not known"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value)
