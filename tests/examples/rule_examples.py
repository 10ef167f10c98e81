"""Examples of rules: for each rule a small graph on which it fires, and the result.

A procedure has examples of its own. For a rule, constants and bounds are tried, the simplest first,
until the rule fires by itself at the root.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import product
from typing import Final

from porism.base import dtypes
from porism.base.dtypes import DType, Kind
from porism.base.errors import RewriteError
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.traversal import toposort
from porism.rewrite import terms
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rewrite_trace import Trace
from porism.rewrite.rule import Procedure, Rewrite, Rule, RuleSet
from porism.rules.rule_instances import THEORY_TYPES, instantiate
from tests.examples.procedure_examples import EXAMPLES

OTHER_TYPES: Final = (dtypes.i64, dtypes.index, dtypes.f64)
"""The types that are tried for a second schema type of a rule."""

CONSTANTS: Final = (4, 2, 8, 12, 3, 5, -4, -1, 1, 0)
BOUNDS: Final = ((0, 3), (0, 7), (1, 3), (4, 7), (0, 1), (-8, -5), (8, 15), None, (2, 2))
MOST_INSTANCES: Final = 20_000
"""How many instances of a rule are tried at most; chosen by hand, a second or less."""


def rule_example(item: Rewrite) -> tuple[UOp, UOp] | None:
    """Return a graph on which a rule or procedure fires and the result; None if none was found.

    >>> from porism.ir.text.expression import show
    >>> from porism.rules.algebra.division import DIVMOD
    >>> before, after = rule_example(DIVMOD["mod-multiple"])
    >>> show(before), show(after)
    ('x * 4 % 2', '0')
    """
    rules = RuleSet(item.name, rules=(item,))
    for graph in _procedure_graphs(item) if isinstance(item, Procedure) else _instances(item):
        after = _rewritten_at_root(graph, rules)
        if after is not None:
            return graph, after
    return None


def _rewritten_at_root(graph: UOp, rules: RuleSet) -> UOp | None:
    """Return the graph after the first time that one of the rules fires at its root."""
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
    """Yield the graphs of a procedure's examples, or two for those that have none."""
    if item.name in EXAMPLES:
        yield from dict.fromkeys(graph for graph, _ in EXAMPLES[item.name]())
        return
    three, four = (UOp.const(dtypes.index, n) for n in (3, 4))
    yield UOp(ops.MUL, None, (three, four))
    pointers = tuple(UOp(ops.PARAM, dtypes.f32.pointer(size=4), (), n) for n in (0, 1))
    yield UOp(ops.GEP, None, (UOp(ops.PTRCAT, None, pointers),), (1,))


# -- instances of a rule ---------------------------------------------------------------------------


def _instances(item: Rule) -> Iterator[UOp]:
    """Yield the left side of a rule with variables and constants for its holes."""
    shown = [THEORY_TYPES[theory] for theory in item.theories if theory in THEORY_TYPES]
    own = next(iter(shown), dtypes.index)
    holes = list(terms.holes_of(item.before))
    free = [h for h in holes if not terms.is_constant_hole(h)]
    constants = [h for h in holes if terms.is_constant_hole(h)]
    schema_types = {node.dtype for node in toposort(item.before, item.after)}
    others = OTHER_TYPES if terms.U in schema_types else OTHER_TYPES[:1]
    parts = [item.after] if item.when is None else [item.after, item.when]
    asks_bounds = any(n.op is ops.FACT and n.arg in ("lo", "hi") for n in toposort(*parts))
    bounds = BOUNDS if asks_bounds else (None,)
    count = 0
    for other in others:
        types = {terms.T: own, terms.U: other, terms.B: dtypes.boolean}
        for chosen_bounds in product(bounds, repeat=len(free)):
            for values in _constant_values(len(constants)):
                count += 1
                if count > MOST_INSTANCES:
                    return
                nodes = {}
                for number, (h, ends) in enumerate(zip(free, chosen_bounds, strict=True)):
                    nodes[h] = _variable(h, types[h.dtype], ends, number)
                for h, value in zip(constants, values, strict=True):
                    nodes[h] = UOp.const(types[h.dtype], value)
                yield instantiate(item.before, nodes, types)


@cache
def _constant_values(count: int) -> list[tuple[int, ...]]:
    """Return values for `count` constants, those that differ from each other first."""
    return sorted(product(CONSTANTS, repeat=count), key=lambda values: -len(set(values)))


def _variable(hole: UOp, dtype: DType, ends: tuple[int, int] | None, number: int) -> UOp:
    """Return a variable within bounds; for floats and booleans a parameter."""
    if not dtype.is_integer:
        return raw(ops.PARAM, dtype, (), number)
    whole = (None, None) if dtype.kind is Kind.INDEX else (int(dtype.min), int(dtype.max))
    return raw(ops.VARIABLE, dtype, (), (hole.arg, *(whole if ends is None else ends)))
