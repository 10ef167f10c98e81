"""Complex tensors: every function that takes them, compared with NumPy; special values; jit."""

from __future__ import annotations

import cmath
import copy
import pickle
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import porism
from porism.base.errors import ShapeError, TypeMismatch
from porism.ir.facts.semantics import Array
from porism.tensor.complex.complex_table import IMPLEMENTATIONS
from tests.tensor.oracle import SHAPES, refuses
from tests.tiers import quick_if

TYPES: Final = ("complex64", "complex128")
TOLERANCE: Final = {"complex64": 2e-5, "complex128": 1e-12}


def draw(name: str, shape: tuple[int, ...], seed: int = 0, scale: float = 1.5) -> Array:
    """Return the same complex numbers every time."""
    random = np.random.default_rng([seed, *shape])
    parts = random.normal(size=(2, *shape)) * scale
    return np.asarray(parts[0] + 1j * parts[1]).astype(name)


def agree(actual: Any, expected: Any, tolerance: float | None = None) -> None:
    """Fail unless shape, type and values are NumPy's; integers are int64 here."""
    got, wanted = actual.numpy(), np.asarray(expected)
    assert got.shape == wanted.shape == tuple(actual.shape)
    assert got.dtype == wanted.dtype == actual.dtype.numpy
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, wanted)
        return
    name = "complex128" if got.dtype.name in ("float64", "complex128") else "complex64"
    allowed = TOLERANCE[name] if tolerance is None else tolerance
    size = max(1.0, float(np.abs(wanted.astype(np.complex128)).max(initial=0)))
    np.testing.assert_allclose(got, wanted, rtol=allowed, atol=allowed * size)


Case = tuple[Callable[..., Any], Callable[..., Any]]


def both(function: Callable[[Any, Any], Any]) -> Case:
    """Return a function of the namespace and an operand, for Porism and for NumPy."""
    return (lambda x: function(porism, x)), (lambda x: function(np, x))


ELEMENTWISE: Final = (
    "abs positive negative square reciprocal conj real imag angle sign sqrt exp expm1 log log1p"
    " log2 log10 sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh round isnan isinf"
    " isfinite logical_not"
)
LONG: Final = "expm1 log1p log2 log10 cos tan sinh cosh tanh asin acos asinh acosh atanh"
"""Those of them with long kernels; functions of their kinds are `exp`, `log`, `sin` and `atan`."""
PAIRS: Final = "add subtract multiply divide pow equal not_equal logical_and logical_or logical_xor"
OTHERS: Final[dict[str, Case]] = {
    "clone": (lambda x: x.clone(), lambda x: x),
    "copy": (lambda x: x.copy(), lambda x: x),
    "detach": (lambda x: x.detach(), lambda x: x),
    "stop_gradient": (lambda x: porism.stop_gradient(x), lambda x: x),
    "reshape": both(lambda xp, x: xp.reshape(x, (-1, 1))),
    "flatten": (lambda x: x.flatten(), lambda x: x.reshape(-1)),
    "unflatten": (lambda x: porism.unflatten(x, 0, (1, 3)), lambda x: x.reshape(1, 3, 4)),
    "expand_dims": both(lambda xp, x: xp.expand_dims(x, 1)),
    "unsqueeze": (lambda x: porism.unsqueeze(x, 0), lambda x: x[None]),
    "squeeze": both(lambda xp, x: xp.squeeze(x[:, :1], 1)),
    "permute_dims": both(lambda xp, x: xp.permute_dims(x, (1, 0))),
    "permute": (lambda x: porism.permute(x, 1, 0), lambda x: x.T),
    "transpose": (lambda x: porism.transpose(x), lambda x: x.T),
    "swapaxes": both(lambda xp, x: xp.swapaxes(x, 0, 1)),
    "moveaxis": both(lambda xp, x: xp.moveaxis(x, 0, 1)),
    "matrix_transpose": both(lambda xp, x: xp.matrix_transpose(x)),
    "flip": both(lambda xp, x: xp.flip(x, axis=0)),
    "broadcast_to": both(lambda xp, x: xp.broadcast_to(x, (2, 3, 4))),
    "expand": (lambda x: porism.expand(x, 2, 3, 4), lambda x: np.broadcast_to(x, (2, 3, 4))),
    "diagonal": both(lambda xp, x: xp.diagonal(x, 1)),
    "pad": both(lambda xp, x: xp.pad(x, ((1, 0), (0, 2)))),
    "repeat": both(lambda xp, x: xp.repeat(x, 2, axis=0)),
    "tile": both(lambda xp, x: xp.tile(x, (2, 1))),
    "unfold": (
        lambda x: porism.unfold(x[None], 2),
        lambda x: np.stack([x[:, :-1], x[:, 1:]], 1).reshape(1, 6, 3),
    ),
    "take": both(lambda xp, x: xp.take(x, xp.asarray([2, 0]), axis=0)),
    "index_select": (lambda x: porism.index_select(x, 0, [2, 0]), lambda x: x[[2, 0]]),
    "take_along_axis": both(lambda xp, x: xp.take_along_axis(x, xp.asarray([[1], [0], [3]]), 1)),
    "gather": (
        lambda x: porism.gather(x, 1, [[1], [0], [3]]),
        lambda x: x[[0, 1, 2], [1, 0, 3]][:, None],
    ),
    "split": (lambda x: porism.split(x, 2)[1], lambda x: x[2:]),
    "chunk": (lambda x: porism.chunk(x, 2)[0], lambda x: x[:2]),
    "unstack": both(lambda xp, x: xp.unstack(x)[1]),
    "roll": both(lambda xp, x: xp.roll(x, 2, 1)),
    "tril": both(lambda xp, x: xp.tril(x)),
    "triu": both(lambda xp, x: xp.triu(x, 1)),
    "concat": both(lambda xp, x: xp.concat([x, x, xp.real(x)])),
    "stack": both(lambda xp, x: xp.stack([x, x], axis=1)),
    "meshgrid": both(lambda xp, x: xp.meshgrid(x[0], x[1])[1]),
    "broadcast_arrays": both(lambda xp, x: xp.broadcast_arrays(x, x[0])[1]),
    "where": both(lambda xp, x: xp.where(xp.abs(x) > 1, x, xp.asarray(0j, dtype=x.dtype))),
    "mean": both(lambda xp, x: xp.mean(x, axis=1)),
    "sum": both(lambda xp, x: xp.sum(x, axis=0, keepdims=True)),
    "prod": both(lambda xp, x: xp.prod(x, axis=1)),
    "cumulative_sum": both(lambda xp, x: xp.cumulative_sum(x, axis=1)),
    "cumulative_prod": both(lambda xp, x: xp.cumulative_prod(x, axis=1)),
    "cumsum": both(lambda xp, x: xp.cumsum(x, axis=0)),
    "cumprod": both(lambda xp, x: xp.cumprod(x, axis=0)),
    "trace": both(lambda xp, x: xp.trace(x)),
    "any": both(lambda xp, x: xp.any(x, axis=0)),
    "all": both(lambda xp, x: xp.all(x, axis=0)),
    "count_nonzero": both(lambda xp, x: xp.count_nonzero(x, axis=0)),
    "norm": (lambda x: porism.norm(x, 2), lambda x: np.linalg.norm(x.ravel())),
    "vector_norm": (lambda x: porism.vector_norm(x), lambda x: np.linalg.vector_norm(x)),
    "matmul": both(lambda xp, x: xp.matmul(x, xp.matrix_transpose(x))),
    "vecdot": both(lambda xp, x: xp.vecdot(x, x[0])),
    "dot": (lambda x: porism.dot(x, x.T), lambda x: x @ x.T),
    "inner": both(lambda xp, x: xp.inner(x, x)),
    "kron": both(lambda xp, x: xp.kron(x, x[:2])),
    "cross": both(lambda xp, x: xp.cross(x[:, :3], x[:, 1:])),
    "outer": both(lambda xp, x: xp.outer(x[0], x[1])),
    "tensordot": both(lambda xp, x: xp.tensordot(x, x, axes=2)),
    "linear": (lambda x: porism.linear(x, x, x[:, 0]), lambda x: x @ x.T + x[:, 0]),
    "astype": (lambda x: x.astype("bool"), lambda x: x.astype(bool)),
    "asarray": (lambda x: porism.asarray(x.numpy()), lambda x: x),
    "tensor": (lambda x: porism.tensor(x), lambda x: x),
    "from_dlpack": (lambda x: porism.from_dlpack(x.numpy()), lambda x: x),
    "full": both(lambda xp, x: xp.full((2,), 2 + 1j, dtype="complex64")),
    "eye": both(lambda xp, x: xp.eye(3, 4, k=1, dtype="complex128")),
    "linspace": both(lambda xp, x: xp.linspace(1j, 2, 5, dtype="complex128")),
    "diag": both(lambda xp, x: xp.diag(x[0], 1)),
    "diagflat": both(lambda xp, x: xp.diagflat(x[:2])),
    "diag_embed": (
        lambda x: porism.diag_embed(x),
        lambda x: np.stack([np.diag(row) for row in x]),
    ),
    "nan_to_num": both(lambda xp, x: xp.nan_to_num(x)),
    "gradient": both(lambda xp, x: xp.gradient(x, 0.5, axis=1)),
    "trapezoid": both(lambda xp, x: xp.trapezoid(x, dx=2.0, axis=0)),
    "scatter": (
        lambda x: porism.scatter(x, 0, [[2, 0, 1, 1]], x[1:2]),
        lambda x: _scattered(x, lambda old, new: new),
    ),
    "scatter_add": (
        lambda x: porism.scatter_add(x, 0, [[2, 0, 1, 1]], x[1:2]),
        lambda x: _scattered(x, lambda old, new: old + new),
    ),
    "index_add": (
        lambda x: porism.index_add(x, 0, [1, 1], x[:2]),
        lambda x: np.stack([x[0], x[0] + x[1] + x[1], x[2]]),
    ),
    "convolve": both(lambda xp, x: xp.convolve(x[0], x[1], mode="same")),
    "correlate": both(lambda xp, x: xp.correlate(x[0], x[1, :3], mode="full")),
    "polyval": both(lambda xp, x: xp.polyval(x[0], x[1])),
    "einsum": both(lambda xp, x: xp.einsum("ij,kj,k->ik", x, x, xp.real(x)[:, 0])),
    "var": both(lambda xp, x: xp.var(x, axis=1, correction=1)),
    "std": both(lambda xp, x: xp.std(x, axis=0, keepdims=True)),
    "isclose": both(lambda xp, x: xp.isclose(x, x[0])),
    "allclose": both(lambda xp, x: xp.allclose(x, x * (1 + 1e-7))),
    "array_equal": both(lambda xp, x: xp.array_equal(x, x)),
}
"""A call of each other function, on a matrix of 3 x 4."""


def _scattered(x: Any, merge: Any) -> Any:
    """The second row, stored at the rows 2, 0, 1 and 1 of its columns."""
    changed = x.copy()
    for column, row in enumerate((2, 0, 1, 1)):
        changed[row, column] = merge(x[row, column], x[1, column])
    return changed


def test_vdot_conjugates_the_first_operand() -> None:
    """A function that is composed of others, which have implementations of their own."""
    for dtype in TYPES:
        a, b = draw(dtype, (3, 4)), draw(dtype, (3, 4), seed=1)
        agree(porism.vdot(porism.asarray(a), b), np.vdot(a, b))


def test_einsum_of_one_and_of_three_complex_operands() -> None:
    x, y = draw("complex64", (3, 4)), draw("complex64", (4, 2), seed=1)
    agree(porism.einsum("ij->j", x), np.einsum("ij->j", x))
    agree(porism.einsum("ij,jk,ij->k", x, y, x), np.einsum("ij,jk,ij->k", x, y, x))
    agree(porism.einsum("ij,jk->ik", porism.ones((1, 3)), x), np.ones((1, 3), np.float32) @ x)


def test_padding_has_both_parts_of_the_value() -> None:
    z = draw("complex64", (2, 3))
    for value in (1, 2 - 3j):
        ours = porism.pad(porism.asarray(z), ((1, 0), (0, 2)), value=value)
        agree(ours, np.pad(z, ((1, 0), (0, 2)), constant_values=value))
    agree(porism.pad(porism.ones(1), 1, value=2j), np.array([2j, 1, 2j], np.complex64))


def test_an_argument_that_must_be_real() -> None:
    real, z = porism.ones(3), porism.asarray([1j, 2.0, 3.0])
    with refuses(TypeMismatch, "in another argument than the first"):
        porism.gradient(real, z)
    with refuses(TypeMismatch, "in another argument than the first"):
        porism.gradient(z, z)
    with refuses(TypeMismatch, "complex numbers as int64"):
        porism.sum(z, dtype="int64")
    scaled = porism.index_add(z, 0, [0], z[:1], alpha=1j)
    agree(scaled, np.array([-1 + 1j, 2, 3], np.complex64))


def test_what_complex_numbers_do_not_have_says_so() -> None:
    z = porism.asarray([1j, 2.0])
    calls: list[Callable[[], Any]] = [
        lambda: porism.max(z),
        lambda: porism.nanmean(z),
        lambda: porism.scatter(z, 0, [0], z[:1], reduce="multiply"),
        lambda: porism.logspace(0, 1j, 3),
    ]
    for call in calls:
        with pytest.raises(TypeMismatch, match=r"fix: pass porism\.real"):
            call()


def test_every_implementation_is_compared() -> None:
    """A new implementation for complex tensors needs a case."""
    known = {*ELEMENTWISE.split(), *PAIRS.split(), *OTHERS, "assign"}
    assert known == IMPLEMENTATIONS.keys()


@pytest.mark.parametrize(
    "name", quick_if(lambda name: name not in LONG.split(), ELEMENTWISE.split())
)
def test_elementwise(name: str) -> None:
    theirs = {"log2": lambda x: np.log(x) / np.log(2), "log10": lambda x: np.log(x) / np.log(10)}
    for dtype in TYPES:
        for shape in SHAPES:
            x = draw(dtype, shape)
            with np.errstate(all="ignore"):
                expected = theirs.get(name, getattr(np, name))(x)
            agree(
                getattr(porism, name)(porism.asarray(x)),
                np.asarray(expected).astype(
                    x.dtype
                    if np.asarray(expected).dtype.kind == "c"
                    else np.asarray(expected).dtype
                ),
            )


@pytest.mark.parametrize("name", PAIRS.split())
def test_pairs(name: str) -> None:
    for dtype in TYPES:
        a, b = draw(dtype, (3, 4)), draw(dtype, (4,), seed=1)
        agree(getattr(porism, name)(a, porism.asarray(b)), getattr(np, name)(a, b))
        agree(getattr(porism, name)(porism.asarray(a), b[0]), getattr(np, name)(a, b[0]))
        real = np.real(b)
        agree(getattr(porism, name)(porism.asarray(real), a), getattr(np, name)(real, a))


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions(name: str) -> None:
    ours, theirs = OTHERS[name]
    for dtype in TYPES:
        x = draw(dtype, (3, 4))
        agree(ours(porism.asarray(x)), theirs(x))


def test_operators_and_numbers() -> None:
    x = np.array([1.0, 2.0], np.float32)
    z = x.astype(np.complex64) + np.complex64(1j)
    a, b = porism.asarray(x), porism.asarray(z)
    agree(a + 1j, x + np.complex64(1j))
    agree(1j - a, np.complex64(1j) - x)
    agree(b * 2, z * 2)
    agree(2.0 / b, np.complex64(2) / z)
    agree(b**3, z**3)
    agree(b**-2, z**-2)
    agree(b**0, np.ones_like(z))
    agree(porism.asarray(x.astype("float64")) + 1j, x.astype("float64") + 1j)
    agree(porism.arange(3) * 1j, (np.arange(3) * 1j).astype("complex64"))
    assert (b == z).all().item()
    assert not (b != z).any().item()
    assert complex(b[0]) == 1 + 1j
    assert b[1].item() == 2 + 1j


def test_creation() -> None:
    assert porism.asarray(1j).dtype is porism.complex64
    assert porism.asarray([1, 2j]).dtype is porism.complex64
    assert porism.asarray([1, 2j], dtype="complex128").dtype is porism.complex128
    assert porism.asarray(np.array([1j])).dtype is porism.complex128
    assert porism.asarray([porism.ones((), dtype="float64"), 1j]).dtype is porism.complex128
    assert porism.asarray([16777217j], dtype="complex128").item() == 16777217j
    agree(porism.zeros(2, 3, dtype="complex64"), np.zeros((2, 3), "complex64"))
    agree(porism.ones_like(porism.asarray([1j])), np.ones(1, "complex64"))
    agree(porism.asarray([1.5, 2], dtype=complex), np.array([1.5, 2], "complex64"))
    assert repr(porism.asarray([1j])) == "Tensor([0.+1.j], shape=(1,), dtype=complex64)"
    assert porism.result_type(porism.int64, 1j) is porism.complex64
    assert porism.result_type(porism.float64, porism.complex64) is porism.complex128
    assert porism.isdtype(porism.complex64, "complex floating")
    assert porism.finfo(porism.complex64).dtype is porism.float32


def test_parts_share_nothing_with_the_tensor() -> None:
    z = porism.asarray([1 + 2j, 3j])
    real, twin = z.real, copy.copy(z)
    z[0] = 5j
    z[1:] = porism.asarray([7.0])
    assert z.tolist() == [5j, 7]
    assert real.tolist() == [1, 0]
    assert twin.tolist() == [1 + 2j, 3j]
    assert pickle.loads(pickle.dumps(z)).tolist() == [5j, 7]
    z.assign(1j)
    assert z.tolist() == [1j, 1j]
    assert [part.item() for part in z] == [1j, 1j]
    assert z[porism.asarray([True, False])].tolist() == [1j]


def test_jit_takes_and_returns_complex_tensors() -> None:
    scale = porism.asarray([2j])
    function = porism.jit(lambda x, n: {"product": x * scale, "size": abs(x) * n})
    for value in (3 + 4j, 4 + 3j, 1j):
        result = function(porism.asarray([value]), 2)
        assert result["product"].tolist() == [value * 2j]
        assert result["size"].tolist() == [abs(value) * 2]
    scale[0] = 1
    assert function(porism.asarray([1j]), 2)["product"].tolist() == [1j]


def test_a_captured_complex_tensor_that_is_replaced_is_noticed() -> None:
    state = {"z": porism.asarray([1j])}
    function = porism.jit(lambda x: x * state["z"])
    assert function(porism.ones(1)).tolist() == [1j]
    assert function(porism.ones(1)).tolist() == [1j]
    state["z"] = porism.asarray([2j])
    assert function(porism.ones(1)).tolist() == [2j]


def test_realize() -> None:
    z = porism.asarray([1j]) * 2
    porism.realize(z)
    assert repr(z) == "Tensor([0.+2.j], shape=(1,), dtype=complex64)"
    assert (z + 1).realize().tolist() == [1 + 2j]


def test_what_complex_tensors_are_not() -> None:
    z = porism.asarray([1j, 2])
    for name in ("relu", "sort", "argmax", "floor", "softmax"):
        with refuses(TypeMismatch, f"{name} of a"):
            getattr(porism, name)(z)
    with refuses(TypeMismatch, "less of a complex tensor"):
        _ = z < 1
    with refuses(TypeMismatch, "converted to float32"):
        z.astype("float32")
    with refuses(TypeMismatch, "float() of a tensor of complex64"):
        float(z[0])
    with refuses(TypeMismatch, "a complex tensor where a real one is wanted"):
        porism.ones(2)[0] = 1j
    with refuses(ShapeError, "do not go together"):
        z + porism.ones(3)


SPECIAL: Final = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, 3e38)


@pytest.mark.parametrize("name", ["exp", "sqrt", "log", "sinh", "cosh", "acos", "acosh", "asinh"])
def test_special_values_are_those_of_c(name: str) -> None:
    """As Python's cmath has them, where it does not raise an error; unspecified signs are free.

    The standard and C say NaN ± πi/2 of acosh(0 + NaN i), where cmath has NaN twice.
    """
    x, y = (np.ravel(part) for part in np.meshgrid(SPECIAL, SPECIAL))
    z = np.empty(x.shape, np.complex128)
    z.real, z.imag = x, y
    got = getattr(porism, name)(porism.asarray(z)).numpy()
    for value, found in zip(z, got, strict=True):
        if name == "acosh" and value.real == 0 and np.isnan(value.imag):
            assert abs(found.imag) == np.pi / 2
            continue
        try:
            wanted = getattr(cmath, name)(complex(value))
        except (ValueError, OverflowError):
            continue
        for a, b in ((found.real, wanted.real), (found.imag, wanted.imag)):
            both_nan = np.isnan(a) and np.isnan(b)
            assert (
                both_nan
                or np.isclose(a, b, rtol=1e-9, atol=0, equal_nan=True)
                or (np.isnan(value) and abs(a) == abs(b))
            ), (name, value, found, wanted)
            if not np.isnan(value) and not np.isnan(b) and b == 0:
                assert np.signbit(a) == np.signbit(b), (name, value, found, wanted)


def test_parts_of_a_large_exponential_do_not_overflow() -> None:
    z = np.array([88.8 + 0.9j, -1000 + 1j], np.complex64)
    with np.errstate(all="ignore"):
        expected = np.exp(z.astype(np.complex128)).astype(np.complex64)
    agree(porism.exp(porism.asarray(z)), expected)


def test_quotients_do_not_overflow() -> None:
    a, b = np.array([1e30 + 1e30j, 1, 0], "complex64"), np.array([1e30 - 1e30j, 0, 0], "complex64")
    got = (porism.asarray(a) / porism.asarray(b)).numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, a / b, rtol=1e-6)
