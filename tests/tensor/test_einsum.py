"""Einsum against NumPy's, and the offsets at which its errors point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import porism
from porism.base.errors import ParseError, TypeMismatch
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.traversal import toposort
from tests.tensor.oracle import agree, draw, refuses

SUMS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    (" i j , j k -> k i ", [(2, 3), (3, 4)]),
    ("ba", [(2, 3)]),
    ("ij->", [(2, 3)]),
    ("ij->j", [(2, 3)]),
    ("ii", [(3, 3)]),
    ("ii->i", [(3, 3)]),
    ("iij->j", [(3, 3, 2)]),
    ("iii->i", [(3, 3, 3)]),
    ("ijij->ij", [(2, 3, 2, 3)]),
    ("i,j->ij", [(2,), (3,)]),
    ("i,i", [(4,), (4,)]),
    ("...ij,...jk", [(5, 2, 3), (3, 4)]),
    ("...ij,...jk->...ik", [(5, 1, 2, 3), (6, 3, 4)]),
    ("...", [(2, 3)]),
    ("b...i,i->...b", [(2, 3, 4), (4,)]),
    ("i...->...", [(2, 3, 4)]),
    ("ij,ij->ij", [(2, 1), (2, 3)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
    ("ijj,jk,kk->i", [(2, 3, 3), (3, 4), (4, 4)]),
    ("ij,kj,lj->ikl", [(2, 3), (4, 3), (2, 3)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("i,ij,j->", [(3,), (3, 4), (4,)]),
    ("ij,k->", [(2, 3), (4,)]),
    (",i->i", [(), (3,)]),
    ("->", [()]),
    ("ij,jk->ik", [(2, 0), (0, 3)]),
]


@pytest.mark.parametrize(("text", "shapes"), SUMS, ids=[text for text, _ in SUMS])
def test_einsum(text: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [draw("float64", sizes, seed=k) for k, sizes in enumerate(shapes)]
    agree(porism.einsum(text, *arrays), np.einsum(text, *arrays))


@st.composite
def equations(draw_: st.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    """Draw up to three terms of up to three axes, and a result of some of the letters."""
    sizes = dict(
        zip("abcd", draw_(st.lists(st.integers(0, 3), min_size=4, max_size=4)), strict=True)
    )
    letters = st.text("abcd", max_size=3)
    terms = draw_(st.lists(letters, min_size=1, max_size=3))
    used = sorted(set("".join(terms)))
    kept = draw_(st.lists(st.sampled_from(used), unique=True)) if used else []
    text = ",".join(terms) + "->" + "".join(kept)
    return text, [tuple(sizes[letter] for letter in term) for term in terms]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(equations())
def test_random_equations(asked: tuple[str, list[tuple[int, ...]]]) -> None:
    text, shapes = asked
    arrays = [draw("int64", sizes, seed=k) for k, sizes in enumerate(shapes)]
    agree(porism.einsum(text, *arrays), np.einsum(text, *arrays))


def test_half_precision_stays_in_single_between_the_products() -> None:
    a = np.full(4, 200, "float16")
    agree(porism.einsum("i,i,i->i", a, a, a / 4000), np.full(4, 2000, "float16"))


def test_the_smaller_product_comes_first() -> None:
    graph = porism.einsum(
        "ij,jk,kl->il", porism.zeros((100, 100)), porism.zeros((100, 100)), porism.zeros((100, 1))
    )
    largest = max(
        int(np.prod([dim.arg for dim in shape(node)]))
        for node in toposort(graph.node)
        if node.op is ops.MUL
    )
    assert largest == 100 * 100


ERRORS: list[tuple[str, list[tuple[int, ...]], str, int]] = [
    ("ij,j!k", [(2, 3), (3, 4)], "'!' in the subscripts of an einsum", 5),
    ("ij,jk->i->k", [(2, 3), (3, 4)], "'-' in the subscripts of an einsum", 9),
    ("i.j", [(2, 3)], "'.' in the subscripts", 2),
    ("...i...", [(2, 3)], "a second '...' in one term", 5),
    ("ij,jk->iz", [(2, 3), (3, 4)], "the result of an einsum has the axis 'z'", 9),
    ("ij->ii", [(2, 3)], "the axis 'i' comes twice in the result", 6),
    ("ij", [(2, 3), (3, 4)], "einsum of 2 operands with subscripts for 1", 3),
    ("ij,jk,kl", [(2, 3), (3, 4)], "einsum of 2 operands with subscripts for 3", 7),
    ("ij,j", [(2, 3), (3, 4)], "operand 1 of an einsum has 2 axes, and subscripts for 1", 5),
    ("ijk", [(2, 3)], "operand 0 of an einsum has 2 axes, and subscripts for 3", 3),
    ("ij,jk", [(2, 3), (4, 5)], "the axis 'j' of an einsum has the size 4 here, and 3 before", 4),
    ("...i,...i", [(2, 3), (4, 3)], "the axis '...' of an einsum has the size 4 here", 6),
    ("...i->i", [(2, 3)], "the result has no '...'", 8),
]


@pytest.mark.parametrize(
    ("text", "shapes", "what", "column"), ERRORS, ids=[text for text, *_ in ERRORS]
)
def test_errors(text: str, shapes: list[tuple[int, ...]], what: str, column: int) -> None:
    tensors = [porism.zeros(sizes) for sizes in shapes]
    with refuses(ParseError, what) as caught:
        porism.einsum(text, *tensors)
    assert caught.value.column == column


def test_the_caret_is_below_the_offending_character() -> None:
    with pytest.raises(ParseError) as caught:
        porism.einsum("ij,j!k", porism.zeros((2, 3)), porism.zeros((3, 4)))
    assert "ij,j!k\n    ^" in str(caught.value.where)


def test_the_equation_is_the_first_argument() -> None:
    with refuses(TypeMismatch, "einsum(Tensor(lazy, shape=(3,), dtype=float32), …) of 1 tensors"):
        porism.einsum(porism.zeros(3), "i")
