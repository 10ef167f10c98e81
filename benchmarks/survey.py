"""Survey: how fast programs run that people write, beside torch, torch.compile and jax.

About 200 programs (`survey_programs/`): layers and models, products of all types and shapes,
statistics, images, stencils, sorting, gathers and scatters. Each runs as written, with the
heuristic's schedules. Samples of all backends are interleaved, as in `./dev bench cpu`; results are
compared with those of torch in float64. At the end: the geometric mean of the time of the best
other library divided by ours, and the programs in which that is below 0.95.

With --json FILE the figures are added to those in the file, after each program; --resume leaves
out those that are there, and --seconds N ends after so long: a survey can be made in slices.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.cpu import names
from benchmarks.cpu_results import Results
from benchmarks.cpu_sampling import Backends, threads_here
from benchmarks.cpu_table import console, figure, replace_part
from benchmarks.survey_programs import QUICK, SURVEY

BACKENDS = ("porism", "torch", "torch.compile", "jax.jit")
EXACT = "torch"
"""Whose results in float64 all are compared with."""
AIM = 0.95
"""The least time of the best other library, divided by ours."""
PREFIX = "survey/"
VARIABLES = {"porism": {"PORISM_CACHE": "0"}}


def ratio(results: Results, name: str) -> float | None:
    """The time of the best other library, divided by ours; above 1, ours is faster."""
    best, ours = results.best_peer(PREFIX + name), results.cells[PREFIX + name].get("porism", {})
    return best[1] / ours["seconds"] if best and "seconds" in ours else None


def measured(results: Results) -> dict[str, float]:
    """The ratio of each program that has one, the least first."""
    ratios = {name: ratio(results, name) for name in SURVEY if PREFIX + name in results.cells}
    known = {name: value for name, value in ratios.items() if value is not None}
    return dict(sorted(known.items(), key=lambda item: item[1]))


def mean(ratios: Sequence[float]) -> float:
    """The geometric one."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def chosen(options: argparse.Namespace, results: Results) -> list[str]:
    listed = list(QUICK) if options.quick else list(SURVEY)
    if options.only:
        listed = names(options.only, list(SURVEY), "program")
    return [name for name in listed if not (options.resume and PREFIX + name in results.cells)]


def measure(results: Results, options: argparse.Namespace) -> None:
    """Add programs to the results, and to their file after each one."""
    programs = chosen(options, results)
    if not programs:
        return
    begin, run = time.monotonic(), time.strftime("%Y-%m-%d %H:%M:%S")
    errors = Console(stderr=True)
    with Backends(BACKENDS, results.threads, VARIABLES, EXACT) as backends:
        results.versions.update(backends.versions)
        results.missing = backends.missing
        if EXACT in backends.missing:
            return
        for name in track(programs, "measured", console=errors, disable=not errors.is_terminal):
            results.add(PREFIX + name, backends.measure(PREFIX + name), run)
            if options.json:
                results.write(options.json)
            if options.seconds and time.monotonic() - begin > options.seconds:
                return


def line(results: Results, name: str) -> list[str]:
    """The milliseconds of each backend, and the ratio."""
    cells, texts = results.cells[PREFIX + name], []
    for backend in BACKENDS:
        cell = cells.get(backend, {})
        if "seconds" in cell:
            texts.append(figure(cell["seconds"] * 1000) + ("" if cell["right"] else "×"))
        else:
            texts.append("failed" if cell else "")
    value = ratio(results, name)
    return [name, *texts, "" if value is None else f"{value:.2f}"]


def summary(results: Results) -> str:
    ratios = measured(results)
    behind = {name: value for name, value in ratios.items() if value < AIM}
    worst = ", ".join(f"{name} {value:.2f}" for name, value in behind.items())
    return (
        f"{len(ratios)} programs; geometric mean {mean(list(ratios.values())):.2f}; "
        f"{len(behind)} below {AIM}{': ' if behind else ''}{worst}"
    )


def show(results: Results) -> None:
    table = Table(title=f"ms, {results.threads} threads", box=box.SIMPLE_HEAD)
    for name in ("program", *BACKENDS, "ahead"):
        table.add_column(name, no_wrap=True, justify="left" if name == "program" else "right")
    surveyed = [name for name in SURVEY if PREFIX + name in results.cells]
    for name in surveyed:
        table.add_row(*line(results, name))
    out = console()
    out.print(table)
    out.print("×: the result is wrong; such a time does not count.", highlight=False)
    for fault in results.faults(PREFIX + name for name in surveyed):
        out.print(fault, markup=False, highlight=False)
    out.print(summary(results), markup=False, highlight=False)


def markdown(results: Results) -> str:
    """The table and its summary, for a page."""
    versions = ", ".join(f"{name} {text}" for name, text in results.versions.items())
    rows = [line(results, name) for name in SURVEY if PREFIX + name in results.cells]
    return "\n".join(
        (
            f"{results.machine.get('processor', 'a processor')}, {results.threads} threads; "
            f"{versions}. {summary(results)}.",
            "",
            "| program | " + " | ".join(BACKENDS) + " | ahead |",
            "|---|" + "--:|" * (len(BACKENDS) + 1),
            *("| " + " | ".join(row) + " |" for row in rows),
        )
    )


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench survey",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--only", metavar="NAMES", help="programs, with commas; conv* for many")
    parser.add_argument("--quick", action="store_true", help="a few small ones")
    parser.add_argument("--threads", type=int, default=threads_here(), help="of every library")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add the figures to this file")
    parser.add_argument("--resume", action="store_true", help="only what the file does not have")
    parser.add_argument("--seconds", type=float, help="end after so long")
    parser.add_argument("--show", action="store_true", help="measure nothing, show the file")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the table into a page")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    results = (
        Results.read(options.json, options.threads) if options.json else Results(options.threads)
    )
    if not options.show:
        measure(results, options)
    if options.json:
        results.write(options.json)
    show(results)
    if options.page:
        replace_part(options.page, "survey", markdown(results))


if __name__ == "__main__":
    main()
