"""The report: what was found and how the self-test went, for people or as JSON."""

from __future__ import annotations

import dataclasses
import json
import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from porism.doctor import machine_report, self_test
from porism.doctor.self_test import Result

WIDTH: Final = 100
"""Of a line, in characters."""


def run(version: str, *, as_json: bool = False) -> int:
    """Print the report; the exit status is 0 if every program of the self-test is right."""
    facts = machine_report.facts(version)
    begin = time.perf_counter()
    results = list(self_test.run())
    seconds = time.perf_counter() - begin
    missing = [name for name in self_test.usable() if all(r.backend != name for r in results)]
    well = bool(results) and all(result.ok for result in results)
    if as_json:
        tried = [dataclasses.asdict(result) for result in results]
        test = {"seconds": round(seconds, 3), "results": tried, "left out": missing}
        print(json.dumps({"ok": well, **facts, "self-test": test}, indent=1, ensure_ascii=False))
        return int(not well)
    for topic, rows in facts.items():
        print(_section(topic, rows))
    told: dict[str, Any] = dict(self_test.summary(results))
    told |= dict.fromkeys(missing, "not tried: the time was over")
    print(_section("self-test", told))
    print(_verdict(results, well))
    return int(not well)


def _verdict(results: Sequence[Result], well: bool) -> str:
    if well:
        return "all is well"
    if not results:
        return "nothing could be tried"
    wrong = sum(not result.ok for result in results)
    return f"{wrong} of {len(results)} programs went wrong; please report this with the text above"


def _section(topic: str, rows: Mapping[str, Any]) -> str:
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
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {one}" for name, one in value.items()) or "not known"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value)
