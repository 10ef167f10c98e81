"""Bounds arithmetic holds on all small boxes; a wrong bound is found and told."""

from __future__ import annotations

from typing import Any

import pytest

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.facts import intervals, residues
from porism.ir.ops import Op
from porism.prove import interval_checks

LISTED = [op.name for op in interval_checks.checked_ops()]


def test_every_op_with_bounds_is_listed() -> None:
    wanted = "ADD SUB MUL NEG IDIV MOD CDIV CMOD MAX MIN NOT AND OR XOR SHL SHR WHERE MULACC CAST"
    comparisons = "LT LE GT GE EQ NE"
    assert set(wanted.split() + comparisons.split()) <= set(LISTED)


@pytest.mark.parametrize("name", LISTED)
def test_the_bounds_of_an_op_contain_its_values(name: str) -> None:
    actual = interval_checks.check(ops.op(name))
    assert actual
    for checked in actual:
        assert checked.ok, checked.fault
        assert checked.boxes > 0


def forgets_wrapping(dtype: DType, src: Any, arg: Any) -> Any:
    return src[0].vmin + src[1].vmin, src[0].vmax + src[1].vmax


def forgets_negative_divisors(dtype: DType, src: Any, arg: Any) -> Any:
    low, high = intervals.idiv(dtype, src, arg)
    return (low, high) if src[1].vmin > 0 else (0, high)


def forgets_the_offset(dtype: DType, src: Any, arg: Any) -> Any:
    m, _ = residues.add(dtype, src, arg)
    return residues.canonical(m, 0) if m > 1 else residues.ANY


WRONG = {
    "a sum that wraps": (ops.ADD, "bounds", forgets_wrapping, "its bounds are"),
    "division by a negative": (ops.IDIV, "bounds", forgets_negative_divisors, "its bounds are"),
    "a residue without its offset": (ops.ADD, "residue", forgets_the_offset, "its residue is"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_bounds_are_found(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op, field, function, message = WRONG[case]
    monkeypatch.setattr(op, field, function)
    faults = [checked.fault for checked in interval_checks.check(op) if not checked.ok]
    assert faults
    assert message in faults[0]


def test_an_inverted_interval_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops.NEG, "bounds", lambda dtype, src, arg: (1, -1))
    (fault, *_) = [checked.fault for checked in interval_checks.check(ops.NEG)]
    assert fault.startswith("NEG of ")


def test_boxes_of_an_op_are_told_by_type() -> None:
    by_type = {checked.dtype: checked for checked in interval_checks.check(ops.MAX)}
    assert set(by_type) == {dtypes.index, dtypes.i8, dtypes.u8, dtypes.boolean}
    assert by_type[dtypes.index].name == "MAX on index"
    assert isinstance(by_type[dtypes.index].op, Op)
