"""Simplify: the text of an index expression and the bounds of its variables in, a simpler text out.

This is what `porism.simplify` is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from porism.base import dtypes
from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import rebuild, toposort
from porism.rewrite.graph_rewrite import normalize, rewrite
from porism.rewrite.rewrite_trace import Step as Rewrite
from porism.rewrite.rewrite_trace import Trace
from porism.rules import index
from porism.rules.rule_sets import SIMPLE
from porism.simplifier import large_expressions
from porism.simplifier.c_text import to_c
from porism.simplifier.common_subterms import share
from porism.simplifier.expression_cost import (
    DIVISION,
    TURNED,
    length,
    measure,
    measure_in_any_order,
)
from porism.simplifier.fast_parser import quick_parse
from porism.simplifier.light_nodes import Make, Parts, number, remade, settled
from porism.simplifier.parser import parse
from porism.simplifier.printer import to_python
from porism.simplifier.tokenizer import Limits
from porism.simplifier.variable_bounds import Bounds, Box, box
from porism.simplifier.written_order import LINEAR, arrange, may_have_no_value

LONGEST_STEP: Final = 400
"""Characters of each side of a step."""

MOST_STEPS: Final = 1000
"""Of a very long explanation, the end."""

GROWTH: Final = 4
SHORT: Final = 100
"""A text that is not short may become so many times as long for the sake of fewer operations."""

PLAIN: Final = frozenset(
    {*LINEAR, ops.IDIV, ops.MOD, ops.AND, ops.WHERE}
    | {op for op in ops.table() if op.group is ops.COMPARISON}
)
"""Operations about which the algebra says no more than the normal form does."""

SHIFTS: Final = frozenset({ops.SHR, ops.AND})
DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD})
FEW: Final = 20
"""An expression with so many divisions and products at most is simplified whole."""

UNLIMITED: Final = Limits(characters=1 << 60, nodes=1 << 60, depth=1 << 60, digits=1 << 60)
"""For what the printer has written."""

MOST_TIMES: Final = 6
"""What was simplified is simplified again until nothing changes: so often, if it is not large."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rewrite: its rule, and what it was applied to, as texts."""

    rule: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Result:
    """A simplified expression."""

    text: str
    """In Python syntax."""
    divmods: int
    """How many different divisions and remainders are left."""
    cost: int
    """All of its operations, a division counted as many."""
    steps: tuple[Step, ...]
    """How it came about, if an explanation was asked for."""
    known: Box = field(repr=False)
    """The variables that it is over."""

    @property
    def node(self) -> UOp:
        """The expression as a graph."""
        return parse(self.text, self.known.named_variables(), UNLIMITED)

    @property
    def c(self) -> str:
        """The expression in C, below the functions that it calls."""
        return to_c(self.node)

    def __str__(self) -> str:
        return self.text


def simplify(text: str, bounds: Bounds | None = None, *, explain: bool = False) -> Result:
    """An expression with the same value wherever the variables are within their bounds.

    `text` is in Python syntax. `bounds` maps each name to its inclusive ends: whole numbers, None
    where there is none, or texts over other names. The result never has more divisions, nor a
    higher cost, than the text that was given; nor is it many times as long.

    >>> simplify("(r*8 + v) % 7", {"r": (0, 3), "v": (0, 2)}).text
    'r + v'
    >>> simplify("(r0*n + r1) // n", {"n": (1, 1024), "r0": (0, 7), "r1": (0, "n - 1")}).text
    'r0'
    """
    if not isinstance(text, str):
        raise PorismError(
            f"an expression is a text, not a {type(text).__name__}",
            fix="write it in Python syntax, such as '(r*8 + v) % 7'",
        )
    known = box({} if bounds is None else bounds)
    parts = Parts()
    root = quick_parse(text, known.variables, parts.make)
    if root is None:
        return simplify_node(parse(text, known.variables), known, explain=explain)
    return _Simplifying(root, known, explain, parts).run()


def simplify_node(root: UOp, known: Box, *, explain: bool = False) -> Result:
    """The same for a graph over the variables of a box."""
    parts = Parts()
    return _Simplifying(parts.of(root), known, explain, parts).run()


class _Simplifying:
    """One expression, and how it is made simpler."""

    def __init__(self, root: UOp, known: Box, explain: bool, parts: Parts) -> None:
        self.root = root
        self.known = known
        self.names = known.numbered()
        self.make = parts.make
        found = {op for op, _ in parts.nodes}
        self.is_plain = found <= PLAIN
        self.shifted = not found.isdisjoint(SHIFTS) and _has_shifts(root)
        divided, products = set[int](), 0
        for (op, src), node in parts.nodes.items():
            if op is ops.IDIV or op is ops.MOD:
                divided.add(node.order)
            elif op is ops.MUL and src[0].op is not ops.CONST is not src[1].op:
                products += 1
        self.divisions = len(divided)
        """How many there are, in whatever order their operands are."""
        self.is_small = products <= FEW >= self.divisions
        """Whether it surely can be simplified as a whole."""
        self.trace = Trace() if explain else None

    def run(self) -> Result:
        """The result: as a rule the first candidate is better, whatever the costs of the text."""
        root = self.root
        if not root.src:
            return self.result(root, (0, 0))
        found = self.candidate(root)
        price = measure(found)
        count = self.divisions
        if not (price[0] <= count and price[1] <= count * DIVISION and self.is_short(found)):
            self.forget(0)
            found, price = self.carefully()
        return self.result(found, price)

    def result(self, node: UOp, price: tuple[int, int]) -> Result:
        steps: tuple[Step, ...] = ()
        if self.trace is not None:
            steps = tuple(_step(s, self.known) for s in self.trace.steps[-MOST_STEPS:])
        return Result(self.known.named_text(to_python(node)), *price, steps, self.known)

    def is_short(self, node: UOp) -> bool:
        """Whether the text of a node is not too long beside that of what was given."""
        return (count := length(node)) <= SHORT or count <= GROWTH * length(self.root)

    def carefully(self) -> tuple[UOp, tuple[int, int]]:
        """What costs no more than was given, however that is written; tried until nothing changes.

        Where a text has no division to lose, what it costs depends on how its sums are grouped.
        """
        node = self.as_given()
        price = measure(node)
        for _ in range(MOST_TIMES):
            again, price = self.better(node, price)
            done = again is node or not large_expressions.fits(again)
            node = again
            if done:
                break
        return node, price

    def better(self, given: UOp, limit: tuple[int, int]) -> tuple[UOp, tuple[int, int]]:
        """The first candidate that is no worse than what was given, and its cost."""
        before = 0 if self.trace is None else len(self.trace.steps)
        for candidate in (self.candidate, self.normalized):
            found = candidate(given)
            measured = measure(found)
            if found is not given and _no_worse(measured, limit) and self.is_short(found):
                return found, measured
            self.forget(before)
            if found is given:
                break
        return given, limit

    def forget(self, before: int) -> None:
        """Take steps out of the explanation that led nowhere."""
        if self.trace is not None:
            del self.trace.steps[before:]

    # -- candidates, the best first ----------------------------------------------------------------

    def candidate(self, root: UOp) -> UOp:
        """The normal form of index arithmetic, written as people write."""
        facts, trace = self.known.facts(root), self.trace
        if self.shifted:
            root = rebuild(root, _with_divisions(self.make))
        if self.is_plain and (self.is_small or large_expressions.fits(root)):
            return self.written(index.simplify(root, facts=facts, trace=trace, make=self.make))
        root = settled(arrange(root, self.names, make=self.make))
        if not self.is_plain:
            root = rewrite(root, SIMPLE, trace=trace)
        return self.written(large_expressions.simplify(root, facts=facts, trace=trace))

    def normalized(self, root: UOp) -> UOp:
        """What the rules make of it that are applied as nodes are made."""
        return self.written(normalize(settled(root), self.trace))

    def written(self, node: UOp) -> UOp:
        found = share(arrange(node, self.names, make=self.make), self.make)
        return rebuild(found, _with_shifts(self.make)) if self.shifted else found

    # -- what was given ----------------------------------------------------------------------------
    # An expression has many texts. Each is brought into the same order first, so that all that
    # follows is the same for all of them.

    def as_given(self) -> UOp:
        """The expression in the right order, which costs no more than it did in any other."""
        root = self.root
        arranged = share(arrange(root, self.names, make=self.make), self.make)
        limit = measure_in_any_order(root)
        if _no_worse(measure(arranged), limit):
            return arranged
        # Its parts were shared in a way that is not found again: what is used twice stays as it is.
        sorted_only = rebuild(root, self.in_order)
        nodes = toposort(sorted_only)
        uses = Counter(s for node in nodes for s in set(node.src))
        guarded = any(may_have_no_value(node) for node in nodes)
        kept = {n for n in nodes if uses[n] > 1 and not (guarded and n.dtype is dtypes.boolean)}
        arranged = arrange(sorted_only, self.names, kept, self.make)
        return arranged if _no_worse(measure(arranged), limit) else root

    def in_order(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        """The node with its operands in an order that means nothing, and is always the same."""
        op = node.op
        if op in TURNED:
            op, src = TURNED[op], src[::-1]
        elif op.commutative and src[1].order < src[0].order:
            src = src[::-1]
        if op is node.op and src == node.src:
            return node
        return remade(node, src, self.make) if op is node.op else self.make(op, src)


def _no_worse(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] <= b[0] and a[1] <= b[1]


def _has_shifts(root: UOp) -> bool:
    return any(_division(node) is not None for node in toposort(root))


def _step(step: Rewrite, known: Box) -> Step:
    """A step in the order of reading, unless its point is the order."""
    before, after = (_text(node, known, ordered=True) for node in (step.before, step.after))
    if before == after:
        before, after = (_text(node, known, ordered=False) for node in (step.before, step.after))
    return Step(step.rule, before, after)


def _text(node: UOp, known: Box, *, ordered: bool) -> str:
    try:
        text = to_python(node, LONGEST_STEP)
    except PorismError:  # too long, or with what has no text: a part of it
        return known.named_text(show(node, LONGEST_STEP))
    return known.named_text(to_python(arrange(node, known.numbered())) if ordered else text)


# -- shifts ----------------------------------------------------------------------------------------
# Who writes shifts and masks wants them back; in between they are the divisions that they mean.

_LARGEST_SHIFT: Final = 512


def _division(node: UOp) -> tuple[ops.Op, int] | None:
    """The division that a shift or a mask is: `x >> 3` is x // 8, `x & 7` is x % 8."""
    if node.op not in (ops.SHR, ops.AND) or not node.dtype.is_integer:
        return None
    amount = node.src[1]
    if amount.op is not ops.CONST:
        return None
    number = amount.arg
    if node.op is ops.SHR:
        return (ops.IDIV, 1 << number) if 0 <= number <= _LARGEST_SHIFT else None
    return (ops.MOD, number + 1) if number > 0 and number & (number + 1) == 0 else None


def _with_divisions(make: Make) -> Callable[[UOp, tuple[UOp, ...]], UOp]:
    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        found = _division(node)
        if found is not None:
            return make(found[0], (src[0], number(found[1])))
        return node if src == node.src else remade(node, src, make)

    return change


def _with_shifts(make: Make) -> Callable[[UOp, tuple[UOp, ...]], UOp]:
    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        if node.op in DIVISIONS and src[1].op is ops.CONST:
            size = src[1].arg
            if size > 1 and size & (size - 1) == 0:
                if node.op is ops.IDIV:
                    return make(ops.SHR, (src[0], number(size.bit_length() - 1)))
                return make(ops.AND, (src[0], number(size - 1)))
        return node if src == node.src else remade(node, src, make)

    return change
