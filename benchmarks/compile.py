"""Compile: from a tensor program to machine code, ours beside tinygrad's and jax.jit's.

Every program is compiled in a fresh process, without what earlier ones have kept on disk, after a
tiny program that loads what is loaded when it is first used. The compilers take turns, and medians
are shown: of processor time by step, and of all steps also by the clock. Nothing is run.

The steps: "build" calls the functions that build the program (jax: traces them), "schedule" makes
kernels, "rewrite" makes each ready for the machine, with the text that is handed over (jax: lowers
to StableHLO, and leaves the rest to XLA), "code" is LLVM's part, clang's or XLA's. Where there is
no clang, tinygrad's time ends with its text: its total lacks a step. "s + r" is how many times
longer than ours schedule and rewrite take together, "all" how many times longer everything.

Warm: a new process that finds our kernels on disk, with and without importing Porism.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import models, peers

ROOT = Path(__file__).resolve().parent.parent
PEERS = ("tinygrad", "jax")
STEPS = {
    "build": ("build",),
    "schedule": ("schedule",),
    "rewrite": ("lower", "render"),
    "code": ("compile",),
}
"""The columns of the table, and the worker's steps in each."""
UNKEPT = {"PORISM_CACHE": "0", "CCACHE": "0", "CACHELEVEL": "0", "DEV": "CPU"}
WARM = ("GPT-2 block", "ResNet-50")
BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
"""Modules are kept as bytecode, as they are after an installation."""

Figures = dict[str, Any]


def console() -> Console:
    """Where the tables go; wide enough for them also if that is a file."""
    outcome = Console()
    return outcome if outcome.is_terminal else Console(width=100)


def worker(compiler: str, program: str, folder: Path | None, variables: dict[str, str]) -> Figures:
    """What one process of a compiler says about a program."""
    folders = [ROOT / "src"] if folder is None else [folder, ROOT / "src"]
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.compile_worker", compiler, program],
        env={**peers.environment(*folders), **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        return {"error": (result.stderr.strip().splitlines() or ["it failed"])[-1][:200]}
    outcome: Figures = json.loads(result.stdout.splitlines()[-1])
    return outcome


def middle(runs: list[Figures]) -> Figures:
    """The medians of some runs of the same."""
    for run in runs:
        if "error" in run:
            return run
    outcome = dict(runs[0])
    for key in ("import", "first", "total"):
        if key in outcome:
            outcome[key] = median([run[key] for run in runs])
    outcome["steps"] = {
        step: median([run["steps"][step] for run in runs]) for step in outcome["steps"]
    }
    return outcome


def median(pairs: list[list[float]]) -> list[float]:
    return [statistics.median(numbers) for numbers in zip(*pairs, strict=True)]


# -- cold ------------------------------------------------------------------------------------------


def cold(programs: list[str], rounds: int, only: str | None) -> dict[str, dict[str, Figures]]:
    """For every program the figures of every compiler that is here."""
    folders: dict[str, Path | None] = {"porism": None}
    for name in PEERS:
        if only in (None, name) and (folder := peers.install(name)) is not None:
            folders[name] = folder
    errors = Console(stderr=True)
    outcome = {}
    for program in track(programs, "compiled", console=errors, disable=not errors.is_terminal):
        runs: dict[str, list[Figures]] = {name: [] for name in folders}
        for _ in range(rounds):
            for name, folder in folders.items():
                runs[name].append(worker(name, program, folder, UNKEPT))
        outcome[program] = {name: middle(figures) for name, figures in runs.items()}
    return outcome


def spent(figures: Figures, *columns: str) -> float:
    """Processor seconds of some columns."""
    steps = figures["steps"]
    return float(sum(steps[s][0] for c in columns for s in STEPS[c] if s in steps))


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f}" if seconds < 0.1 else f"{seconds * 1000:,.0f}"


def show_cold(outcome: dict[str, dict[str, Figures]]) -> None:
    title = "from tensors to machine code, cold: ms of the processor"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for title in ("", *STEPS, "total", "clock", "s + r", "all"):
        table.add_column(title, justify="left" if not title else "right", no_wrap=True)
    for program, compilers in outcome.items():
        ours = compilers["porism"]
        for name, figures in compilers.items():
            shown = program if name == "porism" else ""
            if "error" in figures:
                table.add_row(shown, name, "failed")
                continue
            steps = figures["steps"]
            cells = [
                ms(spent(figures, c)) if any(s in steps for s in inside) else ""
                for c, inside in STEPS.items()
            ]
            total, clock = figures["total"]
            ratios = ["", ""] if name == "porism" else times(figures, ours)
            table.add_row(shown, name, *cells, ms(total), ms(clock), *ratios)
    console().print(table)


def times(theirs: Figures, ours: Figures) -> list[str]:
    """How many times longer theirs takes: to schedule and rewrite, and all in all."""
    if "error" in ours:
        return ["", ""]
    columns = ("schedule", "rewrite")
    both = spent(theirs, *columns) / spent(ours, *columns) if "schedule" in theirs["steps"] else 0
    whole = theirs["total"][0] / ours["total"][0]
    complete = "compile" in theirs["steps"]
    return [f"{both:.1f}" if both else "", f"{'' if complete else '> '}{whole:.1f}"]


def show_beginnings(outcome: dict[str, dict[str, Figures]]) -> None:
    """What every process pays once."""
    for name in next(iter(outcome.values())):
        runs = [figures[name] for figures in outcome.values() if "error" not in figures[name]]
        if runs:
            load, first = (
                statistics.median(run[k][0] for run in runs) for k in ("import", "first")
            )
            console().print(f"{name}: {ms(load)} ms to import, {ms(first)} ms for a first program")
    peer = [figures["tinygrad"] for figures in outcome.values() if "tinygrad" in figures]
    if any("compile" not in figures["steps"] for figures in peer if "error" not in figures):
        console().print("tinygrad: there is no clang here, so its total ends with its text")


# -- warm ------------------------------------------------------------------------------------------


def warm(programs: list[str], rounds: int) -> dict[str, Figures]:
    """Ours in new processes, after one that has filled a folder of its own."""
    outcome = {}
    for program in programs:
        with tempfile.TemporaryDirectory() as folder:
            variables = {"PORISM_CACHE": "1", "PORISM_CACHE_DIR": folder, **BYTECODE}
            worker("fill", program, None, variables)
            runs = [worker("warm", program, None, variables) for _ in range(rounds)]
        figures = middle(runs)
        if any(run.get("compiled") for run in runs):
            figures = {"error": "kernels were compiled: nothing was kept, or the sources changed"}
        outcome[program] = figures
    return outcome


def show_warm(outcome: dict[str, Figures]) -> None:
    table = Table(title="a new process with kernels on disk: ms of the processor (by the clock)")
    for title in ("", "import", "until ready", "both"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for program, figures in outcome.items():
        if "error" in figures:
            table.add_row(program, "failed")
            continue
        pairs = [figures["import"], figures["total"]]
        pairs.append([sum(numbers) for numbers in zip(*pairs, strict=True)])
        table.add_row(program, *(f"{ms(used)} ({ms(clock)})" for used, clock in pairs))
    console().print(table)


def faults(outcome: dict[str, dict[str, Figures]], again: dict[str, Figures]) -> list[str]:
    """What failed, and programs that are not the same for all."""
    said = [f"{program}, warm: {f['error']}" for program, f in again.items() if "error" in f]
    for program, compilers in outcome.items():
        for name, figures in compilers.items():
            if "error" in figures:
                said.append(f"{program}, {name}: {figures['error']}")
        shapes = [f["shape"] for f in compilers.values() if "error" not in f]
        if any(shape != shapes[0] for shape in shapes):
            said.append(f"{program}: the results have the shapes {shapes}")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench compile", description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each compiler")
    parser.add_argument("--only", help="one compiler beside ours, or porism for ours alone")
    parser.add_argument("--program", help="one of the programs")
    options = parser.parse_args()
    programs = [name for name in models.COMPILED if options.program in (None, name)]
    outcome = cold(programs, options.rounds, options.only)
    show_cold(outcome)
    show_beginnings(outcome)
    again = warm([name for name in WARM if name in programs], options.rounds)
    if again:
        show_warm(again)
    for fault in faults(outcome, again):
        console().print(fault, markup=False, highlight=False)
    if options.json:
        figures = {"cold": outcome, "warm": again}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
