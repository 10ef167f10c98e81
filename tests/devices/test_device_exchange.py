"""DLPack with memory that NumPy does not know: handed over without a copy, and freed once."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import TypeMismatch
from porism.engine.device.device_table import find_device
from porism.engine.run.buffer_storage import array_of
from porism.tensor.memory import device_capsules
from porism.tensor.tensor import Tensor

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)


class Other:
    """An array of another library on the fake device."""

    def __init__(self, tensor: Tensor, **options: Any) -> None:
        self.tensor, self.options = tensor, options

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**{**options, **self.options})

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def address(x: Tensor) -> int:
    memory: Any = array_of(x.realize().node)
    return int(memory.address)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int8", "uint64", "float8_e5m2"])
def test_memory_is_shared(dtype: str) -> None:
    x = porism.asarray(DATA, device="fake").to(dtype)
    y = porism.from_dlpack(Other(x))
    assert (y.device, y.dtype, y.shape) == ("fake", x.dtype, x.shape)
    assert address(y) == address(x)
    np.testing.assert_array_equal((y == x).numpy(), True)


def test_memory_lives_as_long_as_either_side() -> None:
    device = find_device("fake")
    gc.collect()
    before, exported = device.memory_usage().in_use, len(device_capsules._exported)
    x = porism.asarray(DATA, device="fake")
    y = porism.from_dlpack(Other(x))
    del x
    gc.collect()
    np.testing.assert_array_equal(y.numpy(), DATA)
    assert len(device_capsules._exported) == exported + 1
    del y
    gc.collect()
    assert len(device_capsules._exported) == exported
    assert device.memory_usage().in_use == before


def test_a_capsule_that_nobody_takes_is_freed() -> None:
    x = porism.asarray(DATA, device="fake")
    exported = len(device_capsules._exported)
    capsules = [x.__dlpack__(max_version=(1, 0)), x.__dlpack__()]
    assert len(device_capsules._exported) == exported + 2
    del capsules
    gc.collect()
    assert len(device_capsules._exported) == exported


def test_what_is_shared_is_not_overwritten() -> None:
    state = porism.asarray(DATA, device="fake")

    @porism.jit
    def step() -> None:
        state.assign(state + 1)

    step()
    shared = porism.from_dlpack(Other(state))
    step()
    np.testing.assert_array_equal(shared.numpy(), DATA + 1)
    np.testing.assert_array_equal(state.numpy(), DATA + 2)


def test_an_old_consumer_gets_a_copy() -> None:
    x = porism.asarray(DATA, device="fake")
    y = porism.from_dlpack(Other(x, max_version=None))
    assert address(y) != address(x)
    np.testing.assert_array_equal(y.numpy(), DATA)
    with pytest.raises(TypeMismatch, match="before version 1"):
        x.__dlpack__(copy=False)


def test_the_processor_gets_a_copy() -> None:
    x = porism.asarray(DATA, device="fake")
    y = porism.from_dlpack(Other(x), device="cpu")
    assert y.device == "cpu"
    np.testing.assert_array_equal(y.numpy(), DATA)
    with pytest.raises(TypeMismatch, match="device"):
        porism.from_dlpack(Other(x), device="cpu", copy=False)
    with pytest.raises(TypeMismatch, match="dl_device"):
        x.__dlpack__(dl_device=(2, 0))
