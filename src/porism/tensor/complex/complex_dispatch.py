"""Complex dispatch: a function of real tensors that meets a complex operand is computed on pairs.

Functions are written for real tensors. One that needs the node of a complex tensor, or converts a
complex number, raises `ComplexOperand`; the decorator `accepts_complex` catches it and calls the
implementation for complex tensors of the same name. So real tensors pay for one more call and no
checks, and no function can compute with one part by mistake.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from porism.base.errors import TypeMismatch
from porism.tensor.user_line import users_line

Function = TypeVar("Function", bound=Callable[..., Any])


class ComplexOperand(TypeMismatch):
    """A complex tensor or number where a real one is wanted."""


def complex_operand(what: str = "a complex tensor where a real one is wanted") -> ComplexOperand:
    """Return the error for a complex operand, at the user's line."""
    return ComplexOperand(
        what,
        where=users_line(),
        why="it is for real numbers; complex ones have no order, and no float stands for them",
        fix="pass porism.real(x), porism.imag(x) or porism.abs(x)",
    )


def accepts_complex(function: Function) -> Function:
    """Return a function that calls the implementation for complex tensors where it is needed."""
    name, needed, perform = function.__name__, ComplexOperand, compute_complex

    def dispatch(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except needed:
            pass
        return perform(name, args, kwargs)

    # With the globals of the function: doctest looks there for where it was defined.
    code, cells = dispatch.__code__, dispatch.__closure__
    wrapper = types.FunctionType(code, function.__globals__, name, None, cells)
    return functools.wraps(function)(wrapper)  # type: ignore[return-value]


def compute_complex(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of the implementation for complex tensors, or raise that there is none."""
    table = import_module("porism.tensor.complex.complex_table").IMPLEMENTATIONS
    implementation = table.get(name)
    if implementation is None:
        raise complex_operand(f"{name} of a complex tensor")
    return implementation(*args, **kwargs)
