"""Simplifying keeps values: random expressions and boxes, compared at every point of the box."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from benchmarks import index_corpus, index_values
from fuzz.search import search
from porism.base import dtypes
from porism.base.errors import ParseError, PorismError
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.walk import find, toposort
from porism.simplifier.parser import parse
from porism.simplifier.printer import to_python
from porism.simplifier.simplify import simplify
from tests import expressions

UNREAD = (ops.CAST, ops.MULACC, ops.POW, ops.RANGE)
"""Ops that have no text."""


def checked(text: str, bounds: index_values.Bounds) -> None:
    result = simplify(text, bounds)
    point = index_values.difference(text, result.text, bounds)
    assert point is None, f"{text}\n  became {result.text}\n  wrong at {point}"
    before, after = (index_values.divisions(t)[0] for t in (text, result.text))
    assert after <= before, f"{text}\n  became {result.text}"


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


def symbolic_ends(data: st.DataObject) -> None:
    """A variable below another."""
    low, size = data.draw(st.integers(-3, 3)), data.draw(st.integers(1, 9))
    top = data.draw(st.sampled_from(("n - 1", "n", "n * 2 - 1", "n * 3 + 1", "max(n, 4) - 1")))
    bounds: index_values.Bounds = {"n": [1, size], "r": [min(low, 0), top], "s": [0, 3]}
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
    return any(find(root, lambda node: node.op is ops.CONST and node.arg < 0))


PROPERTIES = {
    "divisions": divisions_and_sums,
    "expressions": random_expressions,
    "layouts": layouts,
    "symbolic": symbolic_ends,
    "damaged": damaged,
}

if __name__ == "__main__":
    search("simplify", PROPERTIES, __doc__ or "")
