"""Casts of floats to integers: vectors of them saturate as single ones do, and stay vectors."""

from __future__ import annotations

import numpy as np
import pytest

import porism

VALUES = (
    *(0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 1e-40, 1e5, -1e5, 3e9, -3e9, 1e30, -1e30),
    *(127, 127.9, 128, -128, -128.9, -129, 255, 255.9, 256, 32767.9, -32768.5, -32769, 65535.5),
    *(65536, 2147483520, 2147483648, 4294967040, 4294967296, np.inf, -np.inf, np.nan),
)


@pytest.mark.parametrize("source", ["float32", "float64", "float16"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_vectors_saturate(source: str, target: str) -> None:
    """The nearest limit of the type is the result beyond it, and 0 that of NaN."""
    with np.errstate(over="ignore"):
        x = np.array(VALUES * 5).astype(source)
    info = np.iinfo(target)
    limited = np.clip(np.trunc(x.astype(np.float64)), info.min, info.max)
    wanted = np.nan_to_num(limited).astype(np.int64).astype(target)
    found = porism.asarray(x).astype(target).numpy()
    np.testing.assert_array_equal(found, wanted)


def test_vectors_are_converted_whole() -> None:
    """LLVM's intrinsic for saturating conversions would convert lane by lane."""
    (kernel,) = porism.kernels(porism.asarray(np.ones(64, np.float32)).astype("uint8"))
    source = kernel.source("llvm")
    assert "fptosi <" in source
    assert ".sat." not in source
