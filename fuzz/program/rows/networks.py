"""Rows of normalization, attention and losses."""

from __future__ import annotations

from typing import Any

from fuzz.program.maker import Maker, Ref
from fuzz.program.rows.row import (
    row,
    within,
)
from fuzz.program.values import RefusedError

# -- normalization and attention -------------------------------------------------------------------


@row("softmax log_softmax", "near", weight=0.8)
def softmax(m: Maker, name: str) -> Any:
    x = m.pick("f", where=lambda v: v.array.ndim > 0 and v.array.size > 0)
    axis = m.axes(x)
    m.call(name, x, **({} if m.chance(0.4) else {"axis": axis}))


@row("layer_norm rms_norm", "near", weight=0.5)
def normalized(m: Maker, name: str) -> Any:
    x = m.pick("f", where=lambda v: v.array.ndim > 0 and v.array.size > 0)
    shape, dtype = m[x].array.shape, m[x].dtype
    if m.chance(0.4):
        m.call(name, x, axis=m.axis(x))
        return
    last = shape[-m.random.randint(1, len(shape)) :]
    options: dict[str, Any] = {"weight": m.new(dtype, last)}
    if name == "layer_norm" and m.chance(0.5):
        options["bias"] = m.new(dtype, last)
    m.call(name, x, **options, **m.options(eps=(0.3, lambda: 0.5)))


def _channels(m: Maker) -> tuple[Ref, int]:
    x = m.pick("f", rank=(2, 3, 4), where=lambda v: v.array.size > 0)
    return x, m[x].array.shape[1]


def _affine(m: Maker, x: Ref, channels: int) -> dict[str, Any]:
    make = lambda: m.new(m[x].dtype, (channels,))  # noqa: E731
    return m.options(weight=(0.4, make), bias=(0.4, make))


@row("batch_norm", "near", weight=0.4)
def batch_normalized(m: Maker, name: str) -> Any:
    x, channels = _channels(m)
    if m.chance(0.5):
        options: dict[str, Any] = {"training": True}
    else:
        options = {
            "running_mean": m.new(m[x].dtype, (channels,)),
            "running_var": m.new(m[x].dtype, (channels,), 1, 6),
        }
    m.call(name, x, **options, **_affine(m, x, channels))


@row("batch_statistics", "near", weight=0.2)
def statistics(m: Maker, name: str) -> Any:
    x, channels = _channels(m)
    if m[x].array.size <= channels:
        raise RefusedError
    mean, variance = (m.new(m[x].dtype, (channels,), 1, 6) for _ in "ab")
    m.call(name, x, mean, variance, *((0.25,) if m.chance(0.5) else ()), part=m.choice(0, 1))


@row("group_norm", "near", weight=0.3)
def group_normalized(m: Maker, name: str) -> Any:
    x, channels = _channels(m)
    groups = m.choice(*(d for d in range(1, channels + 1) if channels % d == 0))
    m.call(name, x, groups, **_affine(m, x, channels))


@row("instance_norm", "near", weight=0.3)
def instance_normalized(m: Maker, name: str) -> Any:
    x = m.pick("f", rank=(3, 4), exact=True, where=lambda v: v.array.size > 0)
    m.call(name, x, **_affine(m, x, m[x].array.shape[1]))


@row("scaled_dot_product_attention", "near", weight=1.0)
def attention(m: Maker, name: str) -> Any:
    query = m.pick("f", rank=(2, 3, 4), where=lambda v: v.array.size > 0)
    *batch, length, features = m[query].array.shape
    dtype, keys = m[query].dtype, max(m.size(30), 1)
    heads = list(batch)
    if batch and m.chance(0.4):
        heads[-1] = m.choice(*(d for d in range(1, batch[-1] + 1) if batch[-1] % d == 0))
    key_ = m.new(dtype, (*heads, keys, features))
    value = m.new(dtype, (*heads, keys, m.choice(features, max(m.size(20), 1))))
    options: dict[str, Any] = m.options(scale=(0.2, lambda: 0.5))
    if m.chance(0.3):
        options["causal"] = True
    elif m.chance(0.3):
        options["mask"] = m.new(dtype, (length, keys))
    elif m.chance(0.2):
        seen = m.call("logical_or", m.new("bool", (length, keys)),
                      m.call("equal", m.call("arange", keys), 0))  # fmt: skip
        options["mask"] = seen
    m.call(name, query, key_, value, **options)


# -- losses ----------------------------------------------------------------------------------------


def _reduction(m: Maker) -> dict[str, Any]:
    return m.options(reduction=(0.5, lambda: m.choice("sum", "none", "mean")))


@row("cross_entropy nll_loss", "near", weight=0.3)
def class_loss(m: Maker, name: str) -> Any:
    x = m.pick("f", rank=(1, 2, 3), where=lambda v: v.array.size > 0)
    shape, dtype = m[x].array.shape, m[x].dtype
    axis = 1 if len(shape) > 1 else 0
    rest = [n for k, n in enumerate(shape) if k != axis]
    options = _reduction(m)
    if m.chance(0.3):
        options["weight"] = m.new(dtype, (shape[axis],), 1, 5)
    if name == "cross_entropy" and m.chance(0.3):
        options["label_smoothing"] = 0.25
    if name == "cross_entropy" and m.chance(0.25):
        target = m.new(dtype, shape, 0, 3)
    else:
        target = m.new("int64", rest, 0, shape[axis])
        if m.chance(0.2):
            options["ignore_index"] = 0
    m.call(name, x, target, **options)


@row("mse_loss l1_loss huber_loss", "near", weight=0.3)
def distance(m: Maker, name: str) -> Any:
    x = m.pick("f", where=lambda v: v.array.size > 0)
    delta = m.options(delta=(0.5, lambda: 2.0)) if name == "huber_loss" else {}
    m.call(name, x, m.new(m[x].dtype, m[x].array.shape), **_reduction(m), **delta)


@row("binary_cross_entropy", "near", weight=0.2)
def binary_loss(m: Maker, name: str) -> Any:
    x = m.pick("f", where=lambda v: v.array.size > 0)
    x = m.call("sigmoid", within(m, x, -6, 6))
    target = m.new(m[x].dtype, m[x].array.shape, 0, 2)
    m.call(name, x, target, **_reduction(m))


@row("binary_cross_entropy_with_logits", "near", weight=0.2)
def logit_loss(m: Maker, name: str) -> Any:
    x = within(m, m.pick("f", where=lambda v: v.array.size > 0), -40, 40)
    make = lambda: m.new(m[x].dtype, m[x].array.shape, 1, 4)  # noqa: E731
    weights = m.options(weight=(0.3, make), pos_weight=(0.3, make))
    m.call(name, x, m.new(m[x].dtype, m[x].array.shape, 0, 2), **_reduction(m), **weights)
