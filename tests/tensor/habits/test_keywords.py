"""Names and keywords of other libraries: they work, or the error says what to write."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError, TypeMismatch
from porism.tensor import namespace
from porism.tensor.habits import foreign_names, synonyms
from porism.tensor.habits.unknown_names import UnknownName
from tests.tensor.oracle import agree, refuses

X: Any = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def test_a_synonym_is_the_function() -> None:
    assert porism.concatenate is porism.concat
    assert porism.Tensor.sum is porism.sum
    for foreign, ours in namespace.SYNONYMS.items():
        assert getattr(porism, foreign) is getattr(porism, ours), foreign


def test_keywords_are_renamed() -> None:
    x = porism.asarray(X)
    agree(x.sum(dim=1, keepdim=True), X.sum(axis=1, keepdims=True))
    agree(porism.sum(input=x, dim=0), X.sum(0))
    agree(x.var(dim=0, unbiased=True), X.var(axis=0, ddof=1))
    agree(x.std(axis=0, ddof=1), X.std(axis=0, ddof=1))
    agree(porism.zeros(shape=(2, 3)), np.zeros((2, 3), np.float32))
    agree(porism.permute(x, dims=(1, 0)), X.T)
    agree(x.clip(a_min=1, a_max=3), X.clip(1, 3))
    agree(porism.add(x, x, out=None), X + X)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda x: x.sum(axis=0, dim=1), "pass axis alone"),
        (lambda x: x.sum(0, dim=1), "multiple values for argument 'axis'"),
        (lambda x: x.sum(0, True), "write porism.sum(x, axis=None, *, dtype=None, keepdims=False)"),
        (lambda x: x.max(dim=1), "write x.max(axis=…) for the values and x.argmax(axis=…)"),
        (lambda x: x.std(dim=0), "correction=1) for n - 1"),
        (lambda x: porism.add(x, x, out=x), "assign the result"),
        (lambda x: porism.zeros(2, device="mps"), "porism.devices()"),
        (lambda x: x.to("mps"), "porism.devices()"),
    ],
)
def test_a_wrong_call_names_what_to_write(call: Any, sentence: str) -> None:
    with refuses(TypeMismatch, sentence):
        call(porism.asarray(X))


def test_a_type_error_from_within_a_function_is_left_alone() -> None:
    class Broken:
        def __array__(self, dtype: object = None, copy: object = None) -> object:
            raise TypeError("my own")

    with pytest.raises(TypeError, match="my own"):
        porism.sum(Broken())


def test_an_unknown_name_says_what_to_write() -> None:
    x = porism.ones(2)
    with pytest.raises(UnknownName, match=r"assign the result: x = x.add\(…\)"):
        x.add_(1)
    with pytest.raises(UnknownName, match="did you mean zeros"):
        porism.zeroes(2)
    with pytest.raises(UnknownName, match=r"porism.jit\(function\)"):
        porism.compile(abs)
    with pytest.raises(AttributeError, match="no attribute '_hidden'"):
        _ = x._hidden
    assert not hasattr(x, "columns")
    with pytest.raises(UnknownName) as caught:
        _ = porism.inference_mode
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_synonyms_are_of_public_names() -> None:
    assert set(synonyms.FUNCTIONS.values()) <= namespace.NAMES
    assert set(synonyms.TYPES.values()) <= namespace.NAMES
    words = re.compile(r"porism\.(\w+)")
    told = [*foreign_names.FUNCTIONS.values(), *foreign_names.METHODS.values()]
    for name in {name for text in told for name in words.findall(text)}:
        assert hasattr(porism, name), f"the advice names porism.{name}"


def test_size_is_a_number_that_can_be_called() -> None:
    x = porism.zeros(2, 3)
    assert x.size == 6
    assert (x.size(), x.size(0), x.size(-1)) == ((2, 3), 2, 3)
    assert type(copy.deepcopy(x.size)) is int


def test_methods_of_other_libraries() -> None:
    x = porism.asarray(X)
    y = x.clone()
    y[0, 0] = 7
    assert x[0, 0].item() == 0
    assert [x.float().dtype, x.long().dtype, x.half().dtype] == [
        porism.float32,
        porism.int64,
        porism.float16,
    ]
    assert (x.numel(), x.dim(), x.itemsize, x.type()) == (6, 2, 4, "float32")
    agree(x.to(porism.int32), X.astype(np.int32))
    agree(x.to("cpu", dtype="float64"), X.astype(np.float64))
    agree(x.t(), X.T)
    agree(porism.ones(3).expand_as(x), np.ones((2, 3), np.float32))
    agree(x.view(3, 2), X.reshape(3, 2))
    assert x.detach().cpu().contiguous().is_contiguous()
    with refuses(ShapeError, "or the last two with .mT"):
        porism.zeros(1, 1, 1).t()


def test_counts_without_a_length() -> None:
    numbers = [0, 2, 2, 5]
    agree(porism.bincount(numbers), np.bincount(numbers))
    agree(porism.bincount(numbers, minlength=8), np.bincount(numbers, minlength=8))
    agree(porism.bincount(porism.zeros(0, dtype="int64")), np.zeros(0, np.int64))
    with refuses(ShapeError, "pass length="):
        porism.bincount([-1, 2])


@pytest.mark.parametrize("places", [-1, 1, 3])
def test_rounding_to_decimals(places: int) -> None:
    values = np.array([123.456, -0.05, 2.675, np.inf, np.nan], np.float32)
    agree(porism.round(values, places), np.round(values, places))
    agree(porism.round([1, 2], 2), np.array([1, 2]))
