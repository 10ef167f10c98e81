"""Custom gradients: derivatives that a user states, stops, or has computed again.

They are PULLBACK nodes (`porism.gradient.stated_pullbacks`), which the compiler does not see.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from porism.base.errors import PorismError
from porism.gradient.stated_pullbacks import (
    Variable,
    closed_over,
    differentiable_sources,
    is_recording,
    is_variable,
    stopped,
)
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.autodiff.gradient_functions import (
    differentiate,
    is_differentiable,
    zeros_like_node,
)
from porism.tensor.conversion import as_tensor
from porism.tensor.jit.nested_values import leaves, map_leaves
from porism.tensor.promotion import type_error
from porism.tensor.shapes import shapes_equal, to_text
from porism.tensor.tensor import Tensor, method
from porism.tensor.user_line import users_line


def stop_gradient(x: Any) -> Any:
    """Return the same values, with derivative 0: tensors in dicts, lists, tuples or dataclasses.

    >>> x = porism.asarray([1.0, 2.0])
    >>> porism.grad(lambda x: (x * porism.stop_gradient(x)).sum())(x).tolist()
    [1.0, 2.0]
    """
    return map_leaves(x, lambda leaf: detach(leaf) if isinstance(leaf, Tensor) else leaf)


@method
def detach(x: Tensor) -> Tensor:
    """Return the same values as a tensor that passes no gradient on.

    >>> x = porism.asarray([1.0, 2.0]).requires_grad_()
    >>> (x * x.detach()).sum().backward()
    >>> x.grad.tolist()
    [1.0, 2.0]
    """
    return Tensor(stopped(x.value_node))


# -- stated by the user ----------------------------------------------------------------------------


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose derivative is stated: it returns a value and a pullback.

    The pullback takes the cotangent of the value (of each, if the value is a tuple), and returns
    that of each positional argument; None for an argument that has none.

    >>> @porism.custom_gradient
    ... def reversed_gradient(x):
    ...     return x, lambda g: -g
    >>> porism.grad(lambda x: reversed_gradient(x).sum())(porism.ones(2)).tolist()
    [-1.0, -1.0]
    """
    if not callable(function):
        raise type_error(
            f"custom_gradient of a {type(function).__name__}",
            "it takes a function that returns a value and its pullback",
            "use @porism.custom_gradient on a function",
        )

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not isinstance(result, tuple) or len(result) != 2 or not callable(result[1]):
            raise type_error(
                f"a function with a custom gradient that returns a {type(result).__name__}",
                "it returns a pair: the value, and a function from the cotangent of the value to "
                "those of the arguments",
                "return (value, pullback)",
            )
        value, pullback = result
        inputs = [as_tensor(arg).node for arg in args if is_differentiable(arg)]

        def pull(cotangents: list[UOp]) -> Sequence[UOp | None]:
            given = iter(cotangents)
            passed = map_leaves(
                value, lambda leaf: Tensor(next(given)) if _is_float(leaf) else None
            )
            found = pullback(*passed) if isinstance(value, tuple) else pullback(passed)
            return _argument_cotangents(found, args)

        return _with_pullback(value, inputs, pull)

    return call


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.value_node.dtype.is_float


def _with_pullback(
    value: Any, inputs: Sequence[UOp], pull: Callable[[list[UOp]], Sequence[UOp | None]]
) -> Any:
    """Return a nested value whose float tensors have the given pullback."""
    tensors = [leaf for _, leaf in leaves(value) if _is_float(leaf)]
    nodes = [tensor.node for tensor in tensors]

    def pull_present(cotangents: Sequence[UOp | None]) -> Sequence[UOp | None]:
        pairs = zip(cotangents, nodes, strict=True)
        return pull([zeros_like_node(n) if c is None else c for c, n in pairs])

    marked = iter(closed_over(nodes, inputs, pull_present))
    return map_leaves(value, lambda leaf: Tensor(next(marked)) if _is_float(leaf) else leaf)


def _argument_cotangents(found: Any, args: Sequence[Any]) -> list[UOp | None]:
    """Return the cotangents of the float tensors among positional arguments; check their shapes."""
    parts = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    if len(parts) != len(args):
        raise PorismError(
            f"a pullback returns {len(parts)} values for a function of {len(args)} arguments",
            where=users_line(),
            why="there is a cotangent for each positional argument",
            fix="return a tuple, with None for an argument that has no derivative",
        )
    nodes: list[UOp | None] = []
    for part, arg in zip(parts, args, strict=True):
        if not is_differentiable(arg):
            continue
        if part is None:
            nodes.append(None)
            continue
        wanted, given = as_tensor(arg), as_tensor(part)
        if given.ndim and not shapes_equal(given.shape, wanted.shape):
            raise PorismError(
                f"a pullback returns a tensor of shape {to_text(given.shape)} for an argument of "
                f"shape {to_text(wanted.shape)}",
                where=users_line(),
                why="a cotangent has the shape of what it is the derivative by",
                fix="sum over the axes along which the argument was broadcast",
            )
        nodes.append(primitive.cast(given.node, wanted.value_node.dtype))
    return nodes


# -- computed again --------------------------------------------------------------------------------


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose inner values are computed again for its derivative, and not stored.

    The backward pass reads its arguments and its tensors alone, so it needs less memory and more
    time. The compiler computes cheap values again by itself; this is for those that it would store.

    >>> f = porism.checkpoint(lambda x: porism.tanh(x * 2).sum())
    >>> porism.grad(f)(porism.zeros(2)).tolist()
    [2.0, 2.0]
    """

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        if not is_recording():
            return value
        given = [leaf for _, leaf in leaves((args, kwargs)) if is_differentiable(leaf)]
        inputs = [as_tensor(leaf).node for leaf in given]
        outputs = [leaf.node for _, leaf in leaves(value) if _is_float(leaf)]
        others = _other_variables(outputs, frozenset(inputs))

        def pull(cotangents: list[UOp]) -> Sequence[UOp | None]:
            variables = [Variable() for _ in inputs]
            marks = [
                variable.mark(ops.CONTIGUOUS(node, arg="a checkpoint"))
                for variable, node in zip(variables, inputs, strict=True)
            ]
            fresh = iter(marks)
            again = map_leaves(
                (args, kwargs),
                lambda leaf: Tensor(next(fresh)) if is_differentiable(leaf) else leaf,
            )
            result = function(*again[0], **again[1])
            nodes = [leaf.node for _, leaf in leaves(result) if _is_float(leaf)]
            return differentiate(nodes, cotangents, [*marks, *others])

        return _with_pullback(value, [*inputs, *others], pull)

    return call


def _other_variables(outputs: Sequence[UOp], inputs: frozenset[UOp]) -> list[UOp]:
    """Return the variables that outputs depend on, but not by way of inputs."""
    found: dict[UOp, None] = {}
    seen = set(inputs)
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if is_variable(node):
            found[node] = None
        else:
            stack += differentiable_sources(node)
    return list(found)
