"""Models suite: ONNX files compared with onnxruntime: values, time to load and compile, and to run.

    ./dev suite models FOLDER [NAME...] [--list models.json] [--threads 2] [--resume FILE.json]

FOLDER holds NAME.onnx files. The list, if there is one, has for each name the `inputs`: a shape, a
dtype, and `lo` and `hi`, or the `value`; without it, inputs are random with 1 for open sizes. The
error of an output is the largest difference over the largest value, or over 1 if that is larger.
Needs onnxruntime (pip install onnxruntime), which is no dependency of Porism.

Each model has two processes of its own, and an empty folder for the kernels on disk. The first
measures `load` and `compile` (the first call, results as NumPy arrays) with nothing in that folder,
then the values and the time of a call. The second finds the folder as the first left it: `warm` is
its load and its first call together. Imports of NumPy and Porism, reading the list and making the
inputs are not counted; whatever Porism imports or starts in load and call (LLVM, threads) is.
Modules are compiled to bytecode before all of that, as they are where the package is installed.
"""

from __future__ import annotations

import argparse
import compileall
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import porism
from porism.base.errors import PorismError
from porism.frontends.onnx.model_report import example_input, example_shape


def inputs_of(model: porism.onnx.Model, listed: dict[str, Any]) -> dict[str, Any]:
    """Return arrays for the inputs of a model, as the list says or random."""
    rng = np.random.default_rng(0)
    found = {}
    for name, info in model.inputs.items():
        spec = listed.get(name)
        if spec is None:
            found[name] = example_input(name, info, example_shape(info, None), "random", rng)
            continue
        dtype, shape = np.dtype(spec["dtype"]), spec["shape"]
        low, high = (spec.get(k) for k in ("lo", "hi"))
        low, high = 0 if low is None else low, 1 if high is None else high
        if spec.get("value") is not None:
            found[name] = np.array(spec["value"], dtype).reshape(shape)
        elif dtype.kind == "f":
            found[name] = rng.uniform(low, high, shape).astype(dtype)
        else:
            found[name] = rng.integers(low, max(high, low + 1), shape).astype(dtype)
    return found


def error_of(found: Any, expected: Any) -> float:
    """Return the largest difference over the largest value; infinite if shapes or types differ."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return math.inf
    if not expected.size:
        return 0.0
    if expected.dtype.kind not in "fiub":
        return 0.0 if (found == expected).all() else math.inf
    a, b = found.astype(np.float64), expected.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return math.inf
    finite = np.isfinite(b)
    largest = max(float(np.abs(b[finite]).max(initial=0)), 1.0)
    return float(np.abs(a[finite] - b[finite]).max(initial=0)) / largest


def best_ms(call: Callable[[], Any], seconds: float) -> float:
    """Return the shortest time of a call in milliseconds, of those that fit into some seconds."""
    call()
    times: list[float] = []
    while (sum(times) < seconds and len(times) < 200) or len(times) < 3:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times) * 1e3


def first_call(path: Path, listed: dict[str, Any]) -> tuple[dict[str, Any], Any, Any, Any]:
    """Return the times of load and first call in seconds, the model, its inputs and outputs."""
    start = time.perf_counter()
    model = porism.onnx.load(path)
    loaded = time.perf_counter()
    inputs = inputs_of(model, listed)
    begin = time.perf_counter()
    outputs = [v.numpy() if hasattr(v, "numpy") else v for v in model(inputs).values()]
    compiled = time.perf_counter()
    return {"load_s": loaded - start, "compile_s": compiled - begin}, model, inputs, outputs


def compare(path: Path, listed: dict[str, Any], threads: int, seconds: float) -> dict[str, Any]:
    """Return what was measured of one model in this process."""
    times, model, inputs, outputs = first_call(path, listed)
    onnxruntime = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    expected = session.run(None, inputs)
    errors = [error_of(a, b) for a, b in zip(outputs, expected, strict=True)]
    return times | {
        "error": max(errors, default=0.0),
        "ms": best_ms(lambda: model(inputs), seconds),
        "onnxruntime_ms": best_ms(lambda: session.run(None, inputs), seconds),
    }


def measure_here(name: str, options: argparse.Namespace) -> int:
    """Print what was measured of one model in this process, as one line of JSON; return 0."""
    path = options.folder / f"{name}.onnx"
    listed = listed_inputs(name, options.list)
    try:
        if options.process == "warm":
            times = first_call(path, listed)[0]
            found: dict[str, Any] = {"warm_s": times["load_s"] + times["compile_s"]}
        else:
            found = compare(path, listed, options.threads, options.seconds)
    except PorismError as error:
        found = {"failure": " ".join(str(error).split())[:200]}
    print(json.dumps(found))
    return 0


def listed_inputs(name: str, path: Path | None) -> dict[str, Any]:
    """Return what the list says of the inputs of a model; nothing without a list."""
    specs = json.loads(path.read_text()) if path else {}
    inputs: dict[str, Any] = specs.get(name, {}).get("inputs", {})
    return inputs


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return what was measured of one model: first without kernels on disk, then with them."""
    row: dict[str, Any] = {"name": name}
    command = [sys.executable, "-m", "tools.suite.models", str(options.folder), name]
    command += ["--threads", str(options.threads), "--seconds", str(options.seconds)]
    command += ["--list", str(options.list)] if options.list else []
    with tempfile.TemporaryDirectory() as cache:
        os.chmod(cache, 0o700)
        environment = os.environ | {"PORISM_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": ""}
        for process in ("cold", "warm"):
            done = subprocess.run(
                [*command, "--process", process], env=environment, capture_output=True, text=True
            )
            if done.returncode:
                lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
                return row | {"failure": lines[-1][:200]}
            row |= json.loads(done.stdout.splitlines()[-1])
            if "failure" in row:
                return row
    return row


def shown(row: dict[str, Any], tolerance: float) -> str:
    """Return the line of one model in the table."""
    if "failure" in row:
        return f"{row['name']:24} {row['failure']}"
    return (
        f"{row['name']:24} {row['error']:8.1e} {row['load_s']:7.2f} {row['compile_s']:9.2f} "
        f"{row['warm_s']:7.2f} {row['ms']:9.3f} {row['onnxruntime_ms']:9.3f} "
        f"{row['ms'] / row['onnxruntime_ms']:5.2f}{' WRONG' * is_wrong(row, tolerance)}"
    )


def is_wrong(row: dict[str, Any], tolerance: float) -> bool:
    """Tell whether a model did not run, or has other values than onnxruntime."""
    return "failure" in row or not row["error"] <= tolerance


def summary(rows: list[dict[str, Any]], tolerance: float) -> str:
    """Return the counts and the geometric mean of all models, as lines of text."""
    ran = [row for row in rows if "failure" not in row]
    failed = sum(is_wrong(row, tolerance) for row in rows)
    lines = [f"{len(rows)} models, {failed} failed"]
    if ran:
        ratios = [row["ms"] / row["onnxruntime_ms"] for row in ran]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        slow = sum(ratio > 1.2 for ratio in ratios)
        compiles = sum(row["load_s"] + row["compile_s"] > 2 for row in ran)
        warm = sum(row["warm_s"] > 0.3 for row in ran)
        lines += [
            f"time over onnxruntime's: geomean {mean:.2f}, {slow} above 1.2",
            f"load and compile above 2 s: {compiles}; warm above 0.3 s: {warm}",
        ]
    return "\n".join(lines)


def main() -> int:
    """Compare models, print a table, and return 1 if one is wrong or cannot run."""
    parser = argparse.ArgumentParser(
        prog="./dev suite models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", type=Path, metavar="FILE.json", help="the inputs of each model")
    parser.add_argument("--threads", type=int, default=2, help="of onnxruntime")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each is timed")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to FILE")
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="as --json; models whose results FILE has already are not measured again",
    )
    parser.add_argument(
        "--limit", type=float, default=math.inf, help="begin no model after so many seconds"
    )
    parser.add_argument("--process", choices=("cold", "warm"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        return measure_here(options.names[0], options)
    names = options.names or sorted(path.stem for path in options.folder.glob("*.onnx"))
    compileall.compile_dir(Path(porism.__file__).parent, quiet=2)
    written = options.resume or options.json
    known: dict[str, dict[str, Any]] = {}
    if options.resume and options.resume.exists():
        known = {row["name"]: row for row in json.loads(options.resume.read_text())}
    begin = time.perf_counter()
    print(
        f"{'model':24} {'error':>8} {'load s':>7} {'compile s':>9} {'warm s':>7} "
        f"{'ms':>9} {'ort ms':>9} ratio"
    )
    for name in names:
        if name not in known:
            if time.perf_counter() - begin > options.limit:
                continue
            known[name] = measure(name, options)
            if written:
                written.write_text(json.dumps(list(known.values()), indent=1))
        print(shown(known[name], options.tolerance), flush=True)
    rows = [known[name] for name in names if name in known]
    print(summary(rows, options.tolerance))
    return int(any(is_wrong(row, options.tolerance) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
