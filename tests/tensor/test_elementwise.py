"""Elementwise functions against NumPy: functions × types × shapes, special values, accuracy."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest

import porism
from porism.ir.facts.semantics import Array
from tests.tensor.oracle import FLOATS, INTEGERS, TYPES, agree, draw, numpy_type
from tests.tensor.singles import singles

Function = Callable[..., Any]


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


def erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def gelu(x: Array) -> Array:
    return np.asarray(x * 0.5 * (1 + erf(x / math.sqrt(2))))


OF_FLOATS: Final[dict[str, tuple[Function, float, float]]] = {
    "acos": (np.arccos, -1, 1),
    "acosh": (np.arccosh, 1, 50),
    "asin": (np.arcsin, -1, 1),
    "asinh": (np.arcsinh, -50, 50),
    "atan": (np.arctan, -20, 20),
    "atanh": (np.arctanh, -0.99, 0.99),
    "cos": (np.cos, -100, 100),
    "cosh": (np.cosh, -9, 9),
    "erf": (erf, -4, 4),
    "exp": (np.exp, -9, 9),
    "exp2": (np.exp2, -9, 9),
    "expm1": (np.expm1, -9, 9),
    "gelu": (gelu, -9, 9),
    "log": (np.log, 0, 99),
    "log10": (np.log10, 0, 99),
    "log1p": (np.log1p, -0.99, 9),
    "log2": (np.log2, 0, 99),
    "reciprocal": (np.reciprocal, 0.1, 9),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 9),
    "sigmoid": (sigmoid, -20, 20),
    "silu": (lambda x: x * sigmoid(x), -20, 20),
    "sin": (np.sin, -100, 100),
    "sinh": (np.sinh, -9, 9),
    "softplus": (softplus, -50, 50),
    "sqrt": (np.sqrt, 0, 99),
    "tan": (np.tan, -1.5, 1.5),
    "tanh": (np.tanh, -9, 9),
}
"""Functions with float results: NumPy's function, and an interval to test it on."""

SHAPES: Final = ((), (0,), (1,), (3, 4), (2, 0, 3))


@pytest.mark.slow
@pytest.mark.parametrize("function", OF_FLOATS)
@pytest.mark.parametrize("name", FLOATS)
def test_float_functions(function: str, name: str) -> None:
    expected, low, high = OF_FLOATS[function]
    x = np.random.default_rng(1).uniform(low, high, (5, 8)).astype(numpy_type(name))
    agree(getattr(porism, function)(porism.asarray(x)), expected(x.astype(np.float64)), name)


@pytest.mark.parametrize("function", OF_FLOATS)
def test_float_functions_by_shape(function: str) -> None:
    expected, low, high = OF_FLOATS[function]
    for shape in SHAPES:
        x = np.asarray(np.random.default_rng(2).uniform(low, high, shape), np.float32)
        result = getattr(porism.asarray(x), function)()  # as a method too
        agree(result, expected(x.astype(np.float64)), "float32")


@pytest.mark.parametrize("function", ["exp", "sqrt", "sigmoid", "atan"])
def test_integers_become_floats(function: str) -> None:
    x = np.array([0, 1, 2, 3], np.int16)
    agree(getattr(porism, function)(x), OF_FLOATS[function][0](x.astype(np.float64)), "float32")


WITHIN: Final = {
    **dict.fromkeys(("exp", "exp2", "log", "log2", "cos", "sin", "sqrt"), 2.0),
    **dict.fromkeys(("tanh", "erf", "atan", "log10"), 3.0),
    **dict.fromkeys(("expm1", "log1p", "sigmoid", "softplus", "tan"), 4.0),
    **dict.fromkeys(("sinh", "cosh", "asinh", "acosh", "atanh", "asin", "acos"), 6.0),
}
"""Error bounds in ulp that the modules state."""

FAR: Final = {"exp": (-87, 88), "cos": (-3e4, 3e4), "sinh": (-85, 85), "asinh": (-1e20, 1e20)}


@pytest.mark.parametrize("function", WITHIN)
def test_accuracy_of_single_precision(function: str) -> None:
    expected, low, high = OF_FLOATS[function]
    low, high = FAR.get(function, (low, high))
    random = np.random.default_rng(3)
    near = random.uniform(max(low, -1e-3), min(high, max(low, 0) + 1e-3), 300)
    x = np.concatenate([random.uniform(low, high, 3000), near]).astype(np.float32)
    exact = expected(x.astype(np.float64))
    got = getattr(porism, function)(porism.asarray(x)).numpy().astype(np.float64)
    units = np.abs(got - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert units.max() <= WITHIN[function], x[units.argmax()]


def test_cosine_of_large_angles() -> None:
    x = np.array([1e6, -3e7, 1e10, 2.0**100], np.float32)
    np.testing.assert_allclose(
        porism.cos(x).numpy(), np.cos(x.astype(np.float64)), atol=3e-7, rtol=0
    )


# -- two operands ----------------------------------------------------------------------------------

OF_NUMBERS: Final[dict[str, Function]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
COMPARISONS: Final = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
BROADCAST: Final = (
    ((), ()),
    ((3, 4), ()),
    ((3, 4), (4,)),
    ((3, 1), (1, 4)),
    ((2, 1, 4), (3, 1)),
    ((0, 3), (1, 3)),
    ((1,), (0,)),
)


@pytest.mark.parametrize("function", OF_NUMBERS)
@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
def test_binary_functions(function: str, name: str) -> None:
    a, b = draw(name, (3, 4)), draw(name, (3, 4), seed=1)
    with np.errstate(over="ignore"):
        expected = OF_NUMBERS[function](a, b)
    agree(getattr(porism, function)(a, b), expected, name)


@pytest.mark.parametrize("function", [*OF_NUMBERS, "divide", "atan2", "hypot", *COMPARISONS])
@pytest.mark.parametrize("shapes", BROADCAST, ids=str)
def test_broadcasting(function: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (draw("float32", shape, seed=k) for k, shape in enumerate(shapes))
    theirs = {"atan2": "arctan2"}.get(function, function)
    expected = getattr(np, theirs)(a, b)
    agree(getattr(porism, function)(porism.asarray(a), porism.asarray(b)), expected)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("function", COMPARISONS)
def test_comparisons(function: str, name: str) -> None:
    a, b = draw(name, (4, 4)), draw(name, (4, 4), seed=1)
    agree(getattr(porism, function)(a, b), getattr(np, function)(a, b), "bool")


ORDER: Final = ("lt", "le", "gt", "ge", "eq", "ne")


def test_operators() -> None:
    a, b = singles([[7.0, -3.0]]), singles([[2.0], [-2.5]])
    x, y = porism.asarray(a), porism.asarray(b)
    for name in (
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        *["lt", "le", "gt", "ge", "eq", "ne"],
    ):
        function = getattr(operator, name)
        for ours, theirs in (
            (function(x, y), function(a, b)),
            (function(x, b), function(a, b)),
            (function(a, y), function(a, b)),
            (function(x, 2.5), function(a, 2.5)),
            (function(2.5, y), function(2.5, b)),
        ):
            assert isinstance(ours, porism.Tensor), name
            agree(ours, theirs)
    agree(x**2, a**2)
    agree(2.0**x, 2.0**a)
    agree(-x, -a)
    agree(+x, a)
    agree(abs(x), abs(a))


def test_operators_of_integers() -> None:
    a, b = np.array([12, -7, 5]), np.array([3, 2, 1])
    x, y = porism.asarray(a), porism.asarray(b)
    for name in ("and_", "or_", "xor", "lshift", "rshift", "floordiv", "mod", "pow"):
        function = getattr(operator, name)
        agree(function(x, y), function(a, b))
        agree(function(x, 2), function(a, 2))
        agree(function(2, y), function(2, b))
    agree(~x, ~a)
    agree(~(x > 0), ~(a > 0))
    agree((x > 0) & (y > 1), (a > 0) & (b > 1))


def test_comparison_with_other_objects() -> None:
    x = porism.ones(2)
    equal: Any = x == None  # noqa: E711 - the operator is what is tested
    assert equal is False
    differs: Any = x != "text"
    assert differs is True
    assert x in [x]
    assert len({x, porism.ones(2)}) == 2


# -- integers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", INTEGERS)
def test_division_of_integers_by_zero_gives_zero(name: str) -> None:
    x = porism.asarray(np.array([5, 0, 3], numpy_type(name)))
    for function in ("floor_divide", "remainder"):
        agree(getattr(porism, function)(x, porism.zeros_like(x)), np.zeros(3), name)


@pytest.mark.parametrize("name", ["int8", "int32", "uint8", "int64"])
@pytest.mark.parametrize("function", ["floor_divide", "remainder"])
def test_division_of_integers(function: str, name: str) -> None:
    a, b = draw(name, (6, 6)), draw(name, (6, 6), seed=1)
    b[b == 0] = 3
    agree(getattr(porism, function)(a, b), getattr(np, function)(a, b), name)


def test_integers_wrap() -> None:
    top = np.array([127, -128], np.int8)
    with np.errstate(over="ignore"):
        agree(porism.asarray(top) + 1, top + np.int8(1))
        agree(-porism.asarray(top), -top)
        agree(abs(porism.asarray(top)), abs(top))
        agree(porism.asarray(top) // -1, np.array([-127, -128], np.int8))


def test_powers_of_integers() -> None:
    base, exponent = np.array([2, -3, 0, 5, -1]), np.array([10, 3, 0, 2, 7])
    agree(porism.pow(base, exponent), base**exponent)
    agree(porism.pow(base, -1), np.array([0, 0, 0, 0, -1]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("exponent", [2, 3, -1])
def test_small_powers_are_products(dtype: type, exponent: int) -> None:
    values: Any = np.array([1.5, -3, 0.0, -0.0, np.inf, -np.inf, np.nan], dtype)
    power = porism.asarray(values) ** exponent
    (kernel,) = porism.kernels(power)
    assert "**" not in kernel.text
    with np.errstate(divide="ignore"):
        agree(power, values**exponent)


def test_squares_of_integers_wrap() -> None:
    values = np.array([3, -12, 100], np.int8)
    agree(porism.asarray(values) ** 2, values * values)
    agree(porism.asarray(values) ** 2.0, np.array([9, 144, 10000], np.float32))


def test_shifts_beyond_the_width() -> None:
    x = porism.asarray(np.array([1, -1], np.int8))
    agree(x << 8, np.zeros(2, np.int8))
    agree(x >> 100, np.array([0, -1], np.int8))


@pytest.mark.parametrize("function", ["floor", "ceil", "trunc", "round", "sign", "abs", "square"])
@pytest.mark.parametrize("name", ["int8", "uint8", "float16", "float32", "float64"])
def test_unary_integer_functions(function: str, name: str) -> None:
    x = draw(name, (4, 5))
    agree(getattr(porism, function)(x), getattr(np, function)(x), name)


def test_rounding_to_even() -> None:
    agree(porism.round([0.5, 1.5, 2.5, -0.5, -1.5]), singles([0, 2, 2, -0.0, -2]))


@pytest.mark.parametrize("function", ["logical_and", "logical_or", "logical_xor"])
def test_logic(function: str) -> None:
    for name in ("bool", "int32", "float32"):
        a, b = np.round(draw(name, (4, 4))), np.round(draw(name, (4, 4), seed=1))
        a, b = a.astype(numpy_type(name)), b.astype(numpy_type(name))
        agree(getattr(porism, function)(a, b), getattr(np, function)(a, b), "bool")
    agree(porism.logical_not([0, 2]), np.array([True, False]))


def test_where() -> None:
    condition = draw("bool", (3, 1))
    a, b = draw("float32", (3, 4)), draw("float32", (4,), seed=1)
    agree(porism.where(condition, a, b), np.where(condition, a, b))
    agree(porism.where(condition, a, 0), np.where(condition, a, np.float32(0)))
    agree(porism.where(porism.asarray([1, 0]), 1, 2.5), singles([1, 2.5]))


def test_clip() -> None:
    x = np.array([-5, 0, 3, 9], np.int8)
    agree(porism.clip(x, -1, 4), np.clip(x, -1, 4))
    agree(porism.clip(x, max=4), np.minimum(x, 4).astype(np.int8))
    agree(porism.clip(x, min=-1000, max=1000), x)
    floats = np.array([-2.0, np.nan, 2.0], np.float32)
    agree(porism.asarray(floats).clip(-1, 1), np.clip(floats, -1, 1))
    agree(porism.clip(floats, porism.asarray([0.0, 0.0, 3.0])), singles([0, np.nan, 3]))


def test_lerp() -> None:
    agree(porism.lerp([0.0, 1e8], [1.0, 3.3], [0.25, 1.0]), singles([0.25, 3.3]))


def test_activations() -> None:
    x = np.array([-2.0, -0.5, 0.0, 0.5, 2.0, np.nan], np.float32)
    agree(porism.relu(x), np.maximum(x, 0))
    agree(porism.relu(np.array([-3, 3])), np.array([0, 3]))
    agree(porism.leaky_relu(x, 0.1), np.where(x < 0, x * np.float32(0.1), x))
    x = x[:-1]
    agree(porism.softplus(x, beta=2.0), (np.logaddexp(0, 2 * x) / 2).astype(np.float32))
    near = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    agree(porism.gelu(x, approximate="tanh"), near.astype(np.float32))


def test_gelu_is_accurate_where_it_is_small() -> None:
    x = np.concatenate([np.linspace(-9, 9, 4001), -np.exp2(np.arange(-30.0, 3))]).astype(np.float32)
    exact = x * 0.5 * np.vectorize(math.erfc)(-x.astype(np.float64) / math.sqrt(2))
    actual = porism.gelu(porism.asarray(x)).numpy()
    assert np.max(np.abs(actual - exact)[x != 0] / np.abs(exact[x != 0])) < 2e-4
    near = (np.abs(x) < 1) & (x != 0)
    assert np.max(np.abs(actual - exact)[near] / np.spacing(np.abs(actual[near]))) < 4
    far = porism.gelu(porism.asarray([np.inf, -np.inf, 3e38, -3e38])).numpy()
    assert far[0] == np.inf
    assert far[2] == np.float32(3e38)
    assert np.all(np.abs(far[[1, 3]]) < 1e-20)


# -- special values --------------------------------------------------------------------------------

SPECIAL: Final = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -2.5, 1e-30, -1e-30, 3e38, -3e38, 88.5, -104]
)

EXACT: Final = ("abs", "ceil", "floor", "round", "sign", "signbit", "sqrt", "square", "trunc")
TESTS: Final = ("isnan", "isinf", "isfinite")
THEIR_NAMES: Final = {
    **{f"a{f}": f"arc{f}" for f in ("cos", "sin", "tan", "cosh", "sinh", "tanh", "tan2")},
}


def same_floats(got: Array, expected: Array, tolerance: float) -> None:
    """Fail unless values agree within a tolerance, and NaNs, infinities and signs of zeros."""
    wide, exact = got.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(wide, exact, rtol=tolerance, atol=0)
    known = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(wide)[known], np.signbit(exact)[known])


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize(
    "function", [*EXACT, *TESTS, *(f for f in OF_FLOATS if hasattr(np, THEIR_NAMES.get(f, f)))]
)
def test_special_values(function: str, name: str) -> None:
    x = SPECIAL.astype(numpy_type(name))
    with np.errstate(all="ignore"):
        expected = getattr(np, THEIR_NAMES.get(function, function))(x)
    got = getattr(porism, function)(porism.asarray(x)).numpy()
    # Near its poles the tangent of a large angle depends on every digit of pi.
    finite = np.abs(x) < 1e30 if function in ("sin", "cos", "tan") else np.full(x.shape, True)
    same_floats(got[finite], expected[finite], 1e-5 if name == "float32" else 1e-12)


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize(
    "function", ["atan2", "hypot", "logaddexp", "copysign", "nextafter", "divide", "pow"]
)
def test_special_pairs(function: str, name: str) -> None:
    a, b = (np.ravel(n).astype(numpy_type(name)) for n in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        expected = getattr(np, THEIR_NAMES.get(function, function))(a, b)
    same_floats(getattr(porism, function)(a, b).numpy(), expected, 1e-5)


def _floor_quotients(a: Any, b: Any) -> Any:
    """Return NumPy's quotients; of infinities those of the Array API, which are floor(a / b)."""
    infinite = ~np.isfinite(a.astype(np.float64)) | ~np.isfinite(b.astype(np.float64))
    return np.where(infinite, np.floor(a / b), np.floor_divide(a, b)).astype(a.dtype)


@pytest.mark.parametrize("name", FLOATS)
def test_floor_division_of_special_floats(name: str) -> None:
    kind = numpy_type(name)
    info = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    with np.errstate(over="ignore"):
        limits = [info.max, info.smallest_subnormal]
        numbers = np.array([*SPECIAL, *limits, 0.1, 0.3, 7.0], np.float64).astype(kind)
    numbers = np.concatenate([numbers, -numbers])
    a, b = (np.ravel(n) for n in np.meshgrid(numbers, numbers))
    with np.errstate(all="ignore"):
        expected = _floor_quotients(a, b)
    same_floats(porism.floor_divide(a, b).numpy(), expected, 0)
    for divisor in (-np.inf, np.inf, 0.0, -0.5):
        with np.errstate(all="ignore"):
            expected = _floor_quotients(numbers, np.full_like(numbers, divisor))
        same_floats((porism.asarray(numbers) // divisor).numpy(), expected, 0)


@pytest.mark.parametrize("name", FLOATS)
def test_remainders_of_special_floats(name: str) -> None:
    """Quotients with more bits than the significand are left out."""
    with np.errstate(all="ignore"):
        a, b = (np.ravel(n).astype(numpy_type(name)) for n in np.meshgrid(SPECIAL, SPECIAL))
        size = np.abs(a.astype(np.float64) / b.astype(np.float64))
        wanted = ~np.isfinite(a) | ~np.isfinite(b) | (b == 0) | (size < 2**40)
        expected = np.remainder(a, b)[wanted]
    same_floats(porism.remainder(a, b).numpy()[wanted], expected, 1e-6)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_nan_constants_have_their_sign(name: str, sign: float) -> None:
    """Also after a NaN of the other sign was created."""
    for value in (math.copysign(np.nan, -sign), math.copysign(np.nan, sign)):
        actual = [
            porism.full((3,), value, dtype=name),
            porism.asarray(value, dtype=name),
            porism.where(porism.asarray([True]), value, porism.zeros(1, dtype=name)),
            -porism.full((3,), -value, dtype=name),
        ]
    for tensor in actual:
        values = tensor.numpy()
        assert np.isnan(values).all()
        assert (np.signbit(values) == (sign < 0)).all()


@pytest.mark.parametrize("name", FLOATS)
def test_remainders_are_exact(name: str) -> None:
    random = np.random.default_rng(4)
    a = (random.normal(size=300) * 100).astype(numpy_type(name))
    b = (random.normal(size=300) + 0.01).astype(numpy_type(name))
    wide = [n.astype(np.float64 if name == "float64" else np.float32) for n in (a, b)]
    same_floats(porism.remainder(a, b).numpy(), np.remainder(*wide).astype(a.dtype), 0)
    with np.errstate(over="ignore"):
        expected = np.floor_divide(*wide).astype(a.dtype)
    same_floats(porism.floor_divide(a, b).numpy(), expected, 0)


def test_nan_propagates() -> None:
    x = porism.asarray([np.nan, 1.0])
    for function in ("relu", "sign", "gelu", "silu", "tanh", "erf", "sigmoid", "softplus"):
        assert np.isnan(getattr(porism, function)(x).numpy()[0]), function
    assert np.isnan(porism.maximum(x, 0.0).numpy()[0])
    assert np.isnan(porism.minimum(0.0, x).numpy()[0])


@pytest.mark.parametrize("name", FLOATS)
def test_nextafter(name: str) -> None:
    x = np.array([0.0, 1.0, -1.0, 2.0], numpy_type(name))
    up = porism.nextafter(porism.asarray(x), porism.inf).numpy()
    assert (up > x).all()
    down = porism.nextafter(porism.asarray(up), -porism.inf).numpy()
    np.testing.assert_array_equal(down, x)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_eight_bit_floats(name: str) -> None:
    x = np.array([0.5, -1.5, 2.0], np.float32).astype(numpy_type(name))
    y = porism.asarray(x)
    assert (y + y).dtype is getattr(porism, name)
    np.testing.assert_array_equal((y * 2).numpy().astype(np.float32), [1, -3, 4])
    np.testing.assert_array_equal(abs(y).numpy().astype(np.float32), [0.5, 1.5, 2])
    assert porism.exp(y).numpy().dtype == numpy_type(name)


def test_conversions() -> None:
    for source, target in itertools.product(TYPES, TYPES):
        x = draw(source, (3, 3))
        got = porism.asarray(x).astype(target)
        if x.dtype.kind in "biu" or target in FLOATS or not target.startswith("uint"):
            agree(got, x.astype(np.float64).astype(numpy_type(target)), target)
    edge = porism.asarray([np.nan, 300.7, -300.7, np.inf])
    agree(edge.astype("int8"), np.array([0, 127, -128, 127], np.int8))
    agree(edge.astype("bool"), np.array([True] * 4))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
@pytest.mark.parametrize("function", ["isfinite", "isinf", "isnan"])
def test_every_value_of_a_narrow_float(name: str, function: str) -> None:
    """One of these types has no infinity: it would be compared with NaN."""
    dtype = getattr(porism, name).numpy
    words = np.uint8 if dtype.itemsize == 1 else np.uint16
    values = np.arange(2 ** (8 * dtype.itemsize), dtype=np.int64).astype(words).view(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, function)(values.astype(np.float64))
    actual = getattr(porism, function)(porism.asarray(values)).numpy()
    np.testing.assert_array_equal(actual, expected)
