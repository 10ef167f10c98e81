"""Graph rewriting: rules applied to a whole graph, with a context, by a memoised rebuild.

`rewrite` visits each node once, sources first, makes it anew with its rewritten sources (through
the constructors, so that the construction-time algebra applies too) and tries the rules on it until
none fires. With `see_original=True` the rules are tried before the sources are rewritten, so that
they see the original graph; with `exactly=True` nodes are made exactly as stated, without the
algebra.

Rules that undo each other, or that put a node inside its own replacement, raise a `RewriteError`
with their names and a graph that reproduces the cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from porism.base.errors import RewriteError
from porism.base.settings import settings
from porism.ir.node import UOp, construct, construct_binary, key_of, raw
from porism.ir.node_collector import quiet_collector
from porism.ir.ops import Op
from porism.ir.text import serialization
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.rewrite.construction import Compiled, Tracer, record_in_process_trace
from porism.rewrite.rewrite_trace import Trace, process_trace
from porism.rewrite.rule import RuleSet
from porism.rewrite.rule_compiler import Flavour

Make = Callable[..., UOp]
LARGEST_REPRODUCER = 32
"""The most nodes of a graph that a message lists in full; it has room for so many lines."""
_LEAST_GRAPH_NODES = 16
"""The limit of rewrites is that of a graph of at least so many nodes; chosen by hand."""


def rewrite(
    root: UOp,
    rules: RuleSet,
    context: Any = None,
    *,
    see_original: bool = False,
    exactly: bool = False,
    trace: Trace | None = None,
    limit: int | None = None,
) -> UOp:
    """Return the graph with the rules applied wherever they fire.

    `limit` is the most rewrites per node of the graph before a `RewriteError`.
    """
    run = _Run(rules, context, exactly, trace, limit)
    with quiet_collector():
        return run.original(root) if see_original else run.rebuilt(root)


def normalize(root: UOp, trace: Trace | None = None) -> UOp:
    """Return the normal form of a graph under the construction-time rules."""
    return rewrite(root, _NO_RULES, trace=trace)


_NO_RULES = RuleSet("nothing")


class _Run:
    """One pass over one graph."""

    def __init__(
        self, rules: RuleSet, context: Any, exactly: bool, trace: Trace | None, limit: int | None
    ) -> None:
        self.rules = rules
        self.context = context
        self.exactly = exactly
        self.trace = trace
        self.limit = settings.rewrite_limit if limit is None else limit
        self.done: dict[UOp, UOp] = {}
        self.becomes: dict[UOp, UOp] = {}  # a node whose rewriting has begun -> its next form
        self.count = 0
        self.most = self.limit * _LEAST_GRAPH_NODES  # rewrites; raised by `_check_end`
        self.root: UOp | None = None
        self.compiled, self.make = self._compiled()

    def _compiled(self) -> tuple[Compiled, Make]:
        if self.trace is not None:
            tracer = Tracer(self.trace, _NO_RULES if self.exactly else None)
            make: Make = tracer.build
            names = {
                "construct_binary": tracer.construct_binary,
                "raw": raw,
                "record": tracer.record,
            }
            return Compiled(self.rules, _flavour(make, names, self.exactly, records=True)), make
        whole = process_trace()
        records = whole is not None
        if whole is not None:
            whole.rules_tried(self.rules)
        kind = ("exact" if self.exactly else "normal", records)
        make = raw if self.exactly else construct
        compiled = self.rules.compiled.get(kind)
        if compiled is None:
            two = _raw_binary if self.exactly else construct_binary
            names = {"construct_binary": two, "raw": raw, "record": record_in_process_trace}
            compiled = Compiled(self.rules, _flavour(make, names, self.exactly, records=records))
            self.rules.compiled[kind] = compiled
        return compiled, make

    def _apply(self, node: UOp) -> UOp | None:
        """Return the result of the first rule that fires on a node; None if none does."""
        function = self.compiled.lookup(node.op, node.dtype, node.src)
        if function is None:
            return None
        result: UOp | None = function(node, self.context)
        if result is None or result is node:
            return None
        self.count += 1
        if self.count > self.most:
            self._check_end(node)
        return result

    def _check_end(self, node: UOp) -> None:
        """Raise if there were too many rewrites for the size of the graph."""
        assert self.root is not None
        size = len(toposort(self.root))
        self.most = self.limit * max(size, _LEAST_GRAPH_NODES)
        if self.count > self.most:
            raise self._runaway(node, size)

    def _remake(self, node: UOp) -> UOp:
        """Return the node with its rewritten sources."""
        done = self.done
        src = tuple([done[s] for s in node.src])
        if src == node.src and (self.exactly or self._is_normal(node)):
            return node
        return self.make(node.op, node.dtype_given, src, node.arg)

    def _is_normal(self, node: UOp) -> bool:
        if self.trace:
            return False
        op = node.op
        if not op.raw and not node.uses_buffer:  # then all nodes of this op are in normal form
            return True
        key = key_of(op, node.dtype, node.src, node.arg) if op.keyed else node.src
        return op.nodes.get(key) is node

    def rebuilt(self, root: UOp) -> UOp:
        """Return the rewritten graph, sources first: rules see rewritten sources."""
        self.root = root
        done, remake, apply = self.done, self._remake, self._apply
        concerned: dict[Op, bool] = {}
        moved: set[UOp] = set()  # nodes that were replaced
        nothing_to_try = not len(self.rules)
        for node in toposort(root):
            if node in done:
                if done[node] is not node:
                    moved.add(node)
                continue
            kept = moved.isdisjoint(node.src) and (self.exactly or self._is_normal(node))
            after = node if kept else remake(node)
            if nothing_to_try:  # what the constructors make is final
                done[node] = done[after] = after
            else:
                if after is node:
                    op = node.op
                    concerns = concerned.get(op)
                    if concerns is None:
                        concerns = concerned[op] = self.compiled.concerns(op)
                    replacement = apply(node) if concerns else None
                    if replacement is None:
                        done[node] = node
                        continue
                    after = replacement
                self.becomes[node] = after
                after = done[node] = done[after] if after in done else self._finished(after)
            if after is not node:
                moved.add(node)
        return done[root]

    def _finished(self, root: UOp) -> UOp:
        """Return the final form of a node that a rule or a constructor has made."""
        done, becomes = self.done, self.becomes
        if root in becomes:
            raise self._circular(root)
        stack = [root]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            after = becomes.get(node)
            if after is not None:
                done[node] = done[after]
                continue
            waiting = [s for s in node.src if s not in done]
            if waiting:
                for s in waiting:
                    if s in becomes:
                        raise self._circular(s)
                stack += reversed(waiting)
                continue
            after = self._remake(node)
            if after is node:
                replacement = self._apply(node)
                if replacement is None:
                    done[node] = node
                    stack.pop()
                    continue
                after = replacement
            if after in becomes and after not in done:
                raise self._circular(after)
            becomes[node] = after
            stack.append(after)
        return done[root]

    def original(self, root: UOp) -> UOp:
        """Return the rewritten graph, users first: rules see original sources."""
        self.root = root
        done, becomes = self.done, self.becomes
        stack = [root]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            form = becomes.get(node)
            if form is None:
                form, seen = node, {node}
                while (replacement := self._apply(form)) is not None:
                    if replacement in seen:
                        raise self._circular(replacement)
                    seen.add(replacement)
                    form = replacement
                becomes[node] = form
            if form in done and form is not node:
                done[node] = done[form]
                continue
            waiting = [s for s in form.src if s not in done]
            if waiting:
                for s in waiting:
                    if s in becomes and s in stack:
                        raise self._circular(s)
                stack += reversed(waiting)
                continue
            done[node] = self._remake(form)
        return done[root]

    # -- errors ------------------------------------------------------------------------------------

    def _circular(self, node: UOp) -> RewriteError:
        return self._error(
            node,
            f"the rules of {self.rules.name!r} rewrite a node into itself",
            "a rule undoes another one, or puts the node inside its own replacement",
        )

    def _runaway(self, node: UOp, size: int) -> RewriteError:
        return self._error(
            node,
            f"the rules of {self.rules.name!r} do not come to an end",
            f"{self.count} rewrites of a graph of {size} nodes",
        )

    def _error(self, node: UOp, what: str, why: str) -> RewriteError:
        names = ", ".join(self._chain(node)) or "no rule by itself"
        small = len(toposort(node)) <= LARGEST_REPRODUCER
        graph = serialization.to_text(node).strip() if small else show(node, limit=400)
        return RewriteError(
            what,
            where=show(node, limit=200),
            why=f"{why}; rules involved: {names}",
            fix="let one side of each rule be simpler in the order that porism.rewrite.termination "
            f"states; to reproduce, rewrite this graph:\n{graph}",
        )

    def _chain(self, node: UOp, most: int = 64) -> list[str]:
        """Return the names of the rules that fire on a node and its next forms."""
        trace = Trace()
        names: dict[str, Any] = {
            "construct_binary": _raw_binary if self.exactly else construct_binary,
            "raw": raw,
        }

        def record(rule: str, *rest: Any) -> UOp:
            trace.record(rule, node, rest[-1])
            return rest[-1]  # type: ignore[no-any-return]

        names["record"] = record
        flavour = _flavour(self.make, names, self.exactly, records=True)
        compiled = Compiled(self.rules, flavour)
        pending, seen = [node], {node}
        while pending and len(trace.steps) < most:
            form = pending.pop()
            for part in (form, *form.src):
                function = compiled.lookup(part.op, part.dtype, part.src)
                next_form = function(part, self.context) if function is not None else None
                if next_form is not None and next_form not in seen:
                    seen.add(next_form)
                    pending.append(next_form)
        return sorted(trace.counts())


def _raw_binary(op: Any, a: UOp, b: UOp) -> UOp:
    return raw(op, None, (a, b), None)


def _flavour(make: Make, names: dict[str, Any], exactly: bool, *, records: bool) -> Flavour:
    return Flavour(
        "pass",
        "node, context",
        make,
        prelude="dtype, src, arg = node.dtype, node.src, node.arg",
        node="node",
        context="context",
        names=names,
        records=records,
        sorted_operands=not exactly,
    )
