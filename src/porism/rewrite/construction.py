"""Construction-time rules: the always-valid algebra, applied when a node is made.

`install(rules)` hands a rule set to the constructors in `porism.ir.node`: from then on `x + 0` *is*
x. The tables that intern nodes are thereby also the cache of rewriting: each normal form is
computed once.

A rule that fires makes nodes, on which rules fire, and so on, nested on Python's stack. Where the
nesting is too deep, `_StackConstructor` takes over: it runs the same rules as generators, on an
explicit stack.

`Tracer` applies the rules with a record of every step, and with a cache of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

from porism.base.dtypes import SLOTS, DType
from porism.ir import node as nodes
from porism.ir import ops
from porism.ir.construction_dispatch import rule_slot, source_signature
from porism.ir.node import UOp, construct, construct_binary, raw
from porism.ir.ops import Op
from porism.rewrite.commuted_patterns import SORTED_SLOTS
from porism.rewrite.rewrite_trace import Trace, process_trace, set_process_trace
from porism.rewrite.rule import Procedure, Rule, RuleSet
from porism.rewrite.rule_compiler import (
    Candidate,
    Flavour,
    candidates,
    compile_function,
    holds_in_slot,
)

Function = Callable[..., Any]

COMMUTE: Final = "commute"
"""The name in traces of the rewrite that sorts commutative operands."""


class Dispatch(dict[Any, Function | None]):
    """Source signature -> compiled rules, for one op and slot; filled when a signature is new."""

    def __init__(
        self, compiled: Compiled, op: Op, slot: int, rules: list[Rule | Procedure]
    ) -> None:
        super().__init__()
        self.compiled = compiled
        self.op = op
        self.slot = slot
        self.rules = rules
        self.candidates: tuple[Candidate, ...] | None = None
        self.sorts = op.commutative and slot in SORTED_SLOTS and compiled.flavour.sorted_operands

    def __missing__(self, signature: Any) -> Function | None:
        if self.candidates is None:
            ordered = self.compiled.flavour.sorted_operands
            self.candidates = candidates(self.rules, self.slot, sorted_operands=ordered)
        flat = signature if isinstance(signature, tuple) else (signature,)
        fitting = tuple(c for c in self.candidates if c.fits(flat))
        function = self.compiled.function(self.op, self.slot, fitting) if fitting else None
        self[signature] = function
        return function


class Compiled:
    """A rule set compiled to Python functions of one flavour, on demand."""

    def __init__(self, rules: RuleSet, flavour: Flavour) -> None:
        self.rules = rules
        self.flavour = flavour
        self._dispatch: dict[tuple[Op, int], Dispatch | None] = {}
        self._functions: dict[Any, Function] = {}
        self._concerned: dict[Op, bool] = {}
        self._by_op: dict[Op, list[Rule | Procedure]] = {}
        for item in rules:
            for op in item.ops if isinstance(item, Procedure) else (item.op,):
                self._by_op.setdefault(op, []).append(item)

    def concerns(self, op: Op) -> bool:
        """Return whether there are rules for nodes of an op, of any type."""
        concerned = self._concerned.get(op)
        if concerned is None:
            concerned = any(self.dispatch(op, slot) is not None for slot in range(SLOTS))
            self._concerned[op] = concerned
        return concerned

    def dispatch(self, op: Op, slot: int) -> Dispatch | None:
        """Return the compiled rules for an op on types of a slot; None if there are none."""
        key = (op, slot)
        if key not in self._dispatch:
            about = self._by_op.get(op, []) if slot else []
            on_slot = [item for item in about if holds_in_slot(item, slot)]
            new = Dispatch(self, op, slot, on_slot)
            self._dispatch[key] = new if on_slot or (new.sorts and len(self.rules)) else None
        return self._dispatch[key]

    def function(self, op: Op, slot: int, fitting: tuple[Candidate, ...]) -> Function:
        """Return the function that tries some candidates in order."""
        key = (op, slot, *map(id, fitting))
        function = self._functions.get(key)
        if function is None:
            function = self._functions[key] = compile_function(op, slot, fitting, self.flavour)
        return function

    def lookup(self, op: Op, dtype: DType, src: tuple[UOp, ...]) -> Function | None:
        """Return the function to try on a node with these sources; None if no rule can match."""
        slot = rule_slot(op, dtype, src)
        try:
            dispatch = self._dispatch[op, slot]
        except KeyError:
            dispatch = self.dispatch(op, slot)
        return None if dispatch is None else dispatch[source_signature(op, src)]


def construction_flavour() -> Flavour:
    """Return the flavour of functions that constructors call: they make nodes recursively."""
    names = {"construct_binary": construct_binary, "raw": raw, "record": record_in_process_trace}
    records = process_trace() is not None
    return Flavour("construct", "dtype, src, arg", construct, names=names, records=records)


def _generator_flavour() -> Flavour:
    """Return the flavour of generators, which yield the nodes that they need made."""
    names = {"raw": raw, "record": record_in_process_trace}
    records = process_trace() is not None
    return Flavour("deep", "dtype, src, arg", None, names=names, records=records)


_installed: RuleSet | None = None
_stack_constructor: _StackConstructor | None = None


def install(rules: RuleSet) -> RuleSet | None:
    """Apply these rules at construction from now on; return the rules installed before.

    Existing nodes stay valid, but may no longer be in normal form, so they leave the tables of
    normal forms.
    """
    global _installed, _stack_constructor
    compiled = Compiled(rules, construction_flavour())
    tables = {op: [compiled.dispatch(op, slot) for slot in range(SLOTS)] for op in ops.table()}
    with nodes.lock:
        for op, dispatch in tables.items():
            kept: dict[Any, UOp] = {}
            for key, node in list(op.nodes.items()):
                if nodes.is_exactly(node, op, key):
                    # nodes of schema types, in which rules are written, have no normal form
                    table = op.raw if node.dtype.slot else kept
                    table[key] = node
            op.nodes.clear()
            op.nodes.update(kept)
            op.rules[:] = dispatch
            op.has_rules = any(of_slot is not None for of_slot in dispatch)
        nodes.small_constants.clear()
        _stack_constructor = _StackConstructor(rules)
        nodes.construct_nested = _stack_constructor.build
        before, _installed = _installed, rules
    return before


def installed_rules() -> RuleSet:
    """Return the rules applied at construction."""
    return RuleSet("none") if _installed is None else _installed


# -- deep nesting ----------------------------------------------------------------------------------

Request = tuple[Op, DType | None, tuple[UOp, ...], Any]
Generated = Generator[Request, UOp, UOp | None]


class _StackConstructor:
    """Makes nodes in normal form as `construct` does, on an explicit stack."""

    def __init__(self, rules: RuleSet) -> None:
        self.compiled = Compiled(rules, _generator_flavour())

    def build(self, op: Op, dtype: DType | None, src: tuple[UOp, ...], arg: Any) -> UOp:
        """Return the normal form of a node."""
        running: list[tuple[Generated, Op, DType, tuple[UOp, ...], Any]] = []
        request: Request | None = (op, dtype, src, arg)
        value: UOp | None = None
        while True:
            if request is not None:
                op, dtype, src, arg = self._in_order(*request)
                value = self._known(op, dtype, src, arg)
                if value is None:
                    dtype = nodes.result_dtype(op, dtype, src, arg)
                    function = self.compiled.lookup(op, dtype, src)
                    if function is None:
                        value = _intern(op, dtype, src, arg)
                    else:
                        running.append((function(dtype, src, arg), op, dtype, src, arg))
            if not running:
                assert value is not None
                return value
            generator, op, dtype, src, arg = running[-1]
            try:
                request = generator.send(value)  # type: ignore[arg-type] # None starts it
                value = None
            except StopIteration as stop:
                running.pop()
                request, value = None, stop.value
                if value is None:
                    value = _intern(op, dtype, src, arg)
                elif not any(s.uses_buffer for s in src):
                    op.nodes[nodes.key_of(op, dtype, src, arg)] = value

    def _in_order(self, op: Op, dtype: Any, src: tuple[UOp, ...], arg: Any) -> Request:
        dispatch = (
            self.compiled.dispatch(op, rule_slot(op, src[0].dtype, src)) if op.commutative else None
        )
        if dispatch is not None and dispatch.sorts and nodes.comes_before(src[1], src[0]):
            src = (src[1], src[0])
        return op, dtype, src, arg

    def _known(self, op: Op, dtype: DType | None, src: tuple[UOp, ...], arg: Any) -> UOp | None:
        if op is ops.CONST:
            return construct(op, dtype, src, arg)
        if op.keyed:
            dtype = nodes.result_dtype(op, dtype, src, arg)
            return op.nodes.get(nodes.key_of(op, dtype, src, arg))
        return op.nodes.get(src)


def _intern(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp:
    return nodes.intern(op, nodes.key_of(op, dtype, src, arg), dtype, src, arg)


# -- tracing ---------------------------------------------------------------------------------------


def record_in_process_trace(
    rule: str, op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any, result: UOp
) -> UOp:
    """Record a rewrite in the trace of the process, if there is one; return its result."""
    trace = process_trace()
    if trace is not None:
        trace.record(rule, raw(op, None if op.elementwise else dtype, src, arg), result)
    return result


@contextmanager
def record_rewrites(trace: Trace) -> Iterator[Trace]:
    """Record every rewrite of the process in a trace: of passes, and of nodes that are new."""
    before = set_process_trace(trace)
    install(installed_rules())
    try:
        yield trace
    finally:
        set_process_trace(before)
        install(installed_rules())


class Tracer:
    """Makes nodes in normal form and records each rewrite, without the cache of interned nodes."""

    def __init__(self, trace: Trace, rules: RuleSet | None = None) -> None:
        self.trace = trace
        self.normal_forms: dict[UOp, UOp] = {}
        names = {"construct_binary": self.construct_binary, "raw": raw, "record": self.record}
        flavour = Flavour("traced", "dtype, src, arg", self.build, names=names, records=True)
        self.compiled = Compiled(installed_rules() if rules is None else rules, flavour)

    def build(self, op: Op, dtype: DType | None, src: tuple[UOp, ...], arg: Any = None) -> UOp:
        exact = raw(op, dtype, src, arg)
        normal = self.normal_forms.get(exact)
        if normal is None:
            normal = self.normal_forms[exact] = self._normal(exact)
        return normal

    def _normal(self, exact: UOp) -> UOp:
        op, dtype, src, arg = exact.op, exact.dtype, exact.src, exact.arg
        dispatch = self.compiled.dispatch(op, rule_slot(op, dtype, src))
        if dispatch is None:
            return exact
        if dispatch.sorts and nodes.comes_before(src[1], src[0]):
            swapped = raw(op, None, (src[1], src[0]), arg)
            self.trace.record(COMMUTE, exact, swapped)
            return self.build(op, None, swapped.src, arg)
        function = dispatch[source_signature(op, src)]
        result = None if function is None else function(dtype, src, arg)
        return exact if result is None else result

    def construct_binary(self, op: Op, a: UOp, b: UOp) -> UOp:
        return self.build(op, None, (a, b), None)

    def record(
        self, rule: str, op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any, result: UOp
    ) -> UOp:
        self.trace.record(rule, raw(op, None if op.elementwise else dtype, src, arg), result)
        return result
