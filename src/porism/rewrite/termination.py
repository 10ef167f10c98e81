"""Termination: a Knuth-Bendix order in which every rule makes terms smaller.

`shrinks(rule)` checks that `before` is greater than `after` whatever stands in the holes. The
order has these components, of which the first that differs decides:

1. *occurrences*: no hole occurs more often after than before (else a large term in it could undo
   whatever is gained);
2. *weight*: the sum of the weights of all ops, where a hole, and a constant, weighs 1;
3. *precedence*: of the two root ops, by their position in the table below;
4. *arguments*: of two equal roots; as multisets where operands commute, else from left to right.

A constant, and all that is computed from constants when a rule fires, is a leaf of weight 1, and
all constants are equal in the order: replacing one by another makes nothing smaller.

It is well founded. Weights are natural numbers, so a descending chain has only finitely many
steps that lower the weight. Each op weighs at least 1, so a term of weight n has at most n ops
and leaves; since constants, arguments of ops and dtypes are never compared as greater or less,
the terms of one weight fall into finitely many shapes, and every step that keeps the weight goes
to a smaller shape. It is kept by contexts (a part that shrinks makes the whole shrink) and by
substitution, since a hole weighs as little as any term can.

Putting commutative operands in order (the rewrite named "commute" in traces, see
`porism.rewrite.construction`) leaves a term where it is in this order, which does not see the order
of such operands. It comes last, as a component of its own: for each height, from the leaves up,
how many nodes have their operands in the wrong order. The rank of a node among its siblings
depends only on what is below it, so a swap at one height lowers the number there, leaves it
below, and may change it only above; a term has finitely many heights and nodes. A rule that fires
resets this component, which is allowed since it lowers an earlier one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.text.expression import show
from porism.rewrite import terms
from porism.rewrite.rule import Rule

LEAF: Final = 1
"""The weight of a hole or a constant: the least weight there is."""

OTHER: Final = 2
"""The weight of an op that is not in the table; it has no precedence."""

WEIGHTS: Final[dict[Op, int]] = {
    # an op weighs more than its equivalent in terms of lower ops
    ops.POW: 12,
    ops.CMOD: 8,
    ops.CDIV: 8,
    ops.SHR: 6,
    ops.MOD: 5,
    ops.IDIV: 5,
    ops.FDIV: 4,
    ops.SUB: 4,
    ops.NEG: 3,
    ops.RECIPROCAL: 3,
    ops.GE: 3,
    ops.LE: 3,
    ops.NE: 3,
    ops.MULACC: 3,
    ops.WHERE: 2,
    ops.GT: 2,
    ops.SHL: 2,
    ops.XOR: 2,
    ops.ADD: 1,
    ops.MUL: 1,
    ops.MAX: 1,
    ops.MIN: 1,
    ops.LT: 1,
    ops.EQ: 1,
    ops.AND: 1,
    ops.OR: 1,
    ops.NOT: 1,
}
"""Weights, in the order of precedence: of two ops the upper one is greater."""

_PRECEDENCE: Final = {op: len(WEIGHTS) - row for row, op in enumerate(WEIGHTS)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the left side is greater, which component decides, and the reason as a sentence."""

    holds: bool
    component: str
    reason: str

    def __bool__(self) -> bool:
        return self.holds


def shrinks(rule: Rule) -> Verdict:
    """Return whether a rule makes every term on which it fires smaller.

    >>> from porism.rewrite.rule import rule
    >>> from porism.rewrite.terms import x, y
    >>> print(shrinks(rule("double", x + x, x * 2)).reason)
    both sides weigh 3, and ADD is above MUL
    >>> print(shrinks(rule("undouble", x * 2, x + x)).reason)
    x occurs 2 times after and 1 time before
    >>> print(shrinks(rule("swap", x + y, y + x)).reason)
    x + y and y + x are equal but for constants and the order of commutative operands
    """
    return greater(rule.before, rule.after)


def weight(term: UOp) -> int:
    """Return the weight of a term as a tree: shared parts count at each use."""
    if _is_leaf(term):
        return LEAF
    return WEIGHTS.get(term.op, OTHER) + sum(weight(s) for s in term.src)


def greater(left: UOp, right: UOp) -> Verdict:
    """Return whether `left` is greater than `right`, whatever stands in the holes."""
    before, after = _occurrences(left), _occurrences(right)
    for hole in sorted(after, key=lambda h: str(h.arg)):
        if after[hole] > before[hole]:
            counts = _times_text(after[hole]), _times_text(before[hole])
            reason = f"{hole.arg} occurs {counts[0]} after and {counts[1]} before"
            return Verdict(False, "occurrences", reason)
    heavy, light = weight(left), weight(right)
    if heavy != light:
        reason = f"the weight goes from {heavy} to {light}"
        return Verdict(heavy > light, "weight", reason)
    if _shape(left) == _shape(right):
        reason = (
            f"{show(left, limit=100)} and {show(right, limit=100)} are equal but for constants and "
            "the order of commutative operands"
        )
        return Verdict(False, "arguments", reason)
    if _is_leaf(left) or _is_leaf(right):
        reason = f"{show(left, limit=100)} is not greater than {show(right, limit=100)}"
        return Verdict(False, "precedence", reason)
    if _symbol(left) != _symbol(right):
        return _by_precedence(left, right)
    if left.op.commutative:
        return _by_multiset(left, right)
    return _from_left_to_right(left, right)


def _by_precedence(left: UOp, right: UOp) -> Verdict:
    a, b = _PRECEDENCE.get(left.op, 0), _PRECEDENCE.get(right.op, 0)
    holds = a > b > 0
    relation = "above" if holds else "not above"
    reason = f"both sides weigh {weight(left)}, and {left.op} is {relation} {right.op}"
    return Verdict(holds, "precedence", reason)


def _by_multiset(left: UOp, right: UOp) -> Verdict:
    """Compare multisets: each operand new on the right is below one that is gone from the left."""
    gone, new = list(left.src), []
    for part in right.src:
        same = next((s for s in gone if _shape(s) == _shape(part)), None)
        if same is None:
            new.append(part)
        else:
            gone.remove(same)
    for part in new:
        if not any(greater(whole, part) for whole in gone):
            reason = f"{show(part, limit=100)} is not below any operand of {show(left, limit=100)}"
            return Verdict(False, "arguments", reason)
    return Verdict(True, "arguments", f"the operands of {left.op} are smaller, in any order")


def _from_left_to_right(left: UOp, right: UOp) -> Verdict:
    for a, b in zip(left.src, right.src, strict=True):
        if _shape(a) != _shape(b):
            verdict = greater(a, b)
            reason = f"in the operands of {left.op}: {verdict.reason}"
            return Verdict(verdict.holds, "arguments", reason)
    raise AssertionError("terms of different shape differ in an operand")


def _is_leaf(term: UOp) -> bool:
    return term.op is ops.HOLE or terms.is_value(term)


def _symbol(node: UOp) -> tuple[Any, ...]:
    """Return what must be equal for two terms to be compared by their arguments."""
    return node.op.name, len(node.src), str(node.arg), str(node.dtype_given)


def _shape(term: UOp) -> tuple[Any, ...]:
    """Return a term up to constants and the order of commutative operands."""
    if terms.is_value(term):
        return ("constant",)
    if term.op is ops.HOLE:
        return ("hole", term.arg)
    below = [_shape(s) for s in term.src]
    return (*_symbol(term), *(sorted(below) if term.op.commutative else below))


def _occurrences(term: UOp) -> Counter[UOp]:
    """Return how often each hole for nodes occurs; values computed from facts have none."""
    if terms.is_value(term):
        return Counter()
    if term.op is ops.HOLE:
        return Counter((term,))
    occurrences: Counter[UOp] = Counter()
    for s in term.src:
        occurrences += _occurrences(s)
    return occurrences


def _times_text(count: int) -> str:
    return f"{count} time" if count == 1 else f"{count} times"
