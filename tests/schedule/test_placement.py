"""Placement: which values are stored, materialized locally or recomputed, and the reasons given."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

import porism
from porism import Tensor
from porism.base.target import GENERIC_CPU, StorageModel
from porism.engine.run.realize import request
from porism.ir.node import UOp
from porism.schedule.rangeify.rangeify import rangeify
from porism.tensor import primitive

Floats = npt.NDArray[np.float32]


def random(*sizes: int) -> Floats:
    return np.random.default_rng(math.prod(sizes)).normal(size=sizes).astype(np.float32)


def windows(x: Floats, taps: int, stride: int = 1) -> Floats:
    """Return the windows over the last two axes, as two more axes at the end."""
    all_windows = np.lib.stride_tricks.sliding_window_view(x, (taps, taps), axis=(-2, -1))
    return all_windows[..., ::stride, ::stride, :, :]


def convolve(x: Floats, weight: Floats, padding: int = 0, stride: int = 1) -> Floats:
    edges = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    patches = windows(np.pad(x, edges), weight.shape[-1], stride)
    result: Floats = np.einsum("ncyxij,ocij->noyx", patches, weight)
    return result


def assert_close(result: Tensor, expected: Floats) -> None:
    tolerance = 2e-4 * abs(expected).max()
    np.testing.assert_allclose(result.numpy(), expected, rtol=2e-4, atol=tolerance)


def test_a_long_convolution_has_no_local_buffer_inside_another() -> None:
    x, first, second = random(1, 32, 10, 10), random(24, 32, 3, 3), random(40, 24, 1, 1)
    result = porism.conv2d(porism.conv2d(x, first, padding=1), second)
    assert ["local" in kernel.text for kernel in porism.kernels(result)] == [False, False]
    assert_close(result, convolve(convolve(x, first, padding=1), second))


def test_a_padded_value_is_stored_without_its_padding() -> None:
    x, weight = random(1, 3, 22, 22), random(8, 3, 5, 5)
    inner = porism.conv2d(x, weight, padding=2)
    result = porism.max_pool2d(inner, 3, stride=2, padding=1)
    first, _ = porism.kernels(result)
    assert first.bytes_written == 8 * 22 * 22 * 4
    edges = [(0, 0), (0, 0), (1, 1), (1, 1)]
    padded = np.pad(convolve(x, weight, padding=2), edges, constant_values=-np.inf)
    assert_close(result, windows(padded, 3, 2).max((-2, -1)))


def test_two_long_products_have_a_kernel_each() -> None:
    a, b, c, d = random(20, 96), random(96, 30), random(20, 80), random(80, 30)
    result = porism.asarray(a) @ b + porism.asarray(c) @ d
    first, second = porism.kernels(result)
    assert first.why.startswith("its kernel computes another long sum of products")
    assert second.after == (first.number,)
    assert_close(result, a @ b + c @ d)


def test_two_short_products_share_a_kernel() -> None:
    a, b, c, d = random(20, 8), random(8, 30), random(20, 9), random(9, 30)
    result = porism.asarray(a) @ b + porism.asarray(c) @ d
    assert len(porism.kernels(result)) == 1
    assert_close(result, a @ b + c @ d)


def test_a_product_inside_a_reduction_is_stored() -> None:
    a, b = random(20, 96), random(96, 30)
    result = (porism.asarray(a) @ b).abs().sum(axis=0)
    first, _ = porism.kernels(result)
    assert first.why.startswith("it is a long sum of products, inside another reduction")
    assert_close(result, np.abs(a @ b).sum(axis=0))


def test_the_scores_of_short_attention_heads_are_not_stored() -> None:
    q, k, v = (porism.asarray(random(2, 48, 32)) for _ in range(3))
    assert len(porism.kernels(porism.scaled_dot_product_attention(q, k, v))) == 1


def test_a_product_of_attention_has_a_kernel_of_its_own() -> None:
    """In the kernel of attention it would be computed for one row at a time."""
    x, joint, output = random(2, 48, 64), random(64, 192), random(64, 64)
    heads = (porism.asarray(x) @ joint).reshape(2, 48, 3, 2, 32).permute(2, 0, 3, 1, 4)
    y = porism.scaled_dot_product_attention(heads[0], heads[1], heads[2])
    result = y.permute(0, 2, 1, 3).reshape(2, 48, 64) @ output
    last = porism.kernels(result)[-1]
    assert "local" not in last.text
    assert any("inside another one" in kernel.why for kernel in porism.kernels(result))


def test_the_elements_of_a_row_that_a_product_computes_have_no_local_buffer() -> None:
    """A buffer for each element of the row would be in the place of the register tile."""
    x, deep, wide = random(1, 64, 20, 20), random(64, 1, 3, 3), random(96, 64, 1, 1)
    inner = porism.relu(porism.conv2d(porism.asarray(x), deep, padding=1, groups=64))
    first, second = porism.kernels(porism.conv2d(inner, wide))
    assert "local" not in first.text + second.text
    assert "a row that a long product computes" in first.why


def test_a_product_that_is_used_in_parts_is_stored() -> None:
    a, b = random(40, 96), random(96, 60)
    product = porism.asarray(a) @ b
    result = product[:, :30] * porism.relu(product[:, 30:])
    first, _ = porism.kernels(result)
    assert first.why.startswith("its kernel would compute several elements of it")
    whole = a @ b
    assert_close(result, whole[:, :30] * np.maximum(whole[:, 30:], 0))


def test_a_product_in_short_rows_is_stored_in_its_own() -> None:
    x, weight = random(1, 16, 12, 12), random(8, 16, 3, 3)
    result = porism.pixel_shuffle(porism.conv2d(porism.asarray(x), weight, padding=1), 2)
    first, _ = porism.kernels(result)
    assert first.why.startswith("its kernel writes rows of 2 elements, and it has longer ones")
    y = convolve(x, weight, padding=1).reshape(2, 2, 2, 12, 12)
    assert_close(result, y.transpose(0, 3, 1, 4, 2).reshape(1, 2, 24, 24))


def test_equal_convolutions_are_one_kernel() -> None:
    x = porism.asarray(random(1, 16, 9, 9))
    for _ in range(4):
        x = porism.relu(porism.conv2d(x, random(16, 16, 3, 3), padding=1))
    kernels = porism.kernels(x)
    assert len(kernels) == 4
    assert len({kernel.node for kernel in kernels}) == 1


# -- reasons ---------------------------------------------------------------------------------------


def reasons(result: Tensor) -> list[str]:
    return [kernel.why for kernel in porism.kernels(result)]


REQUESTERS: dict[str, Tensor] = {
    "a sort network": porism.sort(random(5, 100)),
    "a strided conv_transpose": porism.conv_transpose2d(
        random(1, 8, 16, 16), random(8, 5, 4, 4), stride=2
    ),
    "a reduction in two steps": porism.sum(porism.asarray(random(1 << 20))),
}


@pytest.mark.parametrize("requester", REQUESTERS)
def test_a_reason_names_who_needs_a_value_in_memory(requester: str) -> None:
    given = reasons(REQUESTERS[requester])
    assert any(why.startswith(f"{requester} needs it in memory") for why in given), given
    assert not any("CONTIGUOUS" in why or "contiguous()" in why for why in given)


def test_a_contiguous_of_the_user_is_named() -> None:
    x = porism.asarray(random(8, 8))
    result = Tensor(primitive.contiguous((x + 1).node)).sum()
    assert reasons(result)[0] == "contiguous() was called on it; read by kernel 1"


def test_a_stored_value_names_the_costs_of_the_alternatives() -> None:
    hidden = porism.relu(porism.asarray(random(256, 512)) @ random(512, 512))
    first, _ = reasons(hidden @ random(512, 64))
    assert first == (
        "it is used 64 times: storing it costs 1.69e+08 additions, recomputing it 8.62e+09; "
        "no local buffer from a cost of 400 an element on; read by kernel 1"
    )


def test_a_recomputed_value_is_named_by_the_kernel_that_recomputes_it() -> None:
    x = porism.exp2(porism.asarray(random(2, 6000)))
    (why,) = reasons(x * x.flip(1))
    assert why == (
        "it is an output; it recomputes a value of 2 x 6000 elements at each use, "
        "which costs 2.64e+05 additions, and storing it 3.24e+05"
    )


# -- targets ---------------------------------------------------------------------------------------


def graph_of(result: Tensor) -> UOp:
    return request([result.node]).graph


def test_the_storage_model_of_the_target_decides() -> None:
    """Where storing is free, a value that is recomputed otherwise is stored."""
    x = porism.exp2(porism.asarray(random(2, 6)))
    graph = graph_of(x.reshape(2, 6, 1) * x.reshape(2, 1, 6))
    storage = StorageModel(store_global=0.0, load_global=0.0, local_bytes=0)
    assert len(rangeify(graph).reasons) == 1
    assert len(rangeify(graph, replace(GENERIC_CPU, storage=storage)).reasons) == 2
