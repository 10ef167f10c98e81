"""Operator table: for each operator and version, the function that builds it.

A row holds from the version `since` of its operator set until the next row of the same name. A row
with `host` is computed with NumPy if the values of all its inputs are known while the graph is
built. An operator without a row is expanded from its definition, if it has one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from porism.frontends.onnx.operator_call import Call

MODULES: Final = (
    "elementwise",
    "activation_operators",
    "axis_reductions",
    "data_movement",
    "gather_scatter",
    "contractions",
    "windowed",
    "normalization_operators",
    "recurrent",
    "quantized",
    "resampling",
    "signals",
    "control_flow",
    "data_dependent",
    "vendor",
)
"""The modules of this folder that have rows, by concept."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A row of the table."""

    name: str
    build: Callable[[Call], Any]
    """Returns the output, or a tuple of outputs, as tensors."""
    since: int = 1
    host: Callable[[Call], Any] | None = None
    """Returns the same as arrays, for inputs that are arrays."""
    domain: str = ""


@functools.cache
def _table() -> dict[tuple[str, str], list[Operator]]:
    table: dict[tuple[str, str], list[Operator]] = {}
    for module in MODULES:
        rows: Iterable[Operator] = import_module(
            f"porism.frontends.onnx.operators.{module}"
        ).OPERATORS
        for row in rows:
            table.setdefault((row.domain, row.name), []).append(row)
    for rows_of_name in table.values():
        rows_of_name.sort(key=lambda row: -row.since)
    return table


def find(domain: str, name: str, version: int) -> Operator | None:
    """Return the row of an operator at a version of its operator set, or None."""
    for row in _table().get((domain, name), ()):
        if row.since <= version:
            return row
    return None


def names(domain: str) -> list[str]:
    """Return the names of all operators of a domain that have a row."""
    return sorted(name for own, name in _table() if own == domain)


def rows() -> list[Operator]:
    """Return every row, in the order of names."""
    return [row for _, same in sorted(_table().items()) for row in same]
