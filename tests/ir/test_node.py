"""Nodes: equal structure is one object in every thread; none can change; dead ones are freed."""

from __future__ import annotations

import copy
import gc
import itertools
import math
import pickle
import random
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given

from porism.base import dtypes
from porism.base.dtypes import DType, Space
from porism.base.errors import TypeMismatch
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp, construct, raw
from porism.ir.node_collector import live_nodes, quiet_collector, sweep
from porism.ir.ops import Op
from porism.ir.text.serialization import parse, to_text
from porism.ir.traversal import substitute, toposort
from tests import graphs


def make(op: Op, *src: UOp, dtype: DType | None = None, arg: Any = None) -> UOp:
    return raw(op, dtype, src, arg)


# -- identity --------------------------------------------------------------------------------------


def test_equal_structure_is_the_same_object() -> None:
    x, y = UOp.variable("x", 0, 9), UOp.variable("y", 0, 9)
    assert UOp.variable("x", 0, 9) is x
    assert UOp.variable("x", 0, 8) is not x
    assert make(ops.ADD, x, y) is make(ops.ADD, x, y)
    assert make(ops.ADD, x, y) is not make(ops.ADD, y, x)
    assert make(ops.SUB, x, y) is not make(ops.ADD, x, y)
    assert UOp(ops.ADD, None, (x, y)) is make(ops.ADD, x, y)
    assert UOp(ops.ADD, dtypes.index, (x, y)) is make(ops.ADD, x, y)
    assert (x + y) is construct(ops.ADD, None, (x, y), None)
    assert ops.MAX(x, y) is x.maximum(y)


def test_dtype_and_argument_are_part_of_the_structure() -> None:
    x = UOp.variable("x", 0, 9)
    assert make(ops.CAST, x, dtype=dtypes.i8) is not make(ops.CAST, x, dtype=dtypes.i16)
    assert UOp.range(4, 0) is UOp.range(4, (0,))
    assert UOp.range(4, 0) is not UOp.range(4, 1)
    assert UOp.range(4, 0) is not UOp.range(4, 0, Axis.REDUCE)
    pointer = make(ops.PARAM, dtype=dtypes.f32.pointer(Space.GLOBAL, 4), arg=0)
    assert make(ops.INDEX, pointer, x) is not make(ops.INDEX, pointer, x, dtype=pointer.dtype)


def test_constants_that_python_calls_equal_are_told_apart() -> None:
    t = dtypes.f64
    values = [0.0, -0.0, math.nan, -math.nan, 1.0, math.inf]
    nodes = [UOp.const(t, v) for v in values]
    assert len(set(nodes)) == len(values)
    (other,) = struct.unpack("d", struct.pack("Q", 0x7FF800000000BEEF))
    assert UOp.const(t, math.nan) is UOp.const(t, other)
    assert UOp.const(t, 1) is UOp.const(t, 1.0)
    untyped = [make(ops.CONST, dtype=dtypes.schema, arg=v) for v in (True, 1, 1.0, 0, 0.0, -0.0)]
    assert len(set(untyped)) == 6
    assert UOp.const(dtypes.index, 1) is not UOp.const(dtypes.i32, 1)
    lanes = [
        make(ops.VCONST, dtype=t.vec(2), arg=arg) for arg in ((0.0, 1.0), (-0.0, 1.0), (0.0, 1))
    ]
    assert lanes[0] is not lanes[1]
    assert lanes[0] is lanes[2]


def test_constants_are_canonical() -> None:
    assert UOp.const(dtypes.i8, 200) is UOp.const(dtypes.i8, -56)
    assert make(ops.CONST, dtype=dtypes.i8, arg=200) is UOp.const(dtypes.i8, -56)
    assert UOp.const(dtypes.f16, 0.1) is UOp.const(dtypes.f16, np.float16(0.1))
    assert UOp.const(dtypes.index, np.int64(7)) is UOp.const(dtypes.index, 7)
    assert UOp.const(dtypes.boolean, 1) is UOp.const(dtypes.boolean, True)
    assert UOp.const(dtypes.index, 4.0) is UOp.const(dtypes.index, 4)
    assert type(UOp.const(dtypes.index, True).arg) is int


@given(graphs.any_graphs())
@graphs.examples(60)
def test_made_again_is_the_same(root: UOp) -> None:
    again: dict[UOp, UOp] = {}
    for node in toposort(root):
        src = tuple(again[s] for s in node.src)
        again[node] = raw(node.op, node.dtype, src, node.arg)
    assert again[root] is root


# -- immutability ----------------------------------------------------------------------------------


def test_nothing_can_be_changed() -> None:
    x = UOp.variable("x", 0, 9)
    for name in ("op", "dtype", "src", "arg", "vmin", "key", "_key", "anything"):
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(x, name, None)
    with pytest.raises(AttributeError, match="cannot be changed"):
        del x.src
    assert copy.copy(x) is x
    assert copy.deepcopy([x])[0] is x
    with pytest.raises(TypeError, match=r"porism\.ir\.text"):
        pickle.dumps(x)
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(x < 3)


# -- errors ----------------------------------------------------------------------------------------

X: Final = UOp.variable("x", 0, 9)
F: Final = make(ops.PARAM, dtype=dtypes.f32, arg=0)
FLAG: Final = make(ops.PARAM, dtype=dtypes.boolean, arg=0)
PLACE: Final = make(ops.PARAM, dtype=dtypes.f32.pointer(Space.GLOBAL, 4), arg=0)

MISTAKES: Final[list[tuple[Callable[[], UOp], str]]] = [
    (lambda: make(ops.ADD, X), "it takes 2 sources, got 1"),
    (lambda: make(ops.END), "it takes at least 1 sources, got 0"),
    (lambda: make(ops.ADD, X, F), "its operands have different types, index and f32"),
    (lambda: make(ops.ADD, X, 3), "its source 3 is a int, not a UOp"),  # type: ignore[arg-type]
    (lambda: make(ops.ADD, X, X, arg=1), "it takes no argument, got 1"),
    (lambda: make(ops.ADD, X, X, dtype=dtypes.f32), "its type is index, not f32"),
    (lambda: make(ops.ADD, FLAG, FLAG), "it works on numbers, not on bool"),
    (lambda: make(ops.IDIV, F, F), "it works on integers, not on f32"),
    (lambda: make(ops.FDIV, X, X), "it works on floats, not on index"),
    (lambda: make(ops.AND, F, F), "it works on integers and booleans, not on f32"),
    (lambda: make(ops.LT, PLACE, PLACE), "it works on values"),
    (lambda: make(ops.WHERE, X, X, X), "its condition is index"),
    (lambda: make(ops.THREEFRY, X, X), "it works on u64"),
    (lambda: make(ops.CAST, X), "its dtype must be given"),
    (lambda: make(ops.CAST, X, dtype=dtypes.f32.vec(2)), "different numbers of lanes"),
    (lambda: make(ops.CAST, X, dtype=dtypes.void), "there is no conversion of index to void"),
    (lambda: make(ops.BITCAST, F, dtype=dtypes.f64), "f32 and f64 differ in size"),
    (lambda: make(ops.CONST, dtype=dtypes.void, arg=1), "a constant has a value type"),
    (lambda: make(ops.CONST, dtype=dtypes.f32, arg="x"), "its argument is a number, not 'x'"),
    (lambda: make(ops.VCONST, dtype=dtypes.f32.vec(2), arg=(1.0,)), "a tuple of 2 numbers"),
    (lambda: make(ops.VARIABLE, arg="x"), "(name, lowest, highest)"),
    (lambda: UOp.variable("x", 3, 2), "the bounds 3..2 are empty"),
    (lambda: make(ops.VARIABLE, dtype=dtypes.i8, arg=("x", 0, 200)), "200 is no bound of i8"),
    (lambda: make(ops.RANGE, X, arg=0), "its argument is (axis, kind), not 0"),
    (lambda: make(ops.RANGE, F, arg=((0,), Axis.LOOP)), "its end is an integer, not f32"),
    (lambda: make(ops.PARAM, dtype=dtypes.f32, arg=-1), "its argument is its number, not -1"),
    (lambda: make(ops.PARAM, X, dtype=PLACE.dtype, arg=0), "a pointer has no dimensions"),
    (lambda: make(ops.DEFINE_REG, dtype=dtypes.f32, arg=0), "a sized pointer to register memory"),
    (lambda: make(ops.INDEX, PLACE, F), "an index is an integer, not f32"),
    (lambda: make(ops.INDEX, PLACE, X, dtype=dtypes.i8), "an element of it is f32, not i8"),
    (lambda: make(ops.LOAD, F), "it loads from a pointer, not f32"),
    (lambda: make(ops.LOAD, PLACE, X), "its alternative is index, not f32"),
    (lambda: make(ops.STORE, PLACE, X), "index does not go into f32*global[4]"),
    (lambda: make(ops.IF, X), "its condition is a bool"),
    (lambda: make(ops.ENDIF, X), "its first source is an IF"),
    (lambda: make(ops.PERMUTE, F, arg=(0, 2)), "an order of all axes, not (0, 2)"),
    (lambda: make(ops.PERMUTE, F, arg=("a", 0)), "an order of all axes"),
    (lambda: make(ops.FLIP, F, arg=(1, 0)), "its argument is sorted axes"),
    (lambda: make(ops.REDUCE_AXIS, F, arg=(ops.SUB, (0,))), "it reduces by ADD"),
    (lambda: make(ops.REDUCE, F, F, arg=ops.ADD), "it reduces over ranges, not f32"),
    (lambda: make(ops.VECTORIZE, make(ops.VECTORIZE, F, F)), "it takes scalars, not f32x2"),
    (lambda: make(ops.GEP, make(ops.VECTORIZE, F, F), arg=(2,)), "f32x2 has no lane 2"),
    (lambda: make(ops.CAT, F, X), "index beside f32"),
    (lambda: make(ops.UNROLL, F, arg=((0, 2),)), "1 lanes do not divide into 2"),
    (lambda: make(ops.CONTRACT, F, arg=((0, 0),)), "an axis has a size, not 0"),
    (lambda: make(ops.HOLE, dtype=dtypes.f32, arg="x"), "a hole has a schema type"),
]


@pytest.mark.parametrize(("build", "why"), MISTAKES, ids=[why for _, why in MISTAKES])
def test_mistakes_are_explained(build: Callable[[], UOp], why: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        build()
    assert caught.value.why is not None
    assert why in caught.value.why
    assert caught.value.what.endswith("cannot be made of these sources")
    assert caught.value.where is not None


def test_a_whole_message() -> None:
    with pytest.raises(TypeMismatch) as caught:
        make(ops.REDUCE, F, X, arg=ops.SUB)
    assert str(caught.value) == (
        "REDUCE cannot be made of these sources\n"
        "  where: REDUCE(PARAM, VARIABLE) with argument SUB\n"
        "  why: it reduces by ADD, MUL, MAX, MIN, AND, OR, not by SUB"
    )


def test_a_very_long_number_in_a_message() -> None:
    huge = 1 << 100_000
    assert make(ops.CONST, dtype=dtypes.index, arg=huge).arg == huge
    with pytest.raises(TypeMismatch, match="cannot be made"):
        make(ops.VARIABLE, arg=("x", huge, 0))
    with pytest.raises(TypeMismatch, match="cannot be made"):
        make(ops.ADD, X, X, arg=huge)


# -- keys and order --------------------------------------------------------------------------------

# Keys name files of caches: a change of one makes all caches of users useless.
KNOWN_KEYS: Final = {
    "%0 = CONST index [4]": "074fb548192fd490018cfc5efb459df0",
    "%0 = CONST f32 [-0.0]": "909de753fb618276040ffc104ddaf305",
    "%0 = CONST bool [true]": "21e9988234ea0922033428eef2c5ae8c",
    '%0 = VARIABLE index [("x", 0, 9)]': "2531a53719765a482d90d03e4395483c",
    '%0 = VARIABLE index [("x", 0, 9)]\n%1 = ADD index %0 4:index': (
        "4edaa0d1bd8aa6a63b384475aca0d218"
    ),
    "%0 = RANGE index 8:index [((0, 1), axis.loop)]": "d7d415f77755c6a687eeee93d98afb77",
}


@pytest.mark.parametrize(("text", "key"), KNOWN_KEYS.items(), ids=range(len(KNOWN_KEYS)))
def test_known_keys(text: str, key: str) -> None:
    assert parse(text).key.hex() == key


def test_known_orders() -> None:
    assert UOp.const(dtypes.index, 4).order == 6289264438836047198
    assert UOp.const(dtypes.index, -1).order == 6917385258496176036
    assert UOp.const(dtypes.f32, -0.0).order == 8874817573585590056
    total = make(ops.ADD, X, UOp.const(dtypes.index, 4))
    orders = (ops.ADD.code, X.order, UOp.const(dtypes.index, 4).order)
    assert total.order == hash(orders) & ((1 << 62) - 1)


def test_constants_come_last_in_the_order() -> None:
    seed = random.Random(1)
    for _ in range(100):
        value = seed.randint(-(10**6), 10**6)
        assert UOp.const(dtypes.index, value).order > X.order
        assert UOp.const(dtypes.f32, value / 7).order > F.order
    orders = {UOp.const(dtypes.index, n).order for n in range(-2000, 2000)}
    assert len(orders) == 4000


@given(graphs.any_graphs())
@graphs.examples(60)
def test_keys_tell_nodes_apart(root: UOp) -> None:
    nodes = toposort(root)
    assert len({node.key for node in nodes}) == len(nodes)
    assert all(len(node.key) == 16 for node in nodes)


SCRIPT: Final = """
import random
from porism.base import dtypes
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp, raw
seed = random.Random(5)
pool = [UOp.variable(f"v{k}", -k, k) for k in range(5)]
pool += [UOp.range(k + 1, (0, k), Axis.LOOP) for k in range(3)]
pool += [UOp.const(dtypes.index, n) for n in (-2, -1, 0, 1, 10**30)]
for _ in range(300):
    op = seed.choice((ops.ADD, ops.MUL, ops.MAX, ops.SUB))
    pool.append(raw(op, None, (seed.choice(pool), seed.choice(pool)), None))
floats = [UOp.const(dtypes.f32, v) for v in (0.0, -0.0, float("nan"), 1.5)]
pool += [raw(ops.SINK, None, (f, seed.choice(pool)), ("name", f.arg, None)) for f in floats]
print([node.key.hex() for node in pool])
print([node.order for node in pool])
"""


def in_another_process(seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_keys_and_orders_are_the_same_in_every_process() -> None:
    outputs = {in_another_process(seed) for seed in ("0", "1", "31337")}
    assert len(outputs) == 1
    assert len(outputs.pop()) > 10_000


# -- threads ---------------------------------------------------------------------------------------


def build(seed: int, steps: int, make_node: Callable[..., UOp]) -> list[UOp]:
    """The same expressions for the same seed."""
    source = random.Random(seed)
    pool = [UOp.variable(f"t{k}", -k, k) for k in range(4)]
    for _ in range(steps):
        op = source.choice((ops.ADD, ops.MUL, ops.SUB, ops.MAX, ops.NEG, ops.CONST, ops.WHERE))
        if op is ops.CONST:
            pool.append(UOp.const(dtypes.index, source.randint(-50, 50)))
            continue
        src = [source.choice(pool[-40:]) for _ in range(op.arity)]
        if op is ops.WHERE:
            src[0] = make_node(ops.LT, None, (src[1], src[2]), None)
        pool.append(make_node(op, None, tuple(src), None))
    return pool


def in_threads(work: Callable[[], Any], count: int, disturb: Callable[[], Any]) -> list[Any]:
    """What `count` threads return that start at once, while another one disturbs them."""
    results: list[Any] = [None] * count
    errors: list[BaseException] = []
    barrier = threading.Barrier(count + 1)
    done = threading.Event()

    def run(number: int) -> None:
        barrier.wait()
        try:
            results[number] = work()
        except BaseException as error:  # so that the test can tell
            errors.append(error)

    def disturber() -> None:
        barrier.wait()
        while not done.is_set():
            disturb()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    gc.freeze()  # what other tests left behind would make each collection slow
    try:
        threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
        other = threading.Thread(target=disturber)
        for thread in (*threads, other):
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        other.join()
    finally:
        gc.unfreeze()
        sys.setswitchinterval(interval)
    assert not errors, errors
    return results


DISTURBANCES: Final = {"sweep": sweep, "collect": gc.collect}


@pytest.mark.slow
@pytest.mark.parametrize("way", [raw, construct], ids=["raw", "construct"])
@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_threads_make_the_same_nodes(way: Callable[..., UOp], disturbance: str) -> None:
    for seed in range(3):
        results = in_threads(partial(build, seed, 300, way), 8, DISTURBANCES[disturbance])
        for other in results[1:]:
            assert all(a is b for a, b in zip(results[0], other, strict=True))


def churn(way: Callable[..., UOp], seeds: Iterator[int]) -> list[UOp]:
    """Nodes that are made and dropped again and again, of which a few are kept."""
    source = random.Random(next(seeds))
    kept: list[UOp] = []
    for step in range(1000):
        x = UOp.variable("churned", 0, step // 30)
        total = way(ops.ADD, None, (x, UOp.const(dtypes.index, source.randrange(3))), None)
        node = way(ops.MUL, None, (total, x), None)
        if source.random() < 0.05:
            kept.append(node)
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("way", [raw, construct], ids=["raw", "construct"])
def test_nodes_freed_while_others_make_them(way: Callable[..., UOp]) -> None:
    """What is kept was alive ever since, so that of equal nodes there can only be one."""
    results = in_threads(partial(churn, way, itertools.count()), 8, sweep)
    one: dict[bytes, UOp] = {}
    for kept in results:
        for node in toposort(*kept):
            assert one.setdefault(node.key, node) is node


class Sorting(dict[Any, None]):
    """Rules that rewrite nothing, and put operands in order: every other node has an alias."""

    sorts = True

    def __missing__(self, signature: Any) -> None:
        return None


@contextmanager
def sorted_operands() -> Iterator[None]:
    slot = dtypes.index.slot
    before = {op: op.rules[slot] for op in (ops.ADD, ops.MUL, ops.MAX)}
    sweep()
    try:
        for op in before:
            op.rules[slot] = Sorting()
        yield
    finally:
        for op, rules in before.items():
            op.rules[slot] = rules
        sweep()


@pytest.mark.slow
def test_threads_make_the_same_normal_forms() -> None:
    with sorted_operands():
        for seed in range(3):
            results = in_threads(partial(build, seed, 300, construct), 8, sweep)
            for other in results[1:]:
                assert all(a is b for a, b in zip(results[0], other, strict=True))
        x, y = UOp.variable("x", 0, 9), UOp.variable("y", 0, 9)
        assert (x + y) is (y + x)


def test_threads_make_the_same_dtypes() -> None:
    def work() -> list[DType]:
        return [dtypes.f32.vec(n) for n in range(1000, 1100)]

    results = in_threads(work, 8, lambda: dtypes.i8.vec(1000))
    for other in results[1:]:
        assert all(a is b for a, b in zip(results[0], other, strict=True))


# -- freeing ---------------------------------------------------------------------------------------


def live_after_sweep() -> int:
    """Return how many nodes of other tests are still alive."""
    before = -1
    while live_nodes() != before:  # one collection frees what holds nodes, the next frees these
        before = live_nodes()
        gc.collect()
    return before


@pytest.mark.usefixtures("frozen_heap")
@pytest.mark.slow
@pytest.mark.parametrize("way", [raw, construct], ids=["raw", "construct"])
def test_dead_nodes_are_freed(way: Callable[..., UOp]) -> None:
    before = live_after_sweep()
    pool = build(77, 500, way)
    assert live_nodes() > before + 300
    del pool
    gc.collect()
    assert live_nodes() == before


@pytest.mark.usefixtures("frozen_heap")
def test_what_is_referred_to_stays() -> None:
    before = live_after_sweep()
    x = UOp.variable("freed_x", 0, 9)
    kept = make(ops.MUL, make(ops.ADD, x, x), x)
    dropped = make(ops.NEG, kept)
    watch = weakref.ref(dropped)
    del dropped
    gc.collect()
    assert watch() is None
    assert live_nodes() == before + 3
    assert make(ops.MUL, make(ops.ADD, x, x), x) is kept
    del x, kept
    gc.collect()
    assert live_nodes() == before


@pytest.mark.usefixtures("frozen_heap")
@pytest.mark.slow
def test_deep_and_wide_graphs_are_freed() -> None:
    before = live_after_sweep()
    with quiet_collector():
        deep = UOp.variable("freed_x", 0, 9)
        for _ in range(100_000):
            deep = make(ops.NEG, deep)
        wide = make(ops.VECTORIZE, *[deep] * 10_000)
        shared = UOp.variable("freed_y", 0, 9)
        for _ in range(1000):
            shared = make(ops.MUL, shared, shared)
    assert live_nodes() >= before + 101_000
    del deep, wide, shared
    gc.collect()
    assert live_nodes() == before


@pytest.mark.usefixtures("frozen_heap")
def test_aliases_of_normal_forms_do_not_keep_nodes_alive() -> None:
    with sorted_operands():
        before = live_after_sweep()
        pool = build(78, 300, construct)
        del pool
        gc.collect()
        assert live_nodes() == before


# -- deep graphs -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_hundred_thousand_nodes_deep() -> None:
    length = 100_000
    loop = UOp.range(8, 0)
    node = loop
    one = UOp.const(dtypes.index, 1)
    for _ in range(length):
        node = make(ops.ADD, node, one)
    assert len(toposort(node)) == length + 3
    assert len(node.key) == 16
    assert node.ranges == (loop,)
    assert (node.vmin, node.vmax) == (length, length + 7)
    assert len(repr(node)) < 200
    assert substitute(node, {loop: UOp.range(8, 1)}, exactly=True) is not node
    assert parse(to_text(node)) is node
    assert copy.deepcopy(node) is node
