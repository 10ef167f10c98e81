"""Dead loops: ranges of one iteration and of none, and effects that wait for nothing.

A range of one iteration is the constant 0, and what it repeated happens once. A range of no
iterations has no value, so it is left alone; what it repeats does not happen, whatever the other
ranges are: an END becomes NOOP, a REDUCE its identity.

A sum begins with 0, and 0 + -0 is 0: a float sum over one iteration is x + 0.
"""

from __future__ import annotations

from porism.base.dtypes import Theory
from porism.ir import ops
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.rewrite.rule import RuleSet, procedure


def is_empty(node: UOp) -> bool:
    """Whether a range has no iterations."""
    return node.op is ops.RANGE and node.src[0].vmax <= 0


def is_done(node: UOp) -> bool:
    """Whether a range was replaced by its only value."""
    return node.op is ops.CONST


@procedure("range-single", (ops.RANGE,), seeds="002.14.1 002.14.2")
def range_single(node: UOp) -> UOp | None:
    """A range of one iteration is 0."""
    if len(node.src) > 1 or not node.src[0].vmin == 1 == node.src[0].vmax:
        return None
    return UOp.const(node.dtype, 0)


@procedure("end-dead", (ops.END,), seeds="002.14.1 002.14.3 002.14.4")
def end_dead(node: UOp) -> UOp | None:
    """Drop ranges that are values from an END; without iterations nothing happens."""
    effect, *ranges = node.src
    if any(is_empty(r) for r in ranges):
        return ops.NOOP()
    live = [r for r in ranges if not is_done(r)]
    if not live:
        return effect
    return None if len(live) == len(ranges) else effect.end(*live)


@procedure("reduce-dead", (ops.REDUCE,), seeds="002.14.5 002.14.6")
def reduce_dead(node: UOp) -> UOp | None:
    """Drop ranges that are values from a REDUCE; without iterations it is its identity."""
    value, *ranges = node.src
    if any(is_empty(r) for r in ranges):
        start = identity(node.arg, node.dtype)
        return None if start is None else UOp.const(node.dtype, start)
    live = [r for r in ranges if not is_done(r)]
    if len(live) == len(ranges):
        return None if ranges else value
    if not live and node.dtype.is_float and node.arg is ops.ADD:
        return value + 0.0
    return value.reduce(node.arg, *live) if live else value


@procedure("after-nothing", (ops.AFTER,), seeds="002.14.7")
def after_nothing(node: UOp) -> UOp | None:
    """What waits for nothing needs no AFTER."""
    return node.src[0] if len(node.src) == 1 else None


DEAD = RuleSet(
    "dead",
    theory=Theory.STRUCTURE,
    rules=(range_single, end_dead, reduce_dead, after_nothing),
)
