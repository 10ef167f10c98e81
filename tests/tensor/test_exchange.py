"""Values in and out: Python's numbers, NumPy, DLPack; what a tensor says of itself."""

from __future__ import annotations

import copy
import operator
import pickle
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError, TypeMismatch
from porism.engine.run.buffer_storage import realized_buffer
from porism.tensor.namespace import DTYPES, MODULE_OF, MODULES, NAMES
from porism.tensor.promotion import NAMES as TYPES
from tests.tensor.oracle import agree, refuses


def test_numbers() -> None:
    x = porism.asarray([[2.5]])
    assert x.item() == 2.5
    assert float(x) == 2.5
    assert int(x) == 2
    assert bool(x)
    assert not porism.zeros(1)
    assert [10, 20, 30][porism.asarray(1)] == 20
    assert porism.asarray([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert porism.asarray([True]).tolist() == [True]
    assert porism.asarray(1.5).tolist() == 1.5
    assert f"{x:.3f} {porism.asarray(7):04d} {porism.ones(1, dtype='bfloat16'):.1f}" == (
        "2.500 0007 1.0"
    )
    assert f"{x}" == repr(x)


def test_what_is_not_one_number() -> None:
    x = porism.ones(2)
    for function in (bool, int, float, porism.Tensor.item):
        with refuses(ShapeError, "of a tensor of shape (2,)"):
            function(x)
    with refuses(ShapeError, "format() of a tensor of shape (2,)"):
        f"{x:.3f}"
    with refuses(TypeMismatch, "a tensor of float32 as an index"):
        [1][porism.ones(())]
    assert complex(porism.ones(())) == 1
    with refuses(ShapeError, "complex() of a tensor of shape (2,)"):
        complex(x)
    with refuses(ShapeError, "len() of a scalar"):
        len(porism.ones(()))
    with refuses(ShapeError, "iteration over a scalar"):
        list(porism.ones(()))


def test_what_it_is() -> None:
    x = porism.zeros(2, 3, dtype="int16")
    assert (x.shape, x.ndim, x.size, x.nbytes, len(x)) == ((2, 3), 2, 6, 12, 2)
    assert x.dtype is porism.int16
    assert x.T.shape == (3, 2)
    assert [row.shape for row in x] == [(3,), (3,)]
    assert x.__array_namespace__() is porism
    assert x.device == "cpu"


def test_its_text_computes_nothing() -> None:
    x = porism.ones(2, 3) * 2
    assert repr(x) == "Tensor(lazy, shape=(2, 3), dtype=float32)"
    assert realized_buffer(x.node) is None
    assert repr(x.realize()) == (
        "Tensor([[2., 2., 2.],\n        [2., 2., 2.]], shape=(2, 3), dtype=float32)"
    )
    assert repr(porism.asarray(314159)) == "Tensor(lazy, shape=(), dtype=int64)"


def test_numpy_takes_tensors() -> None:
    x = porism.arange(4) * 2
    np.testing.assert_array_equal(np.asarray(x), [0, 2, 4, 6])
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    np.testing.assert_array_equal(np.add(x, 1), [1, 3, 5, 7])
    got = np.array([1.0, 2.0]) + porism.ones(2)
    assert isinstance(got, porism.Tensor)
    agree(got, np.array([2.0, 3.0]))
    rows = np.array([[1.0, 2.0, 3.0, 4.0]])
    for product in (rows @ porism.arange(4.0), rows.tolist() @ porism.arange(4.0)):
        assert isinstance(product, porism.Tensor)
        assert product.tolist() == [20.0]


@pytest.mark.parametrize("function", [porism.asarray, porism.from_dlpack])
def test_a_copy_of_a_tensor_is_another_tensor(function: Any) -> None:
    x = porism.arange(3).realize()
    y = function(x, copy=True)
    y[0] = 7
    agree(x, np.array([0, 1, 2]))
    agree(y, np.array([7, 1, 2]))


def test_narrow_types_leave_as_ml_dtypes() -> None:
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        values = porism.ones(2, dtype=name).numpy()
        assert values.dtype == getattr(ml_dtypes, name)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16"])
def test_pickles(dtype: str) -> None:
    x = porism.asarray([[1, 0], [3, 2]]).astype(dtype)
    for tensor in (x, x[:, ::-1], x[:0]):
        again = pickle.loads(pickle.dumps(tensor))
        agree(again, tensor.numpy(), dtype)


def test_copies() -> None:
    x = porism.asarray([1, 2, 3])
    for y in (copy.copy(x), copy.deepcopy(x), copy.deepcopy({"x": [x]})["x"][0]):
        x[0] = 7
        assert y.tolist() == [1, 2, 3]
        x[0] = 1


def test_functions_of_numpy_take_tensors() -> None:
    x = porism.asarray([[1.0, 2.0], [3.0, 5.0]])
    assert np.sum(x) == 11
    assert np.mean(x, axis=0).tolist() == [2.0, 3.5]
    assert np.concatenate([x, x], axis=1).shape == (2, 4)
    assert np.clip(x, a_min=x[0, 1], a_max=None).tolist() == [[2.0, 2.0], [3.0, 5.0]]


def test_dlpack() -> None:
    x = porism.arange(6).reshape(2, 3) * 2
    np.testing.assert_array_equal(np.from_dlpack(x), [[0, 2, 4], [6, 8, 10]])
    assert x.__dlpack_device__() == (1, 0)
    values = np.arange(6.0).reshape(2, 3)
    agree(porism.from_dlpack(values), values)
    agree(porism.from_dlpack(values.T), values.T)
    shared = porism.from_dlpack(values, copy=False)
    values[0, 0] = 7
    agree(shared, values)
    assert porism.from_dlpack(x) is x
    with pytest.raises(RuntimeError, match="Unsupported dtype"):  # NumPy has no such type
        np.from_dlpack(porism.ones(2, dtype="bfloat16"))
    with refuses(TypeMismatch, "from_dlpack of a list"):
        porism.from_dlpack([1])


# -- the namespace ---------------------------------------------------------------------------------


def test_every_name_is_there() -> None:
    for name in NAMES:
        assert hasattr(porism, name), name
    assert set(dir(porism)) >= NAMES
    assert set(TYPES) == DTYPES
    assert sum(len(names.split()) for names in MODULES.values()) == len(MODULE_OF)
    with pytest.raises(AttributeError, match="did you mean zeros"):
        porism.zeroes  # noqa: B018


def test_the_array_api_is_there() -> None:
    elementwise = (
        "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert"
        " bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor ceil clip copysign cos cosh"
        " divide equal exp expm1 floor floor_divide greater greater_equal hypot isfinite isinf"
        " isnan less less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or"
        " logical_xor maximum minimum multiply negative nextafter not_equal positive pow reciprocal"
        " remainder round sign signbit sin sinh sqrt square subtract tan tanh trunc where"
    )
    creation = (
        "arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones"
        " ones_like tril triu zeros zeros_like"
    )
    movement = (
        "broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape"
        " roll squeeze stack tile unstack take take_along_axis matrix_transpose"
    )
    types = "astype can_cast finfo iinfo isdtype result_type e inf nan newaxis pi"
    for name in f"{elementwise} {creation} {movement} {types}".split():
        assert name in NAMES, name


def test_importing_loads_nothing() -> None:
    code = "import sys, porism; print([m for m in sys.modules if 'numpy' in m or 'porism.' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- memory of others ------------------------------------------------------------------------------


def test_dlpack_shares_or_refuses() -> None:
    rows = np.arange(6.0)
    shared = porism.from_dlpack(rows, copy=False)
    rows[0] = 5
    assert shared.tolist()[0] == 5
    for other in (rows[::2], rows.reshape(2, 3).T, rows[::-1]):
        agree(porism.from_dlpack(other, copy=False), other)
    with refuses(TypeMismatch, "cannot share the memory of a Tensor"):
        porism.asarray(porism.ones(2), dtype="int32", copy=False)
    with refuses(TypeMismatch, "cannot share the memory of a Foreign"):
        porism.asarray(Foreign(rows), dtype="int32", copy=False)


class Foreign:
    """A tensor of another library."""

    def __init__(self, array: Any, *, requires_grad: bool = False, device: int = 1) -> None:
        self.array, self.requires_grad, self.device = array, requires_grad, device

    def __dlpack__(self, **options: Any) -> Any:
        if self.requires_grad or self.device != 1:
            raise BufferError("cannot export this tensor")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)


def test_advice_for_tensors_of_other_libraries() -> None:
    for tensor, fix in (
        (Foreign(np.ones(2), requires_grad=True), "x.detach()"),
        (Foreign(np.ones(2), device=10), "move it to the CPU's memory first"),  # ROCm
    ):
        with refuses(TypeMismatch, "from_dlpack of a Foreign") as caught:
            porism.asarray(tensor)
        assert caught.value.fix is not None
        assert fix in caught.value.fix


# -- arrays beside tensors -------------------------------------------------------------------------


def test_an_array_stays_one_when_a_tensor_is_added_to_it() -> None:
    array = np.ones((2, 3))
    other = array
    array += porism.asarray([1.0, 2.0, 3.0])
    array *= porism.asarray(2.0)
    assert array is other
    np.testing.assert_array_equal(other, [[4, 6, 8]] * 2)
    with refuses(TypeMismatch, "numpy.add with a tensor as `out`"):
        np.add(array, array, out=porism.ones((2, 3)))


def test_operators_of_an_array_and_a_tensor_give_tensors() -> None:
    for dtype, symbols in (
        ("float64", "add sub mul truediv floordiv mod pow lt le gt ge eq ne matmul"),
        ("int64", "add mul and_ or_ xor lshift rshift"),
    ):
        a, b = np.array([[5, 2], [4, 3]], dtype), np.array([[3, 2], [1, 4]], dtype)
        for symbol in symbols.split():
            function = getattr(operator, symbol)
            for result in (function(a, porism.asarray(b)), function(porism.asarray(a), b)):
                assert isinstance(result, porism.Tensor)
                agree(result, function(a, b))
    assert isinstance(np.exp(porism.ones(2)), np.ndarray)


def test_lists_of_arrays_keep_their_type() -> None:
    large = np.array([1e300])
    agree(porism.asarray([large, large]), np.array([[1e300], [1e300]]))
    agree(porism.asarray([np.float64(1e300), 1]), np.array([1e300, 1]))
    for values, name in (
        ([np.float32(1), 2.5], "float32"),
        ([np.ones(2, "float16"), [1, 2]], "float16"),
        ([[True, np.int8(1)]], "int8"),
        ([porism.ones(2, dtype="float64"), [1, 2]], "float64"),
        ([1, 2.5], "float32"),
        ([[1, 2], [3, 4]], "int64"),
        ([], "float32"),
    ):
        assert porism.asarray(values).dtype is getattr(porism, name), values


# -- without assertions and docstrings -------------------------------------------------------------


@pytest.mark.parametrize("flag", [pytest.param("-O", marks=pytest.mark.slow), "-OO"])
def test_python_without_docstrings(flag: str) -> None:
    code = "import porism; x = porism.ones((3, 4)); print((x @ x.T).softmax().sum().item())"
    done = subprocess.run(
        [sys.executable, flag, "-c", code], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) == pytest.approx(3)


def test_a_tensor_is_made_of_data() -> None:
    tensor: Any = porism.tensor
    assert porism.Tensor([1, 2]).tolist() == [1, 2]
    assert porism.Tensor([1, 2], "float32").dtype is porism.float32
    assert tensor([[1.5]], dtype=porism.float64).dtype is porism.float64
    array = np.arange(3)
    x = tensor(array)
    array[0] = 7
    assert x.tolist() == [0, 1, 2]
    assert tensor(x) is not x
    with pytest.raises(porism.base.errors.ShapeError, match=r"write porism.zeros\(2, 3\)"):
        porism.Tensor(2, 3)


def test_a_realized_tensor_shows_its_values() -> None:
    def shown(values: object, dtype: str) -> str:
        return repr(porism.asarray(values, dtype=dtype).realize())

    assert shown([1.0, float("nan")], "bfloat16") == "Tensor([1, nan], shape=(2,), dtype=bfloat16)"
    assert shown(np.zeros((0, 3)), "int8") == "Tensor([], shape=(0, 3), dtype=int8)"
    assert shown([True], "bool") == "Tensor([ True], shape=(1,), dtype=bool)"
    assert shown(2.5, "float32") == "Tensor(2.5, shape=(), dtype=float32)"
    assert "..." in shown(np.arange(10_000), "int64")
    x = porism.arange(3).realize()
    assert repr(x.reshape(3, 1)) == "Tensor(lazy, shape=(3, 1), dtype=int64)"
    assert x._repr_html_() == "<pre>Tensor([0, 1, 2], shape=(3,), dtype=int64)</pre>"


def test_a_traced_tensor_shows_no_values() -> None:
    texts = []

    @porism.jit
    def twice(x: porism.Tensor) -> porism.Tensor:
        texts.append(repr(x))
        return x * 2

    twice(porism.arange(3).realize())
    assert set(texts) == {"Tensor(lazy, shape=(3,), dtype=int64)"}
