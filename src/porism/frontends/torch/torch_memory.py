"""Torch memory: tensors of torch as tensors of Porism and back, on the CPU and without copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np
import torch

from porism.engine.run.buffer_storage import host_array_of
from porism.tensor.complex.complex_tensor import ComplexTensor, as_complex
from porism.tensor.conversion import from_array
from porism.tensor.tensor import Tensor

VIEWS: Final[dict[torch.dtype, tuple[torch.dtype, Any]]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
    torch.uint16: (torch.int16, np.uint16),
    torch.uint32: (torch.int32, np.uint32),
    torch.uint64: (torch.int64, np.uint64),
}
"""Types that torch does not hand to NumPy: an integer type of the same width, and NumPy's."""

NAMES: Final[dict[torch.dtype, str]] = {
    getattr(torch, name): name
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
        *("complex64", "complex128"),
    )
}
"""The types that tensors of both have."""


def from_torch(x: torch.Tensor) -> Tensor:
    """Return a tensor of torch as one of Porism; it shares the memory of a contiguous real one."""
    x = x.detach()
    if x.is_neg() or x.is_conj():
        x = x.resolve_neg().resolve_conj()
    if not x.is_contiguous():
        x = x.contiguous()
    if x.is_complex():
        return as_complex(x.numpy())
    view = VIEWS.get(x.dtype)
    if view is None:
        return from_array(x.numpy())
    return from_array(x.view(view[0]).numpy().view(view[1]))


def to_torch(x: Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a computed tensor as a contiguous one of torch, of a type."""
    if isinstance(x, ComplexTensor):
        part = torch.float64 if dtype is torch.complex128 else torch.float32
        return torch.complex(to_torch(x.real_part, part), to_torch(x.imag_part, part))
    buffer = x._buffer()
    array = host_array_of(buffer).reshape([int(size.arg) for size in buffer.src])
    carrier = carrier_of(dtype)
    return (
        torch.from_numpy(array)
        if carrier is None
        else torch.from_numpy(array.view(carrier)).view(dtype)
    )


def carrier_of(dtype: torch.dtype) -> np.dtype[Any] | None:
    """Return the integer type as which NumPy hands over a type that torch does not take of it."""
    view = VIEWS.get(dtype)
    return None if view is None else np.dtype(str(view[0]).removeprefix("torch."))


def with_strides(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return a tensor with the strides of another; itself if they are the same already.

    What torch has traced relies on the strides that it saw, so every tensor that is handed to it
    has them.
    """
    wanted = [s if isinstance(s, int) else int(s) for s in like.stride()]
    sizes = list(x.shape)
    same = all(a == b for n, a, b in zip(sizes, x.stride(), wanted, strict=True) if n > 1)
    if same or (x.numel() and 0 in [s for n, s in zip(sizes, wanted, strict=True) if n > 1]):
        return x
    strided = torch.empty_strided(sizes, wanted, dtype=x.dtype)
    strided.copy_(x)
    return strided


# -- the order of axes in memory -------------------------------------------------------------------


def memory_order(meta: torch.Tensor) -> tuple[int, ...]:
    """Return the axes of a tensor that torch has traced, as they lie in memory, outermost first.

    They are in their own order if the elements do not fill the memory in any order.
    """
    sizes, strides = [hint(n) for n in meta.shape], [hint(s) for s in meta.stride()]
    order = tuple(sorted(range(len(sizes)), key=lambda axis: -strides[axis]))
    dense = strides_in_order(sizes, order)
    if all(n == 1 or a == b for n, a, b in zip(sizes, strides, dense, strict=True)):
        return order
    return tuple(range(len(sizes)))


def strides_in_order(sizes: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a tensor whose axes lie in memory in an order, outermost first."""
    strides, step = [0] * len(sizes), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(sizes[axis], 1)
    return tuple(strides)


def hint(size: Any) -> int:
    """Return a symbolic number as it was in the example."""
    if isinstance(size, int):
        return size
    known = size.node.hint
    return 0 if known is None else int(known)
