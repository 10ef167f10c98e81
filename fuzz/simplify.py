"""Simplifying keeps values: random expressions and boxes, compared at every point of the box."""

from __future__ import annotations

import random
from typing import cast

from hypothesis import strategies as st

from benchmarks import index_corpus, index_values
from fuzz.search import search
from porism.base import dtypes
from porism.base.errors import ParseError, PorismError
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.traversal import find, toposort
from porism.simplifier.expression_cost import measure
from porism.simplifier.parser import parse
from porism.simplifier.printer import to_python
from porism.simplifier.simplify import Result, simplify
from porism.simplifier.variable_bounds import Bounds, box
from tests import expressions
from tests.simplifier import variants

UNREAD = (ops.CAST, ops.MULACC, ops.POW, ops.RANGE)
"""Ops that have no text."""


def checked(text: str, bounds: Bounds, window: index_values.Bounds | None = None) -> Result:
    """Simplify, and compare at the points of the box, or of a window of one without ends."""
    result = simplify(text, bounds)
    looked_at = cast(index_values.Bounds, bounds) if window is None else window
    point = index_values.difference(text, result.text, looked_at)
    assert point is None, f"{text}\n  became {result.text}\n  wrong at {point}"
    before, after = (index_values.divisions(t)[0] for t in (text, result.text))
    assert after <= before, f"{text}\n  became {result.text}"
    given = measure(parse(text, box(bounds).variables))
    assert result.divmods <= given[0], f"{text}\n  became {result.text}"
    assert result.cost <= given[1], f"{text}\n  became {result.text}"
    again = simplify(result.text, bounds)
    assert again.divmods <= result.divmods
    assert again.cost <= result.cost
    return result


def random_expressions(data: st.DataObject) -> None:
    """Arithmetic of all kinds on two or three variables with small bounds."""
    leaves, bounds = [], {}
    for name in ("a", "b", "c")[: data.draw(st.integers(1, 3))]:
        low = data.draw(st.integers(-8, 8))
        high = low + data.draw(st.integers(0, 12))
        leaves.append(raw(ops.VARIABLE, dtypes.index, (), (name, low, high)))
        bounds[name] = [low, high]
    of = data.draw(st.sampled_from((dtypes.index, dtypes.boolean)))
    root = data.draw(
        expressions.expressions(of, of=dtypes.index, leaves=leaves, limit=1 << 40, casts=False)
    )
    if not any(node.op in UNREAD for node in toposort(root)):
        checked(to_python(root), bounds)


def divisions_and_sums(data: st.DataObject) -> None:
    """Sums of scaled variables, divided again and again, as layouts make them."""
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    names = ["a", "b", "c"][: chance.randint(1, 3)]
    bounds = {name: [0, chance.choice((1, 2, 3, 5, 6, 7, 11, 15))] for name in names}
    numbers = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24)
    texts = list(names)
    for _ in range(chance.randint(2, 7)):
        kind = chance.randrange(8)
        a, b = chance.choice(texts[-3:]), chance.choice(texts)
        k, m = chance.choice(numbers), chance.choice(numbers)
        if kind < 3:
            texts.append(f"({a} * {k} + {b})")
        elif kind == 3:
            texts.append(f"({a} // {k})")
        elif kind == 4:
            texts.append(f"({a} % {k})")
        elif kind == 5:
            texts.append(f"({a} // {k} * {m} + {b} % {k})")
        elif kind == 6:
            texts.append(f"({k} - {a} + {b} * {m})")
        else:
            texts.append(f"({a} if {b} % {k} < {m} and {a} >= {m} else {b})")
    if len(texts[-1]) < 3000:
        checked(texts[-1], bounds)


def layouts(data: st.DataObject) -> None:
    """Rows of the corpus that is made from seeds."""
    (row,) = index_corpus.corpus(1, data.draw(st.integers(0, 2**32)))
    checked(row["expr"], row["vars"])


def divisors(data: st.DataObject) -> None:
    """Divisors that are variables, of either sign, and zero where a condition keeps it away."""
    low = data.draw(st.integers(-4, 2))
    bounds: Bounds = {"a": [-5, 9], "b": [low, low + data.draw(st.integers(1, 6))], "c": [0, 5]}
    parts = ("a // b", "a % b", "(a*b + c) // b", "(a*b + c) % b", "c // b % 3", "a // (b*2 + 1)",
             "(4*a) // (2*b)", "(6*a + 3) % (3*b)", "(a*b*c) // (b*b*2)", "(a*b + b) % (b*c + b*3)",
             "(c + 20) // (b + 9)", "(c + 20) % (b - 19)")  # fmt: skip
    guards = ("b > 0", "b != 0", "b < 0", "c < b", "0 < b < 4", "a % 2 == 0", "b >= 1 and c < b")
    text = data.draw(st.sampled_from(parts))
    for _ in range(data.draw(st.integers(0, 3))):
        other = data.draw(st.sampled_from((*parts, "c", "a", "7")))
        guard = data.draw(st.sampled_from(guards))
        kind = data.draw(st.integers(0, 2))
        if kind == 0:
            text = f"({text} if {guard} else {other})"
        elif kind == 1:
            text = f"({text} + {other})"
        else:
            text = f"({other} if {guard} and {text} < 3 else 1)"
    checked(text, bounds)


def masks(data: st.DataObject) -> None:
    """An index under a mask of several clauses, joined in all ways."""
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    bounds: Bounds = {name: [chance.choice((0, 0, -3)), chance.randint(1, 9)] for name in "abc"}
    numbers = (1, 2, 3, 4, 5, 6, 8, 12)

    def number() -> str:
        a, b = chance.sample("abc", 2)
        whole = f"({a} * {chance.choice(numbers)} + {b} + {chance.randint(-4, 4)})"
        kind = chance.randrange(4)
        return whole if kind == 0 else f"{whole} {('//', '%')[kind % 2]} {chance.choice(numbers)}"

    def clause() -> str:
        sign = chance.choice(("<", "<=", ">", ">=", "==", "!="))
        return f"{number()} {sign} {chance.choice((number(), str(chance.randint(-3, 12))))}"

    mask = clause()
    for _ in range(chance.randint(0, 3)):
        join = chance.choice(("and", "and", "or"))
        mask = f"({mask}) {join} {chance.choice(('', 'not '))}({clause()})"
    text = f"{number()} + ({number()}) % 4"
    checked(chance.choice((mask, f"({text} if {mask} else {number()})")), bounds)


def open_ends(data: st.DataObject) -> None:
    """Variables without a lower or an upper end, looked at near zero and far from it."""
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    bounds: Bounds = {"n": (1, None), "z": (None, None), "m": (None, 5), "r": (0, "n - 1")}
    numbers = (1, 2, 3, 4, 6, 7, 8, 12)
    texts = ["n", "z", "m", "r"]
    for _ in range(chance.randint(1, 5)):
        a, b = chance.choice(texts), chance.choice(texts)
        k, m = chance.choice(numbers), chance.choice(numbers)
        forms = (f"({a} * {k} + {b})", f"({a} // {k})", f"({a} % {k})",
                 f"({a} // {k} * {k} + {a} % {m})",
                 f"({a} if {b} < {k} else {b})", f"min({a}, {b})", f"max({a}, {k})",
                 "(r // n)", "((z*n + r) // n)", "((z*n + r) % n)", "(z // n)", f"({a} >> 2)",
                 f"({a} & 7)", f"(({a} + {k}) // {m})")  # fmt: skip
        texts.append(chance.choice(forms))
    near: index_values.Bounds = {"n": [1, 9], "z": [-8, 8], "m": [-6, 5], "r": [0, "n - 1"]}
    far: index_values.Bounds = {
        "n": [10**5, 10**5 + 9],
        "z": [-(10**6), -(10**6) + 9],
        "m": [-(10**5), 5],
        "r": ["n - 9", "n - 1"],
    }
    if len(texts[-1]) < 2000:
        result = checked(texts[-1], bounds, near)
        assert index_values.difference(texts[-1], result.text, far) is None, texts[-1]


def same_in_any_order(data: st.DataObject) -> None:
    """Neither the order of operands nor the names of variables matter, and once is enough."""
    (row,) = index_corpus.corpus(1, data.draw(st.integers(0, 2**32)))
    variants.unchanged(row, random.Random(data.draw(st.integers(0, 2**32))))


def symbolic_ends(data: st.DataObject) -> None:
    """A variable below another."""
    low, size = data.draw(st.integers(-3, 3)), data.draw(st.integers(1, 9))
    top = data.draw(st.sampled_from(("n - 1", "n", "n * 2 - 1", "n * 3 + 1", "max(n, 4) - 1")))
    bounds: Bounds = {"n": [1, size], "r": [min(low, 0), top], "s": [0, 3]}
    parts = ("r // n", "r % n", "(s*n + r) // n", "(s*n + r) % n", "r * 2 // n", "min(r, n)")
    more = ("(r + 1 if r < n else s)", "r // 3", "(n*4 + r) // 4", "(r + n) // n", "r % 3")
    chosen = data.draw(st.lists(st.sampled_from(parts + more), min_size=1, max_size=4))
    checked(" + ".join(f"{part} * {2**i}" for i, part in enumerate(chosen)), bounds)


def damaged(data: st.DataObject) -> None:
    """A text with a piece cut out, repeated or replaced is answered or refused."""
    (row,) = index_corpus.corpus(1, data.draw(st.integers(0, 2**16)))
    text = row["expr"][: data.draw(st.integers(1, 400))]
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(begin, min(begin + 20, len(text))))
        words = st.sampled_from(("//", " if ", " else ", "not ", "(", ")", " and ", "0", "-", "<<"))
        piece = data.draw(st.one_of(st.just(""), words, st.text(max_size=4)))
        text = text[:begin] + piece + text[end:]
    variables: dict[str, UOp] = {}
    for name, ends in row["vars"].items():
        variables[name] = UOp.variable(name, *[e if isinstance(e, int) else 99 for e in ends])
    try:
        root = parse(text, variables)
    except ParseError:
        return
    assert parse(to_python(root), variables) is root or _rewritten(root)
    try:
        simplify(text, row["vars"])
    except PorismError as error:
        raise AssertionError(f"{text} can be read, and not simplified") from error


def _rewritten(root: UOp) -> bool:
    """A positive sign leaves no trace in a graph, so the negative number after it is another."""
    negative = find(root, lambda node: node.op is ops.CONST and node.arg < 0)
    return next(negative, None) is not None


PROPERTIES = {
    "divisions": divisions_and_sums,
    "expressions": random_expressions,
    "layouts": layouts,
    "symbolic": symbolic_ends,
    "divisors": divisors,
    "masks": masks,
    "open": open_ends,
    "order": same_in_any_order,
    "damaged": damaged,
}

if __name__ == "__main__":
    search("simplify", PROPERTIES, __doc__ or "")
