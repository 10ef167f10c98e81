"""Fired: how often each rule fires while a corpus of programs and models is compiled.

    porism rules --fired [--record]

The corpus is what the repository has: every public function on each kind of data, as the
conformance suite calls it; the models and movements of the benchmarks; random programs of the
fuzzer; index expressions. Each is scheduled, and its kernels are lowered for a CPU and for a GPU;
none is run. The functions and models are compiled once more with fast math.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

import porism
from benchmarks import index_corpus, models
from fuzz.program import actions, generate, run
from porism import pipeline
from porism.base.errors import PorismError
from porism.base.gpu_targets import H200
from porism.base.settings import settings
from porism.base.target import GENERIC_CPU
from porism.catalogue import rule_counts
from porism.engine.run.realize import request
from porism.ir import ops
from porism.ir.levels import Level
from porism.ir.node import UOp
from porism.rewrite.construction import installed_rules, record_rewrites
from porism.rewrite.rewrite_trace import Trace
from porism.rewrite.rule import Rewrite
from porism.tensor import namespace
from tests.conformance.data import arrays
from tests.conformance.table import ROWS
from tests.conformance.test_functions import called

TYPES: Final = {"f": ("float32", "float16"), "i": ("int32", "uint8"), "b": ("bool",)}
"""The types of data of each kind."""

TARGETS: Final = (GENERIC_CPU, H200)
PROGRAMS: Final = 600
EXPRESSIONS: Final = 600

Tensors = tuple[Any, ...]


class Counted(Trace):
    """Counts rewrites, and keeps none."""

    def __init__(self) -> None:
        super().__init__()
        self.by_rule: Counter[str] = Counter()
        self.stages: dict[str, set[str]] = {
            item.name: {rule_counts.EVERY_NODE} for item in installed_rules()
        }

    def rules_tried(self, rules: Iterable[Rewrite]) -> None:
        for item in rules:
            self.stages.setdefault(item.name, set()).add(self.stage)

    def record(self, rule: str, before: UOp, after: UOp) -> None:
        self.by_rule[rule] += 1


class Passes:
    """Counts the stages that change a graph as passes of the catalogue."""

    def __init__(self, trace: Counted) -> None:
        self.trace = trace
        self.last: UOp | None = None

    def see(self, stage: str, level: Level, graph: UOp) -> None:
        """Take note of the graph after a stage."""
        name = PASSES.get(stage)
        if name is not None:
            self.trace.stages.setdefault(name, set()).add(stage)
            self.trace.by_rule[name] += graph is not self.last
        self.last = graph


PASSES: Final = {
    "split reductions": "split-reduction",
    "flatten ends": "flatten-ends",
    "split ranges": "split-ranges",
    "merge ranges": "merge-ranges",
    "split merged ranges": "split-ranges",
}
"""The stages that are passes of the catalogue, or have a procedure of it do all."""


# -- the corpus ------------------------------------------------------------------------------------


def functions() -> Iterator[Tensors]:
    """A call of every public function on each kind of data."""
    for row in (row for rows in ROWS.values() for row in rows):
        for name in (name for kind in row.kinds for name in TYPES[kind]):
            with suppress(PorismError, ValueError, TypeError):  # some have no such type
                yield (called(row, arrays(name)),)


def networks() -> Iterator[Tensors]:
    """The models and movements of the benchmarks."""
    for table in (models.MODELS, models.MOVEMENTS, models.COMPILED):
        for make in table.values():
            yield (make()(),)


def programs() -> Iterator[Tensors]:
    """Random programs over the whole namespace, always the same ones."""
    for seed in range(PROGRAMS):
        made = generate.program(random.Random(seed))
        with suppress(PorismError, ValueError, TypeError):
            values = run._tensors(made.steps, run._inputs(made.steps))
            yield tuple(values[k] for k in made.results)


WRITTEN: Final = (
    *("-(-i)", "--f", "i&i", "i|i", "i|0", "i&0", "i^i", "~~i", "floor(i)", "ceil(i)", "trunc(i)"),
    *(
        "round(i)",
        "i%1",
        "i+i",
        "i*2+i*3",
        "i-(j-i)",
        "(i+1)+(j+2)",
        "(i%4+1)//(i%4+1)",
        "i%i",
        "(i%8*3)//3",
    ),
    *(
        "(i%8*(j%5+1))//(j%5+1)",
        "i//-1",
        "f+-0.0",
        "maximum(f,f)",
        "maximum(i,i)",
        "minimum(i,i)",
        "minimum(f,f)",
        "f*0.0/0.0",
    ),
    *("f*0.0/-0.0", "f*-0.0/0.0", "f*-0.0/-0.0", "~~b", "b|b", "b^b", "b|~b", "b&~b", "~b&~c"),
    *("~b|~c", "b&(b|c)", "b|(b&c)", "i>i", "i<=i", "i>=i", "i<i", "i==i", "i!=i", "i%9+3>7"),
    *("i+3==7", "i+3!=7", "i%9+3<=7", "i%9+3>=7", "-(i%9)<-(j%9)", "-(i%9)<=-(j%9)"),
    *("-(i%9)>-(j%9)", "-(i%9)>=-(j%9)", "i//4<3", "i//4>=3", "-f<-g", "-f<=-g", "-f>-g"),
    *("-f>=-g", "~maximum(~i,~j)", "~minimum(~i,~j)", "where(~b,i,j)", "where(b,where(c,i,j),j)"),
    *("i**0", "f**1"),
)
"""What users write although it says less than it seems to, on integers, floats and truths."""

FAST: Final = (
    *("f/f", "(f*g)/g", "f+f", "f+1+2", "f*2*3", "f*2+f*3", "(f-1)+2", "(f-1)-2", "f-(g-f)"),
    *("f+0.0", "f*0.0", "(f*2).sum()", "(f*g.mean()).sum()", "where(b,f,0.0).sum()"),
    "sum(f*b.astype('float32'))",
)
"""The same, of which fast math makes less."""


def written(texts: Sequence[str] = WRITTEN) -> Iterator[Tensors]:
    """Redundant expressions on tensors of integers, floats and truths."""
    numbers = np.arange(24).reshape(4, 6)
    i, j = (porism.asarray(n.astype(np.int32)) for n in (numbers, numbers[::-1].copy()))
    f, g = (porism.asarray(n.astype(np.float32)) for n in (numbers, numbers[::-1].copy()))
    values = {"i": i, "j": j, "f": f, "g": g, "b": f > g, "c": f > 3}
    functions = {name: getattr(porism, name) for name in namespace.MODULE_OF}
    for text in texts:
        yield (eval(text, {}, {**functions, **values}),)


def rare() -> Iterator[Tensors]:
    """What is in none of the others: sums of very many elements, random numbers, large products."""
    yield (models.data(1 << 22).sum(),)
    yield (models.data(1 << 20, 4).max(0),)
    yield (porism.randn(8, 8), porism.randint(0, 9, (5,)))
    half = models.data(256, 256).astype("float16")
    yield (half @ half,)
    bits = porism.asarray(np.zeros((4, 100), np.uint8)).astype("bfloat16")
    yield (bits.sum(1),)
    size = porism.Variable("size", 1, 8).bind(5)
    yield (models.data(8, 3)[:size].sum(0),)
    yield (models.data(8, 4)[:size].reshape(-1, 2).sum(0),)


def expressions() -> Iterator[Tensors]:
    """Index expressions, which are simplified and not compiled."""
    for row in index_corpus.corpus(EXPRESSIONS, seed=0):
        porism.simplify(row["expr"], {name: tuple(ends) for name, ends in row["vars"].items()})
        yield ()
    for text in ("x // x", "x % x", "-max(-x, -y)", "-min(-x, -y)", "x * y // y"):
        porism.simplify(text, {"x": (-9, 9), "y": (-9, 9)})
        yield ()


def with_fast_math() -> Iterator[Tensors]:
    """Functions and models, with the rules that change float results."""
    with porism.fast_math():
        yield from written(FAST)
        yield from functions()
        yield from networks()


CORPUS: Final[Mapping[str, Callable[[], Iterator[Tensors]]]] = {
    "functions": functions,
    "models": networks,
    "redundant expressions": written,
    "programs": programs,
    "rare programs": rare,
    "expressions": expressions,
    "fast math": with_fast_math,
}


def compile_only(tensors: Tensors, chance: random.Random) -> None:
    """Schedule some tensors, and lower their kernels for every target.

    Each kernel is lowered as the heuristic schedules its loops, and by random legal actions.
    """
    found = [tensor.node for tensor in tensors if isinstance(tensor, porism.Tensor)]
    lazy = [node for node in found if node.op is not ops.BUFFER]  # others are computed already
    if not lazy:
        return
    schedule = pipeline.schedule_graph(request(lazy).graph, cached=False)
    for kernel in dict.fromkeys(step.kernel for step in schedule.steps):
        for target in TARGETS:
            pipeline.lower_kernel(kernel, target)
            some = actions.legal_actions(kernel, target, chance)
            pipeline.lower_kernel(kernel, target, actions=some)


def counted(part: str, trace: Counted) -> tuple[int, int]:
    """Compile a part of the corpus; how many programs were compiled, and how many could not be."""
    done = failed = 0
    chance = random.Random(part)
    for tensors in CORPUS[part]():
        try:
            compile_only(tensors, chance)
            done += 1
        except (PorismError, KeyError):
            failed += 1
    return done, failed


def main() -> int:
    """Count, print a table, and record the counts if that is asked for."""
    parser = argparse.ArgumentParser(prog="porism rules --fired", description=__doc__)
    parser.add_argument("--record", action="store_true", help="keep the counts for porism rules")
    options = parser.parse_args()
    trace = Counted()
    passes = Passes(trace)
    with (
        pipeline.watched(passes.see),
        settings.override(cache=False, progress=False),
        record_rewrites(trace),
    ):
        for part in CORPUS:
            began = time.perf_counter()
            done, failed = counted(part, trace)
            seconds = time.perf_counter() - began
            print(f"{part}: {done} compiled, {failed} not, in {seconds:.0f} s", file=sys.stderr)
    for name, count in trace.by_rule.most_common():
        print(f"{count:8}  {name}")
    if options.record:
        rule_counts.write(trace.by_rule, trace.stages)
    return 0


if __name__ == "__main__":
    sys.exit(main())
