"""Holders: where a function finds the tensors that are not its arguments.

A trace knows those tensors by the objects. Where `model.weight` names another object later, the
trace no longer fits; so the places are looked up once, and compared at every call.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from porism.tensor.tensor import Tensor

MOST: Final = 100_000
"""Objects that are looked at; a function that sees more is not searched any further."""

Place = tuple[Any, Any]
"""A dict or a list with a key in it, or a cell of a closure with None."""

NOWHERE: Final[Place] = (None, None)
"""The place of what cannot be put elsewhere."""

_LEAVES: Final = (str, bytes, int, float, complex, type, types.BuiltinFunctionType)


def places(function: Callable[..., Any], others: Iterable[Any]) -> Iterator[tuple[Place, Tensor]]:
    """Places that hold a tensor, in what a function and some objects refer to."""
    seen: set[int] = set()
    waiting: list[Any] = [function, *others]
    count = 0
    while waiting:
        value = waiting.pop()
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
    elif isinstance(container, dict) or (isinstance(container, list) and key < len(container)):
        container[key] = tensor


def _inside(value: Any) -> Iterator[tuple[Place, Any]]:
    """What an object refers to, as far as its places can be named."""
    if isinstance(value, dict):
        yield from (((value, key), one) for key, one in list(value.items()))
    elif isinstance(value, (list, tuple)):
        yield from (((value, k), one) for k, one in enumerate(value))
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, types.MethodType):
        yield from ((NOWHERE, one) for one in (value.__self__, value.__func__))
    elif isinstance(value, functools.partial):
        parts = (value.func, value.args, value.keywords)
        yield from ((NOWHERE, one) for one in parts)
    elif isinstance(value, types.ModuleType):
        return
    else:
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            yield from (((own, key), one) for key, one in list(own.items()))


def _of_function(function: types.FunctionType) -> Iterator[tuple[Place, Any]]:
    if (function.__module__ or "").startswith("porism."):
        return
    for cell in function.__closure__ or ():
        try:
            yield (cell, None), cell.cell_contents
        except ValueError:  # not set yet
            continue
    for defaults in (function.__defaults__, function.__kwdefaults__):
        yield NOWHERE, defaults
    known = function.__globals__
    for name in _names(function.__code__):
        one = known.get(name)
        if isinstance(one, types.ModuleType):
            # Of a module, what the function may name in it.
            inner = vars(one)
            found = {n: inner[n] for n in _names(function.__code__) if n in inner}
            yield from (((inner, n), o) for n, o in found.items() if isinstance(o, Tensor))
        elif one is not None:
            yield (known, name), one


def _names(code: types.CodeType) -> set[str]:
    """The names of globals and attributes that code uses, and the functions inside of it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found
