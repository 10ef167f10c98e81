"""Rows of convolutions and of pooling."""

from __future__ import annotations

from typing import Any

from fuzz.program.maker import Maker, Ref, kind_of
from fuzz.program.rows.row import (
    row,
)
from fuzz.program.values import RefusedError, Value


def _image(m: Maker, spatial: int, least: int, channels: int | None = None) -> Ref:
    """A value with axes for a batch, channels and some more, which are not too small."""

    def fits(v: Value) -> bool:
        *_, found = (0, *v.array.shape[: v.array.ndim - spatial])
        return (
            v.array.ndim in (spatial + 1, spatial + 2)
            and min(v.array.shape[-spatial:]) >= least
            and v.array.size > 0
            and (channels is None or found == channels)
        )

    old = [
        k for k, v in enumerate(m.known)
        if k not in m.dead and kind_of(v.dtype) == "f" and fits(v)
    ]  # fmt: skip
    if old and m.chance(0.8):
        return Ref(old[-1])
    dtype = m.main if kind_of(m.main) == "f" else "float32"
    most = {1: 24, 2: 11, 3: 5}[spatial]
    sizes = [m.random.randint(least, max(most, least)) for _ in range(spatial)]
    batch = (m.random.randint(1, 3),) if m.chance(0.85) else ()
    return m.new(dtype, (*batch, channels or m.random.randint(1, 4), *sizes))


def _per_axis(m: Maker, spatial: int, *values: int) -> Any:
    """A number for all axes, or one for each."""
    if m.chance(0.6):
        return m.choice(*values)
    return tuple(m.choice(*values) for _ in range(spatial))


@row("conv1d conv2d conv3d", "summed", weight=0.7)
def convolution(m: Maker, name: str) -> Any:
    spatial = int(name[-2])
    x = _image(m, spatial, 3)
    channels = m[x].array.shape[-spatial - 1]
    groups = m.choice(*(d for d in (1, 1, 1, 2, channels) if channels % d == 0))
    out = groups * m.random.choice((1, 2, 3, 4, 8))
    taps = [m.random.randint(1, 3) for _ in range(spatial)]
    weight = m.new(m[x].dtype, (out, channels // groups, *taps))
    options = m.options(
        stride=(0.5, lambda: _per_axis(m, spatial, 1, 2, 3)),
        padding=(0.5, lambda: _per_axis(m, spatial, 0, 1, 2, 3)),
        dilation=(0.25, lambda: _per_axis(m, spatial, 1, 2)),
    )
    if m.chance(0.1):
        options = {"padding": m.choice("same", "valid")}
    _need_windows(m, x, taps, options.get("padding", 0), options.get("dilation", 1))
    if groups > 1:
        options["groups"] = groups
    if m.chance(0.3):
        options["bias"] = m.new(m[x].dtype, (out,))
    m.call(name, x, weight, **options)


def _need_windows(m: Maker, x: Ref, taps: Any, padding: Any, dilation: Any = 1) -> None:
    """Refuse windows that are longer than the padded input."""
    spatial = len(taps)
    around = (
        (0 if isinstance(padding, str) else padding,) if not isinstance(padding, tuple) else padding
    )
    for k, n in enumerate(m[x].array.shape[-spatial:]):
        p = around[k % len(around)]
        d = dilation[k] if isinstance(dilation, tuple) else dilation
        if (taps[k] - 1) * d + 1 > n + 2 * p and padding != "same":
            raise RefusedError


@row("conv_transpose1d conv_transpose2d conv_transpose3d", "summed", weight=0.6)
def transposed_convolution(m: Maker, name: str) -> Any:
    spatial = int(name[-2])
    x = _image(m, spatial, 1)
    channels = m[x].array.shape[-spatial - 1]
    groups = m.choice(*(d for d in (1, 1, 1, 2, channels) if channels % d == 0))
    out = m.random.randint(1, 3)
    taps = [m.random.randint(1, 3) for _ in range(spatial)]
    weight = m.new(m[x].dtype, (channels, out, *taps))
    options: dict[str, Any] = {}
    if m.chance(0.6):
        options["stride"] = m.choice(2, 3)
        if m.chance(0.4):
            options["output_padding"] = 1
    if m.chance(0.3) and min(taps) > 1 and min(m[x].array.shape[-spatial:]) > 1:
        options["padding"] = 1
    if m.chance(0.2):
        options["dilation"] = 2
    if groups > 1:
        options["groups"] = groups
    if m.chance(0.3):
        options["bias"] = m.new(m[x].dtype, (out * groups,))
    m.call(name, x, weight, **options)


@row("max_pool1d max_pool2d max_pool3d", "moved", weight=0.35)
def max_pooled(m: Maker, name: str) -> Any:
    spatial = int(name[-2])
    x = _image(m, spatial, 3)
    taps = _per_axis(m, spatial, 2, 3, 2)
    m.call(name, x, taps, **m.options(
        stride=(0.5, lambda: _per_axis(m, spatial, 1, 2, 3)), padding=(0.4, lambda: 1),
        dilation=(0.2, lambda: 1), ceil_mode=(0.3, lambda: True),
    ))  # fmt: skip


@row("avg_pool1d avg_pool2d avg_pool3d", "near", weight=0.35)
def mean_pooled(m: Maker, name: str) -> Any:
    spatial = int(name[-2])
    x = _image(m, spatial, 3)
    taps = _per_axis(m, spatial, 2, 3, 2)
    m.call(name, x, taps, **m.options(
        stride=(0.5, lambda: _per_axis(m, spatial, 1, 2, 3)), padding=(0.4, lambda: 1),
        ceil_mode=(0.3, lambda: True), count_include_pad=(0.3, lambda: False),
    ))  # fmt: skip


@row("adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d", "near", weight=0.2)
@row("adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d", "moved", weight=0.2)
def adaptive(m: Maker, name: str) -> Any:
    spatial = int(name[-2])
    m.call(name, _image(m, spatial, 2), _per_axis(m, spatial, 1, 2, 3, 4))
