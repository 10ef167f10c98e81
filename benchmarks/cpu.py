"""CPU: how fast programs run on the processor, ours beside its peers and the machine's limits.

A table of workloads and backends: milliseconds, the share of the roofline, and the error relative
to the result in float64. Each backend runs in a process of its own, with the same number of
threads; all samples of a workload are taken in turn, warm, and medians are shown. The roofline is
measured too. Backends that cannot be installed, or do not run, are named with the reason.

With --json FILE the figures are added to those in the file, so that a long measurement can be made
in pieces, and the tables and plots show all of them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Console
from rich.progress import track

from benchmarks import cpu_backends, cpu_growth, cpu_limits, cpu_plot, cpu_table, cpu_workloads
from benchmarks.cpu_results import Results
from benchmarks.cpu_sampling import Backends, threads_here

BEAM = "porism beam"
WIDTH = 4
"""Lists of actions that the search keeps in each round."""
SECONDS = 60
"""Of the search, if not said."""
QUICK = ("porism", "numpy")
LIMITS_EVERY = 10
"""Workloads, after which the limits are measured again: memory is faster now and slower then."""


def backends_for(options: argparse.Namespace) -> list[str]:
    """Those asked for; the search only if it has its seconds."""
    if options.backends:
        return names(options.backends, list(cpu_backends.MODULES), "backend")
    if options.quick:
        return list(QUICK)
    if options.growth:
        return list(cpu_growth.BACKENDS)
    return [name for name in cpu_backends.MODULES if name != BEAM or options.beam]


def workloads_for(options: argparse.Namespace) -> list[str]:
    if options.growth:
        families = list(cpu_workloads.GROWING)
        only = names(options.only, [*families, "layers"], "family") if options.only else []
        return cpu_growth.names(only)
    if options.quick:
        return list(cpu_workloads.QUICK)
    known = list(cpu_workloads.WORKLOADS)
    return names(options.only, known, "workload") if options.only else known


def names(text: str, known: list[str], what: str) -> list[str]:
    """Words between commas, each one of those known, or the beginning of some with a star."""
    result = []
    for word in text.split(","):
        start = word.removesuffix("*")
        chosen = [
            name for name in known if name == word or (word != start and name.startswith(start))
        ]
        if not chosen:
            raise SystemExit(f"there is no {what} {word!r}; there are: {', '.join(known)}")
        result.extend(chosen)
    return result


def variables(beam: int | None) -> dict[str, dict[str, str]]:
    """The heuristic decides anew each time; what the search finds is kept while it runs."""
    search = {"PORISM_BEAM": str(WIDTH), "PORISM_BEAM_SECONDS": str(beam or SECONDS)}
    return {"porism": {"PORISM_CACHE": "0"}, BEAM: {"PORISM_CACHE": "1", **search}}


def measure(results: Results, options: argparse.Namespace) -> None:
    """Add a run to the results, and to their file after each workload."""
    run = time.strftime("%Y-%m-%d %H:%M:%S")
    chosen, workloads = backends_for(options), workloads_for(options)
    if not workloads:
        return
    errors = Console(stderr=True)
    with Backends(chosen, results.threads, variables(options.beam)) as backends:
        results.versions.update(backends.versions)
        shown = track(workloads, "measured", console=errors, disable=not errors.is_terminal)
        for place, name in enumerate(shown):
            if place % LIMITS_EVERY == 0:
                results.limits.append(cpu_limits.measure(results.threads))
            results.add(name, backends.measure(name), run)
            if options.json:
                results.write(options.json)
        results.missing = {
            **{k: v for k, v in results.missing.items() if k not in chosen},
            **backends.missing,
        }


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench cpu", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", metavar="NAMES", help="workloads, with commas; mm_* for many")
    parser.add_argument("--backends", metavar="NAMES", help="backends, with commas")
    parser.add_argument("--threads", type=int, default=threads_here(), help="of every backend")
    parser.add_argument(
        "--beam", type=int, metavar="SECONDS", help="ours by search too, so long each"
    )
    parser.add_argument("--growth", action="store_true", help="how cost grows with sizes instead")
    parser.add_argument("--quick", action="store_true", help="a few small ones, ours and numpy")
    parser.add_argument("--show", action="store_true", help="measure nothing, show the file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add the figures to this file")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table as CSV")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it, as .svg or .png")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the tables into a page")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    results = (
        Results.read(options.json, options.threads) if options.json else Results(options.threads)
    )
    if not options.show:
        measure(results, options)
        if options.growth and (not options.only or "layers" in options.only):
            results.layers = cpu_growth.layers(cpu_growth.LAYERS, options.threads)
    if options.json:
        results.write(options.json)
    if options.growth:
        cpu_growth.show(results, cpu_table.console())
    else:
        cpu_table.show(results)
    if options.csv:
        results.write_csv(options.csv)
    if options.plot:
        cpu_plot.draw(results, options.plot, options.growth)
    if options.page:
        cpu_table.write_page(results, options.page)


if __name__ == "__main__":
    main()
