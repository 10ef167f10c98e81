"""A row: how calls of a function are drawn; and operands as many functions take them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fuzz.program.maker import SIGNED, Maker, Ref, kind_of
from fuzz.program.values import RefusedError, Value

Draw = Callable[[Maker, str], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A function of the namespace in random programs."""

    draw: Draw
    result: str
    """How it computes: "made" reads no elements, "moved" copies them, "rounded" rounds each once,
    "summed" adds terms up, "near" has a bound of its error."""
    jumps: bool
    """Whether a small change of an operand can change the result much."""
    weight: float
    """How often it is drawn, beside others."""


ROWS: Final[dict[str, Row]] = {}


def row(
    names: str, result: str, *, jumps: bool = False, weight: float = 1.0
) -> Callable[[Draw], Draw]:
    """Make a function the row of these names."""

    def register(draw: Draw) -> Draw:
        for name in names.split():
            assert name not in ROWS, name
            ROWS[name] = Row(draw, result, jumps, weight)
        return draw

    return register


# -- operands --------------------------------------------------------------------------------------


def broadcastable(m: Maker, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that goes with another one: equal, with axes of 1, shorter or longer."""
    sizes = [1 if m.chance(0.25) else n for n in shape]
    if m.chance(0.25):
        sizes = sizes[m.random.randint(0, len(sizes)) :]
    elif m.chance(0.1) and len(sizes) < 4:
        sizes = [m.size(5), *sizes]
    own = ((1,) * len(sizes) + shape)[-len(sizes) :] if sizes else ()
    sizes = [m.size(9) if o == 1 and m.chance(0.2) else n for n, o in zip(sizes, own, strict=True)]
    return tuple(sizes)


def goes_with(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1], strict=False))


def have_common(a: str, b: str) -> bool:
    """Whether two types have a common one."""
    return "uint64" not in (a, b) or not ({a, b} & set(SIGNED))


def beside(m: Maker, x: Ref, *, kinds: str, numbers: bool = True, exact: bool = False) -> Any:
    """An operand that goes with a value: an older value, a new one, or a number."""
    value = m[x]
    if numbers and m.chance(0.3):
        if value.dtype == "bool":
            return m.chance(0.5)
        if kind_of(value.dtype) == "f":
            return m.choice(0, 1, 2, -1, 3, 0.5, 2.0, -1.5)
        return m.choice(0, 1, 2, 3, 5) if value.dtype not in SIGNED else m.choice(1, 2, -1, 7)

    def fits(v: Value) -> bool:
        together = goes_with(v.array.shape, value.array.shape)
        return together and have_common(v.dtype, value.dtype) and v is not value

    if m.chance(0.55):
        return m.pick(kinds, exact=exact, where=fits)
    dtype = value.dtype if m.chance(0.85) and kind_of(value.dtype) in kinds else m.of_kind(kinds)
    if not have_common(dtype, value.dtype):
        dtype = value.dtype
    return m.new(dtype, broadcastable(m, value.array.shape))


def within(m: Maker, x: Ref, low: float, high: float) -> Ref:
    """A value between bounds: as it is, or brought there."""
    array = m[x].array
    if not array.size or (low <= np.min(array) and np.max(array) <= high):
        return x
    if kind_of(m[x].dtype) == "i" or not np.isfinite(array).all():
        raise RefusedError
    if m.chance(0.4):
        return m.call("clip", x, low, high)
    if low >= 0:
        x = m.call("add", m.call("abs", x), 1)
        return x if np.max(m[x].array) <= high else m.call("clip", x, low, high)
    return m.call("multiply", x, 2.0 ** math.floor(math.log2(high / np.max(np.abs(array)))))


def keep(m: Maker) -> dict[str, Any]:
    return m.options(keepdims=(0.3, lambda: True))
