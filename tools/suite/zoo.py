"""Zoo suite: whole architectures through `torch.compile(backend="porism")`, beside inductor.

    ./dev suite zoo --python PATH             forward: values, graph breaks, times
    ./dev suite zoo --train                   gradients of all weights
    ./dev suite zoo resnet18 bert             some of them
    ./dev suite zoo --backends porism         without inductor, which compiles for minutes
    ./dev suite zoo --log FILE                go on where the run with this log stopped

PATH is an interpreter that has torch 2.13.0, torchvision, timm, transformers and diffusers. Values
are compared with eager torch; weights are random, and nothing is fetched.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from tools.torch_workers.worker_pool import Row, interpreter_with_torch, run_all, start

WORKER = ("-m", "tools.torch_workers.zoo_worker")


def line(row: Row) -> str:
    """Return a row as text."""
    if "error" not in row:
        return f"{row['name']:24} {row['status']}: {row['why'][:200]}"
    left = sum(row["fallbacks"].values())
    return (
        f"{row['name']:24} {row['error']:8.1e} {row['graphs']:6} {row['breaks']:6} {left:8} "
        f"{row['compile_s']:9.2f} {row['ms']:9.3f} {row['eager_ms']:9.3f}"
        f"{' WRONG' if row['status'] == 'wrong' else ''}"
    )


HEADER = (
    f"{'architecture':24} {'error':>8} {'graphs':>6} {'breaks':>6} {'by torch':>8} "
    f"{'compile s':>9} {'ms':>9} {'eager ms':>9}"
)


def comparison(ours: list[Row], theirs: list[Row], name: str) -> list[str]:
    """Return the geometric means of our compile and run times over those of another backend."""
    other = {row["name"]: row for row in theirs if "ms" in row}
    pairs = [(row, other[row["name"]]) for row in ours if "ms" in row and row["name"] in other]
    lines = []
    for key, what in (("ms", "run time"), ("compile_s", "compile time")):
        logs = [math.log(a[key] / b[key]) for a, b in pairs]
        if logs:
            mean = math.exp(sum(logs) / len(logs))
            lines.append(f"{what} over that of {name}, geometric mean of {len(logs)}: {mean:.2f}")
    return lines


def main() -> int:
    """Run the suite, print tables, and return 1 if an architecture is wrong or fails."""
    parser = argparse.ArgumentParser(prog="./dev suite zoo", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", metavar="PATH", help="an interpreter that has torch")
    parser.add_argument("--backends", default="porism,inductor")
    parser.add_argument("--train", action="store_true", help="gradients of all weights")
    parser.add_argument("--dynamic", action="store_true", help="with symbolic sizes")
    parser.add_argument("--threads", type=int, default=2, help="of torch")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each is timed")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one architecture")
    parser.add_argument("--log", type=Path, metavar="FILE", help="rows as JSON, to be resumed")
    options = parser.parse_args()
    python = interpreter_with_torch(options.python)
    base = [python, *WORKER, "--threads", str(options.threads), "--seconds", str(options.seconds)]
    base += ["--train"] * options.train + ["--dynamic"] * options.dynamic
    names = options.names or start([*base, "--list"]).communicate()[0].split()
    tables: dict[str, list[Row]] = {}
    for backend in options.backends.split(","):
        print(f"{backend}\n{HEADER}", flush=True)
        tables[backend] = []
        log = options.log and options.log.with_name(f"{options.log.name}.{backend}")
        for name in names:  # a process for each: what one leaves behind is not measured in another
            tables[backend] += run_all(
                [name],
                [*base, "--backend", backend],
                log=log,
                jobs=1,
                seconds=options.timeout,
                show=lambda *_: None,
            )
            print(line(tables[backend][-1]), flush=True)
    ours = tables.get("porism", [])
    for backend, rows in tables.items():
        if backend != "porism":
            print("\n".join(comparison(ours, rows, backend)))
    return 1 if any(row["status"] != "pass" for row in ours) else 0


if __name__ == "__main__":
    sys.exit(main())
