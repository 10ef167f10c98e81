"""The backend for einops, with a stand-in for einops: `./dev suite ecosystem` runs the real one."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import porism
from porism.tensor import namespace
from porism.tensor.habits import einops_backend


class AbstractBackend:
    """What einops derives its backends from."""

    framework_name: str


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the backend that einops finds among the subclasses."""
    package, backends = ModuleType("einops"), ModuleType("einops._backends")
    backends.AbstractBackend = AbstractBackend
    monkeypatch.setitem(sys.modules, "einops", package)
    monkeypatch.setitem(sys.modules, "einops._backends", backends)
    monkeypatch.setattr(einops_backend, "_registered", [])
    namespace.find("sum")
    namespace.find("mean")
    (found,) = einops_backend._registered
    assert found in AbstractBackend.__subclasses__()
    assert found.framework_name in sys.modules
    return found()


def test_what_einops_calls(backend: Any) -> None:
    x = porism.arange(6).reshape(2, 3)
    values = x.numpy()
    assert backend.is_appropriate_type(x)
    assert not backend.is_appropriate_type(values)
    assert backend.shape(x) == (2, 3)
    assert backend.is_float_type(x * 1.0)
    assert not backend.is_float_type(x)
    pairs = (
        (backend.from_numpy(values), values),
        (backend.to_numpy(x), values),
        (backend.arange(1, 4), np.arange(1, 4)),
        (backend.reshape(x, [3, 2]), values.reshape(3, 2)),
        (backend.transpose(x, [1, 0]), values.T),
        (backend.reduce(x, "max", [0]), values.max(0)),
        (backend.stack_on_zeroth_dimension([x, x]), np.stack([values, values])),
        (backend.add_axis(x, 1), values[:, None]),
        (backend.add_axes(x, 4, {1: 2, 3: 2}), np.tile(values[:, None, :, None], (1, 2, 1, 2))),
        (backend.tile(x, (2, 1)), np.tile(values, (2, 1))),
        (backend.concat([x, x], 1), np.concatenate([values, values], 1)),
        (backend.einsum("ij->ji", x), values.T),
    )
    for ours, theirs in pairs:
        np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_without_einops_there_is_no_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(einops_backend, "_registered", [])
    monkeypatch.delitem(sys.modules, "einops", raising=False)
    einops_backend.register_if_imported()
    monkeypatch.setitem(sys.modules, "einops", ModuleType("einops"))  # of another structure
    monkeypatch.delitem(sys.modules, "einops._backends", raising=False)
    einops_backend.register_if_imported()
    assert einops_backend._registered == []
