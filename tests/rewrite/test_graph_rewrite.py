"""Passes: what rules see, what a trace tells, and how rules that do not end are reported."""

from __future__ import annotations

from typing import Any

import pytest

from porism.base import dtypes
from porism.base.dtypes import Theory
from porism.base.errors import RewriteError
from porism.base.settings import settings
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.text.serialization import parse
from porism.ir.traversal import toposort
from porism.rewrite.graph_rewrite import normalize, rewrite
from porism.rewrite.rewrite_trace import Trace
from porism.rewrite.rule import RuleSet, procedure, rule
from porism.rewrite.terms import c0, c1, maximum, minimum, x, y
from porism.rules import rule_sets

assert rule_sets.ALGEBRA  # importing it installs it

INTEGERS = (Theory.INTEGERS, Theory.FIXED_WIDTH)
i, j = UOp.variable("i", 0, 9), UOp.variable("j", 0, 9)


def exact(op: Op, *src: UOp) -> UOp:
    return UOp(op, None, src)


def number(value: int) -> UOp:
    return UOp.const(dtypes.index, value)


def rules(**sides: tuple[Any, ...]) -> RuleSet:
    """A set of integer rules: name=(before, after, when?)."""
    return RuleSet(
        "test", theory=INTEGERS, rules=[rule(name, *parts) for name, parts in sides.items()]
    )


MAX_TO_MIN = rules(lower=(maximum(x, y), minimum(x, y)))
CHASE = rules(lower=(maximum(x, y), minimum(x, y)), lift=(minimum(x, y), maximum(x, y)))


# -- what a pass does ------------------------------------------------------------------------------


def test_rules_are_applied_everywhere_and_the_algebra_too() -> None:
    graph = exact(ops.ADD, exact(ops.MAX, i, j), exact(ops.MAX, i, i))
    assert rewrite(graph, MAX_TO_MIN) is minimum(i, j) + i


def test_what_a_rule_makes_is_rewritten_in_turn() -> None:
    both = rules(lower=(maximum(x, y), minimum(x, y)), less=(minimum(x, y), x * y))
    assert rewrite(exact(ops.MAX, i, j), both) is i * j


def test_a_graph_on_which_nothing_fires_is_the_same_object() -> None:
    graph = (i + j) * 3
    assert rewrite(graph, MAX_TO_MIN) is graph
    odd = exact(ops.ADD, exact(ops.ADD, i, number(0)), j)
    assert rewrite(odd, MAX_TO_MIN, exactly=True) is odd


def test_shared_nodes_are_rewritten_once() -> None:
    seen: list[UOp] = []

    @procedure("watch", (ops.MAX,))
    def watch(node: UOp) -> UOp | None:
        """Remember the nodes."""
        seen.append(node)
        return None

    shared = exact(ops.MAX, i, j)
    graph = exact(ops.SUB, exact(ops.MUL, shared, shared), exact(ops.IDIV, shared, number(3)))
    rewrite(graph, RuleSet("watching", theory=INTEGERS, rules=(watch,)))
    assert seen == [shared]


def test_exactly_leaves_the_algebra_out() -> None:
    graph = exact(ops.ADD, exact(ops.MAX, i, j), number(0))
    wanted = exact(ops.ADD, exact(ops.MIN, i, j), number(0))
    assert rewrite(graph, MAX_TO_MIN, exactly=True) is wanted
    assert rewrite(graph, MAX_TO_MIN) is minimum(i, j)


def test_rules_see_rewritten_sources_or_the_original_ones() -> None:
    inner = exact(ops.MAX, i, j)
    graph = exact(ops.IDIV, inner, number(3))
    watching = RuleSet(
        "test",
        theory=INTEGERS,
        rules=(
            rule("lower", maximum(x, y), minimum(x, y)),
            rule("over-max", maximum(x, y) // c0, x * y),
            rule("over-min", minimum(x, y) // c0, x - y),
        ),
    )
    after = rewrite(graph, watching)
    assert after.op is ops.SUB
    first, second = inner.src
    assert rewrite(graph, watching, see_original=True) is first * second


def test_what_is_made_of_original_nodes_is_visited() -> None:
    graph = exact(ops.IDIV, exact(ops.MAX, i, j), number(3))
    opened = RuleSet(
        "test",
        theory=INTEGERS,
        rules=(
            rule("open", x // c0, x * c0),
            rule("lower", maximum(x, y), minimum(x, y)),
        ),
    )
    assert rewrite(graph, opened, see_original=True) is minimum(i, j) * 3


def test_procedures_get_the_context() -> None:
    @procedure("look-up", (ops.VARIABLE,), with_context=True)
    def look_up(node: UOp, context: dict[str, int]) -> UOp | None:
        """Put in the value of a variable."""
        value = context.get(node.arg[0])
        return None if value is None else number(value)

    values = RuleSet("values", theory=INTEGERS, rules=(look_up,))
    graph = (i * 3 + j) // 4
    assert rewrite(graph, values, {"i": 5, "j": 3}) is number(4)
    assert rewrite(graph, values, {"i": 5}) is (j + 15) // 4
    assert rewrite(graph, values, {}) is graph


def test_rules_and_procedures_are_tried_in_order() -> None:
    @procedure("first", (ops.MAX,))
    def first(node: UOp) -> UOp | None:
        """Take the first operand."""
        return node.src[0]

    lower = rule("lower", maximum(x, y), x * y)
    graph = exact(ops.MAX, i, j)
    one = RuleSet("one", theory=INTEGERS, rules=(first, lower))
    other = RuleSet("other", theory=INTEGERS, rules=(lower, first))
    assert rewrite(graph, one) is i
    assert rewrite(graph, other) is i * j


# -- traces ----------------------------------------------------------------------------------------


def test_a_trace_tells_rule_before_after_and_stage() -> None:
    trace = Trace("stage one")
    graph = exact(ops.ADD, exact(ops.MAX, i, j), number(0))
    after = rewrite(graph, MAX_TO_MIN, trace=trace)
    assert after is minimum(i, j)
    steps = [(s.rule, s.before, s.after, s.stage) for s in trace.steps if s.rule != "commute"]
    assert steps == [
        ("lower", exact(ops.MAX, *minimum(i, j).src), minimum(i, j), "stage one"),
        ("add-zero", exact(ops.ADD, minimum(i, j), number(0)), minimum(i, j), "stage one"),
    ]


def test_with_and_without_a_trace_the_result_is_the_same() -> None:
    graph = exact(ops.ADD, exact(ops.MUL, exact(ops.ADD, i, i), number(1)), exact(ops.SUB, j, j))
    trace = Trace()
    assert normalize(graph, trace) is normalize(graph)
    assert set(trace.counts()) - {"commute"} == {"add-same", "mul-one", "sub-self", "add-zero"}
    assert str(trace).splitlines()[0].endswith("]")


def test_a_trace_of_exact_rewriting_has_no_algebra_in_it() -> None:
    trace = Trace()
    rewrite(exact(ops.ADD, exact(ops.MAX, i, j), number(0)), MAX_TO_MIN, exactly=True, trace=trace)
    assert trace.counts() == {"lower": 1}


# -- rules that do not end -------------------------------------------------------------------------


def reproducer(error: RewriteError) -> UOp:
    """The graph that an error tells to rewrite."""
    assert error.fix is not None
    return parse(error.fix.split("rewrite this graph:\n", 1)[1])


@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize("see_original", [False, True])
def test_rules_that_undo_each_other_are_reported(exactly: bool, see_original: bool) -> None:
    graph = exact(ops.IDIV, exact(ops.MAX, i, j), number(3))
    with pytest.raises(RewriteError) as caught:
        rewrite(graph, CHASE, exactly=exactly, see_original=see_original)
    error = caught.value
    assert error.what == "the rules of 'test' rewrite a node into itself"
    assert error.why is not None
    assert error.why.endswith("rules involved: lift, lower")
    with pytest.raises(RewriteError):
        rewrite(reproducer(error), CHASE, exactly=exactly, see_original=see_original)


def test_a_node_inside_its_own_replacement_is_reported() -> None:
    wrap = rules(wrap=(maximum(x, y), maximum(x, y) * 3))
    with pytest.raises(RewriteError, match="rewrite a node into itself") as caught:
        rewrite(exact(ops.MAX, i, j), wrap)
    assert "rules involved: wrap" in str(caught.value)
    assert reproducer(caught.value).op in (ops.MAX, ops.MUL)


def test_growth_without_end_is_reported() -> None:
    grow = rules(grow=(maximum(x, y), maximum(x + 1, y * 2)))
    with pytest.raises(RewriteError, match="the rules of 'test' do not come to an end") as caught:
        rewrite(exact(ops.MAX, i, j), grow, limit=5)
    assert "81 rewrites of a graph of 3 nodes; rules involved: grow" in str(caught.value)


def test_the_limit_is_a_setting() -> None:
    count = rules(count=(x % c0, x % (c0 - 1), c0 > 1))
    graph = exact(ops.MOD, UOp.variable("free"), number(200))
    assert rewrite(graph, count, exactly=True).src[1].arg == 1
    with settings.override(rewrite_limit=2), pytest.raises(RewriteError):
        rewrite(graph, count, exactly=True)
    with pytest.raises(RewriteError):
        rewrite(graph, count, exactly=True, limit=2)


def test_the_reproducer_of_a_larger_graph_parses_too() -> None:
    left: UOp = i
    for n in range(9):
        left = exact(ops.ADD, exact(ops.MUL, left, j), number(n))
    graph = exact(ops.MAX, left, j)
    with pytest.raises(RewriteError) as caught:
        rewrite(graph, CHASE, exactly=True)
    actual = reproducer(caught.value)
    assert actual.op in (ops.MAX, ops.MIN)
    assert len(toposort(actual)) > 25


def test_what_is_too_large_to_be_reproduced_is_shown() -> None:
    left: UOp = i
    for n in range(40):
        left = exact(ops.ADD, exact(ops.MUL, left, j), number(n))
    with pytest.raises(RewriteError, match=r"rewrite this graph:\n    m[axin]{2}\(\("):
        rewrite(exact(ops.MAX, left, j), CHASE, exactly=True)


def test_a_rule_that_gives_the_node_back_is_no_rewrite() -> None:
    @procedure("same", (ops.MAX,))
    def same(node: UOp) -> UOp | None:
        """Give it back."""
        return node

    graph = exact(ops.MAX, i, j)
    assert rewrite(graph, RuleSet("same", theory=INTEGERS, rules=(same,)), exactly=True) is graph


# -- depth -----------------------------------------------------------------------------------------

DEEP = 100_000


@pytest.mark.slow
@pytest.mark.parametrize("see_original", [False, True])
def test_a_deep_graph_is_rewritten(see_original: bool) -> None:
    graph: UOp = i
    for n in range(DEEP):
        graph = exact(ops.MAX if n % 2 else ops.SUB, graph, j)
    after = rewrite(graph, MAX_TO_MIN, exactly=True, see_original=see_original)
    actual = toposort(after)
    assert len(actual) == DEEP + 2
    assert sum(node.op is ops.MIN for node in actual) == DEEP // 2
    assert not any(node.op is ops.MAX for node in actual)


@pytest.mark.slow
def test_a_deep_graph_is_normalized_with_a_trace() -> None:
    graph: UOp = i
    for n in range(20_000):
        graph = exact(ops.ADD, graph, number(n % 3))
    trace = Trace()
    assert normalize(graph, trace) is normalize(graph)
    assert trace.counts()["add-chain"] > 10_000


def test_a_cycle_far_down_is_reported() -> None:
    graph = exact(ops.MAX, i, j)
    for _ in range(1000):
        graph = exact(ops.SUB, graph, j)
    with pytest.raises(RewriteError) as caught:
        rewrite(graph, CHASE, exactly=True)
    assert len(toposort(reproducer(caught.value))) == 3


def test_constants_in_order_of_the_rules() -> None:
    pair = rules(a=((x * c0) * c1, x * (c0 * c1)))
    graph = exact(ops.MUL, exact(ops.MUL, i, number(3)), number(4))
    assert rewrite(graph, pair, exactly=True) is exact(ops.MUL, i, number(12))
