"""Random graphs under a whole tier: the same values before and after, and nothing left to do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from porism.base import dtypes
from porism.prove.procedure_trials import difference
from porism.rewrite.graph_rewrite import rewrite
from porism.rules.rule_sets import SYMBOLIC_LATE
from tests import graphs

SCALARS = (dtypes.index, dtypes.boolean, dtypes.i8, dtypes.u8, dtypes.i32, dtypes.f16, dtypes.f32)


@graphs.examples(150)
@given(st.data())
def test_expressions(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(SCALARS))
    lanes = data.draw(st.sampled_from((1, 1, 1, 4)))
    root = data.draw(graphs.expressions(dtype.vec(lanes)))
    inputs = {leaf: data.draw(graphs.values(leaf)) for leaf in graphs.leaves(root)}
    after = rewrite(root, SYMBOLIC_LATE)
    assert not difference(root, after, inputs), after
    assert rewrite(after, SYMBOLIC_LATE) is after


@graphs.examples(60)
@given(st.data())
def test_lanes(data: st.DataObject) -> None:
    """Graphs with vectors, pointers and unrolled axes come to an end, and stay there."""
    root = data.draw(graphs.lanes_graphs())
    after = rewrite(root, SYMBOLIC_LATE)
    assert rewrite(after, SYMBOLIC_LATE) is after


@graphs.examples(60)
@given(st.data())
def test_loops(data: st.DataObject) -> None:
    root = data.draw(st.one_of(graphs.ranged_graphs(), graphs.kernels()))
    after = rewrite(root, SYMBOLIC_LATE)
    assert rewrite(after, SYMBOLIC_LATE) is after
