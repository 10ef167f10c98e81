"""Holders: where a function finds the tensors that are not its arguments.

A trace knows those tensors by the objects. Where `model.weight` names another object later, the
trace no longer fits; so the places are looked up once, and compared at every call.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from porism.tensor.tensor import Tensor

MOST: Final = 100_000
"""Objects that are looked at; a function that sees more is not searched any further."""

LIBRARIES: Final = frozenset(("porism", "numpy", "llvmlite"))
"""Packages that hold no tensors of a user and are not searched, beside those of Python itself."""

Place = tuple[Any, Any]
"""A dict, a list or the attributes of an object with a key, or a cell of a closure with None."""

NOWHERE: Final[Place] = (None, None)
"""The place of what cannot be put elsewhere."""

_LEAVES: Final = (str, bytes, int, float, complex, types.BuiltinFunctionType)


class Attributes:
    """Attributes that are in no dict of their object, by name: in slots, or in its class."""

    __slots__ = ("holder",)

    def __init__(self, holder: Any) -> None:
        self.holder = holder

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self.holder, name)
        except AttributeError:
            raise KeyError(name) from None

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self.holder, name, value)


def places(function: Callable[..., Any], others: Iterable[Any]) -> Iterator[tuple[Place, Tensor]]:
    """Places that hold a tensor, in what a function and some objects refer to."""
    seen: set[int] = set()
    waiting: deque[Any] = deque([function, *others])
    count = 0
    while waiting:
        value = waiting.popleft()  # what is near comes first
        if id(value) in seen:
            continue
        seen.add(id(value))
        for place, inner in _inside(value):
            count += 1
            if count > MOST:
                return
            if isinstance(inner, Tensor):
                if place is not NOWHERE:
                    yield place, inner
            elif inner is not None and not isinstance(inner, _LEAVES):
                waiting.append(inner)


def holds(place: Place, tensor: Tensor) -> bool:
    """Whether a tensor is still where it was."""
    container, key = place
    try:
        if isinstance(container, types.CellType):
            return container.cell_contents is tensor
        return container[key] is tensor
    except (LookupError, ValueError):
        return False


def put(place: Place, tensor: Tensor) -> None:
    """Put a tensor back where it was, if that is possible."""
    container, key = place
    if isinstance(container, types.CellType):
        container.cell_contents = tensor
    elif isinstance(container, (dict, Attributes)) or (
        isinstance(container, (list, deque)) and key < len(container)
    ):
        container[key] = tensor


def _inside(value: Any) -> Iterator[tuple[Place, Any]]:
    """What an object refers to, as far as its places can be named."""
    if isinstance(value, (dict, types.MappingProxyType)):
        yield from (((value, key), one) for key, one in list(value.items()))
    elif isinstance(value, (list, tuple, deque)):
        yield from (((value, k), one) for k, one in enumerate(list(value)))
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, types.MethodType):
        yield from ((NOWHERE, one) for one in (value.__self__, value.__func__))
    elif isinstance(value, functools.partial):
        parts = (value.func, value.args, value.keywords)
        yield from ((NOWHERE, one) for one in parts)
    elif isinstance(value, type):
        yield from _of_class(value)
    elif not isinstance(value, types.ModuleType):
        yield from _of_object(value)


def _of_object(value: Any) -> Iterator[tuple[Place, Any]]:
    """What an object has of its own, and what its class has."""
    kind = type(value)
    own = getattr(value, "__dict__", None)
    if (kind.__module__ or "").startswith("porism."):
        if isinstance(own, dict):  # a jitted function, perhaps
            yield NOWHERE, own.get("__wrapped__")
        return
    if isinstance(own, dict):
        yield from (((own, key), one) for key, one in list(own.items()))
    for each in _searched(kind):
        for name, one in list(vars(each).items()):
            if isinstance(one, Tensor) or (
                isinstance(one, types.MemberDescriptorType) and hasattr(value, name)
            ):
                yield (Attributes(value), name), getattr(value, name)
    yield NOWHERE, kind


def _of_class(kind: type) -> Iterator[tuple[Place, Any]]:
    """What a class, and those that it is derived from, have for all their objects."""
    for each in _searched(kind):
        for name, one in list(vars(each).items()):
            if isinstance(one, (staticmethod, classmethod)):
                yield NOWHERE, one.__func__
            elif isinstance(one, property):
                yield NOWHERE, one.fget
            elif not isinstance(one, types.MemberDescriptorType):
                yield (Attributes(kind), name), one


def _searched(kind: type) -> list[type]:
    """A class and those that it is derived from, without those of libraries."""
    return [each for each in kind.__mro__ if not _is_library(each.__module__)]


def _of_function(function: types.FunctionType) -> Iterator[tuple[Place, Any]]:
    if _is_library(function.__module__):
        return
    names = sorted(_names(function.__code__))
    modules = [sys.modules.get(name) for name in names]  # what is imported inside, perhaps
    for cell in function.__closure__ or ():
        try:
            yield (cell, None), cell.cell_contents
        except ValueError:  # not set yet
            continue
        modules.append(cell.cell_contents)
    for defaults in (function.__defaults__, function.__kwdefaults__):
        yield NOWHERE, defaults
    yield from _named(function.__globals__, modules, names)


def _named(
    scope: dict[str, Any], modules: Iterable[Any], names: Sequence[str]
) -> Iterator[tuple[Place, Any]]:
    """Of what a scope and modules hold that which has one of the names, also in modules there."""
    scopes, seen = [scope], {id(scope)}

    def enter(module: Any) -> None:
        if not isinstance(module, types.ModuleType) or id(vars(module)) in seen:
            return
        if not _is_library(module.__name__):
            seen.add(id(vars(module)))
            scopes.append(vars(module))

    for module in modules:
        enter(module)
    while scopes:
        here = scopes.pop()
        for name in names:
            one = here.get(name)
            enter(one)
            yield (here, name), one


def _is_library(module: str | None) -> bool:
    return _is_library_package((module or "").partition(".")[0])


@functools.cache
def _is_library_package(name: str) -> bool:
    if name not in sys.stdlib_module_names:
        return name in LIBRARIES
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or file.startswith(os.path.dirname(os.__file__))  # not a user's `test.py`


def _names(code: types.CodeType) -> set[str]:
    """The names of globals and attributes that code uses, and the functions inside of it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found
