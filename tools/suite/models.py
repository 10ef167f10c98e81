"""Models suite: ONNX files compared with onnxruntime: values, time to load and compile, and to run.

    ./dev suite models FOLDER [NAME...] [--list models.json] [--threads 2]

FOLDER holds NAME.onnx files. The list, if there is one, has for each name the `inputs`: a shape, a
dtype, and `lo` and `hi`, or the `value`; without it, inputs are random with 1 for open sizes. The
error of an output is the largest difference over the largest value, or over 1 if that is larger.
Needs onnxruntime (pip install onnxruntime), which is no dependency of Porism.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
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


def compare(path: Path, listed: dict[str, Any], threads: int, seconds: float) -> dict[str, Any]:
    """Return what was measured of one model."""
    onnxruntime = import_module("onnxruntime")

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    start = time.perf_counter()
    model = porism.onnx.load(path)
    loaded = time.perf_counter()
    inputs = inputs_of(model, listed)
    begin = time.perf_counter()
    outputs = [v.numpy() if hasattr(v, "numpy") else v for v in model(inputs).values()]
    compiled = time.perf_counter()
    expected = session.run(None, inputs)
    errors = [error_of(a, b) for a, b in zip(outputs, expected, strict=True)]
    return {
        "name": path.stem,
        "error": max(errors, default=0.0),
        "load_s": loaded - start,
        "compile_s": compiled - begin,
        "ms": best_ms(lambda: model(inputs), seconds),
        "onnxruntime_ms": best_ms(lambda: session.run(None, inputs), seconds),
    }


def main() -> int:
    """Compare models, print a table, and return 1 if one is wrong or cannot run."""
    parser = argparse.ArgumentParser(prog="./dev suite models", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", type=Path, metavar="FILE.json", help="the inputs of each model")
    parser.add_argument("--threads", type=int, default=2, help="of onnxruntime")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each is timed")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    options = parser.parse_args()
    specs = json.loads(options.list.read_text()) if options.list else {}
    names = options.names or sorted(path.stem for path in options.folder.glob("*.onnx"))
    rows, failed = [], 0
    print(f"{'model':28} {'error':>8} {'load s':>7} {'compile s':>9} {'ms':>9} {'ort ms':>9} ratio")
    for name in names:
        listed = specs.get(name, {}).get("inputs", {})
        try:
            row = compare(options.folder / f"{name}.onnx", listed, options.threads, options.seconds)
        except PorismError as error:
            print(f"{name:28} {' '.join(str(error).split())[:200]}", flush=True)
            failed += 1
            continue
        ratio = row["ms"] / row["onnxruntime_ms"]
        wrong = not row["error"] <= options.tolerance
        failed += wrong
        rows.append(row)
        print(
            f"{name:28} {row['error']:8.1e} {row['load_s']:7.2f} {row['compile_s']:9.2f} "
            f"{row['ms']:9.3f} {row['onnxruntime_ms']:9.3f} {ratio:5.2f}{' WRONG' * wrong}",
            flush=True,
        )
    if rows:
        mean = math.exp(sum(math.log(r["ms"] / r["onnxruntime_ms"]) for r in rows) / len(rows))
        print(f"{len(rows)} models, {failed} failed; time over onnxruntime's, geomean: {mean:.2f}")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
