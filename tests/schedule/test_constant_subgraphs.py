"""Constant subgraphs: which values that depend on constants alone are computed once."""

from __future__ import annotations

import pytest

import porism
from porism.base.dtypes import f32, i8, index
from porism.ir import ops
from porism.ir.buffer_node import new_buffer
from porism.ir.node import UOp
from porism.schedule.constants.constant_subgraphs import constant_subgraphs
from porism.tensor.tensor import Tensor


@pytest.mark.parametrize(
    ("rows", "k", "n", "once"),
    [
        (1, 256, 320, False),  # each weight is read once: a quarter of the bytes as integers
        (16, 256, 320, True),  # it would be converted in each call
        (16, 1024, 2048, False),  # 8 MiB come from memory: bytes are read faster
        (64, 1024, 2048, True),
    ],
)
def test_weights_of_bytes_are_converted_once_if_many_rows_read_them(
    rows: int, k: int, n: int, once: bool
) -> None:
    w = new_buffer(i8, (UOp.const(index, k), UOp.const(index, n)), "cpu")
    x = new_buffer(f32, (UOp.const(index, rows), UOp.const(index, k)), "cpu")
    product = porism.matmul(Tensor(x), Tensor(w).astype("float32"))
    found = constant_subgraphs([product.node], {w})
    assert [node.op for node in found] == [ops.CAST] * once
