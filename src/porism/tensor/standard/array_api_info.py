"""Array API info: what `__array_namespace_info__` of the standard tells about this library."""

from __future__ import annotations

from typing import Any, Final

from porism.tensor.api.dtype_info import isdtype
from porism.tensor.element_types import ElementType
from porism.tensor.promotion import DEFAULT_FLOAT, DEFAULT_INT, ELEMENT_TYPE_OF, ELEMENT_TYPES
from porism.tensor.standard.devices import check_device, devices, new_device

_STANDARD: Final = tuple(
    name for name in ELEMENT_TYPES if name not in ("float16", "bfloat16") and "float8" not in name
)
"""The types of the standard."""


class NamespaceInfo:
    """The capabilities, devices and types of the namespace, as the standard asks for them."""

    def capabilities(self) -> dict[str, Any]:
        """Return what the namespace supports beyond the minimum of the standard."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """Return the device that computes tensors by default."""
        return new_device(None)

    def default_dtypes(self, *, device: Any = None) -> dict[str, ElementType]:
        """Return the types of tensors that are made without one."""
        check_device(device)
        return {
            "real floating": ELEMENT_TYPE_OF[DEFAULT_FLOAT],
            "complex floating": ELEMENT_TYPES["complex64"],
            "integral": ELEMENT_TYPE_OF[DEFAULT_INT],
            "indexing": ELEMENT_TYPE_OF[DEFAULT_INT],
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, ElementType]:
        """Return the types of the standard by name, those of a kind or of a tuple of kinds."""
        check_device(device)
        return {
            name: ELEMENT_TYPES[name] for name in _STANDARD if kind is None or isdtype(name, kind)
        }

    def devices(self) -> tuple[str, ...]:
        """Return all devices."""
        return devices()


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807 - the standard's name
    """Return information on the namespace: `capabilities()`, `devices()`, `dtypes()` …

    >>> porism.__array_namespace_info__().default_device()
    'cpu'
    """
    return NamespaceInfo()
