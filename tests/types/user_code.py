"""Typical code of users, which type checkers accept: functions, methods, operators, types."""

from __future__ import annotations

import math

import numpy as np

import porism
from porism import Tensor, jit


def softmax_regression(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return the probabilities of classes."""
    return porism.softmax(x @ weight + bias, axis=-1)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return attention by hand."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return scores.softmax(-1) @ v


@jit
def step(x: Tensor, rate: float = 0.1) -> Tensor:
    """Return a step of a descent."""
    return x - rate * (2 * x)


def arrays_and_lists() -> Tensor:
    """Mix arrays, lists, numbers and tensors."""
    a = porism.asarray([[1.0, 2.0], [3.0, 4.0]], dtype="float32")
    b = porism.asarray(np.ones((2, 2), np.float32), dtype=porism.float32)
    c = porism.zeros(2, 2, dtype=np.float32) + porism.ones((2, 2), dtype=float)
    d = porism.concat([a, b, c], axis=0)
    e = porism.where(d > 0, d, 0.0)
    e = porism.maximum(e, [[1.0, 2.0]]) + np.ones(2) - 1
    e[0, :] = 3.0
    e[1:, ::2] += 1
    return porism.stack([e, e * 2], axis=1).reshape(-1, 2).sum(axis=(0, 1), keepdims=True)


def values(x: Tensor) -> tuple[float, int, bool, list[int]]:
    """Take values out."""
    array: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = x.numpy()
    total = float(x.sum()) + array.sum() + np.asarray(x).mean()
    shape = [*range(x.shape[0]), x.ndim, x.size // 2]
    return float(total), int(x.argmax()), bool((x > 0).all()), shape


def types(x: Tensor) -> tuple[str, int, bool]:
    """Ask for types."""
    wanted: porism.dtype = porism.result_type(x, porism.float64)
    y = x.astype(wanted).astype("bfloat16").astype(np.dtype("int8"))
    return y.dtype.name, y.dtype.itemsize, porism.isdtype(y.dtype, "integral")


def exchange(x: Tensor) -> Tensor:
    """Hand memory over."""
    return porism.from_dlpack(np.from_dlpack(x)) + porism.from_dlpack(np.arange(3.0), copy=True)


def network(x: Tensor, weight: Tensor) -> Tensor:
    """Compute a convolution with what follows it."""
    y = porism.conv2d(x, weight, padding=1).relu()
    y = porism.max_pool2d(y, 2).flatten(1)
    loss = porism.cross_entropy(y, [0, 1])
    return loss.mean() + porism.mse_loss(y, porism.zeros_like(y))


def movement(x: Tensor) -> list[Tensor]:
    """Move elements."""
    top, positions = porism.topk(x, 2)
    parts = porism.split(x, 1)
    y = x.permute(1, 0).T.transpose(0, 1).flip(0).unsqueeze(0).squeeze()
    return [top, positions, *parts, y, x[None, ..., -1], porism.einsum("ij,jk->ik", x, x.T)]


if __name__ == "__main__":
    porism.seed(1)
    data = porism.randn(4, 3)
    print(softmax_regression(data, porism.rand(3, 2), porism.zeros(2)).tolist())
    print(step(data), values(arrays_and_lists()), types(data), exchange(porism.ones(3)))
    print(attention(data, data, data), movement(data)[0])
    print(network(porism.randn(2, 1, 4, 4), porism.randn(3, 1, 3, 3)).item())
    for name, kernel in enumerate(porism.kernels(data + 1)):
        print(name, kernel)
