"""Backward: gradients in the way of PyTorch, kept by the tensors that require them.

    w = porism.tensor([1.0, 2.0], requires_grad=True)
    loss = (w * w).sum()
    loss.backward()                     # now w.grad is [2, 4]

Gradients are lazy as all tensors are: `backward` extends the graph, and values are computed when
they are asked for. The graph of a result is kept as long as the result, so `backward` can be called
again; assigning to a tensor leaves graphs with its old value as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from porism.base.errors import PorismError
from porism.gradient.stated_pullbacks import (
    depends_on_variable,
    differentiable_sources,
    is_variable,
    stopped,
)
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.autodiff.leaf_state import disabled, leaf_tensors, make_leaf
from porism.tensor.conversion import as_tensor
from porism.tensor.jit.tracing import current
from porism.tensor.promotion import type_error
from porism.tensor.shapes import is_one, product, shapes_equal, to_text
from porism.tensor.tensor import Tensor, method
from porism.tensor.user_line import users_line


@method
def requires_grad_(x: Tensor, requires_grad: bool = True) -> Tensor:
    """Have the tensor keep gradients in `.grad` from now on, or no longer; return it.

    >>> porism.ones(2).requires_grad_()
    Tensor(lazy, shape=(2,), dtype=float32, requires_grad=True)
    """
    if not requires_grad:
        x._leaf = None
        return x
    if not x.value_node.dtype.is_float:
        raise type_error(
            f"requires_grad of a tensor of {x.dtype.name}",
            "a derivative is about small changes, and only floats can change a little",
            "convert it first, with astype('float32')",
        )
    if x._leaf is None and not depends_on_variable(x.value_node):
        make_leaf(x)
    return x


def _requires_grad(x: Tensor) -> bool:
    """Whether gradients pass through the tensor, or are kept by it."""
    return x._leaf is not None or depends_on_variable(x.value_node)


def _set_requires_grad(x: Tensor, value: bool) -> None:
    requires_grad_(x, value)


def _is_leaf(x: Tensor) -> bool:
    """Whether the tensor was not computed from tensors that require gradients."""
    return x._leaf is not None or not depends_on_variable(x.value_node)


def _grad(x: Tensor) -> Tensor | None:
    """The gradient that `backward` has accumulated; None before that, and of other tensors."""
    if x._leaf is None:
        return None
    trace = current.get()
    return x._leaf.grad if trace is None else trace.read_gradient(x)


def _set_grad(x: Tensor, value: Tensor | None) -> None:
    if x._leaf is None:
        raise PorismError(
            "a gradient is given to a tensor that requires none",
            where=users_line(),
            why="only tensors that require a gradient keep one",
            fix="call x.requires_grad_() first",
        )
    if value is not None and not shapes_equal(as_tensor(value).shape, x.shape):
        raise PorismError(
            f"a gradient of shape {to_text(as_tensor(value).shape)} for a tensor of shape "
            f"{to_text(x.shape)}",
            where=users_line(),
            why="it has a number for each element of the tensor",
            fix="give one of the tensor's shape, or None",
        )
    new = None if value is None else as_tensor(value)
    trace = current.get()
    if trace is None:
        x._leaf.grad = new
    else:
        trace.write_gradient(x, new)


for _name, _property in (
    ("requires_grad", property(_requires_grad, _set_requires_grad)),
    ("is_leaf", property(_is_leaf)),
    ("grad", property(_grad, _set_grad)),
):
    setattr(Tensor, _name, _property)


# -- backward --------------------------------------------------------------------------------------


@method
def backward(x: Tensor, gradient: Any = None) -> None:
    """Add the gradient of this tensor to `.grad` of all that it was computed from.

    That is, of the tensors that require a gradient. A tensor of several elements needs `gradient`,
    a weight for each: the gradient is that of the sum of elements times weights.

    >>> x = porism.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * 3).backward(porism.asarray([1.0, 10.0]))
    >>> x.grad.tolist()
    [3.0, 30.0]
    """
    # Imported at the first use: the properties of this module are loaded with the first tensor.
    from porism.tensor.autodiff.gradient_functions import check_float_result, differentiate

    check_float_result(x)
    output = x.value_node if x._leaf is None else x._leaf.read(x.value_node)
    marks = _variables_below(output)
    if not marks:
        raise PorismError(
            "backward of a tensor that depends on nothing that requires a gradient",
            where=users_line(),
            why="it was computed from other tensors, under porism.no_grad(), after detach(), or by "
            "a jitted function, whose results are values without a graph",
            fix="make the parameters with requires_grad=True, and call backward where the loss is "
            "computed: inside of the jitted function",
        )
    found = differentiate([output], [_weights(x, output, gradient)], marks)
    totals: dict[int, UOp] = {}
    for mark, cotangent in zip(marks, found, strict=True):
        if cotangent is not None:
            number = mark.arg[1]
            totals[number] = totals[number] + cotangent if number in totals else cotangent
    for number, total in totals.items():
        _accumulate(leaf_tensors[number], stopped(total))


def _weights(x: Tensor, output: UOp, gradient: Any) -> UOp:
    """Return the cotangent of the output of `backward`."""
    if gradient is None:
        if is_one(product(x.shape)):
            from porism.tensor.autodiff.gradient_functions import ones_like_node

            return ones_like_node(output)
        raise PorismError(
            f"backward of a tensor of shape {to_text(x.shape)}",
            where=users_line(),
            why="a gradient is that of one number, and there are several",
            fix="call backward on a sum or a mean, or pass gradient=, a weight for each element",
        )
    weights = as_tensor(gradient)
    if not shapes_equal(weights.shape, x.shape):
        raise PorismError(
            f"backward of a tensor of shape {to_text(x.shape)} with a gradient of shape "
            f"{to_text(weights.shape)}",
            where=users_line(),
            why="the gradient has a weight for each element",
            fix=f"pass a tensor of shape {to_text(x.shape)}",
        )
    return primitive.cast(weights.node, output.dtype)


def _variables_below(output: UOp) -> list[UOp]:
    """Return the values of tensors that require a gradient on which an output depends."""
    found: list[UOp] = []
    seen: set[UOp] = set()
    stack = [output]
    while stack:
        node = stack.pop()
        if node in seen or not depends_on_variable(node):
            continue
        seen.add(node)
        if is_variable(node) and node.arg[1] in leaf_tensors:
            found.append(node)
        else:
            stack += differentiable_sources(node)
    return found


def _accumulate(x: Tensor, gradient: UOp) -> None:
    """Add to the gradient of a tensor; the tensor that holds it stays the same."""
    before = x.grad
    if before is None:
        x.grad = Tensor(gradient)
    else:
        before.node = before.value_node + gradient


# -- where gradients are not wanted ----------------------------------------------------------------


@contextmanager
def no_grad() -> Iterator[None]:
    """Compute without gradients: what is computed inside passes none on. Also a decorator.

    >>> x = porism.tensor([1.0, 2.0], requires_grad=True)
    >>> with porism.no_grad():
    ...     x = x.assign(x - 0.5)
    >>> x.tolist()
    [0.5, 1.5]
    """
    token = disabled.set(True)
    try:
        yield
    finally:
        disabled.reset(token)


@contextmanager
def enable_grad() -> Iterator[None]:
    """Compute with gradients again, inside of `no_grad`. Also a decorator.

    >>> x = porism.tensor([2.0], requires_grad=True)
    >>> with porism.no_grad(), porism.enable_grad():
    ...     (x * x).sum().backward()
    >>> x.grad.tolist()
    [4.0]
    """
    token = disabled.set(False)
    try:
        yield
    finally:
        disabled.reset(token)
