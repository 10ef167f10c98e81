"""Functional: the functions of networks, which are those of `porism` itself, as PyTorch's module.

`import porism.nn.functional as F` works: `F.relu` is `porism.relu`.
"""

from __future__ import annotations

from typing import Any

from porism.tensor import namespace


def __getattr__(name: str) -> Any:
    """Return a function of `porism`."""
    if name.startswith("__"):
        raise AttributeError(f"module 'porism.nn.functional' has no attribute {name!r}")
    if name in namespace.NAMES or name in namespace.SYNONYMS:
        return globals().setdefault(name, namespace.find(name))
    raise namespace.unknown(name)


def __dir__() -> list[str]:
    return sorted(namespace.MODULE_OF)
