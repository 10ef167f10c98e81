"""Growth: how the cost of a program grows with its sizes, and where a size costs too much.

The efficiency of a size is its share of the roofline. A size is marked where it has less than 70 %
of the efficiency of the next smaller or larger one: a cliff. A graph of ever more layers shows how
compiling grows: seconds and memory for each step, in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import cpu_workloads, peers
from benchmarks.cpu_results import Results

ROOT = Path(__file__).resolve().parent.parent
LAYERS = (10, 30, 100, 300, 1000)
CLIFF = 0.7
BACKENDS = ("porism", "numpy")


def names(only: list[str]) -> list[str]:
    """Of all sizes of all families, or of those families that are named."""
    return [
        f"{family}/{size}"
        for family, sizes in cpu_workloads.GROWING.items()
        if not only or family in only
        for size in sizes
    ]


def efficiencies(results: Results, family: str, backend: str) -> dict[int, float]:
    """By size."""
    result = {}
    for size in cpu_workloads.GROWING[family]:
        name = f"{family}/{size}"
        cell = results.cells.get(name, {}).get(backend)
        share = None if cell is None else results.share(name, cell)
        if share is not None:
            result[size] = share
    return result


def cliffs(efficiency: dict[int, float]) -> list[int]:
    """Sizes with much less efficiency than a neighbour has."""
    sizes = sorted(efficiency)
    result = []
    for k, size in enumerate(sizes):
        beside = [efficiency[other] for other in (*sizes[max(k - 1, 0) : k], *sizes[k + 1 : k + 2])]
        if any(efficiency[size] < CLIFF * other for other in beside):
            result.append(size)
    return result


def layers(counts: tuple[int, ...], threads: int) -> list[dict[str, float]]:
    """The steps of graphs of so many layers."""
    result = []
    for count in counts:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.cpu_layers", str(count)],
            env={
                **peers.environment(ROOT / "src"),
                "PORISM_CACHE": "0",
                "PORISM_THREADS": str(threads),
            },
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{count} layers failed:\n{done.stderr}")
        result.append(json.loads(done.stdout))
    return result


# -- tables ----------------------------------------------------------------------------------------

STEPS = ("build", "schedule", "compile", "first run", "run")


def size_lines(results: Results, family: str) -> list[list[str]]:
    """Size, milliseconds, the share of the roofline, a mark, and the share that numpy has."""
    ours, theirs = (efficiencies(results, family, name) for name in BACKENDS)
    marked = cliffs(ours)
    result = []
    for size in cpu_workloads.GROWING[family]:
        cell = results.cells.get(f"{family}/{size}", {}).get("porism")
        if cell is None:
            continue
        if size not in ours:
            result.append([str(size), "failed", "", "", ""])
            continue
        beside = f"{theirs[size]:.0%}" if size in theirs else ""
        mark = "cliff" if size in marked else ""
        result.append(
            [str(size), f"{cell['seconds'] * 1000:.3f}", f"{ours[size]:.0%}", beside, mark]
        )
    return result


SIZE_COLUMNS = ("size", "ms", "share of the roofline", "numpy's", "")


def layer_lines(results: Results) -> list[list[str]]:
    result = []
    for row in results.layers:
        count = row["layers"]
        steps = [f"{row[step] * 1000:.1f}" for step in STEPS]
        each = sum(row[step] for step in STEPS[:3]) / count
        megabytes = f"{row['megabytes']:.0f}"
        result.append(
            [f"{count:.0f}", f"{row['kernels']:.0f}", *steps, f"{each * 1000:.2f}", megabytes]
        )
    return result


LAYER_COLUMNS = (
    "layers",
    "kernels",
    *(f"{step} ms" for step in STEPS),
    "until ready, ms a layer",
    "MB",
)


def tables(results: Results) -> list[tuple[str, tuple[str, ...], list[list[str]]]]:
    """Title, columns and rows of those that have any."""
    result: list[tuple[str, tuple[str, ...], list[list[str]]]] = [
        (f"{family}, {results.threads} threads", SIZE_COLUMNS, size_lines(results, family))
        for family in cpu_workloads.GROWING
    ]
    result.append(("a graph of many layers", LAYER_COLUMNS, layer_lines(results)))
    return [each for each in result if each[2]]


def show(results: Results, out: Console) -> None:
    for title, columns, rows in tables(results):
        table = Table(title=title, box=box.SIMPLE_HEAD)
        for column in columns:
            table.add_column(column, justify="right")
        for row in rows:
            table.add_row(*row)
        out.print(table)
    for fault in results.faults(names([])):
        out.print(fault, markup=False, highlight=False)


def markdown(results: Results) -> str:
    parts = []
    for title, columns, rows in tables(results):
        parts.append(f"**{title}**\n")
        parts.append("| " + " | ".join(columns) + " |")
        parts.append("|" + "--:|" * len(columns))
        parts.extend("| " + " | ".join(row) + " |" for row in rows)
        parts.append("")
    return "\n".join(parts).rstrip()
