"""Captured tensors: the variables, containers and attributes in which a function finds tensors.

A trace identifies captured tensors by object. If `model.weight` is another object later, the trace
no longer applies; so the locations are searched once, and compared in every call.
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

MOST_OBJECTS: Final = 100_000
"""The most objects that a search visits; chosen by hand."""

LIBRARIES: Final = frozenset(("porism", "numpy", "llvmlite"))
"""Packages that hold no tensors of users and are not searched, beside the standard library."""

Location = tuple[Any, Any]
"""A container (dict, list, `Attributes`) and a key, or a cell of a closure and None."""

UNNAMED: Final[Location] = (None, None)
"""The location of objects that are reached in a way that has no name, such as arguments."""

_WITHOUT_TENSORS: Final = (str, bytes, int, float, complex, types.BuiltinFunctionType)


class Attributes:
    """The attributes of an object that are not in its `__dict__`: slots and class attributes."""

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


def tensor_locations(
    function: Callable[..., Any], others: Iterable[Any]
) -> Iterator[tuple[Location, Tensor]]:
    """Yield the tensors that a function and some objects reach, with their locations."""
    visited: set[int] = set()
    pending: deque[Any] = deque([function, *others])
    count = 0
    while pending:
        value = pending.popleft()  # breadth first: near objects come first
        if id(value) in visited:
            continue
        visited.add(id(value))
        for location, inner in _references(value):
            count += 1
            if count > MOST_OBJECTS:
                return
            if isinstance(inner, Tensor):
                if location is not UNNAMED:
                    yield location, inner
            elif inner is not None and not isinstance(inner, _WITHOUT_TENSORS):
                pending.append(inner)


def holds(location: Location, tensor: Tensor) -> bool:
    """Whether a location still holds a tensor."""
    container, key = location
    try:
        if isinstance(container, types.CellType):
            return container.cell_contents is tensor
        return container[key] is tensor
    except (LookupError, ValueError):
        return False


def restore(location: Location, tensor: Tensor) -> None:
    """Put a tensor back into its location, if the location is mutable."""
    container, key = location
    if isinstance(container, types.CellType):
        container.cell_contents = tensor
    elif isinstance(container, (dict, Attributes)) or (
        isinstance(container, (list, deque)) and key < len(container)
    ):
        container[key] = tensor


def _references(value: Any) -> Iterator[tuple[Location, Any]]:
    """Yield the objects that an object refers to, with their locations."""
    if isinstance(value, (dict, types.MappingProxyType)):
        yield from (((value, key), item) for key, item in list(value.items()))
    elif isinstance(value, (list, tuple, deque)):
        yield from (((value, k), item) for k, item in enumerate(list(value)))
    elif isinstance(value, types.FunctionType):
        yield from _function_references(value)
    elif isinstance(value, types.MethodType):
        yield from ((UNNAMED, item) for item in (value.__self__, value.__func__))
    elif isinstance(value, functools.partial):
        parts = (value.func, value.args, value.keywords)
        yield from ((UNNAMED, item) for item in parts)
    elif isinstance(value, type):
        yield from _class_references(value)
    elif not isinstance(value, types.ModuleType):
        yield from _object_references(value)


def _object_references(value: Any) -> Iterator[tuple[Location, Any]]:
    """Yield the attributes of an object and of its class."""
    kind = type(value)
    own = getattr(value, "__dict__", None)
    if (kind.__module__ or "").startswith("porism.") and not _holds_users_tensors(kind):
        if isinstance(own, dict):  # it may be a jitted function
            yield UNNAMED, own.get("__wrapped__")
        return
    if isinstance(own, dict):
        yield from (((own, key), item) for key, item in list(own.items()))
    for base in _user_classes(kind):
        for name, item in list(vars(base).items()):
            if isinstance(item, Tensor) or (
                isinstance(item, types.MemberDescriptorType) and hasattr(value, name)
            ):
                yield (Attributes(value), name), getattr(value, name)
    yield UNNAMED, kind


def _holds_users_tensors(kind: type) -> bool:
    """Whether objects of a class of Porism hold tensors of users: modules and optimizers do."""
    return kind.__module__.startswith(("porism.nn.", "porism.optim."))


def _class_references(kind: type) -> Iterator[tuple[Location, Any]]:
    """Yield the attributes of a class and of its base classes."""
    for base in _user_classes(kind):
        for name, item in list(vars(base).items()):
            if isinstance(item, (staticmethod, classmethod)):
                yield UNNAMED, item.__func__
            elif isinstance(item, property):
                yield UNNAMED, item.fget
            elif not isinstance(item, types.MemberDescriptorType):
                yield (Attributes(kind), name), item


def _user_classes(kind: type) -> list[type]:
    """Return a class and its base classes, without those of libraries."""
    return [base for base in kind.__mro__ if not _is_library(base.__module__)]


def _function_references(function: types.FunctionType) -> Iterator[tuple[Location, Any]]:
    """Yield what a function can name: closure cells, defaults, globals and imported modules."""
    if _is_library(function.__module__):
        return
    names = sorted(_used_names(function.__code__))
    modules = [sys.modules.get(name) for name in names]  # a function may import a module
    for cell in function.__closure__ or ():
        try:
            yield (cell, None), cell.cell_contents
        except ValueError:  # not set yet
            continue
        modules.append(cell.cell_contents)
    for defaults in (function.__defaults__, function.__kwdefaults__):
        yield UNNAMED, defaults
    yield from _scope_references(function.__globals__, modules, names)


def _scope_references(
    scope: dict[str, Any], modules: Iterable[Any], names: Sequence[str]
) -> Iterator[tuple[Location, Any]]:
    """Yield what has item of the names in a scope, in modules, and in modules found there."""
    scopes, visited = [scope], {id(scope)}

    def enter(module: Any) -> None:
        if not isinstance(module, types.ModuleType) or id(vars(module)) in visited:
            return
        if not _is_library(module.__name__):
            visited.add(id(vars(module)))
            scopes.append(vars(module))

    for module in modules:
        enter(module)
    while scopes:
        here = scopes.pop()
        for name in names:
            item = here.get(name)
            enter(item)
            yield (here, name), item


def _is_library(module: str | None) -> bool:
    """Whether a module is part of a library that holds no tensors of users."""
    return _is_library_package((module or "").partition(".")[0])


@functools.cache
def _is_library_package(name: str) -> bool:
    """Whether a top-level package is a library that holds no tensors of users."""
    if name not in sys.stdlib_module_names:
        return name in LIBRARIES
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or file.startswith(os.path.dirname(os.__file__))  # not a user's `test.py`


def _used_names(code: types.CodeType) -> set[str]:
    """Return the names of globals and attributes that code and its inner functions use."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _used_names(constant)
    return names
