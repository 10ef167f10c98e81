"""Einops backend: what einops calls for tensors, so that `einops.rearrange(x, …)` takes them.

einops chooses a backend by the type of a tensor, among the subclasses of its own class that exist.
Ours is made when einops has been imported and a name of `porism` is first used; einops is not
needed otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from porism.tensor.tensor import Tensor

_registered: Final[list[type]] = []


def register_if_imported() -> None:
    """Make the backend, once, if einops has been imported."""
    base = getattr(sys.modules.get("einops._backends"), "AbstractBackend", None)
    if _registered or base is None:
        return
    _registered.append(type("PorismBackend", (TensorCalls, base), {"framework_name": "porism"}))


class TensorCalls:
    """The calls of einops on tensors."""

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Whether it is a tensor of Porism."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:
        """Return a tensor of an array."""
        return _function("asarray")(x)  # type: ignore[no-any-return]

    def to_numpy(self, x: Tensor) -> Any:
        """Return the values."""
        return x.numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        """Return the integers from start to stop - 1."""
        return _function("arange")(start, stop)  # type: ignore[no-any-return]

    def shape(self, x: Tensor) -> tuple[int, ...]:
        """Return the sizes of the axes."""
        return x.shape

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Return the elements under another shape."""
        return x.reshape(tuple(shape))

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Return the axes in another order."""
        return x.permute_dims(tuple(axes))

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
        """Return a reduction along axes: min, max, sum, mean, prod, any or all."""
        return getattr(x, operation)(axis=tuple(axes))  # type: ignore[no-any-return]

    def stack_on_zeroth_dimension(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return tensors stacked along a new first axis."""
        return _function("stack")(list(tensors))  # type: ignore[no-any-return]

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        """Return the tensor with a new axis."""
        return x.expand_dims(new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        """Return the tensor with new axes of some sizes, along which it is repeated."""
        sizes = list(x.shape)
        for position in sorted(pos2len):
            x = x.expand_dims(position)
            sizes.insert(position, pos2len[position])
        return x.broadcast_to(tuple(sizes))

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        """Return the tensor repeated along its axes."""
        return x.tile(tuple(repeats))

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Return tensors joined along an axis."""
        return _function("concat")(list(tensors), axis)  # type: ignore[no-any-return]

    def is_float_type(self, x: Tensor) -> bool:
        """Whether the elements are floats, of which there is a mean."""
        return x.dtype.kind in "fc"

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        """Return a sum of products."""
        return _function("einsum")(pattern, *x)  # type: ignore[no-any-return]


def _function(name: str) -> Any:
    """Return a function of the namespace."""
    return import_module("porism.tensor.namespace").find(name)
