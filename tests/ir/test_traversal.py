"""Walks: order, search, substitution and the ranges in scope, on small graphs and deep ones."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from porism.base import dtypes
from porism.base.dtypes import DType, Space
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp, raw
from porism.ir.ops import Op
from porism.ir.traversal import (
    backward_slice,
    find,
    rebuild,
    substitute,
    substitute_chained,
    toposort,
    users,
)
from tests import graphs


def make(op: Op, *src: UOp, dtype: DType | None = None, arg: Any = None) -> UOp:
    return raw(op, dtype, src, arg)


A, B, C = (UOp.variable(name, 0, 9) for name in "abc")
DEEP = 20_000


def deep_chain(leaf: UOp, length: int = DEEP) -> UOp:
    node = leaf
    for _ in range(length):
        node = make(ops.NEG, node)
    return node


# -- order -----------------------------------------------------------------------------------------


@given(graphs.any_graphs())
@graphs.examples(70)
def test_sources_come_before_users_and_each_node_once(root: UOp) -> None:
    order = toposort(root)
    place = {node: k for k, node in enumerate(order)}
    assert len(place) == len(order)
    assert order[-1] is root
    assert all(place[s] < place[node] for node in order for s in node.src)


def test_the_order_is_depth_first_from_the_left() -> None:
    total = make(ops.ADD, make(ops.MUL, A, B), make(ops.MUL, B, C))
    assert toposort(total) == [A, B, total.src[0], C, total.src[1], total]


def test_several_roots() -> None:
    left, right = make(ops.NEG, A), make(ops.ADD, A, B)
    assert toposort(left, right) == [A, left, B, right]
    assert toposort(left, left) == [A, left]
    assert toposort() == []


def test_within_cuts_the_walk() -> None:
    inner = make(ops.MUL, A, B)
    outer = make(ops.ADD, inner, C)
    assert toposort(outer, within=lambda n: n is not inner) == [C, outer]
    assert toposort(outer, within=lambda n: False) == []


def test_backward_slice_is_all_but_the_root() -> None:
    inner = make(ops.MUL, A, B)
    outer = make(ops.ADD, inner, A)
    assert list(backward_slice(outer)) == [A, B, inner]
    assert list(backward_slice(A)) == []


def test_find() -> None:
    outer = make(ops.ADD, make(ops.MUL, A, B), make(ops.MUL, B, C))
    assert list(find(outer, lambda n: n.op is ops.MUL)) == list(outer.src)


def test_users_are_listed_once() -> None:
    square = make(ops.MUL, A, A)
    total = make(ops.ADD, square, A)
    assert users(total) == {A: [square, total], square: [total], total: []}
    other = make(ops.NEG, A)
    assert users(total, other)[A] == [square, total, other]


@given(graphs.any_graphs())
@graphs.examples(60)
def test_users_are_the_edges_backwards(root: UOp) -> None:
    forward = {(node, s) for node in toposort(root) for s in node.src}
    backward = {(user, node) for node, actual in users(root).items() for user in actual}
    assert forward == backward


# -- substitution ----------------------------------------------------------------------------------


def test_all_replacements_happen_at_once() -> None:
    root = make(ops.SUB, A, B)
    swapped = substitute(root, {A: B, B: A}, exactly=True)
    assert swapped is make(ops.SUB, B, A)


def test_replacements_are_not_searched_again() -> None:
    grown = make(ops.ADD, A, C)
    root = make(ops.MUL, A, B)
    assert substitute(root, {A: grown}, exactly=True) is make(ops.MUL, grown, B)
    assert substitute(root, {A: B, B: C}, exactly=True) is make(ops.MUL, B, C)


def test_an_inner_node_or_the_root_can_be_replaced() -> None:
    inner = make(ops.MUL, A, B)
    root = make(ops.ADD, inner, A)
    assert substitute(root, {inner: C}, exactly=True) is make(ops.ADD, C, A)
    assert substitute(root, {inner: C, A: B}, exactly=True) is make(ops.ADD, C, B)
    assert substitute(root, {root: C}) is C
    assert substitute(root, {}) is root


def test_what_does_not_change_stays_the_same_node() -> None:
    left, right = make(ops.NEG, A), make(ops.MUL, B, C)
    root = make(ops.ADD, left, right)
    assert substitute(root, {A: C}, exactly=True).src[1] is right


def test_dtypes_that_do_not_follow_are_kept() -> None:
    pointer = make(ops.PARAM, dtype=dtypes.f32.pointer(Space.GLOBAL, 8), arg=0)
    wide = make(ops.INDEX, pointer, A, dtype=pointer.dtype)
    cast = make(ops.CAST, make(ops.LOAD, wide), dtype=dtypes.bf16)
    for exactly in (True, False):
        actual = substitute(cast, {A: B}, exactly=exactly)
        assert [n.dtype for n in toposort(actual)] == [n.dtype for n in toposort(cast)]
        assert A not in toposort(actual)


@given(st.data())
@graphs.examples(60)
def test_renaming_there_and_back(data: st.DataObject) -> None:
    root = data.draw(graphs.any_graphs())
    leaves = [n for n in toposort(root) if n.op is ops.VARIABLE and n.dtype is dtypes.index]
    others = {n: UOp.variable(f"new_{n.arg[0]}", *n.arg[1:]) for n in leaves}
    there = substitute(root, others, exactly=True)
    back = substitute(there, {new: old for old, new in others.items()}, exactly=True)
    assert back is root
    assert not leaves or there is not root


def test_rebuild_visits_sources_first() -> None:
    seen: list[UOp] = []

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        seen.append(node)
        return C if node is A else (raw(node.op, None, src, None) if src else node)

    root = make(ops.ADD, make(ops.NEG, A), B)
    assert rebuild(root, change) is make(ops.ADD, make(ops.NEG, C), B)
    assert seen == toposort(root)


# -- ranges in scope -------------------------------------------------------------------------------


def axes(node: UOp) -> list[tuple[int, ...]]:
    return [r.arg[0] for r in node.ranges]


R0, R1, R2 = UOp.range(4, 0), UOp.range(5, 1), UOp.range(6, 2, Axis.REDUCE)


def test_a_value_is_in_the_scope_of_what_it_depends_on() -> None:
    assert axes(A) == []
    assert axes(R0) == [(0,)]
    assert axes(make(ops.ADD, R1, make(ops.MUL, R0, A))) == [(0,), (1,)]
    assert axes(make(ops.ADD, R1, R0)) == [(0,), (1,)]


def test_reduce_end_and_bufferize_close_their_ranges() -> None:
    value = make(ops.ADD, make(ops.MUL, R0, R1), R2)
    assert axes(make(ops.REDUCE, value, R2, arg=ops.ADD)) == [(0,), (1,)]
    assert axes(make(ops.REDUCE, value, R2, R1, arg=ops.ADD)) == [(0,)]
    assert axes(make(ops.BUFFERIZE, value, R0, R1, R2, arg=Space.GLOBAL)) == []
    pointer = make(ops.PARAM, dtype=dtypes.index.pointer(), arg=0)
    store = make(ops.STORE, make(ops.INDEX, pointer, R0), value)
    assert axes(store) == [(0,), (1,), (2,)]
    assert axes(make(ops.END, store, R0, R1)) == [(2,)]
    assert axes(make(ops.END, make(ops.END, store, R0, R1), R2)) == []


def test_a_closed_range_comes_back_where_it_is_used_again() -> None:
    total = make(ops.REDUCE, make(ops.MUL, R0, R2), R2, arg=ops.ADD)
    assert axes(make(ops.ADD, total, R2)) == [(0,), (2,)]


def test_a_range_depends_on_the_ranges_of_its_end() -> None:
    inner = UOp.range(make(ops.ADD, R0, R0.lift(1)), 3)
    assert axes(inner) == [(0,), (3,)]
    pointer = make(ops.PARAM, dtype=dtypes.index.pointer(), arg=0)
    store = make(ops.STORE, make(ops.INDEX, pointer, inner), inner)
    assert axes(make(ops.END, store, inner)) == [(0,)]


def test_equal_scopes_are_one_tuple() -> None:
    node = make(ops.ADD, R0, R1)
    above = make(ops.NEG, node)
    assert above.ranges is node.ranges


def naive_ranges(root: UOp) -> set[UOp]:
    actual: dict[UOp, set[UOp]] = {}
    for node in toposort(root):
        scope = set().union(*(actual[s] for s in node.src)) if node.src else set()
        if node.op is ops.RANGE:
            scope.add(node)
        if node.op in (ops.END, ops.REDUCE, ops.BUFFERIZE):
            scope -= set(node.src[1:])
        actual[node] = scope
    return actual[root]


@given(graphs.any_graphs())
@graphs.examples(70)
def test_ranges_are_those_of_the_definition(root: UOp) -> None:
    for node in toposort(root):
        assert set(node.ranges) == naive_ranges(node)
        keys = [(r.arg[0], r.arg[1].value) for r in node.ranges]
        assert keys == sorted(keys)


# -- deep graphs and other processes ---------------------------------------------------------------


def test_deep_graphs() -> None:
    root = deep_chain(R0)
    assert len(toposort(root)) == DEEP + 2
    assert len(backward_slice(root)) == DEEP + 1
    assert root.ranges == (R0,)
    assert len(users(root)) == DEEP + 2
    moved = substitute(root, {R0: R1}, exactly=True)
    assert moved.ranges == (R1,)
    assert substitute(moved, {R1: R0}, exactly=True) is root


ORDER_SCRIPT = """
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.traversal import toposort, users
x = [UOp.variable(f"v{k}", 0, k) for k in range(20)]
node = x[0]
for k in range(60):
    node = raw((ops.ADD, ops.MUL, ops.MAX)[k % 3], None, (node, x[k * 7 % 20]), None)
print([n.arg or n.op.name for n in toposort(node)])
print([(n.arg or n.op.name, len(u)) for n, u in users(node).items()])
"""


def test_walks_are_the_same_in_every_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", ORDER_SCRIPT],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(outputs) == 1


def test_chained_replacements_are_visited_once() -> None:
    """A chain of variables, each defined by the one before, is resolved in one walk."""
    first = variable = UOp.variable("v0", 0, 9)
    values = {}
    for k in range(1, 400):
        before, variable = variable, UOp.variable(f"v{k}", 0, 10_000)
        values[variable] = before.maximum(k)
    expected = first
    for k in range(1, 400):
        expected = expected.maximum(k)
    result = substitute_chained(make(ops.SINK, variable, first), values)
    assert result.src == (expected, first)
    assert substitute_chained(variable, values) is expected, "the root is replaced too"
    assert substitute_chained(first, values) is first
