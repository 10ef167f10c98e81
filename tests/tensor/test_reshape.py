"""Movement, joining, padding and repetition against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError, ShapeError, TypeMismatch
from porism.ir import ops
from porism.ir.traversal import toposort
from porism.tensor.shapes import OutOfRange
from tests.tensor.oracle import agree, draw, refuses
from tests.tensor.singles import singles

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def tensor(x: Any = X) -> Any:
    return porism.asarray(x)


@pytest.mark.parametrize("shape", [(24,), (4, 6), (-1,), (2, -1, 2), (1, 24, 1), (3, 8)], ids=str)
def test_reshape(shape: tuple[int, ...]) -> None:
    agree(porism.reshape(tensor(), shape), X.reshape(shape))
    agree(tensor().reshape(*shape), X.reshape(shape))


def test_reshape_of_other_tensors() -> None:
    agree(porism.reshape(5, (1, 1)), np.reshape(5, (1, 1)))
    agree(porism.ones(1).reshape(()), np.ones((), np.float32))
    agree(porism.zeros(0, 3).reshape(3, 0, 2), np.zeros((3, 0, 2), np.float32))
    agree(porism.zeros(0, 3).reshape(-1, 3), np.zeros((0, 3), np.float32))
    agree(tensor(X[:, :, :0]).reshape(0), np.zeros(0, np.float32))
    agree(tensor().flatten(), X.reshape(-1))
    agree(tensor().flatten(1), X.reshape(2, 12))
    agree(tensor().flatten(0, 1), X.reshape(6, 4))
    agree(porism.flatten(3.0), singles([3]))
    agree(tensor().unflatten(2, (2, -1)), X.reshape(2, 3, 2, 2))


def test_order_of_axes() -> None:
    for order in itertools.permutations(range(3)):
        agree(porism.permute_dims(tensor(), order), X.transpose(order))
    agree(tensor().permute(-1, 0, 1), X.transpose(2, 0, 1))
    agree(tensor().T, X.T)
    agree(tensor().mT, X.swapaxes(-1, -2))
    agree(porism.matrix_transpose(tensor()), X.swapaxes(-1, -2))
    agree(tensor().transpose(), X.T)
    agree(tensor().transpose(0, 2), X.swapaxes(0, 2))
    agree(tensor().transpose((1, 0, 2)), X.transpose(1, 0, 2))
    agree(tensor().swapaxes(0, -1), X.swapaxes(0, -1))
    agree(porism.moveaxis(tensor(), 0, -1), np.moveaxis(X, 0, -1))
    agree(porism.moveaxis(tensor(), (0, 1), (2, 0)), np.moveaxis(X, (0, 1), (2, 0)))


def test_axes_of_size_one() -> None:
    agree(porism.expand_dims(tensor(), axis=1), X[:, None])
    agree(porism.expand_dims(tensor(), axis=(0, -1)), X[None, ..., None])
    agree(tensor().unsqueeze(-1), X[..., None])
    agree(tensor(X[None, :, :1]).squeeze(), X[:, 0])
    agree(tensor(X[None, :, :1]).squeeze(axis=0), X[:, :1])
    agree(tensor(X[None, :, :1]).squeeze(axis=(0, 2)), X[:, 0])


def test_flips() -> None:
    for axis in (None, 0, -1, (0, 2)):
        agree(porism.flip(tensor(), axis=axis), np.flip(X, axis))


def test_broadcasts() -> None:
    agree(porism.broadcast_to(tensor(), (5, 2, 3, 4)), np.broadcast_to(X, (5, 2, 3, 4)))
    agree(porism.broadcast_to(3.0, (2, 2)), np.full((2, 2), 3, np.float32))
    agree(tensor(X[:, :1]).expand(-1, 3, -1), np.broadcast_to(X[:, :1], X.shape))
    agree(porism.ones(4).expand(2, -1), np.ones((2, 4), np.float32))
    for ours, theirs in zip(
        porism.broadcast_arrays(X[:, :1], X[0]), np.broadcast_arrays(X[:, :1], X[0]), strict=True
    ):
        agree(ours, theirs)
    assert porism.broadcast_shapes((2, 1), (3,)) == (2, 3)


def test_diagonals() -> None:
    for shape in ((3, 3), (2, 5), (5, 2), (2, 3, 4)):
        x = draw("float32", shape)
        for offset in (-3, -1, 0, 1, 4, 9):
            expected = np.diagonal(x, offset, -2, -1)
            agree(porism.diagonal(x, offset), expected)
    agree(porism.diagonal(X, axis1=0, axis2=2), np.diagonal(X, 0, 0, 2))


def test_pixel_shuffle() -> None:
    x = draw("float32", (2, 8, 3, 5))
    expected = x.reshape(2, 2, 2, 2, 3, 5).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 6, 10)
    agree(porism.pixel_shuffle(x, 2), expected)
    agree(porism.pixel_unshuffle(porism.pixel_shuffle(x, 2), 2), x)


# -- joining ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis: int) -> None:
    parts = [X, X + 100, X * 2]
    agree(porism.concat(parts, axis=axis), np.concatenate(parts, axis))
    agree(porism.stack(parts, axis=axis), np.stack(parts, axis))


def test_concat_of_different_sizes() -> None:
    parts = [X[:, :1], X[:, :0], X, X[:, 1:]]
    agree(porism.concat(parts, axis=1), np.concatenate(parts, 1))
    agree(porism.concat(parts, axis=None), np.concatenate(parts, None))
    agree(porism.concat([X]), X)
    agree(porism.concat([X[:0], X[:0]]), X[:0])
    agree(porism.concat([[1, 2], [0.5]]), singles([1, 2, 0.5]))


def test_concat_keeps_every_bit() -> None:
    special = singles([-0.0, np.nan, np.inf, -np.inf, 0.0])
    got = porism.concat([special, special]).numpy()
    assert got.tobytes() == np.concatenate([special, special]).tobytes()


def test_many_tensors_are_joined_in_groups() -> None:
    parts = [np.full(2, k) for k in range(70)]
    joined = porism.stack([porism.asarray(part) + 0 for part in parts])
    made = [node.op for node in toposort(joined.node)]
    assert made.count(ops.CONTIGUOUS) == 3
    agree(joined, np.stack(parts))


def test_split_chunk_unstack() -> None:
    for ours, theirs in (
        (porism.split(X, 2, axis=2), np.split(X, 2, 2)),
        (porism.split(X, 3, axis=2), [X[..., :3], X[..., 3:]]),
        (porism.split(X, [1, 0, 2], axis=1), [X[:, :1], X[:, 1:1], X[:, 1:]]),
        (porism.chunk(X, 3, axis=-1), [X[..., :2], X[..., 2:]]),
        (tensor().chunk(2), [X[:1], X[1:]]),
        (porism.unstack(X, axis=1), [X[:, 0], X[:, 1], X[:, 2]]),
        (tuple(tensor()), [X[0], X[1]]),
    ):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            agree(a, b)


def test_roll() -> None:
    for shift, axis in ((1, 0), (-1, 2), (5, 2), (0, 1), ((1, 2), (0, 2)), ((1, 1), (2, 2))):
        agree(porism.roll(X, shift, axis), np.roll(X, shift, axis))
    agree(porism.roll(X, 5), np.roll(X, 5))
    agree(porism.roll(X[:0], 1, 0), X[:0])


def test_meshgrid() -> None:
    lists = [1, 2, 3], [4.0, 5.0], [6]
    for indexing in ("xy", "ij"):
        theirs = np.meshgrid(*[singles(n) for n in lists], indexing=indexing)
        for a, b in zip(porism.meshgrid(*lists, indexing=indexing), theirs, strict=True):
            agree(a, b)


# -- padding ---------------------------------------------------------------------------------------

THEIR_MODES = {"replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", ["reflect", "symmetric", "edge", "replicate", "wrap", "circular"])
def test_padding_with_elements(mode: str) -> None:
    for pairs in (((0, 0), (1, 2), (3, 0)), ((1, 1), (0, 1), (2, 3)), ((0, 0),) * 3):
        theirs: Any = np.pad(X, pairs, THEIR_MODES.get(mode, mode))
        agree(porism.pad(X, pairs, mode), theirs)


def test_padding_with_a_value() -> None:
    pairs = ((1, 0), (0, 2), (3, 1))
    agree(porism.pad(X, pairs), np.pad(X, pairs))
    agree(porism.pad(X, pairs, value=-1.5), np.pad(X, pairs, constant_values=-1.5))
    agree(porism.pad(X, 1, value=7), np.pad(X, 1, constant_values=7))
    agree(porism.pad(X, (1, 2)), np.pad(X, ((0, 0), (0, 0), (1, 2))))
    agree(porism.pad(X, (1, 2, 3, 4)), np.pad(X, ((0, 0), (3, 4), (1, 2))))
    agree(porism.pad(X, (-1, 2)), np.pad(X[..., 1:], ((0, 0), (0, 0), (0, 2))))
    agree(porism.pad(np.array([True]), 1, value=True), np.array([True] * 3))
    agree(porism.pad(X[:0], ((1, 1), (0, 0), (0, 0))), np.zeros((2, 3, 4), np.float32))


# -- repetition ------------------------------------------------------------------------------------


def test_repeat() -> None:
    for repeats, axis in ((2, 0), (3, -1), (0, 1), (1, 1), ([1, 0, 2], 1), ([2], 1)):
        agree(porism.repeat(X, repeats, axis=axis), np.repeat(X, repeats, axis))
    agree(tensor().repeat(2), np.repeat(X, 2))


def test_repeats_are_what_numpy_takes_for_counts() -> None:
    for counts in ([2, 1], (0, 3), np.array([1, 2], np.uint8), [True, False], 2, [3]):
        expected = np.repeat([1, 2], counts)
        agree(porism.repeat([1, 2], counts), expected)
        agree(porism.repeat([1, 2], porism.asarray(counts)), expected)
    for empty in (np.zeros(0), np.zeros((0, 2))):
        agree(porism.repeat(empty, [], axis=0), empty)
        agree(porism.repeat(empty, 3, axis=0), empty)
    with refuses(ShapeError, "repeats of shape (0,) along an axis of 2 elements"):
        porism.repeat([1, 2], [])
    with refuses(PorismError, "inside of a jitted function"):
        porism.jit(lambda counts: porism.repeat([1, 2], counts))(porism.asarray([1, 2]))


def test_tile() -> None:
    for times in (2, (2, 1), (1, 2, 3), (2, 1, 1, 2), (0,), ()):
        agree(porism.tile(X, times), np.tile(X, times))


def test_unfold() -> None:
    x = draw("float32", (2, 3, 6, 7))
    for taps, stride, padding, dilation in (
        (2, 1, 0, 1),
        ((3, 2), 2, 1, 1),
        (2, (1, 3), 0, (2, 3)),
    ):
        agree(
            porism.unfold(x, taps, stride, padding, dilation),
            im2col(x, taps, stride, padding, dilation),
        )


def im2col(x: Any, taps: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """Return the columns of all windows, by loops."""
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = (
        n if isinstance(n, tuple) else (n, n) for n in (taps, stride, padding, dilation)
    )
    x = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    rows = range(0, x.shape[2] - (kh - 1) * dh, sh)
    columns = range(0, x.shape[3] - (kw - 1) * dw, sw)
    windows = [
        x[:, :, r : r + kh * dh : dh, c : c + kw * dw : dw].reshape(len(x), -1)
        for r in rows
        for c in columns
    ]
    return np.stack(windows, -1)


def test_movement_computes_nothing() -> None:
    x = porism.asarray(draw("float32", (2, 4, 4, 4)))
    made = porism.pixel_shuffle(x, 2).unfold(3, 2, 1)[:, ::2].flip(0).T
    allowed = {ops.BUFFER, ops.CONST}
    other = {n.op for n in toposort(made.node) if n.op.group is not ops.MOVEMENT} - allowed
    assert other == set()


# -- errors ----------------------------------------------------------------------------------------


def test_errors_of_reshaping() -> None:
    x = tensor()
    with refuses(ShapeError, "cannot reshape (2, 3, 4) to (5, 5)"):
        x.reshape(5, 5)
    with refuses(ShapeError, "cannot reshape (2, 3, 4) to (5, -1)"):
        x.reshape(5, -1)
    with refuses(ShapeError, "cannot reshape (2, 3, 4) to (-1, -1)"):
        x.reshape(-1, -1)
    with refuses(ShapeError, "the shape (-2,) has the size -2"):
        x.reshape(-2)
    with refuses(ShapeError, "cannot reshape (0,) to (0, -1)"):
        porism.zeros(0).reshape(0, -1)
    with refuses(OutOfRange, "there is no axis 3 in a tensor of 3 axes"):
        x.flip(3)
    with refuses(ShapeError, "there is no axis 0 in a tensor of 0 axes"):
        porism.flip(porism.asarray(1), 0)
    with refuses(ShapeError, "axis 0 is named twice in (0, -3)"):
        x.flip((0, -3))
    with refuses(ShapeError, "axis is 1.5"):
        x.flip(1.5)
    with refuses(ShapeError, "permute_dims by (0, 1) of a tensor of shape (2, 3, 4)"):
        x.permute_dims(0, 1)
    with refuses(ShapeError, "cannot squeeze axis 1 of a tensor of shape (2, 3, 4)"):
        x.squeeze(1)
    with refuses(ShapeError, "the shapes (2, 3, 4) and (5, 4) do not go together"):
        x.broadcast_to((5, 4))
    with refuses(ShapeError, "cannot broadcast (2, 3, 4) to (4,)"):
        x.broadcast_to((4,))
    with refuses(ShapeError, "expand of (2, 3, 4) to (-1, 2, 3, 4)"):
        x.expand(-1, 2, 3, 4)
    with refuses(ShapeError, "flatten from axis 2 to axis 1"):
        x.flatten(2, 1)
    with refuses(ShapeError, "moveaxis of 2 axes to 1 positions"):
        porism.moveaxis(x, (0, 1), 0)
    with refuses(ShapeError, "matrix_transpose of a tensor of shape (3,)"):
        porism.matrix_transpose([1, 2, 3])


def test_errors_of_joining() -> None:
    x = tensor()
    with refuses(ShapeError, "cannot join tensors of shapes (2, 3, 4) and (2, 2, 4) along axis 0"):
        porism.concat([x, X[:, :2]])
    with refuses(ShapeError, "concat of no tensors"):
        porism.concat([])
    with refuses(ShapeError, "cannot stack tensors of shapes (2, 3, 4) and (2, 3)"):
        porism.stack([X, X[..., 0]])
    with refuses(ShapeError, "split of an axis of size 3 into [1, 1]"):
        x.split([1, 1], axis=1)
    with refuses(ShapeError, "split into parts of 0"):
        x.split(0)
    with refuses(ShapeError, "0 chunks"):
        x.chunk(0)
    with refuses(ShapeError, "roll by 2 shifts along 1 axes"):
        x.roll((1, 2), 0)
    with refuses(ShapeError, "meshgrid with indexing 'ji'"):
        porism.meshgrid([1], indexing="ji")


def test_errors_of_padding_and_windows() -> None:
    x = tensor()
    with refuses(ShapeError, "pad with mode 'reflect' of axis 1, of size 3, by 3 and 0"):
        x.pad(((0, 0), (3, 0), (0, 0)), "reflect")
    with refuses(ShapeError, "pad with mode 'mirror'"):
        x.pad(1, "mirror")
    with refuses(ShapeError, "pad of a tensor of 3 axes by (1, 2, 3)"):
        x.pad((1, 2, 3))
    with refuses(ShapeError, "pad of axis 2, of size 4, by -3 and -3"):
        x.pad((-3, -3))
    with refuses(TypeMismatch, "0.5 cannot be int64"):
        porism.pad([1], 1, value=0.5)
    with refuses(ShapeError, "-1 repeats"):
        x.repeat(-1, 0)
    with refuses(ShapeError, "repeats of shape (2,) along an axis of 3 elements"):
        x.repeat([1, 2], 1)
    with refuses(ShapeError, "unfold of spatial sizes (4,) with windows of (5,)"):
        x.unfold(5)
    with refuses(ShapeError, "pixel_shuffle by 2 of a tensor of shape (2, 3, 4)"):
        x.pixel_shuffle(2)


# -- many tensors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_many_tensors_are_joined(axis: int) -> None:
    """Realized tensors are copied at once; others, and traced ones, are joined by kernels."""
    arrays = [np.full((2, 3), k, np.float32) for k in range(100)]
    tensors = [porism.asarray(array) for array in arrays]
    lazy = [*tensors[:-1], tensors[-1] + 0]
    for function, numpys in ((porism.stack, np.stack), (porism.concat, np.concatenate)):
        actual = function(tensors, axis)
        assert actual.node.op is ops.BUFFER
        agree(actual, numpys(arrays, axis))
        agree(function(lazy, axis), numpys(arrays, axis))
        agree(porism.jit(lambda *xs, f=function: f(xs, axis))(*tensors), numpys(arrays, axis))
    mixed = [*tensors, porism.asarray(np.ones((2, 3)))]
    agree(porism.stack(mixed), np.stack([*arrays, np.ones((2, 3))]))
    tensors[0][0, 0] = 7
    assert actual.numpy().max() == 99


def test_ten_thousand_tensors_are_stacked() -> None:
    tensors = [porism.asarray(np.full(3, k, np.float32)) for k in range(10_000)]
    np.testing.assert_array_equal(porism.stack(tensors).numpy()[:, 2], np.arange(10_000))
