"""Fast math: each of its rules is reached by a program, and by none while it is off."""

from __future__ import annotations

import doctest
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.engine.cache.kernel_cache import compile_environment
from porism.engine.run.realize import request
from porism.pipeline import schedule_graph, watched
from porism.rewrite.rewrite_trace import Trace
from porism.rewrite.rule import Rewrite
from porism.rules.algebra.fast_math_rules import FAST_MATH
from porism.rules.reductions.reduction_rules import FAST_REDUCTIONS
from porism.tensor.tensor import Tensor

PAGE = Path(__file__).parents[2] / "docs" / "fast_math.md"
RULES = (*FAST_MATH, *FAST_REDUCTIONS)


def values(*dims: int, seed: int = 0) -> Tensor:
    actual: Tensor = porism.asarray(np.random.default_rng(seed).uniform(0.5, 2, dims).astype("f"))
    return actual


X, Y, Z, M = values(6), values(6, seed=1), values(6, seed=2), values(4, 6)
PLACES = porism.asarray([1, 3, 2])
BELOW = porism.arange(9)[:, None] < porism.asarray([0, 3, 9, 1, 2, 4])

PROGRAMS: dict[str, Callable[[], Tensor]] = {
    "fast-add-zero": lambda: X + 0.0,
    "fast-mul-zero": lambda: X * 0.0,
    "fast-div-self": lambda: X / X,
    "fast-div-product": lambda: (X * Y) / Y,
    "fast-add-same": lambda: X + X,
    "fast-add-chain": lambda: (X + 2.7) + 1.3,
    "fast-mul-chain": lambda: (X * 2.7) * 1.3,
    "fast-add-multiples": lambda: X * 2.7 + X * 1.3,
    "fast-sub-add": lambda: (X - 2.7) + 1.3,
    "fast-add-sub": lambda: (X + 2.7) - 1.3,
    "fast-sub-sub": lambda: (X - 2.7) - 1.3,
    "fast-sub-of-sub": lambda: X - (Y - Z),
    # sums whose terms do not depend on the loop, under a condition, one-hot times table, and both
    "fast-reduce-collapse": lambda: porism.broadcast_to(X, (7, 6)).sum(0),
    "fast-reduce-collapse: condition": lambda: porism.where(BELOW, X, 0.0).sum(0),
    "fast-reduce-collapse: one-hot": lambda: one_hot() @ M,
    "fast-reduce-collapse: distributed": lambda: (BELOW * X + Y).sum(0),
    "fast-reduce-factor": lambda: (M * X[:4, None]).sum(1),
    "fast-reduce-nested": lambda: M.sum(1).sum(0),
}


def one_hot() -> Tensor:
    actual: Tensor = porism.one_hot(PLACES, 4).astype("float32")
    return actual


def fired(program: Callable[[], Tensor]) -> set[str]:
    """The rules that are applied while a program is scheduled."""
    trace = Trace()
    with watched(lambda *_: None, trace):
        schedule_graph(request([program().node]).graph, cached=False)
    return set(trace.counts())


def test_every_rule_has_a_program() -> None:
    assert {name.partition(":")[0] for name in PROGRAMS} == {item.name for item in RULES}


@pytest.mark.parametrize("item", RULES, ids=lambda item: item.name)
def test_a_rule_that_changes_results_says_what(item: Rewrite) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"`{item.name}`" in text
    assert not item.fast_math or item.fast_math in " ".join(text.split())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_rule_fires_only_with_fast_math(name: str) -> None:
    program, rule = PROGRAMS[name], name.partition(":")[0]
    fast = {item.name for item in RULES}
    assert fired(program).isdisjoint(fast)
    exact = program().numpy()
    with porism.fast_math():
        assert rule in fired(program)
        np.testing.assert_allclose(program().numpy(), exact, rtol=1e-5, atol=1e-6)


def test_without_it_results_are_those_of_ieee_754() -> None:
    special = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, -3.5], "f")
    x = porism.asarray(special)
    with np.errstate(all="ignore"):
        programs: list[tuple[Callable[[], Tensor], np.ndarray[Any, Any]]] = [
            (lambda: x * 0.0, special * np.float32(0)),
            (lambda: x + 0.0, special + np.float32(0)),
            (lambda: x / x, special / special),
        ]
    for program, expected in programs:
        with porism.fast_math():
            program().numpy()  # what is computed here is not taken below
        actual = program().numpy()
        np.testing.assert_array_equal(actual, expected)
        signs = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(actual)[signs], np.signbit(expected)[signs])


def test_the_same_graph_has_a_value_for_each_way() -> None:
    x = porism.asarray([porism.inf, 1.0])
    kept = (x * 0.0).node  # so that its values are found again
    with porism.fast_math():
        fast = x * 0.0
        np.testing.assert_array_equal(fast.numpy(), [0, 0])
    exact = x * 0.0
    assert exact.node is kept
    np.testing.assert_array_equal(exact.numpy(), [np.nan, 0])
    with porism.fast_math():
        with porism.fast_math(False):
            np.testing.assert_array_equal((x / x).numpy(), [np.nan, 1])
        np.testing.assert_array_equal((x / x + 0.0).numpy(), [1, 1])
    np.testing.assert_array_equal(fast.numpy(), [0, 0])


def test_jit_traces_for_each_way() -> None:
    @porism.jit
    def zero(x: Tensor) -> Tensor:
        return x * 0.0

    x = porism.asarray([porism.inf, 1.0]).realize()
    for _ in range(3):
        np.testing.assert_array_equal(zero(x).numpy(), [np.nan, 0])
        with porism.fast_math():
            np.testing.assert_array_equal(zero(x).numpy(), [0, 0])
    assert zero.traces == 2


@pytest.mark.parametrize("on", [True, False])
def test_jit_has_its_own_way(on: bool) -> None:
    zero = porism.jit(_zero, fast_math=on)
    copy = pickle.loads(pickle.dumps(zero))
    assert copy.fast_math is on
    x = porism.asarray([porism.inf, 1.0]).realize()
    expected = [0, 0] if on else [np.nan, 0]
    for setting in (False, True, False):
        with porism.fast_math(setting):
            np.testing.assert_array_equal(zero(x).numpy(), expected)
            np.testing.assert_array_equal(copy(x).numpy(), expected)
    np.testing.assert_array_equal(zero(x).numpy(), expected)
    np.testing.assert_array_equal(zero(x).numpy(), expected)  # the fast path
    assert zero.traces == 1


def _zero(x: Tensor) -> Tensor:
    return x * 0.0


def test_what_is_kept_on_disk_is_told_apart() -> None:
    exact = compile_environment()
    with settings.override(fast_math=True):
        assert compile_environment() != exact or exact is None


def test_the_setting() -> None:
    code = "import porism; x = porism.asarray([porism.inf]); print((x * 0.0).tolist())"
    for value, expected in (("1", "[0.0]"), ("0", "[nan]")):
        environment = {**os.environ, "PORISM_FAST_MATH": value}
        actual = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )
        assert actual.stdout.strip() == expected, actual.stderr


def test_it_is_a_switch() -> None:
    with pytest.raises(PorismError, match="it is a switch"), porism.fast_math("yes"):
        pass
    with pytest.raises(PorismError, match="it is a switch"):
        porism.jit(_zero, fast_math="yes")


@pytest.mark.parametrize(
    "name",
    [
        "exp",
        "expm1",
        "log",
        "log1p",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "atanh",
        "sin",
        "cos",
        "tan",
        "atan",
        "erf",
        "sigmoid",
        "silu",
        "softplus",
        "gelu",
        "softmax",
        "log_softmax",
        "logsumexp",
        "var",
        "std",
    ],
)
def test_functions_are_as_accurate_as_without(name: str) -> None:
    """Rules that reassociate must not undo what a function does for its last digits."""
    x = porism.asarray(np.array([1e-7, -1e-7, 1e-3, 0.3, -0.7, 0.99], "f")).realize()
    exact = getattr(porism, name)(x).numpy()
    with porism.fast_math():
        actual = getattr(porism, name)(x).numpy()
    np.testing.assert_allclose(actual, exact, rtol=1e-6)


def test_the_page_runs() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


def test_numbers_that_change_stay_numbers() -> None:
    """Without fast math the second graph of this form would read its number from memory."""
    x = porism.asarray([1.0, porism.inf])
    with porism.fast_math():
        assert (x * 2.0).tolist() == [2.0, porism.inf]
        assert (x * 0.0).tolist() == [0.0, 0.0]
        assert (x * 3.0).tolist() == [3.0, porism.inf]
