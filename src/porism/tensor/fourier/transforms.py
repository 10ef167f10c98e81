"""Transforms: `fft`, its inverse, and those of real and Hermitian tensors, along any axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from porism.base.dtypes import Kind, f32, f64
from porism.tensor.api.arithmetic import astype, multiply
from porism.tensor.api.creation import asarray
from porism.tensor.complex.complex_parts import conj
from porism.tensor.complex.complex_tensor import ComplexTensor, as_complex
from porism.tensor.fourier import fourier_stages
from porism.tensor.movement.pad import pad
from porism.tensor.movement.reshape import reshape
from porism.tensor.promotion import type_error
from porism.tensor.shapes import as_int, normalize_axis, product, shape_error
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor

_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _checked(norm: Any, what: str) -> str:
    """Return a mode of normalization, 'backward' for None; anything else is an error."""
    if norm is None:
        return "backward"
    if norm not in _OPPOSITE:
        raise type_error(
            f"{what} with norm={norm!r}",
            "the norms are 'backward', 'ortho' and 'forward'",
            "pass one of them",
        )
    return str(norm)


def _along(
    x: Tensor,
    n: int | None,
    axis: int,
    what: str,
    compute: Callable[[Tensor, int], Tensor],
    kept: Callable[[int], int] = int,
) -> Tensor:
    """Return a transform of n elements along an axis, of which `kept(n)` are read.

    The axis is cut, or filled up with zeros, to the elements that are read.
    """
    own = normalize_axis(axis, x.ndim)
    size = static_size(x.shape[own], what)
    count = size if n is None else as_int(n, f"n of {what}")
    if count < 1:
        raise shape_error(
            f"{what} of {count} elements", "a transform has at least one", "give n=1 or more"
        )
    read = kept(count)
    before, after = x.shape[:own], x.shape[own + 1 :]
    rows = reshape(x, (product(before), size, product(after)))
    if read < size:
        rows = rows[:, :read]
    elif read > size:
        rows = pad(rows, [(0, 0), (0, read - size), (0, 0)])
    result = compute(rows, count)
    return reshape(result, (*before, result.shape[1], *after))


def _complex(x: Any) -> ComplexTensor:
    """Return an operand as a complex tensor."""
    return as_complex(asarray(x))


def _real(x: Any, what: str) -> Tensor:
    """Return an operand as float32 or float64; refuse complex ones."""
    tensor = asarray(x)
    if tensor.dtype.base.kind is Kind.COMPLEX:
        raise type_error(
            f"{what} of a tensor of {tensor.dtype.name}",
            "it takes real tensors, whose transforms are symmetric",
            "use fft, or pass porism.real(x)",
        )
    return astype(tensor, f64 if tensor.dtype.base is f64 else f32)


def _scaled(x: Tensor, factor: float) -> Tensor:
    """Return x times a factor."""
    return x if factor == 1 else multiply(x, factor)


def fft(x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the discrete Fourier transform along an axis, which is complex.

    `n` is the number of elements: the axis is cut or filled up with zeros. `norm` says where the
    transform is divided by n: 'backward' (in the inverse, as by default), 'forward', or 'ortho'
    (both by √n).

    >>> porism.fft.fft([1.0, 0.0, 0.0, 0.0]).tolist()
    [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _transformed(x, n, axis, _checked(norm, "fft"), "fft", forward=True)


def ifft(x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the inverse of `fft` along an axis.

    >>> porism.fft.ifft([4.0, 0.0, 0.0, 0.0]).tolist()
    [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _transformed(x, n, axis, _checked(norm, "ifft"), "ifft", forward=False)


def _transformed(
    x: Any, n: int | None, axis: int, norm: str, what: str, *, forward: bool
) -> Tensor:
    """Return the transform, or its inverse, along an axis."""

    def compute(z: Tensor, count: int) -> Tensor:
        pair = as_complex(z)
        function = fourier_stages.transform if forward else fourier_stages.inverse
        factor = fourier_stages.scale_of(count, norm, forward=forward)
        parts = function(pair.real_part, pair.imag_part)
        return ComplexTensor(*(_scaled(part, factor) for part in parts))

    return _along(_complex(x), n, axis, what, compute)


def rfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the first n // 2 + 1 elements of the transform of a real tensor.

    >>> porism.fft.rfft([1.0, 1.0, 1.0, 1.0]).abs().numpy().round(3).tolist()
    [4.0, 0.0, 0.0]
    """
    mode = _checked(norm, "rfft")

    def compute(z: Tensor, count: int) -> Tensor:
        factor = fourier_stages.scale_of(count, mode, forward=True)
        return ComplexTensor(*(_scaled(p, factor) for p in fourier_stages.transform_real(z)))

    return _along(_real(x, "rfft"), n, axis, "rfft", compute)


def irfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the real tensor whose `rfft` is given; n is 2 · (size - 1) by default.

    >>> porism.fft.irfft([4.0, 0.0, 0.0]).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    mode = _checked(norm, "irfft")
    z = _complex(x)
    size = static_size(z.shape[normalize_axis(axis, z.ndim)], "irfft")
    count = 2 * (size - 1) if n is None else n

    def compute(half: Tensor, count: int) -> Tensor:
        pair = as_complex(half)
        factor = fourier_stages.scale_of(count, mode, forward=False)
        result = fourier_stages.inverse_real(pair.real_part, pair.imag_part, count)
        return _scaled(result, factor)

    return _along(z, count, axis, "irfft", compute, lambda n: n // 2 + 1)


def hfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the transform of a Hermitian tensor, given by its first half; it is real.

    >>> porism.fft.hfft([1.0, 1.0, 1.0]).tolist()
    [4.0, 0.0, 0.0, 0.0]
    """
    return irfft(conj(_complex(x)), n=n, axis=axis, norm=_OPPOSITE[_checked(norm, "hfft")])


def ihfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the first half of the Hermitian tensor whose `hfft` is given.

    >>> porism.fft.ihfft([4.0, 0.0, 0.0, 0.0]).real.tolist()
    [1.0, 1.0, 1.0]
    """
    mode = _OPPOSITE[_checked(norm, "ihfft")]
    return conj(rfft(_real(x, "ihfft"), n=n, axis=axis, norm=mode))


# -- several axes ----------------------------------------------------------------------------------


def _axes_and_sizes(
    x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None, what: str
) -> tuple[list[int], list[int | None]]:
    """Return the axes of a transform, and the numbers of elements, None for those of x."""
    if axes is None:
        first = 0 if s is None else x.ndim - len(s)
        along = list(range(first, x.ndim))
    else:
        along = [normalize_axis(axis, x.ndim) for axis in axes]
    if s is not None and len(s) != len(along):
        raise shape_error(
            f"{what} with {len(s)} sizes for {len(along)} axes",
            "each axis has one size",
            "give as many sizes as axes",
        )
    if not along:
        raise shape_error(f"{what} over no axes", "there is nothing to transform", "name an axis")
    return along, [None] * len(along) if s is None else list(s)


def fftn(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Tensor:
    """Return the transform along several axes, all by default; `s` are the numbers of elements.

    >>> porism.fft.fftn([[1.0, 0.0], [0.0, 0.0]]).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    result: Tensor = _complex(x)
    along, sizes = _axes_and_sizes(result, s, axes, "fftn")
    for axis, n in list(zip(along, sizes, strict=True))[::-1]:
        result = fft(result, n=n, axis=axis, norm=norm)
    return result


def ifftn(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Tensor:
    """Return the inverse of `fftn`.

    >>> porism.fft.ifftn([[4.0, 0.0], [0.0, 0.0]]).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    result: Tensor = _complex(x)
    along, sizes = _axes_and_sizes(result, s, axes, "ifftn")
    for axis, n in list(zip(along, sizes, strict=True))[::-1]:
        result = ifft(result, n=n, axis=axis, norm=norm)
    return result


def rfftn(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Tensor:
    """Return the transform of a real tensor along several axes, half of it along the last one.

    >>> porism.fft.rfftn([[1.0, 0.0], [0.0, 0.0]]).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    tensor = _real(x, "rfftn")
    along, sizes = _axes_and_sizes(tensor, s, axes, "rfftn")
    result = rfft(tensor, n=sizes[-1], axis=along[-1], norm=norm)
    for axis, n in list(zip(along[:-1], sizes[:-1], strict=True))[::-1]:
        result = fft(result, n=n, axis=axis, norm=norm)
    return result


def irfftn(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Tensor:
    """Return the real tensor whose `rfftn` is given.

    >>> porism.fft.irfftn([[4.0, 0.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    result: Tensor = _complex(x)
    along, sizes = _axes_and_sizes(result, s, axes, "irfftn")
    for axis, n in zip(along[:-1], sizes[:-1], strict=True):
        result = ifft(result, n=n, axis=axis, norm=norm)
    return irfft(result, n=sizes[-1], axis=along[-1], norm=norm)


def fft2(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
) -> Tensor:
    """Return the transform along two axes, the last ones by default.

    >>> porism.fft.fft2([[1.0, 0.0], [0.0, 0.0]]).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return fftn(x, s=s, axes=axes, norm=norm)


def ifft2(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
) -> Tensor:
    """Return the inverse of `fft2`.

    >>> porism.fft.ifft2([[4.0, 0.0], [0.0, 0.0]]).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return ifftn(x, s=s, axes=axes, norm=norm)


def rfft2(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
) -> Tensor:
    """Return the transform of a real tensor along two axes, half of it along the last one.

    >>> porism.fft.rfft2([[1.0, 0.0], [0.0, 0.0]]).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return rfftn(x, s=s, axes=axes, norm=norm)


def irfft2(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
) -> Tensor:
    """Return the real tensor whose `rfft2` is given.

    >>> porism.fft.irfft2([[4.0, 0.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return irfftn(x, s=s, axes=axes, norm=norm)
