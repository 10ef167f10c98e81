"""One compiler's part of the engine benchmark: measures and prints the figures as JSON."""

from __future__ import annotations

import gc
import json
import operator
import resource
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import programs
from benchmarks.programs import LEAVES, Row

REPEATS = 3


Make = Callable[[Any, Any], Any]
Prepared = tuple[list[Any], list[tuple[Make, int, int]]]
"""The values to begin with, and for each row what makes it of which two values."""

OPERATORS: dict[str, Make] = {
    "ADD": operator.add,
    "MUL": operator.mul,
    "IDIV": operator.floordiv,
    "MOD": operator.mod,
}


class Compiler:
    """How one compiler makes nodes."""

    leaves: list[Any]
    constructors: dict[str, Make]

    def const(self, value: int) -> Any:
        raise NotImplementedError

    def prepare(self, program: list[Row], makers: dict[str, Make]) -> Prepared:
        """A program ready to run: constants made and names looked up before the clock runs."""
        constants = sorted({x for row in program for x in row[1:] if isinstance(x, str)})
        values = [*self.leaves, *(self.const(int(text)) for text in constants)]
        place = {text: LEAVES + i for i, text in enumerate(constants)}

        def position(operand: int | str) -> int:
            if isinstance(operand, str):
                return place[operand]
            return operand if operand < LEAVES else operand + len(constants)

        return values, [(makers[op], position(a), position(b)) for op, a, b in program]

    def rewritten(self, prepared: Prepared) -> list[Any]:
        """Build, and rewrite with the rules."""
        raise NotImplementedError


def build(prepared: Prepared) -> list[Any]:
    values = list(prepared[0])
    append = values.append
    for make, a, b in prepared[1]:
        append(make(values[a], values[b]))
    return values


class Porism(Compiler):
    def __init__(self) -> None:
        from porism.base import dtypes
        from porism.ir import ops
        from porism.ir.node import UOp, construct_binary
        from porism.rewrite.construction import install
        from porism.rewrite.rule import RuleSet
        from porism.rules.rule_sets import ALGEBRA

        self.constructors = {name: partial(construct_binary, ops.op(name)) for name in OPERATORS}
        self.leaves = [UOp.variable(f"v{i}", 0, programs.HIGHEST) for i in range(LEAVES)]
        self.index, self.node = dtypes.index, UOp
        self.install, self.algebra = install, ALGEBRA
        install(RuleSet("nothing"))

    def const(self, value: int) -> Any:
        return self.node.const(self.index, value)

    def rewritten(self, prepared: Prepared) -> list[Any]:
        return build(prepared)  # the rules are applied as nodes are made


class Tinygrad(Compiler):
    def __init__(self) -> None:
        from tinygrad.uop.ops import (  # type: ignore[import-not-found]
            Ops,
            PatternMatcher,
            UOp,
            graph_rewrite,
        )

        from benchmarks.tinygrad_rules import NAMES, translated
        from porism.rules.rule_sets import ALGEBRA

        self.leaves = [UOp.variable(f"v{i}", 0, programs.HIGHEST) for i in range(LEAVES)]
        dtype = self.leaves[0].dtype

        def constructor(op: Any) -> Make:
            return lambda a, b: UOp(op, dtype, (a, b))

        names = {name: getattr(Ops, NAMES.get(name, name)) for name in OPERATORS}
        self.constructors = {name: constructor(op) for name, op in names.items()}
        self.node, self.sink = UOp, Ops.SINK
        self.matcher = PatternMatcher(translated(ALGEBRA))
        self.rewrite = graph_rewrite

    def const(self, value: int) -> Any:
        return self.leaves[0].const_like(value)

    def rewritten(self, prepared: Prepared) -> list[Any]:
        return [self.rewrite(self.node(self.sink, src=tuple(build(prepared))), self.matcher)]


def rate(run: Callable[[], Any], nodes: int, *, cold: bool) -> float:
    """Nodes per second, the best of a few times."""
    best = 0.0
    kept = None if cold else run()
    for _ in range(REPEATS):
        gc.collect()
        start = time.perf_counter()
        result = run()
        best = max(best, nodes / (time.perf_counter() - start))
        del result
    del kept
    return best


def with_bounds(values: list[Any]) -> list[Any]:
    for value in values:
        _ = value.vmin, value.vmax
    return values


def bytes_per_node(compiler: Compiler, prepared: Prepared, *, bounds: bool) -> float:
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    values = build(prepared)
    if bounds:
        with_bounds(values)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / len(set(map(id, values[len(prepared[0]) :])))


def figures(compiler: Compiler, size: int) -> dict[str, float]:
    program = programs.random_index(size)
    matmul = programs.unrolled_matmul(16, max(size // (16 * 11), 2))
    few = program[: max(size // 4, 500)]
    made = compiler.prepare(program, compiler.constructors)
    made_few = compiler.prepare(few, compiler.constructors)
    written = compiler.prepare(few, OPERATORS)
    outcome = {
        "constructor_cold": rate(lambda: build(made), size, cold=True),
        "constructor_bounds_cold": rate(lambda: with_bounds(build(made_few)), len(few), cold=True),
        "operator_cold": rate(lambda: build(written), len(few), cold=True),
        "constructor_hit": rate(lambda: build(made), size, cold=False),
        "operator_hit": rate(lambda: build(written), len(few), cold=False),
        "bytes": bytes_per_node(compiler, made, bounds=False),
        "bytes_bounds": bytes_per_node(compiler, made_few, bounds=True),
    }
    if isinstance(compiler, Porism):
        compiler.install(compiler.algebra)
    unrolled = compiler.prepare(matmul, compiler.constructors)
    outcome["random_rewrite"] = rate(lambda: compiler.rewritten(made), size, cold=True)
    outcome["matmul_rewrite"] = rate(lambda: compiler.rewritten(unrolled), len(matmul), cold=True)
    return outcome


def growth(size: int) -> dict[str, float]:
    """Build a graph of `size` different nodes exactly as stated, then rewrite it in a pass."""
    from porism.ir import ops
    from porism.ir.node import UOp, raw
    from porism.ir.node_collector import quiet_collector
    from porism.ir.traversal import toposort
    from porism.rewrite.graph_rewrite import normalize
    from porism.rules.rule_sets import ALGEBRA

    assert len(ALGEBRA)
    leaves = [UOp.variable(f"v{i}", 0, programs.HIGHEST) for i in range(LEAVES)]
    start_memory = _memory()
    start = time.perf_counter()
    with quiet_collector():
        value = leaves[0]
        for i in range(size // 4):  # a sum of scaled terms, each taken apart and put together
            leaf = leaves[i % LEAVES]
            term = raw(ops.MUL, None, (leaf, leaf.lift(i)), None)
            low = raw(ops.MOD, None, (term, leaf.lift(8)), None)
            value = raw(ops.ADD, None, (value, low), None)
    built = time.perf_counter()
    nodes = len(toposort(value))
    normalize(value)
    done = time.perf_counter()
    return {
        "nodes": float(nodes),
        "build": built - start,
        "rewrite": done - built,
        "peak": float(_memory() - start_memory),
    }


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    name, size = sys.argv[1], int(sys.argv[2])
    if name == "growth":
        print(json.dumps(growth(size)))
        return
    compiler = Porism() if name == "porism" else Tinygrad()
    gc.collect()
    gc.freeze()  # what the imports left is not what is measured
    print(json.dumps(figures(compiler, size)))


if __name__ == "__main__":
    main()
