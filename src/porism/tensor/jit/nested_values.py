"""Structure: tensors in dicts, lists, tuples and dataclasses, apart from the values in them.

The *signature* of a value is what a trace depends on: its containers, of tensors the shape and the
type, of symbolic sizes the variables, and all other values themselves.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from porism.base.dtypes import DType
from porism.engine.run.realize import bound
from porism.ir import ops
from porism.ir.facts.node_shape import Shape, shape
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.tensor.conversion import from_array, to_array
from porism.tensor.promotion import name_of, refuse
from porism.tensor.shapes import plain, size_text, to_text
from porism.tensor.tensor import Tensor

Leaf = tuple[DType, Shape]
"""Of a tensor its type and its dims, with variables that are not bound."""

_BUFFER: Final = ops.BUFFER
_PLAIN: Final = frozenset({int, bool, str, bytes, types.NoneType, type, DType})


class Signature:
    """What was found in the arguments of a call."""

    __slots__ = ("lazy", "parts", "tensors", "variables")

    def __init__(self) -> None:
        self.parts: list[Any] = []
        """All that a trace depends on; equal for calls that it serves."""
        self.tensors: list[Tensor] = []
        self.variables: dict[str, int] = {}
        self.lazy = False
        """Whether there are tensors that are perhaps not computed yet."""

    def add(self, value: Any) -> None:
        """Look at an argument."""
        kind = value.__class__
        if kind is Tensor:
            node = value._node
            if node.op is _BUFFER:
                self.parts.append((node.dtype, node.src))
            else:
                self.parts.append((node.dtype, unbound(node, self.variables)))
                self.lazy = True
            self.tensors.append(value)
        elif kind in _PLAIN:
            self.parts.append((kind, value))
        else:
            self._add_other(kind, value)

    def _add_other(self, kind: Any, value: Any) -> None:
        parts = self.parts
        inner = contents(value)
        if inner is not None:
            parts.append((kind, tuple((name.__class__, name) for name, _ in inner)))
            for _, one in inner:
                self.add(one)
        elif isinstance(value, float):
            parts.append((kind, value.hex()))  # -0.0 is not 0.0, and NaN is NaN
        elif isinstance(value, np.generic):
            parts.append((kind, value.dtype, value.tobytes()))
        elif isinstance(value, Tensor):
            parts.append((kind, value.dtype, unbound(value._node, self.variables)))
            self.tensors.append(value)
            self.lazy = True
        elif isinstance(value, UOp):
            parts.append((UOp, substituted(value, self.variables)))
        elif isinstance(value, np.ndarray):
            parts.append(np.ndarray)
            self.add(from_array(to_array(value)))
        else:
            parts.append((kind, _hashable(value)))

    def alike(self) -> None:
        """Say which of the tensors are one and the same."""
        tensors = self.tensors
        if len(set(map(id, tensors))) < len(tensors):
            first: dict[int, int] = {}
            self.parts.append(tuple(first.setdefault(id(t), k) for k, t in enumerate(tensors)))


def unbound(node: UOp, variables: dict[str, int]) -> Shape:
    """The dims of a node, with variables in the place of bound ones, whose values are noted."""
    return tuple(dim if dim.op is ops.CONST else substituted(dim, variables) for dim in shape(node))


def substituted(value: UOp, variables: dict[str, int]) -> UOp:
    """A symbolic size, with variables in the place of bound ones, whose values are noted."""
    binds = [node for node in toposort(value) if node.op is ops.BIND]
    return substitute(value, {node: bound(node, variables) for node in binds})


def is_told_by_identity(value: Any) -> bool:
    """Whether the signature of an argument without tensors stays the same, whatever is done to it.

    >>> is_told_by_identity(3), is_told_by_identity([3])
    (True, False)
    """
    kind = value.__class__
    if kind in _PLAIN:
        return True
    known = (float, np.generic, Tensor, UOp, np.ndarray)
    return contents(value) is None and not isinstance(value, known) and _is_itself(kind)


def _is_itself(kind: type) -> bool:
    """Whether objects of a class are only equal to themselves."""
    return all(getattr(kind, name) is getattr(object, name) for name in ("__hash__", "__eq__"))


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        raise refuse(
            f"a {type(value).__name__} as an argument or a result of a jitted function",
            "it holds no tensors that are known, and cannot be compared by its hash",
            "pass tensors, dicts, lists, tuples, dataclasses, or values that are hashable",
        ) from None
    return value


# -- containers ------------------------------------------------------------------------------------


@functools.cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def contents(value: Any) -> list[tuple[Any, Any]] | None:
    """What a container holds, by name or by place; None for what is no container."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(name, getattr(value, name)) for name in _fields(type(value))]
    return None


def rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure, with `change` of everything in it that is no container."""
    inner = contents(value)
    if inner is None:
        return change(value)
    found = [(name, rebuilt(one, change)) for name, one in inner]
    if isinstance(value, tuple):
        return tuple.__new__(type(value), [one for _, one in found])
    new = copy.copy(value)
    if isinstance(value, dict):
        new.update(found)
    elif isinstance(value, list):
        new[:] = [one for _, one in found]
    else:
        for name, one in found:
            object.__setattr__(new, name, one)  # also where the dataclass is frozen
    return new


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """What is in a structure and no container, each with its path for people.

    >>> list(leaves({"a": [1, 2]}, "x"))
    [("x['a'][0]", 1), ("x['a'][1]", 2)]
    """
    inner = contents(value)
    if inner is None:
        yield path, value
        return
    named = dataclasses.is_dataclass(value)
    for name, one in inner:
        yield from leaves(one, f"{path}.{name}" if named else f"{path}[{name!r}]")


def told(value: Any) -> str:
    """A leaf for people, as far as a trace depends on it."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {value.shape}"
    if isinstance(value, Tensor):
        dims = unbound(value._node, {})
        return f"a tensor of {name_of(value._node.dtype)} {to_text(map(plain, dims))}"
    if isinstance(value, UOp):
        return size_text(substituted(value, {}))
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
