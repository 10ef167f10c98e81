"""Tensors: lazy values with shapes and types, and the functions on them.

The package can be called, as the function `tensor`:

>>> porism.tensor([1, 2]).tolist()
[1, 2]
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """The type of this package, whose name is that of the function `tensor` as well."""

    def __call__(self, data: Any, dtype: Any = None, *, requires_grad: bool = False) -> Any:
        """Return a tensor with a copy of the data."""
        from porism.tensor import namespace

        namespace.load()  # so that tensors have all their methods
        tensor = namespace.find("tensor")
        return tensor(data, dtype, requires_grad=requires_grad)


sys.modules[__name__].__class__ = _CallablePackage
