"""Rule terms: the semantics of a rule's sides and guard, in any arithmetic.

The left side consists of nodes. On the right side and in the guard, a term of constants alone is a
number that Python computes when the rule fires. If it cannot be computed (a division by zero, say),
the rule does not fire.

A term is *defined* where it has a value. Most ops need all their operands; WHERE needs only the
selected one, and `false & x` is false whatever x is. A hole may stand for a node without a value,
so that a rule is refuted if its right side uses an operand where the left side does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.prove.arithmetic.op_meanings import (
    DIVISIONS,
    LARGEST_SHIFT,
    Arithmetic,
    Truth,
    Unsupported,
    Value,
)
from porism.rewrite import terms
from porism.rewrite.rule import Rule

DEFINED = "defined "
"""Prefix of the name of the unknown that states whether a hole is defined."""


class RuleSemantics:
    """The semantics of one rule, with an arithmetic for each of its types."""

    def __init__(self, rule: Rule, types: Mapping[DType, Arithmetic]) -> None:
        self.rule = rule
        self.types = dict(types)
        self.logic = self.types[terms.B]
        self.lazy = is_lazy(rule)
        self._values: dict[tuple[UOp, bool], Value] = {}
        self._defined: dict[tuple[UOp, bool], Truth] = {}
        self._facts: dict[UOp, Value] = {}
        self.choices: dict[UOp, Sequence[Truth]] = {}  # made where several results are right

    def arithmetic(self, term: UOp) -> Arithmetic:
        """Return the arithmetic of a term's type; for a fact, that of its argument's type."""
        if term.op is ops.FACT and not terms.FACTS[term.arg].truth:
            return self.arithmetic(term.src[0])
        arithmetic = self.types.get(term.dtype)
        if arithmetic is None:
            raise Unsupported(f"the type {term.dtype}")
        return arithmetic

    # -- values of nodes ---------------------------------------------------------------------------

    def before(self) -> Value:
        return self.value(self.rule.before, computed=False)

    def after(self) -> Value:
        return self.value(self.rule.after, computed=True)

    def value(self, term: UOp, *, computed: bool) -> Value:
        """Return the value of a term; with `computed`, terms of constants are constants."""
        key = (term, computed)
        if key not in self._values:
            self._values[key] = self._value(term, computed)
        return self._values[key]

    def _value(self, term: UOp, computed: bool) -> Value:
        kind = self.arithmetic(term)
        if term.op is ops.HOLE:
            return kind.hole(term.arg) if not computed else self.value(term, computed=False)
        if term.op is ops.CONST:
            return kind.literal(term.arg)
        if computed and terms.is_value(term):
            return self._constant(term)
        if computed and (term, False) in self._values:
            return self._values[term, False]
        operands = [self.value(s, computed=computed) for s in term.src]
        if term.op is ops.CAST:
            return kind.cast(operands[0], self.arithmetic(term.src[0]))
        if not term.op.elementwise:
            raise Unsupported(f"{term.op.name} has no meaning here")
        if term.op.group is ops.COMPARISON:
            kind = self.arithmetic(term.src[0])
        known = len(kind.choices)
        result = kind.apply(term.op, *operands)
        self.choices[term] = kind.choices[known:]
        return result

    def _constant(self, term: UOp) -> Value:
        """Return the value of the constant that a term of constants becomes."""
        if term.dtype is terms.B:
            return self.condition(term)
        kind = self.arithmetic(term)
        if term.op in kind.exact_on_numbers and term.op is not ops.FACT:
            return kind.apply(term.op, *[self.value(s, computed=True) for s in term.src])
        return kind.from_number(self.number(term))

    # -- definedness -------------------------------------------------------------------------------

    def defined(self, term: UOp, *, computed: bool) -> Truth:
        key = (term, computed)
        if key not in self._defined:
            self._defined[key] = self._is_defined(term, computed)
        return self._defined[key]

    def _is_defined(self, term: UOp, computed: bool) -> Truth:
        if term.op is ops.HOLE:
            return self._exists(term)
        if term.op is ops.CONST or (computed and terms.is_value(term)):
            return self.logic.truth(True)
        parts = [self.defined(s, computed=computed) for s in term.src]
        if term.op is ops.WHERE:
            chooses = self.value(term.src[0], computed=computed)
            return parts[0] & ((chooses & parts[1]) | (~chooses & parts[2]))
        if term.op in (ops.AND, ops.OR) and self._on_truths(term):
            decides = self._deciding(term, computed)
            return (parts[0] & parts[1]) | (parts[0] & decides[0]) | (parts[1] & decides[1])
        whole = self.logic.truth(True)
        for part in parts:
            whole = whole & part
        if term.op is ops.CAST:
            return whole
        operands = [self.value(s, computed=computed) for s in term.src]
        return whole & self.arithmetic(term.src[-1]).defined(term.op, *operands)

    def _exists(self, hole: UOp) -> Truth:
        """Return whether a hole is defined; always true of constants and in rules of strict ops."""
        if not self.lazy or terms.is_constant_hole(hole):
            return self.logic.truth(True)
        return self.logic.hole(DEFINED + str(hole.arg))

    def _on_truths(self, term: UOp) -> bool:
        dtype = self.arithmetic(term).dtype
        return dtype is not None and dtype.kind is Kind.BOOL

    def _deciding(self, term: UOp, computed: bool) -> list[Truth]:
        """Return where each operand alone decides the result: false for AND, true for OR."""
        operands = [self.value(s, computed=computed) for s in term.src]
        return operands if term.op is ops.OR else [~operand for operand in operands]

    # -- numbers and conditions --------------------------------------------------------------------

    def number(self, term: UOp) -> Value:
        """Return a number that Python computes when the rule fires."""
        kind = self.arithmetic(term)
        if term.op is ops.HOLE:
            return kind.to_number(self.value(term, computed=False))
        if term.op is ops.CONST:
            return kind.numbers.literal(term.arg)
        if term.op is ops.FACT:
            return self.fact(term)
        for s in term.src:
            if type(self.arithmetic(s)) is not type(kind):
                raise Unsupported(f"numbers of different types in {show(term)}")
        return kind.numbers.apply(term.op, *[self.number(s) for s in term.src])

    def fact(self, term: UOp) -> Value:
        """Return the number of a fact about a node, such as a bound."""
        if term not in self._facts:
            about = term.src[0]
            kind = self.arithmetic(about)
            value = self.value(about, computed=False)
            known = self.defined(about, computed=False)
            match term.arg:
                case "lo" | "hi" as side:
                    self._facts[term] = kind.bound(show(term), value, known, lower=side == "lo")
                case "modulus" | "remainder":
                    m, r = kind.residue(show(about), value, known)
                    self._facts[terms.modulus(about)] = m
                    self._facts[terms.remainder(about)] = r
                case "least" | "most" as side:
                    self._facts[term] = kind.limit(value, lower=side == "least")
                case _:
                    raise Unsupported(f"the fact {term.arg}")
        return self._facts[term]

    def condition(self, term: UOp) -> Truth:
        """Return whether a guard, or a part of one, holds."""
        if term.op is ops.CONST:
            return self.logic.truth(bool(term.arg))
        if term.op is ops.HOLE:
            return self.value(term, computed=False)
        if term.op is ops.FACT:
            return self._truth(term)
        if term.op.group is ops.COMPARISON:
            a, b = term.src
            kind = self.arithmetic(a)
            if type(kind) is not type(self.arithmetic(b)):
                raise Unsupported(f"numbers of different types in {show(term)}")
            return kind.numbers.apply(term.op, self.number(a), self.number(b))
        if term.op not in (ops.AND, ops.OR, ops.NOT, ops.XOR):
            raise Unsupported(f"{term.op.name} in a guard")
        parts = [self.condition(s) for s in term.src]
        match term.op:
            case ops.NOT:
                return ~parts[0]
            case ops.AND:
                return parts[0] & parts[1]
            case ops.OR:
                return parts[0] | parts[1]
        return parts[0] ^ parts[1]

    def _truth(self, term: UOp) -> Truth:
        match term.arg:
            case "signed":
                dtype = self.arithmetic(term.src[0]).dtype
                return self.logic.truth(dtype is not None and dtype.kind is Kind.SIGNED)
            case "constant":
                if terms.is_constant_hole(term.src[0]):
                    return self.logic.truth(True)
                return self.logic.hole(show(term))
            case "fits":
                a, b = (self.arithmetic(s).dtype for s in term.src)
                return self.logic.truth(a is not None and b is not None and a.fits_in(b))
            case "divides":
                divisor, number = (self.number(s) for s in term.src)
                numbers = self.arithmetic(term.src[0]).numbers
                zero = numbers.literal(0)
                rest = numbers.apply(ops.MOD, number, divisor)
                return numbers.apply(ops.NE, divisor, zero) & numbers.apply(ops.EQ, rest, zero)
        raise Unsupported(f"the fact {term.arg}")

    # -- when a rule fires -------------------------------------------------------------------------

    def fires(self) -> Truth:
        """Return whether the guard holds and all numbers can be computed."""
        whole = self.logic.truth(True)
        for part in terms.conjuncts(self.rule.when):
            whole = whole & self.holds(part)
        for part in computed_parts(self.rule.after):
            for condition in self.safe(part, compared=False):
                whole = whole & condition
        return whole

    def holds(self, part: UOp) -> Truth:
        """Return whether a part of the guard can be computed, and holds."""
        whole = self.condition(part)
        for condition in self.safe(part, compared=True):
            whole = whole & condition
        return whole

    def safe(self, term: UOp, *, compared: bool) -> Iterator[Truth]:
        """Yield when a number is computable: divisors not 0, shifts small, bounds finite."""
        if term.op is ops.FACT:
            fact = terms.FACTS[term.arg]
            if not fact.truth and not compared and not self._is_finite(term):
                yield self.logic.truth(False)
            if not fact.on_nodes:
                for s in term.src:
                    yield from self.safe(s, compared=False)
            return
        if term.op in DIVISIONS:
            yield self._compare(term.src[1], ops.NE, 0)
        elif term.op in (ops.SHL, ops.SHR):
            yield self._compare(term.src[1], ops.GE, 0)
            yield self._compare(term.src[1], ops.LT, LARGEST_SHIFT)
        inner = term.op.group is ops.COMPARISON or term.dtype is terms.B
        for s in term.src:
            yield from self.safe(s, compared=inner)

    def _compare(self, term: UOp, op: ops.Op, value: int) -> Truth:
        numbers = self.arithmetic(term).numbers
        return numbers.apply(op, self.number(term), numbers.literal(value))

    def _is_finite(self, fact: UOp) -> bool:
        """Whether a fact is an int: the limits of unbounded types and bounds of floats are not."""
        dtype = self.arithmetic(fact).dtype
        if dtype is None or dtype.is_float:
            return False
        return fact.arg not in ("least", "most") or dtype.kind is not Kind.INDEX


def is_lazy(rule: Rule) -> bool:
    """Whether a rule has ops that do not need all of their operands."""
    nodes = toposort(rule.before, rule.after)
    return any(node.op in (ops.WHERE, ops.AND, ops.OR) for node in nodes)


def computed_parts(term: UOp) -> Iterator[UOp]:
    """Yield the largest parts of a right side that are computed from constants."""
    if terms.is_value(term):
        yield term
    else:
        for s in term.src:
            yield from computed_parts(s)


def facts_of(rule: Rule) -> list[UOp]:
    """Return the facts that a rule asks for, each once."""
    parts = [rule.after] if rule.when is None else [rule.after, rule.when]
    return [node for node in toposort(*parts) if node.op is ops.FACT]
