"""Rule compiler: rules as generated Python functions, one for each set of rules that can match.

The rules for a node are selected by its *signature*: its op, its type's slot and the ops of its
sources. Most signatures have no rule at all, and cost no call; for the others a function is
generated that tests only what the signature leaves open. The text of each function is kept for
tracebacks.

    rule     x % c0 -> x  when (lo(x) >= 0) & (hi(x) < c0)
    becomes  if (s0.vmin >= 0) and (s0.vmax < s1.arg):
                 return s0  # mod-small
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from porism.base.dtypes import DType, Kind, Theory, boolean, f32
from porism.base.errors import RuleError
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import ANY_NUMBER, Op
from porism.ir.text.argument_text import nan_to_text
from porism.ir.text.expression import show
from porism.ir.traversal import substitute, toposort
from porism.rewrite import terms
from porism.rewrite.commuted_patterns import sort_operands, variants
from porism.rewrite.rule import Procedure, Rule

THEORY_OF_SLOT: Final = (
    None,
    Theory.INTEGERS,
    Theory.FIXED_WIDTH,
    Theory.FLOATS,
    Theory.BOOLEANS,
    Theory.STRUCTURE,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rule in one order of operands, or a procedure."""

    item: Rule | Procedure
    before: UOp | None  # None for a procedure
    wanted: tuple[Op | None, ...] = ()  # the ops of its sources; None where any op matches

    def fits(self, signature: tuple[Op | bool | None, ...]) -> bool:
        """Return whether it can match a node with this source signature."""
        if self.before is None:
            assert isinstance(self.item, Procedure)
            only = self.item.only
            return only is None or only(tuple(s for s in signature if not isinstance(s, bool)))
        for wanted, op in zip(self.wanted, signature, strict=False):
            if wanted is not None and wanted is not op:
                return False
        src = self.before.src
        return len(src) != 2 or src[0] is not src[1] or True in signature


def holds_in_slot(item: Rule | Procedure, slot: int) -> bool:
    """Return whether a rule or procedure is about nodes on types of a slot."""
    theory = THEORY_OF_SLOT[slot]
    if theory in item.theories or Theory.STRUCTURE in item.theories:
        return True
    return theory is Theory.BOOLEANS and is_logic_on_values(item)


def candidates(
    rules: Iterable[Rule | Procedure], slot: int, *, sorted_operands: bool
) -> tuple[Candidate, ...]:
    """Return the rules and procedures in every order of operands that occurs in a slot."""
    chosen: list[Candidate] = []
    for item in rules:
        if isinstance(item, Procedure):
            chosen.append(Candidate(item, None))
        else:
            seen = set()
            for before in variants(item.before, slot, sorted_operands=sorted_operands):
                shape = _up_to_names(before, item.when)
                if shape not in seen:
                    seen.add(shape)
                    wanted = tuple([_required(s) for s in before.src])
                    chosen.append(Candidate(item, before, wanted))
    return tuple(chosen)


def is_logic_on_values(item: Rule | Procedure) -> bool:
    """Return whether a rule is on conditions over values of other theories: `x < c0 & x < c1`.

    It is dispatched as a rule on booleans; the match tests that the values are of its theories.
    """
    if not isinstance(item, Rule) or item.op.group is ops.COMPARISON:
        return False
    if item.before.dtype is not terms.B or item.theories == (Theory.BOOLEANS,):
        return False
    return any(node.dtype is terms.T for node in toposort(item.before))


def _up_to_names(before: UOp, when: UOp | None) -> tuple[UOp, UOp | None]:
    """Return a pattern and its guard with the holes renamed in order of occurrence."""
    order = [node for node in toposort(before) if node.op is ops.HOLE]
    new = {
        hole: terms.hole(f"{'c' if terms.is_constant_hole(hole) else 'h'}{i}", hole.dtype)
        for i, hole in enumerate(order)
    }
    renamed = None if when is None else substitute(when, new, exactly=True)
    return substitute(before, new, exactly=True), renamed


def _required(pattern: UOp) -> Op | None:
    if pattern.op is ops.HOLE:
        return ops.CONST if terms.is_constant_hole(pattern) else None
    return pattern.op


@dataclass
class Flavour:
    """A kind of generated functions: how they are called, and how they make nodes."""

    name: str
    parameters: str  # of the generated function
    make: Callable[..., UOp] | None  # (op, dtype, src, arg) -> node; None: yield the request
    prelude: str = ""
    node: str = "raw(OP, dtype, src, arg)"  # the node that is being rewritten
    context: str = "None"
    names: dict[str, Any] = field(default_factory=dict)  # globals of the functions
    records: bool = False
    sorted_operands: bool = True


class _Writer:
    """Writes the text of the function for a list of candidates."""

    def __init__(self, op: Op, slot: int, flavour: Flavour) -> None:
        self.op = op
        self.slot = slot
        self.flavour = flavour
        self.names: dict[str, Any] = {}
        self.lines: list[str] = []
        self.hoisted: set[str] = set()
        self.conditions: list[str] = []

    def write(self, chosen: tuple[Candidate, ...]) -> str:
        """Return the text of a function that tries the candidates in order."""
        title = "_".join([self.op.name.lower(), self.flavour.name])
        self.lines = [f"def {title}({self.flavour.parameters}):"]
        if self.flavour.prelude:
            self.lines.append(f"    {self.flavour.prelude}")
        widest = max((len(c.before.src) for c in chosen if c.before is not None), default=0)
        if widest and self.op.arity != ANY_NUMBER:
            self.lines.append(f"    {_unpack(self._source_names(widest))} = src")
        for candidate in chosen:
            if isinstance(candidate.item, Procedure):
                self._procedure(candidate.item)
            else:
                self._rule(candidate)
        if self.flavour.make is None:
            self.lines += ["    return None", "    yield"]
        else:
            self.lines.append("    return None")
        return "\n".join(self.lines) + "\n"

    def _source_names(self, count: int) -> list[str]:
        return [f"s{i}" for i in range(count)]

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _name(self, prefix: str, value: Any) -> str:
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def _op(self, op: Op) -> str:
        self.names[op.name] = op
        return op.name

    # -- procedures --------------------------------------------------------------------------------

    def _procedure(self, item: Procedure) -> None:
        function = self._name("procedure_", item.function)
        if item.on_sources:
            call = f"{function}(OP, dtype, src, arg)"
        elif item.with_context:
            call = f"{function}({self.flavour.node}, {self.flavour.context})"
        else:
            call = f"{function}({self.flavour.node})"
        self._line(1, f"result = {call}  # {item.name}")
        self._line(1, "if result is not None:")
        self._line(2, self._result(item.name, "result"))

    def _result(self, name: str, text: str) -> str:
        if self.flavour.records:
            return f"return record({name!r}, OP, dtype, src, arg, {text})"
        return f"return {text}  # {name}"

    # -- rules -------------------------------------------------------------------------------------

    def _rule(self, candidate: Candidate) -> None:
        rule = candidate.item
        assert isinstance(rule, Rule)
        assert candidate.before is not None
        match = _Match(self, candidate.before)
        depth = 1
        if self.op.arity == ANY_NUMBER:
            count = len(candidate.before.src)
            self._line(depth, f"if len(src) == {count}:")
            depth += 1
            if count:
                self._line(depth, f"{_unpack(self._source_names(count))} = src")
        for kind, text in match.steps(rule):
            if kind == "hoist":
                if text not in self.hoisted and depth == 1:
                    self.hoisted.add(text)
                    self._line(depth, text)
                elif text not in self.hoisted:
                    self._line(depth, text)
            elif kind == "bind":
                self._line(depth, text)
            else:
                self._line(depth, f"if {text}:")
                depth += 1
        self._line(depth, self._result(rule.name, match.build(rule.after)))


class _Match:
    """The tests and bindings of one pattern, and the text that builds the right side."""

    def __init__(self, writer: _Writer, before: UOp) -> None:
        self.writer = writer
        self.before = before
        self.bound: dict[UOp, str] = {}
        self.sorts: dict[DType, str] = {}
        if before.dtype.element.kind is Kind.SCHEMA:
            self.sorts[before.dtype] = "dtype"

    def steps(self, rule: Rule) -> Iterator[tuple[str, str]]:
        """Yield tests and bindings as (kind, Python text), in order."""
        if self.before.arg is not None:
            yield "test", f"arg == {self.writer._name('argument_', self.before.arg)}"
        later: list[tuple[UOp, str]] = []
        for i, pattern in enumerate(self.before.src):
            yield from self._match(pattern, f"s{i}", True, later, self.before.op)
        while later:
            pattern, name = later.pop(0)
            names = [f"{name}_{i}" for i in range(len(pattern.src))]
            yield ("hoist" if "_" not in name else "bind"), f"{_unpack(names)} = {name}.src"
            for s, inner in zip(pattern.src, names, strict=True):
                yield from self._match(s, inner, False, later, pattern.op)
        guards: list[str] = []
        if is_logic_on_values(rule):
            theories = self.writer._name("theories_", rule.theories)
            guards.append(f"{self.sorts[terms.T]}.theory in {theories}")
        for part in terms.conjuncts(rule.when):
            guards += self._condition(part)
        for part in terms.values_of(rule.after):
            guards += self._safety(part, under_comparison=False)
        guards = list(dict.fromkeys(guards))
        if guards:
            yield "test", " and ".join(guards)

    def _match(
        self, pattern: UOp, name: str, known: bool, later: list[tuple[UOp, str]], parent: Op
    ) -> Iterator[tuple[str, str]]:
        required = _required(pattern)
        if required is not None and (not known or self.writer.op.arity == ANY_NUMBER):
            yield "test", f"{name}.op is {self.writer._op(required)}"
        yield from self._match_sort(pattern, name, parent)
        if pattern.op is ops.HOLE:
            if pattern in self.bound:
                yield "test", f"{name} is {self.bound[pattern]}"
            else:
                self.bound[pattern] = name
        elif pattern.op is ops.CONST:
            yield "test", self._literal(pattern, name)
        else:
            if pattern.op.arity == ANY_NUMBER:
                yield "test", f"len({name}.src) == {len(pattern.src)}"
            if pattern.arg is not None:
                yield "test", f"{name}.arg == {self.writer._name('argument_', pattern.arg)}"
            self.bound.setdefault(pattern, name)
            if pattern.src:
                later.append((pattern, name))

    def _match_sort(self, pattern: UOp, name: str, parent: Op) -> Iterator[tuple[str, str]]:
        """Bind the type that a schema type stands for; test it where typing does not imply it."""
        sort = pattern.dtype
        if sort not in self.sorts:
            self.sorts[sort] = f"{name}.dtype"
        elif parent is ops.CAST or pattern.op is ops.CAST:
            yield "test", f"{name}.dtype is {self.sorts[sort]}"

    def _literal(self, pattern: UOp, name: str) -> str:
        value = pattern.arg
        if self.writer.slot == f32.slot and value == 0 and pattern.dtype is terms.T:
            sign = math.copysign(1.0, value)
            return f"{name}.arg == 0 and copysign(1.0, {name}.arg) == {sign}"
        return f"{name}.arg == {_python(value)}"

    # -- guards ------------------------------------------------------------------------------------

    def _condition(self, part: UOp) -> list[str]:
        """Return a conjunct as Python text, after the tests that make it safe to compute."""
        return [*self._safety(part, under_comparison=True), self.value(part)]

    def _safety(self, term: UOp, *, under_comparison: bool) -> list[str]:
        """Return tests that divisors are not zero and bounds used in arithmetic are finite."""
        tests: list[str] = []
        stack = [(term, under_comparison)]
        while stack:
            node, compared = stack.pop()
            if node.op is ops.FACT:
                fact = terms.FACTS[node.arg]
                if not fact.truth and not compared:
                    tests.append(f"{self.value(node)}.__class__ is int")
                if not fact.on_nodes:
                    stack += [(s, False) for s in node.src]
                continue
            if node.op in (ops.IDIV, ops.MOD):
                tests.append(f"{self.value(node.src[1])} != 0")
            elif node.op in (ops.SHL, ops.SHR):
                tests.append(f"0 <= {self.value(node.src[1])} < 4096")
            inner = node.op.group is ops.COMPARISON or node.dtype is terms.B
            stack += [(s, inner) for s in node.src]
        return list(reversed(tests))

    def value(self, term: UOp) -> str:
        """Return the Python text of a number or condition known when the rule fires."""
        if term.op is ops.HOLE:
            return f"{self.bound[term]}.arg"
        if term.op is ops.CONST:
            return _python(term.arg)
        if term.op is ops.FACT:
            fact = terms.FACTS[term.arg]
            inner = [self._node(s) if fact.on_nodes else self.value(s) for s in term.src]
            return f"({fact.python.format(*inner)})" if fact.truth else fact.python.format(*inner)
        on_truths = term.dtype is terms.B or self.writer.slot == boolean.slot
        if on_truths and term.op in _LOGICAL:
            return _LOGICAL[term.op].format(*[self.value(s) for s in term.src])
        template = terms.VALUE_OPS.get(term.op)
        if template is None:
            raise RuleError(
                f"{term.op.name} cannot be computed on constants in a rule",
                where=show(term, limit=200),
                fix="known: " + ", ".join(op.name for op in terms.VALUE_OPS),
            )
        return template.format(*[self.value(s) for s in term.src])

    def _node(self, term: UOp) -> str:
        """Return the name of the node that a part of the left side matched, in any order."""
        bound = self.bound.get(term)
        if bound is None:
            wanted = sort_operands(term)
            bound = next(name for part, name in self.bound.items() if sort_operands(part) is wanted)
        return bound

    # -- the right side ----------------------------------------------------------------------------

    def build(self, term: UOp) -> str:
        """Return the Python text that makes a term's node."""
        if term in self.bound:
            return self.bound[term]
        if terms.is_value(term):
            return f"const({self._sort(term.dtype)}, {self.value(term)})"
        src = [self.build(s) for s in term.src]
        flavour = self.writer.flavour
        op = self.writer._op(term.op)
        inner = ", ".join(src) + ("," if len(src) == 1 else "")
        given = "None" if term.op.elementwise else self._sort(term.dtype)
        arg = "None" if term.arg is None else self.writer._name("argument_", term.arg)
        if flavour.make is None:
            return f"(yield ({op}, {given}, ({inner}), {arg}))"
        if len(src) == 2 and term.op.elementwise:
            return f"construct_binary({op}, {inner})"
        return f"make({op}, {given}, ({inner}), {arg})"

    def _sort(self, dtype: DType) -> str:
        sort = self.sorts.get(dtype)
        if sort is not None:
            return sort
        if dtype is terms.B and terms.T in self.sorts:
            return f"{self.sorts[terms.T]}.mask"
        return "None"


_LOGICAL: Final = {
    ops.AND: "({0} and {1})",
    ops.OR: "({0} or {1})",
    ops.NOT: "(not {0})",
    ops.XOR: "({0} != {1})",
}


def _unpack(names: list[str]) -> str:
    return ", ".join(names) + ("," if len(names) == 1 else "")


def _python(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return nan_to_text(value) if value != value else ("inf" if value > 0 else "-inf")
    return repr(value)


_compiled_functions = 0


def compile_function(
    op: Op, slot: int, chosen: tuple[Candidate, ...], flavour: Flavour
) -> Callable[..., Any]:
    """Return the function that tries these candidates in order on a node of an op."""
    global _compiled_functions
    writer = _Writer(op, slot, flavour)
    text = writer.write(chosen)
    _compiled_functions += 1
    filename = f"<porism rules {op.name.lower()} {flavour.name} {_compiled_functions}>"
    names: dict[str, Any] = {
        "OP": op,
        "CONST": ops.CONST,
        "SIGNED": Kind.SIGNED,
        "copysign": math.copysign,
        "inf": math.inf,
        "nan": math.nan,
        "const": UOp.const,
        "make": flavour.make,
        **flavour.names,
        **writer.names,
    }
    exec(compile(text, filename, "exec"), names)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    function: Callable[..., Any] = names[text[4 : text.index("(")]]
    return function
