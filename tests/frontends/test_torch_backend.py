"""The table of ATen operators and the report, as far as they need no torch.

The backend itself is compared with torch by `./dev suite opinfo` and `./dev suite zoo`.
"""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import porism
import porism.torch
from porism.frontends.torch.aten.aten_table import TABLE
from porism.frontends.torch.fallback_report import Report

MODULES = (
    *("complex", "distances", "elementwise", "histograms", "indexing", "matrices", "movement"),
    *("network", "normalization", "pooling", "reductions", "sampling", "special"),
)
for name in MODULES:
    importlib.import_module(f"porism.frontends.torch.aten.aten_{name}")


def call(name: str, *args: object, **kwargs: object) -> object:
    """Call an operator of the table."""
    return TABLE[f"aten.{name}"].run(*args, **kwargs)


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("add.Tensor", ([1.0, 2.0], [3.0, 4.0], 2), [7.0, 10.0]),
        ("rsub.Scalar", ([1.0, 2.0], 5.0), [4.0, 3.0]),
        ("div.Tensor_mode", ([-7, 7], [2, 2], "trunc"), [-3, 3]),
        ("div.Tensor_mode", ([-7, 7], [2, 2], "floor"), [-4, 3]),
        ("clamp.default", ([1.0, 5.0], 4.0, 2.0), [2.0, 2.0]),
        ("squeeze.dims", ([[[1.0]], [[2.0]]], [0, 1]), [[1.0], [2.0]]),
        ("constant_pad_nd.default", ([[1.0, 2.0]], [1, 0, 0, 1]), [[0.0, 1.0, 2.0], [0.0] * 3]),
        ("slice_scatter.default", ([0.0] * 5, [1.0, 2.0], 0, 1, 4, 2), [0.0, 1.0, 0.0, 2.0, 0.0]),
        ("select_scatter.default", ([[0.0, 0.0]], [3.0], 1, -1), [[0.0, 3.0]]),
        ("index_put.default", ([1.0, 2.0], [[1, 1]], [5.0, 6.0], True), [1.0, 13.0]),
        ("var.correction", ([1.0, 3.0],), 2.0),
        ("unfold.default", ([0, 1, 2, 3], 0, 2, 1), [[0, 1], [1, 2], [2, 3]]),
        ("upsample_nearest2d.default", ([[[[1.0, 2.0]]]], [1, 4]), [[[[1.0, 1.0, 2.0, 2.0]]]]),
        ("scatter_reduce.two", ([1.0, 2.0], 0, [0, 0], [5.0, 3.0], "amax"), [5.0, 2.0]),
    ],
)
def test_an_operator_computes_what_atens_schema_says(
    name: str, args: tuple[object, ...], expected: object
) -> None:
    tensors = [_tensor(a) for a in args]
    if name.startswith("index_put"):
        tensors[1] = [porism.asarray(args[1][0])]  # type: ignore[index]
    if name in ("squeeze.dims", "constant_pad_nd.default", "upsample_nearest2d.default"):
        tensors[1] = args[1]
    result = call(name, *tensors)
    assert isinstance(result, porism.Tensor)
    assert result.tolist() == expected


def _tensor(value: object) -> object:
    return porism.asarray(value) if isinstance(value, list) else value


def test_a_pool_tells_where_its_maxima_are() -> None:
    x = porism.asarray([[[[1.0, 5.0, 5.0], [float("nan"), 0.0, 2.0], [3.0, 3.0, 1.0]]]])
    values, indices = TABLE["aten.max_pool2d_with_indices.default"].run(x, [2, 2], [1, 1])
    assert indices.tolist() == [[[[3, 1], [3, 7]]]], "NaN is largest, and of equal ones the first"
    assert values.tolist()[0][0][1][1] == 3.0


def test_the_report_counts_and_prints() -> None:
    report = Report()
    report.compiled.update(["aten.add.Tensor"] * 3)
    report.fallbacks["aten.nonzero.default"] = 1
    report.reasons["aten.nonzero.default"] = "its shape depends on values"
    assert str(report).splitlines() == [
        "3 of 4 calls of operators were compiled by Porism",
        "  aten.nonzero.default: 1 calls by torch, its shape depends on values",
    ]
    report.reset()
    assert not report.compiled


def test_porism_does_not_import_torch() -> None:
    program = "import sys, porism, porism.torch; porism.ones(2).numpy()"
    program += "; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("addmv.default", ([1, 2], [[1, 2], [3, 4]], [1, 1], 0.2, 1.6), [3, 7]),
        ("_cdist_forward.default", ([[0.0, 0.0]], [[3.0, 4.0], [0.0, 0.0]], 2.0), [[5.0, 0.0]]),
        ("linspace.default", (0, 5, 4, "int64"), [0, 1, 3, 5]),
        ("arange.start_step", (0.5, 4.9, 1.5, "int64"), [0, 1, 2, 3]),
        ("tril_indices.default", (3, 2, 0), [[0, 1, 1, 2, 2], [0, 0, 1, 0, 1]]),
        ("triu_indices.default", (2, 3, 1), [[0, 0, 1], [1, 2, 2]]),
        ("put.default", ([1.0, 2.0, 3.0], [-1, 0], [7.0, 8.0]), [8.0, 2.0, 7.0]),
        ("diagonal_scatter.default", ([[0, 0], [0, 0]], [1, 2]), [[1, 0], [0, 2]]),
        ("masked_scatter.default", ([1, 2, 3], [True, False, True], [8, 9, 7]), [8, 2, 9]),
        ("masked_scatter.default", ([1, 2], [False, False], []), [1, 2]),
        ("nonzero_static.default", ([[0, 5], [6, 0]], 3), [[0, 1], [1, 0], [-1, -1]]),
        ("histc.default", ([0.0, 1.0, 2.0, 4.0, 9.0], 4, 0, 4), [1.0, 1.0, 1.0, 1.0]),
        ("kthvalue.default", ([[3.0, 1.0, 2.0]], 2), [[2.0], [2]]),
        ("nanmedian.dim", ([float("nan"), 4.0, 1.0], 0), [1.0, 2]),
        ("searchsorted.Tensor", ([[1, 3], [2, 4]], [[3], [4]]), [[1], [1]]),
        ("scatter_reduce.two", ([1, 2], 0, [0, 0], [5, 3], "amin", False), [3, 2]),
    ],
)
def test_rows_of_pairs_groups_and_positions(
    name: str, args: tuple[object, ...], expected: object
) -> None:
    result = call(name, *[_tensor(a) for a in args])
    found = [r.tolist() for r in result] if isinstance(result, tuple) else result.tolist()
    assert found == expected


def test_segments_are_reduced_where_they_are_empty_too() -> None:
    data = porism.asarray([1.0, 2.0, 3.0])
    lengths = porism.asarray([2, 0, 1])
    for reduce, expected in {
        "sum": [3.0, 0.0, 3.0],
        "prod": [2.0, 1.0, 3.0],
        "max": [2.0, -math.inf, 3.0],
        "min": [1.0, math.inf, 3.0],
    }.items():
        result = call("segment_reduce.default", data, reduce, lengths=lengths)
        assert result.tolist() == expected, reduce


def test_bags_of_rows() -> None:
    weight = porism.asarray([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
    indices, offsets = porism.asarray([0, 2, 1]), porism.asarray([0, 2, 3])
    sums = TABLE["aten._embedding_bag_forward_only.default"].run(weight, indices, offsets)[0]
    assert sums.tolist() == [[101.0, 202.0], [10.0, 20.0], [0.0, 0.0]]
    mean = TABLE["aten._embedding_bag_forward_only.default"].run(
        weight, indices, offsets, False, 1, padding_idx=2
    )[0]
    assert mean.tolist() == [[1.0, 2.0], [10.0, 20.0], [0.0, 0.0]]
    weight = porism.asarray([[1.0, 2.0], [10.0, 20.0], [math.inf, math.nan]])
    kept = TABLE["aten._embedding_bag.default"].run(weight, indices, offsets, padding_idx=2)[0]
    assert kept.tolist() == mean.tolist()


@pytest.mark.parametrize("size", [2, 5, 40])
def test_rows_of_symbolic_sizes(size: int) -> None:
    """Those that torch's models have along symbolic axes; with numbers they are tested above."""
    n = porism.Variable("n", 2, 4096).bind(size)
    data = np.random.default_rng(size).normal(size=(3, size))
    x = porism.asarray(data).reshape(3, n)
    whole = np.arange(3 * size).reshape(3, size)
    for name, args, expected in (
        ("cumsum.default", (x, 1), data.cumsum(1)),
        ("cumsum.default", (x.T, 0), data.T.cumsum(0)),
        ("arange.start_step", (2, n), np.arange(2, size)),
        ("gather.default", (x, 1, porism.asarray(whole % size).reshape(3, n)), data),
        ("slice_scatter.default", (x, x[:, :1] * 0, 1, 1, 2), _with_zero(data, 1)),
        ("flip.default", (x, [1]), data[:, ::-1]),
        ("mean.dim", (x, [1]), data.mean(1)),
    ):
        found = call(name, *args)
        assert isinstance(found, porism.Tensor)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, err_msg=name)


def _with_zero(data: Any, column: int) -> Any:
    data = data.copy()
    data[:, column] = 0
    return data


def test_rows_of_experts_are_multiplied_by_their_matrices() -> None:
    rng = np.random.default_rng(4)
    x, weight = rng.normal(size=(7, 4)), rng.normal(size=(5, 4, 3))
    weight[4] = np.nan  # the matrix of an empty group is not read
    row = TABLE["transformers.grouped_mm_fallback.default"].run
    found = row(porism.asarray(x), porism.asarray(weight), porism.asarray([0, 2, 2, 6, 6])).numpy()
    for rows, expert in ((slice(0, 2), 1), (slice(2, 6), 3)):
        np.testing.assert_allclose(found[rows], x[rows] @ weight[expert], rtol=1e-12)
    assert found[6].tolist() == [0.0] * 3, "it is in no group"


@pytest.mark.parametrize(("dtype", "count"), [("int8", 128), ("int8", 256), ("uint8", 256)])
@pytest.mark.parametrize(("reduce", "expected"), [("amin", 3), ("sum", None)])
def test_many_values_for_one_element_of_a_narrow_type(
    dtype: str, count: int, reduce: str, expected: int | None
) -> None:
    values = np.full(count, 3, dtype)
    result = call(
        "scatter_reduce.two",
        porism.asarray(np.ones(2, dtype)),
        0,
        porism.asarray(np.zeros(count, np.int64)),
        porism.asarray(values),
        reduce,
        False,
    )
    assert result.tolist() == [expected or int(values.sum(dtype=dtype)), 1]


def test_bins_are_found_with_the_rounding_of_torch() -> None:
    for bins, low, high in ((37, -1, 2), (10, 0, 3), (49, 0, 7)):
        edges = (low + (high - low) * np.arange(bins + 1) / bins).astype("f")
        place = (edges - np.float32(low)) * np.float32(bins) / np.float32(high - low)
        place = np.minimum(place.astype(np.int64), bins - 1)
        inside = (edges >= low) & (edges <= high)
        expected = np.bincount(place[inside], minlength=bins)
        result = call("histc.default", porism.asarray(edges), bins, low, high)
        assert result.tolist() == expected.tolist()


@pytest.mark.parametrize("spatial", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_windows_that_divide_an_axis_have_their_first_maxima(spatial: int) -> None:
    rng = np.random.default_rng(spatial)
    x = rng.integers(0, 3, (2, *[5] * spatial)).astype(np.float32)
    values, where = TABLE[f"aten.adaptive_max_pool{spatial}d.default"].run(
        porism.asarray(x), [2] * spatial
    )
    limits = [(0, 3), (2, 5)]
    positions = np.arange(5**spatial).reshape([5] * spatial)
    for corner in np.ndindex(*[2] * spatial):
        window = tuple(slice(*limits[k]) for k in corner)
        for channel in range(2):
            inside = x[channel][window]
            assert values.numpy()[(channel, *corner)] == inside.max()
            first = positions[window].ravel()[inside.argmax()]
            assert where.numpy()[(channel, *corner)] == first


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 3.0, math.inf])
def test_the_gradient_of_distances(p: float) -> None:
    rng = np.random.default_rng(1)
    x, y = (porism.asarray(rng.normal(size=(n, 3))) for n in (4, 5))
    grad = porism.asarray(rng.normal(size=(4, 5)))
    cdist = TABLE["aten._cdist_forward.default"].run
    found = TABLE["aten._cdist_backward.default"].run(grad, x, y, p, cdist(x, y, p))
    expected = porism.vjp(lambda v: cdist(v, y, p), x)[1](grad)[0]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9)


@pytest.mark.parametrize("causal", [False, True])
def test_the_gradient_of_attention_takes_what_its_forward_returns(causal: bool) -> None:
    rng = np.random.default_rng(2)
    q, k, v, g = (porism.asarray(rng.normal(size=(2, 3, 5, 4)).astype(np.float32)) for _ in "qkvg")
    out, logsumexp = TABLE["aten._scaled_dot_product_flash_attention_for_cpu.default"].run(
        q, k, v, 0.0, causal
    )
    assert logsumexp.shape == (2, 3, 5)
    found = TABLE["aten._scaled_dot_product_flash_attention_for_cpu_backward.default"].run(
        g, q, k, v, out, logsumexp, 0.0, causal
    )
    attention = porism.scaled_dot_product_attention
    expected = porism.vjp(lambda a, b, c: attention(a, b, c, causal=causal), q, k, v)[1](g)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_a_layer_of_an_encoder_is_its_parts() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2, 5, 8)).astype(np.float32)
    shapes = [(24, 8), (24,), (8, 8), (8,)]
    qkv_w, qkv_b, out_w, out_b = (rng.normal(size=s).astype(np.float32) for s in shapes)
    w1, b1, w2, b2 = (rng.normal(size=s).astype(np.float32) for s in [(6, 8), (6,), (8, 6), (8,)])
    one, zero = np.ones(8, np.float32), np.zeros(8, np.float32)

    def norm(v: Any) -> Any:
        return (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + 1e-5)

    def attention(v: Any) -> Any:
        heads = (v @ qkv_w.T + qkv_b).reshape(2, 5, 3, 2, 4)
        q, k, w = (heads[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
        scores = np.exp(q @ k.transpose(0, 1, 3, 2) / 2)
        mixed = (scores / scores.sum(-1, keepdims=True)) @ w
        return mixed.transpose(0, 2, 1, 3).reshape(2, 5, 8) @ out_w.T + out_b

    def perceptron(v: Any) -> Any:
        return np.maximum(v @ w1.T + b1, 0) @ w2.T + b2

    weights = [porism.asarray(a) for a in (qkv_w, qkv_b, out_w, out_b)]
    norms = [porism.asarray(a) for a in (one, zero, one, zero)]
    layers = [porism.asarray(a) for a in (w1, b1, w2, b2)]
    run = TABLE["aten._transformer_encoder_layer_fwd.default"].run
    for first in (False, True):
        found = run(porism.asarray(x), 8, 2, *weights, False, first, 1e-5, *norms, *layers)
        if first:
            middle = x + attention(norm(x))
            expected = middle + perceptron(norm(middle))
        else:
            middle = norm(x + attention(x))
            expected = norm(middle + perceptron(middle))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-3, atol=1e-4)
