"""Gradients that tensors keep: `requires_grad`, `backward`, `.grad`, `no_grad`, also jitted."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError
from porism.gradient.stated_pullbacks import is_recording, live_variables
from porism.ir import ops


def leaf(*values: float) -> Any:
    return porism.tensor(values, "float32", requires_grad=True)


def test_backward_fills_grad() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    assert not x.grad
    (x * y).sum().backward()
    assert x.grad.tolist() == [3, 4]
    assert y.grad.tolist() == [1, 2]
    assert not x.grad.requires_grad


def test_gradients_are_accumulated_in_one_tensor() -> None:
    x = leaf(1, 2)
    (x * 2).sum().backward()
    first = x.grad
    (x * x).sum().backward()
    assert x.grad is first
    assert x.grad.tolist() == [4, 6]
    x.grad = None
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_the_graph_is_kept_for_another_backward() -> None:
    x = leaf(3)
    loss = (x * x).sum()
    loss.backward()
    assert loss.item() == 9.0
    loss.backward()
    assert x.grad.tolist() == [12]


def test_realized_results_keep_their_history() -> None:
    x = leaf(1, 2)
    hidden = x * 3
    assert hidden.tolist() == [3, 6]
    porism.realize(hidden)
    (hidden * hidden).sum().backward()
    assert x.grad.tolist() == [18, 36]


def test_weights_for_several_elements() -> None:
    x = leaf(1, 2)
    (x * x).backward(porism.asarray([1.0, 10.0]))
    assert x.grad.tolist() == [2, 40]


def test_a_leaf_itself() -> None:
    x: Any = porism.tensor(2.0, requires_grad=True)
    x.backward()
    assert x.grad.item() == 1.0


def test_flags() -> None:
    x = leaf(1)
    y = x * 2
    assert (x.requires_grad, x.is_leaf) == (True, True)
    assert (y.requires_grad, y.is_leaf) == (True, False)
    assert not y.detach().requires_grad
    assert (porism.ones(2).requires_grad, porism.ones(2).is_leaf) == (False, True)
    assert y.requires_grad_() is y
    assert y.is_leaf is False
    x.requires_grad_(False)
    assert not x.requires_grad
    z = porism.ones(2)
    z.requires_grad = True
    assert z.requires_grad
    assert "requires_grad=True" in repr(z)


def test_no_grad() -> None:
    x = leaf(1, 2)
    hidden = x * 2
    with porism.no_grad():
        y = x * 3
        z = hidden + 1
        with porism.enable_grad():
            w = x * 4
    assert not y.requires_grad
    assert not z.requires_grad
    assert w.requires_grad
    assert z.tolist() == [3, 5]

    @porism.no_grad()
    def evaluate(x: Any) -> Any:
        return x * 2

    assert not evaluate(x).requires_grad


def test_assignment_after_the_forward_pass_leaves_the_gradient_right() -> None:
    x = leaf(1, 2)
    loss = (x * x).sum()
    with porism.no_grad():
        x.assign(x * 100)
        x[0] = 7.0
    loss.backward()
    assert x.grad.tolist() == [2, 4]
    assert x.tolist() == [7, 200]


def test_assignment_to_a_result_is_differentiated() -> None:
    x = leaf(1, 2, 3)
    y = x * 2
    y[1] = 5.0
    y[2] = x[0] * 10
    y.sum().backward()
    assert x.grad.tolist() == [12, 0, 0]


def test_a_step_of_gradient_descent_in_place() -> None:
    w = leaf(1, 2)
    for _ in range(3):
        w.grad = None
        (w * w).sum().backward()
        with porism.no_grad():
            w.assign(w - 0.25 * w.grad)
        w.realize()
    np.testing.assert_allclose(w.numpy(), np.array([1, 2]) / 8)
    assert w._node.op is ops.BUFFER  # no history of steps


def test_tensors_of_tensors_are_copies() -> None:
    x = leaf(1, 2)
    y: Any = porism.tensor(x * 2, requires_grad=True)
    (y * y).sum().backward()
    assert x.grad is None
    assert y.grad.tolist() == [4, 8]


@pytest.mark.usefixtures("frozen_heap")
def test_nothing_is_recorded_when_no_variable_is_left() -> None:
    gc.collect()
    before = len(live_variables)  # other tests may have left some
    x = leaf(1)
    assert is_recording()
    assert len(live_variables) == before + 1
    del x
    gc.collect()
    assert len(live_variables) == before


# -- jitted ----------------------------------------------------------------------------------------


def test_a_jitted_step() -> None:
    w = leaf(1, 2)

    @porism.jit
    def step(x: Any) -> Any:
        w.grad = None
        loss = ((w * x) ** 2).sum()
        loss.backward()
        with porism.no_grad():
            w.assign(w - 0.1 * w.grad)
        return loss

    expected = np.array([1.0, 2.0])
    x = np.array([1.0, 0.5])
    for _ in range(3):
        loss = step(porism.asarray(x))
        gradient = 2 * expected * x * x
        np.testing.assert_allclose(loss.numpy(), ((expected * x) ** 2).sum(), rtol=1e-6)
        expected -= 0.1 * gradient
        np.testing.assert_allclose(w.numpy(), expected, rtol=1e-6)
        assert w.grad is not None
        np.testing.assert_allclose(w.grad.numpy(), gradient, rtol=1e-6)
    assert step.traces == 1


def test_gradients_accumulate_over_jitted_calls() -> None:
    w = leaf(1, 2)

    @porism.jit
    def add(x: Any) -> None:
        (w * x).sum().backward()

    for _ in range(4):
        add(porism.asarray([1.0, 10.0]))
    assert w.grad.tolist() == [4, 40]
    assert add.traces == 2  # without a gradient, and with one
    w.grad = None
    add(porism.asarray([1.0, 10.0]))
    assert w.grad.tolist() == [1, 10]


def test_arguments_of_a_jitted_function() -> None:
    @porism.jit
    def add(x: Any) -> Any:
        (x * x).sum().backward()
        return x.grad + 0

    x = leaf(1, 2)
    for k in range(1, 4):
        assert add(x).tolist() == [2, 4]
        assert x.grad.tolist() == [2 * k, 4 * k]
    assert add.traces == 1


def test_requires_grad_is_part_of_the_signature() -> None:
    double = porism.jit(lambda x: x * 2)
    double(porism.asarray([1.0]))
    double(leaf(1.0))
    assert double.traces <= 2


# -- what is refused -------------------------------------------------------------------------------


def refused(call: Any, *words: str) -> None:
    with pytest.raises(PorismError) as caught:
        call()
    message = str(caught.value)
    for part in ("where:", "why:", "fix:", *words):
        assert part in message, message


def test_integers() -> None:
    refused(lambda: porism.tensor([1, 2], requires_grad=True), "int64", "astype")
    refused(lambda: porism.asarray([1]).sum().backward(), "int64")


def test_backward_of_what_has_no_gradient() -> None:
    refused(porism.ones(2).sum().backward, "requires a gradient", "jitted")
    x = leaf(1, 2)
    refused((x * x).backward, "(2,)", "gradient=")
    refused(lambda: (x * x).backward(porism.ones(3)), "(3,)")
    refused(x.detach().sum().backward, "detach")


def test_the_result_of_a_jitted_function_has_no_graph() -> None:
    x = leaf(1, 2)
    jitted = porism.jit(lambda: (x * x).sum())
    refused(jitted().backward, "inside of the jitted function")


def test_a_jitted_function_does_not_capture_a_history() -> None:
    x = leaf(1, 2)
    hidden = x * 2
    refused(porism.jit(lambda: hidden.sum()), "detach", "argument")
    passed = porism.jit(lambda h: (h * h).sum())
    passed(hidden).backward()
    assert x.grad.tolist() == [8, 16]


def assign_part(x: Any) -> None:
    x[0] = 1.0


def test_assignment_to_a_leaf() -> None:
    x = leaf(1, 2)
    refused(lambda: x.assign(x * 2), "no_grad")
    refused(lambda: assign_part(x), "no_grad")


def set_gradient(x: Any, value: Any) -> None:
    x.grad = value


def test_gradients_that_do_not_fit() -> None:
    refused(lambda: set_gradient(leaf(1, 2), porism.ones(3)), "(3,)")
    refused(lambda: set_gradient(porism.ones(2), porism.ones(2)), "requires_grad_()")


def test_a_graph_is_the_same_while_something_is_recorded() -> None:
    """Movement ops on both sides of a stated derivative become one, as without it."""
    x = porism.asarray(np.ones((96, 32), np.float32))
    plain = porism.kernels(porism.cumsum(x, axis=0))
    parameter = leaf(1)
    assert is_recording()
    recorded = porism.kernels(porism.cumsum(x, axis=0))
    assert [kernel.node for kernel in recorded] == [kernel.node for kernel in plain]
    assert parameter.requires_grad
