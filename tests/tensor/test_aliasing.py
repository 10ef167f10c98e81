"""Aliasing: random programs of views, assignments and jitted functions with state, beside NumPy.

Whatever shares memory underneath, a tensor has the value that it was given last, and what was made
of an old value keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import porism

Array = npt.NDArray[np.int64]

ROWS, COLUMNS = 4, 6
N: Final = porism.Variable("n", 1, ROWS)


@dataclass(eq=False)
class Pair:
    """A tensor, and what NumPy has for it."""

    tensor: Any
    array: Array


def shifted(x: Any) -> Any:
    return porism.concat([x[1:], x[:1]])


DERIVED: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "sum": (lambda a, b: a + b, lambda a, b: a + b),
    "product": (lambda a, b: a * b % 11, lambda a, b: a * b % 11),
    "larger": (porism.maximum, np.maximum),
    "backwards": (lambda a, _: a.flip(0), lambda a, _: a[::-1]),
    "shifted": (lambda a, _: shifted(a), lambda a, _: np.roll(a, -1, 0)),
    "turned": (lambda a, _: a.T.reshape(ROWS, COLUMNS), lambda a, _: a.T.reshape(ROWS, COLUMNS)),
    "totals": (lambda a, b: a + b.sum(0), lambda a, b: a + b.sum(0)),
    "the same": (lambda a, _: a[:], lambda a, _: a),
    "a copy": (lambda a, _: porism.asarray(a, copy=True), lambda a, _: a),
}

PARTS: Final = (slice(None), 0, slice(1, 3), slice(None, None, 2), (slice(None), slice(2, 5)))


def read(x: Any, w: Any, v: Any) -> Any:
    return x + w * 2 - v


def folded(x: Any, w: Any, v: Any) -> Any:
    return x @ (w.T @ v % 7) % 101


def counted(x: Any, w: Any, v: Any) -> Any:
    w.assign((w + x) % 101)
    return w * 1 + v


def written(x: Any, w: Any, v: Any) -> Any:
    w[1:3] = x[:2]
    return w + v


def argument(x: Any, w: Any, v: Any) -> Any:
    x[0] = w[1]
    return x * 2 + v


def swapped(x: Any, w: Any, v: Any) -> Any:
    old = w + 0
    w.assign(v)
    v.assign(old)
    return x + w


def given(_x: Any, w: Any, _v: Any) -> Any:
    return w


FUNCTIONS: Final = (read, folded, counted, written, argument, swapped, given)


class Assigned(np.ndarray[Any, np.dtype[np.int64]]):
    """An array that has `assign`, as tensors have."""

    def assign(self, value: Any) -> None:
        self[...] = np.array(value)


def model(function: Callable[..., Any], *pairs: Pair) -> Array:
    """A function on the arrays of pairs, which it may assign to."""
    arrays = {id(pair): pair.array.copy().view(Assigned) for pair in pairs}
    result = np.array(function(*(arrays[id(pair)] for pair in pairs)))
    for pair in pairs:
        pair.array = np.array(arrays[id(pair)])
    return result


class Programs(RuleBasedStateMachine):
    """Tensors and jitted functions, and the same with NumPy."""

    pairs = Bundle("pairs")
    functions = Bundle("functions")

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Pair] = []
        self.seen: list[tuple[Array, Array]] = []

    def pair(self, tensor: Any, array: Array) -> Pair:
        self.all.append(Pair(tensor, np.array(array)))
        return self.all[-1]

    def some(self, seed: int) -> Pair:
        values = np.random.default_rng(seed).integers(-9, 9, (ROWS, COLUMNS))
        return self.pair(porism.asarray(values), values)

    @initialize(target=pairs)
    def first(self) -> Pair:
        return self.some(1)

    @rule(target=pairs, seed=st.integers(0, 5))
    def new(self, seed: int) -> Pair:
        return self.some(seed)

    @rule(target=pairs, a=pairs, b=pairs, name=st.sampled_from(sorted(DERIVED)))
    def derive(self, a: Pair, b: Pair, name: str) -> Pair:
        of_tensors, of_arrays = DERIVED[name]
        return self.pair(of_tensors(a.tensor, b.tensor) % 101, of_arrays(a.array, b.array) % 101)

    @rule(target=pairs, a=pairs)
    def part(self, a: Pair) -> Pair:
        """A view that is not changed by arithmetic."""
        return self.pair(a.tensor.flip(0), a.array[::-1])

    @rule(a=pairs)
    def realize(self, a: Pair) -> None:
        a.tensor.realize()

    @rule(a=pairs)
    def look(self, a: Pair) -> None:
        values = a.tensor.numpy()
        np.testing.assert_array_equal(values, a.array)
        self.seen.append((values, values.copy()))

    @rule(a=pairs)
    def hand_out(self, a: Pair) -> None:
        values: Any = np.from_dlpack(a.tensor, copy=False)
        np.testing.assert_array_equal(values, a.array)
        self.seen.append((values, values.copy()))

    @rule(target=pairs, seed=st.integers(0, 5))
    def take_in(self, seed: int) -> Pair:
        """A tensor on every second row of an array, which no assignment may change."""
        values = np.random.default_rng(seed).integers(-9, 9, (2 * ROWS, COLUMNS))
        self.seen.append((values, values.copy()))
        return self.pair(porism.from_dlpack(values[::2], copy=False), values[::2])

    @rule(a=pairs, b=pairs, part=st.sampled_from(PARTS))
    def write(self, a: Pair, b: Pair, part: Any) -> None:
        new = b.array[part].copy()
        a.tensor[part] = b.tensor[part]
        a.array[part] = new

    @rule(a=pairs, part=st.sampled_from(PARTS), number=st.integers(-5, 5))
    def fill(self, a: Pair, part: Any, number: int) -> None:
        a.tensor[part] = number
        a.array[part] = number

    @rule(a=pairs, b=pairs)
    def assign(self, a: Pair, b: Pair) -> None:
        a.tensor.assign(b.tensor)
        a.array = b.array.copy()

    @rule(target=functions, w=pairs, v=pairs, function=st.sampled_from(FUNCTIONS))
    def jitted(self, w: Pair, v: Pair, function: Callable[..., Any]) -> Any:
        if w is v:
            v = self.some(3)
        inner = porism.jit(lambda x: function(x, w.tensor, v.tensor))
        return inner, function, w, v

    @rule(target=pairs, made=functions, x=pairs)
    def call(self, made: Any, x: Pair) -> Pair:
        jitted, function, w, v = made
        if x is w or x is v:
            x = self.pair(x.tensor + 0, x.array)
        result = jitted(x.tensor)
        return self.pair(result, model(function, x, w, v))

    @rule(a=pairs, size=st.integers(1, ROWS))
    def symbolic(self, a: Pair, size: int) -> None:
        result = (a.tensor[: N.bind(size)] * 2).sum(0).numpy()
        np.testing.assert_array_equal(result, (a.array[:size] * 2).sum(0))

    @invariant()
    def arrays_that_were_given_stay(self) -> None:
        for values, copy in self.seen:
            np.testing.assert_array_equal(values, copy)

    def teardown(self) -> None:
        for pair in self.all:
            np.testing.assert_array_equal(pair.tensor.numpy(), pair.array)


def test_random_programs() -> None:
    run_state_machine_as_test(
        Programs,
        settings=settings(
            max_examples=15,
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


WITHOUT_EFFECT = (
    "+x", "x.reshape(3, 4)", "x.astype(x.dtype)", "porism.squeeze(x, axis=())", "x.permute(0, 1)",
    "porism.flip(x, axis=())", "porism.repeat(x, 1, axis=0)", "porism.tile(x, 1)", "x[...]",
    "porism.roll(x, 0, 0)", "porism.broadcast_to(x, (3, 4))", "porism.moveaxis(x, 0, 0)",
    "porism.concat([x])", "porism.pad(x, 0)", "porism.diff(x, n=0)", "x[:, :]", "x.flatten(0, 0)",
    "porism.broadcast_arrays(x)[0]", "porism.split(x, 3)[0]", "porism.atleast_1d(x)",
    "porism.atleast_2d(x)", "porism.atleast_3d(x[None])[0]", "porism.rot90(x, 0)",
    "porism.rot90(x, 4)", "porism.conj(x)", "porism.real(x)", "porism.einsum('ij', x)",
    "porism.tril(x, 9)", "porism.vstack([x])", "porism.hsplit(x, 1)[0]", "porism.where(True, x, x)",
    "porism.fft.fftshift(x, axes=())", "porism.array_split(x, 1)[0]", "x.clone()", "x.detach()",
    "porism.asarray(x, copy=True)", "porism.tensor(x)", "porism.stop_gradient(x)", "x.ravel()",
    "porism.jit(lambda a: a)(x)", "porism.cumulative_prod(x[:, :1], axis=1)",
    "porism.cumulative_prod(x[None], axis=0)[0]", "porism.prod(x[None], axis=0)",
    "porism.swapaxes(x, 0, 0)", "porism.sum(x, axis=())", "x.T.T",
)  # fmt: skip
"""Calls that have nothing to do, or little."""

FOR_REAL_NUMBERS = (
    "porism.interpolate(x[None], 4)[0]", "porism.interpolate(x[None], scale_factor=1)[0]",
    "porism.dropout(x, 0.0)", "porism.clip(x)", "porism.max(x, axis=())", "porism.cumsum(x, 0)",
    "porism.nan_to_num(x)", "porism.masked_fill(x, x != x, 0)", "porism.positive(x)",
    "porism.choose(x.astype('int64') * 0, [x])", "porism.adaptive_avg_pool1d(x[None], 4)[0]",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_results_are_tensors_of_their_own(dtype: str) -> None:
    """Assigning to the operand changes no result, and the other way round."""
    for call in WITHOUT_EFFECT + (FOR_REAL_NUMBERS if dtype == "float32" else ()):
        for first in (0, 1):
            x = porism.asarray(np.arange(12.0).reshape(3, 4), dtype=dtype)
            result = eval(call, {"porism": porism, "x": x})
            pair = (x, result)
            kept = pair[1 - first].tolist()
            pair[first][0] = 99
            assert pair[1 - first].tolist() == kept, call
