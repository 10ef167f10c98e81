"""Call: what it costs to call a compiled function, or to make one small operation.

Tensors of four numbers, so that only the way there and back is measured. Each library runs in a
process of its own, in turn and twice; the lower figures are shown, in microseconds. Libraries that
cannot be installed or do not run are left out, and named with the reason.

A small operation is built, found in the tables of what was compiled, and run; it works on the
result of the one before, so that its value is never known already. A stencil step takes the sum of
the four neighbours of each element of a matrix, by slices, and assigns it to the inner part.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import peers

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 2
AIMS = {"jitted call": 10, "small operation": 25}

Figures = dict[str, dict[str, float]]


def folders() -> dict[str, list[Path]]:
    """Where each library is imported from, besides what is installed already."""
    outcome: dict[str, list[Path]] = {"porism": [], "numpy": []}
    for name in ("torch", "jax", "tinygrad"):
        place = peers.install(name)
        outcome[name] = [place] if place is not None else []
    return outcome


def worker(name: str, places: list[Path]) -> Figures | str:
    """The figures of a library, or why there are none."""
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.call_worker", name],
        env={**peers.environment(*places, ROOT / "src"), "DEV": "CPU"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        return (result.stderr.strip().splitlines() or ["it failed"])[-1][:200]
    outcome: Figures = json.loads(result.stdout)
    return outcome


def measure() -> tuple[dict[str, Figures], dict[str, str]]:
    """The best figures of each library, and the reasons where there are none."""
    best: dict[str, Figures] = {}
    missing: dict[str, str] = {}
    places_of = folders()
    for _ in range(ROUNDS):
        for name, places in places_of.items():
            if name in missing:
                continue
            outcome = worker(name, places)
            if isinstance(outcome, str):
                missing[name] = outcome
                continue
            before = best.setdefault(name, outcome)
            for step, figures in outcome.items():
                before[step] = {key: min(before[step][key], figures[key]) for key in figures}
    return best, missing


def show(best: dict[str, Figures], missing: dict[str, str]) -> None:
    table = Table(title="microseconds, best (median)")
    table.add_column("", no_wrap=True)
    for name in (*best, "aim"):
        table.add_column(name, justify="right", no_wrap=True)
    for step in best["porism"]:
        cells = []
        for figures in best.values():
            one = figures.get(step)
            cells.append("" if one is None else f"{one['best']:.1f} ({one['median']:.1f})")
        table.add_row(step, *cells, str(AIMS.get(step, "")))
    console = Console()
    console.print(table)
    for name, reason in missing.items():
        console.print(f"{name} is not measured: {reason}", markup=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench call", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file too")
    options = parser.parse_args()
    best, missing = measure()
    if options.json:
        Path(options.json).write_text(json.dumps({"figures": best, "missing": missing}, indent=1))
    show(best, missing)


if __name__ == "__main__":
    main()
