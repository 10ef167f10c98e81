"""Rows of functions that choose elements, put them somewhere, or join tensors."""

from __future__ import annotations

from typing import Any

from fuzz.program.maker import INTEGERS, Maker, Ref
from fuzz.program.rows.row import (
    row,
)
from fuzz.program.steps import Call, on_arrays
from fuzz.program.values import RefusedError, Value

# -- indexing and joining --------------------------------------------------------------------------


def key(m: Maker, sizes: tuple[int, ...]) -> Any:
    """A subscript: ints, slices, an ellipsis, new axes, and at most one tensor of indices."""
    parts: list[Any] = []
    tensors = m.chance(0.3)
    for n in sizes[: m.random.randint(1, len(sizes))]:
        chance = m.random.random()
        if n and chance < 0.2:
            parts.append(m.random.randrange(-n, n))
        elif tensors and n and chance < 0.5:
            size = m.random.randint(1, 6)
            if m.chance(0.3):
                parts.append([m.random.randrange(-n, n) for _ in range(size)])
            else:
                shape = (size,) if m.chance(0.8) else (2, 3)
                parts.append(m.indices(n, *shape, outside=False))
            tensors = False
        elif chance < 0.6:
            parts.append(slice(None))
        else:
            ends = [None if m.chance(0.4) else m.random.randint(-n, n) for _ in "ab"]
            parts.append(slice(ends[0], ends[1], m.choice(None, None, 1, 2, 3, -1, -2)))
    if m.chance(0.15):
        parts.insert(m.random.randint(0, len(parts)), None)
    if m.chance(0.1):
        parts.append(...)
    return tuple(parts) if len(parts) > 1 or m.chance(0.3) else parts[0]


@row("getitem", "moved", weight=3.0)
def subscript(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    m.call(name, x, key(m, m[x].array.shape))


@row("setitem", "moved", weight=1.2)
def assigned(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    if m.chance(0.15) and m[x].exact:
        mask = m.new("bool", m[x].array.shape)
        m.call(name, x, mask, m.choice(0, 1))
        return
    place = key(m, m[x].array.shape)
    with_numbers = [v.array for v in m.known]
    part = on_arrays(Call("getitem", (x, place)), with_numbers).shape
    if m.chance(0.3):
        m.call(name, x, place, m.choice(0, 1, 3) if m[x].dtype != "bool" else True)
        return
    sizes = [1 if m.chance(0.2) else n for n in part][m.choice(0, 0, 0, 1) if part else 0 :]
    m.call(name, x, place, m.new(m[x].dtype, sizes))


@row("assign", "moved", weight=0.3)
def replaced(m: Maker, name: str) -> Any:
    """A whole tensor gets the value of another one, or a number."""
    x = m.pick("fi")
    sizes = [1 if m.chance(0.2) else n for n in m[x].array.shape]
    m.call(name, x, m.choice(0, 3) if m.chance(0.3) else m.new(m[x].dtype, sizes))


@row("take", "moved", weight=0.8)
def taken(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0 and v.array.size > 0)
    axis = None if m.chance(0.1) else m.axis(x)
    size = m[x].array.size if axis is None else m[x].array.shape[axis]
    shape = (m.size(12),) if m.chance(0.8) else (m.size(4), m.size(4))
    m.call(name, x, m.indices(size, *shape), axis=axis)


@row("index_select", "moved", weight=0.3)
def selected(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    axis = m.axis(x)
    m.call(name, x, axis, m.indices(m[x].array.shape[axis], m.size(12)))


@row("take_along_axis", "moved", weight=0.5)
def taken_along(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    axis, shape = m.axis(x), list(m[x].array.shape)
    size, shape[axis] = shape[axis], m.size(9)
    m.call(name, x, m.indices(size, *shape), axis=axis)


@row("gather", "moved", weight=0.5)
def gathered(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    axis, shape = m.axis(x), [m.random.randint(min(n, 1), n) for n in m[x].array.shape]
    size, shape[axis] = m[x].array.shape[axis], m.size(9)
    m.call(name, x, axis, m.indices(size, *shape))


@row("concat", "moved", weight=2.0)
def joined(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    shape, dtype = m[x].array.shape, m[x].dtype
    axis = m.axis(x)
    parts = [x]
    for _ in range(m.random.randint(1, 2)):
        if m.chance(0.4):
            parts.append(x)
            continue

        def fits(v: Value) -> bool:
            return (
                v.dtype == dtype
                and v.array.ndim == len(shape)
                and all(
                    k == axis % len(shape) or a == b
                    for k, (a, b) in enumerate(zip(v.array.shape, shape, strict=True))
                )
            )

        old = [k for k, v in enumerate(m.known) if k not in m.dead and fits(v)]
        if m.chance(0.5):
            parts.append(Ref(m.random.choice(old)))
        else:
            sizes = list(shape)
            sizes[axis] = m.size(8)
            parts.append(m.new(dtype, sizes))
    m.random.shuffle(parts)
    m.call(name, parts, axis=None if m.chance(0.05) else axis)


@row("stack", "moved", weight=0.8)
def stacked(m: Maker, name: str) -> Any:
    x = m.pick()
    rank = m[x].array.ndim
    same = [
        k for k, v in enumerate(m.known)
        if k not in m.dead and v.dtype == m[x].dtype and v.array.shape == m[x].array.shape
    ]  # fmt: skip
    parts = [x, *(Ref(m.random.choice(same)) for _ in range(m.random.randint(0, 2)))]
    if m.chance(0.5):
        parts.append(m.new(m[x].dtype, m[x].array.shape))
    m.call(name, parts, axis=m.random.randint(-rank - 1, rank))


@row("split", "moved", weight=0.3)
def split(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    axis = m.axis(x)
    size = m[x].array.shape[axis]
    if m.chance(0.5):
        each = m.random.randint(1, max(size, 1))
        parts = max(-(-size // each), 1)
        m.call(name, x, each, axis=axis, part=m.random.randrange(parts))
    else:
        first = m.random.randint(0, size)
        m.call(name, x, [first, size - first], axis=axis, part=m.choice(0, 1))


@row("chunk", "moved", weight=0.3)
def chunked(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    m.call(name, x, m.random.randint(1, 4), axis=m.axis(x), part=0)


@row("unstack", "moved", weight=0.3)
def unstacked(m: Maker, name: str) -> Any:
    x = m.pick(where=lambda v: v.array.ndim > 0)
    axis = m.axis(x)
    if not m[x].array.shape[axis]:
        raise RefusedError
    m.call(name, x, axis=axis, part=m.random.randrange(m[x].array.shape[axis]))


@row("roll", "moved", weight=0.7)
def rolled(m: Maker, name: str) -> Any:
    x = m.pick()
    if not m[x].array.ndim or m.chance(0.15):
        m.call(name, x, m.random.randint(-9, 9))
        return
    if m[x].array.ndim > 1 and m.chance(0.3):
        axes = tuple(m.random.sample(range(m[x].array.ndim), 2))
        m.call(name, x, tuple(m.random.randint(-9, 9) for _ in axes), axis=axes)
        return
    m.call(name, x, m.random.randint(-9, 9), axis=m.axis(x))


@row("meshgrid", "moved", weight=0.2)
def grid(m: Maker, name: str) -> Any:
    x = m.pick(rank=1)
    parts = [x, *(m.new(m[x].dtype, (m.size(7),)) for _ in range(m.random.randint(0, 2)))]
    m.call(name, *parts, **m.options(indexing=(0.5, lambda: "ij")),
           part=m.random.randrange(len(parts)))  # fmt: skip


# -- scatter ---------------------------------------------------------------------------------------


@row("scatter scatter_add scatter_min scatter_max", "summed", weight=0.4)
def scattered(m: Maker, name: str) -> Any:
    x = m.pick("fi", where=lambda v: v.array.ndim > 0 and v.array.size < 1000)
    axis = m.axis(x)
    shape = [m.random.randint(min(n, 1), n) for n in m[x].array.shape]
    shape[axis] = m.size(9)
    index = m.indices(m[x].array.shape[axis], *shape)
    source = m.new(m[x].dtype, shape)
    options = {}
    if name == "scatter":
        options = m.options(reduce=(0.5, lambda: m.choice("add", "multiply", "min", "max")))
    m.call(name, x, axis, index, source, **options)


@row("index_add", "summed", weight=0.4)
def index_added(m: Maker, name: str) -> Any:
    x = m.pick("fi", where=lambda v: v.array.ndim > 0 and v.array.size < 1000)
    axis, shape = m.axis(x), list(m[x].array.shape)
    size, shape[axis] = shape[axis], m.size(9)
    index = m.indices(size, shape[axis])
    m.call(name, x, axis, index, m.new(m[x].dtype, shape), **m.options(alpha=(0.3, lambda: 2)))


@row("bincount", "summed", weight=0.3)
def binned(m: Maker, name: str) -> Any:
    size = m.size(30)
    x = m.new(m.choice(*INTEGERS), (size,), 0, 12)
    weights = m.options(weights=(0.4, lambda: m.new(m.of_kind("fi"), (size,))))
    m.call(name, x, **weights, length=m.random.randint(0, 15))
