"""In-place updates of parts of tensors: only where nothing else refers to the old values."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices

import porism
from porism.base.errors import ShapeError
from porism.engine.run.buffer_storage import find_storage, node_storage

X: Final = np.arange(120, dtype=np.float32).reshape(4, 5, 6)


def exclusive_tensor() -> Any:
    """Return a tensor whose memory nothing else refers to."""
    return (porism.asarray(X) + 0).realize()


def address(x: Any) -> int:
    return node_storage(x._node)[1]


def is_in_place(x: Any, before: int) -> bool:
    """Return whether the values of a tensor are still at an address."""
    storage = find_storage(x._node)
    return storage is not None and storage[1] == before


@settings(max_examples=200)
@given(st.data())
def test_any_part(data: Any) -> None:
    x, expected = exclusive_tensor(), X.copy()
    where = address(x)
    key = data.draw(basic_indices(X.shape, allow_newaxis=True))
    part = expected[key]
    shape = data.draw(st.integers(0, part.ndim))
    value = np.random.default_rng(0).standard_normal(part.shape[part.ndim - shape :])
    kind = data.draw(st.sampled_from(["number", "array", "tensor", "lazy"]))
    value = value.astype(np.float32)
    given_value: Any = {
        "number": 2.5,
        "array": value,
        "tensor": porism.asarray(value),
        "lazy": porism.asarray(value) * 2 - 1,
    }[kind]
    x[key] = given_value
    expected[key] = {"number": 2.5, "lazy": value * 2 - 1}.get(kind, value)
    assert is_in_place(x, where)
    assert (x.numpy() == expected).all()


def test_tensors_computed_before_keep_the_old_value() -> None:
    x = exclusive_tensor()
    where = address(x)
    doubled, part = x * 2, x[0]
    x[0] = -1
    assert (doubled.numpy() == X * 2).all()
    assert (part.numpy() == X[0]).all()
    assert (x.numpy()[0] == -1).all()
    del doubled, part
    assert not is_in_place(x, where)


def test_another_tensor_with_the_same_value_keeps_it() -> None:
    x = exclusive_tensor()
    other = porism.asarray(X).assign(x)
    x[1, 2] = 7
    assert (other.numpy() == X).all()
    assert (x.numpy()[1, 2] == 7).all()


def test_a_value_computed_from_the_tensor_itself() -> None:
    x = exclusive_tensor()
    x[1:] = x[:-1]
    assert (x.numpy()[1:] == X[:-1]).all()
    x[:] = x
    x[0] = x.realize()[1] + 1
    assert (x.numpy()[0] == X[0] + 1).all()


def test_arrays_of_users_are_not_written_to() -> None:
    given = X.copy()
    x = porism.asarray(given)
    x[0] = 5
    assert (given == X).all()
    y = exclusive_tensor()
    seen = np.from_dlpack(y)
    again = porism.asarray(seen)
    y[0] = 5
    again[1] = 6
    assert (seen == X).all()
    assert (y.numpy()[0] == 5).all()
    assert (again.numpy()[1] == 6).all()


def test_jitted_functions_see_the_new_value() -> None:
    x = exclusive_tensor()

    @porism.jit
    def total(y: Any) -> Any:
        return (x + y).sum()

    @porism.jit
    def changed(y: Any) -> Any:
        y[0] = 1
        return y * 1

    assert total(porism.zeros(6)).item() == X.sum()
    where = address(x)
    x[0] = 0
    assert is_in_place(x, where)
    assert total(porism.zeros(6)).item() == X[1:].sum()
    result = changed(x)
    assert (x.numpy()[0] == 1).all()
    result[0] = 9
    assert (x.numpy()[0] == 1).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "bool", "uint64"])
def test_numbers_of_every_type(dtype: str) -> None:
    kind = getattr(porism, dtype)
    x, lazy = (porism.asarray(np.ones(9, np.int8)).astype(kind)[1:] for _ in range(2))
    where = address(x.realize())
    number = 1 if dtype == "bool" else 3
    x[2:4] = number
    lazy[2:4] = number
    assert is_in_place(x, where)
    assert x.dtype is kind
    assert (x.numpy() == lazy.numpy()).all()


def test_values_that_do_not_fit() -> None:
    x = exclusive_tensor()
    with pytest.raises(ShapeError, match="do not go together"):
        x[0] = porism.ones(4)
    assert (x.numpy() == X).all()
