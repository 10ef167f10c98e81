"""Random numbers: the same for a seed, and of the distribution they should be of.

Nothing here is left to chance: seeds are fixed, so a test fails always or never. The bounds are
those that a true distribution passes with 999 of 1000 seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError, TypeMismatch
from porism.ir.facts.semantics import Array
from tests.tensor.oracle import FLOATS, agree, refuses

MANY = 20_000


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    porism.seed(1234)
    yield
    porism.seed(0)


def kolmogorov_smirnov(values: Array, distribution: Callable[[Array], Array]) -> float:
    """Return the Kolmogorov-Smirnov distance of values from a distribution function."""
    expected = distribution(np.sort(values.astype("float64")))
    steps = np.arange(len(values) + 1) / len(values)
    return float(max(np.max(steps[1:] - expected), np.max(expected - steps[:-1])))


def normal_distribution(x: Array) -> Array:
    return np.array([math.erf(v / math.sqrt(2)) for v in x]) / 2 + 0.5


BITS_OF_SEED_0 = [0x6B2001, 5279483, 6596134, 12102596]
"""The first is the known answer 6b200159 of Threefry for zeros, without its last byte."""

# 1.95 / sqrt(n) is passed with a chance of 999 in 1000.
CLOSE = 1.95 / math.sqrt(MANY)


def test_a_seed_determines_everything() -> None:
    first = [porism.rand(5).numpy(), porism.randn(2, 3).numpy(), porism.randint(9, shape=4).numpy()]
    porism.seed(1234)
    again = [porism.rand(5).numpy(), porism.randn(2, 3).numpy(), porism.randint(9, shape=4).numpy()]
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    porism.seed(1235)
    assert not np.array_equal(porism.rand(5).numpy(), first[0])


def test_the_numbers_themselves() -> None:
    # On every machine and in every version: they are the hash of (counter, key).
    porism.seed(0)
    bits = (porism.rand(4).numpy() * 2**24).astype(int).tolist()
    assert bits == BITS_OF_SEED_0


def test_the_counter_advances() -> None:
    whole = porism.rand(10).numpy()
    porism.seed(1234)
    parts = [porism.rand(4), porism.rand(2, 3)]
    # Drawn in this order, computed in the other.
    later, earlier = parts[1].numpy(), parts[0].numpy()
    np.testing.assert_array_equal(np.concatenate([earlier, later.reshape(-1)]), whole)


def test_drawing_again_is_the_same_graph() -> None:
    from porism.engine.run.realize import request

    graphs = {request([porism.rand(3).node]).graph for _ in range(3)}
    assert len(graphs) == 1


@pytest.mark.parametrize("name", FLOATS)
def test_uniform(name: str) -> None:
    x = porism.rand(MANY, dtype=name).numpy().astype("float64")
    assert x.min() >= 0
    assert x.max() < 1
    assert abs(x.mean() - 0.5) < 3.3 * math.sqrt(1 / 12 / MANY) + 2.0**-8 * (name == "bfloat16")
    if name.startswith("float"):
        assert kolmogorov_smirnov(x, lambda v: v) < CLOSE + 2.0**-11 * (name == "float16")


def test_floats_have_all_their_bits() -> None:
    x = porism.rand(1000).numpy()
    whole = x * 2.0**24
    np.testing.assert_array_equal(whole, np.round(whole))
    assert (whole % 2).any()
    wide = porism.rand(1000, dtype="float64").numpy() * 2.0**53
    np.testing.assert_array_equal(wide, np.round(wide))
    assert (wide % 2).any()


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_normal(name: str) -> None:
    x = porism.randn(MANY, dtype=name).numpy().astype("float64")
    assert np.isfinite(x).all()
    assert abs(x.mean()) < 3.3 / math.sqrt(MANY)
    assert abs(x.var() - 1) < 3.3 * math.sqrt(2 / MANY)
    assert abs((x**3).mean()) < 3.3 * math.sqrt(15 / MANY)
    assert abs((x**4).mean() - 3) < 3.3 * math.sqrt(96 / MANY)
    assert kolmogorov_smirnov(x, normal_distribution) < CLOSE


def test_neighbours_are_independent() -> None:
    x = porism.randn(MANY).numpy().astype("float64")
    for distance in (1, 2, 7):
        assert abs((x[distance:] * x[:-distance]).mean()) < 3.3 / math.sqrt(MANY)


def test_uniform_and_normal_with_parameters() -> None:
    x = porism.uniform(-3, 5, (MANY,)).numpy()
    assert x.min() >= -3
    assert x.max() <= 5
    assert kolmogorov_smirnov(x, lambda v: (v + 3) / 8) < CLOSE
    x = porism.normal(10, 2, (MANY,)).numpy()
    assert kolmogorov_smirnov(x, lambda v: normal_distribution((v - 10) / 2)) < CLOSE


@pytest.mark.parametrize(("low", "high"), [(0, 10), (-3, 4), (0, 1), (0, 2**32), (0, 2**40)])
def test_integers(low: int, high: int) -> None:
    x = porism.randint(low, high, (MANY,)).numpy()
    assert x.dtype == np.int64
    assert x.min() >= low
    assert x.max() < high
    if high - low < 100:
        counts = np.bincount(x - low, minlength=high - low)
        share = MANY / (high - low)
        # Chi squared, with a bound far in its tail.
        assert ((counts - share) ** 2 / share).sum() < high - low + 5 * math.sqrt(2 * (high - low))
    else:
        assert kolmogorov_smirnov(x, lambda v: (v - low) / (high - low)) < CLOSE


def test_integers_of_a_type() -> None:
    x = porism.randint(0, 256, (1000,), dtype="uint8").numpy()
    assert x.dtype == np.uint8
    assert len(set(x.tolist())) > 200
    x = porism.randint(-(2**63), 2**63, (100,)).numpy()
    assert (x < 0).any()
    assert (x > 2**62).any()


@pytest.mark.parametrize("size", [0, 1, 2, 17, 64])
def test_permutation(size: int) -> None:
    order = porism.permutation(size)
    assert sorted(order.tolist()) == list(range(size))
    assert order.shape == (size,)


def test_permutations_are_uniform() -> None:
    counts = np.zeros((3, 3))
    for _ in range(90):
        counts[np.arange(3), porism.permutation(3).numpy()] += 1
    assert abs(counts - 30).max() < 3.3 * math.sqrt(90 * 2 / 9)


def test_shuffle() -> None:
    x = np.arange(24).reshape(4, 6)
    actual = porism.shuffle(x, axis=1).numpy()
    assert not np.array_equal(actual, x)
    np.testing.assert_array_equal(np.sort(actual, 1), x)
    np.testing.assert_array_equal(actual - actual[0], x - x[0])  # whole columns


def test_dropout() -> None:
    x = np.full(MANY, 3, "float32")
    actual = porism.dropout(x, 0.25).numpy()
    assert set(actual.tolist()) == {0.0, 4.0}
    assert abs((actual == 0).mean() - 0.25) < 3.3 * math.sqrt(0.25 * 0.75 / MANY)
    agree(porism.dropout(x, 0.25, training=False), x)
    agree(porism.dropout(x, 0), x)
    agree(porism.dropout(np.full(3, np.inf), 1), np.zeros(3))


def test_multinomial_with_replacement() -> None:
    weights = np.array([[1.0, 0.0, 3.0], [2.0, 2.0, 0.0]])
    actual = porism.multinomial(weights, MANY // 10, replacement=True).numpy()
    for row, weight in zip(actual, weights, strict=True):
        shares = np.bincount(row, minlength=3) / len(row)
        assert abs(shares - weight / weight.sum()).max() < 3.3 * math.sqrt(0.25 / len(row))
        assert shares[weight == 0].sum() == 0


def test_multinomial_without_replacement() -> None:
    weights = np.array([1.0, 2.0, 5.0])
    actual = porism.multinomial(np.broadcast_to(weights, (2000, 3)), 3).numpy()
    np.testing.assert_array_equal(np.sort(actual, 1), np.broadcast_to(np.arange(3), (2000, 3)))
    firsts = np.bincount(actual[:, 0], minlength=3) / 2000
    assert abs(firsts - weights / 8).max() < 3.3 * math.sqrt(0.25 / 2000)
    some = porism.multinomial(np.broadcast_to([0.0, 1.0, 0.0, 1.0], (500, 4)), 2).numpy()
    assert set(some.reshape(-1).tolist()) == {1, 3}


def test_shapes() -> None:
    assert porism.rand().shape == ()
    assert porism.rand(2, 3).shape == porism.rand((2, 3)).shape == (2, 3)
    assert porism.randn(0, 3).numpy().shape == (0, 3)


ERRORS: list[tuple[Callable[[], Any], str]] = [
    (lambda: porism.rand(2, -1), "has the size -1"),
    (lambda: porism.randint(5, 5), "randint from 5 to 5 in int64"),
    (lambda: porism.randint(0, 300, dtype="uint8"), "randint from 0 to 300 in uint8"),
    (lambda: porism.normal(0, -1), "normal with std=-1"),
    (lambda: porism.dropout(porism.zeros(2), 1.5), "dropout with p=1.5"),
    (lambda: porism.permutation(-1), "a permutation of -1 numbers"),
    (lambda: porism.seed("today"), "the seed is 'today'"),
    (lambda: porism.shuffle(porism.zeros(3), axis=1), "there is no axis 1"),
    (lambda: porism.multinomial(porism.ones(3), 4), "multinomial of 4 samples from 3 classes"),
    (lambda: porism.multinomial(porism.ones((1, 1, 3)), 1), "multinomial of a tensor of shape"),
]


@pytest.mark.parametrize(("call", "what"), ERRORS, ids=[what for _, what in ERRORS])
def test_errors(call: Callable[[], Any], what: str) -> None:
    with refuses(ShapeError, what):
        call()


def test_types_that_do_not_fit() -> None:
    with refuses(TypeMismatch, "rand of a tensor of int32"):
        porism.rand(2, dtype="int32")
    with refuses(TypeMismatch, "randint of a tensor of float32"):
        porism.randint(3, dtype="float32")
    with refuses(TypeMismatch, "dropout of a tensor of int64"):
        porism.dropout(porism.asarray([1, 2]))


@pytest.mark.parametrize("replacement", [True, False])
def test_weights_that_cannot_be_probabilities(replacement: bool) -> None:
    for weights, why in (
        ([1.0, -1.0, 3.0], "one is negative"),
        ([1.0, np.nan, 3.0], "one is NaN or infinite"),
        ([[1.0, 1.0], [0.0, 0.0]], "all of a row are 0"),
    ):
        with refuses(ShapeError, "multinomial with weights that cannot be probabilities") as caught:
            porism.multinomial(porism.asarray(weights) * 2, 2, replacement=replacement)
        assert caught.value.why == why

    jitted = porism.jit(lambda x: porism.multinomial(x, 2, replacement=replacement))
    rows = [[1.0, -1.0, 3.0], [0.0, 0.0, 0.0], [np.inf, 1.0, 1.0], [1.0, 2.0, 3.0]]
    actual = jitted(porism.asarray(rows)).numpy()
    assert (actual[:3] == -1).all()
    assert (actual[3] >= 0).all()
