"""Train: whole training steps with AdamW, ours beside torch.compile, jax.jit and tinygrad.

Every compiler trains the same network from the same weights in a process of its own, without what
earlier ones have kept on disk; they take turns. "import" is the time to import the compiler, and
"compile" the first two calls less two steps: some load more of themselves there. "peak" is the most
memory of the process while it trains, less what it had before the weights were made, and without
the code of libraries; "loss" the largest difference from the losses of the first compiler, relative
to them.

With `--curve` the losses of 200 steps are compared with torch's. `--layers` shows how compile time
and kernels grow with the layers of a GPT-2.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import peers
from benchmarks.train_models import MODELS

ROOT = Path(__file__).resolve().parent.parent
PEERS = {
    "torch.compile": ("torch",),
    "torch": ("torch",),
    "jax": ("jax",),
    "tinygrad": ("tinygrad", "ziglang"),  # which brings clang
}
"""The compilers, and the packages of each."""
DEFAULT = tuple(MODELS)[:3]
CURVES = (*tuple(MODELS)[:2], "GPT tiny")
LAYERS = tuple(name for name in MODELS if name.startswith("GPT-2,"))
UNKEPT = {
    "PORISM_CACHE": "0",
    "CACHELEVEL": "0",
    "DEV": "CPU",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    "PYTHONDONTWRITEBYTECODE": "",  # the others come with bytecode
}
LIMIT = 1200
"""Seconds that one process may take."""

Figures = dict[str, Any]


def worker(compiler: str, model: str, steps: int, seconds: float) -> Figures | None:
    """What one process of a compiler says about a model; None if it cannot be installed."""
    folders = [ROOT / "src"]
    for package in PEERS.get(compiler, ()):
        folder = peers.install(package)
        if folder is None:
            return None
        folders.insert(0, folder)
    command = [sys.executable, "-m", "benchmarks.train_worker", compiler, model]
    command += ["--steps", str(steps), "--seconds", str(seconds)]
    environment = {**peers.environment(*folders), **UNKEPT}
    try:
        result = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False,
            timeout=LIMIT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": f"not done in {LIMIT} s"}
    if result.returncode:
        return {"error": (result.stderr.strip().splitlines() or ["it failed"])[-1][:200]}
    figures: Figures = json.loads(result.stdout.splitlines()[-1])
    return figures


def deviation(losses: list[float], expected: list[float]) -> float:
    """The largest difference of two loss curves, relative to the second."""
    pairs = zip(losses, expected, strict=False)
    return max((abs(a - b) / max(abs(b), 1e-3) for a, b in pairs), default=0.0)


def compared(models: list[str], compilers: list[str], steps: int, seconds: float) -> Figures:
    """For every model the figures of every compiler that is here."""
    found: Figures = {}
    for model in models:
        rows = {name: worker(name, model, steps, seconds) for name in compilers}
        found[model] = {name: row for name, row in rows.items() if row is not None}
        show(model, found[model])
    return found


def show(model: str, rows: dict[str, Figures]) -> None:
    """Print the table of a model."""
    console = Console()
    console = console if console.is_terminal else Console(width=100)
    table = Table(title=model, box=box.SIMPLE)
    table.add_column("")
    for column in ("kernels", "ms a step", "best", "peak MiB", "import s", "compile s", "loss"):
        table.add_column(column, justify="right")
    first = next((row["losses"] for row in rows.values() if "losses" in row), [])
    for name, row in rows.items():
        if "error" in row:
            table.add_row(name, row["error"])
            continue
        table.add_row(
            name,
            "" if row["kernels"] is None else str(row["kernels"]),
            f"{row['milliseconds']:.2f}",
            f"{row['best']:.2f}",
            f"{row['peak'] / 2**20:.0f}",
            f"{row['import']:.1f}",
            f"{row['compile']:.1f}",
            f"{deviation(row['losses'], first):.1e}",
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench train", description=__doc__)
    parser.add_argument("models", nargs="*", help="parts of the names of models")
    parser.add_argument("--only", action="append", help="a compiler; may be given several times")
    parser.add_argument("--steps", type=int, default=10, help="steps whose losses are compared")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds to train, at least")
    parser.add_argument("--curve", action="store_true", help="200 steps beside torch's")
    parser.add_argument("--layers", action="store_true", help="growth with the layers of a GPT-2")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    given = parser.parse_args()
    models, compilers = list(DEFAULT), ["porism", *PEERS]
    steps, seconds = given.steps, given.seconds
    if given.curve:
        models, compilers, steps, seconds = list(CURVES), ["porism", "torch"], 200, 0.0
    if given.layers:
        models, compilers, steps, seconds = list(LAYERS), ["porism"], 4, 0.0
    if given.models:
        models = [name for name in MODELS if any(part in name for part in given.models)]
    found = compared(models, given.only or compilers, steps, seconds)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
