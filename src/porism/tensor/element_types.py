"""Element types: the types of tensors as users see them, `porism.float32`.

A user's type is one object for each type of the compiler that tensors can have. It has the
attributes that NumPy's types have, and is equal to whatever names the same type: NumPy's dtypes and
scalar classes, those of ml_dtypes, and names. The graph below knows only `porism.base.dtypes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from porism.base.dtypes import DType


class ElementType:
    """The type of the elements of a tensor: `x.dtype`, `porism.float32`, `porism.dtype("float32")`.

    >>> porism.float32, porism.float32.name, porism.float32.itemsize, porism.float32.kind
    (porism.float32, 'float32', 4, 'f')
    >>> porism.float32 == np.float32, porism.float32 == "float32", np.dtype(porism.float32)
    (True, True, dtype('float32'))
    """

    __slots__ = ("base", "itemsize", "kind", "name", "numpy")

    name: str
    """The name in `porism`, in NumPy and in ml_dtypes."""
    base: DType
    """The type of the elements in the graph."""
    numpy: np.dtype[Any]
    """The type of an array with the same elements; of ml_dtypes where NumPy has none."""
    kind: str
    """A letter as in NumPy: b for bool, i and u for integers, f for floats."""
    itemsize: int
    """The bytes of an element."""

    def __new__(cls, given: Any) -> ElementType:
        """Return the type of a name, of a type of NumPy or torch, or of a Python class."""
        from porism.tensor.promotion import ELEMENT_TYPE_OF, as_dtype

        return ELEMENT_TYPE_OF[as_dtype(given)]

    def __call__(self, value: Any = 0) -> Any:
        """Return a tensor of this type, as NumPy's and JAX's types return arrays.

        >>> porism.float32(1.5).item(), porism.int64([1, 2]).tolist()
        (1.5, [1, 2])
        """
        from porism.tensor.api.creation import asarray

        return asarray(value, dtype=self)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in NumPy, by which `numpy.dtype(porism.float32)` finds it."""
        return self.numpy

    @property
    def type(self) -> type[Any]:
        """NumPy's class of scalars of this type."""
        return self.numpy.type

    @property
    def is_floating_point(self) -> bool:
        """Whether the elements are floats."""
        return self.base.is_float

    def __repr__(self) -> str:
        return f"porism.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        """Whether another object names the same type, as for NumPy's dtypes."""
        if self is other:
            return True
        if isinstance(other, (ElementType, float, int)) or other is None or other is float:
            return False  # Python's float is float64 in NumPy and float32 here: equal to neither
        if isinstance(other, str) and other == self.name:
            return True
        if isinstance(other, DType):
            return other is self.base
        if name_of_torch(other) is not None:
            return name_of_torch(other) == self.name
        try:
            return bool(np.dtype(other) == self.numpy)  # type: ignore[call-overload]
        except (TypeError, ValueError):
            return False

    def __hash__(self) -> int:
        return hash(self.numpy)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return ElementType, (self.name,)

    def __copy__(self) -> ElementType:
        return self

    def __deepcopy__(self, _memo: object) -> ElementType:
        return self


def name_of_torch(given: object) -> str | None:
    """Return the name of a dtype of torch, such as float32; None for other objects."""
    if type(given).__module__ != "torch" or type(given).__name__ != "dtype":
        return None
    return str(given).removeprefix("torch.")


def new_element_type(name: str, base: DType) -> ElementType:
    """Return a new type of a name, whose elements have a type of the graph."""
    new = object.__new__(ElementType)
    new.name = name
    new.base = base
    new.numpy = base.numpy
    new.kind = "f" if base.is_float else base.numpy.kind
    new.itemsize = new.numpy.itemsize
    return new


dtype = ElementType
"""The public name of the class."""
