"""Gradient functions: `grad` and its relatives, which take a function and return its derivative.

They run the function on *variables* in place of its arguments, and differentiate the graph of what
it returns (`porism.gradient.reverse_mode`). Nothing is computed before a value is asked for, so the
function, its derivative and what is done with it are compiled together; and since a derivative is a
graph like any other, it can be differentiated again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from porism.base.errors import PorismError
from porism.gradient.stated_pullbacks import Variable
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.conversion import as_tensor
from porism.tensor.jit.nested_values import leaves, map_leaves
from porism.tensor.promotion import type_error
from porism.tensor.shapes import as_int, is_one, product, shapes_equal, to_text
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line

Function = Callable[..., Any]


class Variables:
    """The tensors of some arguments as variables, and the arguments made of them."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._alive: list[Variable] = []
        self.marks: list[UOp] = []
        """The node of each variable, in the order of the leaves."""
        self.values = [map_leaves(value, self._as_variable) for value in values]

    def _as_variable(self, leaf: Any) -> Any:
        if not is_differentiable(leaf):
            return leaf
        variable = Variable()
        self._alive.append(variable)
        self.marks.append(variable.mark(as_tensor(leaf).node))
        return Tensor(self.marks[-1])

    def gradients(self, given: Sequence[Any], cotangents: Sequence[UOp | None]) -> list[Any]:
        """Return the cotangents in the containers of the given arguments; None of other leaves."""
        remaining = iter(zip(self.marks, cotangents, strict=True))

        def of_leaf(leaf: Any) -> Tensor | None:
            if not is_differentiable(leaf):
                return None
            mark, cotangent = next(remaining)
            return Tensor(zeros_like_node(mark) if cotangent is None else cotangent)

        return [map_leaves(value, of_leaf) for value in given]


def is_differentiable(leaf: Any) -> bool:
    """Return whether an argument, or a part of one, is a tensor of floats."""
    if isinstance(leaf, Tensor):
        return leaf.value_node.dtype.is_float
    return isinstance(leaf, np.ndarray) and as_tensor(leaf).value_node.dtype.is_float


def zeros_like_node(node: UOp) -> UOp:
    """Return zeros of the type and shape of a node."""
    return primitive.full(node.dtype, 0.0, Tensor(node).shape)


def ones_like_node(node: UOp) -> UOp:
    """Return ones of the type and shape of a node."""
    return primitive.full(node.dtype, 1.0, Tensor(node).shape)


def differentiate(
    outputs: Sequence[UOp], cotangents: Sequence[UOp], variables: Sequence[UOp]
) -> list[UOp | None]:
    """Return the cotangent of each variable, from those of the outputs; None where there is none.

    The pipeline is loaded here: programs without gradients may not need it.
    """
    from porism.pipeline import DIFFERENTIATE

    return DIFFERENTIATE(outputs, cotangents, variables)


# -- gradients of scalars --------------------------------------------------------------------------


def grad(function: Function, argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Any:
    """Return a function that computes the gradient of a function with a scalar result.

    `argnums` is the number of the argument, or a tuple of such numbers; an argument is a tensor, or
    a dict, list, tuple or dataclass with tensors in it, and its gradient has the same structure.
    With `has_aux` the function returns a pair, of which the second part is returned beside the
    gradient.

    >>> porism.grad(lambda x: (x * x).sum())(porism.asarray([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    both = value_and_grad(function, argnums, has_aux=has_aux)

    @functools.wraps(function, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def value_and_grad(
    function: Function, argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Any:
    """Return a function that computes a function with a scalar result, and its gradient.

    The arguments are those of `grad`; the result is the pair (value, gradient), or with `has_aux`
    ((value, aux), gradient).

    >>> value, gradient = porism.value_and_grad(lambda x: (x * x).sum())(porism.ones(2))
    >>> value.item(), gradient.tolist()
    (2.0, [2.0, 2.0])
    """
    _check_callable(function, "grad")
    numbers = _argument_numbers(argnums)

    @functools.wraps(function, updated=())
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        given = _chosen_arguments(args, numbers, "grad")
        variables = Variables(given)
        result = function(*_with_arguments(args, numbers, variables.values), **kwargs)
        value, aux = _with_aux(result) if has_aux else (result, None)
        output = _scalar_result(value)
        cotangents = differentiate([output], [ones_like_node(output)], variables.marks)
        gradients = variables.gradients(given, cotangents)
        found = gradients[0] if isinstance(argnums, int) else tuple(gradients)
        return ((value, aux) if has_aux else value), found

    return differentiated


def _check_callable(function: Any, name: str) -> None:
    """Refuse what is no function."""
    if not callable(function):
        raise type_error(
            f"{name} of a {type(function).__name__}",
            "a function is differentiated, and not a value",
            f"pass a function, as porism.{name}(lambda x: ...); or use x.backward()",
        )


def _argument_numbers(argnums: int | Sequence[int]) -> tuple[int, ...]:
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    return tuple(as_int(number, "argnums") for number in numbers)


def _chosen_arguments(args: Sequence[Any], numbers: Sequence[int], name: str) -> list[Any]:
    """Return the arguments to differentiate with respect to; numbers become tensors."""
    chosen = []
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise PorismError(
                f"{name} with respect to argument {number} of a call with {len(args)}",
                where=users_line(),
                why="arguments are counted from 0, and keyword arguments are not counted",
                fix="pass the argument by position, or other argnums",
            )
        value = args[number]
        if isinstance(value, float):
            value = as_tensor(value)
        _check_argument(value, number, name)
        chosen.append(value)
    return chosen


def _check_argument(value: Any, number: int, name: str) -> None:
    """Refuse an argument without a tensor of floats."""
    found = [leaf for _, leaf in leaves(value)]
    if any(map(is_differentiable, found)):
        return
    kind = f"a {type(value).__name__}"
    if isinstance(value, Tensor):
        kind = f"a tensor of {value.dtype.name}"
    raise type_error(
        f"{name} with respect to argument {number}, which is {kind}",
        "a derivative is about small changes, and only floats can change a little",
        "convert it, with astype('float32'), or choose another argument with argnums",
    )


def _with_arguments(args: Sequence[Any], numbers: Sequence[int], values: Sequence[Any]) -> Any:
    """Return the arguments with some of them replaced."""
    changed = list(args)
    for number, value in zip(numbers, values, strict=True):
        changed[number] = value
    return changed


def _with_aux(result: Any) -> tuple[Any, Any]:
    """Return the two parts of the result of a function with has_aux."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise type_error(
            f"a function that returns a {type(result).__name__}, with has_aux=True",
            "it returns a pair: the value to differentiate, and what is passed on as it is",
            "return (value, aux), or leave has_aux out",
        )
    return result[0], result[1]


def _scalar_result(value: Any) -> UOp:
    """Return the node of the scalar that a function returned; refuse anything else."""
    if not isinstance(value, Tensor):
        raise type_error(
            f"the gradient of a function that returns a {type(value).__name__}",
            "a gradient is that of one number, as a tensor",
            "return a tensor without axes, such as a sum or a loss",
        )
    check_float_result(value)
    if not is_one(product(value.shape)):
        raise PorismError(
            f"the gradient of a result of shape {to_text(value.shape)}",
            where=users_line(),
            why="a gradient says how one number changes, and there are several",
            fix="return a sum or a mean; for all of them use porism.jacobian, or porism.vjp with "
            "a weight for each",
        )
    return value.node


def check_float_result(value: Tensor) -> None:
    """Refuse to differentiate integers and bools."""
    if not value.value_node.dtype.is_float:
        raise type_error(
            f"the gradient of a result of {value.dtype.name}",
            "a derivative is about small changes, and only floats can change a little",
            "compute the result in floats; where it is converted, the derivative is 0",
        )


# -- products with the Jacobian matrix -------------------------------------------------------------


def vjp(function: Function, *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """Return the result of a function, and the function from its cotangent to those of arguments.

    The cotangent is a tensor for each of the result's, in the same containers. The product of a
    vector with the Jacobian matrix costs about as much as the function.

    >>> y, pull = porism.vjp(lambda x: x * x, porism.asarray([1.0, 2.0]))
    >>> pull(porism.asarray([10.0, 1.0]))[0].tolist()
    [20.0, 4.0]
    """
    _check_callable(function, "vjp")
    given = _chosen_arguments(primals, range(len(primals)), "vjp")
    variables = Variables(given)
    result = function(*variables.values)
    outputs = _result_nodes(result)

    def pull(cotangent: Any) -> tuple[Any, ...]:
        nodes = _cotangent_nodes(cotangent, outputs)
        return tuple(variables.gradients(given, differentiate(outputs, nodes, variables.marks)))

    return result, pull


def _result_nodes(result: Any) -> list[UOp]:
    """Return the nodes of the float tensors in a result."""
    tensors = [leaf for _, leaf in leaves(result) if isinstance(leaf, Tensor)]
    nodes = [tensor.node for tensor in tensors if tensor.value_node.dtype.is_float]
    if not nodes:
        raise type_error(
            f"the derivative of a function that returns a {type(result).__name__}",
            "there is no tensor of floats in it",
            "return a tensor, or tensors in dicts, lists, tuples or dataclasses",
        )
    return nodes


def _cotangent_nodes(cotangent: Any, outputs: Sequence[UOp]) -> list[UOp]:
    """Return the cotangent of each output, in its type; refuse other shapes."""
    given = [as_tensor(leaf) for _, leaf in leaves(cotangent) if leaf is not None]
    wanted = [Tensor(output) for output in outputs]
    fits = len(given) == len(wanted) and all(
        shapes_equal(a.shape, b.shape) for a, b in zip(given, wanted, strict=True)
    )
    if not fits:
        shown = [", ".join(to_text(t.shape) for t in tensors) for tensors in (given, wanted)]
        raise PorismError(
            f"a cotangent of shape {shown[0]} for a result of shape {shown[1]}",
            where=users_line(),
            why="it has a number for each number of the result",
            fix="pass tensors of the shapes of the result, in the same containers",
        )
    return [primitive.cast(t.node, o.dtype) for t, o in zip(given, outputs, strict=True)]


def jvp(function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Return the result of a function, and how it changes when the arguments move along tangents.

    It is the product of the Jacobian matrix with a vector: the derivative of `vjp`, which is linear
    in the cotangent. Of the two graphs only what the product needs is computed.

    >>> x, direction = porism.asarray([1.0, 2.0]), porism.asarray([1.0, 0.0])
    >>> porism.jvp(lambda x: (x * x).sum(), (x,), (direction,))[1].item()
    2.0
    """
    _check_callable(function, "jvp")
    given = _chosen_arguments(primals, range(len(primals)), "jvp")
    variables = Variables(given)
    result = function(*variables.values)
    outputs = _result_nodes(result)
    directions = _cotangent_nodes(tangents, variables.marks)
    moved = iter(push_forward(outputs, variables.marks, directions))

    def of_leaf(leaf: Any) -> Any:
        return (
            Tensor(next(moved))
            if isinstance(leaf, Tensor) and leaf.value_node.dtype.is_float
            else None
        )

    return result, map_leaves(result, of_leaf)


def push_forward(
    outputs: Sequence[UOp], marks: Sequence[UOp], tangents: Sequence[UOp]
) -> list[UOp]:
    """Return how outputs change when variables move along tangents."""
    weights = [Variable() for _ in outputs]
    marked = [w.mark(zeros_like_node(o)) for w, o in zip(weights, outputs, strict=True)]
    pulled = differentiate(outputs, marked, marks)
    pairs = [(p, t) for p, t in zip(pulled, tangents, strict=True) if p is not None]
    pushed = differentiate([p for p, _ in pairs], [t for _, t in pairs], marked)
    return [
        zeros_like_node(output) if part is None else part
        for output, part in zip(outputs, pushed, strict=True)
    ]


# -- matrices of derivatives -----------------------------------------------------------------------


def jacobian(function: Function, argnums: int | Sequence[int] = 0) -> Any:
    """Return a function that computes all derivatives of a tensor by an argument.

    The result has the axes of the function's result, then those of the argument. It is made of one
    product for each element of the smaller of the two, so it is for small ones.

    >>> porism.jacobian(lambda x: x * x)(porism.asarray([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    _check_callable(function, "jacobian")
    numbers = _argument_numbers(argnums)

    @functools.wraps(function, updated=())
    def matrices(*args: Any, **kwargs: Any) -> Any:
        given = _chosen_arguments(args, numbers, "jacobian")
        variables = Variables(given)
        result = function(*_with_arguments(args, numbers, variables.values), **kwargs)
        if not isinstance(result, Tensor):
            raise type_error(
                f"the jacobian of a function that returns a {type(result).__name__}",
                "it is the matrix of the derivatives of one tensor",
                "return a tensor; porism.concat and porism.stack join several",
            )
        check_float_result(result)
        found = _matrices(result.node, variables.marks)
        gradients = variables.gradients(given, found)
        return gradients[0] if isinstance(argnums, int) else tuple(gradients)

    return matrices


def _matrices(output: UOp, marks: Sequence[UOp]) -> list[UOp | None]:
    """Return the derivatives of an output by each variable, with the axes of both."""
    sizes = Tensor(output).shape
    rows = element_count(sizes)
    columns = [element_count(Tensor(mark).shape) for mark in marks]
    if rows <= sum(columns):
        pulled = [differentiate([output], [unit(output, k)], marks) for k in range(rows)]
        return [
            _stacked([row[n] for row in pulled], Tensor(mark).shape, output, first=True)
            for n, mark in enumerate(marks)
        ]
    found: list[UOp | None] = []
    for mark, count in zip(marks, columns, strict=True):
        pushed: list[UOp | None] = [
            push_forward([output], [mark], [unit(mark, k)])[0] for k in range(count)
        ]
        found.append(_stacked(pushed, Tensor(mark).shape, output, first=False))
    return found


def element_count(sizes: Sequence[Any]) -> int:
    """Return the number of elements of a shape, as an int."""
    return static_size(product(sizes), "jacobian")


def unit(like: UOp, position: int) -> UOp:
    """Return a tensor that is 1 at a position in row-major order, and 0 elsewhere."""
    sizes = Tensor(like).shape
    flat = primitive.iota([element_count(sizes)], 0).eq(position)
    return primitive.reshape(primitive.cast(flat, like.dtype), sizes)


def _stacked(parts: Sequence[UOp | None], sizes: Any, output: UOp, *, first: bool) -> UOp | None:
    """Return products with unit vectors as one tensor: as rows, or as columns."""
    from porism.tensor.movement.joining import stack

    axes = (*Tensor(output).shape, *sizes)
    known = [part for part in parts if part is not None]
    if not known:
        return primitive.full(output.dtype, 0.0, axes)
    zero = zeros_like_node(known[0])
    tensors = [Tensor(zero if part is None else part) for part in parts]
    joined = stack(tensors, axis=0 if first else -1)
    return primitive.reshape(joined.node, axes)


def hessian(function: Function, argnums: int | Sequence[int] = 0) -> Any:
    """Return a function that computes all second derivatives of a scalar: a jacobian of `grad`.

    By several arguments it returns a tuple for each, with the derivatives by it and by each one.

    >>> porism.hessian(lambda x: (x * x * x).sum())(porism.asarray([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    if isinstance(argnums, int):
        return jacobian(grad(function, argnums), argnums)
    numbers = _argument_numbers(argnums)
    rows = [jacobian(grad(function, number), numbers) for number in numbers]

    @functools.wraps(function, updated=())
    def blocks(*args: Any, **kwargs: Any) -> Any:
        return tuple(row(*args, **kwargs) for row in rows)

    return blocks
