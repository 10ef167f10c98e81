"""One simplifier's part of the benchmark: reads a corpus, prints what became of each row as JSON.

The clock runs only while an expression that is built already is simplified, and what was learnt
from one expression is forgotten before the next. A compiler may hold on to more than can be made
to be forgotten, and then the best of several rounds favours it; one round is cold for all.
"""

from __future__ import annotations

import ast
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.index_values import tree_of


class Simplifier:
    """How one compiler builds, simplifies and prints an expression."""

    def build(self, row: dict[str, Any]) -> Any:
        raise NotImplementedError

    def simplify(self, built: Any) -> Any:
        raise NotImplementedError

    def text(self, built: Any, simplified: Any) -> str:
        raise NotImplementedError

    def forget(self) -> None:
        """Drop what is cached."""


class Porism(Simplifier):
    def __init__(self) -> None:
        from porism.ir.node_collector import sweep
        from porism.rules import index
        from porism.simplifier import parser, simplify, variable_bounds

        self.sweep, self.index = sweep, index
        self.box, self.parse, self.whole = variable_bounds.box, parser.parse, simplify.simplify_node

    def build(self, row: dict[str, Any]) -> Any:
        known = self.box(row["vars"])
        root = self.parse(row["expr"], known.variables)
        return root, known, known.facts(root)

    def simplify(self, built: Any) -> Any:
        return self.index.simplify(built[0], facts=built[2])

    def text(self, built: Any, simplified: Any) -> str:
        return self.whole(built[0], built[1]).text

    def forget(self) -> None:
        self.sweep()


class Walker(Simplifier):
    """For compilers whose expressions are built of Python's operators."""

    def forget(self) -> None:
        gc.collect()  # nodes that refer to each other in a circle are found again until then

    def const(self, value: int) -> Any:
        return value

    def call(self, name: str, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def choose(self, condition: Any, yes: Any, no: Any, gate: bool) -> Any:
        raise NotImplementedError

    def both(self, a: Any, b: Any) -> Any:
        return a & b

    def either(self, a: Any, b: Any) -> Any:
        return a | b

    def compare(self, op: ast.cmpop, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def made(self, tree: ast.expr, names: dict[str, Any]) -> Any:
        match tree:
            case ast.Constant(value=int(number)):
                return self.const(number)
            case ast.Name(id=name):
                return names[name]
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self.made(left, names), self.made(right, names)
                return self.binary(op, a, b)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
                return self.const(-number)
            case ast.BoolOp(op=joined, values=values):
                whole = self.made(values[0], names)
                for part in values[1:]:
                    join = self.both if isinstance(joined, ast.And) else self.either
                    whole = join(whole, self.made(part, names))
                return whole
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.compare(op, self.made(left, names), self.made(right, names))
            case ast.IfExp(test=test, body=body, orelse=other):
                gate = ast.unparse(other) == "-1"
                condition, yes, no = (self.made(part, names) for part in (test, body, other))
                return self.choose(condition, yes, no, gate)
            case ast.Call(func=ast.Name(id=name), args=[a, b]):
                return self.call(name, self.made(a, names), self.made(b, names))
        raise ValueError(ast.dump(tree)[:80])

    def binary(self, op: ast.operator, a: Any, b: Any) -> Any:
        match op:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.FloorDiv():
                return a // b
        assert isinstance(op, ast.Mod)
        return a % b


class Tinygrad(Walker):
    """All of its symbolic rules; where the other choice is -1, a gate as it makes them."""

    def __init__(self) -> None:
        from tinygrad.uop.ops import (  # type: ignore[import-not-found]
            Ops,
            UOp,
            graph_rewrite,
        )
        from tinygrad.uop.symbolic import sym  # type: ignore[import-not-found]

        self.node, self.ops, self.rewrite = UOp, Ops, graph_rewrite
        self.rules = sym
        names = {"ADD": "+", "SUB": "-", "MUL": "*", "FLOORDIV": "//", "FLOORMOD": "%"}
        names |= {"CMPLT": "<", "CMPNE": "!=", "CMPEQ": "==", "SHL": "<<", "SHR": ">>"}
        self.symbols = {getattr(Ops, name): symbol for name, symbol in names.items()}

    def build(self, row: dict[str, Any]) -> Any:
        names: dict[str, Any] = {}
        waiting = dict(row["vars"])
        while waiting:  # bounds may mention variables that come later
            for name, ends in list(waiting.items()):
                try:
                    low, high = (
                        end if isinstance(end, int) else self.made(tree_of(end), names)
                        for end in ends
                    )
                except KeyError:
                    continue
                low = low if isinstance(low, int) else int(low.vmin)
                high = high if isinstance(high, int) else int(high.vmax)
                names[name] = self.node.variable(name, low, high, param=True)
                del waiting[name]
        return self.made(tree_of(row["expr"]), names)

    def const(self, value: int) -> Any:
        return self.node.const(value)

    def choose(self, condition: Any, yes: Any, no: Any, gate: bool) -> Any:
        return yes.valid(condition) if gate else condition.where(yes, no)

    def call(self, name: str, a: Any, b: Any) -> Any:
        return a.minimum(b) if name == "min" else a.maximum(b)

    def compare(self, op: ast.cmpop, a: Any, b: Any) -> Any:
        match op:
            case ast.Lt():
                return a < b
            case ast.LtE():
                return a <= b
            case ast.Gt():
                return a > b
            case ast.GtE():
                return a >= b
            case ast.Eq():
                return a.eq(b)
        return a.ne(b)

    def simplify(self, built: Any) -> Any:
        return self.rewrite(built, self.rules)

    def text(self, built: Any, simplified: Any) -> str:
        ops = self.ops
        texts: dict[Any, str] = {}
        for u in simplified.toposort():
            src = [texts[s] for s in u.src]
            if u.op is ops.CONST:
                texts[u] = "-1" if u.is_invalid else str(u.val)
            elif u.op is ops.PARAM:
                texts[u] = str(u.arg.name)
            elif u.op is ops.WHERE:
                texts[u] = f"({src[1]} if {src[0]} else {src[2]})"
            elif u.op in (ops.AND, ops.OR, ops.XOR):
                texts[u] = f"({src[0]} {self._logic(u)} {src[1]})"
            elif u.op is ops.MAX:
                texts[u] = f"max({src[0]}, {src[1]})"
            elif u.op is ops.CAST:
                texts[u] = f"(1 if {src[0]} else 0)" if u.src[0].dtype.name == "bool" else src[0]
            elif u.op is ops.NEG:
                texts[u] = f"(-{src[0]})"
            elif u.op in self.symbols:
                texts[u] = self._infix(u, src)
            else:
                texts[u] = ""  # such as the bounds of a variable
        return texts[simplified]

    def _infix(self, u: Any, src: list[str]) -> str:
        if u.op is self.ops.CMPNE and u.src[1].op is self.ops.CONST and u.src[1].val is True:
            return f"(not {src[0]})"
        return f"({src[0]} {self.symbols[u.op]} {src[1]})"

    def _logic(self, u: Any) -> str:
        conditions = u.dtype.name == "bool"
        names = ("and", "or", "!=") if conditions else ("&", "|", "^")
        return names[[self.ops.AND, self.ops.OR, self.ops.XOR].index(u.op)]


class Tvm(Walker):
    """TVM's analyzer, with the ranges of the variables bound."""

    def __init__(self) -> None:
        import tvm  # type: ignore[import-not-found]

        self.tvm, self.tir = tvm, tvm.tir

    def build(self, row: dict[str, Any]) -> Any:
        tir = self.tir
        names = {name: tir.Var(name, "int64") for name in row["vars"]}
        analyzer = self.tvm.arith.Analyzer()
        for name, ends in row["vars"].items():
            low, high = (
                tir.IntImm("int64", e) if isinstance(e, int) else self.made(tree_of(e), names)
                for e in ends
            )
            analyzer.bind(names[name], self.tvm.ir.Range(low, high + 1))
        return analyzer, self.made(tree_of(row["expr"]), names)

    def const(self, value: int) -> Any:
        return self.tir.IntImm("int64", value)

    def choose(self, condition: Any, yes: Any, no: Any, gate: bool) -> Any:
        return self.tir.Select(condition, yes, no)

    def call(self, name: str, a: Any, b: Any) -> Any:
        return (self.tir.Min if name == "min" else self.tir.Max)(a, b)

    def both(self, a: Any, b: Any) -> Any:
        return self.tir.And(a, b)

    def either(self, a: Any, b: Any) -> Any:
        return self.tir.Or(a, b)

    def compare(self, op: ast.cmpop, a: Any, b: Any) -> Any:
        names = {"Lt": "LT", "LtE": "LE", "Gt": "GT", "GtE": "GE", "Eq": "EQ", "NotEq": "NE"}
        return getattr(self.tir, names[type(op).__name__])(a, b)

    def simplify(self, built: Any) -> Any:
        return built[0].simplify(built[1])

    def text(self, built: Any, simplified: Any) -> str:
        tir = self.tir
        names = {tir.Add: "+", tir.Sub: "-", tir.Mul: "*", tir.FloorDiv: "//", tir.FloorMod: "%"}
        names |= {tir.LT: "<", tir.LE: "<=", tir.GT: ">", tir.GE: ">=", tir.EQ: "==", tir.NE: "!="}
        names |= {tir.And: "and", tir.Or: "or"}

        def write(e: Any) -> str:
            if isinstance(e, tir.IntImm):
                return str(bool(e.value)) if e.dtype == "bool" else str(e.value)
            if isinstance(e, tir.Var):
                return str(e.name)
            if isinstance(e, tir.Not):
                return f"(not {write(e.a)})"
            if isinstance(e, tir.Min | tir.Max):
                return f"{type(e).__name__.lower()}({write(e.a)}, {write(e.b)})"
            if isinstance(e, tir.Select):
                yes, no = write(e.true_value), write(e.false_value)
                return f"({yes} if {write(e.condition)} else {no})"
            if isinstance(e, tir.Cast):
                return f"(1 if {write(e.value)} else 0)"
            return f"({write(e.a)} {names[type(e)]} {write(e.b)})"

        return write(simplified)


COMPILERS = {"porism": Porism, "tinygrad": Tinygrad, "tvm": Tvm}


def measured(simplifier: Simplifier, row: dict[str, Any], rounds: int) -> dict[str, Any]:
    """The text that a row becomes, and the fewest microseconds of a few cold runs."""
    best = float("inf")
    text = ""
    for number in range(rounds):
        built = simplifier.build(row)
        simplifier.forget()
        start = time.perf_counter()
        result = simplifier.simplify(built)
        best = min(best, time.perf_counter() - start)
        if number == rounds - 1:
            text = simplifier.text(built, result)
        del built, result
    return {"name": row["name"], "text": text, "us": best * 1e6}


def main() -> None:
    name, corpus, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    simplifier = COMPILERS[name]()
    rows = [json.loads(line) for line in corpus.read_text().splitlines()]
    sys.setrecursionlimit(100_000)
    measured(simplifier, rows[0], 1)  # what is loaded or generated at the first use
    gc.collect()
    gc.disable()
    for row in rows:
        try:
            print(json.dumps(measured(simplifier, row, rounds)))
        except Exception as error:  # a peer may fail on a row; that is a figure too
            print(json.dumps({"name": row["name"], "error": f"{type(error).__name__}: {error}"}))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
