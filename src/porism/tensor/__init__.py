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

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Return a tensor with a copy of the data: the function `tensor`."""
        from porism.tensor import namespace

        return namespace.find("tensor")(*args, **options)


sys.modules[__name__].__class__ = _CallablePackage
