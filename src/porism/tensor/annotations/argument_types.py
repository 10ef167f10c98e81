"""Argument types: what public functions take for tensors, axes, shapes and types.

For type checkers and readers alone: modules import these names while types are checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from porism.base.dtypes import DType
from porism.ir.node import UOp
from porism.tensor.element_types import ElementType

if TYPE_CHECKING:
    from porism.tensor.tensor import Tensor


class SupportsDLPack(Protocol):
    """An array of a library that hands values over by DLPack."""

    def __dlpack__(self, /) -> Any: ...
    def __dlpack_device__(self, /) -> tuple[Any, int]: ...


class SupportsDType(Protocol):
    """An object with a type of NumPy."""

    @property
    def dtype(self) -> np.dtype[Any]: ...


Size: TypeAlias = int | UOp | np.integer[Any]
"""A size of an axis: an int, or one that is symbolic."""

ShapeLike: TypeAlias = Size | Sequence[Size]
"""A shape: the sizes of the axes, or the size of the only one."""

Axis: TypeAlias = int | np.integer[Any]
"""An axis, counted from the front; a negative one from the end."""

AxesLike: TypeAlias = Axis | Sequence[Axis] | None
"""An axis, several of them, or None for all."""

DTypeLike: TypeAlias = ElementType | DType | str | np.dtype[Any] | type[Any] | SupportsDType
"""A type of tensors: porism.float32, a name, a type of NumPy or torch, bool, int or float."""

DLPackLike: TypeAlias = SupportsDLPack | npt.NDArray[Any]
"""An object with DLPack; arrays of NumPy have it, though not in all types."""

ArrayLike: TypeAlias = "Tensor | UOp | SupportsDLPack | npt.ArrayLike"
"""A tensor, or what becomes one: numbers, nested sequences, arrays, and objects with DLPack."""
