"""A physical model fitted by second derivatives: Newton's method without a Hessian matrix.

    python examples/fit_oscillator.py

A damped oscillator x(t) = a · exp(-d·t) · cos(w·t + p) is measured with noise, and its four
parameters are found by a Newton method, whose steps are solved by conjugate gradients. These need
only products of the Hessian with a vector, which are the derivative of the gradient along it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import porism

TRUE = np.array([2.0, 0.3, 4.0, 0.5])


def model(q: Any, t: Any) -> Any:
    """Return the position of the oscillator at times t."""
    a, d, w, p = q[0], q[1], q[2], q[3]
    return a * porism.exp(-d * t) * porism.cos(w * t + p)


def main(steps: int = 12) -> Any:
    """Fit the parameters, print each step, and return them."""
    rng = np.random.default_rng(7)
    times = np.linspace(0, 5, 200)
    measured = TRUE[0] * np.exp(-TRUE[1] * times) * np.cos(TRUE[2] * times + TRUE[3])
    t, x = porism.asarray(times), porism.asarray(measured + rng.normal(0, 0.02, 200))

    def loss(q: Any) -> Any:
        return ((model(q, t) - x) ** 2).mean()

    value_and_gradient = porism.jit(porism.value_and_grad(loss))

    @porism.jit
    def hessian_times(q: Any, v: Any) -> Any:
        return porism.jvp(porism.grad(loss), (q,), (v,))[1]

    q = porism.asarray([1.5, 0.2, 3.8, 0.3], dtype="float64")
    damping = 1e-2
    value, gradient = value_and_gradient(q)
    for step in range(steps):
        change = conjugate_gradients(
            lambda v, q=q, damping=damping: hessian_times(q, v).numpy() + damping * v,
            -gradient.numpy(),
        )
        candidate = porism.asarray(q.numpy() + change)
        new_value, new_gradient = value_and_gradient(candidate)
        if new_value.item() < value.item():
            q, value, gradient, damping = candidate, new_value, new_gradient, damping / 10
        else:
            damping *= 10
        shown = ", ".join(f"{number:.4f}" for number in q.numpy())
        print(f"step {step:2}  loss {value.item():.3e}  parameters {shown}")
    return q.numpy()


def conjugate_gradients(product: Any, target: Any, iterations: int = 8) -> Any:
    """Return x with A·x = target, for a symmetric A that is given by its products with vectors."""
    x = np.zeros_like(target)
    residual = target.copy()
    direction = residual.copy()
    for _ in range(iterations):
        square = residual @ residual
        image = product(direction)
        curvature = direction @ image
        if square < 1e-24 or curvature <= 0:
            break
        x = x + square / curvature * direction
        residual = residual - square / curvature * image
        direction = residual + residual @ residual / square * direction
    return x if x.any() else target


if __name__ == "__main__":
    main()
