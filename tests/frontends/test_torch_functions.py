"""Rows of ATen for complex tensors, histograms, special functions, samples and scatters."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest

import porism
from porism.frontends.torch.aten.aten_table import TABLE, UncoveredFormError

for _module in ("complex", "distances", "histograms", "indexing", "sampling", "special"):
    importlib.import_module(f"porism.frontends.torch.aten.aten_{_module}")

INF, NAN = math.inf, math.nan


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a row with arrays and lists as tensors; results are arrays again."""
    tensors = [porism.asarray(a) if isinstance(a, (np.ndarray, list)) else a for a in args]
    result = TABLE[f"aten.{name}"].run(*tensors, **kwargs)
    if isinstance(result, (tuple, list)):
        return [None if r is None else r.numpy() for r in result]
    return result.numpy()


def f32(*values: float) -> Any:
    return np.asarray(values, np.float32)


# -- complex numbers -------------------------------------------------------------------------------


def test_complex_numbers_and_their_parts() -> None:
    z = call("complex.default", f32(1, 2), f32(3, -4))
    assert z.tolist() == [1 + 3j, 2 - 4j]
    assert call("_conj.default", z).tolist() == [1 - 3j, 2 + 4j]
    assert call("view_as_real.default", z).tolist() == [[1, 3], [2, -4]]
    assert call("view_as_complex.default", f32(1, 3)).tolist() == 1 + 3j
    assert call("_to_copy.default", z, dtype="float32").tolist() == [1, 2]
    assert call("_to_copy.default", z, dtype="complex128").tolist() == z.tolist()
    np.testing.assert_allclose(call("polar.default", f32(2), f32(math.pi / 2)), [2j], atol=1e-6)


def test_rows_of_ordered_numbers_do_not_take_complex_ones() -> None:
    for name in ("mul.Tensor", "_fft_c2c.default", "cat.default"):
        assert TABLE[f"aten.{name}"].complex
    for name in ("sort.default", "var.correction", "nan_to_num.default", "angle.default"):
        assert not TABLE[f"aten.{name}"].complex


@pytest.mark.parametrize("normalization", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 4, 6, 7])
def test_transforms_are_scaled_as_they_are_numbered(normalization: int, size: int) -> None:
    rng = np.random.default_rng(size)
    x = rng.normal(size=(3, size)).astype(np.float32)
    scale = (1, (3 * size) ** -0.5, 1 / (3 * size))[normalization]
    whole = np.fft.fft2(x) * scale
    for onesided, expected in ((True, whole[:, : size // 2 + 1]), (False, whole)):
        found = call("_fft_r2c.default", x, [0, 1], normalization, onesided)
        np.testing.assert_allclose(found, expected, atol=1e-4)
    z = (x + 1j * x[::-1]).astype(np.complex64)
    found = call("_fft_c2c.default", z, [0, 1], normalization, False)
    np.testing.assert_allclose(found, np.fft.ifft2(z) * 3 * size * scale, atol=1e-4)
    half = np.fft.rfft2(x).astype(np.complex64)
    found = call("_fft_c2r.default", half, [0, 1], normalization, size)
    np.testing.assert_allclose(found, x * 3 * size * scale, atol=1e-4)


# -- histograms ------------------------------------------------------------------------------------


def test_histograms_have_the_last_edge_and_leave_out_what_is_outside() -> None:
    x = f32(NAN, 0, 0.5, 1, 2, 3, 3.1, -INF)
    counts, edges = call("histogram.bin_ct", x, 3, (0.0, 3.0))
    assert (counts.tolist(), edges.tolist()) == ([2, 1, 2], [0, 1, 2, 3])
    weight = f32(NAN, 1, 2, 3, 4, 5, NAN, NAN)
    counts, _ = call("histogram.bins_tensor", x, f32(0, 1, 3), porism.asarray(weight))
    assert counts.tolist() == [3, 12]
    density, _ = call("histogram.bins_tensor", x, f32(0, 1, 3), None, True)
    np.testing.assert_allclose(density, [2 / 5, 3 / 5 / 2])


def test_limits_of_histograms_without_a_range() -> None:
    assert call("histogram.bin_ct", f32(), 2)[1].tolist() == [0, 0.5, 1]
    assert call("histogram.bin_ct", f32(2, 2), 2)[1].tolist() == [1.5, 2, 2.5]
    assert call("histc.default", f32(), 3).tolist() == [0, 0, 0]


def test_histograms_of_points() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2)).astype(np.float32)
    edges = call("_histogramdd_bin_edges.default", x, (3, 4))
    expected, bounds = np.histogramdd(x, [3, 4])
    for a, b in zip(edges, bounds, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    assert call("_histogramdd_from_bin_cts.default", x, (3, 4)).tolist() == expected.tolist()
    limits = [porism.asarray(f32(-1, 0, 1)), porism.asarray(f32(-2, 2))]
    found = call("_histogramdd_from_bin_tensors.default", x, tuple(limits))
    assert found.tolist() == np.histogramdd(x, [[-1, 0, 1], [-2, 2]])[0].tolist()


# -- special functions -----------------------------------------------------------------------------


def test_the_gamma_function_and_its_derivatives() -> None:
    x = f32(0.5, 1, 2, 3.3, 10, 100, -0.5, -2.5, 1e-10)
    expected = [math.lgamma(v) for v in x.tolist()]
    np.testing.assert_allclose(call("lgamma.default", x), expected, rtol=1e-6, atol=1e-7)
    found = call("lgamma.default", f32(0, -1, INF, -INF, NAN))
    assert found[:4].tolist() == [INF] * 4
    assert np.isnan(found[4])
    step = 1e-4
    slope = [(math.lgamma(v + step) - math.lgamma(v - step)) / 2 / step for v in x[:8].tolist()]
    np.testing.assert_allclose(call("digamma.default", x[:8]), slope, rtol=1e-5, atol=1e-6)
    found = call("digamma.default", f32(0, -0.0, -1, INF, -INF))
    assert found[[0, 1, 3]].tolist() == [-INF, INF, INF]
    assert np.isnan(found[[2, 4]]).all()
    with pytest.raises(UncoveredFormError):
        call("lgamma.default", np.ones(2))


def test_polygamma_is_a_zeta_function() -> None:
    x = f32(0.3, 1, 2.5, 9)
    terms = np.arange(200000.0)[:, None] + x.astype(float)
    for n in (1, 2, 3):
        rest = terms[-1] ** -n / n
        total = (terms ** -(n + 1)).sum(axis=0) + rest
        expected = (-1) ** (n + 1) * math.factorial(n) * total
        np.testing.assert_allclose(call("polygamma.default", n, x), expected, rtol=2e-5)
    found = call("special_zeta.default", f32(2, 1, 0.5, 3, 3, 2.5), f32(1, 2, 2, -1, -0.5, -0.5))
    np.testing.assert_allclose(found[0], math.pi**2 / 6, rtol=1e-6)
    assert found[1] == INF
    assert np.isnan(found[2])
    assert found[3] == INF
    assert np.isnan(found[5])
    np.testing.assert_allclose(found[4], -8 + 7 * 1.2020569031595942, rtol=1e-5)
    with pytest.raises(UncoveredFormError):
        call("special_zeta.default", f32(3), f32(-1e9))


def test_modified_functions_of_bessel() -> None:
    x = f32(0, 1e-20, 0.5, 1, 3, 29.9, 30.1, 80)
    t = (np.arange(4000) + 0.5) * math.pi / 4000
    wave = np.exp(x[:, None].astype(float) * (np.cos(t) - 1))
    for order in (0, 1):
        scaled = (wave * np.cos(order * t)).mean(axis=1)
        found = call(f"special_i{order}e.default", x)
        np.testing.assert_allclose(found[2:], scaled[2:], rtol=1e-6)
        found = call("i0.default" if not order else "special_i1.default", x)
        np.testing.assert_allclose(found[2:], (scaled * np.exp(x.astype(float)))[2:], rtol=1e-6)
    np.testing.assert_allclose(call("special_i1.default", -x)[1], -5e-21, rtol=1e-6)
    assert np.isnan(call("special_i0e.default", f32(NAN)))


def test_the_spherical_function_of_bessel() -> None:
    found = call("special_spherical_bessel_j0.default", f32(0, 1, INF, -2))
    np.testing.assert_allclose(found, [1, math.sin(1), 0, math.sin(2) / 2], rtol=1e-6)


def test_windows_that_are_cut_off_have_the_divisor_that_is_given() -> None:
    importlib.import_module("porism.frontends.torch.aten.aten_pooling")
    x = np.arange(5, dtype=np.float32)[None, None]
    found = call("avg_pool1d.default", x, [2], [2], [0], True, True, 4)
    assert found.tolist() == [[[0.25, 1.25, 1]]]
    found = call("avg_pool1d.default", x, [3], [2], [1], True, True, 1)
    assert found.tolist() == [[[1, 6, 7]]]


def test_no_element_is_gathered() -> None:
    found = call("gather.default", f32(1, 2), 0, np.zeros((2, 0), np.int64))
    assert found.shape == (2, 0)


def test_a_hash_is_the_exclusive_or_of_wide_elements() -> None:
    x = f32(1, 2.5)
    bits = x.astype(np.float64).view(np.uint64)
    assert call("hash_tensor.default", x).item() == bits[0] ^ bits[1]
    pairs = np.asarray([[3, -5], [1, 2]], np.int8)
    found = call("hash_tensor.default", pairs, (0,), True)
    assert found.tolist() == [[2, (-5 ^ 2) % 2**64]]


def test_polynomials_have_a_degree_for_each_element() -> None:
    x, n = f32(0.3, 0.3, -2, 0.5, 0.5), f32(-1, 0.9, 3, 1, 8)
    found = call("special_chebyshev_polynomial_t.default", x, n)
    expected = [0, 1, 4 * -8 + 6, 0.5, math.cos(8 * math.acos(0.5))]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(UncoveredFormError, match="high degrees"):
        call("special_legendre_polynomial_p.default", x, n * 100)


# -- samples ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("spatial", [2, 3])
def test_positions_outside_of_an_image(spatial: int) -> None:
    row = f"grid_sampler_{spatial}d.default"
    image = np.arange(2.0**spatial, dtype=np.float32).reshape(1, 1, *[2] * spatial)
    corner = np.full((1, *[1] * spatial, spatial), 1, np.float32)
    last = 2**spatial - 1
    assert call(row, image, corner, 0, 0, True).item() == last
    assert call(row, image, corner * 9, 0, 0, True).item() == 0
    assert call(row, image, corner * 9, 0, 1, True).item() == last
    assert call(row, image, corner * 3, 1, 2, True).item() == 0, "reflected"
    assert call(row, image, corner * 0, 0, 0, False).item() == last / 2
    assert call(row, image, corner * NAN, 1, 1, True).item() == (0 if spatial == 2 else last)


def test_cubic_samples_pass_through_elements() -> None:
    rng = np.random.default_rng(0)
    image = rng.normal(size=(1, 2, 3, 3)).astype(np.float32)
    line = np.linspace(-1, 1, 3, dtype=np.float32)
    grid = np.stack(np.meshgrid(line, line), axis=-1)[None]
    for padding in (0, 1, 2):
        found = call("grid_sampler_2d.default", image, grid, 2, padding, True)
        np.testing.assert_allclose(found, image, atol=1e-5)


# -- scatters and groups ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reduce", "include", "expected"),
    [
        ("prod", True, [2 * 3 * 5, 4, 6]),
        ("prod", False, [3 * 5, 4, 6]),
        ("mean", True, [(2 + 3 + 5) // 3, 4, 6]),
        ("mean", False, [4, 4, 6]),
        ("amax", False, [5, 4, 6]),
    ],
)
def test_slices_are_reduced_at_indices(reduce: str, include: bool, expected: list[int]) -> None:
    for dtype in (np.int64, np.int32):
        x, source = np.asarray([2, 4, 6], dtype), np.asarray([3, 5], dtype)
        found = call("index_reduce.default", x, 0, [0, 0], source, reduce, include)
        assert found.tolist() == expected
    assert call("index_reduce.default", x, 0, np.zeros(0, np.int64), x[:0], reduce).tolist() == [
        *(2, 4, 6)
    ]


def test_products_reach_the_part_that_has_updates() -> None:
    x = np.full((3, 3), 2.0, np.float32)
    x[0, 0] = NAN
    index = np.asarray([[1, 1], [0, 2]])
    found = call("scatter.value_reduce", x, 1, index, 3.0, "multiply")
    assert found[1:].tolist() == [[6, 2, 6], [2, 2, 2]]
    assert np.isnan(found[0, 0])
    assert found[0, 1:].tolist() == [18, 2]
    found = call("scatter_reduce.two", np.asarray(5), 0, np.asarray(0), np.asarray(3), "prod")
    assert found.item() == 15


def test_indices_of_no_element() -> None:
    assert call("nonzero_static.default", np.asarray(3), 2).shape == (2, 0)
    assert call("nonzero_static.default", np.zeros((0, 2)), 1, -7).tolist() == [[-7, -7]]
    assert call("nonzero_static.default", np.ones((2, 2)), 0).shape == (0, 2)


def test_a_mask_that_is_larger_than_what_it_selects_from() -> None:
    mask = np.asarray([[True, False], [False, True]])
    found = call("masked_scatter.default", [1, 2], mask, [7, 8, 9])
    assert found.tolist() == [[7, 2], [1, 8]]


def test_the_largest_rows_of_bags() -> None:
    weight = np.asarray([[1, -2], [NAN, 5], [3, -4]], np.float32)
    run = "_embedding_bag_forward_only.default"
    found = call(run, weight, [0, 2, 1, 0, 0, 1], [0, 2, 4, 4], mode=2)[0]
    assert found[[0, 3]].tolist() == [[3, -2], [1, 5]], "a NaN that comes later does not count"
    assert np.isnan(found[1, 0])
    assert found[1, 1] == 5
    assert found[2].tolist() == [0, 0]


def test_rows_are_scaled_down_to_a_norm() -> None:
    weight = np.asarray([[3, 4], [0.3, 0.4], [6, 8]], np.float32)
    found = call("embedding_renorm.default", weight, [[0, 1]], 1.0, 2.0)
    np.testing.assert_allclose(found, [[0.6, 0.8], [0.3, 0.4], [6, 8]], rtol=1e-5)


def test_distances_of_pairs() -> None:
    x = np.asarray([[0, 0], [3, 4], [NAN, 4]], np.float32)
    assert call("_pdist_forward.default", x[:2]).tolist() == [5]
    found = call("_pdist_forward.default", x, 0.0)
    assert found[0] == 2
    assert np.isnan(found[1:]).all()
    assert call("_pdist_forward.default", x[:1]).shape == (0,)
    assert call("_pdist_forward.default", x[:, :0], INF).tolist() == [0, 0, 0]
