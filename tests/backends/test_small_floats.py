"""Small floats in machine code: every value of 16 bits, converted as NumPy and ml_dtypes do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import porism
from porism.backends.backend_table import BACKENDS
from porism.base import dtypes
from porism.base.dtypes import DType
from porism.base.settings import settings

KINDS = (dtypes.f16, dtypes.bf16)
EVERY = np.arange(1 << 16).astype(np.uint16)

HAS_CONVERSIONS = "f16" in BACKENDS["llvm"].target().converts


def same(found: Any, expected: Any) -> None:
    """The same bits, but for those of NaNs, whose sign alone counts."""
    words = np.dtype(f"u{found.dtype.itemsize}")
    with np.errstate(all="ignore"):
        nan = np.isnan(expected.astype(np.float64))
        assert (np.isnan(found.astype(np.float64)) == nan).all()
    kept = ~nan
    wrong = np.flatnonzero(found.view(words)[kept] != expected.view(words)[kept])
    assert not len(wrong), (found[kept][wrong[:3]], expected[kept][wrong[:3]])
    assert (np.signbit(found.astype(np.float32)) == np.signbit(expected.astype(np.float32))).all()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_value_as_f32(kind: DType) -> None:
    given = EVERY.view(kind.numpy)
    with np.errstate(all="ignore"):
        same(porism.asarray(given).astype(porism.float32).numpy(), given.astype(np.float32))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rounding_of_f32(kind: DType) -> None:
    """Every value, the middle between neighbours, and the f32 beside those."""
    with np.errstate(all="ignore"):
        every = EVERY.view(kind.numpy).astype(np.float32)
        numbers = np.sort(every[np.isfinite(every)])
        middle = ((numbers[1:].astype(np.float64) + numbers[:-1]) / 2).astype(np.float32)
        near = np.concatenate([every, middle, middle * np.float32(0.75), [1e30, -1e30, 1e-30]])
        near = near.astype(np.float32)
        infinity = np.float32(np.inf)
        given = np.concatenate([near, np.nextafter(near, infinity), np.nextafter(near, -infinity)])
        expected = given.astype(kind.numpy)
    same((porism.asarray(given).astype(kind)).numpy(), expected)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_bits_of_nans_stay_in_memory(kind: DType) -> None:
    """What is moved and not computed keeps its bits, signals and all."""
    given = EVERY.view(kind.numpy)
    found = porism.asarray(given)[::-1].numpy()
    assert (found.view(np.uint16) == EVERY[::-1]).all()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_sums_and_products_are_rounded_once(kind: DType) -> None:
    given = np.random.default_rng(1).permutation(EVERY).view(kind.numpy)
    other = given[::-1].copy()
    x, y = porism.asarray(given), porism.asarray(other)
    with np.errstate(all="ignore"):
        wide, more = given.astype(np.float32), other.astype(np.float32)
        same_numbers((x + y).numpy(), (wide + more).astype(kind.numpy))
        same_numbers((x * y).numpy(), (wide * more).astype(kind.numpy))


def same_numbers(found: Any, expected: Any) -> None:
    """The same, where NaN is NaN with whatever sign."""
    with np.errstate(all="ignore"):
        kept = ~np.isnan(expected.astype(np.float32))
        assert (np.isnan(found.astype(np.float32)) == ~kept).all()
    assert (found.view(np.uint16)[kept] == expected.view(np.uint16)[kept]).all()


@pytest.mark.skipif(not HAS_CONVERSIONS, reason="this machine has no conversions of f16")
def test_the_machine_converts(capsys: pytest.CaptureFixture[str]) -> None:
    x = porism.asarray(np.ones(64, np.float16))
    with settings.override(backend="llvm"):
        porism.explain(x + 1, source=True)
    text = capsys.readouterr().out
    assert "fpext" in text
    assert "fptrunc" in text
