"""The fast path of a jitted function: calls like the last one, and calls that only look so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import porism
from porism import Tensor
from porism.base.errors import PorismError, TypeMismatch
from porism.base.settings import settings
from porism.engine.run.buffer_storage import NoValue
from porism.tensor.jit.fast_path import MISSED
from porism.tensor.jit.nested_values import Signature


@pytest.fixture
def slow_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with every call that computes the signature of its arguments."""
    calls: list[int] = []

    class Counted(Signature):
        __slots__ = ()

        def __init__(self) -> None:
            calls.append(len(calls))
            super().__init__()

    monkeypatch.setattr("porism.tensor.jit.jit.Signature", Counted)
    return calls


def vector(*values: float) -> Tensor:
    return porism.asarray(np.array(values, np.float32)).realize()


def test_a_call_like_the_last_one_looks_nothing_up(slow_calls: list[int]) -> None:
    scaled = porism.jit(lambda x, y: x * 2 + y)
    x, y = vector(1, 2), vector(3, 4)
    assert scaled(x, y).tolist() == [5, 8]
    assert scaled(y, x).tolist() == [7, 10]
    assert scaled(scaled(x, y), y).tolist() == [13, 20]
    assert len(slow_calls) == 1


def test_arguments_by_name(slow_calls: list[int]) -> None:
    minus = porism.jit(lambda x, *, y, z: {"y": x - y, "z": x - z})
    x, y, z = vector(9), vector(1), vector(2)
    for _ in range(2):
        result = minus(x, y=y, z=z)
        assert (result["y"].tolist(), result["z"].tolist()) == ([8], [7])
    assert len(slow_calls) == 1
    assert minus(x, z=z, y=y)["y"].tolist() == [8]
    assert len(slow_calls) == 2


def test_arguments_of_another_kind_take_the_slow_path(slow_calls: list[int]) -> None:
    double = porism.jit(lambda x: x + x)
    arguments: list[Any] = [
        vector(1, 2),
        vector(1, 2, 3),
        vector(1, 2).reshape(1, 2),
        porism.asarray([1, 2], dtype=porism.int32).realize(),
        vector(1, 2) * 3,
        np.array([1, 2], np.float32),
    ]
    for x in (*arguments, *arguments):
        assert np.array_equal(double(x).numpy(), np.asarray(porism.asarray(x).numpy()) * 2)
    assert len(slow_calls) == 2 * len(arguments)
    assert double.traces == 5  # an array is no tensor


def test_one_tensor_twice_is_another_kind() -> None:
    both = porism.jit(lambda x, y: x * 10 + y)
    x, y = vector(1, 2), vector(3, 4)
    assert both(x, y).tolist() == [13, 24]
    assert both(x, x).tolist() == [11, 22]
    assert both.traces == 2
    assert both(x, y).tolist() == [13, 24]


def test_too_many_and_too_few_arguments() -> None:
    double = porism.jit(lambda x: x + x)
    x = vector(1)
    double(x)
    for wrong in ((), (x, vector(2))):
        with pytest.raises(TypeError, match="argument"):
            double(*wrong)
    with pytest.raises(TypeError, match="argument"):
        double(y=x)


def test_other_values_are_compared(slow_calls: list[int]) -> None:
    power = porism.jit(lambda x, n, rest=(): x**n + len(rest))
    x, rest = vector(2, 3), [1]
    assert power(x, 2).tolist() == [4, 9]
    assert power(x, 2).tolist() == [4, 9]
    assert len(slow_calls) == 1
    assert power(x, 3).tolist() == [8, 27]
    assert power(x, 2.0).tolist() == [4, 9]
    for length in (1, 2, 3):  # a list may be another one at every call
        assert power(x, 2, rest).tolist() == [4 + length, 9 + length]
        rest.append(1)


def test_an_object_that_can_become_another_is_compared() -> None:
    class Scale:
        def __init__(self, by: int) -> None:
            self.by = by

        def __hash__(self) -> int:
            return hash(self.by)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Scale) and other.by == self.by

    scaled = porism.jit(lambda x, scale: x * scale.by)
    assert scaled(vector(1), Scale(2)).tolist() == [2]
    scale = Scale(3)
    assert scaled(vector(1), scale).tolist() == [3]
    scale.by = 4
    assert scaled(vector(1), scale).tolist() == [4]


def test_a_method_takes_the_fast_path(slow_calls: list[int]) -> None:
    class Layer:
        def __init__(self, weight: Tensor) -> None:
            self.weight = weight

        @porism.jit
        def run(self, x: Tensor) -> Tensor:
            return x * self.weight

    one, two = Layer(vector(2)), Layer(vector(3))
    for _ in range(3):
        assert one.run(vector(5)).tolist() == [10]
    assert len(slow_calls) == 1
    assert two.run(vector(5)).tolist() == [15]
    one.weight.assign(vector(4))
    assert one.run(vector(5)).tolist() == [20]
    one.weight = vector(7)
    assert one.run(vector(5)).tolist() == [35]


def test_captured_tensors_have_their_present_values(slow_calls: list[int]) -> None:
    weight = vector(2)
    scaled = porism.jit(lambda x: x * weight)
    assert [scaled(vector(k)).tolist() for k in (1, 2)] == [[2], [4]]
    assert len(slow_calls) == 1
    weight.assign(vector(3))
    assert scaled(vector(1)).tolist() == [3]
    weight = vector(5)
    assert scaled(vector(1)).tolist() == [5]
    weight = vector(5, 6)
    assert scaled(vector(1)).tolist() == [5, 6]


def test_what_is_assigned_is_assigned_at_every_call() -> None:
    total = vector(0)

    @porism.jit
    def add(x: Tensor) -> Tensor:
        total.assign(total + x)
        return total * 1

    assert [add(vector(2)).tolist() for _ in range(3)] == [[2], [4], [6]]


def test_random_numbers_go_on() -> None:
    noisy = porism.jit(lambda x: x + porism.rand(4))
    x = porism.zeros(4).realize()
    first, second = noisy(x).tolist(), noisy(x).tolist()
    assert first != second


def test_an_input_that_is_given_back_is_a_copy() -> None:
    same = porism.jit(lambda x, y: (x, y + 1))
    x, y = vector(1), vector(2)
    for _ in range(2):
        given, _ = same(x, y)
        given.assign(vector(9))
        assert (given.tolist(), x.tolist()) == ([9], [1])


def test_settings_are_those_of_the_moment() -> None:
    double = porism.jit(lambda x: x + x)
    x = vector(1, 2)
    double(x)
    with settings.override(backend="reference"):
        assert double(x).tolist() == [2, 4]
    assert double.traces == 2
    assert double(x).tolist() == [2, 4]
    assert double.traces == 2


def test_other_settings_take_the_slow_path(slow_calls: list[int]) -> None:
    double = porism.jit(lambda x: x + x)
    x = vector(1, 2)
    with settings.override(check=False):
        assert [double(x).tolist() for _ in range(2)] == [[2, 4], [2, 4]]
    assert len(slow_calls) == 2
    assert [double(x).tolist() for _ in range(2)] == [[2, 4], [2, 4]]
    assert len(slow_calls) == 3
    assert double.traces == 1


def test_inside_of_another_it_becomes_a_part_of_that() -> None:
    double = porism.jit(lambda x: x + x)
    x = vector(1, 2)
    double(x)
    outer = porism.jit(lambda x: double(x) + 1)
    assert outer(x).tolist() == [3, 5]
    assert double.traces == 1


def test_a_tensor_that_was_kept_from_inside_is_refused() -> None:
    kept = []

    def keep(x: Tensor) -> Tensor:
        kept.append(x)
        return x + 1

    double = porism.jit(lambda x: x + x)
    double(vector(1, 2))
    with pytest.raises(PorismError, match="keeps a tensor"):
        porism.jit(keep)(vector(1, 2))
    with pytest.raises(NoValue, match="kept from inside"):
        double(kept[0])


def test_results_that_are_kept_stay_as_they_are() -> None:
    double = porism.jit(lambda x: x + x)
    kept = [double(vector(k, k)) for k in range(30)]
    views = [np.asarray(x.numpy()) for x in kept]
    again = [double(vector(-k, -k)) for k in range(30)]
    assert [x.tolist() for x in kept] == [[2 * k, 2 * k] for k in range(30)]
    assert [v.tolist() for v in views] == [[2 * k, 2 * k] for k in range(30)]
    assert [x.tolist() for x in again] == [[-2 * k, -2 * k] for k in range(30)]


# -- complex arguments -----------------------------------------------------------------------------


def test_complex_tensors_take_the_fast_path() -> None:
    product = porism.jit(lambda z, w: z * w + 1j)
    values = [np.array([1 + 2j, 3j], np.complex64), np.array([2 - 1j, 1j], np.complex64)]
    z, w = (porism.asarray(v) for v in values)
    expected = values[0] * values[1] + np.complex64(1j)
    for _ in range(3):
        np.testing.assert_allclose(product(z, w).numpy(), expected)
    assert product._fast_path is not None
    assert product._fast_path.call((z, w), {}) is not MISSED
    real = porism.asarray([1.0, 2.0])
    for _ in range(3):  # a real tensor in the place of a complex one is another signature
        np.testing.assert_allclose(product(real, w).numpy(), [1, 2] * values[1] + 1j)
        np.testing.assert_allclose(product(z, w).numpy(), expected)
        np.testing.assert_allclose(product(z, z).numpy(), values[0] ** 2 + 1j)
    assert product.traces == 3


def test_one_tensor_as_both_parts_is_another_signature() -> None:
    from porism.tensor.complex.complex_tensor import ComplexTensor

    part = porism.asarray([1.0, 2.0])
    double = porism.jit(lambda z: z * 2)
    apart = ComplexTensor(part, porism.asarray([3.0, 4.0]))
    for z in (apart, ComplexTensor(part, part), apart):
        np.testing.assert_array_equal(double(z).numpy(), z.numpy() * 2)


def test_complex_arrays_of_numpy_are_tensors_inside() -> None:
    turned = porism.jit(lambda z: porism.fft.fft(z)[::-1])
    for seed in range(3):
        random = np.random.default_rng(seed)
        z = random.normal(size=6) + 1j * random.normal(size=6)
        np.testing.assert_allclose(turned(z).numpy(), np.fft.fft(z)[::-1])
    assert turned.traces == 1

    @porism.jit
    def assigns(z: Any) -> Any:
        z[0] = 1
        return z

    with pytest.raises(TypeMismatch, match="assigns to an array of NumPy's"):
        assigns(np.ones(2, complex))


def test_complex_numbers_are_told_apart_by_their_signs() -> None:
    root = porism.jit(lambda x, z: porism.sqrt(x + z))
    x = porism.asarray(np.array([-4.0 - 0j]))
    for number in (complex(0.0, 0.0), complex(-0.0, -0.0), complex(0.0, -0.0)):
        np.testing.assert_array_equal(root(x, number).numpy(), porism.sqrt(x + number).numpy())
    assert root.traces == 3
