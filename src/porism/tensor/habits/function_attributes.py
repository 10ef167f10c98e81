"""Function attributes: what functions of other libraries have, such as `numpy.add.reduce`.

They are errors here that say what to write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from porism.base.errors import PorismError
from porism.tensor.user_line import users_line

ATTRIBUTES: Final[dict[str, dict[str, str]]] = {
    "add": {
        "reduce": "porism.sum(x, axis=0)",
        "accumulate": "porism.cumulative_sum(x, axis=0)",
        "at": "porism.index_add(x, 0, index, values)",
        "reduceat": "porism.index_add(porism.zeros(n), 0, segments, x)",
    },
    "subtract": {"at": "porism.index_add(x, 0, index, values, alpha=-1)"},
    "multiply": {
        "reduce": "porism.prod(x, axis=0)",
        "accumulate": "porism.cumulative_prod(x, axis=0)",
        "at": 'porism.scatter(x, 0, index, values, reduce="multiply")',
    },
    "maximum": {
        "reduce": "porism.max(x, axis=0)",
        "accumulate": "porism.cummax(x, axis=0)",
        "at": "porism.scatter_max(x, 0, index, values)",
    },
    "minimum": {
        "reduce": "porism.min(x, axis=0)",
        "accumulate": "porism.cummin(x, axis=0)",
        "at": "porism.scatter_min(x, 0, index, values)",
    },
    "logical_and": {"reduce": "porism.all(x, axis=0)"},
    "logical_or": {"reduce": "porism.any(x, axis=0)"},
    "divide": {},
    "equal": {},
    "less": {},
    "greater": {},
    "pow": {},
    "jit": {"script": "porism.jit(function)", "trace": "porism.jit(function)"},
}
"""Functions, and what to write for their attributes; those of two operands have `outer` too."""


def with_attributes(name: str, function: Any) -> Any:
    """Return a function after it has got the attributes that it has elsewhere."""
    rows = ATTRIBUTES.get(name)
    if rows is None:
        return function
    outer = {} if name == "jit" else {"outer": f"porism.{name}(x[:, None], y): axes broadcast"}
    for attribute, instead in {**outer, **rows}.items():
        setattr(function, attribute, _refusal(f"{name}.{attribute}", instead))
    return function


def _refusal(what: str, instead: str) -> Callable[..., NoReturn]:
    """Return a function that raises the error for an attribute."""

    def refuse(*args: Any, **options: Any) -> NoReturn:
        raise PorismError(
            f"porism.{what}",
            where=users_line(),
            why="other libraries have it, and Porism does the same in another way",
            fix=instead,
        )

    return refuse
