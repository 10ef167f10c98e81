"""Schedule, one program in a process of its own: `schedule_worker COMPILER TABLE NAME [COUNT]`.

Prints a JSON object: seconds for a first, tiny program (which loads what is loaded when it is first
used), then for building and for scheduling the program, and what came of it. They are seconds of
the processor, which other work on the machine disturbs less than those of the clock. With `stages`
for the compiler, ours is taken apart by stage.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

DIVISIONS = ("FLOORDIV", "FLOORMOD", "CDIV", "CMOD")


class Ours:
    """Porism, up to finished kernels: its schedule has indices simplified in every kernel.

    The pipeline is called itself: `realize` may find a schedule that an earlier process has kept.
    """

    models = "benchmarks.models"

    def __init__(self) -> None:
        from porism import pipeline
        from porism.engine.run import realize
        from porism.schedule import loop_listing

        self.pipeline, self.realize, self.listing = pipeline, realize, loop_listing

    def timing(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def schedule(self, tensor: Any) -> list[Any]:
        seen: set[str] = set()
        wanted = self.realize.request([tensor.node])
        with self.pipeline.watched(lambda stage, level, graph: seen.add(stage)):
            result = self.pipeline.schedule_graph(wanted.graph, cached=False)
        if not {"rangeify", self.pipeline.KERNEL_STAGES[-1].name} <= seen:
            raise SystemExit("the schedule was not made but found: this would not be cold")
        return [step.kernel for step in result.steps]

    def divisions(self, kernels: Sequence[Any]) -> list[int]:
        return self.listing.divisions(kernels)


class Tinygrad:
    """tinygrad up to `schedule_linear`, which leaves the indices of kernels to its code generator.

    Divisions are therefore counted after the code generator's own passes up to where it begins to
    choose loops; their time is not counted.
    """

    models = "benchmarks.tinygrad_models"

    @contextlib.contextmanager
    def timing(self) -> Iterator[None]:
        """As its `realize` does, without the collector."""
        gc.disable()
        yield
        gc.enable()

    def schedule(self, tensor: Any) -> list[Any]:
        return [call.src[0] for call in tensor.schedule_linear().src]

    def divisions(self, kernels: Sequence[Any]) -> list[int]:
        from tinygrad import codegen  # type: ignore[import-not-found]
        from tinygrad.uop.ops import graph_rewrite  # type: ignore[import-not-found]

        flatten = codegen.pm_flatten_range
        result = []
        for kernel in kernels:
            sink = graph_rewrite(kernel, codegen.pm_mops, bottom_up=True)
            sink = graph_rewrite(sink, codegen.pm_load_collapse)
            sink = graph_rewrite(sink, codegen.pm_split_ranges + flatten, ctx={})
            sink = graph_rewrite(sink, codegen.sym + flatten)
            sink = graph_rewrite(sink, flatten + codegen.pm_simplify_ranges, ctx={})
            result.append(sum(node.op.name in DIVISIONS for node in sink.toposort()))
        return result


def measured(compiler: Ours | Tinygrad, table: str, name: str, count: int | None) -> Any:
    """The seconds and the results of one program."""
    models = importlib.import_module(compiler.models)
    began = time.process_time()
    compiler.schedule((models.data(5, 7) + 1).sum())
    first = time.process_time() - began
    entry = getattr(models, table)[name]
    build = entry() if count is None else entry(count)
    with compiler.timing():
        began = time.process_time()
        tensor = build()
        built = time.process_time()
        kernels = compiler.schedule(tensor)
        ended = time.process_time()
    return {
        "first": first,
        "build": built - began,
        "schedule": ended - built,
        "kernels": len(kernels),
        "different": len(set(kernels)),
        "divisions": compiler.divisions(kernels) if table == "MOVEMENTS" else None,
        "shape": list(tensor.shape),
    }


def stages(table: str, name: str, count: int | None) -> dict[str, float]:
    """Seconds of ours by stage; what is not in a stage comes last."""
    from benchmarks import models
    from porism.engine.run.realize import request
    from porism.ir.levels import Level
    from porism.ir.node import UOp
    from porism.pipeline import schedule_graph, watched

    entry = getattr(models, table)[name]
    build = entry() if count is None else entry(count)
    result: dict[str, float] = {}
    last = time.process_time()

    def see(stage: str, level: Level, graph: UOp) -> None:
        nonlocal last
        now = time.process_time()
        result[stage] = result.get(stage, 0.0) + now - last
        last = now

    def passed(stage: str) -> None:
        nonlocal last
        result[stage] = time.process_time() - last
        last = time.process_time()

    tensor = build()
    passed("tensor functions")
    graph = request([tensor.node]).graph
    passed("request")
    with watched(see):
        schedule_graph(graph, cached=False)
    passed("memory and order")
    return result


def main() -> None:
    name, table, model, *count = sys.argv[1:]
    number = int(count[0]) if count else None
    if name == "stages":
        from benchmarks import models

        Ours().schedule((models.data(5, 7) + 1).sum())  # loads what is loaded at the first use
        print(json.dumps(stages(table, model, number)))
        return
    compiler = Ours() if name == "porism" else Tinygrad()
    print(json.dumps(measured(compiler, table, model, number)))


if __name__ == "__main__":
    main()
