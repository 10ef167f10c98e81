"""OpInfo worker: compares a backend with eager torch on the samples of torch's operator database.

Run by `./dev suite opinfo`. A row says of an operator: `pass` (all samples agree, and the backend
was given a graph of at least one), `uncompiled` (they agree, but torch gave the backend nothing),
`wrong`, `error`, or `skip` (eager torch fails, or the result is random); how many samples there are
(`available`), and how many agree and were computed by the backend alone (`whole`); how many calls
of ATen operators Porism compiled, which it left to torch (`fallbacks`), and in how many samples
each of these was (`costs`).
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch._dynamo
from torch._dynamo.backends.registry import lookup_backend
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree

import porism.torch
from tools.torch_workers.worker_pool import Row, answer_names

RANDOM = re.compile(
    r"^(new_)?empty|^resize_|^(bernoulli|normal|multinomial|uniform|exponential|geometric|cauchy"
    r"|log_normal|rand|randn|randint)(_like)?$"
    r"|^nn\.functional\.(dropout|alpha_dropout|feature_alpha_dropout|rrelu|gumbel_softmax"
    r"|multi_head_attention)"
)
"""Operators whose result is random or not initialized."""

TOLERANCE = 1e-4
"""Relative and absolute, of float32 results; other types have torch's own tolerances."""


class SampleTimeout(BaseException):
    """A sample took too long; no Exception, so that no library takes it for one of its own."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise `SampleTimeout` inside after some seconds."""

    def stop(*_: Any) -> None:
        raise SampleTimeout

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def name_of(info: Any) -> str:
    """Return the name of an entry of the database."""
    variant: str = info.variant_test_name
    return info.name + (f".{variant}" if variant else "")


def entries(dtype: torch.dtype, grad: bool) -> dict[str, Any]:
    """Return the entries that have a type, and a gradient if it is asked for."""
    return {
        name_of(info): info
        for info in op_db
        if dtype in info.supported_dtypes("cpu") and (not grad or info.supports_autograd)
    }


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a value."""
    return [t for t in _pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def fresh(value: Any) -> Any:
    """Return a value with copies of its tensors."""

    def copy(t: Any) -> Any:
        if not isinstance(t, torch.Tensor):
            return t
        return t.detach().clone().requires_grad_(t.requires_grad)

    return _pytree.tree_map(copy, value)


def results(function: Callable[..., Any], sample: Any, grad: bool) -> list[torch.Tensor]:
    """Return the results of a sample, and the gradients of their sum by its operands."""
    first, args, kwargs = fresh((sample.input, sample.args, sample.kwargs))
    found = tensors_of(function(first, *args, **kwargs))
    if not grad:
        return found
    operands = [t for t in tensors_of((first, args, kwargs)) if t.requires_grad]
    differentiable = [t for t in found if t.requires_grad]
    if not operands or not differentiable:
        return found
    total = sum((t.abs() if t.is_complex() else t).sum() for t in differentiable)
    gradients = torch.autograd.grad(total, operands, allow_unused=True)  # type: ignore[arg-type]
    return found + [g for g in gradients if g is not None]


def evenly(samples: list[Any], count: int) -> list[Any]:
    """Return some of the samples, the first and the last among them; all for 0."""
    if not count or len(samples) <= count:
        return samples
    step = (len(samples) - 1) / max(count - 1, 1)
    return [samples[round(k * step)] for k in range(count)]


class Comparison:
    """Runs entries of the database through a backend."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.dtype = getattr(torch, options.dtype)
        self.entries = entries(self.dtype, options.grad)
        self.backend = (
            porism.torch.backend if options.backend == "porism" else lookup_backend(options.backend)
        )
        self.graphs = 0

    def _counting(self, module: Any, inputs: Any, **keywords: Any) -> Any:
        self.graphs += 1
        return self.backend(module, inputs, **keywords)

    def row(self, name: str) -> Row:
        """Return how the samples of an operator went."""
        info = self.entries[name]
        row: Row = {"status": "skip", "samples": 0, "failed": 0, "uncompiled": 0, "why": ""}
        row |= {"whole": 0, "compiled": 0, "fallbacks": {}, "costs": {}, "reasons": {}}
        if RANDOM.search(info.name):
            return {**row, "why": "random or not initialized"}
        try:
            with limited(self.options.timeout):
                samples = list(
                    info.sample_inputs("cpu", self.dtype, requires_grad=self.options.grad)
                )
        except (Exception, SampleTimeout) as error:
            return {**row, "why": f"no samples: {type(error).__name__}"}
        report = porism.torch.report()
        row["available"] = len(samples)
        for sample in evenly(samples, self.options.samples):
            report.reset()
            go_on = self._try(info, sample, row)
            row["compiled"] += report.compiled.total()
            for name, count in report.fallbacks.items():
                row["fallbacks"][name] = row["fallbacks"].get(name, 0) + count
                row["costs"][name] = row["costs"].get(name, 0) + 1
                row["reasons"][name] = report.reasons[name][:160]
            if not go_on:
                break
        return row

    def _try(self, info: Any, sample: Any, row: Row) -> bool:
        """Compare one sample, and note it in the row; whether others are worth trying."""
        grad, seconds = self.options.grad, self.options.timeout
        try:
            with limited(seconds):
                torch.manual_seed(0)
                expected = results(info.op, sample, grad)
        except (Exception, SampleTimeout):
            return True
        if not expected:
            return True
        row["samples"] += 1
        self.graphs = 0
        try:
            with limited(seconds):
                torch._dynamo.reset()
                torch.manual_seed(0)
                compiled = torch.compile(
                    lambda x, *args, **kwargs: info.op(x, *args, **kwargs),
                    backend=self._counting,
                    dynamic=self.options.dynamic,
                )
                found = results(compiled, sample, grad)
            compare(found, expected)
        except AssertionError as error:
            self._failed(row, "wrong", str(error))
        except SampleTimeout:
            self._failed(row, "timeout", f"more than {seconds} s")
            return False
        except Exception as error:
            self._failed(row, "error", f"{type(error).__name__}: {error}")
        else:
            if not self.graphs:
                row["uncompiled"] += 1
            elif not porism.torch.report().fallbacks:
                row["whole"] += 1
            if row["status"] in ("skip", "uncompiled"):
                row["status"] = "pass" if self.graphs else "uncompiled"
        return True

    def _failed(self, row: Row, status: str, why: str) -> None:
        row["failed"] += 1
        if row["status"] != "wrong":
            row["status"] = status
        row["why"] = row["why"] or " ".join(why.split())[:300]


def compare(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    """Raise an AssertionError unless the results agree."""
    assert len(found) == len(expected), f"{len(found)} results in place of {len(expected)}"
    for a, b in zip(found, expected, strict=True):
        tolerance = TOLERANCE if b.dtype == torch.float32 else None
        torch.testing.assert_close(
            a, b, equal_nan=True, check_stride=False, rtol=tolerance, atol=tolerance
        )


def main() -> None:
    """List the operators, or answer names from standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--backend", default="porism")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--grad", action="store_true")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=60)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    if options.list:
        json.dump(list(entries(getattr(torch, options.dtype), options.grad)), sys.stdout)
        return
    answer_names(Comparison(options).row)


if __name__ == "__main__":
    main()
