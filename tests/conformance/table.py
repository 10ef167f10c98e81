"""The table: every public function of tensors, as a text that Porism and NumPy both evaluate.

A row is a call on the arrays of `data.py`. The text says what is expected as well, with the
functions of NumPy and of the oracle (`fuzz/program/oracle`); where they have none of that name,
`expected` does. `kinds` are the types of the data: f for floats, i for integers, b for booleans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Row:
    """A call, and what NumPy computes for it."""

    call: str
    expected: str = ""
    kinds: str = "f"
    close: float = 1.0
    """How many times the usual tolerance is allowed."""


def same(names: str, arguments: str, kinds: str) -> dict[str, list[Row]]:
    """Functions that NumPy has under the same name."""
    return {name: [Row(f"{name}({arguments})", kinds=kinds)] for name in names.split()}


ROWS: Final[dict[str, list[Row]]] = {
    # -- creation ----------------------------------------------------------------------------------
    "asarray": [Row("asarray(x)", kinds="fib")],
    "full": [Row("full((2, 3), 5)")],
    "zeros": [Row("zeros((2, 3))")],
    "ones": [Row("ones((2, 3))")],
    "empty": [Row("empty((2, 3)) * 0", "zeros((2, 3))")],
    "full_like": [Row("full_like(x, 1)", kinds="fib")],
    **same("zeros_like ones_like", "x", "fib"),
    "empty_like": [Row("empty_like(x) * 0", "zeros_like(x)", "fi")],
    "arange": [Row("arange(3, 17, 4)"), Row("arange(5) * 2")],
    "linspace": [Row("linspace(0, 1, 7)"), Row("linspace(-1, 2, 4, endpoint=False)")],
    "eye": [Row("eye(3, 4, k=1)")],
    **same("tril triu", "x, 1", "fib"),
    "one_hot": [Row("one_hot(places, 4)")],
    # -- elementwise -------------------------------------------------------------------------------
    "astype": [Row("x.astype('float64')", "x.astype('float64')", "fib")],
    **same("add subtract multiply maximum minimum", "x, row", "fi"),
    **same("divide", "x, y", "f"),
    **same("floor_divide remainder", "x, y", "fi"),
    "pow": [Row("pow(positive_, 1.5)"), Row("pow(x, 3)", kinds="i")],
    **same("negative positive square abs sign", "x", "fi"),
    "reciprocal": [Row("reciprocal(y)")],
    "sqrt": [Row("sqrt(positive_)")],
    "rsqrt": [Row("rsqrt(positive_)")],
    "lerp": [Row("lerp(x, y, 0.25)", close=4)],
    **same("floor ceil trunc round", "x", "fi"),
    **same("less less_equal greater greater_equal equal not_equal", "x, row", "fib"),
    **same("isnan isinf isfinite", "x", "fi"),
    **same("bitwise_and bitwise_or bitwise_xor", "x, row", "ib"),
    **same("bitwise_left_shift bitwise_right_shift", "x, small", "i"),
    "bitwise_invert": [Row("bitwise_invert(x)", kinds="ib")],
    **same("logical_and logical_or logical_xor", "x, row", "fib"),
    "logical_not": [Row("logical_not(x)", kinds="fib")],
    "where": [Row("where(x > row, x, y)", kinds="fi")],
    "clip": [Row("clip(x, -1, 2)", kinds="fi")],
    # -- functions of floats -----------------------------------------------------------------------
    **same("exp exp2 expm1 sinh cosh tanh asinh sin cos tan atan", "x", "f"),
    **same("log log2 log10 log1p", "positive_", "f"),
    "logaddexp": [Row("logaddexp(x, y)")],
    "acosh": [Row("acosh(positive_ + 1)")],
    **same("atanh asin acos", "unit", "f"),
    **same("atan2 hypot copysign", "x, y", "f"),
    "signbit": [Row("signbit(x)")],
    "nextafter": [Row("nextafter(x, y)", "x", close=4)],
    "erf": [Row("erf(x)")],
    "relu": [Row("relu(x)")],
    "leaky_relu": [Row("leaky_relu(x)")],
    "sigmoid": [Row("sigmoid(x)")],
    "silu": [Row("silu(x)")],
    "softplus": [Row("softplus(x)")],
    "gelu": [Row("gelu(x)", close=4)],
    # -- movement ----------------------------------------------------------------------------------
    "reshape": [Row("reshape(x, (2, -1))", kinds="fib")],
    "flatten": [Row("flatten(x)", kinds="fib")],
    "unflatten": [Row("unflatten(x, 1, (2, -1))", kinds="fib")],
    "expand_dims": [Row("expand_dims(x, 1)", kinds="fib")],
    "unsqueeze": [Row("unsqueeze(x, 0)", kinds="fib")],
    "squeeze": [Row("squeeze(x[None], 0)", kinds="fib")],
    "permute_dims": [Row("permute_dims(image, (2, 0, 3, 1))", kinds="fib")],
    "permute": [Row("permute(image, 1, 0, 2, 3)", kinds="fib")],
    "transpose": [Row("transpose(x, 0, 1)", kinds="fib")],
    "swapaxes": [Row("swapaxes(image, 1, 3)", kinds="fib")],
    "moveaxis": [Row("moveaxis(image, 1, 3)", kinds="fib")],
    "matrix_transpose": [Row("matrix_transpose(image)", kinds="fib")],
    "flip": [Row("flip(x, 1)", kinds="fib")],
    "broadcast_to": [Row("broadcast_to(row, (5, row.shape[0]))", kinds="fib")],
    "expand": [Row("expand(row, 5, -1)", kinds="fib")],
    "broadcast_arrays": [Row("broadcast_arrays(x, row)[1]", kinds="fib")],
    "diagonal": [Row("diagonal(x, 1)", kinds="fib")],
    "pixel_shuffle": [Row("pixel_shuffle(image.reshape(1, 8, 3, 3), 2)", kinds="fi")],
    "pixel_unshuffle": [Row("pixel_unshuffle(image, 2)", kinds="fi")],
    "pad": [Row("pad(x, ((1, 2), (0, 3)))", kinds="fi")],
    "repeat": [Row("repeat(x, 3, axis=1)", kinds="fib")],
    "tile": [Row("tile(x, (2, 3))", kinds="fib")],
    "unfold": [Row("unfold(image, 2)", kinds="fi")],
    # -- indexing and joining ----------------------------------------------------------------------
    "take": [Row("take(x, places, axis=0)", kinds="fib")],
    "index_select": [Row("index_select(x, 0, places)", kinds="fib")],
    "take_along_axis": [Row("take_along_axis(x, order, axis=1)", kinds="fib")],
    "gather": [Row("gather(x, 1, order)", kinds="fib")],
    "concat": [Row("concat([x, y, x], axis=1)", kinds="fib")],
    "stack": [Row("stack([x, y], axis=1)", kinds="fib")],
    "split": [Row("split(x, 2, axis=1)[1]", kinds="fib")],
    "chunk": [Row("chunk(x, 2, axis=1)[0]", kinds="fib")],
    "unstack": [Row("unstack(x)[2]", kinds="fib")],
    "roll": [Row("roll(x, 2, 1)", kinds="fib")],
    "meshgrid": [Row("meshgrid(row, row[:3])[0]", kinds="fi")],
    # -- reductions and scans ----------------------------------------------------------------------
    **same("sum prod max min", "x, axis=1", "fi"),
    **same("mean var std", "x, axis=0", "f"),
    **same("any all count_nonzero", "x, axis=1", "fib"),
    **same("argmax argmin", "x, axis=1", "fi"),
    "logsumexp": [Row("logsumexp(x, axis=1)")],
    "norm": [Row("norm(x, axis=1)")],
    "vector_norm": [Row("vector_norm(x, axis=1)")],
    **same("cumulative_sum cumulative_prod", "x, axis=1", "fi"),
    **same("cumsum cumprod", "x, axis=0", "fi"),
    "cummax": [Row("cummax(x, axis=1)", kinds="fi")],
    "cummin": [Row("cummin(x, axis=1)", kinds="fi")],
    # -- linear algebra ----------------------------------------------------------------------------
    "matmul": [Row("matmul(x, y.T)", kinds="fi", close=4)],
    "vecdot": [Row("vecdot(x, y)", kinds="fi", close=4)],
    "dot": [Row("dot(x, row)", kinds="fi", close=4)],
    "outer": [Row("outer(row, row)", kinds="fi")],
    "tensordot": [Row("tensordot(x, y, axes=2)", kinds="fi", close=4)],
    "linear": [Row("linear(x, y, x[:, 0])", close=4)],
    "trace": [Row("trace(x)", kinds="fi")],
    "einsum": [Row("einsum('ij,kj->ki', x, y)", kinds="fi", close=4)],
    # -- windows -----------------------------------------------------------------------------------
    "conv1d": [Row("conv1d(image[:, :, 0], taps[:, :, 0])", close=8)],
    "conv2d": [Row("conv2d(image, taps)", close=8)],
    "conv3d": [Row("conv3d(image[:, :, None], taps[:, :, None])", close=8)],
    "conv_transpose1d": [
        Row("conv_transpose1d(image[:, :, 0], taps[:, :, 0].swapaxes(0, 1))", close=8)
    ],
    "conv_transpose2d": [Row("conv_transpose2d(image, taps.swapaxes(0, 1))", close=8)],
    "conv_transpose3d": [
        Row("conv_transpose3d(image[:, :, None], taps.swapaxes(0, 1)[:, :, None])", close=8)
    ],
    "max_pool1d": [Row("max_pool1d(image[0], 2)", kinds="fi")],
    "max_pool2d": [Row("max_pool2d(image, 2)", kinds="fi")],
    "max_pool3d": [Row("max_pool3d(image[None], 2)", kinds="fi")],
    "avg_pool1d": [Row("avg_pool1d(image[0], 2)", close=4)],
    "avg_pool2d": [Row("avg_pool2d(image, 2)", close=4)],
    "avg_pool3d": [Row("avg_pool3d(image[None], 2)", close=4)],
    "adaptive_avg_pool1d": [Row("adaptive_avg_pool1d(image[0], 3)", close=4)],
    "adaptive_avg_pool2d": [Row("adaptive_avg_pool2d(image, 3)", close=4)],
    "adaptive_avg_pool3d": [Row("adaptive_avg_pool3d(image[None], (1, 3, 3))", close=4)],
    "adaptive_max_pool1d": [Row("adaptive_max_pool1d(image[0], 3)")],
    "adaptive_max_pool2d": [Row("adaptive_max_pool2d(image, 3)")],
    "adaptive_max_pool3d": [Row("adaptive_max_pool3d(image[None], (1, 3, 3))")],
    # -- normalization and attention ---------------------------------------------------------------
    "softmax": [Row("softmax(x)")],
    "log_softmax": [Row("log_softmax(x)", close=4)],
    "layer_norm": [Row("layer_norm(x, axis=-1)", close=8)],
    "rms_norm": [Row("rms_norm(x, axis=-1)", close=4)],
    "batch_norm": [Row("batch_norm(image, training=True)", close=8)],
    "batch_statistics": [Row("batch_statistics(image, row[:2], row[:2], 1.0)[0]", close=4)],
    "group_norm": [Row("group_norm(image, 2)", close=8)],
    "instance_norm": [Row("instance_norm(image)", close=8)],
    "scaled_dot_product_attention": [Row("scaled_dot_product_attention(x, y, y)", close=16)],
    # -- order -------------------------------------------------------------------------------------
    "sort": [Row("sort(x, axis=1)", kinds="fi")],
    "argsort": [Row("argsort(x, axis=1)", kinds="fi")],
    "topk": [Row("topk(x, 2)[0]", kinds="fi")],
    "searchsorted": [Row("searchsorted(sort(row), x[0])", kinds="fi")],
    "quantile": [Row("quantile(x, 0.3, axis=1)", close=4)],
    "median": [Row("median(x, axis=1)", close=4)],
    # -- scatter -----------------------------------------------------------------------------------
    "scatter": [Row("scatter(x, 1, order, y)", kinds="fi")],
    "scatter_add": [Row("scatter_add(x, 1, order, y)", kinds="fi")],
    "scatter_min": [Row("scatter_min(x, 1, order, y)", kinds="fi")],
    "scatter_max": [Row("scatter_max(x, 1, order, y)", kinds="fi")],
    "index_add": [Row("index_add(x, 0, places, x[places])", kinds="fi")],
    "bincount": [Row("bincount(places, length=5)")],
    # -- losses ------------------------------------------------------------------------------------
    "cross_entropy": [Row("cross_entropy(x, places)", close=4)],
    "nll_loss": [Row("nll_loss(x, places)")],
    "mse_loss": [Row("mse_loss(x, y)", close=4)],
    "l1_loss": [Row("l1_loss(x, y)", close=4)],
    "huber_loss": [Row("huber_loss(x, y)", close=4)],
    "binary_cross_entropy": [Row("binary_cross_entropy(unit ** 2, unit ** 2)", close=16)],
    "binary_cross_entropy_with_logits": [
        Row("binary_cross_entropy_with_logits(x, unit ** 2)", close=16)
    ],
}  # fmt: skip

NOT_COMPUTED: Final = {
    "Tensor": "the type of tensors",
    "Variable": "a symbolic size; tests/tensor/test_symbolic_sizes.py",
    "result_type": "about types; tests/tensor/test_promotion.py",
    "can_cast": "about types; tests/tensor/test_promotion.py",
    "finfo": "about types; tests/tensor/test_promotion.py",
    "iinfo": "about types; tests/tensor/test_promotion.py",
    "isdtype": "about types; tests/tensor/test_promotion.py",
    "broadcast_shapes": "about shapes; tests/tensor/test_reshape.py",
    "from_dlpack": "exchange of memory; tests/tensor/test_exchange.py",
}
"""Public names that compute no tensor, and where they are tested."""

MODULES_NOT_COMPUTED: Final = {
    "inspect.explain": "text about kernels",
    "inspect.manual_schedule": "kernels by hand; tests/tensor/test_manual_schedule.py",
    "inspect.verify_report": "reports; tests/verify",
    "inspect.kernel_profile": "times",
    "realization": "memory",
    "jit.jit": "tests/tensor/test_jit.py",
    "autodiff.gradient_functions": "derivatives; tests/gradient",
    "autodiff.custom_gradients": "derivatives; tests/gradient",
    "autodiff.backward": "derivatives; tests/gradient",
    "fast_math_switch": "a switch; tests/tensor/test_fast_math_switch.py",
    "api.random": "no function of NumPy gives the same numbers; tests/tensor/test_random.py",
    "movement.assignment": "no public function",
}
"""Modules without functions that NumPy has."""
