"""Index edge examples: expressions at the limits of the normal form of index arithmetic.

Random expressions seldom have them: shifts by 0, by variables, and beyond the largest that is
followed; masks that are no power of two less one; products of high degree; remainders by sums;
deep nests of choices; equal parts of a condition.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.ops import Op
from porism.prove.lemma_instances import step_faults
from porism.rewrite.rewrite_trace import Trace
from porism.rules.index.extraction import construct_node
from porism.rules.index.nodes_to_forms import HIGHEST_DEGREE, LARGEST_SHIFT
from porism.rules.index.normalize import DEEPEST, Derivation, cost, simplify

Expression = tuple[UOp, list[UOp]]
"""An expression of type `index` or bool, and facts to assume."""

_A, _B, _C, _D = (UOp.variable(name, low, high) for name, low, high in (
    ("a", 0, 31), ("b", -8, 7), ("c", 0, 3), ("d", 1, 5)
))  # fmt: skip
_N, _M = UOp.variable("n", 1, 9), UOp.variable("m", 1, 4)
_LONG: Final = UOp.variable("long", 1, 99)
_FREE: Final = UOp.variable("free", None, None)
_WORD: Final = raw(ops.VARIABLE, dtypes.i32, (), ("word", 0, 9))
_WORDS: Final = raw(ops.LT, None, (_WORD, UOp.const(dtypes.i32, 4)), None)
"""A comparison of words, which is opaque."""


def _of(op: Op, *src: UOp | int) -> UOp:
    nodes = tuple(UOp.const(dtypes.index, s) if isinstance(s, int) else s for s in src)
    return raw(op, None, nodes, None)


def _sum(*parts: UOp | int) -> UOp:
    whole = parts[0]
    for part in parts[1:]:
        whole = _of(ops.ADD, whole, part)
    assert isinstance(whole, UOp)
    return whole


def _times(a: UOp | int, b: UOp | int) -> UOp:
    return _of(ops.MUL, a, b)


def edge_expressions() -> Iterator[Expression]:
    """Yield expressions, each with facts to assume."""
    for root in (*_bits(), *_products(), *_quotients(), *_remainders(), *_choices()):
        yield root, []
    for root in (*_conditions(), *_nests()):
        yield root, []
    yield from _under_facts()


def _bits() -> Iterator[UOp]:
    for a in (_A, _sum(_times(_A, 8), _B)):
        for by in (0, 1, 3, LARGEST_SHIFT - 1, LARGEST_SHIFT, LARGEST_SHIFT + 1, _C, -1):
            yield from (_of(ops.SHR, a, by), _of(ops.SHL, a, by))
            yield _sum(_of(ops.SHR, a, by), _of(ops.SHR, _B, by))
            yield _sum(_of(ops.SHL, a, by), _of(ops.SHL, _B, by), 1)
        for mask in (-8, -2, -1, 0, 1, 2, 3, 5, 6, 7, 8, _C):
            yield from (_of(ops.AND, a, mask), _sum(a, _of(ops.AND, a, mask)))
    huge = 1 << LARGEST_SHIFT
    yield from (_of(ops.SHR, _times(_A, huge), by) for by in (LARGEST_SHIFT, LARGEST_SHIFT + 1))
    yield from (_of(ops.NEG, a) for a in (_A, _sum(_A, _B), _of(ops.NEG, _A)))
    yield _sum(_of(ops.NEG, _A), _of(ops.NEG, _of(ops.SUB, _A, _times(3, _B))))
    for op in (ops.OR, ops.XOR):
        yield from (_of(op, _sum(_A, _A), _B), _sum(_of(op, _A, _sum(_B, 0)), 1))


def _products() -> Iterator[UOp]:
    power: UOp = _C
    for degree in range(2, HIGHEST_DEGREE + 3):
        power = _times(power, _C)
        if degree >= HIGHEST_DEGREE - 1:
            yield from (power, _sum(power, _times(power, -1), _A))
    wide = [UOp.variable(f"w{i}", 0, 2) for i in range(9)]
    for count in (7, 8, 9):
        yield _times(_sum(*wide[:count]), _sum(*wide[:8], 1))
    yield from (_times(3, _A), _times(_times(2, _A), _B), _times(_times(2, 3), _A), _times(0, _A))
    yield _times(_sum(_A, 1), _sum(_B, -1))


def _quotients() -> Iterator[UOp]:
    """Divisors that are constants only when they are computed, sums, products and negative."""
    for divisor in (
        _sum(2, 2),
        _times(1, 1),
        _sum(3, -4),
        _sum(_A, 4, _times(_A, -1)),
        _sum(1, -1),
    ):
        yield from (_of(op, _sum(_A, _B), divisor) for op in (ops.IDIV, ops.MOD))
    for a, divisor in itertools.product((_A, _FREE, _sum(_times(_A, _N), _B)), (_N, _sum(_N, _M))):
        yield from (_of(ops.IDIV, a, divisor), _of(ops.MOD, a, divisor))
    for factor, offset in ((2, 0), (4, 6), (6, 4), (2, 1)):
        above = _sum(_times(_A, factor), offset)
        yield from (_of(op, above, _times(_N, factor)) for op in (ops.IDIV, ops.MOD))
        shared = _sum(_times(_A, _N), offset)
        yield from (_of(op, shared, _times(_N, factor)) for op in (ops.IDIV, ops.MOD))
        yield _of(ops.IDIV, above, _times(_B, factor))
    for size in (3, 8, 12):
        yield _of(ops.IDIV, _sum(_FREE, _A), size)
        yield _of(ops.IDIV, UOp.variable("above", 2, None), size)
        yield _of(ops.IDIV, UOp.variable("below", None, 2), size)
        yield _of(ops.IDIV, _sum(_times(_A, size), _times(_C, size), 2), size)


def _remainders() -> Iterator[UOp]:
    """Remainders by forms: whole, scaled, and with a part missing or once too often."""
    for a, divisor in itertools.product((_A, _FREE), (_sum(_N, _M), _times(_N, 2), _N)):
        quotient = _of(ops.IDIV, a, divisor)
        yield from (_of(ops.MOD, a, divisor), _times(_of(ops.MOD, a, divisor), _C))
        yield from (_times(_C, _of(ops.MOD, a, divisor)), _times(_of(ops.MOD, a, divisor), 3))
        for part, factor in itertools.product((_N, _M, divisor, _sum(_N, _N, _N)), (-3, -2, -1, 1)):
            yield _sum(a, _times(_times(quotient, part), factor))
            yield _sum(_times(a, _C), _times(_times(_times(quotient, part), _C), factor))
    for size in (8, _N, _sum(_N, _M)):
        rest = _of(ops.MOD, _A, size)
        zero = _of(ops.NE, rest, 0)
        yield from (_of(ops.WHERE, zero, rest, -1), _of(ops.WHERE, zero, _sum(rest, 1), rest))
        yield from (_sum(rest, rest), _times(rest, rest), _of(ops.LT, rest, _sum(rest, _B)))
    rest = _of(ops.MOD, _FREE, _LONG)
    yield _sum(_of(ops.IDIV, rest, 8), _of(ops.IDIV, rest, 5))
    yield _sum(_of(ops.IDIV, rest, _sum(_N, _M)), _of(ops.IDIV, rest, _sum(_N, 3)))


# -- conditions ------------------------------------------------------------------------------------


def _conditions() -> Iterator[UOp]:
    low, high, other = _of(ops.LT, _A, 8), _of(ops.GE, _A, 3), _of(ops.EQ, _B, _C)
    either = _of(ops.OR, low, other)
    for part in (low, high, other, either, _WORDS, _of(ops.GE, _A, 0), _of(ops.LT, _A, 0)):
        yield from (part, _of(ops.NOT, part), _of(ops.XOR, part, other))
        for join in (ops.AND, ops.OR):
            yield from (_of(join, part, part), _of(join, part, high), _of(join, either, part))
            yield from (_of(join, _of(join, part, low), part), _of(join, part, _of(ops.NOT, part)))
    truth = raw(ops.CAST, dtypes.boolean, (_A,), None)
    yield from (_of(ops.AND, truth, high), _of(ops.AND, low, truth))
    # equal after they are divided by a common factor
    for op in (ops.NE, ops.EQ, ops.LT):
        first, second = _of(op, _A, 3), _of(op, _times(_A, 2), 6)
        yield from (_of(ops.AND, first, second), _of(ops.OR, first, second))
    yield from (_of(op, _sum(_times(_A, 4), _times(_B, 4)), 6) for op in (ops.EQ, ops.NE, ops.LE))
    yield _of(ops.LE, _of(ops.IDIV, _A, 8), _C)
    yield _of(ops.GE, _of(ops.IDIV, _A, 8), _C)


def _choices() -> Iterator[UOp]:
    low = _of(ops.LT, _A, 8)
    always, never = _of(ops.LT, _A, 100), _of(ops.LT, _A, 0)
    nothing = raw(ops.INVALID, dtypes.index, (), None)
    for condition in (low, always, never):
        for yes, no in ((3, _B), (_B, 3), (_sum(_A, _B), _A), (2, 5)):
            choice = _of(ops.WHERE, condition, yes, no)
            yield from (choice, _sum(choice, 1), _times(choice, choice))
            yield from (_of(ops.MAX, choice, _A), _of(ops.IDIV, choice, 4))
            yield _of(ops.WHERE, _of(ops.GE, _A, 3), choice, no)
            yield _of(ops.WHERE, _of(ops.GE, _A, 3), yes, choice)
        yield _of(ops.WHERE, condition, _of(ops.MOD, _A, 8), nothing)


def _nests() -> Iterator[UOp]:
    """Choices and conditions in one another, about as deep as they are followed."""
    for depth in range(DEEPEST - 2, DEEPEST + 3):
        chosen = other = added = _of(ops.MOD, _A, 32)
        inside = _of(ops.LT, chosen, 5)
        for level in range(depth):
            equal, differs = (_of(op, _LONG, level) for op in (ops.EQ, ops.NE))
            chosen = _of(ops.WHERE, differs, chosen, level)
            added = _sum(_of(ops.WHERE, differs, added, level), level)
            other = _of(ops.WHERE, equal, level, other)
            inside = _of(ops.NOT, inside) if level % 2 else _of(ops.OR, inside, equal)
        yield from (chosen, other, added, inside, _sum(other, 1))


def _under_facts() -> Iterator[Expression]:
    some = [UOp.variable(f"v{i}", 0, 1) for i in range(6)]
    fact = _of(ops.LE, _sum(*some), 3)
    for divisor, factor in ((8, 3), (16, 6), (16, 10), (12, 9)):
        for count in (3, 4, 5):
            scaled = _sum(*(_times(v, factor) for v in some[:count]), some[5])
            yield _of(ops.IDIV, scaled, divisor), [fact]
            yield _of(ops.MOD, scaled, divisor), [fact]
    yield _of(ops.IDIV, _A, 8), [_of(ops.AND, _of(ops.LT, _A, 8), _WORDS)]
    yield _of(ops.IDIV, _A, 8), [_of(ops.OR, _of(ops.LT, _A, 8), _WORDS)]
    yield _of(ops.IDIV, _sum(_A, _B), 8), [_of(ops.EQ, _A, _times(_B, -1))]
    yield _of(ops.IDIV, _sum(_A, _B), 8), [_of(ops.NE, _A, 3), _of(ops.LE, _sum(_A, _B), 7)]


# -- the whole simplification ----------------------------------------------------------------------


class Simplified(NamedTuple):
    """What becomes of an expression: by itself, with a trace, and with nodes of the caller."""

    plain: UOp
    traced: UOp
    made: UOp
    recorded: tuple[tuple[str, UOp, UOp], ...]
    """The steps of the trace: rule, before, and after."""


def simplified(root: UOp, facts: Sequence[UOp]) -> Simplified:
    """Simplify an expression in each way."""
    trace = Trace()
    traced = simplify(root, facts=facts, trace=trace)
    steps = tuple((step.rule, step.before, step.after) for step in trace.steps)
    made = simplify(root, facts=facts, make=construct_node)
    return Simplified(simplify(root, facts=facts), traced, made, steps)


def simplification_faults(root: UOp, facts: Sequence[UOp], done: Simplified) -> Iterator[str]:
    """Yield what is wrong with the simplifications of an expression."""
    for after in (done.plain, done.made):
        yield from step_faults(Derivation(root, after, facts, []))
    if cost(done.plain) > cost(root):
        yield f"{root!r} became {done.plain!r}, which is costlier"
    if done.traced is not done.plain:
        yield f"{root!r} became {done.plain!r}, and {done.traced!r} with a trace"
    last = [("index-normal-form", root, done.traced)] if done.traced is not root else []
    if [*done.recorded[-1:]] != last:
        yield f"{root!r} became {done.traced!r}, and {done.recorded[-1:]} was recorded"


def unchanged_expressions() -> Iterator[UOp]:
    """Yield expressions of other types, which are not simplified."""
    yield from (_WORD, raw(ops.SUB, None, (_WORD, _WORD), None))
