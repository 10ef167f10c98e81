"""Random programs of up to 30 functions: each tensor is what NumPy says, to the last bit.

Values are small whole numbers, so that nothing is rounded. A failing program is printed as the
lines that a person would write.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from hypothesis import given, note, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

import porism
from porism.ir.facts.semantics import Array

MOST_ELEMENTS: Final = 200

Pair = tuple[Any, Array]
"""A tensor and what it should be."""


class Program:
    """Values by name, and the lines that made them."""

    def __init__(self, data: DataObject) -> None:
        self.data = data
        self.values: dict[str, Pair] = {}
        self.lines: list[str] = []

    def draw(self, strategy: Any) -> Any:
        return self.data.draw(strategy)

    def add(self, text: str, tensor: Any, array: Array) -> None:
        if array.size > MOST_ELEMENTS:
            return
        name = f"t{len(self.values)}"
        self.values[name] = (tensor, array)
        self.lines.append(f"{name} = {text}")

    def input(self) -> None:
        shape = tuple(self.draw(st.lists(st.integers(0, 4), max_size=3)))
        kind = self.draw(st.sampled_from(("int32", "float32", "bool")))
        start = self.draw(st.integers(-5, 5))
        array = (np.arange(math.prod(shape)).reshape(shape) * 3 % 11 + start).astype(kind)
        text = f"(porism.arange({array.size}) * 3 % 11 + {start}).reshape({shape}).astype({kind!r})"
        self.add(text, porism.asarray(array), array)

    def pick(self, wanted: Callable[[Array], bool] = lambda _: True) -> str | None:
        found = [name for name, (_, array) in self.values.items() if wanted(array)]
        return self.draw(st.sampled_from(found)) if found else None

    def step(self) -> None:
        self.draw(st.sampled_from(STEPS))(self)


def small(x: Any) -> Any:
    """Keeps numbers whole and exact in every type."""
    return x % 13


def unary(p: Program) -> None:
    name = p.pick(lambda a: a.dtype != bool)
    if name is not None:
        tensor, array = p.values[name]
        function = p.draw(st.sampled_from(("negative", "abs", "sign", "square")))
        result = small(getattr(np, function)(array))
        p.add(f"porism.{function}({name}) % 13", small(getattr(porism, function)(tensor)), result)


def binary(p: Program) -> None:
    first = p.pick(lambda a: a.dtype != bool)
    if first is None:
        return
    shape = p.values[first][1].shape
    second = p.pick(lambda a: a.dtype != bool and goes_with(a.shape, shape))
    if second is None:
        return
    (a, x), (b, y) = p.values[first], p.values[second]
    function = p.draw(st.sampled_from(("add", "subtract", "multiply", "maximum", "minimum")))
    kind = np.float32 if np.float32 in (x.dtype, y.dtype) else np.int32
    result = small(getattr(np, function)(x.astype(kind), y.astype(kind)))
    text = f"porism.{function}({first}, {second}) % 13"
    p.add(text, small(getattr(porism, function)(a, b)), result)


def goes_with(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1], strict=False))


def choice(p: Program) -> None:
    name = p.pick()
    assert name is not None
    tensor, array = p.values[name]
    limit = p.draw(st.integers(-3, 9))
    other = np.asarray(limit).astype(array.dtype)
    text = f"porism.where({name} > {limit}, {name}, {other.item()})"
    result = np.where(array > limit, array, other)
    p.add(text, porism.where(tensor > limit, tensor, other.item()), result)


def reshape(p: Program) -> None:
    name = p.pick()
    assert name is not None
    tensor, array = p.values[name]
    n = array.size
    shapes = [(n,), (1, n), (n, 1), *((d, n // d) for d in range(2, n) if n % d == 0)]
    shape = p.draw(st.sampled_from(shapes))
    p.add(f"{name}.reshape({shape})", tensor.reshape(shape), array.reshape(shape))


def permute(p: Program) -> None:
    name = p.pick()
    assert name is not None
    tensor, array = p.values[name]
    order = tuple(p.draw(st.permutations(range(array.ndim))))
    p.add(f"{name}.permute_dims({order})", tensor.permute_dims(order), array.transpose(order))


def subscript(p: Program) -> None:
    name = p.pick(lambda a: a.ndim > 0)
    if name is None:
        return
    tensor, array = p.values[name]
    ends = st.none() | st.integers(-5, 5)
    steps = st.none() | st.sampled_from((1, 2, 3, -1, -2))
    key = tuple(slice(p.draw(ends), p.draw(ends), p.draw(steps)) for _ in array.shape)
    p.add(f"{name}[{key}]", tensor[key], array[key])


def picked(p: Program) -> None:
    name = p.pick(lambda a: a.ndim > 0 and 0 not in a.shape)
    if name is None:
        return
    tensor, array = p.values[name]
    axis = p.draw(st.integers(0, array.ndim - 1))
    n = array.shape[axis]
    indices = p.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=4))
    text = f"porism.take({name}, porism.asarray({indices}), axis={axis})"
    found = porism.take(tensor, porism.asarray(indices), axis=axis)
    p.add(text, found, np.take(array, indices, axis))


def padded(p: Program) -> None:
    name = p.pick()
    assert name is not None
    tensor, array = p.values[name]
    pairs = tuple((p.draw(st.integers(0, 2)), p.draw(st.integers(0, 2))) for _ in array.shape)
    value = p.draw(st.sampled_from((0, 1)))
    result = np.pad(array, pairs, constant_values=value) if pairs else array
    p.add(f"porism.pad({name}, {pairs}, value={value})", tensor.pad(pairs, value=value), result)


def joined(p: Program) -> None:
    first = p.pick(lambda a: a.ndim > 0)
    if first is None:
        return
    a, x = p.values[first]
    axis = p.draw(st.integers(0, x.ndim - 1))

    def fits(y: Array) -> bool:
        same = y.ndim == x.ndim and y.dtype == x.dtype
        return same and all(
            k == axis or m == n for k, (m, n) in enumerate(zip(x.shape, y.shape, strict=True))
        )

    second = p.pick(fits)
    assert second is not None
    b, y = p.values[second]
    text = f"porism.concat([{first}, {second}], axis={axis})"
    p.add(text, porism.concat([a, b], axis=axis), np.concatenate([x, y], axis))


def rolled(p: Program) -> None:
    name = p.pick(lambda a: a.ndim > 0)
    if name is None:
        return
    tensor, array = p.values[name]
    shift, axis = p.draw(st.integers(-4, 4)), p.draw(st.integers(0, array.ndim - 1))
    p.add(f"{name}.roll({shift}, {axis})", tensor.roll(shift, axis), np.roll(array, shift, axis))


def reduced(p: Program) -> None:
    name = p.pick(lambda a: a.ndim > 0 and a.dtype != bool and 0 not in a.shape)
    if name is None:
        return
    tensor, array = p.values[name]
    axis, keep = p.draw(st.integers(0, array.ndim - 1)), p.draw(st.booleans())
    function = p.draw(st.sampled_from(("sum", "max", "min")))
    result = getattr(np, function)(array, axis=axis, keepdims=keep)
    found = getattr(porism, function)(tensor, axis=axis, keepdims=keep).astype(tensor.dtype)
    text = f"porism.{function}({name}, axis={axis}, keepdims={keep}).astype({name}.dtype)"
    p.add(f"{text} % 13", small(found), small(result.astype(array.dtype)))


def changed(p: Program) -> None:
    name = p.pick(lambda a: a.ndim > 0)
    if name is None:
        return
    tensor, array = p.values[name]
    begin, step = p.draw(st.integers(0, 3)), p.draw(st.sampled_from((1, 2, -1)))
    copy, result = porism.Tensor(tensor.node), array.copy()
    copy[begin::step] = 1
    result[begin::step] = 1
    p.add(f"porism.Tensor({name}.node); it[{begin}::{step}] = 1", copy, result)


def converted(p: Program) -> None:
    name = p.pick()
    assert name is not None
    tensor, array = p.values[name]
    kind = p.draw(st.sampled_from(("int32", "float32", "bool")))
    p.add(f"{name}.astype({kind!r})", tensor.astype(kind), array.astype(kind))


STEPS: Final = (
    unary,
    binary,
    binary,
    choice,
    reshape,
    permute,
    subscript,
    subscript,
    picked,
    padded,
    joined,
    rolled,
    reduced,
    changed,
    converted,
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_programs(data: DataObject) -> None:
    program = Program(data)
    program.input()
    program.input()
    for _ in range(data.draw(st.integers(1, 30))):
        program.step()
    note("\n".join(program.lines))
    name = data.draw(st.sampled_from(list(program.values)))
    for chosen in (name, list(program.values)[-1]):
        tensor, array = program.values[chosen]
        note(f"{chosen} should be {array!r}")
        got = tensor.numpy()
        assert got.dtype == array.dtype
        np.testing.assert_array_equal(got, array)
