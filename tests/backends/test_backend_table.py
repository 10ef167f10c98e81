"""The table of backends: each row is whole, and the setting names all of them."""

from __future__ import annotations

import numpy as np
import pytest

import porism
from porism.backends.backend_table import BACKENDS, Backend, selected_backend
from porism.base.dtypes import f32, i32
from porism.base.settings import TABLE, Choice, settings
from porism.ir import ops
from porism.ir.node import UOp
from porism.lower.linearize import linearize
from tests.backends.running import pointer, works


def test_the_setting_names_every_backend() -> None:
    (setting,) = [row for row in TABLE if row.name == "backend"]
    assert isinstance(setting, Choice)
    assert list(setting.words) == list(BACKENDS)
    assert all(name == row.name for name, row in BACKENDS.items())


@pytest.mark.parametrize("name", BACKENDS)
def test_the_setting_chooses(name: str) -> None:
    with settings.override(backend=name):
        assert selected_backend() is BACKENDS[name]


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=lambda row: row.name)
def test_a_backend_shows_its_text_or_has_none(backend: Backend) -> None:
    i = UOp.range(UOp.const(i32, 4), 0)
    lines = linearize(ops.SINK(pointer(0, f32, 4).index(i).store(UOp.const(f32, 1.0)).end(i)))
    if backend.source is None:
        assert backend.load is None
    else:
        assert "copy_of_one" in backend.source(lines, "copy_of_one")


@pytest.mark.parametrize("name", BACKENDS)
def test_tensors_are_computed_by_each(name: str) -> None:
    if not works(name):
        pytest.skip("no compiler")
    given = np.arange(12, dtype=np.float32).reshape(3, 4)
    with settings.override(backend=name):
        actual = (porism.asarray(given) * 2 + 1).sum(axis=1).numpy()
    np.testing.assert_array_equal(actual, (given * 2 + 1).sum(axis=1))
