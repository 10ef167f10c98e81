"""Every row of the seed pages is implemented by a rule, a lemma or a step."""

from __future__ import annotations

from porism.base.dtypes import index
from porism.rewrite.construction import COMMUTE
from porism.rewrite.graph_rewrite import normalize
from porism.rewrite.rewrite_trace import Trace
from porism.rules.index.index_lemmas import LEMMAS
from porism.rules.rule_sets import EVERYTHING
from porism.rules.seed_rows import ROWS, STEPS, implementations
from tests.rules.expressions import parse, variable


def test_there_are_as_many_rows_as_the_pages_have() -> None:
    assert len(ROWS) == len(set(ROWS)) == 197


def test_every_row_is_implemented() -> None:
    missing = {row for row, names in implementations().items() if not names}
    assert not missing


def test_no_rule_names_a_row_that_does_not_exist() -> None:
    named = {row for item in (*EVERYTHING, *LEMMAS) for row in item.seeds}
    pages = {row for row in named if row.startswith(("000.", "002."))}
    assert pages <= set(ROWS)
    assert set(STEPS) <= set(ROWS)


def test_operands_are_put_in_order_by_a_step_of_that_name() -> None:
    """The rows 000.6.1 and 002.18.1, by structure instead of by id."""
    names = {name: variable(name, index, None, None, 0) for name in "ij"}
    one, other = parse("i * 8000 + j * 16", names), parse("j * 16 + i * 8000", names)
    assert one is not other
    assert normalize(one) is normalize(other)
    steps = []
    for graph in (one, other):
        trace = Trace()
        normalize(graph, trace)
        steps.append(trace.counts().get(COMMUTE, 0))
    assert sorted(steps) == [0, 1]
