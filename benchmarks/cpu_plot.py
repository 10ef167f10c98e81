"""Plots of the processor benchmark: `cpu_plot RESULTS FILE KIND`, in a process with matplotlib.

The table as points: for each workload the share of the roofline that each backend reaches. Growth
as lines: the share by size, with cliffs marked.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import cpu_growth, cpu_workloads, peers
from benchmarks.cpu_results import OURS, Results

ROOT = Path(__file__).resolve().parent.parent
COLOURS = {
    "porism": "#d1495b", "porism beam": "#8d0801", "numpy": "#a3a3a3", "torch": "#f4a259",
    "torch.compile": "#bc6c25", "jax.jit": "#5b8e7d", "onnxruntime": "#30638e",
    "tinygrad": "#8e7dbe",
}  # fmt: skip


def draw(results: Results, path: Path, growth: bool) -> None:
    """By a process that has matplotlib; says so if there is none."""
    folder = peers.install("matplotlib")
    if folder is None:
        return
    with tempfile.TemporaryDirectory() as place:
        kept = Path(place) / "results.json"
        results.write(kept)
        subprocess.run(
            [
                sys.executable, "-m", "benchmarks.cpu_plot",
                str(kept), str(path.resolve()), "growth" if growth else "table",
            ],
            env={**peers.environment(folder, ROOT / "src"), "MPLCONFIGDIR": place},
            cwd=ROOT,
            check=True,
        )  # fmt: skip


def points(plots: Any, results: Results) -> Any:
    """A row for each workload, a point for each backend; ours are larger."""
    names = results.in_order()
    figure, axes = plots.subplots(figsize=(8, 1.3 + 0.2 * len(names)))
    for backend in reversed(results.backends):
        shares = {
            place: share
            for place, name in enumerate(names)
            if (share := results.share(name, results.cells[name].get(backend, {}))) is not None
        }
        axes.plot(
            list(shares.values()),
            list(shares),
            "D" if backend in OURS else "o",
            markersize=6 if backend in OURS else 4,
            label=backend,
            color=COLOURS[backend],
        )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlim(left=0.01)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.grid(axis="y", linewidth=0.3)
    axes.set_xlabel(f"share of the roofline, {results.threads} threads")
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], fontsize=7, ncols=4, loc="lower center",
                bbox_to_anchor=(0.4, 1))  # fmt: skip
    return figure


def lines(plots: Any, results: Results) -> Any:
    shown = [f for f in cpu_workloads.GROWING if cpu_growth.efficiencies(results, f, "porism")]
    count = len(shown) + bool(results.layers)
    figure, rows = plots.subplots(count, 1, figsize=(8, 2.8 * count), squeeze=False)
    for axes, family in zip(rows[:, 0], shown, strict=False):
        for backend in cpu_growth.BACKENDS:
            result = cpu_growth.efficiencies(results, family, backend)
            axes.plot(list(result), list(result.values()), "o-", markersize=3, linewidth=1,
                      label=backend, color=COLOURS[backend])  # fmt: skip
        ours = cpu_growth.efficiencies(results, family, "porism")
        marked = cpu_growth.cliffs(ours)
        axes.plot(marked, [ours[size] for size in marked], "x", color="black", label="cliff")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_ylim(0, 1.1)
        axes.set_title(family, fontsize=9)
        axes.set_ylabel("share of the roofline", fontsize=8)
        axes.legend(fontsize=7)
    if results.layers:
        axes = rows[-1, 0]
        for step in cpu_growth.STEPS:
            counts = [row["layers"] for row in results.layers]
            axes.plot(counts, [row[step] * 1000 for row in results.layers], "o-", markersize=3,
                      linewidth=1, label=step)  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title("a graph of many layers", fontsize=9)
        axes.set_ylabel("ms", fontsize=8)
        axes.legend(fontsize=7)
    return figure


def main() -> None:
    import matplotlib  # type: ignore[import-not-found, unused-ignore]

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "porism"  # the same figures give the same file
    matplotlib.rcParams["svg.fonttype"] = "none"
    import matplotlib.pyplot as plots  # type: ignore[import-not-found, unused-ignore]

    source, target, kind = sys.argv[1:]
    results = Results.read(Path(source))
    figure = (lines if kind == "growth" else points)(plots, results)
    figure.tight_layout()
    figure.savefig(target, dpi=150, metadata={"Date": None} if target.endswith("svg") else None)


if __name__ == "__main__":
    main()
