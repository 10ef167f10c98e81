"""The algebra at construction: normal forms, its installation, deep nesting, threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from porism.base import dtypes
from porism.base.dtypes import Theory
from porism.ir import node as nodes
from porism.ir import ops
from porism.ir.node import UOp, construct
from porism.rewrite.construction import COMMUTE, Tracer, install, installed_rules
from porism.rewrite.graph_rewrite import normalize
from porism.rewrite.rewrite_trace import Trace
from porism.rewrite.rule import RuleSet, rule
from porism.rewrite.terms import c0, x, y
from porism.rules.rule_sets import ALGEBRA


@pytest.fixture(autouse=True)
def algebra() -> Iterator[None]:
    """Whatever a test installs, the algebra is there for the next one."""
    try:
        yield
    finally:
        if installed_rules() is not ALGEBRA:
            install(ALGEBRA)


def variables(count: int) -> list[UOp]:
    return [UOp.variable(f"v{n}", 0, 9) for n in range(count)]


DISTRIBUTE = RuleSet(
    "distribution",
    theory=Theory.INTEGERS,
    rules=(rule("distribute", (x + y) * c0, x * c0 + y * c0),),
)


# -- normal forms ----------------------------------------------------------------------------------


def test_what_is_made_is_in_normal_form() -> None:
    i, j = variables(2)
    assert i + 0 is i
    assert (i * 4 + j * 0) // 4 is i
    assert (i + 1) + 2 is i + 3
    assert i + j is j + i
    assert UOp(ops.ADD, None, (i, UOp.const(dtypes.index, 0))) is not i


def test_normal_forms_do_not_change_when_made_again() -> None:
    i, j = variables(2)
    for node in (i + j, (i * 3 + j) // 5, (i < j) & (j < i), i - j):
        assert construct(node.op, None, node.src) is node
        assert normalize(node) is node


def test_constants_stand_on_the_right() -> None:
    (i,) = variables(1)
    assert (3 + i).src[1].arg == 3
    assert (i * 3).src[1].arg == (3 * i).src[1].arg == 3


def test_floats_are_not_put_in_order() -> None:
    a, b = (UOp(ops.PARAM, dtypes.f32, (), n) for n in range(2))
    assert a + b is not b + a


def test_a_raw_node_stays_as_it_is() -> None:
    (i,) = variables(1)
    raw = UOp(ops.ADD, None, (i, UOp.const(dtypes.index, 0)))
    assert raw.op is ops.ADD
    assert i + 0 is i
    assert UOp(ops.ADD, None, (i, UOp.const(dtypes.index, 0))) is raw
    assert normalize(raw) is i


def test_no_rules_for_schema_types() -> None:
    assert (x + 0).op is ops.ADD


# -- installing ------------------------------------------------------------------------------------


def test_installing_gives_back_what_was_there() -> None:
    (i,) = variables(1)
    empty = RuleSet("none")
    before = install(empty)
    assert before is ALGEBRA
    assert installed_rules() is empty
    assert (i + 0).op is ops.ADD
    assert i + 0 is i + 0
    assert install(ALGEBRA) is empty
    assert i + 0 is i


def test_nodes_made_before_stay_equal_to_nodes_made_after() -> None:
    i, j = variables(2)
    total = i * 3 + j
    install(RuleSet("none"))
    assert UOp(total.op, None, total.src) is total
    install(ALGEBRA)
    assert i * 3 + j is total


def test_other_rules_give_other_normal_forms() -> None:
    i, j = variables(2)
    assert ((i + j) * 3).op is ops.MUL
    install(ALGEBRA + DISTRIBUTE)
    assert (i + j) * 3 is i * 3 + j * 3


# -- depth -----------------------------------------------------------------------------------------

LONG = 100_000


@pytest.mark.slow
def test_a_long_sum() -> None:
    terms = variables(LONG)
    total = terms[0] + 1
    for term in terms[1:]:
        total = total + term
    total = total + 2
    assert (total.vmin, total.vmax) == (3, 9 * LONG + 3)
    assert normalize(total) is total


@pytest.mark.slow
def test_a_long_sum_of_constants_is_one_constant() -> None:
    (i,) = variables(1)
    total = i
    for _ in range(LONG // 10):
        total = total + 1
    assert total is i + LONG // 10
    deep = i
    one = UOp.const(dtypes.index, 1)
    for _ in range(LONG):
        deep = UOp(ops.ADD, None, (deep, one))
    assert normalize(deep) is i + LONG


def distributed(terms: list[UOp]) -> UOp:
    total = terms[0] * 3
    for term in terms[1:]:
        total = total + term * 3
    return total


@pytest.mark.parametrize("count", [3, 50, 5_000])
def test_rules_that_nest_beyond_the_stack_agree_with_those_that_do_not(count: int) -> None:
    """Distributing over a sum makes the products inside each other's constructors."""
    install(ALGEBRA + DISTRIBUTE)
    terms = variables(count)
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    assert count < 1000 or count > sys.getrecursionlimit()
    assert total * 3 is distributed(terms)


@pytest.mark.parametrize("deepest", [0, 1, 2, 7])
def test_deep_and_shallow_construction_agree(deepest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine with a stack of its own is the same algebra, wherever it takes over."""
    terms = variables(40)

    def made() -> list[UOp]:
        install(ALGEBRA + DISTRIBUTE)  # forgets normal forms, keeps nodes
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return [total * 3, (total * 5 + terms[1]) // 5, (total + 7) % 3 < total * 2]

    wanted = made()
    monkeypatch.setattr(nodes, "DEEPEST", deepest)
    assert all(a is b for a, b in zip(made(), wanted, strict=True))


# -- traces ----------------------------------------------------------------------------------------


def test_a_tracer_makes_the_same_nodes_and_tells_how() -> None:
    i, j = variables(2)
    trace = Trace("test")
    tracer = Tracer(trace)
    made = tracer.build(ops.ADD, None, (tracer.build(ops.ADD, None, (i, i)), i))
    assert made is i + i + i
    assert [step.rule for step in trace.steps if step.rule != COMMUTE] == [
        "add-same",
        "add-multiple",
    ]
    assert str(trace.steps[0]) == "test: v0 + v0 -> v0 * 2  [add-same]"
    swapped = Trace()
    first, second = (i + j).src
    Tracer(swapped).build(ops.ADD, None, (second, first))
    assert swapped.counts() == {COMMUTE: 1}


# -- threads ---------------------------------------------------------------------------------------


def test_threads_make_the_same_nodes() -> None:
    """All at once, from nothing: equal structure is one object in all of them."""
    made: list[list[UOp]] = [[] for _ in range(8)]
    barrier = threading.Barrier(len(made))

    def work(out: list[UOp]) -> None:
        barrier.wait()
        terms = [UOp.variable(f"thread{n}", 0, 7) for n in range(20)]
        for n in range(400):
            a, b = terms[n % 20], terms[(n * 7 + 3) % 20]
            out.append(((a + b) * (n % 5 + 2) + a) // 4 + (b + a) % 3)

    threads = [threading.Thread(target=work, args=(out,)) for out in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert nodes._depth == 0
    for out in made[1:]:
        assert all(a is b for a, b in zip(out, made[0], strict=True))
