"""Specimens: for each rule a small graph on which it fires, and what it becomes.

A procedure has examples of its own. For a rule, constants and bounds are tried, the simplest first,
until the rule fires by itself at the root.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import product
from typing import Final

from porism.base import dtypes
from porism.base.dtypes import DType, Kind, Theory
from porism.base.errors import RewriteError
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.traversal import toposort
from porism.rewrite import terms
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rewrite_trace import Trace
from porism.rewrite.rule import Procedure, Rewrite, Rule, RuleSet
from porism.rules.examples.procedure_examples import EXAMPLES

Specimen = tuple[UOp, UOp]
"""A graph, and what a rule makes of it."""

TYPES: Final = {
    Theory.INTEGERS: dtypes.index,
    Theory.FIXED_WIDTH: dtypes.i32,
    Theory.FLOATS: dtypes.f32,
    Theory.BOOLEANS: dtypes.boolean,
}
"""The type in which a rule of a theory is shown."""

OTHER_TYPES: Final = (dtypes.i64, dtypes.index, dtypes.f64)
NUMBERS: Final = (4, 2, 8, 12, 3, 5, -4, -1, 1, 0)
BOUNDS: Final = ((0, 3), (0, 7), (1, 3), (4, 7), (0, 1), (-8, -5), (8, 15), None, (2, 2))
MOST_TRIED: Final = 20_000


def specimen(item: Rewrite) -> Specimen | None:
    """A graph on which a rule or procedure fires, and the result; None if none was found.

    >>> from porism.ir.text.expression import show
    >>> from porism.rules.algebra.divmod import DIVMOD
    >>> before, after = specimen(DIVMOD["mod-multiple"])
    >>> show(before), show(after)
    ('x * 4 % 2', '0')
    """
    rules = RuleSet(item.name, rules=(item,))
    for graph in _procedure_graphs(item) if isinstance(item, Procedure) else _graphs(item):
        after = fired(graph, rules)
        if after is not None:
            return graph, after
    return None


def fired(graph: UOp, rules: RuleSet) -> UOp | None:
    """What a graph becomes the first time that one of these rules fires at its root."""
    whole: UOp | None = None
    try:
        whole = rewrite(graph, rules, exactly=True, limit=1)
        if whole is graph:
            return None
    except RewriteError:  # a lemma may be applied without end
        pass
    trace = Trace()
    with suppress(RewriteError):
        rewrite(graph, rules, exactly=True, trace=trace, limit=1)
    return next((step.after for step in trace.steps if step.before is graph), whole)


def _procedure_graphs(item: Procedure) -> Iterator[UOp]:
    if item.name in EXAMPLES:
        yield from dict.fromkeys(graph for graph, _ in EXAMPLES[item.name]())
        return
    three, four = (UOp.const(dtypes.index, n) for n in (3, 4))
    yield UOp(ops.MUL, None, (three, four))
    pointers = tuple(UOp(ops.PARAM, dtypes.f32.pointer(size=4), (), n) for n in (0, 1))
    yield UOp(ops.GEP, None, (UOp(ops.PTRCAT, None, pointers),), (1,))


# -- of a rule -------------------------------------------------------------------------------------


def _graphs(item: Rule) -> Iterator[UOp]:
    """The left side of a rule, with values in its holes."""
    own = next((TYPES[theory] for theory in item.theories if theory in TYPES), dtypes.index)
    holes = list(terms.holes_of(item.before))
    free = [h for h in holes if not terms.is_constant_hole(h)]
    constants = [h for h in holes if terms.is_constant_hole(h)]
    sorts = {node.dtype for node in toposort(item.before, item.after)}
    others = OTHER_TYPES if terms.U in sorts else OTHER_TYPES[:1]
    parts = [item.after] if item.when is None else [item.after, item.when]
    asks = any(n.op is ops.FACT and n.arg in ("lo", "hi") for n in toposort(*parts))
    bounds = BOUNDS if asks else (None,)
    tried = 0
    for other in others:
        types = {terms.T: own, terms.U: other, terms.B: dtypes.boolean}
        for ends in product(bounds, repeat=len(free)):
            for numbers in _numbers(len(constants)):
                tried += 1
                if tried > MOST_TRIED:
                    return
                made = {}
                for place, (h, e) in enumerate(zip(free, ends, strict=True)):
                    made[h] = _variable(h, types[h.dtype], e, place)
                for h, n in zip(constants, numbers, strict=True):
                    made[h] = UOp.const(types[h.dtype], n)
                yield filled(item.before, made, types)


@cache
def _numbers(count: int) -> list[tuple[int, ...]]:
    """Values for so many constants, those that differ from each other first."""
    return sorted(product(NUMBERS, repeat=count), key=lambda found: -len(set(found)))


def _variable(hole: UOp, dtype: DType, ends: tuple[int, int] | None, place: int) -> UOp:
    if not dtype.is_integer:
        return raw(ops.PARAM, dtype, (), place)
    whole = (None, None) if dtype.kind is Kind.INDEX else (int(dtype.min), int(dtype.max))
    return raw(ops.VARIABLE, dtype, (), (hole.arg, *(whole if ends is None else ends)))


def filled(term: UOp, made: dict[UOp, UOp], types: Mapping[DType, DType]) -> UOp:
    """A term with these nodes for its holes, exactly as it is written."""
    for node in toposort(term):
        if node in made:
            continue
        dtype = types.get(node.dtype, node.dtype)
        if node.op is ops.CONST:
            made[node] = UOp.const(dtype, node.arg)
        else:
            kept = dtype if node.op in (ops.CAST, ops.BITCAST) else None
            made[node] = raw(node.op, kept, tuple(made[s] for s in node.src), node.arg)
    return made[term]
