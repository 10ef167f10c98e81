"""Rows of functions that move elements."""

from __future__ import annotations

from typing import Any, Final

from fuzz.program.maker import Maker
from fuzz.program.rows.row import (
    broadcastable,
    row,
)
from fuzz.program.values import RefusedError


def _divided(m: Maker, size: int, parts: int) -> list[int]:
    """A size as a product."""
    found = []
    for _ in range(parts - 1):
        divisors = [d for d in range(1, min(size, 64) + 1) if size % d == 0] or [1]
        found.append(m.random.choice(divisors))
        size //= found[-1]
    return [*found, size]


@row("reshape", "moved", weight=2.0)
def reshaped(m: Maker, name: str) -> Any:
    x = m.pick()
    sizes = _divided(m, m[x].array.size, m.random.randint(1, 4))
    m.random.shuffle(sizes)
    if 0 not in sizes and m.chance(0.3):
        sizes[m.random.randrange(len(sizes))] = -1
    m.call(name, x, *((tuple(sizes),) if m.chance(0.7) else sizes))


@row("flatten", "moved", weight=0.3)
def flattened(m: Maker, name: str) -> Any:
    x = m.pick()
    rank = m[x].array.ndim
    first = m.random.randrange(rank) if rank else 0
    last = m.random.randrange(first, rank) if rank else 0
    m.call(name, x, *((first, last) if rank and m.chance(0.7) else ()))


@row("unflatten", "moved", weight=0.3)
def unflattened(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    axis = m.axis(x)
    m.call(name, x, axis, tuple(_divided(m, m[x].array.shape[axis], 2)))


@row("expand_dims unsqueeze", "moved", weight=0.4)
def with_axis(m: Maker, name: str) -> Any:
    x = m.pick()
    rank = m[x].array.ndim
    m.call(name, x, m.random.randint(-rank - 1, rank))


@row("squeeze", "moved", weight=0.4)
def without_axis(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: 1 in v.array.shape)
    ones = [k for k, n in enumerate(m[x].array.shape) if n == 1]
    m.call(name, x, *(() if m.chance(0.3) else (m.random.choice(ones),)))


@row("permute_dims permute", "moved", weight=0.8)
def permuted(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 1)
    order = list(range(m[x].array.ndim))
    m.random.shuffle(order)
    m.call(name, x, *((tuple(order),) if m.chance(0.6) else order))


@row("transpose", "moved", weight=0.8)
def transposed(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 1)
    m.call(name, x, *(() if m.chance(0.4) else (m.axis(x), m.axis(x))))


@row("swapaxes", "moved", weight=0.3)
def swapped(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    m.call(name, x, m.axis(x), m.axis(x))


@row("moveaxis", "moved", weight=0.3)
def moved(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    m.call(name, x, m.axis(x), m.axis(x))


@row("matrix_transpose", "moved", weight=0.4)
def matrix_transposed(m: Maker, name: str) -> Any:
    m.call(name, m.pick(rank=(2, 3, 4)))


@row("flip", "moved", weight=0.6)
def flipped(m: Maker, name: str) -> Any:
    x = m.pick()
    m.call(name, x, *(() if m.chance(0.3) else (m.axes(x),)))


@row("broadcast_to", "moved", weight=0.8)
def broadcast(m: Maker, name: str) -> Any:
    x = m.pick()
    sizes = [m.size(12) if n == 1 else n for n in m[x].array.shape]
    m.call(name, x, (*(m.size(6) for _ in range(m.random.randint(0, 2))), *sizes))


@row("expand", "moved", weight=0.4)
def expanded(m: Maker, name: str) -> Any:
    x = m.pick()
    sizes = [m.size(12) if n == 1 else m.choice(n, -1) for n in m[x].array.shape]
    m.call(name, x, *(m.size(6) for _ in range(m.random.randint(0, 1))), *sizes)


@row("broadcast_arrays", "moved", weight=0.2)
def broadcast_all(m: Maker, name: str) -> Any:
    x = m.pick()
    other = m.new(m[x].dtype, broadcastable(m, m[x].array.shape))
    part = m.choice(0, 1)
    m.call(name, x, other, part=part)


@row("diagonal", "moved", weight=0.3)
def diagonal(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 1)
    rank = m[x].array.ndim
    options = {}
    if m.chance(0.4):
        options["axis1"], options["axis2"] = m.random.sample(range(rank), 2)
    offset = (m.random.randint(-2, 2),) if m.chance(0.5) else ()
    m.call(name, x, *offset, **options)


@row("pixel_shuffle", "moved", weight=0.2)
def shuffled(m: Maker, name: str) -> Any:
    r = m.choice(2, 2, 3)
    shape = (m.size(3), m.random.randint(1, 3) * r * r, m.size(6), m.size(6))
    m.call(name, m.new(m.main, shape[m.choice(0, 1) :]), r)


@row("pixel_unshuffle", "moved", weight=0.2)
def unshuffled(m: Maker, name: str) -> Any:
    r = m.choice(2, 2, 3)
    shape = (m.size(3), m.size(3), m.size(5) * r, m.size(5) * r)
    m.call(name, m.new(m.main, shape[m.choice(0, 1) :]), r)


MODES: Final = ("reflect", "symmetric", "replicate", "edge", "circular", "wrap")


@row("pad", "moved", weight=2.0)
def padded(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    shape = m[x].array.shape
    mode = m.choice("constant", *MODES)
    if mode == "constant":
        pairs = [tuple(m.choice(0, 0, 1, 2, 5, -1) for _ in "ab") for _ in shape]
        if any(sum(-min(p, 0) for p in pair) > n for pair, n in zip(pairs, shape, strict=True)):
            raise RefusedError
        value = m.options(value=(0.5, lambda: m.choice(0, 1, 1, 3)))
        m.call(name, x, m.choice(1, 2) if m.chance(0.15) else tuple(pairs), **value)
        return
    if 0 in shape:
        raise RefusedError
    most = {"reflect": -1, "replicate": 3, "edge": 3}.get(mode, 0)
    pairs = [tuple(m.random.randint(0, max(min(n + most, 4), 0)) for _ in "ab") for n in shape]
    m.call(name, x, tuple(pairs), mode=mode)


@row("repeat", "moved", weight=1.0)
def repeated(m: Maker, name: str) -> Any:
    x = m.pick()
    axis = None if not m[x].array.ndim or m.chance(0.15) else m.axis(x)
    times: Any = m.random.randint(1, 4)
    if axis is not None and m.chance(0.15):
        times = [m.random.randint(0, 3) for _ in range(m[x].array.shape[axis])]
        if not times:
            raise RefusedError
    m.call(name, x, times, axis=axis)


@row("tile", "moved", weight=1.2)
def tiled(m: Maker, name: str) -> Any:
    x = m.pick()
    count = max(m[x].array.ndim + m.choice(0, 0, 1, -1), 1)
    m.call(name, x, tuple(m.choice(1, 1, 2, 2, 3) for _ in range(count)))


@row("unfold", "moved", weight=0.3)
def unfolded(m: Maker, name: str) -> Any:
    x = m.pick(rank=4, where=lambda v: min(v.array.shape[2:], default=0) > 2)
    m.call(name, x, m.choice(1, 2, 3, (2, 1)), **m.options(
        stride=(0.5, lambda: m.choice(1, 2, (2, 1))), padding=(0.5, lambda: m.choice(1, (0, 1))),
        dilation=(0.3, lambda: m.choice(1, 2)) if min(m[x].array.shape[2:]) > 4 else (0, int),
    ))  # fmt: skip
