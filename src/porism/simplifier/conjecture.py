"""Conjectures: a rewrite rule as a user types it, to be proved or refuted:

    x//c0//c1 -> x//(c0*c1) when c1 > 0

Both sides and the guard are in the syntax of `porism.simplifier.parser`. The names `c`, `c0`, `c1`
… are constants, `p` and `q` (and `p0`, `q1` …) are conditions, any other name is a number. The
right side and the guard may ask what is known of a value: `lo(x)`, `hi(x)`, `divides(c0, c1)`, … as
in `porism.rewrite.terms`; `vmin` and `vmax` are other names for `lo` and `hi`.

The guard of a compiler's rule asks for constants and facts alone, since the rule fires before
values are known. A conjecture may also have conditions on values: `min(x, y) -> x when x <= y`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from porism.base import dtypes
from porism.base.dtypes import Theory
from porism.base.errors import ParseError, PorismError, RuleError, TypeMismatch
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.rewrite import terms
from porism.rewrite.rule import Rule, rule
from porism.rules.rule_instances import THEORY_TYPES, instantiate
from porism.simplifier.parser import Parser, Pending
from porism.simplifier.tokenizer import KEYWORDS, LIMITS, Limits, Token, fail, tokens

NAME: Final = "typed"
"""The name of the rule of every conjecture."""
EXAMPLE: Final = "write it as 'x//c0//c1 -> x//(c0*c1) when c1 > 0'"
"""The advice of errors about the form."""

FACTS: Final = {**{name: name for name in terms.FACTS}, "vmin": "lo", "vmax": "hi"}
"""The facts of a guard by the names under which a conjecture may use them."""

SMALL: Final = Limits(characters=10_000, nodes=1_000, depth=100, digits=1_000)
"""The limits of a conjecture, which is much smaller than an expression; chosen by hand."""

_CONDITION: Final = re.compile(r"[pq]\d*")
_ARROW: Final = re.compile(r"->")
_WHEN: Final = re.compile(r"\bwhen\b")


@dataclass(frozen=True, slots=True)
class Conjecture:
    """A typed rule, and the conjuncts of its guard that are conditions on values."""

    rule: Rule
    conditions: tuple[UOp, ...] = ()

    def goal(self, without: UOp | None = None) -> Rule:
        """Return the rule to be proved, perhaps without one of the conditions on values.

        With conditions it is `before if conditions else 0 -> after if conditions else 0`, which
        says nothing where they do not hold.
        """
        holds = terms.conjunction([part for part in self.conditions if part is not without])
        if holds is None:
            return self.rule
        before, after = self.rule.before, self.rule.after
        otherwise = terms.FALSE if before.dtype is terms.B else terms.literal(0)
        return replace(
            self.rule,
            before=ops.WHERE(holds, before, otherwise),
            after=ops.WHERE(holds, after, otherwise),
        )

    def vacuity(self) -> Rule:
        """Return a rule that holds iff no values with a defined left side fulfil the conditions."""
        before = self.rule.before
        is_defined = before | ~before if before.dtype is terms.B else before.eq(before)
        holds = terms.conjunction([*self.conditions, is_defined])
        assert holds is not None
        zero, one = terms.literal(0), terms.literal(1)
        return replace(self.rule, before=ops.WHERE(holds, one, zero), after=zero)

    def __str__(self) -> str:
        parts = [*terms.conjuncts(self.rule.when), *self.conditions]
        guard = " and ".join(show(part) for part in parts)
        return f"{show(self.rule.before)} -> {show(self.rule.after)}" + (
            f"  when {guard}" if guard else ""
        )


def read(text: str, theories: Iterable[str] = ()) -> Conjecture:
    """Parse a conjecture; raise an error that points into the text if it is none.

    >>> print(read("min(x, y) -> x when x <= y"))
    min(x, y) -> x  when x <= y
    >>> read("x * 0 -> y")
    Traceback (most recent call last):
        ...
    porism.base.errors.ParseError: 'y' does not occur on the left side
      where: line 1, column 10
        x * 0 -> y
                 ^
      why: a rule fires when its left side is found, and 'y' would be unknown
      fix: let 'y' occur before '->', or did you mean 'x'?
    """
    chosen = [_theory(word) for word in theories]
    text = " ".join(text.split("\n"))
    before, after, guard = _split(text)
    leaves = _Leaves(only_conditions=chosen == [Theory.BOOLEANS])
    left = _term(text, before, leaves)
    bound = set(leaves.holes)
    sides = [left, _term(text, after, leaves, bound, facts=True)]
    parts: list[UOp] = []
    if guard is not None:
        whole = _term(text, guard, leaves, bound, facts=True)
        if whole.dtype is not terms.B:
            fail(text, guard.start, "the guard is a number", fix="compare it, such as c0 != 0")
        parts = list(terms.conjuncts(whole))
    known = [part for part in parts if terms.is_value(part)]
    values = tuple(part for part in parts if not terms.is_value(part))
    for part in values:
        if any(node.op is ops.FACT for node in toposort(part)):
            assert guard is not None
            fail(
                text,
                guard.start,
                f"a part of the guard asks for facts and values at once: {show(part)}",
                fix="join them with 'and', or ask for facts alone, such as hi(x) <= lo(y)",
            )
    if sides[0].dtype is not sides[1].dtype:
        fail(text, after.start, "one side is a number, the other is a condition")
    try:
        parsed = rule(NAME, sides[0], sides[1], terms.conjunction(known))
    except RuleError as error:
        raise ParseError(
            "this states no rule", text=text, offset=0, why=error.why, fix=error.fix
        ) from None
    if not bound:
        fail(text, 0, "the left side has no variable", why="an equation of numbers is no rule")
    holds_in = tuple(chosen) or (_natural_theory(parsed),)
    for theory in holds_in:
        _check_theory(theory, [*sides, *values])
    return Conjecture(replace(parsed, theories=holds_in), values)


def _check_theory(theory: Theory, parts: Sequence[UOp]) -> None:
    """Refuse ops that a theory does not have: bits of floats, sums of conditions."""
    types = {terms.T: THEORY_TYPES[theory], terms.B: dtypes.boolean}
    for part in parts:
        ends = [n for n in toposort(part) if n.op in (ops.HOLE, ops.FACT)]
        leaves = {n: raw(ops.PARAM, types[n.dtype], (), 0) for n in ends}
        try:
            instantiate(part, leaves, types)
        except TypeMismatch as error:
            raise PorismError(
                f"this has no meaning on {theory.value}: {show(part)}",
                why=error.why or error.what,
                fix="choose another theory with --theory",
            ) from None


def _natural_theory(parsed: Rule) -> Theory:
    """Return the theory of Python's values: unbounded integers, or conditions."""
    root = parsed.before
    is_order = root.op.group is ops.COMPARISON
    on = root.src[0].dtype if is_order else root.dtype
    return Theory.BOOLEANS if on is terms.B else Theory.INTEGERS


def _theory(word: str) -> Theory:
    """Return the theory that the user names; an unknown name is an error."""
    known = {t.value.replace(" ", "-"): t for t in Theory if t is not Theory.STRUCTURE}
    theory = known.get(word.strip().lower().replace(" ", "-"))
    if theory is None:
        raise PorismError(f"there is no theory {word!r}", fix=f"one of: {', '.join(known)}")
    return theory


# -- the three parts -------------------------------------------------------------------------------


def _split(text: str) -> tuple[range, range, range | None]:
    """Return the spans of the left side, of the right side, and of the guard if there is one."""
    if len(text) > SMALL.characters:
        fail(text, SMALL.characters, f"a rule of {len(text)} characters", fix="state a shorter one")
    arrows = [match.span() for match in _ARROW.finditer(text)]
    if not arrows:
        hint = re.search(r"=>|→|=(?!=)(?<![<>=!]=)", text)
        when = _WHEN.search(text)
        at = hint.start() if hint else when.start() if when else len(text.rstrip())
        fail(text, at, "expected '->' between the two sides of a rule", fix=EXAMPLE)
    if len(arrows) > 1:
        fail(text, arrows[1][0], "a second '->'", why="a rule has two sides", fix=EXAMPLE)
    start, end = arrows[0]
    words = [match.span() for match in _WHEN.finditer(text)]
    for at, _ in words[1:]:
        fail(text, at, "a second 'when'", fix="join the parts of the guard with 'and'")
    if not words:
        return range(start), range(end, len(text)), None
    if words[0][0] < start:
        fail(text, words[0][0], "'when' before '->'", fix=EXAMPLE)
    return range(start), range(end, words[0][0]), range(words[0][1], len(text))


class _Leaves:
    """The variables of a conjecture: the parser's leaf of each name, and the hole it stands for."""

    def __init__(self, *, only_conditions: bool) -> None:
        self.only_conditions = only_conditions
        self.holes: dict[str, UOp] = {}
        self.hole_of: dict[UOp, UOp] = {}

    def leaf(self, name: str) -> UOp:
        """Return the leaf of a name: a condition if it is p, q, p0 …, else a number."""
        if name not in self.holes:
            number = terms.is_constant_hole(terms.hole(name)) or not self.only_conditions
            is_condition = not number or _CONDITION.fullmatch(name) is not None
            self.holes[name] = terms.hole(name, terms.B if is_condition else terms.T)
        hole = self.holes[name]
        if hole.dtype is terms.B:
            leaf = raw(ops.PARAM, dtypes.boolean, (), list(self.holes).index(name))
        else:
            leaf = raw(ops.VARIABLE, dtypes.index, (), (name, None, None))
        self.hole_of[leaf] = hole
        return leaf


def _term(
    text: str, part: range, leaves: _Leaves, bound: set[str] | None = None, *, facts: bool = False
) -> UOp:
    """Return a span of the text as a term over holes; `bound` are the names that it may use."""
    piece = text[part.start : part.stop]
    try:
        if bound is not None:
            _check_bound(piece, bound)
        graph = _RuleParser(piece, leaves, facts=facts).run()
    except ParseError as error:
        at = part.start + error.column - 1
        raise ParseError(error.what, text=text, offset=at, why=error.why, fix=error.fix) from None
    term_of: dict[UOp, UOp] = {}
    for node in toposort(graph):
        src = [term_of[s] for s in node.src]
        if node in leaves.hole_of:
            term_of[node] = leaves.hole_of[node]
        elif node.op is ops.CONST:
            is_truth = node.dtype is dtypes.boolean
            term_of[node] = terms.literal(node.arg, terms.B if is_truth else terms.T)
        else:
            term_of[node] = terms.fact(node.arg, *src) if node.op is ops.FACT else node.op(*src)
    return term_of[graph]


def _check_bound(piece: str, bound: set[str]) -> None:
    """Refuse names that the left side of the rule does not have."""
    for token in _names(piece):
        if token.text not in bound:
            near = [name for name in sorted(bound) if name != token.text]
            fail(
                piece,
                token.at,
                f"{token.text!r} does not occur on the left side",
                why="a rule fires when its left side is found, and "
                f"{token.text!r} would be unknown",
                fix=f"let {token.text!r} occur before '->'"
                + (f", or did you mean {near[0]!r}?" if len(near) == 1 else ""),
            )


def _names(piece: str) -> Iterator[Token]:
    """Yield the tokens of the variables in a piece of text."""
    for token in tokens(piece, SMALL):
        if token.kind == "name" and token.text not in KEYWORDS and token.text not in FACTS:
            yield token


class _RuleParser(Parser):
    """A parser for which any name is a variable without bounds, and which reads facts."""

    def __init__(self, text: str, leaves: _Leaves, *, facts: bool) -> None:
        super().__init__(text, {}, replace(LIMITS, depth=SMALL.depth, nodes=SMALL.nodes))
        self.leaves = leaves
        self.facts = facts
        self.calls = self.calls | frozenset(FACTS)

    def variable(self, token: Token) -> UOp:
        """Return the leaf of a name, whichever it is."""
        return self.leaves.leaf(token.text)

    def call(self, token: Token, following: Token) -> None:
        """Push a call; facts are refused on the left side of a rule."""
        if token.text in FACTS and not self.facts:
            self.fail(
                token.at,
                f"{token.text!r} is a fact, and the left side has none",
                fix=f"ask for it after '->' or 'when', or choose another name than {token.text!r}",
            )
        super().call(token, following)

    def call_result(self, top: Pending, values: list[UOp], at: int) -> UOp:
        """Return the result of a call, which may be a fact."""
        if top.symbol not in FACTS:
            return super().call_result(top, values, at)
        fact = terms.FACTS[FACTS[top.symbol]]
        if len(values) != fact.arity:
            takes = "one argument" if fact.arity == 1 else f"{fact.arity} arguments"
            self.fail(at, f"{top.symbol} takes {takes}, not {len(values)}", why=f"it is {fact.doc}")
        for value in values:
            self.check_number(value, top.at, f"{top.symbol}( )")
        kind = dtypes.boolean if fact.truth else dtypes.index
        return raw(ops.FACT, kind, tuple(values), fact.name)

    def check_defined(self, symbol: str, last: UOp, at: int) -> None:
        """Refuse a division by the constant zero; other divisors have no known bounds."""
        if symbol in ("//", "%") and last.op is ops.CONST and last.arg == 0:
            self.fail(at, "division by zero", why="the divisor is always 0")
