"""Arrays: order, histograms, gathers and scatters, joining, statistics, losses, frequencies."""

from __future__ import annotations

import math

from benchmarks.cpu_operations import Array, Program
from benchmarks.cpu_workloads import Workload
from benchmarks.survey_programs.entry import (
    Operations,
    entry,
    normal,
    ordered,
    positive,
    shuffled,
    waves,
    whole,
)


def on_x(run: Program, *shape: int, tolerance: float = 1e-4) -> Workload:
    return entry(run, tolerance, x=normal(*shape))


def parts(count: int, *shape: int, axis: int) -> Workload:
    def run(o: Operations, **inputs: Array) -> Array:
        return o.concat(list(inputs.values()), axis)

    return entry(run, **{f"a{k:03}": normal(*shape) for k in range(count)})


def histogram(o: Operations, x: Array) -> Array:
    """Of 64 bins between -4 and 4."""
    bins = o.cast(o.clip(o.floor((x + 4) * 8), 0, 63), "int64")
    return o.counts(bins, 64)


def messages(o: Operations, x: Array, start: Array, end: Array, w: Array) -> Array:
    """A layer of a graph network: sums of neighbours, then a dense layer."""
    return o.relu(o.add_rows(x * 0, end, o.take(x, start)) @ w + x)


def bags(o: Operations, words: Array, table: Array) -> Array:
    return o.take(table, words).sum(1)


def moving_average(o: Operations, x: Array) -> Array:
    sums = o.running_sum(x, 1)
    return (sums[:, 16:] - sums[:, :-16]) / 16


def scores(o: Operations, x: Array) -> Array:
    centred = x - x.mean(0)
    return centred / o.sqrt((centred * centred).mean(0) + 1e-6)


def scaled(o: Operations, x: Array) -> Array:
    low, high = o.smallest(x, 0), o.largest(x, 0)
    return (x - low) / (high - low)


def correlation(o: Operations, x: Array, y: Array) -> Array:
    a, b = x - x.mean(), y - y.mean()
    return (a * b).sum() / o.sqrt((a * a).sum() * (b * b).sum())


def weighted(o: Operations, x: Array, w: Array) -> Array:
    return (x * w[:, None]).sum(0) / w.sum()


def spread(o: Operations, x: Array) -> Array:
    return o.sqrt(((x - x.mean()) * (x - x.mean())).mean())


def polynomial(o: Operations, x: Array) -> Array:
    result = x * 0.1
    for k in range(8):
        result = result * x + (0.3 - 0.05 * k)
    return result


def choices(o: Operations, x: Array) -> Array:
    x = o.where(x > 0, x, 0.01 * x)
    x = o.where(o.abs(x) < 1, x * x, 2 * o.abs(x) - 1)
    return o.clip(o.where(x > 3, x - 3, x + 0.5), 0.1, 4)


def mish(o: Operations, x: Array) -> Array:
    return x * o.tanh(o.softplus(x))


def black_scholes(o: Operations, price: Array, strike: Array, years: Array) -> Array:
    deviation = 0.2 * o.sqrt(years)
    d1 = (o.log(price / strike) + 0.04 * years) / deviation
    d2 = d1 - deviation
    n1, n2 = o.sigmoid(1.702 * d1), o.sigmoid(1.702 * d2)
    return price * n1 - strike * o.exp(-0.02 * years) * n2


def hashes(o: Operations, x: Array) -> Array:
    for _ in range(3):
        x = x ^ (x << 13)
        x = x ^ (x >> 17)
        x = x ^ (x << 5)
    return x


def quantize(o: Operations, x: Array) -> Array:
    scale = o.largest(o.abs(x), 1, keepdims=True) / 127
    return o.cast(o.clip(o.round(x / scale), -127, 127), "int8")


def digits(o: Operations, x: Array) -> Array:
    return x // 10_000 + x // 100 % 100 + x % 100


def masked_mean(o: Operations, x: Array, lengths: Array) -> Array:
    seen = o.cast(o.numbers(x, x.shape[1], "int64") < lengths[:, None], "float32")
    return (x * seen[..., None]).sum(1) / seen.sum(1)[:, None]


def masked_softmax(o: Operations, x: Array, lengths: Array) -> Array:
    seen = o.numbers(x, x.shape[1], "int64") < lengths[:, None]
    return o.softmax(o.where(seen, x, -1e9))


def binary_entropy(o: Operations, x: Array, y: Array) -> Array:
    return (o.maximum(x, x * 0) - x * y + o.log1p(o.exp(-o.abs(x)))).mean()


def huber(o: Operations, x: Array, y: Array) -> Array:
    d = o.abs(x - y)
    return o.where(d < 1, 0.5 * d * d, d - 0.5).mean()


def divergence(o: Operations, x: Array, y: Array) -> Array:
    p = o.softmax(y)
    return (p * (o.log(p) - o.log_softmax(x))).sum(-1).mean()


def unit_rows(o: Operations, x: Array) -> Array:
    return x / o.sqrt((x * x).sum(1, keepdims=True) + 1e-12)


def residual_norm(o: Operations, x: Array, y: Array, w: Array, b: Array) -> Array:
    return o.layer_norm(x + y, w, b)


def smoothed(o: Operations, x: Array, w: Array) -> Array:
    """A convolution by Fourier transforms."""
    return o.irfft(o.rfft(x) * o.rfft(w))


def clipped_step(o: Operations, w: Array, g: Array, m: Array, v: Array) -> tuple[Array, ...]:
    """A step of Adam."""
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - 0.001 * (m / 0.1) / (o.sqrt(v / 0.001) + 1e-8), m, v


PROGRAMS: dict[str, Workload] = {
    "sort_rows": on_x(lambda o, x: o.sort(x), 2048, 256),
    "sort_100k": on_x(lambda o, x: o.sort(x), 100_000),
    "argsort_rows": on_x(lambda o, x: o.argsort(x), 512, 512, tolerance=0),
    "top_5_of_1000": on_x(lambda o, x: o.top(x, 5), 512, 1000),
    "top_50_of_32000": on_x(lambda o, x: o.top(x, 50), 8, 32_000),
    "median_rows": on_x(lambda o, x: o.median(x), 1024, 255),
    "argmax_32000": on_x(lambda o, x: o.position_of_largest(x, 1), 64, 32_000, tolerance=0),
    "count_values": entry(lambda o, x: o.counts(x, 256), 0, x=whole(256, 1_000_000)),
    "histogram_64": on_x(histogram, 1_000_000, tolerance=1e-3),
    "search_sorted": entry(
        lambda o, edges, x: o.search(edges, x), 0, edges=ordered(1000), x=normal(200_000)
    ),
    "add_rows_100k": entry(
        lambda o, x, rows, y: o.add_rows(x, rows, y), x=normal(10_000, 64),
        rows=whole(10_000, 100_000), y=normal(100_000, 64),
    ),
    "add_numbers_1m": entry(
        lambda o, x, rows, y: o.add_rows(x, rows, y), x=normal(1000), rows=whole(1000, 1_000_000),
        y=normal(1_000_000),
    ),
    "segment_sums": entry(
        lambda o, x, rows, y: o.add_rows(x, rows, y), x=normal(256, 32), rows=whole(256, 20_000),
        y=normal(20_000, 32),
    ),
    "graph_layer": entry(
        messages, x=normal(2000, 64), start=whole(2000, 20_000), end=whole(2000, 20_000),
        w=normal(64, 64, scale=0.1),
    ),
    "embedding_bags": entry(bags, words=whole(50_000, 512, 20), table=normal(50_000, 64)),
    "gather_elements": entry(
        lambda o, x, i: o.take_along(x, i, 1), x=normal(1024, 512), i=whole(512, 1024, 512)
    ),
    "gather_columns": entry(
        lambda o, x, i: o.select(x, i, 1), x=normal(2048, 512), i=whole(512, 256)
    ),
    "shuffle_rows": entry(lambda o, x, i: o.take(x, i), x=normal(20_000, 64), i=shuffled(20_000)),
    "replace_rows": entry(
        lambda o, x, i, y: o.set_rows(x, i, y), x=normal(10_000, 64), i=shuffled(1000),
        y=normal(1000, 64),
    ),
    "concat_64": parts(64, 32, 64, axis=1),
    "concat_8_channels": parts(8, 4, 16, 56, 56, axis=1),
    "concat_100_rows": parts(100, 1000, axis=0),
    "stack_32": entry(
        lambda o, **inputs: o.stack(list(inputs.values()), 1),
        **{f"a{k:03}": normal(64, 256) for k in range(32)},
    ),
    "pad_constant": on_x(lambda o, x: o.pad(x, [(3, 3), (3, 3)], value=1.0), 8, 32, 56, 56),
    "pad_reflect": on_x(lambda o, x: o.pad(x, [(3, 3), (3, 3)], "reflect"), 8, 32, 56, 56),
    "swap_heads": on_x(lambda o, x: o.stored(o.permute(x, (0, 2, 1, 3))), 8, 128, 12, 64),
    "flip_rows": on_x(lambda o, x: o.stored(o.flip(x, 1)), 2048, 1024),
    "roll": on_x(lambda o, x: o.stored(o.roll(x, 17, 1)), 2048, 1024),
    "tile": on_x(lambda o, x: o.tile(x, (4, 4)), 512, 512),
    "every_second": on_x(lambda o, x: o.stored(x[::2, ::2]), 2048, 2048),
    "differences": on_x(lambda o, x: x[:, 1:] - x[:, :-1], 2048, 2048),
    "running_sum_columns": on_x(lambda o, x: o.running_sum(x, 0), 2048, 1024),
    "running_sum_4m": on_x(lambda o, x: o.running_sum(x, 0), 4_000_000, tolerance=1e-3),
    "running_product": entry(lambda o, x: o.running_product(x, 1), x=positive(1024, 128)),
    "running_max": on_x(lambda o, x: o.running_max(x, 1), 2048, 512),
    "moving_average": on_x(moving_average, 512, 4096, tolerance=1e-3),
    "standard_scores": on_x(scores, 10_000, 64),
    "min_max_scaling": on_x(scaled, 10_000, 64),
    "correlation": entry(correlation, x=normal(1_000_000), y=normal(1_000_000), tolerance=0.5),
    "weighted_mean": entry(weighted, x=normal(10_000, 128), w=positive(10_000), tolerance=1e-3),
    "standard_deviation": on_x(spread, 4_000_000),
    "polynomial": on_x(polynomial, 2_000_000),
    "where_clip_chain": on_x(choices, 2_000_000),
    "mish": on_x(mish, 1_000_000),
    "black_scholes": entry(
        black_scholes, price=positive(1_000_000), strike=positive(1_000_000),
        years=positive(1_000_000),
    ),
    "xor_shifts": entry(hashes, 0, x=whole(2**31 - 1, 1_000_000, dtype="int32")),
    "quantize": on_x(quantize, 1024, 1024, tolerance=1e-2),
    "integer_division": entry(digits, 0, x=whole(10**9, 1_000_000, dtype="int32")),
    "masked_mean": entry(masked_mean, x=normal(32, 128, 256), lengths=whole(128, 32, low=10)),
    "masked_softmax": entry(masked_softmax, x=normal(2048, 512), lengths=whole(512, 2048, low=10)),
    "cross_entropy_32000": entry(
        lambda o, x, y: o.cross_entropy(x, y), x=normal(256, 32_000), y=whole(32_000, 256)
    ),
    "cross_entropy_1000": entry(
        lambda o, x, y: o.cross_entropy(x, y), x=normal(256, 1000), y=whole(1000, 256)
    ),
    "softmax_32000": on_x(lambda o, x: o.softmax(x), 128, 32_000),
    "softmax_10": on_x(lambda o, x: o.softmax(x), 100_000, 10),
    "log_softmax_1000": on_x(lambda o, x: o.log_softmax(x), 512, 1000),
    "log_sum_exp": on_x(lambda o, x: o.log_sum_exp(x), 512, 4096),
    "binary_cross_entropy": entry(binary_entropy, x=normal(500_000), y=positive(500_000)),
    "huber": entry(huber, x=normal(1_000_000), y=normal(1_000_000)),
    "divergence": entry(divergence, x=normal(256, 1000), y=normal(256, 1000)),
    "layer_norm_residual": entry(
        residual_norm, x=normal(1024, 768), y=normal(1024, 768), w=normal(768), b=normal(768)
    ),
    "rms_norm": entry(lambda o, x, w: o.rms_norm(x, w), x=normal(512, 4096), w=normal(4096)),
    "unit_rows": on_x(unit_rows, 10_000, 128),
    "adam_step": entry(
        clipped_step, w=normal(1_000_000), g=normal(1_000_000), m=normal(1_000_000),
        v=positive(1_000_000),
    ),
    "fft_1024": entry(lambda o, x: o.fft(x), x=waves(256, 1024)),
    "fft_2d_256": entry(lambda o, x: o.fft2(x), x=waves(256, 256)),
    "rfft_1000": on_x(lambda o, x: o.rfft(x), 128, 1000),
    "fft_convolution": entry(
        smoothed, x=normal(64, 4096), w=normal(4096, scale=1 / math.sqrt(4096))
    ),
    "sum_of_bytes": entry(
        lambda o, x: o.cast(x, "float32").mean((1, 2)), x=whole(256, 64, 256, 256, dtype="uint8")
    ),
}  # fmt: skip
