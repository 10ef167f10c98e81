"""Porism: a tensor compiler whose rewrite rules are data, and proved.

>>> import porism
>>> porism.simplify("(r*8 + v) % 7", {"r": (0, 3), "v": (0, 2)}).text
'r + v'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from porism.simplifier.simplify import simplify

__all__ = ["__version__", "simplify"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Imported when it is first used, so that `import porism` costs nothing.
    if name == "simplify":
        from porism.simplifier.simplify import simplify

        return simplify
    raise AttributeError(f"module 'porism' has no attribute {name!r}")
