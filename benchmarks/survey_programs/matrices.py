"""Matrix products of all types and shapes, contractions, and what is made of them."""

from __future__ import annotations

from benchmarks.cpu_operations import Array, Program
from benchmarks.cpu_workloads import Workload
from benchmarks.survey_programs.entry import Operations, entry, normal, shuffled, whole


def product(*sizes: int, dtype: str = "float32", tolerance: float = 1e-4) -> Workload:
    *batch, m, k, n = sizes
    return entry(
        lambda o, a, b: a @ b, tolerance,
        a=normal(*batch, m, k, dtype=dtype), b=normal(*batch, k, n, dtype=dtype),
    )  # fmt: skip


def contraction(text: str, *shapes: tuple[int, ...]) -> Workload:
    def run(o: Operations, **inputs: Array) -> Array:
        return o.einsum(text, *inputs.values())

    return entry(run, **{f"a{k:03}": normal(*shape) for k, shape in enumerate(shapes)})


def whole_product(size: int, dtype: str) -> Workload:
    numbers = whole(100, size, size, low=-100, dtype=dtype)
    return entry(lambda o, a, b: o.whole_product(a, b), 0, a=numbers, b=numbers)


def perceptron(o: Operations, x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> Array:
    return o.softmax(o.relu(x @ w1 + b1) @ w2 + b2)


def low_rank(o: Operations, x: Array, w: Array, a: Array, b: Array) -> Array:
    return x @ w + (x @ a) @ b


def power(o: Operations, a: Array, v: Array) -> Array:
    """A vector multiplied ten times, and divided by its norm each time."""
    for _ in range(10):
        v = a @ v
        v = v / o.sqrt((v * v).sum())
    return v


def logistic(o: Operations, x: Array, y: Array, w: Array) -> Array:
    """The gradient of a logistic regression."""
    return (o.sigmoid(x @ w) - y) @ x / x.shape[0]


def covariance(o: Operations, x: Array) -> Array:
    centred = x - x.mean(0)
    return o.permute(centred, (1, 0)) @ centred / (x.shape[0] - 1)


def squared_distances(o: Operations, x: Array, y: Array) -> Array:
    products = x @ o.permute(y, (1, 0))
    return (x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * products


def manhattan(o: Operations, x: Array, y: Array) -> Array:
    return o.abs(x[:, None] - y).sum(-1)


def gaussian(o: Operations, x: Array, y: Array) -> Array:
    return o.exp(-0.05 * squared_distances(o, x, y))


def nearest(o: Operations, x: Array, y: Array) -> Array:
    return o.position_of_smallest(squared_distances(o, x, y), 1)


def means_step(o: Operations, x: Array, centres: Array) -> Array:
    """One step of k-means."""
    own = nearest(o, x, centres)
    sums = o.add_rows(centres * 0, own, x)
    counts = o.counts(own, centres.shape[0])
    return sums / o.maximum(o.cast(counts, "float32"), o.cast(counts * 0 + 1, "float32"))[:, None]


def similarities(o: Operations, x: Array) -> Array:
    unit = x / o.sqrt((x * x).sum(1, keepdims=True))
    return unit @ o.permute(unit, (1, 0))


def forces(o: Operations, x: Array) -> Array:
    """Of bodies that attract each other."""
    apart = x[None] - x[:, None]
    squared = (apart * apart).sum(-1) + 0.01
    return (apart / (squared * o.sqrt(squared))[..., None]).sum(1)


def quantized(o: Operations, x: Array, w: Array, scale: Array) -> Array:
    """By weights of 8 bits with a scale for each column."""
    return x @ (w * scale)


def permuted(o: Operations, a: Array, b: Array, rows: Array) -> Array:
    return o.take(a, rows) @ b


def binary(run: Program, *shapes: tuple[int, ...]) -> Workload:
    return entry(
        run, **{name: normal(*s) for name, s in zip(("a", "b", "c"), shapes, strict=False)}
    )


PROGRAMS: dict[str, Workload] = {
    "product_100": product(100, 100, 100),
    "product_300x700x500": product(300, 700, 500),
    "product_1x768x3072": product(1, 768, 3072),
    "product_4x768x3072": product(4, 768, 3072),
    "product_8x2048x2048": product(8, 2048, 2048),
    "product_32x1000x1000": product(32, 1000, 1000),
    "product_f64_512": product(512, 512, 512, dtype="float64", tolerance=1e-10),
    "product_f16_512": product(512, 512, 512, dtype="float16", tolerance=1e-2),
    "product_bf16_512": product(512, 512, 512, dtype="bfloat16", tolerance=2e-2),
    "product_bf16_1x2048x2048": product(1, 2048, 2048, dtype="bfloat16", tolerance=2e-2),
    "product_i8_512": whole_product(512, "int8"),
    "product_i32_256": whole_product(256, "int32"),
    "products_4x4": product(10_000, 4, 4, 4),
    "products_3x3_points": binary(lambda o, a, b: a @ b, (200_000, 3), (3, 3)),
    "products_8x8": product(4096, 8, 8, 8),
    "products_64x64": product(64, 64, 64, 64),
    "products_matrix_vector": binary(
        lambda o, a, b: (a @ b[..., None])[..., 0], (64, 256, 256), (64, 256)
    ),
    "product_of_transposed": binary(
        lambda o, a, b: o.permute(a, (1, 0)) @ b, (784, 128), (784, 512)
    ),
    "product_with_transposed": binary(
        lambda o, a, b: a @ o.permute(b, (1, 0)), (256, 512), (300, 512)
    ),
    "product_of_rows": entry(
        permuted, a=normal(1000, 256), b=normal(256, 256), rows=shuffled(1000)
    ),
    "gram_1024x64": binary(lambda o, a: a @ o.permute(a, (1, 0)), (1024, 64)),
    "einsum_scores": contraction("bqhd,bkhd->bhqk", (2, 128, 8, 64), (2, 128, 8, 64)),
    "einsum_last_axis": contraction("ijk,kl->ijl", (32, 64, 256), (256, 128)),
    "einsum_chain": contraction("bij,bjk,bkl->bil", (16, 64, 64), (16, 64, 64), (16, 64, 64)),
    "einsum_row_products": contraction("ij,ij->i", (4096, 512), (4096, 512)),
    "einsum_bilinear": contraction("bi,ijk,bk->bj", (64, 64), (64, 64, 64), (64, 64)),
    "einsum_middle_axes": contraction("aibj,bjck->aick", (16, 16, 16, 16), (16, 16, 16, 16)),
    "outer_product_update": binary(
        lambda o, a, b, c: a + o.outer(b, c), (2048, 2048), (2048,), (2048,)
    ),
    "kron": binary(lambda o, a, b: o.kron(a, b), (32, 32), (32, 32)),
    "dense_layers_32": entry(
        perceptron, x=normal(32, 784), w1=normal(784, 256, scale=0.04), b1=normal(256),
        w2=normal(256, 10, scale=0.06), b2=normal(10), weights=True,
    ),
    "low_rank_update": entry(
        low_rank, x=normal(64, 512), w=normal(512, 512, scale=0.04), a=normal(512, 8, scale=0.04),
        b=normal(8, 512),
    ),
    "power_iteration": entry(power, a=normal(512, 512), v=normal(512)),
    "logistic_gradient": entry(
        logistic, x=normal(10_000, 64), y=normal(10_000), w=normal(64)
    ),
    "covariance": entry(covariance, x=normal(10_000, 64)),
    "squared_distances": entry(squared_distances, x=normal(1024, 64), y=normal(1024, 64)),
    "manhattan_distances": entry(manhattan, x=normal(512, 32), y=normal(512, 32)),
    "gaussian_kernel": entry(gaussian, x=normal(1024, 16), y=normal(1024, 16)),
    "nearest_neighbour": entry(nearest, x=normal(4096, 32), y=normal(64, 32), tolerance=0.01),
    "k_means_step": entry(means_step, x=normal(10_000, 16), centres=normal(32, 16)),
    "cosine_similarities": entry(similarities, x=normal(1024, 128)),
    "n_body_forces": entry(forces, x=normal(1024, 3)),
    "weights_of_8_bits": entry(
        quantized, x=normal(1, 1024), w=whole(127, 1024, 1024, low=-127, dtype="int8"),
        scale=normal(1024),
    ),
    "product_triangular": binary(lambda o, a, b: o.tril(a) @ b, (512, 512), (512, 128)),
}  # fmt: skip
