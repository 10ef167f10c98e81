"""Accuracy: functions are within the errors that docs/tensors.md states, in ulp."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import mpmath
import numpy as np
import numpy.typing as npt
import pytest

import porism
from benchmarks.accuracy import errors
from porism.base.dtypes import DType, f32, f64

Array = npt.NDArray[Any]

COUNT: Final = 20_000
"""Samples of each kind of number."""

PAGE: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "tensors.md"

REDUCED: Final = {f32: 2.0**15, f64: 2.0**30}
"""Largest |x| for which the error bounds of `cos` and `tan` hold."""


def documented_bounds() -> Iterator[tuple[str, int]]:
    """Yield (function, ulp) from the rows of the page: | 3 | `log10`, `tanh` (a remark), … |."""
    for bound, names in re.findall(r"^\| (\d) \| (`.*) \|$", PAGE.read_text(), re.MULTILINE):
        for name in re.findall(r"`(\w+)`", names):
            yield name, int(bound)


def erf(x: Array) -> Array:
    """Return erf by a series without cancellation."""
    near = np.minimum(np.abs(x), 7)
    term = total = near
    for n in range(1, 260):
        term = term * 2 * near * near / (2 * n + 1)
        total = total + term
    half_turn = np.arctan2(x.dtype.type(0), x.dtype.type(-1))
    return np.asarray(np.sign(x) * 2 / np.sqrt(half_turn) * np.exp(-near * near) * total)


def softplus(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def by_mpmath(function: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """Return a function of arrays, computed with 40 digits; NaN where it is not a real number."""

    def one(x: Any) -> Any:
        if np.isnan(x) or (function is mpmath.erfinv and abs(x) > 1):
            return np.longdouble("nan")
        with mpmath.workdps(40):
            mantissa, exponent = np.frexp(np.clip(x, -1e4, 1e4))
            exact = mpmath.mpf(int(mantissa * 2**64)) * mpmath.mpf(2) ** (int(exponent) - 64)
            value = function(exact)
            return np.longdouble(
                0 if abs(value) < mpmath.mpf("1e-1000") else mpmath.nstr(value, 30)
            )

    return lambda x: np.array([one(value) for value in x], x.dtype)


REFERENCES: Final[dict[str, Callable[..., Any]]] = {
    **{name: getattr(np, name) for name in ("exp", "log", "log10", "cos", "tan", "hypot")},
    **{name: getattr(np, name) for name in ("expm1", "log1p", "sinh", "cosh", "tanh")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "tan2")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sinh", "cosh", "tanh")},
    "erf": erf,
    "softplus": softplus,
    "sigmoid": sigmoid,
    "cbrt": np.cbrt,
    "erfc": by_mpmath(mpmath.erfc),
    "erfinv": by_mpmath(mpmath.erfinv),
}

EVERY: Final = {"erf": 5, "erfc": 40, "erfinv": 150}
"""Of how many samples one is taken, where the reference is slow."""


def samples(name: str, kind: DType, chance: np.random.Generator) -> Array:
    """Return ordinary numbers, small ones, those next to 1, and random bits."""
    uniform = chance.uniform
    signs = chance.choice([-1.0, 1.0], COUNT)
    far = 1000.0 if kind is f64 else 110.0
    parts = [
        uniform(-1, 1, COUNT),
        uniform(-10, 10, COUNT),
        uniform(-far, far, COUNT),
        signs * np.exp2(uniform(-30, 5, COUNT)),
        signs + np.exp2(uniform(-20, 2, COUNT)),
    ]
    if name in ("cos", "tan"):
        parts += [uniform(-REDUCED[kind], REDUCED[kind], COUNT)]
    else:
        bits = chance.integers(0, 1 << kind.bits, COUNT, dtype=np.uint64)
        parts += [bits.astype(f"uint{kind.bits}").view(kind.numpy)]
    with np.errstate(all="ignore"):
        return np.concatenate([part.astype(kind.numpy) for part in parts])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [f32, f64], ids=str)
@pytest.mark.parametrize(("name", "bound"), list(documented_bounds()))
def test_functions_are_within_the_stated_errors(name: str, bound: int, kind: DType) -> None:
    wide = np.longdouble
    if kind is f64 and np.finfo(wide).nmant <= 52:
        pytest.skip("no wider float to compare with")
    chance = np.random.default_rng(2026)
    arrays = [samples(name, kind, chance)[:: EVERY.get(name, 1)]]
    if name in ("atan2", "hypot"):
        arrays.append(chance.permutation(arrays[0]))
    actual = getattr(porism, name)(*map(porism.asarray, arrays)).numpy()
    with np.errstate(all="ignore"):
        exact = np.asarray(REFERENCES[name](*(array.astype(wide) for array in arrays)))
        error = errors(actual, exact, kind)
    if name == "sigmoid":
        error = np.where(exact < np.finfo(kind.numpy).tiny, 0, error)
    worst = int(np.argmax(error))
    assert error[worst] <= bound, [array[worst] for array in arrays]


def test_the_page_states_something() -> None:
    assert dict(documented_bounds()).keys() == REFERENCES.keys()
