"""Schedule: from a tensor program to kernels, ours beside tinygrad's.

Every program is built and scheduled in a fresh process, without what earlier ones have kept on
disk, after a tiny program that loads what is loaded when it is first used. The compilers take
turns, and medians of processor time are shown. In the tables, n is the number of kernels, "ratio"
that of the times to schedule, "both" that of the times together with the functions that build the
program. Ours goes further than tinygrad's: its schedule has the indices of every kernel simplified,
which tinygrad leaves to its code generator. Nothing is run.

Divisions are counted in the kernels of programs that move data; tinygrad's after the passes of its
code generator that simplify them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import models, peers

ROOT = Path(__file__).resolve().parent.parent
LAYERS = {"dense layers": (10, 30, 100, 300, 1000), "GPT-2 blocks": (1, 3, 12, 48)}
SECONDS = ("first", "build", "schedule")
TAKEN_APART = ("softmax", "GPT-2 block", "ResNet-50", "12 GPT-2 blocks")

Task = tuple[str, str, int | None]
"""The table of a program, its name, and a number of layers."""
Figures = dict[str, Any]


def worker(compiler: str, folder: Path, task: Task) -> Figures:
    """What one process of a compiler says about a program."""
    words = [str(word) for word in task if word is not None]
    environment = {**peers.environment(folder, ROOT / "src"), "DEV": "CPU", "PORISM_CACHE": "0"}
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.schedule_worker", compiler, *words],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        return {"error": (result.stderr.strip().splitlines() or ["it failed"])[-1][:200]}
    outcome: Figures = json.loads(result.stdout)
    return outcome


def measure(tasks: list[Task], rounds: int, only: str | None) -> list[dict[str, Figures]]:
    """For every program the figures of every compiler that is here."""
    folders = {"porism": ROOT / "src"}
    tinygrad = None if only == "porism" else peers.install("tinygrad")
    if tinygrad is not None:
        folders["tinygrad"] = tinygrad
    console = Console(stderr=True)
    outcome = []
    for task in track(tasks, "scheduled", console=console, disable=not console.is_terminal):
        runs: dict[str, list[Figures]] = {name: [] for name in folders}
        for _ in range(rounds):
            for name, folder in folders.items():
                runs[name].append(worker(name, folder, task))
        outcome.append({name: middle(figures) for name, figures in runs.items()})
    return outcome


def middle(runs: list[Figures]) -> Figures:
    """The medians of some runs of the same."""
    for run in runs:
        if "error" in run:
            return run
    return {**runs[0], **{key: statistics.median(run[key] for run in runs) for key in SECONDS}}


def seconds(figures: Figures) -> float:
    """From the functions of the program to its kernels."""
    return float(figures["build"] + figures["schedule"])


def cells(outcome: dict[str, Figures]) -> list[str]:
    """Milliseconds and kernels of each compiler, and how many times longer the peer takes."""
    row = []
    for figures in outcome.values():
        if "error" in figures:
            row += ["failed", ""]
        else:
            times = (figures[key] * 1000 for key in ("build", "schedule"))
            shown = " + ".join(f"{t:.1f}" if t < 100 else f"{t:.0f}" for t in times)
            row += [shown, str(figures["kernels"])]
    return [*row, *ratios(outcome)]


def ratios(outcome: dict[str, Figures]) -> list[str]:
    if len(outcome) == 1:
        return []
    if any("error" in figures for figures in outcome.values()):
        return ["", ""]
    ours, theirs = outcome["porism"], outcome["tinygrad"]
    alone = theirs["schedule"] / ours["schedule"]
    return [f"{alone:.1f}", f"{seconds(theirs) / seconds(ours):.1f}"]


def table_of(title: str, names: list[str]) -> Table:
    table = Table(title=title)
    table.add_column("", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
        table.add_column("n", justify="right", no_wrap=True)
    if len(names) > 1:
        table.add_column("ratio", justify="right", no_wrap=True)
        table.add_column("both", justify="right", no_wrap=True)
    return table


def show_models(tasks: list[Task], outcome: list[dict[str, Figures]]) -> None:
    table = table_of("from tensors to kernels, cold: ms to build + to schedule", list(outcome[0]))
    for (_, name, _), figures in zip(tasks, outcome, strict=True):
        table.add_row(name, *cells(figures))
    Console().print(table)
    for name in outcome[0]:
        firsts = [f[name]["first"] for f in outcome if "error" not in f[name]]
        if firsts:
            first = statistics.median(firsts) * 1000
            Console().print(f"{name}: the first program of a process takes {first:.0f} ms")


def show_growth(tasks: list[Task], outcome: list[dict[str, Figures]]) -> None:
    table = Table(title="growth: ms to build and schedule, for a layer")
    table.add_column("", no_wrap=True)
    for name in outcome[0]:
        table.add_column(name, justify="right")
        table.add_column("a layer", justify="right")
        table.add_column("n", justify="right")
    if len(outcome[0]) > 1:
        table.add_column("both", justify="right")
    for (_, name, count), figures in zip(tasks, outcome, strict=True):
        assert count is not None
        row: list[str] = []
        for f in figures.values():
            if "error" in f:
                row += ["failed", "", ""]
            else:
                time = seconds(f) * 1000
                row += [f"{time:,.0f}", f"{time / count:.2f}", str(f["kernels"])]
        table.add_row(f"{count} {name}", *row, *ratios(figures)[1:])
    Console().print(table)


def show_divisions(tasks: list[Task], outcome: list[dict[str, Figures]]) -> None:
    table = Table(title="divisions and remainders left in the kernels of movements")
    table.add_column("")
    for name in outcome[0]:
        table.add_column(name, justify="right")
        table.add_column("kernels", justify="right")
    for (_, program, _), figures in zip(tasks, outcome, strict=True):
        row = []
        for f in figures.values():
            row += ["failed", ""] if "error" in f else [str(sum(f["divisions"])), str(f["kernels"])]
        table.add_row(program, *row)
    Console().print(table)


def show_stages(names: tuple[str, ...]) -> dict[str, Figures]:
    """Where our time goes, in percent."""
    outcome = {name: worker("stages", ROOT / "src", ("MODELS", name, None)) for name in names}
    outcome = {name: figures for name, figures in outcome.items() if "error" not in figures}
    table = Table(title="our time by stage, in %")
    table.add_column("")
    for name in outcome:
        table.add_column(name, justify="right")
    totals = {name: sum(figures.values()) for name, figures in outcome.items()}
    for stage in dict.fromkeys(stage for figures in outcome.values() for stage in figures):
        shares = [f[stage] / totals[n] * 100 if stage in f else 0.0 for n, f in outcome.items()]
        table.add_row(stage, *(f"{share:.0f}" for share in shares))
    table.add_row("all, in ms", *(f"{total * 1000:.1f}" for total in totals.values()))
    Console().print(table)
    return outcome


def faults(tasks: list[Task], outcome: list[dict[str, Figures]]) -> list[str]:
    """What failed, and programs that are not the same on both sides."""
    said = []
    for (_, name, count), figures in zip(tasks, outcome, strict=True):
        program = name if count is None else f"{count} {name}"
        for compiler, f in figures.items():
            if "error" in f:
                said.append(f"{program}, {compiler}: {f['error']}")
        shapes = [f["shape"] for f in figures.values() if "error" not in f]
        if any(shape != shapes[0] for shape in shapes):
            said.append(f"{program}: the results have the shapes {shapes}")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench schedule", description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each compiler")
    parser.add_argument("--only", help="one compiler")
    parser.add_argument("--quick", action="store_true", help="one round, small sizes")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    whole: list[Task] = [("MODELS", name, None) for name in models.MODELS]
    growing: list[Task] = [
        ("GROWING", name, count)
        for name, counts in LAYERS.items()
        for count in (counts[:2] if options.quick else counts)
    ]
    moving: list[Task] = [("MOVEMENTS", name, None) for name in models.MOVEMENTS]
    written: dict[str, Any] = {}
    for title, tasks, times, show in (
        ("models", whole, rounds, show_models),
        ("growth", growing, min(rounds, 3), show_growth),
        ("divisions", moving, 1, show_divisions),
    ):
        outcome = measure(tasks, times, options.only)
        show(tasks, outcome)
        for fault in faults(tasks, outcome):
            Console().print(fault, markup=False, highlight=False)
        names = [name if n is None else f"{n} {name}" for _, name, n in tasks]
        written[title] = dict(zip(names, outcome, strict=True))
    written["stages"] = show_stages(TAKEN_APART)
    if options.json:
        options.json.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
