"""Simplify: the text of an index expression and the bounds of its variables in, a simpler text out.

This is what `porism.simplify` is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from porism.base import dtypes
from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.expression import show
from porism.ir.node import UOp, comes_before, raw
from porism.ir.walk import find, rebuild, toposort
from porism.rewrite.graph import normalize, rewrite
from porism.rewrite.trace import Step as Rewrite
from porism.rewrite.trace import Trace
from porism.rules.algebra import SIMPLE
from porism.simplifier import pieces
from porism.simplifier.arrange import arrange, may_have_no_value
from porism.simplifier.bounds import Bounds, Box, box
from porism.simplifier.c_text import to_c
from porism.simplifier.cost import TURNED, length, measure, measure_in_any_order
from porism.simplifier.parser import parse
from porism.simplifier.printer import to_python
from porism.simplifier.sharing import share

LONGEST_STEP: Final = 400
"""Characters of each side of a step."""

MOST_STEPS: Final = 1000
"""Of a very long explanation, the end."""

GROWTH: Final = 4
SHORT: Final = 100
"""A text that is not short may become so many times as long for the sake of fewer operations."""

LOGIC: Final = frozenset({ops.MAX, ops.MIN, ops.OR, ops.XOR, ops.NOT, ops.SHL, ops.SHR, ops.CAST})
"""Operations for which the algebra has more rules than are applied as nodes are made."""

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
    node: UOp
    """The expression as a graph."""

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
    return simplify_node(parse(text, known.variables), known, explain=explain)


def simplify_node(root: UOp, known: Box, *, explain: bool = False) -> Result:
    """The same for a graph over the variables of a box."""
    longest = max(GROWTH * length(root), SHORT)
    trace = Trace() if explain else None
    node = _as_given(root, known)
    price = measure(node)
    for _ in range(MOST_TIMES if node.src else 0):
        again, price = _better(node, price, known, longest, trace)
        done = again is node or not pieces.fits(again)
        node = again
        if done:
            break
    steps = () if trace is None else tuple(_step(s, known) for s in trace.steps[-MOST_STEPS:])
    node = known.named(node)
    return Result(to_python(node), *price, steps, node)


def _better(
    given: UOp, limit: tuple[int, int], known: Box, longest: int, trace: Trace | None
) -> tuple[UOp, tuple[int, int]]:
    """The first candidate that is no worse than what was given, and its cost."""
    shifted = next(find(given, lambda node: _division(node) is not None), None) is not None
    before = 0 if trace is None else len(trace.steps)
    for candidate in (_simplified, _normalized):
        found = candidate(given, known, trace)
        if shifted:
            found = rebuild(found, _with_shifts)
        measured = measure(found)
        if found is not given and _no_worse(measured, limit) and length(found) <= longest:
            return found, measured
        if trace is not None:
            del trace.steps[before:]
        if found is given:
            break
    return given, limit


def _no_worse(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] <= b[0] and a[1] <= b[1]


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


# -- candidates, the best first --------------------------------------------------------------------


def _simplified(root: UOp, known: Box, trace: Trace | None) -> UOp:
    names, facts = known.numbered(), known.facts(root)
    whole = rebuild(root, _with_divisions)
    if any(node.op in LOGIC for node in toposort(whole)):
        whole = rewrite(whole, SIMPLE, trace=trace)
    return share(arrange(pieces.simplify(whole, facts=facts, trace=trace), names))


def _normalized(root: UOp, known: Box, trace: Trace | None) -> UOp:
    return share(arrange(normalize(root, trace), known.numbered()))


# -- what was given --------------------------------------------------------------------------------
# An expression has many texts. Each is brought into the same order first, so that all that follows
# is the same for all of them.


def _as_given(root: UOp, known: Box) -> UOp:
    """The expression in the right order, which costs no more than it did in any other."""
    names = known.numbered()
    arranged = share(arrange(root, names))
    limit = measure_in_any_order(root)
    if _no_worse(measure(arranged), limit):
        return arranged
    # Its parts were shared in a way that is not found again: what is used twice stays as it is.
    sorted_only = rebuild(root, _sorted)
    nodes = toposort(sorted_only)
    uses = Counter(s for node in nodes for s in set(node.src))
    guarded = any(may_have_no_value(node) for node in nodes)
    kept = {n for n in nodes if uses[n] > 1 and not (guarded and n.dtype is dtypes.boolean)}
    arranged = arrange(sorted_only, names, kept)
    return arranged if _no_worse(measure(arranged), limit) else root


def _sorted(node: UOp, src: tuple[UOp, ...]) -> UOp:
    """The node with its operands in an order that means nothing, and is always the same."""
    op = node.op
    if op in TURNED:
        op, src = TURNED[op], src[::-1]
    elif op.commutative and comes_before(src[1], src[0]):
        src = src[::-1]
    if op is node.op and src == node.src:
        return node
    return raw(op, node.dtype_given, src, node.arg)


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


def _with_divisions(node: UOp, src: tuple[UOp, ...]) -> UOp:
    found = _division(node)
    if found is not None:
        return raw(found[0], None, (src[0], raw(ops.CONST, dtypes.index, (), found[1])), None)
    return node if src == node.src else raw(node.op, node.dtype_given, src, node.arg)


def _with_shifts(node: UOp, src: tuple[UOp, ...]) -> UOp:
    if node.op in (ops.IDIV, ops.MOD) and src[1].op is ops.CONST:
        size = src[1].arg
        if size > 1 and size & (size - 1) == 0:
            shifts = node.op is ops.IDIV
            amount = size.bit_length() - 1 if shifts else size - 1
            number = raw(ops.CONST, dtypes.index, (), amount)
            return raw(ops.SHR if shifts else ops.AND, None, (src[0], number), None)
    return node if src == node.src else raw(node.op, node.dtype_given, src, node.arg)
