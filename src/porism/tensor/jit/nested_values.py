"""Nested values: tensors inside dicts, lists, tuples and dataclasses, and the signature of a call.

The *signature* of arguments is what a trace depends on: the containers, of tensors the shape and
the type, of symbolic sizes the variables, and all other values themselves.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from porism.base import device_use
from porism.base.dtypes import DType
from porism.engine.run.realize import unbind
from porism.ir import ops
from porism.ir.facts.node_shape import Shape, shape
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.tensor.conversion import from_array, to_array
from porism.tensor.promotion import name_of, type_error
from porism.tensor.shapes import size_text, to_static, to_text
from porism.tensor.tensor import Tensor

TensorType = tuple[DType, Shape]
"""The type of a tensor's elements and its shape, whose symbolic sizes have no values."""

_BUFFER: Final = ops.BUFFER
REQUIRES_GRADIENT: Final = "requires gradient"
"""Follows a tensor in a signature that requires a gradient."""
_PLAIN: Final = frozenset({int, bool, str, bytes, types.NoneType, type, DType})
"""Classes of immutable values, which are part of a signature as they are."""


class Signature:
    """The signature of a call, and the tensors and symbolic sizes among its arguments."""

    __slots__ = ("lazy", "parts", "tensors", "variables")

    def __init__(self) -> None:
        self.parts: list[Any] = []
        """All that a trace depends on; equal for calls that can replay the same trace."""
        self.tensors: list[Tensor] = []
        self.variables: dict[str, int] = {}
        """The values of the symbolic sizes, by name."""
        self.lazy = False
        """Whether some of the tensors may not be computed yet."""

    def add_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Add all arguments: what they are, which are the same, and on which devices."""
        for value in args:
            self.add(value)
        if kwargs:
            self.parts.append(tuple(kwargs))
            for value in kwargs.values():
                self.add(value)
        if len(self.tensors) > 1:
            self.add_aliasing()
        if device_use.others_are_used:
            self.add_devices()

    def add(self, value: Any) -> None:
        """Add an argument to the signature."""
        kind = value.__class__
        if kind is Tensor:
            node = value._node
            if node.op is _BUFFER:
                self.parts.append((node.dtype, node.src))
            else:
                self.parts.append((node.dtype, unbound_shape(node, self.variables)))
                self.lazy = True
            self.tensors.append(value)
            if value._leaf is not None:
                self.parts.append(REQUIRES_GRADIENT)
        elif kind in _PLAIN:
            self.parts.append((kind, value))
        else:
            self._add_other(kind, value)

    def _add_other(self, kind: Any, value: Any) -> None:
        """Add an argument that is neither a plain tensor nor a plain value."""
        parts = self.parts
        inner = contents(value)
        if inner is not None:
            parts.append((kind, tuple((name.__class__, name) for name, _ in inner)))
            for _, item in inner:
                self.add(item)
        elif isinstance(value, float):
            parts.append((kind, value.hex()))  # -0.0 is not 0.0, and NaN is NaN
        elif kind is complex:
            parts.append((kind, value.real.hex(), value.imag.hex()))
        elif isinstance(value, np.generic):
            parts.append((kind, value.dtype, value.tobytes()))
        elif isinstance(value, Tensor):
            parts.append((kind, value.node.dtype, unbound_shape(value._node, self.variables)))
            self.tensors.append(value)
            self.lazy = True
        elif isinstance(value, UOp):
            parts.append((UOp, unbound_size(value, self.variables)))
        elif isinstance(value, np.ndarray):
            parts.append(np.ndarray)
            if value.dtype.kind == "c":
                from porism.tensor.complex.complex_tensor import as_complex

                self.add(as_complex(value))
            else:
                self.add(from_array(to_array(value)))
        else:
            parts.append((kind, _hashable(value)))

    def add_devices(self) -> None:
        """Add the devices of the tensors, and that of tensors that are made without one.

        Those that are on no device count as being on the device of the others, or on the default.
        """
        from porism.engine.device.device_placement import default_device, own_device

        devices = [own_device(tensor._node) for tensor in self.tensors]
        fixed = {device for device in devices if device is not None}
        usual = fixed.pop() if len(fixed) == 1 else default_device()
        self.parts.append((default_device(), *(device or usual for device in devices)))

    def add_aliasing(self) -> None:
        """Add which of the tensors are the same object, if any are."""
        tensors = self.tensors
        if len(set(map(id, tensors))) < len(tensors):
            first: dict[int, int] = {}
            self.parts.append(tuple(first.setdefault(id(t), k) for k, t in enumerate(tensors)))


def unbound_shape(node: UOp, variables: dict[str, int]) -> Shape:
    """Return the shape of a node without the values of symbolic sizes; note those values."""
    return tuple(
        dim if dim.op is ops.CONST else unbound_size(dim, variables) for dim in shape(node)
    )


def unbound_size(value: UOp, variables: dict[str, int]) -> UOp:
    """Return a symbolic size without the values of its variables; note those values."""
    binds = [node for node in toposort(value) if node.op is ops.BIND]
    return substitute(value, {node: unbind(node, variables) for node in binds})


def is_compared_by_identity(value: Any) -> bool:
    """Whether an argument without tensors has the same signature whenever it is the same object.

    >>> is_compared_by_identity(3), is_compared_by_identity([3])
    (True, False)
    """
    kind = value.__class__
    if kind in _PLAIN:
        return True
    known = (float, np.generic, Tensor, UOp, np.ndarray)
    return contents(value) is None and not isinstance(value, known) and _compares_by_identity(kind)


def _compares_by_identity(kind: type) -> bool:
    """Whether objects of a class equal only themselves."""
    return all(getattr(kind, name) is getattr(object, name) for name in ("__hash__", "__eq__"))


def _hashable(value: Any) -> Any:
    """Return a value that can be hashed; anything else is an error."""
    try:
        hash(value)
    except TypeError:
        raise type_error(
            f"a {type(value).__name__} as an argument or a result of a jitted function",
            "it holds no tensors that are known, and cannot be compared by its hash",
            "pass tensors, dicts, lists, tuples, dataclasses, or values that are hashable",
        ) from None
    return value


def tensor_parts(value: Any) -> tuple[Tensor, ...]:
    """Return the tensors of an argument that is a tensor: itself, or the parts of a complex one."""
    if value.__class__ is Tensor:
        return (value,)
    if isinstance(value, Tensor):
        return tuple(part for _, part in contents(value) or ())
    return ()


# -- containers ------------------------------------------------------------------------------------


@functools.cache
def _fields(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass."""
    return tuple(field.name for field in dataclasses.fields(kind))


def contents(value: Any) -> list[tuple[Any, Any]] | None:
    """Return the items of a container with their keys; None for a value that is no container."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if value.__class__ is not Tensor and hasattr(value, "imag_part"):  # a complex tensor
        return [("real_part", value.real_part), ("imag_part", value.imag_part)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(name, getattr(value, name)) for name in _fields(type(value))]
    return None


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of a nested value with `change` applied to everything that is no container."""
    inner = contents(value)
    if inner is None:
        return change(value)
    items = [(name, map_leaves(item, change)) for name, item in inner]
    if isinstance(value, tuple):
        return tuple.__new__(type(value), [item for _, item in items])
    if isinstance(value, Tensor):  # a complex one
        return type(value)(*(item for _, item in items))
    new = copy.copy(value)
    if isinstance(value, dict):
        new.update(items)
    elif isinstance(value, list):
        new[:] = [item for _, item in items]
    else:
        for name, item in items:
            object.__setattr__(new, name, item)  # also where the dataclass is frozen
    return new


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield everything in a nested value that is no container, each with a readable path.

    >>> list(leaves({"a": [1, 2]}, "x"))
    [("x['a'][0]", 1), ("x['a'][1]", 2)]
    """
    inner = contents(value)
    if inner is None:
        yield path, value
        return
    named = dataclasses.is_dataclass(value)
    for name, item in inner:
        yield from leaves(item, f"{path}.{name}" if named else f"{path}[{name!r}]")


def describe(value: Any) -> str:
    """Return a text for what a trace depends on in a leaf."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {value.shape}"
    if isinstance(value, Tensor):
        dims = unbound_shape(value._node, {})
        return f"a tensor of {name_of(value._node.dtype)} {to_text(map(to_static, dims))}"
    if isinstance(value, UOp):
        return size_text(unbound_size(value, {}))
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
