"""The fast parser: it gives the graph that the parser gives; light nodes stay in one expression."""

from __future__ import annotations

import random

import pytest

from benchmarks.index_corpus import corpus
from porism.ir import ops
from porism.simplifier.fast_parser import MOST_CHARACTERS, MOST_PENDING, fast_parse
from porism.simplifier.light_nodes import LightNode, LightNodes, to_uops
from porism.simplifier.parser import parse
from porism.simplifier.simplify import simplify
from porism.simplifier.variable_bounds import box
from tests.simplifier import variants
from tests.simplifier.test_parser import MALFORMED, PRECEDENCE, VARIABLES


def fast(text: str) -> object:
    """Return the graph of the fast parser as UOps, or None."""
    result = fast_parse(text, VARIABLES, LightNodes().make)
    return None if result is None else to_uops(result)


@pytest.mark.parametrize("text", PRECEDENCE)
def test_reads_as_the_parser_does(text: str) -> None:
    assert fast(text) in (None, parse(text, VARIABLES))


@pytest.mark.parametrize("text", MALFORMED)
def test_leaves_mistakes_to_the_parser(text: str) -> None:
    assert fast(text) is None


def test_reads_what_compilers_write() -> None:
    for row in corpus(60, seed=3):
        variables = box(row["vars"]).variables
        result = fast_parse(row["expr"], variables, LightNodes().make)
        assert result is not None
        assert to_uops(result) is parse(row["expr"], variables)


def test_random_words_are_read_alike_or_not_at_all() -> None:
    chance = random.Random(5)
    words = ["a", "b", "c", "1", "20", "0", "00", "x", "(", ")", "(", ")", "+", "-", "*", "//", "%"]
    words += ["<", "<=", "==", "and", "or", "if", "else", "not", "min"]
    read = 0
    for _ in range(20_000):
        text = " ".join(chance.choices(words, k=chance.randint(1, 9)))
        result = fast(text)
        if result is not None:
            read += 1
            assert result is parse(text, VARIABLES), text
    assert read > 500


@pytest.mark.parametrize(
    "text",
    [
        f"a + {' ' * MOST_CHARACTERS}b",
        "(" * (MOST_PENDING + 2) + "a" + ")" * (MOST_PENDING + 2),
        "a + " + "9" * 30,
    ],
)
def test_what_is_large_is_left_to_the_parser(text: str) -> None:
    assert fast(text) is None
    assert parse(text, VARIABLES) is not None


def test_the_fingerprint_does_not_depend_on_the_order() -> None:
    chance = random.Random(1)
    for row in corpus(40, seed=11):
        known, parts = box(row["vars"]).variables, LightNodes()
        texts = (row["expr"], variants.swapped(row["expr"], chance))
        one, other = (fast_parse(text, known, parts.make) for text in texts)
        assert one is not None
        assert other is not None
        assert one.order == other.order, texts


def test_no_uop_has_a_light_node_below_it() -> None:
    texts = [
        "a * b * c // (b*c + 9)",
        "max(a, b*c) + (a if a % 4 < b else (b if c < 3 else -a//3))",
    ]
    texts += ["((a if b < 3 else c) * 8 + b % 4) // 4 + (b*8 + (1 if a < 2 else 3)) // 8"]
    texts += ["(a >> 2) + (a & 3)", "a % 4 == 3 and b < c or a < 2", "a" + " * (b + c)" * 12]
    for text in texts:
        simplify(text, dict.fromkeys("abc", (0, 9)), explain=True)
    for op in ops.table():
        for node in (*op.nodes.values(), *op.raw.values()):
            assert not any(isinstance(s, LightNode) for s in node.src), node
