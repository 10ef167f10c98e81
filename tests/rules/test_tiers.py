"""The named tiers: what they hold, and that a whole tier at once changes no value."""

from __future__ import annotations

import numpy as np
import pytest

from porism.base import dtypes
from porism.ir import ops
from porism.ir.node import UOp
from porism.prove.procedure_trials import difference
from porism.prove.rule_proof import Status, prove
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import Rule
from porism.rules.addresses.validity import VALIDITY
from porism.rules.algebra.fast_math_rules import FAST_MATH
from porism.rules.algebra.fast_math_rules import FAST_MATH as DECLARED
from porism.rules.rule_sets import ALGEBRA, EVERYTHING, SIMPLE, SYMBOLIC, SYMBOLIC_LATE
from tests.examples.example_graphs import A, X, made, masked, number
from tests.examples.procedure_examples import EXAMPLES

LOST = [made(ops.MUL, masked(A, X), number(0)), made(ops.MUL, number(0), masked(A, X))]
"""What construction makes 0 of before validity is looked at."""

TIERS = {"simple": SIMPLE, "symbolic": SYMBOLIC, "symbolic-late": SYMBOLIC_LATE}


def test_each_tier_holds_the_one_before() -> None:
    assert tuple(SYMBOLIC)[: len(SIMPLE)] == tuple(SIMPLE)
    assert tuple(SYMBOLIC_LATE)[: len(SYMBOLIC)] == tuple(SYMBOLIC)
    everything = set(EVERYTHING)
    for tier in (ALGEBRA, SYMBOLIC_LATE, FAST_MATH):
        assert set(tier) <= everything
    assert FAST_MATH is DECLARED


def test_validity_comes_first() -> None:
    made, later = ([item.name for item in tier] for tier in (ALGEBRA, SIMPLE))
    assert made[0] == "invalid-operand"
    assert all(name.startswith("invalid-") for name in (*made[:4], *later[:3]))


@pytest.mark.slow
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "cast-cast"])
def test_a_whole_tier_changes_no_example(name: str, tier: str) -> None:
    """All rules at once, as a stage applies them, with the algebra at construction."""
    done: dict[UOp, UOp] = {}
    for place, (graph, inputs) in enumerate(EXAMPLES[name]()):
        if place % 7 == 0 and graph not in LOST:
            after = done.get(graph)
            if after is None:
                after = done[graph] = rewrite(graph, TIERS[tier])
            assert not difference(graph, after, dict(inputs)), (graph, after)


@pytest.mark.parametrize("graph", LOST, ids=("on the left", "on the right"))
def test_a_masked_index_times_zero_stays_masked(graph: UOp) -> None:
    """The example of the seeds for why validity is first."""
    assert rewrite(graph, SIMPLE) is masked(A, number(0))


@pytest.mark.parametrize("graph", LOST, ids=("on the left", "on the right"))
def test_without_the_algebra_it_does(graph: UOp) -> None:
    after = rewrite(graph, VALIDITY, exactly=True)
    assert not difference(graph, after, {0: np.bool_(False), 3: 5})


def test_construction_leaves_loops_and_accesses_as_they_are() -> None:
    r = UOp.range(1, 0)
    memory = UOp(ops.PARAM, dtypes.f32.pointer(size=4), (), 0)
    nowhere = UOp(ops.INVALID, dtypes.index)
    store = memory.index(nowhere).store(UOp.const(dtypes.f32, 1.0))
    assert (r.op, store.op, store.end(r).op) == (ops.RANGE, ops.STORE, ops.END)


def test_every_rule_of_fast_math_that_changes_results_says_so() -> None:
    for item in FAST_MATH:
        assert isinstance(item, Rule)
        statuses = {result.status for result in prove(item).results}
        assert statuses == {Status.CHANGES if item.fast_math else Status.PROVED}, item.name


def test_divisions_that_are_not_looked_at_when_nodes_are_made() -> None:
    i, k = UOp.variable("i"), UOp(ops.PARAM, dtypes.i8, (), 0)
    assert rewrite(i // i, SIMPLE) is number(1)
    assert rewrite(i % i, SIMPLE) is number(0)
    assert rewrite(k // -1, SIMPLE) is -k
    word = UOp(ops.PARAM, dtypes.u8, (), 0)
    assert rewrite(word // 255, SIMPLE) is word // 255
    assert (number(0) // number(0)).op is ops.IDIV


def test_fast_math_is_applied_only_when_asked_for() -> None:
    x = UOp(ops.PARAM, dtypes.f32, (), 0)
    assert rewrite(x / x, SYMBOLIC_LATE).op is ops.FDIV
    assert rewrite(x / x, FAST_MATH) is UOp.const(dtypes.f32, 1.0)
    assert rewrite((x + 1.0) + 2.0, FAST_MATH) is x + 3.0
    assert rewrite((x - 1.0) - 2.0, FAST_MATH) is x - 3.0
    assert rewrite((x * 2.0) + (x * 3.0), FAST_MATH) is x * 5.0
