"""Public namespace: the functions and types of `porism` by name, each imported at its first use."""

from __future__ import annotations

from typing import Any, Final

from porism.tensor import namespace


class Namespace:
    """Has every function and type of the namespace as an attribute."""

    def __getattr__(self, name: str) -> Any:
        value = namespace.find(name)
        setattr(self, name, value)
        return value


xp: Final[Any] = Namespace()
"""The functions and types of `porism`."""
