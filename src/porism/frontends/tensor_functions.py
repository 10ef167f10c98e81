"""Tensor functions: the public functions on tensors by name, each imported at its first use."""

from __future__ import annotations

from typing import Any, Final

from porism.tensor import namespace


class TensorFunctions:
    """Has every function and type of the namespace as an attribute."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)  # what inspection asks every object for
        value = namespace.find(name)
        setattr(self, name, value)
        return value


xp: Final[Any] = TensorFunctions()
"""The namespace of functions on tensors."""
