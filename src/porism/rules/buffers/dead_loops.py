"""Dead loops: ranges of one iteration or of none, and AFTER without effects.

A range of one iteration is the constant 0, and its body runs once. A range of no iterations has no
value, so it is left alone, and its body does not run, whatever the other ranges are: an END becomes
NOOP, a REDUCE its identity.

A sum starts with 0, and 0 + -0 is 0: a float sum over one iteration is x + 0.
"""

from __future__ import annotations

from porism.base.dtypes import Theory
from porism.ir import ops
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.rewrite.rule import RuleSet, procedure


def has_no_iterations(node: UOp) -> bool:
    """Whether a range has no iterations."""
    return node.op is ops.RANGE and node.src[0].vmax <= 0


def is_constant(node: UOp) -> bool:
    """Whether a range of one iteration has been replaced by the constant 0."""
    return node.op is ops.CONST


@procedure("range-single", (ops.RANGE,), seeds="002.14.1 002.14.2")
def range_single(node: UOp) -> UOp | None:
    """Replace a range of one iteration by 0."""
    if len(node.src) > 1 or not node.src[0].vmin == 1 == node.src[0].vmax:
        return None
    return UOp.const(node.dtype, 0)


@procedure("end-dead", (ops.END,), seeds="002.14.1 002.14.3 002.14.4")
def end_dead(node: UOp) -> UOp | None:
    """Drop constants from the ranges of an END; make it a NOOP if a range has no iterations."""
    effect, *ranges = node.src
    if any(has_no_iterations(r) for r in ranges):
        return ops.NOOP()
    live = [r for r in ranges if not is_constant(r)]
    if not live:
        return effect
    return None if len(live) == len(ranges) else effect.end(*live)


@procedure("reduce-dead", (ops.REDUCE,), seeds="002.14.5 002.14.6")
def reduce_dead(node: UOp) -> UOp | None:
    """Drop constants from the ranges of a REDUCE; make it its identity without iterations."""
    value, *ranges = node.src
    if any(has_no_iterations(r) for r in ranges):
        start = identity(node.arg, node.dtype)
        return None if start is None else UOp.const(node.dtype, start)
    live = [r for r in ranges if not is_constant(r)]
    if len(live) == len(ranges):
        return None if ranges else value
    if not live and node.dtype.is_float and node.arg is ops.ADD:
        return value + 0.0
    return value.reduce(node.arg, *live) if live else value


@procedure("after-nothing", (ops.AFTER,), seeds="002.14.7")
def after_nothing(node: UOp) -> UOp | None:
    """Drop an AFTER that waits for no effect."""
    return node.src[0] if len(node.src) == 1 else None


DEAD_LOOPS = RuleSet(
    "dead",
    theory=Theory.STRUCTURE,
    rules=(range_single, end_dead, reduce_dead, after_nothing),
)
