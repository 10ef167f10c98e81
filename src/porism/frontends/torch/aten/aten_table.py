"""ATen table: which function on tensors each operator of ATen is.

An operator is named as torch prints it, `aten.add.Tensor`; its arguments are those of its schema,
with tensors in place of torch's. Where a row is *promoting*, the operands come in the type that
torch computes in. Results are converted to the type that torch gives them. A *host* row takes
values, as factorizations by LAPACK do: it runs between compiled pieces. Complex operands are given
to the rows alone that `takes_complex` names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class UncoveredFormError(Exception):
    """A form of an operator that is left to torch."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of ATen as a function on tensors."""

    run: Callable[..., Any]
    promoting: bool
    """Whether operands are converted to the type that torch computes in."""
    host: bool = False
    """Whether the function needs the values of its operands, and is called outside of a trace."""
    complex: bool = False
    """Whether operands and results may be complex."""


TABLE: Final[dict[str, Operator]] = {}
"""The operators, by name."""


def aten(
    *names: str, promoting: bool = False, host: bool = False
) -> Callable[[Function], Function]:
    """Register a function as operators: `aten("add.Tensor")` is `aten.add.Tensor`.

    Those of other libraries of operators are named with it, `prims.abs.default`.
    """

    def register(function: Function) -> Function:
        for name in names:
            full = name if name.count(".") > 1 else f"aten.{name}"
            assert full not in TABLE, f"there are two rows of {full}"
            TABLE[full] = Operator(function, promoting, host)
        return function

    return register


def takes_complex(*names: str) -> None:
    """Let rows of the table have complex operands and results."""
    for name in names:
        TABLE[f"aten.{name}"] = replace(TABLE[f"aten.{name}"], complex=True)
