"""Tensors: lazy values with shapes and types, and the functions on them.

Two packages have the name of a function, and can be called as it:

>>> porism.tensor([1, 2]).tolist()
[1, 2]
>>> porism.gradient([1.0, 2.0, 4.0]).tolist()
[1.0, 1.5, 2.0]
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import porism.gradient


class _CallablePackage(ModuleType):
    """The type of a package whose name is that of a function as well."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Return the result of the function."""
        from porism.tensor import namespace

        return namespace.find(self.__name__.rpartition(".")[2])(*args, **options)


sys.modules[__name__].__class__ = _CallablePackage
porism.gradient.__class__ = _CallablePackage
