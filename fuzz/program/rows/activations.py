"""Rows of activations, and of other functions of each element."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fuzz.program.maker import Maker, kind_of
from fuzz.program.rows.row import beside, broadcastable, row, within
from fuzz.program.values import RefusedError

RANGES: Final[dict[str, tuple[float, float]]] = {
    "elu selu celu mish logsigmoid tanhshrink hardsigmoid hardswish softsign softshrink": (-40, 40),
    "cbrt deg2rad rad2deg": (-40, 40),
    "sinc": (-8, 8),
    "erfc": (-4, 4),
    "erfinv": (-0.9, 0.9),
    "logit": (0.05, 0.95),
}
DOMAINS: Final = {name: ends for names, ends in RANGES.items() for name in names.split()}
"""From where to where functions of one float are called."""


@row(" ".join(DOMAINS), "near", weight=0.2)
def smooth(m: Maker, name: str) -> Any:
    x = within(m, m.pick("f" if m.chance(0.9) else "fi"), *DOMAINS[name])
    options = {"alpha": m.choice(0.5, 2.0)} if name in ("elu", "celu") and m.chance(0.5) else {}
    m.call(name, x, **options)


@row("relu6", "rounded", weight=0.2)
def limited(m: Maker, name: str) -> Any:
    m.call(name, m.pick("fi"))


@row("hardtanh", "rounded", weight=0.2)
def limited_float(m: Maker, name: str) -> Any:
    m.call(name, m.pick("f"), **m.options(min_val=(0.4, lambda: -2.0), max_val=(0.4, lambda: 3.0)))


@row("hardshrink frac", "rounded", jumps=True, weight=0.2)
def cut(m: Maker, name: str) -> Any:
    options = m.options(lambd=(0.5, lambda: 2.0)) if name == "hardshrink" else {}
    m.call(name, m.pick("f", exact=True), **options)


@row("threshold", "rounded", jumps=True, weight=0.2)
def from_threshold(m: Maker, name: str) -> Any:
    m.call(name, m.pick("f", exact=True), m.choice(0.5, -1.0, 2.0), m.choice(0.0, -3.0))


@row("prelu", "near", weight=0.2)
def with_slope(m: Maker, name: str) -> Any:
    x = m.pick("f", where=lambda v: v.array.ndim > 0)
    shape = m[x].array.shape
    m.call(
        name, x, m.new(m[x].dtype, (shape[1 if len(shape) > 1 else 0],) if m.chance(0.6) else ())
    )


@row("glu", "near", weight=0.2)
def gated(m: Maker, name: str) -> Any:
    x = within(m, m.pick("f", where=lambda v: any(n % 2 == 0 for n in v.array.shape)), -40, 40)
    m.call(name, x, axis=m.choice(*(k for k, n in enumerate(m[x].array.shape) if n % 2 == 0)))


@row("fmax fmin", "rounded", weight=0.3)
def extreme_of_two(m: Maker, name: str) -> Any:
    x = m.pick("fi")
    m.call(name, x, beside(m, x, kinds="fi"))


@row("fmod divmod", "rounded", jumps=True, weight=0.3)
def divided(m: Maker, name: str) -> Any:
    x = m.pick("fi", exact=True, where=lambda v: bool(np.isfinite(v.array).all()))
    part = {"part": m.choice(0, 1)} if name == "divmod" else {}
    if m.chance(0.6):
        m.call(name, x, m.choice(2, 3, 5, 13), **part)
    else:
        low, high = (1, 8) if kind_of(m[x].dtype) == "f" or name == "divmod" else (0, 8)
        y = m.new(m[x].dtype, broadcastable(m, m[x].array.shape), low, high)
        m.call(name, x, y, **part)


@row("heaviside", "moved", jumps=True, weight=0.2)
def step_function(m: Maker, name: str) -> Any:
    x = m.pick("f", exact=True)
    m.call(name, x, m.new(m[x].dtype, broadcastable(m, m[x].array.shape)))


@row("xlogy", "near", weight=0.2)
def product_with_log(m: Maker, name: str) -> Any:
    x = within(m, m.pick("f"), -100, 100)
    m.call(name, x, m.new(m[x].dtype, broadcastable(m, m[x].array.shape), 1, 9))


@row("addcmul addcdiv", "near", weight=0.2)
def of_three(m: Maker, name: str) -> Any:
    x = m.pick("f")
    a = m.new(m[x].dtype, broadcastable(m, m[x].array.shape), 1, 6)
    both = np.broadcast_shapes(m[x].array.shape, m[a].array.shape)
    b = m.new(m[x].dtype, broadcastable(m, both), 1, 6)
    m.call(name, x, a, b, **m.options(value=(0.5, lambda: m.choice(0.5, -2))))


@row("isclose allclose array_equal", "moved", jumps=True, weight=0.2)
def compared_loosely(m: Maker, name: str) -> Any:
    small = lambda v: bool((np.abs(v.array.astype(np.complex128)) < 1000).all())  # noqa: E731
    x = m.pick("fi", exact=True, where=small)
    y = x if m.chance(0.3) else m.new(m[x].dtype, m[x].array.shape, 0, 4)
    m.call(name, x, y, **m.options(equal_nan=(0.4, lambda: True)))


@row("nan_to_num", "moved", weight=0.2)
def without_nan(m: Maker, name: str) -> Any:
    m.call(name, m.pick("fi"), nan=m.choice(0.0, 2.0), posinf=4.0, neginf=-4.0)


@row("isposinf isneginf", "moved", jumps=True, weight=0.1)
def asked_infinite(m: Maker, name: str) -> Any:
    m.call(name, m.pick("f", exact=True))


@row("select", "moved", weight=0.3)
def first_that_holds(m: Maker, name: str) -> Any:
    x = m.pick("fi", exact=True)
    y = m.new(m[x].dtype, m[x].array.shape)
    conditions = [m.call("greater", x, y), m.new("bool", broadcastable(m, m[x].array.shape))]
    m.call(name, conditions, [x, y], **m.options(default=(0.5, lambda: m.choice(1, 3))))


@row("masked_fill", "moved", weight=0.4)
def filled_where(m: Maker, name: str) -> Any:
    x = m.pick("fi")
    shape = m[x].array.shape
    m.call(name, x, m.new("bool", [1 if m.chance(0.2) else n for n in shape]), m.choice(0, 1, 3))


# -- networks --------------------------------------------------------------------------------------


@row("normalize", "near", weight=0.2)
def unit_length(m: Maker, name: str) -> Any:
    x = m.pick("f", where=lambda v: v.array.ndim > 0 and v.array.size > 0)
    m.call(name, x, axis=m.axis(x), **m.options(ord=(0.4, lambda: m.choice(1, 3))))


@row("cosine_similarity", "near", weight=0.2)
def angle(m: Maker, name: str) -> Any:
    x = m.pick("f", where=lambda v: v.array.ndim > 0 and v.array.size > 0)
    m.call(name, x, m.new(m[x].dtype, m[x].array.shape), axis=m.axis(x))


@row("pairwise_distance", "near", weight=0.2)
def distance(m: Maker, name: str) -> Any:
    x = m.pick("f", where=lambda v: v.array.ndim > 0 and v.array.size > 0)
    m.call(name, x, m.new(m[x].dtype, m[x].array.shape), ord=m.choice(1, 2))


@row("smooth_l1_loss kl_div", "near", weight=0.2)
def loss(m: Maker, name: str) -> Any:
    x = within(m, m.pick("f", where=lambda v: v.array.size > 0 and v.array.ndim > 0), -40, 40)
    target = m.new(m[x].dtype, m[x].array.shape, 0, 4)
    reductions = ("sum", "none", "mean", "batchmean")[: 4 if name == "kl_div" else 3]
    options = m.options(reduction=(0.6, lambda: m.choice(*reductions)))
    if name == "smooth_l1_loss":
        options |= m.options(beta=(0.5, lambda: m.choice(0.5, 2.0)))
    m.call(name, x, target, **options)


@row("interpolate", "near", weight=0.3)
def resampled(m: Maker, name: str) -> Any:
    x = m.pick("f", rank=(3, 4), where=lambda v: v.array.size > 0)
    spatial = m[x].array.ndim - 2
    linear = {1: "linear", 2: "bilinear"}[spatial]
    cubic = ("bicubic",) if spatial == 2 else ()
    mode = m.choice("nearest", "nearest-exact", linear, linear, *cubic)
    options: dict[str, Any] = {"mode": mode}
    if mode in (linear, *cubic) and m.chance(0.4):
        options["align_corners"] = True
    if m.chance(0.4):
        options["scale_factor"] = m.choice(2, 3)
    else:
        options["size"] = tuple(m.random.randint(1, 9) for _ in range(spatial))
    m.call(name, x, **options)


@row("embedding", "moved", weight=0.3)
def looked_up(m: Maker, name: str) -> Any:
    table = m.pick("fi", rank=2)
    shape = (m.size(12),) if m.chance(0.7) else (m.size(4), m.size(4))
    rows = m[table].array.shape[0]
    if not rows:
        raise RefusedError
    m.call(name, m.indices(rows, *shape), table)
