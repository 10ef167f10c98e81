"""Regret: how much slower the heuristic's schedules are than the best that a search finds.

The kernels are of programs whose sizes are drawn at random, the same for the same --seed: products,
convolutions, reductions, elementwise programs, scans. Each is tuned for --budget seconds, with an
empty tuning cache. The *regret* of a kernel is the heuristic's time divided by that of the best
schedule, both timed alternately at the end; 1 where the search has found nothing faster. The *rank
correlation* is Spearman's, of the cost model's cycles with the measured times of all candidates of
one kernel; kernels with fewer than eight candidates have none.

With --json FILE the figures are added to those in the file; --resume leaves out kernels that are
there, and --seconds N ends after so long.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

import porism
from benchmarks.cpu_table import console, figure, replace_part
from porism import Tensor
from porism.backends.backend_table import selected_backend
from porism.base.settings import settings
from porism.engine.run import realize
from porism.engine.tune import tuning
from porism.engine.tune.search_history import candidates_of
from porism.ir.node import UOp
from porism.optimize.actions.action import Actions, apply_all
from porism.optimize.model.loop_cost import estimate_cost
from porism.pipeline import unscheduled_kernel

SEED = 0
ROUNDS = 2
"""Programs of each kind."""
BUDGET = 8.0
"""Seconds of tuning for a kernel."""
WIDTH = 4
LEAST = 8
"""Candidates, from which on there is a rank correlation."""

Figures = dict[str, dict[str, Any]]
Draw = random.Random


def data(*shape: int) -> Tensor:
    return porism.asarray(np.ones(shape, np.float32))


def size(draw: Draw, low: int, high: int) -> int:
    """Evenly in the logarithm; one of three a multiple of 8."""
    found: int = round(float(low) * (high / low) ** draw.random())
    return -(-found // 8) * 8 if draw.random() < 1 / 3 else found


def product(d: Draw) -> Tensor:
    m, k, n = (size(d, 16, 1024) for _ in range(3))
    return data(m, k) @ data(k, n)


def few_rows(d: Draw) -> Tensor:
    m, k, n = size(d, 1, 16), size(d, 256, 3000), size(d, 256, 3000)
    return data(m, k) @ data(k, n)


def transposed_product(d: Draw) -> Tensor:
    m, k, n = (size(d, 32, 800) for _ in range(3))
    return data(k, m).T @ data(k, n) if d.random() < 0.5 else data(m, k) @ data(n, k).T


def products(d: Draw) -> Tensor:
    batch, (m, k, n) = size(d, 8, 512), (size(d, 4, 96) for _ in range(3))
    return data(batch, m, k) @ data(batch, k, n)


def matrix_vector(d: Draw) -> Tensor:
    m, k = size(d, 200, 4000), size(d, 200, 4000)
    return data(m, k) @ data(k)


def dense(d: Draw) -> Tensor:
    m, k, n = (size(d, 16, 768) for _ in range(3))
    return porism.gelu(data(m, k) @ data(k, n) + data(n))


def convolution(d: Draw) -> Tensor:
    channels, outputs, image = size(d, 3, 128), size(d, 8, 128), size(d, 7, 80)
    width, stride = d.choice((1, 3, 3, 5)), d.choice((1, 1, 2))
    x = data(d.choice((1, 4)), channels, image, image)
    weight = data(outputs, channels, width, width)
    return porism.conv2d(x, weight, stride=stride, padding=width // 2)


def grouped_convolution(d: Draw) -> Tensor:
    groups, inside, image = size(d, 4, 64), d.choice((1, 2, 4, 8)), size(d, 7, 64)
    x, weight = data(2, groups * inside, image, image), data(groups * inside, inside, 3, 3)
    return porism.conv2d(x, weight, padding=1, groups=groups)


def contraction(d: Draw) -> Tensor:
    a, b, c, e = (size(d, 6, 48) for _ in range(4))
    return porism.einsum("aibj,bjck->aick", data(a, b, c, e), data(c, e, a, b))


def row_sums(d: Draw) -> Tensor:
    return porism.sum(data(size(d, 50, 5000), size(d, 20, 3000)), axis=1)


def column_sums(d: Draw) -> Tensor:
    return porism.sum(data(size(d, 50, 5000), size(d, 20, 3000)), axis=0)


def middle_sums(d: Draw) -> Tensor:
    return porism.mean(data(size(d, 8, 64), size(d, 16, 256), size(d, 8, 200)), axis=1)


def softmax(d: Draw) -> Tensor:
    return porism.softmax(data(size(d, 50, 4000), size(d, 10, 3000)))


def layer_norm(d: Draw) -> Tensor:
    rows, width = size(d, 50, 2000), size(d, 32, 2000)
    return porism.layer_norm(data(rows, width), data(width), data(width))


def chain(d: Draw) -> Tensor:
    x = data(size(d, 50, 3000), size(d, 20, 2000))
    return porism.tanh(x * 2 + 1) * x + porism.exp(-x * x)


def outer_sum(d: Draw) -> Tensor:
    rows, width = size(d, 50, 3000), size(d, 20, 2000)
    return data(rows, 1) + data(width) * data(rows, width)


def transposition(d: Draw) -> Tensor:
    a, b, c = size(d, 4, 64), size(d, 16, 300), size(d, 16, 300)
    return porism.permute(data(a, b, c), d.choice(((0, 2, 1), (1, 0, 2), (2, 1, 0)))) + 0


def running_sum(d: Draw) -> Tensor:
    return porism.cumsum(data(size(d, 20, 2000), size(d, 20, 2000)), axis=d.choice((0, 1)))


def stencil(d: Draw) -> Tensor:
    x = data(size(d, 100, 1500), size(d, 100, 1500))
    return x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]


def pooling(d: Draw) -> Tensor:
    x = data(d.choice((1, 4)), size(d, 8, 64), size(d, 14, 100), size(d, 14, 100))
    return porism.max_pool2d(x, d.choice((2, 3)), stride=d.choice((1, 2)))


KINDS: Sequence[Callable[[Draw], Tensor]] = (
    product, few_rows, transposed_product, products, matrix_vector, dense, convolution,
    grouped_convolution, contraction, row_sums, column_sums, middle_sums, softmax, layer_norm,
    chain, outer_sum, transposition, running_sum, stencil, pooling,
)  # fmt: skip


def corpus(seed: int, rounds: int) -> Iterator[tuple[str, UOp]]:
    """The kernels of each program, by name."""
    for number in range(rounds):
        for kind in KINDS:
            draw = random.Random(f"{kind.__name__} {seed} {number}")
            request = realize.request([kind(draw).node])
            kernels = [step.kernel for step in realize.schedule_of(request.graph).steps]
            for place, kernel in enumerate(kernels):
                part = f".{place}" if len(kernels) > 1 else ""
                yield f"{kind.__name__.replace('_', ' ')} {number}{part}", kernel


def tuned(kernel: UOp, budget: float) -> dict[str, Any]:
    """The regret of a kernel, and the cost model's rank correlation over its candidates."""
    backend = selected_backend()
    reports = tuning.tune([kernel], backend, width=WIDTH, seconds=budget)
    if not reports or reports[0].error:
        return {"error": reports[0].error if reports else "it is not tuned"}
    report = reports[0]
    found = {
        "ms": report.before * 1000,
        "regret": report.before / report.after,
        "candidates": report.tried,
        "best": ", ".join(map(str, report.actions)),
    }
    correlation = rank_correlation(*estimates(kernel, candidates_of(kernel)))
    return found if correlation is None else {**found, "correlation": correlation}


def estimates(
    kernel: UOp, candidates: Sequence[tuple[float, Actions]]
) -> tuple[list[float], list[float]]:
    """The cost model's cycles of each candidate, and its measured seconds."""
    target = selected_backend().target()
    base = unscheduled_kernel(kernel, target)
    cycles = [estimate_cost(apply_all(base, actions, target), target).cycles
              for _, actions in candidates]  # fmt: skip
    return cycles, [seconds for seconds, _ in candidates]


def ranks(values: Sequence[float]) -> list[float]:
    """The place of each in their order; equal ones share the mean of their places."""
    order = sorted(values)
    first = {value: order.index(value) for value in set(values)}
    return [first[value] + (values.count(value) - 1) / 2 for value in values]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's; None of too few, or where all are equal."""
    if len(first) < LEAST or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return statistics.correlation(ranks(list(first)), ranks(list(second)))


def percentile(values: Sequence[float], part: float) -> float:
    return float(np.quantile(list(values), part)) if values else float("nan")


def summary(kept: Figures) -> str:
    regrets = [row["regret"] for row in kept.values() if "regret" in row]
    known = [row["correlation"] for row in kept.values() if "correlation" in row]
    return (
        f"{len(regrets)} kernels; regret: median {percentile(regrets, 0.5):.3f}, "
        f"95th percentile {percentile(regrets, 0.95):.3f}, most {max(regrets, default=1):.2f}; "
        f"rank correlation of {len(known)}: median {percentile(known, 0.5):.2f}, "
        f"5th percentile {percentile(known, 0.05):.2f}"
    )


def lines(kept: Figures) -> list[list[str]]:
    """A row for each kernel, the largest regret first."""
    order = sorted(kept, key=lambda name: -kept[name].get("regret", 0))
    return [
        [
            name,
            figure(kept[name]["ms"]) if "ms" in kept[name] else kept[name].get("error", ""),
            f"{kept[name]['regret']:.3f}" if "regret" in kept[name] else "",
            str(kept[name].get("candidates", "")),
            f"{kept[name]['correlation']:.2f}" if "correlation" in kept[name] else "",
        ]
        for name in order
    ]


COLUMNS = ("kernel", "ms", "regret", "candidates", "correlation")


def show(kept: Figures) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for name in COLUMNS:
        table.add_column(name, no_wrap=True)
    for row in lines(kept):
        table.add_row(*row)
    console().print(table)
    console().print(summary(kept), highlight=False)


def markdown(kept: Figures) -> str:
    return "\n".join(
        (
            f"{summary(kept)}.",
            "",
            "| " + " | ".join(COLUMNS) + " |",
            "|---|--:|--:|--:|--:|",
            *("| " + " | ".join(row) + " |" for row in lines(kept)),
        )
    )


def measure(kept: Figures, options: argparse.Namespace) -> None:
    begin = time.monotonic()
    rounds = 1 if options.quick else options.rounds
    listed = list(corpus(options.seed, rounds))
    chosen = listed[:1] if options.quick else listed
    if options.only:
        chosen = [(name, kernel) for name, kernel in listed if name.startswith(options.only)]
    with tempfile.TemporaryDirectory(prefix="porism-regret-") as folder:
        for name, kernel in chosen:
            if options.resume and name in kept:
                continue
            with settings.override(cache_dir=os.path.realpath(folder)):
                kept[name] = tuned(kernel, 2.0 if options.quick else options.budget)
            if options.json:
                options.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            if options.seconds and time.monotonic() - begin > options.seconds:
                return


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench regret",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the sizes")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="programs of each kind")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds for a kernel")
    parser.add_argument("--only", metavar="NAME", help="kernels whose name begins like this")
    parser.add_argument("--quick", action="store_true", help="one kernel, for two seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add the figures to this file")
    parser.add_argument("--resume", action="store_true", help="only what the file does not have")
    parser.add_argument("--seconds", type=float, help="end after so long")
    parser.add_argument("--show", action="store_true", help="measure nothing, show the file")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the table into a page")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    kept: Figures = {}
    if options.json and options.json.exists():
        kept = json.loads(options.json.read_text(encoding="utf-8"))
    if not options.show:
        measure(kept, options)
    show(kept)
    if options.page:
        replace_part(options.page, "regret", markdown(kept))


if __name__ == "__main__":
    main()
