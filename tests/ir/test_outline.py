"""The outline of a graph: each node once, what is known of it, and never too much."""

from __future__ import annotations

import time

from hypothesis import given

from porism.base import dtypes
from porism.base.dtypes import Space
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.text.outline import describe, tree
from porism.ir.traversal import toposort
from tests import graphs


def node(op: ops.Op, *src: UOp) -> UOp:
    return raw(op, None, src, None)


def test_a_kernel() -> None:
    i = UOp.range(8, 0)
    index = node(ops.ADD, node(ops.MUL, i, i.lift(4)), i.lift(3))
    pointer = raw(ops.PARAM, dtypes.f32.pointer(Space.GLOBAL, 64), (), 0)
    store = node(ops.STORE, node(ops.INDEX, pointer, index), raw(ops.CAST, dtypes.f32, (i,), None))
    assert tree(node(ops.SINK, node(ops.END, store, i))).splitlines() == [
        "%0 SINK void",
        "└─ %1 END void",
        "   ├─ %2 STORE void",
        "   │  ├─ %3 INDEX f32",
        "   │  │  ├─ %4 PARAM f32*global[64]  [0]",
        "   │  │  └─ %5 ADD index  3…31  ≡ 3 (mod 4)",
        "   │  │     ├─ %6 MUL index  0…28  ≡ 0 (mod 4)",
        "   │  │     │  ├─ %7 RANGE index  [((0,), axis.loop)]  0…7",
        "   │  │     │  │  └─ 8 index",
        "   │  │     │  └─ 4 index",
        "   │  │     └─ 3 index",
        "   │  └─ %8 CAST f32",
        "   │     └─ %7 ↑ r0",
        "   └─ %7 ↑ r0",
    ]


def test_what_is_known_is_said_where_it_says_something() -> None:
    assert describe(UOp.variable("x")) == 'VARIABLE index  [("x", none, none)]'
    assert describe(UOp.variable("x", 2)).endswith("≥ 2")
    assert describe(UOp.variable("x", None, 5)).endswith("≤ 5")
    assert describe(UOp.variable("x", 3, 3)).endswith("= 3")
    assert describe(UOp.variable("x", 0, 10**30)).endswith("  0…about 2^99")
    byte = raw(ops.PARAM, dtypes.u8, (), 0)
    assert describe(byte) == "PARAM u8  [0]"
    assert describe(node(ops.SHR, byte, byte.lift(4))) == "SHR u8  ≤ 15"
    assert describe(node(ops.LT, byte, byte)) == "LT bool  = 0"
    assert describe(node(ops.LT, byte, byte.lift(4))) == "LT bool"
    assert describe(raw(ops.PARAM, dtypes.f32, (), 0)) == "PARAM f32  [0]"


def test_long_arguments_are_cut() -> None:
    long = raw(ops.SINK, None, (), "x" * 1000)
    assert len(describe(long)) < 120
    assert describe(long).endswith("…]")


def chain(length: int) -> UOp:
    x = UOp.variable("x", 0, 9)
    for _ in range(length):
        x = node(ops.ADD, x, x.lift(1))
    return x


def test_what_is_too_deep_is_left_out() -> None:
    lines = tree(chain(10), depth=2).splitlines()
    assert lines == [
        "%0 ADD index  10…19",
        "├─ %1 ADD index  9…18",
        "│  ├─ %2 ADD index  8…17  …",
        "│  └─ 1 index",
        "└─ 1 index",
        "… 8 more nodes",
    ]


def test_what_is_too_much_is_left_out() -> None:
    many = node(ops.VECTORIZE, *[UOp.variable(f"x{k}") for k in range(100)])
    lines = tree(many, lines=5).splitlines()
    assert len(lines) == 6
    assert lines[-1] == "… 96 more nodes"


def test_a_huge_graph_is_quick() -> None:
    deep = chain(40_000)
    start = time.perf_counter()
    text = tree(deep)
    assert time.perf_counter() - start < 5
    assert len(text) < 40_000
    assert text.splitlines()[-1] == f"… {40_002 - 42} more nodes"
    shared = UOp.variable("x")
    for _ in range(10_000):
        shared = node(ops.MUL, shared, shared)
    assert len(tree(shared).splitlines()) == 40 * 2 + 2


@given(graphs.any_graphs())
@graphs.examples(80)
def test_every_node_is_there_once(root: UOp) -> None:
    lines = tree(root, depth=1000, lines=100_000).splitlines()
    bare = [line.lstrip("│├└─ ") for line in lines]
    numbered = [line.split(" ", 1)[0] for line in bare if line[0] == "%" and "↑" not in line]
    assert numbered == [f"%{n}" for n in range(len(numbered))]
    assert len(numbered) == sum(n.op is not ops.CONST for n in toposort(root))
