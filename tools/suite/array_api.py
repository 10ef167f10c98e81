"""The test suite of the Array API standard: `./dev suite array-api PATH`.

PATH is a checkout of data-apis/array-api-tests with its submodule. The suite runs in processes of
its own, with fixed random seeds. A test that fails must be listed in `array_api_exceptions.txt`,
with the reason; the exit status is 1 if one is not, or if a listed one passes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tools.suite import install

EXCEPTIONS = Path(__file__).with_name("array_api_exceptions.txt")
NEEDED = {"ndindex": "ndindex", "pytest_jsonreport": "pytest-json-report"}
"""Modules that the suite imports and the development extras do not have, and their packages."""


@dataclass
class Outcome:
    """The outcomes of the tests of a run: how many of each kind, and the message of each failure"""

    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """The tests that the suite skips itself, and its reasons."""


def parse_report(text: str) -> Outcome:
    """Return the outcomes in a report of pytest in JUnit's format."""
    outcome = Outcome()
    for case in ElementTree.fromstring(text).iter("testcase"):
        name = f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name', '')}"
        fault = case.find("failure")
        fault = case.find("error") if fault is None else fault
        if fault is not None:
            outcome.counts["failed"] += 1
            outcome.failures[name] = (fault.get("message") or "").split("\n")[0][:120]
            continue
        skipped = case.find("skipped")
        outcome.counts["passed" if skipped is None else "skipped"] += 1
        if skipped is not None:
            outcome.skipped[name] = (skipped.get("message") or "").split("\n")[0][:120]
    return outcome


def parse_exceptions(text: str) -> dict[str, str]:
    """Return the reasons by test: each line is `module::test # reason`."""
    exceptions: dict[str, str] = {}
    for line in text.splitlines():
        test, _, reason = line.partition(" # ")
        if test.strip() and not line.startswith("#"):
            if not reason.strip():
                raise ValueError(f"the exception {test.strip()} has no reason")
            exceptions[test.strip()] = reason.strip()
    return exceptions


def report(outcome: Outcome, exceptions: dict[str, str], *, whole: bool) -> tuple[list[str], int]:
    """Return the lines to print and the exit status; `whole` if no test was left out."""
    lines = []
    for name, message in sorted(outcome.failures.items()):
        reason = exceptions.get(name)
        lines.append(f"accepted {name}: {reason}" if reason else f"FAILED {name}: {message}")
    lines += [f"skipped {name}: {why}" for name, why in sorted(outcome.skipped.items())]
    unlisted = outcome.failures.keys() - exceptions.keys()
    passing = exceptions.keys() - outcome.failures.keys() if whole else set()
    lines += [f"PASSES {name}: it is listed as an exception" for name in sorted(passing)]
    counts = outcome.counts
    total = sum(counts.values())
    lines.append(
        f"array-api: {counts['passed']} of {total} tests pass, {counts['failed']} fail "
        f"({len(outcome.failures) - len(unlisted)} listed), {counts['skipped']} are skipped"
    )
    return lines, int(bool(unlisted or passing))


def run(path: Path, examples: int, jobs: int, selected: list[str]) -> Outcome | None:
    """Return the outcomes of the suite in a folder; None if it did not start."""
    install(NEEDED)
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "report.xml"
        options = ["--max-examples", str(examples), "--disable-deadline", "--derandomize"]
        environment = {
            **os.environ,
            "ARRAY_API_TESTS_MODULE": "porism",
            "ARRAY_API_TESTS_VERSION": "2025.12",
            "HYPOTHESIS_STORAGE_DIRECTORY": folder,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
        command += ["-n", str(jobs), f"--junitxml={xml}", *options, *(selected or ["."])]
        with open(os.environ.get("SUITE_LOG", os.devnull), "w") as log:
            subprocess.run(command, cwd=path, env=environment, stdout=log, check=False)
        return parse_report(xml.read_text()) if xml.exists() else None


def main() -> int:
    """Run the suite, print the failing tests and the counts, and return the exit status."""
    parser = argparse.ArgumentParser(prog="./dev suite array-api", description=__doc__)
    parser.add_argument("path", type=Path, help="a checkout of array-api-tests")
    parser.add_argument("tests", nargs="*", help="tests of it, such as array_api_tests/test_fft.py")
    parser.add_argument("--max-examples", type=int, default=20, help="of each test; 20 by default")
    parser.add_argument("--jobs", type=int, default=2, help="processes; 2 by default")
    options = parser.parse_intermixed_args()
    selected = options.tests or ["array_api_tests"]
    outcome = run(options.path, options.max_examples, options.jobs, selected)
    if outcome is None:
        print(f"array-api: the suite in {options.path} did not start; set SUITE_LOG to a file")
        return 2
    exceptions = parse_exceptions(EXCEPTIONS.read_text())
    lines, status = report(outcome, exceptions, whole=not options.tests)
    print("\n".join(lines))
    return status


if __name__ == "__main__":
    sys.exit(main())
