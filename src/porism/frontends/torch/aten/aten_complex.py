"""Complex operators of ATen: parts, conjugates, Fourier transforms; and who takes complex tensors.

A complex tensor of Porism is a pair of real ones. A row that computes with real numbers alone, by
their order or by a derivative without conjugates, must not see one: rows are named here. Products
of matrices are not among them: a complex one would be four real ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten import (
    aten_elementwise,
    aten_indexing,
    aten_movement,
    aten_reductions,
)
from porism.frontends.torch.aten.aten_table import aten, takes_complex
from porism.tensor.complex.complex_arithmetic import pair
from porism.tensor.fourier import transforms

OTHER_MODULES = (aten_elementwise, aten_indexing, aten_movement, aten_reductions)
"""The modules whose rows are named below; importing them fills the table."""


# -- parts -----------------------------------------------------------------------------------------


@aten("_conj.default", "_conj_physical.default", "conj_physical.default")
def conj(x: Any) -> Any:
    """Return complex conjugates."""
    return xp.conj(x)


@aten("resolve_conj.default", "resolve_neg.default")
def resolved(x: Any) -> Any:
    """Return x: what torch may put off is computed here at once."""
    return x


@aten("complex.default")
def complex_(real: Any, imag: Any) -> Any:
    """Return complex numbers from their parts."""
    return pair(*xp.broadcast_arrays(real, imag))


@aten("polar.default")
def polar(magnitude: Any, angle: Any) -> Any:
    """Return complex numbers from magnitudes and angles."""
    return complex_(magnitude * xp.cos(angle), magnitude * xp.sin(angle))


@aten("view_as_complex.default", "view_as_complex_copy.default")
def view_as_complex(x: Any) -> Any:
    """Return complex numbers whose parts are the last axis."""
    return pair(x[..., 0], x[..., 1])


@aten("view_as_real.default", "view_as_real_copy.default")
def view_as_real(x: Any) -> Any:
    """Return the parts of complex numbers as a last axis."""
    return xp.stack([xp.real(x), xp.imag(x)], axis=-1)


@aten("real.default")
def real(x: Any) -> Any:
    """Return real parts."""
    return xp.real(x)


@aten("imag.default")
def imag(x: Any) -> Any:
    """Return imaginary parts."""
    return xp.imag(x)


# -- Fourier transforms; in float64, since the terms of small elements of a result cancel ----------


def _normalized(x: Any, sizes: Sequence[int], normalization: int) -> Any:
    """Return a transform that was not scaled, by 1, the root of its size or its size (0, 1, 2)."""
    count = math.prod(sizes)
    return x * (1.0, 1 / math.sqrt(count), 1 / count)[normalization] if normalization else x


def _along(x: Any, dim: Sequence[int], forward: bool) -> Any:
    """Return a transform along some axes, not scaled."""
    x = x.astype("complex128")
    for axis in dim:
        x = (
            transforms.fft(x, axis=axis, norm="backward")
            if forward
            else transforms.ifft(x, axis=axis, norm="forward")
        )
    return x


@aten("_fft_c2c.default")
def fft_c2c(x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    """Return the transform of complex numbers along axes, or the inverse one."""
    sizes = [x.shape[axis] for axis in dim]
    return _normalized(_along(x, dim, forward), sizes, normalization)


@aten("_fft_r2c.default")
def fft_r2c(x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    """Return the transform of real numbers along axes; its first half along the last of them."""
    sizes = [x.shape[axis] for axis in dim]
    if onesided:
        half = transforms.rfft(x.astype("float64"), axis=dim[-1], norm="backward")
        return _normalized(_along(half, dim[:-1], True), sizes, normalization)
    return _normalized(_along(x, dim, True), sizes, normalization)


@aten("_fft_c2r.default")
def fft_c2r(x: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    """Return the real inverse transform of the first half of a symmetric one."""
    sizes = [*(x.shape[axis] for axis in dim[:-1]), last_dim_size]
    whole = _along(x, dim[:-1], False)
    result = transforms.irfft(whole, n=last_dim_size, axis=dim[-1], norm="forward")
    return _normalized(result, sizes, normalization)


# -- rows of other modules that compute the same on complex tensors --------------------------------

takes_complex(
    *("_conj.default", "_conj_physical.default", "conj_physical.default", "complex.default"),
    *("resolve_conj.default", "resolve_neg.default", "polar.default", "real.default"),
    *("view_as_complex.default", "view_as_complex_copy.default", "imag.default"),
    *("view_as_real.default", "view_as_real_copy.default"),
    *("_fft_c2c.default", "_fft_r2c.default", "_fft_c2r.default"),
    # arithmetic
    *("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "rsub.Tensor", "rsub.Scalar"),
    *("mul.Tensor", "mul.Scalar", "div.Tensor", "div.Scalar", "neg.default", "abs.default"),
    *("eq.Tensor", "eq.Scalar", "ne.Tensor", "ne.Scalar", "where.self"),
    *("sum.default", "sum.dim_IntList", "mean.default", "mean.dim"),
    # movement
    *("alias.default", "alias_copy.default", "detach.default", "detach_copy.default"),
    *("lift_fresh_copy.default", "clone.default", "_to_copy.default", "copy.default"),
    *("view.default", "view_copy.default", "reshape.default", "_unsafe_view.default"),
    *("_reshape_alias.default", "permute.default", "permute_copy.default"),
    *("transpose.int", "transpose_copy.int", "t.default", "t_copy.default"),
    *("unsqueeze.default", "unsqueeze_copy.default", "squeeze.default", "squeeze_copy.default"),
    *("squeeze.dim", "squeeze.dims", "expand.default", "expand_copy.default", "repeat.default"),
    *("flip.default", "roll.default", "slice.Tensor", "slice_copy.Tensor"),
    *("select.int", "select_copy.int", "cat.default", "stack.default"),
    *("split_with_sizes.default", "split_with_sizes_copy.default", "split.Tensor"),
    *("unbind.int", "unbind_copy.int", "diagonal.default", "diagonal_copy.default"),
    *("constant_pad_nd.default", "slice_scatter.default", "select_scatter.default"),
    *("zeros_like.default", "ones_like.default", "full.default", "empty_like.default"),
    *("index_select.default", "tril.default", "triu.default"),
)
