"""Zoo worker: one architecture through a backend of `torch.compile`, beside eager torch.

Run by `./dev suite zoo`, in a process for each architecture. The error of a result is the largest
difference over the largest value of it, or over a thousandth of the largest value of all: some
gradients are 0 but for rounding.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.utils
from torch import nn
from torch._dynamo.backends.registry import lookup_backend
from torch.utils import _pytree

import porism.torch
from tools.torch_workers import architectures
from tools.torch_workers.architectures import ARCHITECTURES
from tools.torch_workers.worker_pool import Row, answer_names


def flat(value: Any) -> list[torch.Tensor]:
    """Return the tensors of a result, as libraries wrap them."""
    if hasattr(value, "to_tuple"):
        value = value.to_tuple()
    found: list[torch.Tensor] = []
    for leaf in _pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif hasattr(leaf, "to_tuple"):
            found += flat(leaf)
    return found


GROWTHS = (1, 0, 3, 2, 5)
"""How much larger than usual the inputs are in the calls of a model with symbolic sizes."""


def made(name: str, growth: int = 0) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return a model in evaluation, with statistics of batch norms that are not the identity."""
    torch.manual_seed(0)
    architectures.growth = growth
    model, args, kwargs = ARCHITECTURES[name]()
    for layer in model.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.running_mean is not None:
            assert layer.running_var is not None
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.75, 1.25)
    return model.eval(), args, kwargs


def error_of(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """Return the largest error of all results; infinite if they are not alike."""
    if [t.shape for t in found] != [t.shape for t in expected]:
        return float("inf")
    peaks = [float(t.detach().double().abs().max()) if t.numel() else 0.0 for t in expected]
    floor = max(peaks, default=0.0) * 1e-3
    worst = 0.0
    for a, b, peak in zip(found, expected, peaks, strict=True):
        if not b.numel():
            continue
        difference = float((a.detach().double() - b.detach().double()).abs().max())
        worst = max(worst, difference / max(peak, floor, 1e-30))
        if difference != difference:
            return float("inf")
    return worst


def median_ms(call: Callable[[], Any], seconds: float) -> float:
    """Return the median time of a call in milliseconds."""
    call()
    times: list[float] = []
    began = time.perf_counter()
    while (time.perf_counter() - began < seconds and len(times) < 50) or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[len(times) // 2]


def measure(name: str, options: argparse.Namespace) -> Row:
    """Return what was measured of an architecture."""
    inputs = [made(name, growth)[1:] for growth in (GROWTHS if options.dynamic else (0,))]
    model = made(name)[0]

    def run(function: Any, args: Any = inputs[0][0], kwargs: Any = inputs[0][1]) -> Any:
        if not options.train:
            with torch.no_grad():
                return flat(function(*args, **kwargs))
        model.zero_grad()
        found = [t for t in flat(function(*args, **kwargs)) if t.requires_grad]
        sum(t.float().pow(2).mean() for t in found).backward()  # type: ignore[union-attr]
        return [p.grad for p in model.parameters() if p.grad is not None]

    expected = [[t.clone() for t in run(model, *given)] for given in inputs]
    counters = torch._dynamo.utils.counters
    counters.clear()
    porism.torch.report().reset()
    graphs = 0
    chosen: Any = (
        porism.torch.backend if options.backend == "porism" else lookup_backend(options.backend)
    )

    def counting(module: Any, inputs: Any, **keywords: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return chosen(module, inputs, **keywords)

    dynamic = True if options.dynamic else None
    function = torch.compile(model, backend=counting, dynamic=dynamic)
    start = time.perf_counter()
    found = run(function)
    compile_s = time.perf_counter() - start
    error = error_of([t.clone() for t in found], expected[0])
    start = time.perf_counter()
    for given, wanted in zip(inputs[1:], expected[1:], strict=True):
        error = max(error, error_of(run(function, *given), wanted))
    others_s = time.perf_counter() - start
    report = porism.torch.report()
    return {
        "status": "pass" if graphs and error < options.tolerance else "wrong",
        "error": error,
        "graphs": graphs,
        "breaks": sum(counters["graph_break"].values()),
        "fallbacks": dict(report.fallbacks),
        "static_sizes": dict(report.static_sizes),
        "compile_s": compile_s,
        "others_s": others_s,
        "ms": median_ms(lambda: run(function), options.seconds),
        "eager_ms": median_ms(lambda: run(model), options.seconds),
    }


def main() -> None:
    """Answer names of architectures from standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="porism")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.list:
        print("\n".join(ARCHITECTURES))
        return
    torch.set_num_threads(options.threads)
    torch._dynamo.config.allow_rnn = True  # else recurrent layers are left to eager torch
    answer_names(lambda name: measure(name, options))


if __name__ == "__main__":
    main()
