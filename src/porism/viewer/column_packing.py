"""Column packing: many rows with the same keys as one list a key, for a page that stays small.

    [{"why": "it is an output", "runs": 3}, {"why": "it is an output", "runs": 4}]
    {"count": 2, "columns": {"why": {"values": ["it is an output"], "at": [0, 0]}, "runs": [3, 4]}}

A column whose values repeat has each value once. `unpackRows` of the page is the inverse.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Row = dict[str, Any]


def packed_report(data: Mapping[str, Any]) -> Row:
    """Return a report in which the steps and buffers of each program are columns."""
    programs = [
        {**program, "steps": packed(program["steps"]), "buffers": packed(program["buffers"])}
        for program in data["programs"]
    ]
    return {**data, "programs": programs}


def packed(rows: Sequence[Row]) -> Row:
    """Return rows with the same keys as columns.

    >>> packed([{"name": "x"}, {"name": "x"}, {"name": "x"}])
    {'count': 3, 'columns': {'name': {'values': ['x'], 'at': [0, 0, 0]}}}
    """
    keys = rows[0] if rows else {}
    columns = {key: _column([row[key] for row in rows]) for key in keys}
    return {"count": len(rows), "columns": columns}


def _column(values: list[Any]) -> list[Any] | Row:
    """Return values as they are, or each once with its uses, whichever is shorter as JSON."""
    if all(isinstance(value, int | float) for value in values):
        return values
    texts = [json.dumps(value) for value in values]
    numbers = {text: k for k, text in enumerate(dict.fromkeys(texts))}
    if 2 * len(numbers) > len(values):
        return values
    first = dict(zip(texts, values, strict=True))
    return {"values": [first[text] for text in numbers], "at": [numbers[text] for text in texts]}


def unpacked(columns: Mapping[str, Any]) -> list[Row]:
    """Return the rows of columns.

    >>> rows = [{"name": "x", "runs": k} for k in range(3)]
    >>> unpacked(packed(rows)) == rows
    True
    """
    whole = {
        key: column if isinstance(column, list) else [column["values"][k] for k in column["at"]]
        for key, column in columns["columns"].items()
    }
    return [{key: values[k] for key, values in whole.items()} for k in range(columns["count"])]
