"""The whole namespace of tensors in verify mode: right programs raise no alarm, at any level."""

from __future__ import annotations

import pytest

import porism
from porism.tensor.tensor import Tensor
from tests.conformance import data
from tests.conformance.table import ROWS, Row
from tests.conformance.test_functions import called

KINDS = {"f": "float32", "i": "int32", "b": "bool"}


def cases() -> list[tuple[Row, str]]:
    return [(row, KINDS[kind]) for rows in ROWS.values() for row in rows for kind in row.kinds[:1]]


@pytest.mark.slow
@pytest.mark.parametrize(("row", "kind"), cases(), ids=lambda case: getattr(case, "call", case))
def test_a_function_raises_no_alarm(row: Row, kind: str) -> None:
    result = called(row, data.arrays(kind))
    tensors = [result] if isinstance(result, Tensor) else list(result)
    porism.verify(*tensors, level=3)
