"""Functional gradients: what `grad`, `vjp`, `jvp`, `jacobian` and `hessian` return and refuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError


def close(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)


X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32)


def square_sum(x: Any) -> Any:
    return (x * x).sum()


def test_the_gradient_of_a_scalar() -> None:
    gradient = porism.grad(square_sum)(porism.asarray(X))
    assert gradient.shape == (2, 3)
    assert gradient.dtype is porism.float32
    close(gradient, 2 * X)


def test_value_and_grad_of_several_arguments() -> None:
    value, (first, third) = porism.value_and_grad(lambda a, b, c: (a * b * c).sum(), (0, 2))(
        porism.asarray(X), 2.0, porism.asarray(X + 1)
    )
    close(value, (X * 2 * (X + 1)).sum())
    close(first, 2 * (X + 1))
    close(third, 2 * X)


def test_a_python_number_is_an_argument() -> None:
    assert porism.grad(lambda x: x * x * x)(2.0).item() == 12.0


def test_an_array_is_an_argument() -> None:
    close(porism.grad(square_sum)(X), 2 * X)


def test_has_aux() -> None:
    gradient, aux = porism.grad(lambda x: (square_sum(x), x + 1), has_aux=True)(porism.asarray(X))
    close(gradient, 2 * X)
    close(aux, X + 1)
    (value, aux), _ = porism.value_and_grad(lambda x: (square_sum(x), "text"), has_aux=True)(X)
    assert aux == "text"
    close(value, (X * X).sum())


@dataclass
class Layer:
    weight: Any
    bias: Any
    name: str = "layer"


def test_gradients_have_the_structure_of_the_argument() -> None:
    parameters = {
        "layers": [Layer(porism.ones(3), porism.zeros(3)), Layer(porism.ones(3) * 2, None)],
        "steps": porism.asarray([1, 2, 3]),
    }

    def loss(p: Any, x: Any) -> Any:
        hidden = x * p["layers"][0].weight + p["layers"][0].bias
        return (hidden * p["layers"][1].weight).sum()

    gradient = porism.grad(loss)(parameters, porism.asarray(X))
    assert gradient["steps"] is None
    first, second = gradient["layers"]
    assert isinstance(first, Layer)
    assert second.bias is None
    assert first.name is None
    close(first.weight, 2 * X.sum(0))
    close(first.bias, [4, 4, 4])
    close(second.weight, X.sum(0))


def test_broadcast_operands_get_the_sum() -> None:
    row, scalar = porism.asarray([1.0, 2.0, 3.0]), porism.asarray(2.0)
    by_row, by_scalar = porism.grad(lambda r, s: (porism.asarray(X) * r * s).sum(), (0, 1))(
        row, scalar
    )
    close(by_row, 2 * X.sum(0))
    close(by_scalar, (X * [1, 2, 3]).sum())


def test_an_argument_that_is_not_used_has_gradient_zero() -> None:
    close(porism.grad(lambda x, y: (y * 2).sum())(porism.asarray(X), porism.ones(2)), 0 * X)


def test_an_argument_is_told_from_an_equal_captured_value() -> None:
    buffer = porism.asarray([1.0, 2.0])
    lazy = buffer + 1
    close(porism.grad(lambda y: (y * (buffer + 1)).sum())(lazy), [2.0, 3.0])


def test_the_same_tensor_twice() -> None:
    x = porism.asarray([3.0])
    first, second = porism.grad(lambda a, b: (a * a * b).sum(), (0, 1))(x, x)
    assert (first.item(), second.item()) == (18.0, 9.0)


def test_empty_tensors() -> None:
    assert porism.grad(square_sum)(porism.zeros(0, 3)).shape == (0, 3)


def test_higher_derivatives() -> None:
    expectations: list[Any] = [np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)]
    for order, expected in enumerate(expectations):
        derivative: Any = porism.sin
        for _ in range(order):
            derivative = porism.grad(derivative)
        assert derivative(porism.asarray(0.7)).item() == pytest.approx(expected(0.7), abs=1e-5)


def test_perturbations_are_not_confused() -> None:
    # d/dx (x · d/dy (x + y)) = 1, and not 2
    inner = porism.grad(lambda x: x * porism.grad(lambda y: x + y)(porism.asarray(1.0)))
    assert inner(porism.asarray(1.0)).item() == 1.0


def test_vjp_and_jvp() -> None:
    rng = np.random.default_rng(0)
    a, x, u, v = (rng.standard_normal(s) for s in ((4, 3), (3,), (4,), (3,)))
    matrix, point = porism.asarray(a), porism.asarray(x)
    value, pull = porism.vjp(lambda x: porism.tanh(matrix @ x), point)
    slope = 1 - np.tanh(a @ x) ** 2
    close(value, np.tanh(a @ x), 1e-12)
    close(pull(porism.asarray(u))[0], a.T @ (slope * u), 1e-12)
    value, moved = porism.jvp(lambda x: porism.tanh(matrix @ x), (point,), (porism.asarray(v),))
    close(moved, slope * (a @ v), 1e-12)


def test_vjp_of_several_results() -> None:
    results, pull = porism.vjp(
        lambda x, y: {"a": x * y, "b": x + 1}, porism.ones(2), porism.ones(2) * 3
    )
    assert set(results) == {"a", "b"}
    gx, gy = pull({"a": porism.ones(2), "b": porism.ones(2) * 10})
    close(gx, [13, 13])
    close(gy, [1, 1])


@pytest.mark.parametrize("shape", [(2, 3), (3, 2)])
def test_jacobian_by_rows_and_by_columns(shape: tuple[int, int]) -> None:
    matrix = np.arange(6.0).reshape(shape)
    found = porism.jacobian(lambda x: porism.asarray(matrix) @ (x * x))(porism.ones(shape[1]))
    close(found, 2 * matrix)


def test_hessian_of_a_quadratic_form() -> None:
    a = np.random.default_rng(1).standard_normal((3, 3))
    form = porism.asarray(a)
    found = porism.hessian(lambda x: x @ form @ x)(porism.asarray(np.ones(3)))
    close(found, a + a.T, 1e-12)


@pytest.mark.parametrize(
    "values", [[1.5, 0.0, 2.0, 0.0, 3.0], [0.0, 0.0, 0.0, 2.0, 1.0], [2.0, 0.0, 3.0, 1.0, 4.0]]
)
def test_products_with_zeros_in_all_orders(values: list[float]) -> None:
    """Catches a division: the products of the others are 0 there, and their derivatives are not."""

    def by_factors(x: Any) -> Any:
        products = [x[0]]
        for k in range(1, 5):
            products.append(products[-1] * x[k])
        return sum((k + 1.0) * product for k, product in enumerate(products)) + products[-1] ** 2

    def by_functions(x: Any) -> Any:
        weights = porism.arange(5, dtype="float64") + 1.0
        return (porism.cumprod(x, axis=0) * weights).sum() + porism.prod(x) ** 2

    x = porism.asarray(np.array(values))
    for order in (porism.hessian, lambda f: porism.jacobian(porism.hessian(f))):
        close(order(by_functions)(x), order(by_factors)(x).numpy(), 1e-12)


def test_hessian_of_several_arguments() -> None:
    """Catches blocks that are transposed: the derivative of x by y has the axes of x first."""

    def energy(x: Any, y: Any) -> Any:
        return (x * x).sum() + (x[:, None] * y * y).sum()

    x, y = porism.asarray(np.array([1.0, 2.0])), porism.asarray(np.array([3.0, 4.0, 5.0]))
    (xx, xy), (yx, yy) = porism.hessian(energy, (0, 1))(x, y)
    close(xx, 2.0 * np.eye(2))
    close(xy, np.stack([2 * y.numpy()] * 2))
    close(yx, xy.numpy().T)
    close(yy, 6.0 * np.eye(3))


def test_hessian_vector_product() -> None:
    a = np.random.default_rng(2).standard_normal((3, 3))
    form, v = porism.asarray(a), porism.asarray(np.array([1.0, 0.0, 2.0]))
    point = porism.asarray(np.ones(3))
    by_grad = porism.grad(lambda x: porism.grad(lambda x: x @ form @ x)(x) @ v)(point)
    _, by_jvp = porism.jvp(porism.grad(lambda x: x @ form @ x), (point,), (v,))
    close(by_grad, (a + a.T) @ v.numpy(), 1e-12)
    close(by_jvp, (a + a.T) @ v.numpy(), 1e-12)


def test_under_jit() -> None:
    step = porism.jit(porism.value_and_grad(lambda w, x: ((w * x) ** 2).sum()))
    for k in range(3):
        value, gradient = step(porism.asarray([1.0, 2.0]), porism.asarray([3.0, float(k)]))
        close(gradient, [18, 4 * k * k])
        close(value, 9 + 4 * k * k)
    assert step.traces == 1


def test_of_a_jitted_function() -> None:
    jitted = porism.jit(square_sum)
    close(porism.grad(jitted)(porism.asarray(X)), 2 * X)
    close(jitted(porism.asarray(X)), (X * X).sum())


# -- stated derivatives ----------------------------------------------------------------------------


def test_stop_gradient() -> None:
    x = porism.asarray([1.0, 2.0])
    close(porism.grad(lambda x: (x * porism.stop_gradient({"a": x})["a"]).sum())(x), [1, 2])
    close(porism.grad(lambda x: (x * x.detach()).sum())(x), [1, 2])


def test_custom_gradient_of_several_arguments_and_results() -> None:
    @porism.custom_gradient
    def scaled(x: Any, n: int, y: Any) -> Any:
        return (x * n, y + 1), lambda gx, gy: (gx * 100, None, gy * 10)

    x, y = porism.ones(2), porism.ones(3)
    first, second = scaled(x, 3, y)
    close(first, [3, 3])
    close(second, [2, 2, 2])
    gx, gy = porism.grad(lambda x, y: sum(p.sum() for p in scaled(x, 3, y)), (0, 1))(x, y)
    close(gx, [100, 100])
    close(gy, [10, 10, 10])
    only = porism.grad(lambda y: scaled(x, 3, y)[1].sum())(y)
    close(only, [10, 10, 10])


def test_custom_gradient_is_differentiated_again() -> None:
    @porism.custom_gradient
    def cube(x: Any) -> Any:
        return x * x * x, lambda g: g * 3 * x * x

    assert porism.grad(porism.grad(cube))(porism.asarray(2.0)).item() == 12.0


def test_checkpoint_gives_the_same_gradients() -> None:
    weight = porism.tensor([1.0, -2.0], requires_grad=True)

    def block(x: Any, *, scale: float) -> Any:
        return porism.tanh(x * weight * scale)

    x = porism.asarray([0.3, 0.4])
    plain = porism.grad(lambda x: block(x, scale=2.0).sum())(x)
    close(porism.grad(lambda x: porism.checkpoint(block)(x, scale=2.0).sum())(x), plain.numpy())
    block(x, scale=2.0).sum().backward()
    expected = weight.grad
    assert expected is not None
    weight.grad = None
    porism.checkpoint(block)(x, scale=2.0).sum().backward()
    close(weight.grad, expected.numpy())


# -- what is refused -------------------------------------------------------------------------------


def refused(call: Any, *words: str) -> None:
    with pytest.raises(PorismError) as caught:
        call()
    message = str(caught.value)
    for part in ("where:", "why:", "fix:", *words):
        assert part in message, message


def test_integers_have_no_gradient() -> None:
    refused(lambda: porism.grad(square_sum)(porism.asarray([1, 2])), "argument 0", "int64")
    refused(lambda: porism.grad(lambda x: (x > 0).sum())(porism.ones(2)), "result of int64")


def test_a_result_that_is_no_scalar() -> None:
    refused(lambda: porism.grad(lambda x: x)(porism.ones(2)), "(2,)", "jacobian")
    refused(lambda: porism.grad(lambda x: 1.0)(porism.ones(2)), "returns a float")


def test_arguments_that_are_not_there() -> None:
    refused(lambda: porism.grad(square_sum, 1)(porism.ones(2)), "argument 1")
    refused(lambda: porism.grad(square_sum)("text"), "a str")
    refused(lambda: porism.grad(porism.ones(2)), "Tensor")
    refused(lambda: porism.grad(square_sum, has_aux=True)(porism.ones(2)), "has_aux")


def test_cotangents_of_other_shapes() -> None:
    _, pull = porism.vjp(lambda x: x * 2, porism.ones(3))
    refused(lambda: pull(porism.ones(2)), "(2,)", "(3,)")


def test_pullbacks_that_do_not_fit() -> None:
    def call(function: Any) -> Any:
        return porism.grad(lambda x: porism.custom_gradient(function)(x).sum())(porism.ones(2))

    refused(lambda: call(lambda x: x), "returns a Tensor")
    refused(lambda: call(lambda x: (x, lambda g: (g, g))), "2 values", "1 arguments")
    refused(lambda: call(lambda x: (x, lambda g: porism.ones(3))), "(3,)", "(2,)")
    number: Any = 1
    refused(lambda: porism.custom_gradient(number), "int")
