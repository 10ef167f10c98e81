"""Sorting against NumPy: NaN last, equal values in their order, every type and length."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError, TypeMismatch
from porism.ir.facts.semantics import Array
from tests.tensor.oracle import FLOATS, TYPES, agree, draw, refuses
from tests.tiers import quick_if


def with_ties(name: str, shape: tuple[int, ...]) -> Array:
    """Return few distinct values; of floats also NaN, infinities and both zeros."""
    x = draw(name, shape, scale=1.0)
    if name in FLOATS:
        x = np.round(x.astype("float64"))
        chance = np.random.default_rng(1).random(shape)
        for k, value in enumerate((np.nan, np.inf, -np.inf, -0.0)):
            x = np.where((chance > k / 8) & (chance < k / 8 + 0.06), value, x)
        x = x.astype(draw(name, ()).dtype)
    return x


def comparable(x: Array) -> Array:
    """Return values in a type that NumPy sorts with NaN last, which ml_dtypes does not."""
    return x.astype("float64") if x.dtype == ml_dtypes.bfloat16 else x


SOME_TYPES: Final = ("bool", "int8", "bfloat16", "float64")
LENGTHS: Final = (
    *((0,), (1,), (2,), (3,), (8,), (33,), (64,), (130,)),
    *((3, 65), (20, 70), (17, 200), (2, 700), (3000,)),
)


@pytest.mark.parametrize("name", quick_if(lambda name: name in SOME_TYPES, TYPES))
def test_types(name: str) -> None:
    x = with_ties(name, (3, 21))
    agree(porism.sort(x), np.sort(comparable(x)), name)
    agree(porism.argsort(x), np.argsort(comparable(x), kind="stable"))


@pytest.mark.parametrize("shape", quick_if(lambda s: prod(s) < 50 or s == (3000,), LENGTHS))
def test_lengths(shape: tuple[int, ...]) -> None:
    x = draw("float32", shape)
    agree(porism.sort(x), np.sort(x))
    agree(porism.argsort(x), np.argsort(x, kind="stable"))


@pytest.mark.parametrize(
    "name",
    quick_if(lambda name: name in (*SOME_TYPES, "float8_e4m3fn"),
             [*TYPES, "float8_e4m3fn", "float8_e5m2"]),
)  # fmt: skip
def test_what_rows_are_padded_by_comes_last(name: str) -> None:
    """Also after the last value in descending order, in types without an infinity."""
    dtype = getattr(porism, name).numpy
    x = np.array([[3, 0, 2], [1, 1, 0]]).astype(dtype)
    order = [[0, 2, 1], [0, 1, 2]]
    assert porism.argsort(x, descending=True).tolist() == order
    found = porism.sort(x, descending=True).numpy()
    np.testing.assert_array_equal(found, np.take_along_axis(x, np.array(order), 1))
    assert porism.topk(x, 2)[1].tolist() == [row[:2] for row in order]


def test_a_sort_has_few_kernels() -> None:
    counts = {
        shape: len(porism.kernels(porism.sort(draw("float32", shape))))
        for shape in ((64, 64), (64, 1000), (1 << 14,))
    }
    assert counts == {(64, 64): 1, (64, 1000): 10, (1 << 14,): 19}
    for rows in (4, 64):
        assert len(porism.kernels(*porism.topk(draw("float32", (rows, 1000)), 5))) <= 7


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_axes(axis: int) -> None:
    x = with_ties("int32", (4, 5, 3))
    agree(porism.sort(x, axis), np.sort(x, axis))
    agree(porism.argsort(x, axis), np.argsort(x, axis, kind="stable"))


@pytest.mark.parametrize(
    "name",
    quick_if(lambda name: name in ("uint8", "float32"), ["uint8", "int64", "float32", "float64"]),
)
def test_descending(name: str) -> None:
    x = with_ties(name, (3, 13))
    agree(porism.sort(x, descending=True), np.sort(x)[:, ::-1])
    # Equal values stay in their order, so this is not the ascending order backwards.
    backwards = np.argsort(x[:, ::-1], kind="stable")
    agree(porism.argsort(x, descending=True), (12 - backwards)[:, ::-1])


@pytest.mark.parametrize("name", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_the_limits_of_integers(name: str) -> None:
    limits = np.iinfo(name)
    x = np.array([limits.max, 0, limits.min, limits.max, 1], name)
    agree(porism.sort(x), np.sort(x))
    agree(porism.argsort(x), np.argsort(x, kind="stable"))
    order = [0, 3, 4, 1, 2]
    agree(porism.argsort(x, descending=True), np.array(order))
    agree(porism.topk(x, 3).values, x[order[:3]])


@pytest.mark.parametrize(
    "name", quick_if(lambda name: name == "float16", ["int64", "float16", "float64"])
)
@pytest.mark.parametrize("largest", [True, False])
def test_topk(largest: bool, name: str) -> None:
    x = with_ties(name, (3, 11))
    actual = porism.topk(x, 4, largest=largest)
    order = porism.argsort(x, descending=largest).numpy()[:, :4]
    agree(actual.indices, order)
    agree(actual.values, np.take_along_axis(x, order, 1))
    along = porism.topk(x, 2, axis=0, largest=largest).values
    agree(along, porism.sort(x, 0, descending=largest).numpy()[:2])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "count"),
    [((50,), 50), ((2, 65), 7), ((3, 259), 4), ((1030,), 1), ((1001,), 100)],
)
@pytest.mark.parametrize(
    ("name", "largest"), [("float32", True), ("float64", False), ("uint8", True), ("uint64", False)]
)
def test_topk_algorithms(name: str, largest: bool, shape: tuple[int, ...], count: int) -> None:
    """Ranking, sorting, and blocks, some of them partial, agree with a stable sort."""
    x = with_ties(name, shape)
    actual = porism.topk(x, count, largest=largest)
    order = np.argsort(x[..., ::-1] if largest else x, kind="stable")
    order = (shape[-1] - 1 - order)[..., ::-1] if largest else order
    agree(actual.indices, order[..., :count])
    agree(actual.values, np.take_along_axis(x, order[..., :count], -1))


def test_topk_of_equal_values() -> None:
    for x in (np.zeros(1000, "int32"), np.full(999, np.nan, "float32")):
        for largest in (True, False):
            agree(porism.topk(x, 5, largest=largest).indices, np.arange(5))


def test_a_small_k_needs_no_sort() -> None:
    many = draw("float32", (1 << 20,))
    assert len(porism.kernels(porism.topk(many, 5).values)) < 60  # a sort has more than 200


def test_topk_of_none_and_of_all() -> None:
    x = draw("float32", (2, 3))
    agree(porism.topk(x, 0).values, np.zeros((2, 0), "float32"))
    agree(porism.topk(x, 3).values, np.sort(x)[:, ::-1])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 8, 9])
def test_searchsorted(size: int, side: Any) -> None:
    table = np.sort(draw("float32", (size,)))
    values = np.concatenate([table, table + 0.1, [-9.0, 9.0, np.nan, np.inf]]).astype("float32")
    agree(porism.searchsorted(table, values, side=side), np.searchsorted(table, values, side))


def test_searchsorted_among_equals_in_any_shape() -> None:
    table, values = np.array([1, 2, 2, 2, 5]), np.array([[2, 0], [5, 6]], "int32")
    for side in ("left", "right"):
        actual = porism.searchsorted(table, values, side=side)
        agree(actual, np.searchsorted(table, values, side))
    mixed = np.array([5, 1, 3])
    agree(porism.searchsorted(mixed, values, sorter=np.argsort(mixed)), np.array([[1, 0], [2, 3]]))


def test_searchsorted_of_a_number() -> None:
    """A Python number has the type of the table, so large ones of uint64 are found."""
    table = porism.asarray([0, 2**63, 2**64 - 1], dtype="uint64")
    assert porism.searchsorted(table, 2**63 + 1).item() == 2
    assert porism.searchsorted([1, 2, 3], 2.5).item() == 2


@pytest.mark.parametrize("q", [0, 0.25, 0.5, 0.9, 1])
def test_quantile(q: float) -> None:
    x = draw("float64", (4, 7))
    agree(porism.quantile(x, q), np.quantile(x, q))
    agree(porism.quantile(x, q, axis=0), np.quantile(x, q, axis=0))
    agree(porism.quantile(x, q, axis=1, keepdims=True), np.quantile(x, q, axis=1, keepdims=True))


def test_median() -> None:
    x = draw("float32", (3, 6))
    agree(porism.median(x, axis=1), np.median(x, axis=1))
    agree(porism.median(x, keepdims=True), np.median(x, keepdims=True))
    agree(porism.median(np.array([3, 1, 2])), np.float32(2))
    x[1, 2] = np.nan
    assert np.isnan(porism.median(x, axis=1).numpy()).tolist() == [False, True, False]


ERRORS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: porism.sort(x, axis=2), "there is no axis 2"),
    (lambda x: porism.sort(x[0, 0]), "a tensor of 0 axes"),
    (lambda x: porism.topk(x, 4), "topk of 4 values along an axis of 3"),
    (lambda x: porism.topk(x, -1), "topk of -1 values"),
    (lambda x: porism.searchsorted(x, x), "searchsorted in a tensor of shape (2, 3)"),
    (lambda x: porism.searchsorted(x[0], x, side="middle"), "with side='middle'"),
    (lambda x: porism.quantile(x, 1.5), "quantile of the fraction 1.5"),
    (lambda x: porism.median(x[:0]), "quantile of a tensor of shape (0,)"),
]


@pytest.mark.parametrize(("call", "what"), ERRORS, ids=[what for _, what in ERRORS])
def test_errors(call: Callable[[Any], Any], what: str) -> None:
    x = porism.zeros((2, 3))
    with refuses(ShapeError, what):
        call(x)


@pytest.mark.parametrize("q", [[[0.1, 0.2]], np.array([[0.5]]), ((0.5,),)])
def test_rows_of_fractions_are_refused(q: Any) -> None:
    for function in (porism.quantile, porism.nanquantile, porism.percentile):
        with refuses(ShapeError, "several rows of fractions"):
            function(np.ones(3), q)


def test_bools_have_no_quantile() -> None:
    with refuses(TypeMismatch, "quantile of a tensor of bool"):
        porism.quantile(np.ones(3, bool), 0.5)
