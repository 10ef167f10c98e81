"""Simplify: how many divisions are left in index expressions, and how long that takes.

`dm` is the number of different `//` and `%` in the text of a result, `dq` the number of different
pairs of numerator and divisor; both are counted, and every result is compared with its expression,
by Python's own reading of the texts: at every point of a box that is not too large, else at many
points, corners among them. With --z3 the solver is asked as well. Each compiler runs in a process
of its own, on the same rows.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import index_values, peers
from benchmarks.index_corpus import corpus

ROOT = Path(__file__).resolve().parent.parent
ROWS, SEED = 600, 20_260
FAULTS_SHOWN = 10
VERDICTS = ("proved", "refuted", "unknown")

Rows = list[dict[str, Any]]
Figures = dict[str, float]


def answers(name: str, folder: Path | None, file: Path, rounds: int, rows: int) -> Rows:
    """What one compiler makes of each row."""
    command = [sys.executable, "-m", "benchmarks.simplify_worker", name, str(file), str(rounds)]
    folders = [ROOT / "src"] if folder is None else [folder, ROOT / "src"]
    process = subprocess.Popen(
        command, env=peers.environment(*folders), cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    console = Console(stderr=True)
    lines = track(
        process.stdout, name, total=rows, console=console, disable=not console.is_terminal
    )
    result = [json.loads(line) for line in lines]
    if process.wait():
        raise SystemExit(f"the run of {name} failed")
    return result


def judged(name: str, rows: Rows, result: Rows, z3_seconds: float | None) -> Rows:
    """Each answer with its divisions, and whether it is wrong."""
    console = Console(stderr=True)
    pairs = list(zip(rows, result, strict=True))
    shown = track(pairs, f"{name}, checked", console=console, disable=not console.is_terminal)
    return [judgement(row, answer, z3_seconds) for row, answer in shown]


def judgement(row: dict[str, Any], answer: dict[str, Any], z3_seconds: float | None) -> Any:
    """An answer with its divisions, how it was checked, and a point at which it is wrong."""
    new = {**answer, "family": row.get("family", ""), "wrong": False}
    text = row["expr"] if "error" in answer else answer["text"]
    try:
        new["dm"], new["dq"] = index_values.divisions(text)
        points, new["exhaustive"] = index_values.points(row["vars"])
        new["points"] = len(next(iter(points.values()))) if points else 1
        point = index_values.difference_at(row["expr"], text, points)
    except (ValueError, SyntaxError, KeyError) as error:
        new["error"] = f"the text cannot be read: {error}"
        new["dm"], new["dq"] = index_values.divisions(row["expr"])
        return new
    if z3_seconds is not None and "error" not in answer:
        from benchmarks import index_proofs

        began = time.perf_counter()
        verdict, other = index_proofs.compare(
            row["expr"], text, row["vars"], milliseconds=round(z3_seconds * 1000)
        )
        new["z3"], new["z3_seconds"] = verdict.value, time.perf_counter() - began
        point = point or other
    if point is not None:
        new["wrong"], new["point"] = True, point
    return new


def checks(rows: Rows, z3_seconds: float | None) -> str:
    """How thoroughly the answers of a compiler were checked, in words."""
    everywhere = sum(row.get("exhaustive", False) for row in rows)
    sampled = [row["points"] for row in rows if not row.get("exhaustive", True)]
    said = f"compared at every point of {everywhere} boxes"
    if sampled:
        said += f", at {min(sampled)} points or more of {len(sampled)}"
    if z3_seconds is None:
        return said
    count = {word: [r for r in rows if r.get("z3") == word] for word in VERDICTS}
    said += "; z3 " + ", ".join(f"{word} {len(result)}" for word, result in count.items())
    only = sum(not row["exhaustive"] for row in count["unknown"])
    longest = max((row["z3_seconds"] for row in rows if "z3_seconds" in row), default=0.0)
    return (
        f"{said} ({only} of the unknown compared at samples only; "
        f"limit {z3_seconds:g} s each, the longest took {longest:.1f} s)"
    )


def figures(rows: Rows) -> Figures:
    times = sorted(row["us"] for row in rows if "us" in row)
    return {
        "rows": len(rows),
        "dm": statistics.mean(row["dm"] for row in rows),
        "dq": statistics.mean(row["dq"] for row in rows),
        "wrong": sum(row["wrong"] for row in rows),
        "failed": sum("error" in row for row in rows),
        "exhaustive": sum(row.get("exhaustive", False) for row in rows),
        **{f"z3_{word}": sum(row.get("z3") == word for row in rows) for word in VERDICTS},
        "median_us": statistics.median(times) if times else float("nan"),
        "mean_us": statistics.mean(times) if times else float("nan"),
        "p95_us": times[int(len(times) * 0.95)] if times else float("nan"),
        "max_us": times[-1] if times else float("nan"),
    }


def compilers() -> dict[str, Path | None]:
    """Those that are here, with the folder to import each from."""
    result: dict[str, Path | None] = {"porism": None}
    tinygrad = peers.install("tinygrad")
    if tinygrad is not None:
        result["tinygrad"] = tinygrad
    if importlib.util.find_spec("tvm") is not None:
        result["tvm"] = None
    return result


def show(rows: Rows, results: dict[str, Rows], z3_seconds: float | None) -> None:
    console = Console()
    table = Table(title=f"{len(rows)} index expressions, µs each")
    table.add_column("")
    for column in ("dm", "dq", "wrong", "failed", "median", "mean", "p95", "max"):
        table.add_column(column, justify="right")
    before = [index_values.divisions(row["expr"]) for row in rows]
    means = [f"{statistics.mean(column):.3f}" for column in zip(*before, strict=True)]
    table.add_row("as given", *means)
    for name, judgements in results.items():
        f = figures(judgements)
        times = [f"{f[key]:,.0f}" for key in ("median_us", "mean_us", "p95_us", "max_us")]
        counts = [f"{f['wrong']:.0f}", f"{f['failed']:.0f}"]
        table.add_row(name, f"{f['dm']:.3f}", f"{f['dq']:.3f}", *counts, *times)
    console.print(table)
    families = sorted({row.get("family", "") for row in rows})
    by_family = Table(title="dm / dq / median µs by family")
    by_family.add_column("family")
    by_family.add_column("rows", justify="right")
    for name in results:
        by_family.add_column(name, justify="right")
    for family in families:
        cells = []
        for judgements in results.values():
            f = figures([row for row in judgements if row["family"] == family])
            cells.append(f"{f['dm']:.2f} / {f['dq']:.2f} / {f['median_us']:,.0f}")
        count = sum(row.get("family", "") == family for row in rows)
        by_family.add_row(family, str(count), *cells)
    console.print(by_family)
    for name, judgements in results.items():
        console.print(f"{name}: {checks(judgements, z3_seconds)}", markup=False, highlight=False)
        faults = [row for row in judgements if row["wrong"] or "error" in row]
        for row in faults[:FAULTS_SHOWN]:
            what = f"wrong at {row['point']}" if row["wrong"] else row["error"][:200]
            console.print(f"{name}: {row['name']}: {what}", markup=False)
        if len(faults) > FAULTS_SHOWN:
            console.print(f"{name}: {len(faults) - FAULTS_SHOWN} more")


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench simplify", description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures and every answer to this file")
    parser.add_argument(
        "--corpus", type=Path, help="rows as JSON lines (default: made from a seed)"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the corpus that is made")
    parser.add_argument("--rows", type=int, help="as many rows at most")
    parser.add_argument(
        "--rounds", type=int, default=3, help="cold runs of each row; the best counts"
    )
    parser.add_argument("--only", help="one compiler")
    parser.add_argument(
        "--z3",
        type=float,
        nargs="?",
        const=2.0,
        metavar="SECONDS",
        help="also ask the solver for a point that differs, so long for each row (default 2)",
    )
    parser.add_argument("--quick", action="store_true", help="60 rows, one round")
    options = parser.parse_args()
    limit = options.rows or (60 if options.quick else ROWS)
    if options.corpus is None:
        rows = corpus(limit, options.seed)
    else:
        lines = options.corpus.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()][:limit]
    chosen = {n: f for n, f in compilers().items() if options.only in (None, n)}
    rounds = 1 if options.quick else options.rounds
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "corpus.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        results = {
            name: judged(name, rows, answers(name, place, file, rounds, len(rows)), options.z3)
            for name, place in chosen.items()
        }
    show(rows, results, options.z3)
    if options.json:
        whole = {name: {"figures": figures(r), "rows": r} for name, r in results.items()}
        options.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
