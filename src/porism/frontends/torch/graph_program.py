"""Graph program: a graph of ATen operators as pieces that Porism compiles, and calls of torch.

Nodes are taken in an order in which they can run. All that can be compiled at some point becomes
one compiled piece; operators that take values, such as factorizations by LAPACK, are called
between such pieces; what cannot be compiled, or fails to be, is called in torch, one operator at
a time, and noted in the report. Symbolic sizes are computed from those of the arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

from porism.base.dtypes import index
from porism.engine.run.buffer_storage import new_placeholder
from porism.frontends.torch.aten.aten_table import TABLE
from porism.frontends.torch.compiled_piece import CompiledPiece, SymbolError
from porism.frontends.torch.fallback_report import CompiledNames, report
from porism.frontends.torch.graph_sizes import NO_SIZES, CallSizes, GraphSizes
from porism.frontends.torch.node_tracing import (
    NodeError,
    expression_of,
    run_node,
    substituted,
    tensors_in,
    traced_sizes,
)
from porism.frontends.torch.size_expressions import (
    UnknownSizeError,
    evaluate_expression,
    symbols_of,
)
from porism.frontends.torch.torch_memory import (
    NAMES,
    from_torch,
    hint,
    strides_in_order,
    to_torch,
    with_strides,
)
from porism.ir.node import UOp
from porism.tensor.promotion import as_dtype
from porism.tensor.tensor import Tensor

VIEWS: Final = frozenset(
    f"aten.{name}"
    for name in (
        *("_reshape_alias.default", "alias.default", "as_strided.default", "detach.default"),
        *("diagonal.default", "expand.default", "permute.default", "select.int", "slice.Tensor"),
        *("split.Tensor", "split_with_sizes.default", "squeeze.default", "squeeze.dim"),
        *("squeeze.dims", "t.default", "transpose.int", "unbind.int", "unfold.default"),
        *("unsqueeze.default", "view.default", "view.dtype"),
    )
)
"""Operators whose results are views of their first argument, which torch makes at once.

Where a graph returns a view of an argument, torch reads its offset in memory off the result.
"""


class GraphProgram:
    """A graph of ATen operators as a callable on tensors of torch."""

    def __init__(self, module: GraphModule) -> None:
        self.module = module
        self.placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        (self.output,) = (n for n in module.graph.nodes if n.op == "output")
        self.constants = {
            n: getattr(module, str(n.target)) for n in module.graph.nodes if n.op == "get_attr"
        }
        self.sizes = GraphSizes.of_graph(self.placeholders)
        self.refused: dict[Node, str] = {}
        self.hosted: dict[Node, CompiledNames] = {}
        self.steps: list[CompiledPiece | Node] = []
        self.views: set[Node] = set()
        """Nodes that torch computes since they are views of what is there."""
        self.numbers: dict[Node, Any] = {}
        """The nodes that are sizes, with the expression of each."""
        self._plan()

    # -- planning ----------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Cut the graph into pieces and single nodes, in an order in which they can run."""
        calls = [n for n in self.module.graph.nodes if n.op == "call_function"]
        self.numbers = {n: n.meta["val"].node.expr for n in calls if self._is_size(n)}
        covered = {n for n in calls if self._is_covered(n)}
        self.hosted = {
            n: CompiledNames([str(n.target)]) for n in covered if TABLE[str(n.target)].host
        }
        compiled = covered - self.hosted.keys()
        compiled |= {n for n in calls if _is_part_of(n, compiled)}
        ready = {*self.placeholders, *self.constants, *self.numbers}
        waiting = [n for n in calls if n not in ready]
        self.steps = []
        self.views = set()
        while waiting:
            taken: list[Node] = []
            for node in waiting:
                if node in compiled and all(s in ready for s in node.all_input_nodes):
                    taken.append(node)
                    ready.add(node)
            if taken:
                self._add_piece(taken)
            others = [n for n in waiting if n not in ready]
            for node in others:
                if node not in compiled and all(s in ready for s in node.all_input_nodes):
                    self.steps.append(node)
                    ready.add(node)
            waiting = [n for n in waiting if n not in ready]

    def _is_size(self, node: Node) -> bool:
        """Whether a node is a whole number that follows from the symbols of the graph."""
        meta = node.meta.get("val")
        if not isinstance(meta, torch.SymInt) or not self.sizes.knows([meta.node.expr]):
            return False
        try:
            evaluate_expression(meta.node.expr, dict.fromkeys(self.sizes.sources, 2))
        except UnknownSizeError:
            return False
        return True

    def _is_covered(self, node: Node) -> bool:
        """Whether an operator is in the table, and its tensors are of types that it takes."""
        row = TABLE.get(str(node.target))
        if row is None or node in self.refused:
            return False
        if str(node.target).startswith("aten.as_strided") and not _fills_its_storage(node.args[0]):
            return False
        metas = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
        tensors = [t for meta in metas for t in tensors_in(meta)]
        return bool(tensors) and all(
            t.dtype in NAMES
            and t.layout is torch.strided
            and t.device.type == "cpu"
            and (row.complex or not t.is_complex())
            for t in tensors
        )

    def _add_piece(self, nodes: list[Node]) -> None:
        """Add the piece of some nodes; views of its inputs and its outputs are made by torch."""
        inside = set(nodes)
        outputs = [
            n
            for n in nodes
            if any(u not in inside for u in n.users) and isinstance(n.meta.get("val"), torch.Tensor)
        ]
        made: dict[Node, None] = {}
        wanted = set(outputs)
        for node in outputs:
            chain = _view_chain(node, inside, wanted)
            made.update(dict.fromkeys(chain))
        outputs = [n for n in outputs if n not in made]
        needed = _needed(outputs, inside)
        computed = [n for n in nodes if n in needed]
        if computed:
            inputs = dict.fromkeys(
                s for n in computed for s in n.all_input_nodes if s not in needed
            )
            self.steps.append(CompiledPiece(computed, list(inputs), outputs, self.sizes))
        views = [n for n in nodes if n in made]
        self.steps += views
        self.views.update(views)

    # -- running -----------------------------------------------------------------------------------

    def __call__(self, *args: Any) -> list[Any]:
        """Return the outputs of the graph for arguments that are tensors of torch and numbers."""
        while True:
            try:
                return self._run(args)
            except NodeError as failed:
                if not self._make_static(failed.node, str(failed), args):
                    self.refused[failed.node] = str(failed)
                    self._plan()
            except SymbolError as failed:
                report().note_static_size("a graph", str(failed))
                self.sizes.make_static(failed.symbols)

    def _run(self, args: Sequence[Any]) -> list[Any]:
        env: dict[Node, Any] = dict(zip(self.placeholders, args, strict=True))
        env.update(self.constants)
        call = self.sizes.of_call(args) if self.sizes.sources else NO_SIZES
        for node, expression in self.numbers.items():
            env[node] = evaluate_expression(expression, call.values)
        with torch.no_grad():
            for step in self.steps:
                if isinstance(step, CompiledPiece):
                    step.run(env, call)
                elif step in self.views:
                    env[step] = _view(step, env)
                elif step in self.hosted:
                    env[step] = self._call_host(step, env)
                else:
                    env[step] = self._call_torch(step, env)
            outputs = self.output.args[0]
            assert isinstance(outputs, (list, tuple))
            return [env[o] if isinstance(o, Node) else o for o in outputs]

    def _call_torch(self, node: Node, env: dict[Node, Any]) -> Any:
        """Call an operator in torch."""
        args, kwargs = substituted(node, env)
        target: Any = node.target
        result = target(*args, **kwargs)
        meta = node.meta.get("val")
        tensors = isinstance(result, torch.Tensor) and isinstance(meta, torch.Tensor)
        if meta is not None and tensors and all(isinstance(s, int) for s in meta.stride()):
            result = with_strides(result, meta)
        if isinstance(target, torch._ops.OpOverload):
            why = self.refused.get(node, "it is not in the table of operators")
            report().note_fallback(str(target), why)
        return result

    def _call_host(self, node: Node, env: dict[Node, Any]) -> Any:
        """Call a row that takes values; one that refuses these is left to torch from then on."""
        values = {n: env[n] for n in node.all_input_nodes}
        given = {n: from_torch(v) if isinstance(v, torch.Tensor) else v for n, v in values.items()}
        try:
            results = run_node(node, given, {})
        except Exception as error:
            raise NodeError(node, f"{type(error).__name__}: {error}") from error
        meta = node.meta["val"]
        if isinstance(meta, torch.Tensor):
            found: Any = _like_traced(results, meta)
        else:
            used = {user.args[1] for user in node.users}
            for k, result in enumerate(results):
                if result is None and k in used:
                    raise NodeError(node, f"its result {k} is not computed")
            found = [
                None if r is None else _like_traced(r, m)
                for m, r in zip(meta, results, strict=True)
            ]
        report().note_run(self.hosted[node])
        return found

    # -- sizes that cannot be symbolic -------------------------------------------------------------

    def _make_static(self, node: Node, why: str, args: Sequence[Any]) -> bool:
        """Make the sizes static with which an operator cannot be traced; return whether it can."""
        metas = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
        sizes = [expression_of(n) for m in metas for t in tensors_in(m) for n in t.shape]
        sizes += [m.node.expr for m in metas if isinstance(m, torch.SymInt)]
        symbols = [s for s in self.sizes.variables if s in symbols_of(sizes)]
        if not symbols:
            return False
        call = self.sizes.of_call(args)
        for static in (*([s] for s in symbols), symbols):
            if self._is_traceable(node, static, call):
                report().note_static_size(str(node.target), why)
                self.sizes.make_static(static)
                return True
        return False

    def _is_traceable(self, node: Node, static: Sequence[Any], call: CallSizes) -> bool:
        """Whether an operator can be traced if some symbols are static."""
        bound = self.sizes.bound(call.values)
        symbols = {s: call.values[s] if s in static else dim for s, dim in bound.items()}
        try:
            env = {n: _placeholder(n.meta["val"], symbols) for n in node.all_input_nodes}
            run_node(node, env, symbols)
        except Exception:  # whatever it is: the trace would fail with it
            return False
        return True


def _placeholder(meta: Any, symbols: dict[Any, Any]) -> Any:
    """Return what stands for a value in a trace of one operator."""
    if isinstance(meta, (list, tuple)):
        return [_placeholder(item, symbols) for item in meta]
    if isinstance(meta, torch.SymInt):
        return evaluate_expression(meta.node.expr, symbols)
    if not isinstance(meta, torch.Tensor) or meta.is_complex():
        raise UnknownSizeError("no tensor, or a complex one")
    dims = [UOp.const(index, n) if isinstance(n, int) else n for n in traced_sizes(meta, symbols)]
    return Tensor(new_placeholder(as_dtype(NAMES[meta.dtype]), tuple(dims)))


def _view(node: Node, env: dict[Node, Any]) -> Any:
    """Return a view of a tensor."""
    args, kwargs = substituted(node, env)
    target: Any = node.target
    try:
        return target(*args, **kwargs)
    except RuntimeError:  # its elements lie in memory otherwise than torch saw when it traced
        return target(args[0].contiguous(), *args[1:], **kwargs)


def _view_chain(node: Node, inside: set[Node], outputs: set[Node]) -> list[Node]:
    """Return the views by which a node is made of one that is there in any case; else nothing."""
    chain: list[Node] = []
    while node in inside:
        source = node.args[0] if node.args else None
        name = str(node.target)
        if node.target is operator.getitem and isinstance(source, Node):
            name = str(source.target)
        is_view = name in VIEWS
        if chain and node in outputs and not is_view:
            return chain
        if not is_view or not isinstance(source, Node):
            return []
        chain.append(node)
        node = source
    return chain


def _needed(outputs: Sequence[Node], inside: set[Node]) -> set[Node]:
    """Return the nodes inside of a piece that its outputs depend on."""
    needed: set[Node] = set()
    pending = list(outputs)
    while pending:
        node = pending.pop()
        if node in inside and node not in needed:
            needed.add(node)
            pending += node.all_input_nodes
    return needed


def _like_traced(result: Any, meta: torch.Tensor) -> torch.Tensor:
    """Return a computed tensor as torch's, with the strides that it traced."""
    found = to_torch(result, meta.dtype)
    strides: Sequence[Any] = meta.stride()
    if not all(isinstance(s, int) for s in strides):
        order = sorted(range(meta.dim()), key=lambda k: -hint(meta.stride(k)))
        strides = strides_in_order(list(found.shape), order)
    sizes = list(found.shape)
    return with_strides(found, torch.empty_strided(sizes, list(strides), device="meta"))


def _fills_its_storage(node: Any) -> bool:
    """Whether a tensor is all of its storage, in order: then strides of the storage are its own."""
    meta = node.meta["val"]
    whole = meta.untyped_storage().nbytes() == meta.numel() * meta.element_size()
    return bool(whole and meta.is_contiguous() and meta.storage_offset() == 0)


def _is_part_of(node: Node, compiled: set[Node]) -> bool:
    """Whether a node takes one of the results of an operator that is compiled."""
    source = node.args[0] if node.args else None
    return node.target is operator.getitem and isinstance(source, Node) and source in compiled
