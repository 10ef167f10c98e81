"""Simplify: a simpler text for an index expression whose variables have bounds.

    parse → normal form of index arithmetic → readable order → shared subterms → print

The result is used only if it has no more divisions and no higher cost than the text that was given.
This is `porism.simplify`.
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
from porism.simplifier.common_subterms import share_subterms
from porism.simplifier.expression_cost import (
    DIVISION,
    MIRRORED,
    leaf_count,
    measure,
    measure_unordered,
)
from porism.simplifier.fast_parser import fast_parse
from porism.simplifier.light_nodes import LightNodes, Make, number, to_uops, with_sources
from porism.simplifier.parser import parse
from porism.simplifier.printer import to_python
from porism.simplifier.readable_order import LINEAR, may_be_undefined, reorder
from porism.simplifier.tokenizer import Limits
from porism.simplifier.variable_bounds import Bounds, Box, box

LONGEST_STEP: Final = 400
"""The most characters of each side of a step."""

MOST_STEPS: Final = 1000
"""The most steps of an explanation; of a longer one, the last are kept."""

LARGEST_GROWTH: Final = 4
"""How many times as many names and numbers a result may have as the text that was given."""
SHORT_TEXT: Final = 100
"""A result with at most so many names and numbers is never too long; both chosen by hand."""

PLAIN: Final = frozenset(
    {*LINEAR, ops.IDIV, ops.MOD, ops.AND, ops.WHERE}
    | {op for op in ops.table() if op.group is ops.COMPARISON}
)
"""Ops that the normal form simplifies completely, so that the algebra need not be tried."""

SHIFTS: Final = frozenset({ops.SHR, ops.AND})
DIVISIONS: Final = frozenset({ops.IDIV, ops.MOD})
FEW: Final = 20
"""With at most so many divisions and products, an expression is surely not cut into pieces."""

UNLIMITED: Final = Limits(characters=1 << 60, nodes=1 << 60, depth=1 << 60, digits=1 << 60)
"""For parsing what the printer wrote."""

MOST_ROUNDS: Final = 6
"""How often an expression that is not large is simplified again, until nothing changes."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rewrite: the rule, and the node before and after, as texts."""

    rule: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Result:
    """A simplified expression."""

    text: str
    """The expression in Python syntax."""
    divmods: int
    """How many different divisions and remainders are left."""
    cost: int
    """The cost of all operations, as `expression_cost` counts it."""
    steps: tuple[Step, ...]
    """The rewrites in order, if an explanation was asked for."""
    known: Box = field(repr=False)
    """The variables and their bounds."""

    @property
    def node(self) -> UOp:
        """The expression as a graph."""
        return parse(self.text, self.known.named_variables(), UNLIMITED)

    @property
    def c(self) -> str:
        """The expression in C, after the definitions of the functions that it calls."""
        return to_c(self.node)

    def __str__(self) -> str:
        return self.text


def simplify(text: str, bounds: Bounds | None = None, *, explain: bool = False) -> Result:
    """Return a simpler expression that is equal wherever the variables are within their bounds.

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
    nodes = LightNodes()
    root = fast_parse(text, known.variables, nodes.make)
    if root is None:
        return simplify_node(parse(text, known.variables), known, explain=explain)
    return _Simplifier(root, known, explain, nodes).run()


def simplify_node(root: UOp, known: Box, *, explain: bool = False) -> Result:
    """Simplify a graph over the variables of a box, as `simplify` does a text."""
    nodes = LightNodes()
    return _Simplifier(nodes.from_uops(root), known, explain, nodes).run()


class _Simplifier:
    """The simplification of one expression."""

    def __init__(self, root: UOp, known: Box, explain: bool, nodes: LightNodes) -> None:
        self.root = root
        self.known = known
        self.names = known.internal_names()
        self.make = nodes.make
        used = {op for op, _ in nodes.nodes}
        self.is_plain = used <= PLAIN
        self.has_shifts = not used.isdisjoint(SHIFTS) and _has_shifts(root)
        divisions, products = set[int](), 0
        for (op, src), node in nodes.nodes.items():
            if op is ops.IDIV or op is ops.MOD:
                divisions.add(node.order)
            elif op is ops.MUL and src[0].op is not ops.CONST is not src[1].op:
                products += 1
        self.divisions = len(divisions)
        """The number of divisions that differ by more than the order of their operands."""
        self.is_small = products <= FEW >= self.divisions
        """Whether the expression is surely simplified without cutting it into pieces."""
        self.trace = Trace() if explain else None

    def run(self) -> Result:
        """Return the result: the normal form if it surely costs less, else the best of several."""
        root = self.root
        if not root.src:
            return self.result(root, (0, 0))
        node = self.normal_form(root)
        cost = measure(node)
        count = self.divisions
        if not (cost[0] <= count and cost[1] <= count * DIVISION and self.is_short(node)):
            self.drop_steps(0)
            node, cost = self.best_candidate()
        return self.result(node, cost)

    def result(self, node: UOp, cost: tuple[int, int]) -> Result:
        """Return a node as the result, with its cost as `measure` gives it."""
        steps: tuple[Step, ...] = ()
        if self.trace is not None:
            steps = tuple(_step(s, self.known) for s in self.trace.steps[-MOST_STEPS:])
        return Result(self.known.named_text(to_python(node)), *cost, steps, self.known)

    def is_short(self, node: UOp) -> bool:
        """Whether the text of a node is not much longer than the text that was given."""
        return (count := leaf_count(node)) <= SHORT_TEXT or count <= LARGEST_GROWTH * leaf_count(
            self.root
        )

    def best_candidate(self) -> tuple[UOp, tuple[int, int]]:
        """Return an expression that costs no more than any order of the one given, and its cost.

        Without a division to remove, the cost depends on how sums are grouped. Candidates are tried
        until nothing changes.
        """
        node = self.ordered_input()
        cost = measure(node)
        for _ in range(MOST_ROUNDS):
            improved, cost = self.improve(node, cost)
            is_last = improved is node or not large_expressions.fits(improved)
            node = improved
            if is_last:
                break
        return node, cost

    def improve(self, given: UOp, limit: tuple[int, int]) -> tuple[UOp, tuple[int, int]]:
        """Return the first candidate that costs no more than `limit`, or else `given`."""
        before = 0 if self.trace is None else len(self.trace.steps)
        for simplified in (self.normal_form, self.normalized):
            node = simplified(given)
            cost = measure(node)
            if node is not given and _is_no_worse(cost, limit) and self.is_short(node):
                return node, cost
            self.drop_steps(before)
            if node is given:
                break
        return given, limit

    def drop_steps(self, count: int) -> None:
        """Keep only the first `count` steps of the explanation: the others led to no result."""
        if self.trace is not None:
            del self.trace.steps[count:]

    # -- candidates, the best first ----------------------------------------------------------------

    def normal_form(self, root: UOp) -> UOp:
        """Return the normal form of index arithmetic in a readable order."""
        facts, trace = self.known.facts(root), self.trace
        if self.has_shifts:
            root = rebuild(root, _with_divisions(self.make))
        if self.is_plain and (self.is_small or large_expressions.fits(root)):
            return self.readable(index.simplify(root, facts=facts, trace=trace, make=self.make))
        root = to_uops(reorder(root, self.names, make=self.make))
        if not self.is_plain:
            root = rewrite(root, SIMPLE, trace=trace)
        return self.readable(large_expressions.simplify(root, facts=facts, trace=trace))

    def normalized(self, root: UOp) -> UOp:
        """Return what the construction-time rules make of an expression, in a readable order."""
        return self.readable(normalize(to_uops(root), self.trace))

    def readable(self, node: UOp) -> UOp:
        """Return a node in a readable order, with shared subterms, and shifts if there were any."""
        ordered = share_subterms(reorder(node, self.names, make=self.make), self.make)
        return rebuild(ordered, _with_shifts(self.make)) if self.has_shifts else ordered

    # -- what was given ----------------------------------------------------------------------------
    # An expression has many texts. All of them get the same order first, so that the result does
    # not depend on how it was written.

    def ordered_input(self) -> UOp:
        """Return the expression that was given, in an order in which it costs least."""
        root = self.root
        ordered = share_subterms(reorder(root, self.names, make=self.make), self.make)
        limit = measure_unordered(root)
        if _is_no_worse(measure(ordered), limit):
            return ordered
        # The input shares subterms that `share_subterms` does not find: shared nodes are kept.
        sorted_only = rebuild(root, self.sort_operands)
        nodes = toposort(sorted_only)
        uses = Counter(s for node in nodes for s in set(node.src))
        guarded = any(may_be_undefined(node) for node in nodes)
        kept = {n for n in nodes if uses[n] > 1 and not (guarded and n.dtype is dtypes.boolean)}
        ordered = reorder(sorted_only, self.names, kept, self.make)
        return ordered if _is_no_worse(measure(ordered), limit) else root

    def sort_operands(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        """Return the node with its operands in a canonical order."""
        op = node.op
        if op in MIRRORED:
            op, src = MIRRORED[op], src[::-1]
        elif op.commutative and src[1].order < src[0].order:
            src = src[::-1]
        if op is node.op and src == node.src:
            return node
        return with_sources(node, src, self.make) if op is node.op else self.make(op, src)


def _is_no_worse(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether a cost has no more divisions than another, and is no higher."""
    return a[0] <= b[0] and a[1] <= b[1]


def _has_shifts(root: UOp) -> bool:
    """Whether there are shifts or masks that stand for divisions and remainders."""
    return any(_division(node) is not None for node in toposort(root))


def _step(step: Rewrite, known: Box) -> Step:
    """Return a rewrite as texts in a readable order, unless only the order changed."""
    before, after = (_text(node, known, ordered=True) for node in (step.before, step.after))
    if before == after:
        before, after = (_text(node, known, ordered=False) for node in (step.before, step.after))
    return Step(step.rule, before, after)


def _text(node: UOp, known: Box, *, ordered: bool) -> str:
    """Return a node as text with the names that the user gave."""
    try:
        text = to_python(node, LONGEST_STEP)
    except PorismError:  # too long, or with what has no text: a part of it
        return known.named_text(show(node, LONGEST_STEP))
    return known.named_text(to_python(reorder(node, known.internal_names())) if ordered else text)


# -- shifts ----------------------------------------------------------------------------------------
# Shifts and masks are simplified as the divisions and remainders that they are, and written as
# shifts and masks again.

_LARGEST_SHIFT: Final = 512
"""A shift by more bits is not turned into a division; chosen by hand."""


def _division(node: UOp) -> tuple[ops.Op, int] | None:
    """Return the op and the divisor that a shift or mask stands for: `x >> 3` is x // 8."""
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
    """Return the rewrite of shifts and masks into divisions and remainders."""

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        division = _division(node)
        if division is not None:
            return make(division[0], (src[0], number(division[1])))
        return node if src == node.src else with_sources(node, src, make)

    return change


def _with_shifts(make: Make) -> Callable[[UOp, tuple[UOp, ...]], UOp]:
    """Return the rewrite of divisions and remainders by powers of two into shifts and masks."""

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        if node.op in DIVISIONS and src[1].op is ops.CONST:
            divisor = src[1].arg
            if divisor > 1 and divisor & (divisor - 1) == 0:
                if node.op is ops.IDIV:
                    return make(ops.SHR, (src[0], number(divisor.bit_length() - 1)))
                return make(ops.AND, (src[0], number(divisor - 1)))
        return node if src == node.src else with_sources(node, src, make)

    return change
