"""Model commands: `porism run model.onnx` and `porism check model.onnx`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from porism.frontends.onnx import model_report
from porism.frontends.onnx.imported_graph import ValueInfo
from porism.frontends.onnx.model_errors import ModelError
from porism.frontends.onnx.onnx_model import Model, load


def run(options: argparse.Namespace) -> int:
    """Run a model once and again, and print its outputs and times."""
    start = time.perf_counter()
    model = load(options.model)
    loaded = time.perf_counter()
    inputs = _inputs(model, options.input, options.shape)
    for name, array in inputs.items():
        print(f"input   {name}: {array.dtype} {array.shape}")
    made = time.perf_counter()
    outputs = model(inputs)
    compiled = time.perf_counter()
    arrays = {name: _array(value) for name, value in outputs.items()}
    for name, array in arrays.items():
        print(f"output  {name}: {_summary(array)}")
    times = []
    for _ in range(max(options.repeat, 0)):
        begin = time.perf_counter()
        model(inputs)
        times.append(time.perf_counter() - begin)
    print(f"loaded in {loaded - start:.3f} s, compiled and run in {compiled - made:.3f} s", end="")
    print(f", then {min(times) * 1e3:.3f} ms a call" if times else "")
    if options.save:
        plain = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
        np.savez(options.save, allow_pickle=False, **plain)
        print(f"saved to {options.save}")
    return 0


def check(options: argparse.Namespace) -> int:
    """Print what a model needs, what is missing, and what a call costs; 1 if it cannot run."""
    model = load(options.model)
    file = model.file
    sets = ", ".join(f"{name or 'ai.onnx'} {version}" for name, version in file.opsets.items())
    print(f"{model.name}: {len(file.graph.nodes)} nodes, operators of {sets}")
    print(f"  made by {file.producer or 'unknown'}")
    weights = model_report.weight_bytes(file.graph)
    print(f"  {file.size / 1e6:.1f} MB, of which weights {weights / 1e6:.1f} MB")
    for word, infos in (("input", model.inputs), ("output", model.outputs)):
        for name, info in infos.items():
            print(f"  {word:<7} {name}: {info.dtype} {_shape_text(info)}")
    uses = model_report.operators_of(model)
    for provided in (model_report.BUILT_IN, model_report.DEFINED, model_report.MISSING):
        chosen = [use for use in uses if use.provided == provided]
        if chosen:
            shown = ", ".join(
                f"{use.domain + '.' if use.domain else ''}{use.name} {use.count}" for use in chosen
            )
            print(f"{provided}: {shown}")
    if any(use.provided == model_report.MISSING for use in uses):
        return 1
    return _print_cost(model, options.input, options.shape)


def _print_cost(model: Model, values: Sequence[str], shapes: Sequence[str]) -> int:
    inputs = _inputs(model, values, shapes)
    text = ", ".join(f"{name} {array.shape}" for name, array in inputs.items())
    try:
        cost = model_report.cost_of(model, inputs)
    except ModelError as error:
        print(f"with inputs {text} it cannot be built; give --shape and --input:")
        print(f"  {error}")
        return 1
    print(
        f"a call with {text}: {cost.kernels} kernels, {cost.flops / 1e9:.3f} GFLOP, "
        f"{cost.bytes_moved / 1e6:.1f} MB read and written"
    )
    return 0


def _shape_text(info: ValueInfo) -> str:
    if info.shape is None:
        return "of any shape"
    sizes = ", ".join("?" if size is None else str(size) for size in info.shape)
    return f"({sizes})"


def _pairs(words: Sequence[str], what: str, model: Model) -> dict[str, str]:
    """Return `NAME=VALUE` words as a dict; names may hold an equals sign."""
    found = {}
    for word in words:
        name, equals, value = word.rpartition("=")
        if not equals or name not in model.inputs:
            raise ModelError(
                f"{what} {word}",
                where=model.name,
                why="it is NAME=VALUE with the name of an input: " + ", ".join(model.inputs),
                fix="name an input",
            )
        found[name] = value
    return found


def _inputs(model: Model, values: Sequence[str], shapes: Sequence[str]) -> dict[str, Any]:
    """Return arrays for all inputs, as the options say."""
    given = _pairs(values, "--input", model)
    sizes = {
        name: _parse_shape(text, model) for name, text in _pairs(shapes, "--shape", model).items()
    }
    rng = np.random.default_rng(0)
    inputs = {}
    for name, info in model.inputs.items():
        how = given.get(name, "random")
        shape = model_report.example_shape(info, sizes.get(name))
        if how in ("zeros", "random"):
            inputs[name] = model_report.example_input(name, info, shape, how, rng)
        else:
            inputs[name] = _read(name, how, info, shape)
    return inputs


def _parse_shape(text: str, model: Model) -> tuple[int, ...]:
    try:
        sizes = tuple(int(word) for word in text.replace("x", ",").split(",") if word)
    except ValueError:
        sizes = (-1,)
    if any(size < 0 for size in sizes):
        raise ModelError(
            f"--shape {text}",
            where=model.name,
            why="a shape is numbers with commas between them",
            fix="write it as 1,3,224,224",
        )
    return sizes


def _read(name: str, text: str, info: ValueInfo, shape: tuple[int, ...]) -> Any:
    """Return the array of a file, or one that is filled with a number."""
    dtype = np.dtype(info.dtype) if info.dtype != "string" else np.dtype(object)
    try:
        return np.full(shape, float(text)).astype(dtype)
    except ValueError:
        pass
    try:
        return np.load(Path(text), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ModelError(
            f"cannot read {text} for the input {name!r}",
            why=str(error),
            fix="give a .npy file, a number, zeros or random",
        ) from None


def _array(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value


def _summary(array: Any) -> str:
    """Return the type, the shape and the range of an output."""
    if not isinstance(array, np.ndarray):
        return f"a sequence of {len(array)}"
    text = f"{array.dtype} {array.shape}"
    if array.size and array.dtype.kind in "fiu":
        wide = array.astype(np.float64)
        text += f", from {wide.min():.6g} to {wide.max():.6g}, mean {wide.mean():.6g}"
    return text
