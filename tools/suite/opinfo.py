"""OpInfo suite: `torch.compile(backend="porism")` on the samples of torch's operator database.

    ./dev suite opinfo --python PATH             float32, forward, two samples of each operator
    ./dev suite opinfo --grad                    gradients too
    ./dev suite opinfo --dtype int64 -k scatter  another type; names that contain a word
    ./dev suite opinfo --log FILE                go on where the run with this log stopped

Each sample is compared with eager torch, in float32 to 1e-4. PATH is an interpreter that has torch
2.13.0, whose database this is; `--backend aot_eager` shows what torch's own machinery passes.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import subprocess
import sys
from pathlib import Path

from tools.torch_workers.worker_pool import Row, interpreter_with_torch, run_all, start

WORKER = ("-m", "tools.torch_workers.opinfo_worker")


def summary(rows: list[Row]) -> list[str]:
    """Return what to print of all rows: counts, what failed, and what was left to torch."""
    counts = collections.Counter(row["status"] for row in rows)
    samples = sum(row.get("samples", 0) for row in rows)
    lines = [
        f"{len(rows)} operators, {samples} samples: "
        + ", ".join(f"{n} {status}" for status, n in counts.most_common())
    ]
    for row in rows:
        if row["status"] not in ("pass", "skip", "uncompiled"):
            lines.append(f"  {row['status']:8} {row['name']}: {row['why'][:160]}")
    given = samples - sum(row.get("uncompiled", 0) for row in rows)
    if given:
        passing = given - sum(row.get("failed", 0) for row in rows)
        whole = sum(row.get("whole", 0) for row in rows)
        lines.append(
            f"{given} samples gave the backend a graph: {passing} agree with eager torch, {whole} "
            f"({100 * whole / given:.1f} %) of them without a call of torch"
        )
    compiled = sum(row.get("compiled", 0) for row in rows)
    fallbacks: collections.Counter[str] = collections.Counter()
    costs: collections.Counter[str] = collections.Counter()
    reasons: dict[str, str] = {}
    for row in rows:
        fallbacks.update(row.get("fallbacks", {}))
        costs.update(row.get("costs", {}))
        reasons.update(row.get("reasons", {}))
    calls = compiled + fallbacks.total()
    if calls:
        share = 100 * compiled / calls
        lines.append(f"{compiled} of {calls} calls of ATen operators were compiled: {share:.1f} %")
    for name, count in costs.most_common():
        lines.append(f"  {count:6} samples, {name}: {reasons.get(name, '')[:120]}")
    return lines


def show(row: Row, done: int, total: int) -> None:
    """Print the progress, and what failed."""
    if row["status"] not in ("pass", "skip", "uncompiled"):
        print(f"{row['status']:8} {row['name']}: {row['why'][:160]}", flush=True)
    if done % 50 == 0 or done == total:
        print(f"{done} of {total}", flush=True)


def main() -> int:
    """Run the suite, print a summary, and return 1 if an operator failed."""
    parser = argparse.ArgumentParser(prog="./dev suite opinfo", description=__doc__)
    parser.add_argument("--python", metavar="PATH", help="an interpreter that has torch")
    parser.add_argument("--backend", default="porism", help="porism, aot_eager, inductor …")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--grad", action="store_true", help="compare gradients as well")
    parser.add_argument("--dynamic", action="store_true", help="with symbolic sizes")
    parser.add_argument("--samples", type=int, default=2, help="of each operator; 0: all")
    parser.add_argument("--timeout", type=int, default=60, help="seconds for one sample")
    parser.add_argument("-k", default="", metavar="PATTERN", help="only names that match")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--log", type=Path, metavar="FILE", help="rows as JSON, to be resumed")
    options = parser.parse_args()
    python = interpreter_with_torch(options.python)
    command = [python, *WORKER, "--backend", options.backend, "--dtype", options.dtype]
    command += ["--samples", str(options.samples), "--timeout", str(options.timeout)]
    command += ["--grad"] * options.grad + ["--dynamic"] * options.dynamic
    listing = start([*command, "--list"])
    text, _ = listing.communicate()
    if listing.returncode:
        raise subprocess.CalledProcessError(listing.returncode, command)
    names = [name for name in json.loads(text) if re.search(options.k, name)]
    seconds = options.timeout * (2 * max(options.samples, 1) + 2) + 120
    rows = run_all(names, command, log=options.log, jobs=options.jobs, seconds=seconds, show=show)
    print("\n".join(summary(rows)))
    return 1 if any(row["status"] not in ("pass", "skip", "uncompiled") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
