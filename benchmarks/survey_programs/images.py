"""Images and grids: resizing, filters, stencils, pooling; and normalisations of feature maps."""

from __future__ import annotations

from benchmarks.cpu_operations import Array
from benchmarks.cpu_workloads import Workload
from benchmarks.survey_programs.entry import Operations, entry, normal, positive, whole


def resized(shape: tuple[int, ...], size: tuple[int, int], mode: str) -> Workload:
    return entry(lambda o, x: o.resize(x, size, mode), x=normal(*shape))


def laplacian(o: Operations, x: Array) -> Array:
    return x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]


def jacobi(o: Operations, x: Array) -> Array:
    """Ten steps, with a border of zeros."""
    for _ in range(10):
        inner = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
        x = o.pad(inner, [(1, 1), (1, 1)])
    return x


def heat(o: Operations, x: Array) -> Array:
    c = x[1:-1, 1:-1, 1:-1]
    along = x[2:, 1:-1, 1:-1] + x[:-2, 1:-1, 1:-1] + x[1:-1, 2:, 1:-1] + x[1:-1, :-2, 1:-1]
    return c + 0.1 * (along + x[1:-1, 1:-1, 2:] + x[1:-1, 1:-1, :-2] - 6 * c)


def life(o: Operations, x: Array) -> Array:
    """The next generation of cells on a torus."""
    rows = o.roll(x, 1, 0) + x + o.roll(x, -1, 0)
    around = o.roll(rows, 1, 1) + rows + o.roll(rows, -1, 1) - x
    return o.cast((around == 3) | ((x == 1) & (around == 2)), "int32")


WEIGHTS = (0.0625, 0.25, 0.375, 0.25, 0.0625)


def blur(o: Operations, x: Array) -> Array:
    """Five by five, along rows and then along columns."""
    rows, columns = x.shape[0] - 4, x.shape[1] - 4
    along = sum(w * x[k : k + rows] for k, w in enumerate(WEIGHTS))
    return sum(w * along[:, k : k + columns] for k, w in enumerate(WEIGHTS))


def box(o: Operations, x: Array) -> Array:
    rows, columns = x.shape[0] - 2, x.shape[1] - 2
    parts = [x[i : i + rows, j : j + columns] for i in range(3) for j in range(3)]
    return sum(parts) / 9


def edges(o: Operations, x: Array) -> Array:
    """Sobel's."""
    a, b, c = x[:, :-2] + 0, x[:, 1:-1], x[:, 2:]
    across = (c - a)[:-2] + 2 * (c - a)[1:-1] + (c - a)[2:]
    smooth = a + 2 * b + c
    down = smooth[2:] - smooth[:-2]
    return o.sqrt(across * across + down * down)


def sharper(o: Operations, x: Array) -> Array:
    inner = x[2:-2, 2:-2]
    return o.clip(inner + 1.5 * (inner - blur(o, x)), 0, 1)


def prepared(o: Operations, x: Array, mean: Array, scale: Array) -> Array:
    """From bytes, channels last, to normalised floats, channels first."""
    values = (o.cast(x, "float32") / 255 - mean) * scale
    return o.permute(o.flip(values, 2), (0, 3, 1, 2))


def grey(o: Operations, x: Array, shares: Array) -> Array:
    return (x * shares).sum(-1)


def gamma(o: Operations, x: Array) -> Array:
    return o.exp(o.log(x) * (1 / 2.2))


def batch_statistics(o: Operations, x: Array, scale: Array, offset: Array) -> Array:
    """Batch norm in training."""
    mean = x.mean((0, 2, 3), keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean((0, 2, 3), keepdims=True)
    return centred / o.sqrt(variance + 1e-5) * scale[:, None, None] + offset[:, None, None]


def grouped(groups: int, *shape: int) -> Workload:
    return entry(
        lambda o, x, w, b: o.group_norm(x, groups, w, b),
        x=normal(*shape), w=normal(shape[1]), b=normal(shape[1]),
    )  # fmt: skip


def mandelbrot(o: Operations, x: Array, y: Array) -> Array:
    a, b, count = x * 0, y * 0, x * 0
    for _ in range(20):
        a, b = a * a - b * b + x, 2 * a * b + y
        a, b = o.clip(a, -1e4, 1e4), o.clip(b, -1e4, 1e4)
        count = count + o.where(a * a + b * b < 4, 1.0, 0.0)
    return count


def largest(size: int, stride: int, *shape: int, padding: int = 0) -> Workload:
    return entry(lambda o, x: o.pool_max(x, size, stride, padding), x=normal(*shape))


def mean(size: int, stride: int, *shape: int) -> Workload:
    return entry(lambda o, x: o.pool_mean(x, size, stride), x=normal(*shape))


PROGRAMS: dict[str, Workload] = {
    "resize_nearest_2": resized((4, 32, 64, 64), (128, 128), "nearest"),
    "resize_bilinear_2": resized((4, 32, 64, 64), (128, 128), "bilinear"),
    "resize_bilinear_half": resized((4, 16, 128, 128), (64, 64), "bilinear"),
    "resize_bilinear_odd": resized((1, 3, 480, 640), (224, 299), "bilinear"),
    "stencil_5_points": entry(laplacian, x=normal(2048, 2048)),
    "stencil_9_points": entry(box, x=normal(2048, 2048)),
    "stencil_jacobi_10": entry(jacobi, x=normal(512, 512)),
    "stencil_heat_3d": entry(heat, x=normal(128, 128, 128)),
    "game_of_life": entry(life, 0, x=whole(2, 1024, 1024, dtype="int32")),
    "blur_two_passes": entry(blur, x=normal(1024, 1024)),
    "sobel": entry(edges, x=normal(1024, 1024)),
    "unsharp_mask": entry(sharper, x=positive(1024, 1024)),
    "bytes_to_input": entry(
        prepared, x=whole(256, 8, 224, 224, 3, dtype="uint8"), mean=positive(3), scale=positive(3)
    ),
    "grey": entry(grey, x=positive(1080, 1920, 3), shares=positive(3)),
    "gamma": entry(gamma, x=positive(1080, 1920)),
    "mandelbrot": entry(mandelbrot, x=normal(256, 256), y=normal(256, 256), tolerance=0.02),
    "pool_max_2": largest(2, 2, 8, 64, 56, 56),
    "pool_max_1d": largest(4, 4, 16, 64, 4096),
    "pool_max_3_padded": largest(3, 1, 4, 64, 28, 28, padding=1),
    "pool_mean_3": mean(3, 1, 4, 64, 56, 56),
    "pool_mean_3d": mean(2, 2, 1, 32, 32, 56, 56),
    "pool_global": entry(lambda o, x: o.mean_of_image(x), x=normal(16, 512, 14, 14)),
    "group_norm_32": grouped(32, 8, 64, 56, 56),
    "group_norm_small": grouped(8, 2, 64, 16, 16),
    "instance_norm": grouped(64, 4, 64, 56, 56),
    "batch_norm_training": entry(
        batch_statistics, x=normal(8, 64, 56, 56), scale=normal(64), offset=normal(64)
    ),
    "channels_last": entry(
        lambda o, x: o.stored(o.permute(x, (0, 2, 3, 1))), x=normal(8, 64, 56, 56)
    ),
}  # fmt: skip
