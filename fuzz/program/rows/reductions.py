"""Rows of reductions, scans, products of matrices, and of what is put in order."""

from __future__ import annotations

import math
from typing import Any, Final

from fuzz.program.maker import Maker, Ref
from fuzz.program.rows.row import (
    keep,
    row,
)
from fuzz.program.values import RefusedError, Value

# -- reductions and scans --------------------------------------------------------------------------


@row("sum", "summed", weight=4.0)
def total(m: Maker, name: str) -> Any:
    x = m.pick()
    dtype = m.options(dtype=(0.1, lambda: m.choice("int32", "float64", "float32", "int64")))
    if not m[x].exact and "int" in dtype.get("dtype", ""):
        raise RefusedError
    m.call(name, x, axis=m.axes(x), **dtype, **keep(m))


@row("prod", "summed", weight=0.6)
def product(m: Maker, name: str) -> Any:
    x = m.pick()
    m.call(name, x, axis=m.axes(x), **keep(m))


@row("max min amax amin", "moved", weight=0.6)
def extreme(m: Maker, name: str) -> Any:
    x = m.pick("fi", where=lambda v: v.array.size > 0)
    m.call(name, x, axis=m.axes(x), **keep(m))


@row("mean", "near", weight=1.0)
def mean(m: Maker, name: str) -> Any:
    x = m.pick("fi" if m.chance(0.2) else "f", where=lambda v: v.array.size > 0)
    m.call(name, x, axis=m.axes(x), **keep(m))


@row("var std", "near", weight=0.6)
def spread(m: Maker, name: str) -> Any:
    x = m.pick("f", where=lambda v: v.array.size > 0)
    m.call(name, x, axis=m.axes(x), **m.options(correction=(0.3, lambda: 1)), **keep(m))


@row("any all count_nonzero", "moved", jumps=True, weight=0.4)
def tested(m: Maker, name: str) -> Any:
    x = m.pick(exact=True)
    m.call(name, x, axis=m.axes(x), **keep(m))


@row("argmax argmin", "moved", jumps=True, weight=0.7)
def place_of(m: Maker, name: str) -> Any:
    x = m.pick("fi", exact=True, where=lambda v: v.array.size > 0)
    axis = None if not m[x].array.ndim or m.chance(0.2) else m.axis(x)
    m.call(name, x, axis=axis, **keep(m))


@row("logsumexp", "near", weight=0.4)
def logsumexp(m: Maker, name: str) -> Any:
    x = m.pick("f", where=lambda v: v.array.size > 0)
    m.call(name, x, axis=m.axes(x), **keep(m))


@row("norm vector_norm", "near", weight=0.3)
def length(m: Maker, name: str) -> Any:
    x = m.pick("f", where=lambda v: v.array.size > 0)
    orders = (1, 2, math.inf, -math.inf, 3)
    m.call(name, x, axis=m.axes(x), **m.options(ord=(0.6, lambda: m.choice(*orders))), **keep(m))


def _scan_axis(m: Maker, x: Ref) -> dict[str, Any]:
    return {"axis": None if m[x].array.ndim == 1 and m.chance(0.3) else m.axis(x)}


@row("cumulative_sum cumulative_prod", "summed", weight=0.7)
def cumulative(m: Maker, name: str) -> Any:
    x = m.pick("fi", where=lambda v: v.array.ndim > 0)
    m.call(name, x, **_scan_axis(m, x), **m.options(include_initial=(0.4, lambda: True)))


@row("cumsum cumprod", "summed", weight=0.7)
def running(m: Maker, name: str) -> Any:
    x = m.pick("fi", where=lambda v: v.array.ndim > 0)
    m.call(name, x, **_scan_axis(m, x))


@row("cummax cummin", "moved", weight=0.5)
def running_extreme(m: Maker, name: str) -> Any:
    x = m.pick("fi", where=lambda v: v.array.ndim > 0)
    m.call(name, x, **_scan_axis(m, x))


@row("diff", "summed", weight=0.3)
def differences(m: Maker, name: str) -> Any:
    x = m.pick("fi", where=lambda v: v.array.ndim > 0)
    axis = m.axis(x)
    shape = list(m[x].array.shape)
    shape[axis] = m.choice(1, 2)
    options = m.options(
        n=(0.3, lambda: m.choice(0, 2, 3)), append=(0.2, lambda: m.new(m[x].dtype, tuple(shape)))
    )
    m.call(name, x, axis=axis, **options)


@row("isin", "moved", jumps=True, weight=0.3)
def member(m: Maker, name: str) -> Any:
    x = m.pick("fi", exact=True)
    table = m.new(m[x].dtype, (m.choice(1, 5, 40),))
    m.call(name, x, table, **m.options(invert=(0.3, lambda: True)))


# -- linear algebra --------------------------------------------------------------------------------


@row("matmul", "summed", weight=2.5)
def matrix_product(m: Maker, name: str) -> Any:
    x = m.pick("fi", rank=(1, 2, 3, 4))
    *batch, k = m[x].array.shape
    batch = batch[:-1]
    shape = (k,) if m.chance(0.12) else (k, m.size(33))
    if len(shape) == 2 and m.chance(0.3):
        shape = (*(m.choice(1, n) for n in batch), *shape)
    y = m.new(m[x].dtype, shape)
    if m.chance(0.25) and len(shape) == 2 and m[x].array.ndim == 2:
        if m.chance(0.5):
            return m.call(name, m.call("transpose", y), m.call("transpose", x))
        return m.call(name, x, m.call("transpose", x))
    return m.call(name, x, y)


@row("vecdot", "summed", weight=0.3)
def dot_along(m: Maker, name: str) -> Any:
    x = m.pick("fi", where=lambda v: v.array.ndim > 0)
    m.call(name, x, m.new(m[x].dtype, m[x].array.shape), **m.options(
        axis=(0.4, lambda: -m.random.randint(1, m[x].array.ndim))))  # fmt: skip


@row("dot", "summed", weight=0.3)
def dotted(m: Maker, name: str) -> Any:
    x = m.pick("fi", rank=(1, 2))
    k = m[x].array.shape[-1]
    m.call(name, x, m.new(m[x].dtype, (k,) if m.chance(0.5) else (k, m.size(9))))


@row("outer", "rounded", weight=0.3)
def outer(m: Maker, name: str) -> Any:
    x = m.pick("fi", rank=1)
    m.call(name, x, m.new(m[x].dtype, (m.size(20),)))


@row("tensordot", "summed", weight=0.3)
def contracted(m: Maker, name: str) -> Any:
    x = m.pick("fi", rank=(2, 3))
    shape = m[x].array.shape
    count = m.random.randint(0, 2)
    if m.chance(0.5):
        y = m.new(m[x].dtype, (*shape[len(shape) - count :], m.size(6)))
        m.call(name, x, y, axes=count)
    else:
        axis = m.random.randrange(len(shape))
        y = m.new(m[x].dtype, (m.size(6), shape[axis]))
        m.call(name, x, y, axes=([axis], [1]))


@row("linear", "summed", weight=0.5)
def linear(m: Maker, name: str) -> Any:
    x = m.pick("f", rank=(1, 2, 3))
    out = m.size(33)
    weight = m.new(m[x].dtype, (out, m[x].array.shape[-1]))
    m.call(name, x, weight, *((m.new(m[x].dtype, (out,)),) if m.chance(0.6) else ()))


@row("trace", "summed", weight=0.2)
def trace(m: Maker, name: str) -> Any:
    m.call(name, m.pick("fi", rank=(2, 3)), **m.options(offset=(0.4, lambda: m.choice(1, -1))))


EQUATIONS: Final = (
    "ij,jk->ik", "ij,kj->ki", "bij,bjk->bik", "abc,cd->dab", "ij->ji", "ij->j", "ij,ij->",
    "i,j->ij", "bij,bj->bi", "ii->i", "ii->", "abc->cb", "ij,jk,kl->il",
    "bhqd,bhkd->bhqk", "i...,ij->j...",
)  # fmt: skip


@row("einsum", "summed", weight=0.8)
def einsum(m: Maker, name: str) -> Any:
    text = m.choice(*EQUATIONS)
    sizes: dict[str, int] = {}
    operands: list[Ref] = []
    dtype = m.main if m.main != "bool" else "int32"
    for letters in text.split("->")[0].split(","):
        shape = [sizes.setdefault(letter, m.size(9)) for letter in letters.replace("...", "")]
        if "..." in letters and not operands:
            shape.append(m.size(4))

        def fits(v: Value, wanted: list[int] = shape) -> bool:
            return v.array.ndim == len(wanted) and v.dtype == dtype and list(
                v.array.shape) == wanted  # fmt: skip

        old = [k for k, v in enumerate(m.known) if k not in m.dead and fits(v)]
        operands.append(Ref(old[-1]) if old else m.new(dtype, shape))
    m.call(name, text, *operands)


# -- order -----------------------------------------------------------------------------------------


def _sortable(m: Maker) -> Ref:
    return m.pick("fi", exact=True, where=lambda v: v.array.ndim > 0 and v.array.size < 600)


@row("sort argsort", "moved", jumps=True, weight=0.35)
def in_order(m: Maker, name: str) -> Any:
    x = _sortable(m)
    m.call(name, x, axis=m.axis(x), **m.options(descending=(0.4, lambda: True)))


@row("topk", "moved", jumps=True, weight=0.25)
def largest(m: Maker, name: str) -> Any:
    x = _sortable(m)
    axis = m.axis(x)
    size = m[x].array.shape[axis]
    options = m.options(largest=(0.4, lambda: False))
    m.call(name, x, m.random.randint(min(1, size), min(size, 8)), axis=axis, **options,
           part=m.choice(0, 1))  # fmt: skip


@row("searchsorted", "moved", jumps=True, weight=0.2)
def searched(m: Maker, name: str) -> Any:
    x = m.pick("fi", rank=1, exact=True, where=lambda v: v.array.size < 100)
    table = m.call("sort", x)
    m.call(name, table, m.new(m[x].dtype, m.shape(m.choice(1, 2))),
           **m.options(side=(0.5, lambda: "right")))  # fmt: skip


@row("quantile median", "near", jumps=True, weight=0.15)
def middle(m: Maker, name: str) -> Any:
    x = m.pick("f", exact=True, where=lambda v: 0 < v.array.size < 300)
    axis = None if not m[x].array.ndim or m.chance(0.3) else m.axis(x)
    fraction = (m.choice(0.25, 0.5, 0.9),) if name == "quantile" else ()
    m.call(name, x, *fraction, axis=axis, **keep(m))
