"""What the Array API asks of the namespace: information, devices, keywords."""

from __future__ import annotations

import pytest

import porism
from porism.base.errors import TypeMismatch
from tests.tensor.oracle import refuses


def test_information() -> None:
    info = porism.__array_namespace_info__()
    assert info.capabilities()["data-dependent shapes"] is True
    assert info.default_device() in info.devices()
    assert info.default_dtypes()["real floating"] is porism.float32
    assert info.dtypes(kind="complex floating").keys() == {"complex64", "complex128"}
    assert info.dtypes(kind=("bool", "signed integer"), device="cpu")["int8"] is porism.int8
    assert "float16" not in info.dtypes()
    assert porism.__array_api_version__ == "2025.12"


def test_devices() -> None:
    x = porism.ones(2, device="cpu")
    assert x.to_device("cpu") is x
    assert porism.zeros_like(x, device=x.device).device == "cpu"
    with refuses(TypeMismatch, "the device 'mps'"):
        porism.arange(3, device="mps")
    with refuses(TypeMismatch, "to_device with the stream 1"):
        x.to_device("cpu", stream=1)


def test_shapes_and_axes_by_keyword() -> None:
    assert porism.zeros(shape=(2, 3)).shape == porism.ones(2, 3).shape == (2, 3)
    assert porism.empty(shape=3).shape == (3,)
    assert porism.zeros().shape == ()
    x = porism.arange(6)
    assert porism.reshape(x, shape=(2, 3)).shape == x.reshape(2, -1).shape == (2, 3)
    assert porism.permute_dims(x.reshape(2, 3), axes=(1, 0)).shape == (3, 2)


@pytest.mark.parametrize("name", ["meshgrid", "broadcast_arrays", "unstack"])
def test_several_results_are_a_tuple(name: str) -> None:
    assert type(getattr(porism, name)(porism.ones(2))) is tuple
