"""Node tracing: the value of a node of torch's graph, inside of a trace, as tensors of Porism."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from porism.engine.run.bound_sizes import evaluate_size
from porism.frontends.tensor_functions import xp
from porism.frontends.torch.aten import (  # noqa: F401 - they fill the table
    aten_complex,
    aten_distances,
    aten_elementwise,
    aten_histograms,
    aten_indexing,
    aten_matrices,
    aten_movement,
    aten_network,
    aten_normalization,
    aten_pooling,
    aten_reductions,
    aten_sampling,
    aten_special,
)
from porism.frontends.torch.aten.aten_table import TABLE
from porism.frontends.torch.size_expressions import UnknownSizeError, evaluate_expression
from porism.frontends.torch.torch_memory import NAMES
from porism.ir.node import UOp
from porism.tensor.jit.nested_values import unbound_size
from porism.tensor.primitive import shrink
from porism.tensor.tensor import Tensor

Symbols = Mapping[Any, Any]
"""What stands for the symbols of symbolic sizes: ints, or bound variables."""

SAMPLES = (0, 1, 2, 5, 16, 31)
"""What is added to the values of variables where two sizes are compared by their values."""


class NodeError(Exception):
    """An operator that could not be compiled in the form in which it occurs."""

    def __init__(self, node: Node, why: str) -> None:
        super().__init__(why)
        self.node = node


def run_node(node: Node, env: Mapping[Node, Any], symbols: Symbols) -> Any:
    """Return the value of a node as tensors of Porism, in the types that torch gives them."""
    args, kwargs = substituted(node, env)
    if node.target is operator.getitem:
        if args[0][args[1]] is None:
            source: Any = node.args[0]
            raise NodeError(source, f"its result {args[1]} is not computed")
        return args[0][args[1]]
    if str(node.target) == "aten.slice.Tensor":
        sliced = _symbolic_slice(node, args, symbols)
        if sliced is not None:
            return _as_traced(sliced, node.meta["val"], symbols)
    row = TABLE[str(node.target)]
    kwargs = {name: _as_option(value) for name, value in kwargs.items()}
    args = [_as_option(value) for value in args]
    if row.promoting:
        dtype = NAMES[_computation_dtype(node)]
        args = [_promoted(a, dtype) if isinstance(a, Tensor) else a for a in args]
    return _as_traced(row.run(*args, **kwargs), node.meta["val"], symbols)


def _symbolic_slice(node: Node, args: Sequence[Any], symbols: Symbols) -> Tensor | None:
    """Return a slice along an axis of a symbolic size, which torch knows to lie inside.

    None if the sizes are numbers, or the step is not 1.
    """
    defaults: list[Any] = [None, 0, None, None, 1]
    x, axis, start, end, step = [*args, *defaults[len(args) :]]
    numbers = (x.shape[axis], start, end)
    if step != 1 or not any(isinstance(n, UOp) for n in numbers):
        return None
    axis, begin = axis % x.ndim, 0 if start is None else start
    if (begin if isinstance(begin, int) else begin.vmax) < 0:
        begin = x.shape[axis] + begin
    size = traced_sizes(node.meta["val"], symbols)[axis]
    if size is x.shape[axis]:
        return x  # type: ignore[no-any-return]
    bounds: list[tuple[Any, Any]] = [(0, n) for n in x.shape]
    bounds[axis] = begin, begin + size
    return Tensor(shrink(x.node, bounds))


def substituted(node: Node, env: Mapping[Node, Any]) -> tuple[Any, Any]:
    """Return the arguments of a node with the values of other nodes."""
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: env[n])
    return args, kwargs


def _promoted(x: Tensor, dtype: str) -> Tensor:
    """Return an operand in the type that torch computes in; complex ones of real results stay."""
    return x if x.dtype.kind == "c" and not dtype.startswith("complex") else x.astype(dtype)


def _as_option(value: Any) -> Any:
    """Return a type of torch as its name."""
    return NAMES.get(value, value) if isinstance(value, torch.dtype) else value


def _computation_dtype(node: Node) -> torch.dtype:
    """Return the type in which torch computes an elementwise operator."""
    result: torch.dtype = tensors_in(node.meta["val"])[0].dtype
    if result is not torch.bool:
        return result
    operands: list[Any] = [_number(a.meta["val"]) if isinstance(a, Node) else a for a in node.args]
    operands = [a for a in operands if isinstance(a, (torch.Tensor, bool, int, float))]
    dtype = result
    for k, operand in enumerate(operands):
        if k == 0:
            dtype = (
                operand.dtype
                if isinstance(operand, torch.Tensor)
                else torch.result_type(operand, operand)
            )
        else:
            dtype = (
                torch.result_type(operands[0], operand)
                if k == 1
                else torch.promote_types(dtype, torch.result_type(operands[0], operand))
            )
    return dtype


def _number(value: Any) -> Any:
    """Return a plain number of the type of a symbolic one; others as they are."""
    if isinstance(value, torch.SymInt):
        return 2
    return 2.0 if isinstance(value, torch.SymFloat) else value


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a value that torch has traced."""
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in tensors_in(item)]
    return [value] if isinstance(value, torch.Tensor) else []


def expression_of(size: Any) -> Any:
    """Return a size that torch has traced as an int, or as its expression."""
    return size if isinstance(size, int) else size.node.expr


def traced_sizes(meta: torch.Tensor, symbols: Symbols) -> tuple[Any, ...]:
    """Return the sizes of a tensor that torch has traced, for what stands for the symbols."""
    return tuple(evaluate_expression(expression_of(n), symbols) for n in meta.shape)


def _as_traced(value: Any, meta: Any, symbols: Symbols) -> Any:
    """Return a value in the type and the sizes that torch traced; refuse one of another shape."""
    if isinstance(meta, (list, tuple)):
        assert len(value) == len(meta), f"{len(value)} results in place of {len(meta)}"
        return [
            None if m is None else _as_traced(v, m, symbols)
            for v, m in zip(value, meta, strict=True)
        ]
    if value is None or not isinstance(meta, torch.Tensor):
        return value
    value = value.astype(NAMES[meta.dtype])
    if all(isinstance(n, int) for n in meta.shape) and all(isinstance(n, int) for n in value.shape):
        assert tuple(value.shape) == tuple(meta.shape), (
            f"a result of shape {tuple(value.shape)} in place of {tuple(meta.shape)}"
        )
        return value
    try:
        wanted = traced_sizes(meta, symbols)
    except UnknownSizeError:  # it follows from values
        return value
    found = tuple(value.shape)
    fits = len(wanted) == len(found) and all(map(_are_equal, found, wanted))
    assert fits, f"a result of shape {found} in place of {wanted}"
    # one expression for each size that torch takes for equal, so that later operators see it
    same = all(a is b or a == b for a, b in zip(found, wanted, strict=True))
    return value if same else xp.reshape(value, wanted)


def _are_equal(a: Any, b: Any) -> bool:
    """Return whether two sizes are equal, for the values of a call and for some others."""
    if a is b or (isinstance(a, int) and isinstance(b, int)):
        return bool(a == b)
    values: dict[str, int] = {}
    unbound = [unbound_size(size, values) if isinstance(size, UOp) else size for size in (a, b)]
    for more in SAMPLES:
        sample = {name: value + more for name, value in values.items()}
        x, y = (evaluate_size(s, sample) if isinstance(s, UOp) else s for s in unbound)
        if x != y:
            return False
    return True


def result_sizes(metas: Sequence[torch.Tensor], symbols: Symbols) -> list[tuple[int, ...]]:
    """Return the sizes of tensors that torch has traced, for values of the symbols."""
    return [traced_sizes(meta, symbols) for meta in metas]
