"""Targets are data that is checked."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from porism.base.errors import TargetError
from porism.base.gpu_targets import H200
from porism.base.target import DTYPES, GENERIC_CPU, Memory, Target, TensorCore
from porism.evaluate.reference_target import REFERENCE
from porism.ir import ops

TARGETS = (REFERENCE, GENERIC_CPU, H200)
COMPUTING = {op.name for op in ops.table() if op.elementwise or op.group is ops.Group.CONVERSION}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_ops_are_rows_of_the_op_table(target: Target) -> None:
    assert target.ops <= COMPUTING


def test_the_reference_does_everything() -> None:
    assert REFERENCE.ops == COMPUTING
    assert REFERENCE.dtypes == DTYPES
    assert "index" not in DTYPES
    assert "void" not in DTYPES


def test_targets_are_values() -> None:
    assert dataclasses.replace(H200) == H200
    assert hash(dataclasses.replace(H200)) == hash(H200)
    assert len(set(TARGETS)) == len(TARGETS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        H200.cores = 1  # type: ignore[misc]


def test_lanes_of_vector_registers() -> None:
    wide = dataclasses.replace(GENERIC_CPU, vector_bits=(128, 256, 512))
    assert wide.lanes(32) == (4, 8, 16)
    assert wide.lanes(64) == (2, 4, 8)
    assert wide.lanes(128) == (2, 4)
    assert REFERENCE.lanes(32) == ()


def test_lanes_of_loads() -> None:
    assert H200.load_lanes(16) == (1, 2, 4, 8)
    assert H200.load_lanes(64) == (1, 2)
    assert H200.load_lanes(256) == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "two words"}, "the name is no identifier"),
        ({"ops": frozenset({"+"})}, r"the op '\+' is no name"),
        ({"dtypes": frozenset({"f33"})}, "'f33' is no dtype of a machine"),
        ({"dtypes": frozenset({"index"})}, "'index' is no dtype of a machine"),
        ({"index_bits": 48}, "index_bits is 48"),
        ({"vector_bits": (128, 192)}, r"vector_bits is \(128, 192\)"),
        ({"vector_bits": (0,)}, r"vector_bits is \(0,\)"),
        ({"load_bytes": (-1,)}, r"load_bytes is \(-1,\)"),
        ({"load_bytes": (4, 2)}, r"load_bytes is \(4, 2\)"),
        ({"load_bytes": ()}, "load_bytes is empty"),
        ({"cores": 0}, "cores is 0"),
        ({"warp": -32}, "warp is -32"),
        ({"warp": 48}, "block_threads is 1024 with a warp of 48"),
        ({"grid": (1, 1, 1, 1)}, r"grid is \(1, 1, 1, 1\)"),
        ({"block": (0,)}, r"block is \(0,\)"),
        ({"block": (2048,)}, r"block is \(2048,\) with 1024 threads in all"),
        ({"block": ()}, r"block is \(\) with 1024 threads in all"),
    ],
)
def test_a_machine_that_cannot_be_is_an_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TargetError, match=message) as caught:
        dataclasses.replace(H200, **change)
    assert f"where: target '{change.get('name', 'h200')}'" in str(caught.value)
    assert "why: allowed is: " in str(caught.value)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Memory)])
def test_memory_is_not_negative(name: str) -> None:
    sizes: dict[str, int] = {name: -1}
    with pytest.raises(TargetError, match=f"{name} is -1"):
        Memory(**sizes)


@pytest.mark.parametrize("change", [{"m": 0}, {"threads": -1}, {"dtype_in": "tf32"}])
def test_a_tensor_core_that_cannot_be_is_an_error(change: dict[str, Any]) -> None:
    core = TensorCore(m=16, n=8, k=16, dtype_in="f16", dtype_out="f32")
    with pytest.raises(TargetError, match="tensor core"):
        dataclasses.replace(core, **change)
