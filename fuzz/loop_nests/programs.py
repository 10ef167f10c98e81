"""Programs: random tensors as users write them, for the stages from the graph to kernels.

What they are made of: joins along several axes, borders of every kind, repetitions before
reductions, prefixes beside reductions, products, windows and gathers, on axes some of which have
size 1. All numbers are whole and so small that sums are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

import porism
from fuzz.loop_nests.choices import Choices
from fuzz.loop_nests.generate import numbers
from porism.base import dtypes
from porism.base.dtypes import DType
from porism.tensor.tensor import Tensor

SIZES: Final = (2, 1, 3, 1, 4, 5, 8, 7, 9, 16, 19)
MOST_ELEMENTS: Final = 1500
MOST_STEPS: Final = 6
LARGEST: Final = 2**20

TYPES: Final = (dtypes.f32, dtypes.i32, dtypes.f64)

BORDERS: Final = ("constant", "edge", "symmetric", "wrap", "reflect")


@dataclass(frozen=True)
class Value:
    """A tensor, and the largest absolute value that it may have."""

    tensor: Tensor
    most: int

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(n for n in self.tensor.shape if isinstance(n, int))


@dataclass
class Program:
    """A program being made."""

    choices: Choices
    dtype: DType
    pool: list[Value] = field(default_factory=list)
    inputs: int = 0
    latest: Value | None = None

    def input(self, shape: tuple[int, ...]) -> Value:
        """A new input; its numbers depend on how many there are."""
        self.inputs += 1
        data = numbers(self.dtype, math.prod(shape), self.inputs, 2).reshape(shape)
        self.pool.append(Value(porism.asarray(data), 2))
        return self.pool[-1]

    def shape(self) -> tuple[int, ...]:
        sizes = [self.choices.one_of(SIZES) for _ in range(1 + self.choices.below(4))]
        while math.prod(sizes) > MOST_ELEMENTS // 4:
            sizes[sizes.index(max(sizes))] //= 2
        return tuple(sizes)

    def step(self) -> None:
        """One more tensor, of those that are there: often of the latest."""
        value = self.latest if self.choices.below(4) else self.choices.one_of(self.pool)
        assert value is not None
        found = self.choices.one_of(STEPS)(self, value)
        if found is not None and math.prod(found.shape) <= MOST_ELEMENTS and found.shape:
            self.pool.append(found)
            self.latest = found

    def axis(self, value: Value) -> int:
        return self.choices.below(len(value.shape))

    def beside(self, shape: tuple[int, ...]) -> Value:
        """A tensor to combine with one of a shape: some of its axes may have size 1."""
        alike = [v for v in self.pool if v.shape == shape]
        if alike and self.choices.below(2):
            return self.choices.one_of(alike)
        return self.input(tuple(1 if self.choices.seldom(3) else n for n in shape))

    # -- steps -------------------------------------------------------------------------------------

    def combined(self, value: Value) -> Value | None:
        other = self.beside(value.shape)
        how = self.choices.below(4)
        if how == 1 and value.most * other.most < LARGEST:
            return Value(value.tensor * other.tensor, value.most * other.most)
        if how == 2:
            return Value(porism.maximum(value.tensor, other.tensor), max(value.most, other.most))
        return Value(value.tensor + other.tensor, value.most + other.most)

    def reduced(self, value: Value) -> Value | None:
        axes = [a for a in range(len(value.shape)) if self.choices.below(2)] or [self.axis(value)]
        count = math.prod(value.shape[a] for a in axes)
        keep = bool(self.choices.below(2))
        if self.choices.below(3) or value.most * count >= LARGEST:
            return Value(porism.max(value.tensor, axis=tuple(axes), keepdims=keep), value.most)
        total = porism.sum(value.tensor, axis=tuple(axes), keepdims=keep, dtype=value.tensor.dtype)
        return Value(total, value.most * count)

    def deviation(self, value: Value) -> Value | None:
        """What is left of a tensor less its largest element along an axis, and its sum."""
        axis = self.axis(value)
        if 2 * value.most * value.shape[axis] >= LARGEST:
            return None
        rest = value.tensor - porism.max(value.tensor, axis=axis, keepdims=True)
        if self.choices.below(2):
            return Value(rest, 2 * value.most)
        total = porism.sum(rest, axis=axis, keepdims=True, dtype=value.tensor.dtype)
        return Value(rest + total, 2 * value.most * (1 + value.shape[axis]))

    def prefix(self, value: Value) -> Value | None:
        axis = self.axis(value)
        if value.most * value.shape[axis] >= LARGEST:
            return None
        initial = bool(self.choices.below(2))
        found = porism.cumulative_sum(
            value.tensor, axis=axis, include_initial=initial, dtype=value.tensor.dtype
        )
        return Value(found, value.most * value.shape[axis])

    def joined(self, value: Value) -> Value | None:
        axis = self.axis(value)
        others = [value.tensor] * (1 + self.choices.below(2))
        most = value.most
        if self.choices.below(2):
            shape = list(value.shape)
            shape[axis] = self.choices.one_of(SIZES)
            new = self.input(tuple(shape))
            others.append(new.tensor)
            most = max(most, new.most)
        return Value(porism.concat([value.tensor, *others], axis=axis), most)

    def padded(self, value: Value) -> Value | None:
        mode = self.choices.one_of(BORDERS)
        widths = []
        for size in value.shape:
            most = 3 if mode in ("constant", "edge") else size if mode != "reflect" else size - 1
            widths.append(tuple(self.choices.below(min(most, 3) + 1) for _ in range(2)))
        return Value(porism.pad(value.tensor, tuple(widths), mode=mode), value.most)

    def repeated(self, value: Value) -> Value | None:
        how = self.choices.below(3)
        if how == 0:
            count = 2 + self.choices.below(2)
            return Value(porism.broadcast_to(value.tensor, (count, *value.shape)), value.most)
        if how == 1:
            times = tuple(1 + self.choices.below(3) for _ in value.shape)
            return Value(porism.tile(value.tensor, times), value.most)
        return Value(porism.repeat(value.tensor, 2, axis=self.axis(value)), value.most)

    def reordered(self, value: Value) -> Value | None:
        how = self.choices.below(5)
        x, shape = value.tensor, value.shape
        if how == 0:
            return Value(
                porism.permute_dims(x, self.choices.shuffled(range(len(shape)))), value.most
            )
        if how == 1:
            return Value(porism.flip(x, axis=self.axis(value)), value.most)
        if how == 2:
            return Value(
                porism.roll(x, 1 + self.choices.below(2), axis=self.axis(value)), value.most
            )
        if how == 3:
            total = math.prod(shape)
            sizes = [n for n in range(1, total + 1) if total % n == 0]
            first = self.choices.one_of(sizes)
            second = self.choices.one_of([n for n in sizes if total // first % n == 0])
            return Value(porism.reshape(x, (first, second, total // first // second)), value.most)
        return Value(porism.expand_dims(x, axis=self.choices.below(len(shape) + 1)), value.most)

    def part(self, value: Value) -> Value | None:
        """A slice, which may be strided or backwards."""
        found = []
        for size in value.shape:
            step = self.choices.one_of((1, 1, 2, -1))
            begin = self.choices.below(size)
            found.append(slice(begin, None, step) if step > 0 else slice(None, None, step))
        return Value(value.tensor[tuple(found)], value.most)

    def gathered(self, value: Value) -> Value | None:
        axis = self.axis(value)
        count = self.choices.one_of(SIZES)
        rows = numbers(dtypes.i64, count, self.inputs, value.shape[axis] - 1)
        return Value(porism.take(value.tensor, porism.asarray(np.abs(rows)), axis=axis), value.most)

    def product(self, value: Value) -> Value | None:
        if len(value.shape) < 2:
            return None
        k = value.shape[-1]
        other = self.input((k, self.choices.one_of(SIZES)))
        most = value.most * other.most * k
        return Value(value.tensor @ other.tensor, most) if most < LARGEST else None

    def window(self, value: Value) -> Value | None:
        """A convolution with one window."""
        if len(value.shape) != 4 or value.tensor.dtype == porism.int32:
            return None
        _, channels, height, width = value.shape
        h, w = 1 + self.choices.below(3), 1 + self.choices.below(3)
        before = self.choices.below(2), self.choices.below(3)
        if height + 2 * before[0] < h or width + 2 * before[1] < w:
            return None
        kernel = self.input((1 + self.choices.below(3), channels, h, w))
        most = value.most * 2 * channels * h * w
        if most >= LARGEST:
            return None
        stride = 1 + self.choices.below(2)
        found = porism.conv2d(value.tensor, kernel.tensor, padding=before, stride=stride)
        return Value(found, most)


STEPS: Final = (
    Program.combined, Program.reduced, Program.deviation, Program.prefix, Program.joined,
    Program.joined, Program.padded, Program.repeated, Program.reordered, Program.part,
    Program.gathered, Program.product, Program.window,
)  # fmt: skip


def program(choices: Choices) -> Tensor:
    """The result of a random program."""
    made = Program(choices, choices.one_of(TYPES))
    first = made.input(made.shape())
    made.latest = Value(first.tensor + first.tensor, 2 * first.most)
    for _ in range(1 + choices.below(MOST_STEPS)):
        made.step()
    return made.latest.tensor
