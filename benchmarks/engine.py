"""Engine: how fast nodes are made and rewritten, ours beside tinygrad's, on the same expressions.

Each compiler runs in a process of its own; the processes take turns, and the best round of each
counts, so that a busy machine disturbs both alike. Rates are nodes per second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import peers

ROOT = Path(__file__).resolve().parent.parent

ROWS = {
    "constructor_cold": "make nodes by constructor, cold",
    "constructor_bounds_cold": "… and read their bounds",
    "operator_cold": "make nodes by operators, cold",
    "constructor_hit": "make nodes by constructor, hit",
    "operator_hit": "make nodes by operators, hit",
    "random_rewrite": "build and rewrite, random index expressions",
    "matmul_rewrite": "build and rewrite, unrolled matmul",
}


def measure(rounds: int, size: int) -> dict[str, dict[str, Any]]:
    """The figures of every compiler that is here."""
    folders = {"porism": ROOT / "src"}
    tinygrad = peers.install("tinygrad")
    if tinygrad is not None:
        folders["tinygrad"] = tinygrad
    found: dict[str, dict[str, Any]] = {name: {} for name in folders}
    for _ in range(rounds):
        for name, folder in folders.items():
            command = [sys.executable, "-m", "benchmarks.engine_worker", name, str(size)]
            environment = peers.environment(folder, ROOT / "src")
            result = subprocess.run(
                command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
            )
            if result.returncode:
                raise SystemExit(f"the run of {name} failed:\n{result.stderr}")
            for key, value in json.loads(result.stdout).items():
                best = min if key.startswith("bytes") else max
                found[name][key] = best(found[name].get(key, value), value)
    return found


def growth(sizes: tuple[int, ...]) -> list[dict[str, float]]:
    """Seconds and memory for building and rewriting ever larger graphs of ours."""
    rows = []
    for size in sizes:
        command = [sys.executable, "-m", "benchmarks.engine_worker", "growth", str(size)]
        output = subprocess.run(
            command, env=peers.environment(ROOT / "src"), cwd=ROOT, capture_output=True, check=True
        ).stdout
        rows.append(json.loads(output))
    return rows


def show(found: dict[str, dict[str, Any]], grown: list[dict[str, float]]) -> None:
    console = Console()
    table = Table(title="thousand nodes per second")
    table.add_column("")
    for name in found:
        table.add_column(name, justify="right")
    if "tinygrad" in found:
        table.add_column("ratio", justify="right")
    for key, label in ROWS.items():
        cells = [f"{figures[key] / 1000:,.0f}" for figures in found.values()]
        if "tinygrad" in found:
            cells.append(f"{found['porism'][key] / found['tinygrad'][key]:.1f}×")
        table.add_row(label, *cells)
    for key, label in (("bytes", "bytes per node"), ("bytes_bounds", "… with bounds read")):
        cells = [f"{figures[key]:,.0f}" for figures in found.values()]
        if "tinygrad" in found:
            cells.append(f"{found['tinygrad'][key] / found['porism'][key]:.1f}×")
        table.add_row(label, *cells)
    console.print(table)
    size = Table(title="a growing graph, built and rewritten by a pass")
    for column in ("nodes", "build s", "rewrite s", "peak MB", "bytes per node"):
        size.add_column(column, justify="right")
    for row in grown:
        size.add_row(
            f"{row['nodes']:,.0f}",
            f"{row['build']:.2f}",
            f"{row['rewrite']:.2f}",
            f"{row['peak'] / 1e6:,.0f}",
            f"{row['peak'] / row['nodes']:,.0f}",
        )
    console.print(size)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench engine", description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each compiler")
    parser.add_argument("--size", type=int, default=20_000, help="nodes of an expression")
    parser.add_argument("--quick", action="store_true", help="one round, small sizes")
    options = parser.parse_args()
    rounds, size = (1, 2_000) if options.quick else (options.rounds, options.size)
    found = measure(rounds, size)
    grown = growth((10_000,) if options.quick else (250_000, 500_000, 1_000_000))
    show(found, grown)
    if options.json:
        options.json.write_text(json.dumps({"rates": found, "growth": grown}, indent=1) + "\n")


if __name__ == "__main__":
    main()
