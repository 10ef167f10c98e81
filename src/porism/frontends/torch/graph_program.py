"""Graph program: a graph of ATen operators as pieces that Porism compiles, and calls of torch.

Nodes are taken in an order in which they can run. All that can be compiled at some point becomes
one jitted function; operators that take values, such as factorizations by LAPACK, are called
between such functions; what cannot be compiled, or fails to be, is called in torch, one operator at
a time, and noted in the report. Python's numbers (sizes that are symbolic) are computed on the way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

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
from porism.frontends.torch.fallback_report import note_compiled, note_fallback
from porism.frontends.torch.torch_memory import NAMES, from_torch, to_torch, with_strides
from porism.tensor.jit.jit import jit
from porism.tensor.tensor import Tensor


class NodeError(Exception):
    """An operator that could not be compiled in the form in which it occurs."""

    def __init__(self, node: Node, why: str) -> None:
        super().__init__(why)
        self.node = node


@dataclass(eq=False)
class Piece:
    """Nodes that one jitted function computes."""

    nodes: list[Node]
    inputs: list[Node]
    outputs: list[Node]
    function: Callable[..., Any] = field(init=False)

    def __post_init__(self) -> None:
        self.function = jit(self._trace)

    def _trace(self, *values: Any) -> tuple[Any, ...]:
        """Compute the outputs from the inputs, as tensors of Porism."""
        env: dict[Node, Any] = dict(zip(self.inputs, values, strict=True))
        for node in self.nodes:
            try:
                env[node] = _run(node, env)
            except NodeError:
                raise
            except Exception as error:
                raise NodeError(node, f"{type(error).__name__}: {error}") from error
        return tuple(env[node] for node in self.outputs)


class GraphProgram:
    """A graph of ATen operators as a callable on tensors of torch."""

    def __init__(self, module: GraphModule) -> None:
        self.module = module
        self.placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        (self.output,) = (n for n in module.graph.nodes if n.op == "output")
        self.constants = {
            n: getattr(module, str(n.target)) for n in module.graph.nodes if n.op == "get_attr"
        }
        self.refused: dict[Node, str] = {}
        self.hosted: set[Node] = set()
        self.steps: list[Piece | Node] = []
        self._plan()

    def _plan(self) -> None:
        """Cut the graph into pieces and single nodes, in an order in which they can run."""
        calls = [n for n in self.module.graph.nodes if n.op == "call_function"]
        covered = {n for n in calls if self._is_covered(n)}
        self.hosted = {n for n in covered if TABLE[str(n.target)].host}
        compiled = covered - self.hosted
        compiled |= {n for n in calls if _is_part_of(n, compiled)}
        ready = {*self.placeholders, *self.constants}
        waiting = calls
        self.steps = []
        while waiting:
            taken: list[Node] = []
            for node in waiting:
                if node in compiled and all(s in ready for s in node.all_input_nodes):
                    taken.append(node)
                    ready.add(node)
            if taken:
                self.steps.append(self._piece(taken))
            others = [n for n in waiting if n not in ready]
            for node in others:
                if node not in compiled and all(s in ready for s in node.all_input_nodes):
                    self.steps.append(node)
                    ready.add(node)
            waiting = [n for n in waiting if n not in ready]

    def _is_covered(self, node: Node) -> bool:
        """Whether an operator is in the table, and its tensors are of types that it takes."""
        row = TABLE.get(str(node.target))
        if row is None or node in self.refused:
            return False
        if str(node.target).startswith("aten.as_strided") and not _fills_its_storage(node.args[0]):
            return False
        metas = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
        tensors = [t for meta in metas for t in _tensors(meta)]
        return bool(tensors) and all(
            t.dtype in NAMES and t.layout is torch.strided and (row.complex or not t.is_complex())
            for t in tensors
        )

    def _piece(self, nodes: list[Node]) -> Piece:
        """Return the piece of some nodes: what it reads from outside, and what is read of it."""
        inside = set(nodes)
        inputs = dict.fromkeys(s for n in nodes for s in n.all_input_nodes if s not in inside)
        outputs = [
            n
            for n in nodes
            if any(u not in inside for u in n.users) and isinstance(n.meta.get("val"), torch.Tensor)
        ]
        return Piece(nodes, list(inputs), outputs)

    # -- running -----------------------------------------------------------------------------------

    def __call__(self, *args: Any) -> list[Any]:
        """Return the outputs of the graph for arguments that are tensors of torch and numbers."""
        while True:
            try:
                return self._run(args)
            except NodeError as failed:
                self.refused[failed.node] = str(failed)
                self._plan()

    def _run(self, args: Sequence[Any]) -> list[Any]:
        env: dict[Node, Any] = dict(zip(self.placeholders, args, strict=True))
        env.update(self.constants)
        with torch.no_grad():
            for step in self.steps:
                if isinstance(step, Piece):
                    self._run_piece(step, env)
                elif step in self.hosted:
                    env[step] = self._call_host(step, env)
                else:
                    env[step] = self._call_torch(step, env)
            outputs = self.output.args[0]
            assert isinstance(outputs, (list, tuple))
            return [env[o] if isinstance(o, Node) else o for o in outputs]

    def _call_torch(self, node: Node, env: dict[Node, Any]) -> Any:
        """Call an operator in torch."""
        args, kwargs = _substituted(node, env)
        target: Any = node.target
        result = target(*args, **kwargs)
        meta = node.meta.get("val")
        tensors = isinstance(result, torch.Tensor) and isinstance(meta, torch.Tensor)
        if tensors and all(isinstance(s, int) for s in meta.stride()):
            result = with_strides(result, meta)
        if isinstance(target, torch._ops.OpOverload):
            why = self.refused.get(node, "it is not in the table of operators")
            note_fallback(str(target), why)
        return result

    def _call_host(self, node: Node, env: dict[Node, Any]) -> Any:
        """Call a row that takes values; one that refuses these is left to torch from then on."""
        values = {n: env[n] for n in node.all_input_nodes}
        given = {n: from_torch(v) if isinstance(v, torch.Tensor) else v for n, v in values.items()}
        try:
            results = _run(node, given)
        except Exception as error:
            raise NodeError(node, f"{type(error).__name__}: {error}") from error
        meta = node.meta["val"]
        if isinstance(meta, torch.Tensor):
            found: Any = to_torch(results, _concrete(meta, results))
        else:
            used = {user.args[1] for user in node.users}
            for k, result in enumerate(results):
                if result is None and k in used:
                    raise NodeError(node, f"its result {k} is not computed")
            found = [
                None if r is None else to_torch(r, _concrete(m, r))
                for m, r in zip(meta, results, strict=True)
            ]
        note_compiled([str(node.target)])
        return found

    def _run_piece(self, piece: Piece, env: dict[Node, Any]) -> None:
        """Run a jitted function, and put its results into the environment as torch's tensors."""
        values = [env[n] for n in piece.inputs]
        given = [from_torch(v) if isinstance(v, torch.Tensor) else v for v in values]
        for node, result in zip(piece.outputs, piece.function(*given), strict=True):
            env[node] = to_torch(result, _concrete(node.meta["val"], result))
        note_compiled([str(n.target) for n in piece.nodes])


def _concrete(meta: torch.Tensor, result: Any) -> torch.Tensor:
    """Return a tensor that torch traced; of symbolic strides, those in its order."""
    if all(isinstance(s, int) for s in (*meta.shape, *meta.stride())):
        return meta
    order = sorted(range(meta.dim()), key=lambda k: -_hint(meta.stride(k)))
    strides, step = [0] * meta.dim(), 1
    for k in reversed(order):
        strides[k] = step
        step *= max(int(result.shape[k]), 1)
    return torch.empty_strided(
        [int(n) for n in result.shape], strides, dtype=meta.dtype, device="meta"
    )


def _hint(size: Any) -> int:
    """Return a symbolic number as it was in the example."""
    return size if isinstance(size, int) else int(size.node.hint or 0)


def _fills_its_storage(node: Any) -> bool:
    """Whether a tensor is all of its storage, in order: then strides of the storage are its own."""
    meta = node.meta["val"]
    whole = meta.untyped_storage().nbytes() == meta.numel() * meta.element_size()
    return bool(whole and meta.is_contiguous() and meta.storage_offset() == 0)


def _is_part_of(node: Node, compiled: set[Node]) -> bool:
    """Whether a node takes one of the results of an operator that is compiled."""
    source = node.args[0] if node.args else None
    return node.target is operator.getitem and isinstance(source, Node) and source in compiled


def _tensors(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a value that torch has traced."""
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in _tensors(item)]
    return [value] if isinstance(value, torch.Tensor) else []


def _substituted(node: Node, env: dict[Node, Any]) -> tuple[Any, Any]:
    """Return the arguments of a node with the values of other nodes."""
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: env[n])
    return args, kwargs


# -- inside of a trace -----------------------------------------------------------------------------


def _run(node: Node, env: dict[Node, Any]) -> Any:
    """Return the value of a node as tensors of Porism, in the types that torch gives them."""
    args, kwargs = _substituted(node, env)
    if node.target is operator.getitem:
        if args[0][args[1]] is None:
            source: Any = node.args[0]
            raise NodeError(source, f"its result {args[1]} is not computed")
        return args[0][args[1]]
    row = TABLE[str(node.target)]
    kwargs = {name: _as_option(value) for name, value in kwargs.items()}
    args = [_as_option(value) for value in args]
    if row.promoting:
        dtype = NAMES[_computation_dtype(node)]
        args = [_promoted(a, dtype) if isinstance(a, Tensor) else a for a in args]
    return _as_traced(row.run(*args, **kwargs), node.meta["val"])


def _promoted(x: Tensor, dtype: str) -> Tensor:
    """Return an operand in the type that torch computes in; complex ones of real results stay."""
    return x if x.dtype.kind == "c" and not dtype.startswith("complex") else x.astype(dtype)


def _as_option(value: Any) -> Any:
    """Return a type of torch as its name."""
    return NAMES.get(value, value) if isinstance(value, torch.dtype) else value


def _computation_dtype(node: Node) -> torch.dtype:
    """Return the type in which torch computes an elementwise operator."""
    result: torch.dtype = _tensors(node.meta["val"])[0].dtype
    if result is not torch.bool:
        return result
    operands = [a.meta["val"] if isinstance(a, Node) else a for a in node.args]
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


def _as_traced(value: Any, meta: Any) -> Any:
    """Return a value in the type that torch traced; refuse one of another shape."""
    if isinstance(meta, (list, tuple)):
        assert len(value) == len(meta), f"{len(value)} results in place of {len(meta)}"
        return [None if m is None else _as_traced(v, m) for v, m in zip(value, meta, strict=True)]
    if value is None or not isinstance(meta, torch.Tensor):
        return value
    static = all(isinstance(n, int) for n in meta.shape)
    assert not static or tuple(value.shape) == tuple(meta.shape), (
        f"a result of shape {tuple(value.shape)} in place of {tuple(meta.shape)}"
    )
    return value.astype(NAMES[meta.dtype])
