"""Porism: a tensor compiler whose rewrite rules are data, each proved by machine.

>>> import porism
>>> (porism.arange(4) * 2).tolist()
[0, 2, 4, 6]
>>> porism.simplify("(r*8 + v) % 7", {"r": (0, 3), "v": (0, 2)}).text
'r + v'
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

__version__ = "0.1.0"
__array_api_version__ = "2025.12"

SUBPACKAGES: Final = {
    "fft": "porism.fft",
    "linalg": "porism.linalg",
    "nn": "porism.nn",
    "onnx": "porism.onnx",
    "optim": "porism.optim",
    "torch": "porism.torch",
}
"""Packages that `porism.NAME` imports at the first use, by their paths."""

FUNCTIONS: Final = {
    "load": "porism.frontends.weights.weight_files",
    "save": "porism.frontends.weights.weight_files",
    "simplify": "porism.simplifier.simplify",
    "view": "porism.tensor.inspect.program_view",
}
"""Functions that `porism.NAME` imports at the first use, by their modules; not on tensors."""


def __getattr__(name: str) -> Any:
    # Imported at the first use, so that `import porism` is fast.
    if name == "__all__":
        return _star_names()
    if name in FUNCTIONS:
        return getattr(import_module(FUNCTIONS[name]), name)
    if name in SUBPACKAGES:
        return import_module(SUBPACKAGES[name])
    from porism.tensor import namespace

    if name in namespace.NAMES or name in namespace.SYNONYMS:
        return globals().setdefault(name, namespace.find(name))
    if name.startswith("__"):
        raise AttributeError(f"module 'porism' has no attribute {name!r}")
    raise namespace.unknown(name)


def __dir__() -> list[str]:
    """Return the public names, also those that are not imported yet, and none of other modules."""
    from porism.tensor import namespace

    special = (name for name in globals() if name.startswith("__"))
    return sorted({*special, *FUNCTIONS, *SUBPACKAGES, *namespace.NAMES})


def _star_names() -> list[str]:
    """Return the names that `from porism import *` imports: not those of Python's builtins."""
    import builtins

    return [name for name in __dir__() if not name.startswith("_") and not hasattr(builtins, name)]
