"""Compiled piece: nodes of torch's graph that one program computes, and how it is called.

A piece is traced once: its tensors are placeholders, and sizes that torch has traced as symbols are
variables. A call hands over the addresses of torch's tensors, and makes torch's tensors of the
results; what that takes (which input is where, sizes and strides of the results) is known from the
trace, so it does nothing else.

A tensor whose elements fill its memory in another order, as a transposed matrix does, is handed
over as it lies there: in the trace it is a permutation of a contiguous one.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import Node

from porism.backends.backend_table import selected_backend
from porism.base.dtypes import index
from porism.base.settings import settings, unoverridden
from porism.engine.run.buffer_storage import record_realized
from porism.frontends.tensor_functions import xp
from porism.frontends.torch.fallback_report import CompiledNames, report
from porism.frontends.torch.graph_sizes import CallSizes, GraphSizes
from porism.frontends.torch.node_tracing import (
    NodeError,
    expression_of,
    run_node,
)
from porism.frontends.torch.size_expressions import (
    UnknownSizeError,
    evaluate_expression,
    symbols_of,
)
from porism.frontends.torch.torch_memory import (
    carrier_of,
    from_torch,
    memory_order,
    strides_in_order,
    to_torch,
    with_strides,
)
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor.jit.jit import Jitted, jit
from porism.tensor.jit.replay import Replay, TensorSlot
from porism.tensor.tensor import Tensor

MAX_LAYOUTS: Final = 4096
"""Values of symbols for which sizes of results are kept, chosen by hand."""

Layout = tuple[tuple[int, ...], tuple[int, ...]]
"""The sizes and the strides of a result."""


class SymbolError(Exception):
    """A piece could not be compiled with symbolic sizes."""

    def __init__(self, symbols: Sequence[Any], why: str) -> None:
        super().__init__(why)
        self.symbols = symbols


@dataclass(slots=True, eq=False)
class _Input:
    """An input of a program that is a tensor of torch."""

    number: int
    node: Node
    order: tuple[int, ...] | None
    """The axes as they lie in memory; None if that is their own order."""


@dataclass(slots=True, eq=False)
class _Traced:
    """A trace of a piece for some static sizes, ready to be called."""

    jitted: Jitted[..., Any]
    replay: Replay
    settings: Any
    """The settings that it was traced under."""
    inputs: list[_Input]
    outputs: list[tuple[int, bool]] | None
    """The output of the program that each result is, and whether it is copied; None if calls need
    more than the program."""


class CompiledPiece:
    """Nodes that one program computes, of values of other nodes."""

    def __init__(
        self, nodes: list[Node], inputs: list[Node], outputs: list[Node], sizes: GraphSizes
    ) -> None:
        self.nodes = nodes
        self.outputs = outputs
        self.sizes = sizes
        self.tensors = [n for n in inputs if isinstance(n.meta.get("val"), torch.Tensor)]
        numbers = [n for n in inputs if not isinstance(n.meta.get("val"), torch.Tensor)]
        self.symbolic_numbers = {
            n: expression_of(n.meta["val"]) for n in numbers if _is_symbolic(n, sizes)
        }
        """Inputs that are computed from the symbols."""
        self.numbers = [n for n in numbers if not _is_symbolic(n, sizes)]
        """Other numbers, each of which has a program for each of its values."""
        self.orders = [memory_order(n.meta["val"]) for n in self.tensors]
        metas = [n.meta.get("val") for n in (*nodes, *inputs)]
        symbols = symbols_of(size for meta in metas for size in _sizes_in(meta))
        self.symbols = [s for s in sizes.sources if s in symbols]
        self.unknown = [n for n in self.tensors if not sizes.knows(_sizes_in(n.meta["val"]))]
        """Tensors of sizes that follow from values: each of these has a program of its own."""
        self.is_static = not (self.symbols or self.numbers or self.unknown)
        self.metas = [n.meta["val"] for n in outputs]
        # torch may replace symbols by others later, as it traces on
        self.tensor_sizes = [_sizes_in(n.meta["val"]) for n in self.tensors]
        self.result_sizes = [_sizes_in(meta) for meta in self.metas]
        self.result_orders = [memory_order(meta) for meta in self.metas]
        self.names = CompiledNames([str(n.target) for n in nodes])
        self._traces: dict[tuple[Any, ...], _Traced] = {}
        self._layouts: dict[tuple[int, ...], list[Layout]] = {}
        self._finish = [
            _finisher(meta, o) for meta, o in zip(self.metas, self.result_orders, strict=True)
        ]

    # -- calling -----------------------------------------------------------------------------------

    def run(self, env: dict[Node, Any], call: CallSizes) -> None:
        """Compute the outputs, and put them into the environment as torch's tensors."""
        key = () if self.is_static else self._key(env, call)
        traced, now = self._traces.get(key), unoverridden()
        if traced is None or (traced.settings is not now and now is not None):
            traced = self._trace(key, env, call)
        if traced.outputs is None or now is None:
            self._run_slowly(traced, env, call)
        else:
            self._run_fast(traced, env, call)
        report().note_run(self.names)

    def _key(self, env: Mapping[Node, Any], call: CallSizes) -> tuple[Any, ...]:
        """Return what a program depends on beside the types of its tensors."""
        variables = self.sizes.variables
        static = [call.values[s] for s in self.symbols if s not in variables]
        numbers = [(type(env[n]), env[n]) for n in self.numbers]
        unknown = [tuple(env[n].shape) for n in self.unknown]
        return (self.sizes.version, *static, *numbers, *unknown)

    def _run_fast(self, traced: _Traced, env: dict[Node, Any], call: CallSizes) -> None:
        """Run the program on the addresses of tensors."""
        replay = traced.replay
        constants, alive = replay.call_constants()
        inputs = constants.inputs.copy()
        for entry in traced.inputs:
            x = env[entry.node]
            if not (x if entry.order is None else x.permute(entry.order)).is_contiguous():
                x = _contiguous(x, entry.order)
            inputs[entry.number] = (x, x.data_ptr())
        variables = replay.variables
        if call.by_name:
            variables = {**variables, **call.by_name}
        program = constants.program
        assert program is not None
        assert traced.outputs is not None
        results = program.run(inputs, variables, constants.fixed)
        del alive  # in use until here
        layouts = self._layouts.get(call.key) or self._new_layouts(env, call)
        for node, (number, copied), (sizes, strides), finish in zip(
            self.outputs, traced.outputs, layouts, self._finish, strict=True
        ):
            array = results[number][0]
            env[node] = finish(array.copy() if copied else array, sizes, strides)

    def _run_slowly(self, traced: _Traced, env: dict[Node, Any], call: CallSizes) -> None:
        """Run through the jitted function, which knows more than programs."""
        results = traced.jitted(*self._given(env, call))
        for node, meta, result, order in zip(
            self.outputs, self.metas, results, self.result_orders, strict=True
        ):
            flat = to_torch(result, meta.dtype)
            sizes = [0] * flat.dim()
            for axis, size in zip(order, flat.shape, strict=True):
                sizes[axis] = size
            strided = flat.as_strided(sizes, strides_in_order(sizes, order))
            env[node] = with_strides(strided, meta) if _is_static(meta) else strided

    def _new_layouts(self, env: Mapping[Node, Any], call: CallSizes) -> list[Layout]:
        """Return the sizes and strides of the results in a call, and keep them for others."""
        layouts = []
        for expressions, order in zip(self.result_sizes, self.result_orders, strict=True):
            sizes = tuple(evaluate_expression(size, call.values) for size in expressions)
            layouts.append((sizes, strides_in_order(sizes, order)))
        if len(self._layouts) >= MAX_LAYOUTS:
            self._layouts.clear()
        self._layouts[call.key] = layouts
        return layouts

    # -- tracing -----------------------------------------------------------------------------------

    def _trace(self, key: tuple[Any, ...], env: Mapping[Node, Any], call: CallSizes) -> _Traced:
        """Trace the nodes for the sizes and numbers of a call."""
        symbols = self.sizes.bound(call.values)
        for node in self.unknown:
            for size, known in zip(_sizes_in(node.meta["val"]), env[node].shape, strict=True):
                if not isinstance(size, int) and size.is_Symbol:
                    symbols.setdefault(size, known)
        numbers = {n: env[n] for n in self.numbers}
        jitted = jit(functools.partial(self._compute, numbers, symbols))
        given = self._given(env, call)
        try:
            replay = jitted.replay(*given)
        except NodeError:
            raise
        except Exception as error:
            variable = [s for s in self.symbols if s in self.sizes.variables]
            if not variable:
                raise
            raise SymbolError(variable, f"{type(error).__name__}: {error}") from error
        traced = _Traced(jitted, replay, unoverridden(), [], None)
        program = replay.constants.program
        if self._is_simple(replay) and program is not None and selected_backend().load is not None:
            plain = [None if o == tuple(range(len(o))) else o for o in self.orders]
            traced.inputs = [
                _Input(number, self.tensors[which], plain[which])
                for number, which in replay.arguments
            ]
            values = [replay.values[slot.number] for slot in replay.result]
            traced.outputs = [(value.output, value.copied) for value in values]
        if len(self._traces) >= settings.jit_signatures:
            del self._traces[next(iter(self._traces))]
        self._traces[key] = traced
        return traced

    def _is_simple(self, replay: Replay) -> bool:
        """Whether a call needs nothing but addresses of tensors, and tensors of the outputs."""
        metas = [n.meta["val"] for n in (*self.tensors, *self.outputs)]
        return (
            not (replay.assignments or replay.gradients or replay.streams or replay.traced)
            and not replay.captured
            and not any(m.is_complex() or m.is_neg() or m.is_conj() for m in metas)
            and not any(self.sizes.knows(_sizes_in(m)) is False for m in self.metas)
            and all(slot.__class__ is TensorSlot for slot in replay.result)
            and all(value.output is not None for value in replay.values)
        )

    def _given(self, env: Mapping[Node, Any], call: CallSizes) -> list[Tensor]:
        """Return the input tensors as Porism's, in the order of their axes in memory."""
        symbols = self.sizes.bound(call.values)
        given = []
        for node, order, expressions in zip(
            self.tensors, self.orders, self.tensor_sizes, strict=True
        ):
            x = env[node]
            tensor = from_torch(x.permute(order))
            if self.sizes.knows(expressions) and not x.is_complex():
                sizes = [evaluate_expression(size, symbols) for size in expressions]
                tensor = _with_symbolic_sizes(tensor, [sizes[axis] for axis in order])
            given.append(tensor)
        return given

    def _compute(
        self, numbers: Mapping[Node, Any], symbols: Mapping[Any, Any], *values: Any
    ) -> tuple[Any, ...]:
        """Compute the outputs from the inputs, as tensors of Porism; both as they lie in memory."""
        env: dict[Node, Any] = dict(numbers)
        for node, expression in self.symbolic_numbers.items():
            env[node] = evaluate_expression(expression, symbols)
        for node, value, order in zip(self.tensors, values, self.orders, strict=True):
            env[node] = _permuted(value, _inverse(order))
        for node in self.nodes:
            try:
                env[node] = run_node(node, env, symbols)
            except NodeError:
                raise
            except Exception as error:
                raise NodeError(node, f"{type(error).__name__}: {error}") from error
        return tuple(
            _permuted(env[node], order)
            for node, order in zip(self.outputs, self.result_orders, strict=True)
        )


def _permuted(x: Any, order: tuple[int, ...]) -> Any:
    return x if order == tuple(range(len(order))) else xp.permute_dims(x, order)


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(axis) for axis in range(len(order)))


def _is_symbolic(node: Node, sizes: GraphSizes) -> bool:
    """Whether the value of a node is a whole number that follows from the symbols."""
    meta = node.meta.get("val")
    if not isinstance(meta, torch.SymInt) or not sizes.knows([meta.node.expr]):
        return False
    try:
        evaluate_expression(meta.node.expr, dict.fromkeys(sizes.sources, 2))
    except UnknownSizeError:
        return False
    return symbols_of([meta.node.expr]) <= sizes.lows.keys()


def _sizes_in(meta: Any) -> list[Any]:
    """Return the sizes in a value that torch has traced, as ints and expressions."""
    if isinstance(meta, (list, tuple)):
        return [size for item in meta for size in _sizes_in(item)]
    if isinstance(meta, torch.Tensor):
        return [expression_of(size) for size in meta.shape]
    return [meta.node.expr] if isinstance(meta, torch.SymInt) else []


def _is_static(meta: torch.Tensor) -> bool:
    return all(isinstance(n, int) for n in (*meta.shape, *meta.stride()))


def _contiguous(x: torch.Tensor, order: tuple[int, ...] | None) -> torch.Tensor:
    """Return the elements of a tensor in an order of its axes, contiguous."""
    return (x if order is None else x.permute(order)).contiguous()


def _with_symbolic_sizes(tensor: Tensor, sizes: Sequence[int | UOp]) -> Tensor:
    """Return a tensor in memory with bound variables in its shape."""
    if all(isinstance(n, int) for n in sizes):
        return tensor
    buffer = tensor._buffer()
    dims = [UOp.const(index, n) if isinstance(n, int) else n for n in sizes]
    node = ops.RESHAPE(buffer, *dims)
    record_realized(node, buffer)
    return Tensor(node)


def _finisher(meta: torch.Tensor, order: tuple[int, ...]) -> Any:
    """Return what makes a tensor of torch of an array, sizes and strides."""
    carrier, dtype = carrier_of(meta.dtype), meta.dtype
    from_numpy = torch.from_numpy

    def strided(array: Any, sizes: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
        return from_numpy(array).as_strided(sizes, strides)

    def viewed(array: Any, sizes: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
        return from_numpy(array.view(carrier)).view(dtype).as_strided(sizes, strides)

    make = strided if carrier is None else viewed
    if not _is_static(meta):
        return make
    sizes = [int(n) for n in meta.shape]
    dense = strides_in_order(sizes, order)
    if all(n <= 1 or a == b for n, a, b in zip(sizes, meta.stride(), dense, strict=True)):
        return make
    return lambda array, sizes, strides: with_strides(make(array, sizes, strides), meta)
