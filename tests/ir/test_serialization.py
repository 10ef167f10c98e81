"""The text form: what is written is read back as the same node; what is wrong is said clearly."""

from __future__ import annotations

import math
import random
import time
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.base import dtypes
from porism.base.dtypes import Space
from porism.base.errors import ParseError, TypeMismatch
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp, construct, raw
from porism.ir.text import argument_text
from porism.ir.text.argument_text import Limits, Reader
from porism.ir.text.serialization import parse, to_text
from porism.ir.traversal import toposort
from tests import graphs


def constant(value: Any, dtype: dtypes.DType = dtypes.index) -> UOp:
    return raw(ops.CONST, dtype, (), value)


# -- the form --------------------------------------------------------------------------------------


def test_what_it_looks_like() -> None:
    i = UOp.range(8, 0)
    pointer = raw(ops.PARAM, dtypes.f32.pointer(Space.GLOBAL, 8), (), 0)
    element = raw(ops.INDEX, None, (pointer, i), None)
    store = raw(ops.STORE, None, (element, constant(0.5, dtypes.f32)), None)
    root = raw(ops.SINK, None, (raw(ops.END, None, (store, i), None),), None)
    assert to_text(root) == (
        "%0 = PARAM f32*global[8] [0]\n"
        "%1 = RANGE index 8:index [((0,), axis.loop)]\n"
        "%2 = INDEX f32 %0 %1\n"
        "%3 = STORE void %2 0.5:f32\n"
        "%4 = END void %3 %1\n"
        "%5 = SINK void %4\n"
    )


def test_a_constant_by_itself_is_a_line() -> None:
    assert to_text(constant(4)) == "%0 = CONST index [4]\n"
    assert parse("%0 = CONST index [4]") is constant(4)


def test_comments_blanks_and_any_numbers() -> None:
    text = """
    # a graph

    %7=ADD   index 1:index\t2:index# sum
      %3 = CONST f32 [1.5]   # unused
    %10 = MUL index %7 %7 \r
    # end
    """
    total = raw(ops.ADD, None, (constant(1), constant(2)), None)
    assert parse(text) is raw(ops.MUL, None, (total, total), None)


def test_reading_applies_no_rule() -> None:
    root = parse("%0 = ADD index 1:index 2:index")
    assert root.op is ops.ADD


def test_the_last_line_is_the_root() -> None:
    assert parse("%0 = CONST index [1]\n%1 = CONST index [2]").arg == 2


# -- there and back --------------------------------------------------------------------------------


@given(graphs.any_graphs())
@graphs.examples(150)
def test_every_graph_comes_back(root: UOp) -> None:
    assert parse(to_text(root)) is root


@given(graphs.any_graphs(make=construct))
@graphs.examples(60)
def test_normal_forms_come_back(root: UOp) -> None:
    assert parse(to_text(root)) is root


WORDS: Final = st.text(max_size=5) | st.sampled_from(
    ('"', "\\", "\n", "#", "%0", "\x00", "é", "🦆")
)
ATOMS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(0, 12_000).map(lambda n: (1 << n) - 1),
    st.floats(),
    WORDS.filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)),
    st.sampled_from(ops.table()),
    st.sampled_from((*dtypes.scalars(), dtypes.void, dtypes.f32.vec(4), dtypes.i8.pointer())),
    st.sampled_from(tuple(Axis)),
    st.sampled_from(tuple(Space)),
)
ARGUMENTS: Final = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=4).map(tuple))


@given(ARGUMENTS)
@graphs.examples(250)
def test_every_argument_comes_back(arg: Any) -> None:
    written = argument_text.to_text(arg)
    assert written.isascii()
    assert "\n" not in written
    reader = Reader(written)
    actual = reader.argument()
    assert reader.at == len(written)
    assert argument_text.to_text(actual) == written
    assert argument_text.key(actual) == argument_text.key(arg)
    root = raw(ops.SINK, None, (), arg)
    assert parse(to_text(root)) is root


@given(ARGUMENTS, ARGUMENTS)
@graphs.examples(150)
def test_keys_are_equal_only_for_equal_arguments(a: Any, b: Any) -> None:
    same = argument_text.to_text(a) == argument_text.to_text(b)
    assert (argument_text.key(a) == argument_text.key(b)) == same


def test_arguments_that_look_alike_are_told_apart() -> None:
    """Among them what a key might be made of by mistake."""
    alike = [1, True, 1.0, (1,), (True,), (1.0,), "1", ("b", True), ("b", 1), ("f", (1.0).hex())]
    alike += [(bool.__name__, True), -0.0, 0.0, 0, False, math.nan, ("f", "nan"), None, (None,)]
    nodes = [raw(ops.SINK, None, (), arg) for arg in alike]
    assert len(set(nodes)) == len(alike)
    for node, arg in zip(nodes, alike, strict=True):
        assert argument_text.to_text(node.arg) == argument_text.to_text(arg)
        assert parse(to_text(node)) is node


@pytest.mark.parametrize(
    "value", [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 0.1, 5e-324, 1e308]
)
def test_floats_come_back_exactly(value: float) -> None:
    for dtype in (dtypes.f64, dtypes.f32, dtypes.bf16, dtypes.f64.vec(2)):
        node = constant(value, dtype)
        assert parse(to_text(node)) is node
        user = raw(ops.NEG, None, (node,), None)
        assert parse(to_text(user)) is user


LONG_INTS: Final = (0, -1, 10**30, -(10**400), 1 << 2047, 1 << 20_000, -(1 << 9999))


@pytest.mark.parametrize("value", LONG_INTS, ids=range(len(LONG_INTS)))
def test_ints_come_back_exactly(value: int) -> None:
    node = constant(value)
    user = raw(ops.ADD, None, (node, node), None)
    assert parse(to_text(user)) is user
    variable = raw(ops.VARIABLE, dtypes.index, (), ("x", value, None))
    assert parse(to_text(variable)) is variable


def test_patterns_come_back() -> None:
    hole = raw(ops.HOLE, dtypes.schema, (), "x")
    typed = raw(ops.HOLE, dtypes.schema_bool, (), "p")
    fact = raw(ops.FACT, None, (hole, constant(3, dtypes.schema)), "divides")
    root = raw(ops.WHERE, None, (typed, hole, fact), None)
    assert parse(to_text(root)) is root


@pytest.mark.slow
def test_a_deep_graph_comes_back_in_linear_time() -> None:
    def seconds(length: int) -> float:
        node = UOp.variable("x", 0, 9)
        for k in range(length):
            node = raw(ops.ADD, None, (node, constant(k)), None)
        start = time.perf_counter()
        assert parse(to_text(node)) is node
        return time.perf_counter() - start

    small, large = seconds(10_000), seconds(100_000)
    assert large < 40 * small + 2, (small, large)


def test_a_shared_graph_is_written_once() -> None:
    node = UOp.variable("x", 0, 9)
    for _ in range(500):
        node = raw(ops.MUL, None, (node, node), None)
    text = to_text(node)
    assert text.count("\n") == 501
    assert parse(text) is node


# -- bad texts -------------------------------------------------------------------------------------

DEEP: Final = "(" * 40 + ")" * 40

# text, line, column, and a part of the message
BAD: Final = [
    ("", 1, 1, "there is no node in the text"),
    ("# nothing\n\n", 3, 1, "there is no node in the text"),
    ("hello", 1, 1, "expected a node's number such as %0, found 'h'"),
    ("%x = ADD", 1, 1, "expected a node's number"),
    ("%1234567890123456 = CONST index [1]", 1, 1, "a number has at most 15 digits"),
    ("%0", 1, 3, "expected '=', found the end of the text"),
    ("%0 = ", 1, 6, "expected the name of an op, found the end of the text"),
    ("%0 = \n", 1, 6, "expected the name of an op, found the end of the line"),
    ("%0 = ADDD index", 1, 6, "there is no op 'ADDD'"),
    ("%0 = ADDD index", 1, 6, "did you mean ADD?"),
    ("%0 = CONST", 1, 11, "expected a dtype, found the end of the text"),
    ("%0 = CONST f33 [1]", 1, 12, "there is no dtype 'f33'"),
    ("%0 = CONST f32x0 [1]", 1, 12, "there is no dtype 'f32x0'"),
    ("%0 = CONST f32*moon [1]", 1, 12, "there is no dtype"),
    ("%0 = CONST " + "a" * 5000, 1, 12, "of more than 100 characters"),
    ("%0 = CONST index", 1, 6, "its argument is a number, not None"),
    ('%0 = CONST index ["x"]', 1, 6, "its argument is a number"),
    ("%0 = CONST index [1.5]", 1, 6, "it is not a whole number"),
    ("%0 = ADD index %0 %0", 1, 16, "%0 is used before it is defined"),
    ("%0 = ADD index %0 %0", 1, 16, "add a line %0 = … above this one"),
    ("%0 = ADD index 1:index", 1, 6, "it takes 2 sources, got 1"),
    ("%0 = ADD index 1:index 1.5:f32", 1, 6, "different types, index and f32"),
    ("%0 = ADD f32 1:index 2:index", 1, 6, "its type is index, not f32"),
    ("%0 = ADD index 1:index 2", 1, 25, "expected ':', found the end of the text"),
    ("%0 = ADD index 1:index 2 3:index", 1, 26, "expected ':', found '3'"),
    ('%0 = ADD index "x":index 2:index', 1, 16, "a source is a node's number or a constant"),
    ("%0 = ADD index 1.5:index 2:index", 1, 16, "it is not a whole number"),
    ("%0 = ADD index 1:index 2:index 5", 1, 33, "expected ':'"),
    ("%0 = CONST index [1\n", 1, 20, "expected ']', found the end of the line"),
    ("%0 = CONST index [1] x", 1, 22, "expected the end of the line, found 'x'"),
    ("%0 = CONST index [1]\n%0 = CONST index [2]", 2, 1, "%0 is defined twice"),
    ("%0 = CONST index [1]\n%1 = NEG index %2", 2, 16, "%2 is used before it is defined"),
    ("%0 = CONST index []", 1, 19, "expected an argument, found ']'"),
    ("%0 = SINK void [(1)]", 1, 19, "expected ',', found ')'"),
    ("%0 = SINK void [(1, 2]", 1, 22, "expected ',', found ']'"),
    ("%0 = SINK void [(,)]", 1, 18, "expected an argument, found ','"),
    ("%0 = SINK void [yes]", 1, 17, "unknown word 'yes'"),
    ("%0 = SINK void [axis.spin]", 1, 22, "there is no axis 'spin'"),
    ("%0 = SINK void [space.]", 1, 23, "expected the name of a kind of space"),
    ("%0 = SINK void [os.system]", 1, 17, "unknown kind 'os'"),
    ("%0 = SINK void [op.NOPE]", 1, 20, "there is no op 'NOPE'"),
    ("%0 = SINK void [dtype.what]", 1, 23, "there is no dtype 'what'"),
    ('%0 = SINK void ["abc', 1, 21, "the string is not closed"),
    ('%0 = SINK void ["a\nb"]', 1, 19, "the string is not closed: the end of the line"),
    ('%0 = SINK void ["\\x41"]', 1, 18, "an unknown escape in a string"),
    ('%0 = SINK void ["\\ud800"]', 1, 17, "half of a surrogate pair"),
    ("%0 = SINK void [1e999]", 1, 17, "the number 1e999 is too large"),
    ("%0 = SINK void [" + "9" * 5000 + "]", 1, 17, "a decimal number of 5000 digits"),
    ("%0 = SINK void [" + "9" * 5000 + "]", 1, 17, "write it in hexadecimal"),
    ("%0 = SINK void [0." + "9" * 5000 + "]", 1, 17, "a float of too many digits"),
    ("%0 = SINK void [0x" + "f" * 2_000_000 + "]", 1, 17, "a number of 2000000 digits"),
    ("%0 = SINK void [" + DEEP + "]", 1, 49, "nested too deeply"),
    ("%0 = SINK void [" + "(" * 1_000_000, 1, 49, "nested too deeply"),
    ("%0 = SINK void [-]", 1, 17, "expected a number"),
    ("%0 = SINK void [é]", 1, 17, "expected an argument, found '\\xe9'"),
    ("%٣ = SINK void", 1, 1, "expected a node's number"),
    ('%0 = VARIABLE index [("x", 5, 1)]', 1, 6, "the bounds 5..1 are empty"),
    ('%0 = PERMUTE f32 1.0:f32 [(0, "a")]', 1, 6, "an order of all axes"),
    ("%0 = CONTRACT f32 1.0:f32 [((0, 99999999999),)]", 1, 6, "too many lanes"),
    ("%0 = REDUCE f32 1.0:f32 [op.SUB]", 1, 6, "it reduces by ADD"),
    ("\x00", 1, 1, "found '\\x00'"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), BAD, ids=range(len(BAD)))
def test_what_is_wrong_is_said(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    shown = str(caught.value)
    assert message in shown
    assert (caught.value.line, caught.value.column) == (line, column), shown
    assert f"line {line}, column {column}" in shown
    assert len(shown) < 3000


def test_a_whole_message() -> None:
    with pytest.raises(ParseError) as caught:
        parse("%0 = CONST index [4]\n%1 = ADD index %0 %3")
    assert str(caught.value) == (
        "%3 is used before it is defined\n"
        "  where: line 2, column 19\n"
        "    %1 = ADD index %0 %3\n"
        "                      ^\n"
        "  why: sources come before the nodes that use them\n"
        "  fix: add a line %3 = … above this one"
    )


def test_limits() -> None:
    text = "%0 = CONST index [4]\n%1 = NEG index %0\n%2 = NEG index %1\n"
    assert parse(text, Limits(nodes=3, characters=len(text))).op is ops.NEG
    with pytest.raises(ParseError, match="more than 2 nodes"):
        parse(text, Limits(nodes=2))
    with pytest.raises(ParseError, match="a text of 57 characters"):
        parse(text, Limits(characters=56))
    with pytest.raises(ParseError, match="a number of 9 digits"):
        parse("%0 = CONST index [0x123456789]", Limits(digits=8))


def test_arguments_that_no_text_has() -> None:
    deep: Any = ()
    for _ in range(40):
        deep = (deep,)
    with pytest.raises(TypeMismatch, match="nested too deeply"):
        raw(ops.SINK, None, (), deep)
    with pytest.raises(TypeMismatch, match="surrogate"):
        raw(ops.SINK, None, (), "\ud800")
    with pytest.raises(TypeMismatch, match="cannot be the argument of a node"):
        raw(ops.SINK, None, (), object())


def refused_or_read(text: str) -> UOp | None:
    """The root, or None where there is a message; anything else that is raised is a bug."""
    try:
        return parse(text)
    except ParseError as error:
        str(error)
        return None


def test_damaged_texts_never_fail_otherwise() -> None:
    """Texts with characters changed, dropped and added are read, or refused with a message."""
    seed = random.Random(7)
    i = UOp.range(8, 0)
    x = raw(ops.INDEX, None, (raw(ops.PARAM, dtypes.f32.pointer(), (), 0), i), None)
    total = raw(ops.REDUCE, None, (x, i), ops.ADD)
    named = raw(ops.SINK, None, (total,), ("name", 1.5, (True, None), 1 << 3000))
    good = to_text(named)
    read = 0
    for _ in range(4000):
        characters = list(good)
        for _ in range(seed.randint(1, 4)):
            place = seed.randrange(len(characters))
            other = seed.choice('%=[](),.:"\\-0x9a \n#*e\x00é')
            characters[place] = seed.choice((other, characters[place] + other, ""))
        root = refused_or_read("".join(characters))
        if root is not None:
            read += 1
            assert parse(to_text(root)) is root
    assert 0 < read < 2000


def test_random_lines_never_fail_otherwise() -> None:
    """Lines of ops with sources, dtypes and arguments that do not go together."""
    seed = random.Random(11)
    types = [t.name for t in dtypes.scalars()] + ["void", "T", "f32x4", "f32*global[8]", "indexx2"]
    sources = ["%0", "%1", "4:index", "-1:i8", "true:bool", "nan:f32", "0x" + "f" * 2000 + ":index"]
    args = ["0", '"x"', "(0,)", "((0,), axis.loop)", "op.ADD", "(op.MAX, (0,))", "space.local"]
    args += ['("x", none, 4)', '(3, "cpu")', "((0, 2),)", "(1, 0)", "0x" + "f" * 2000, "none"]
    head = '%0 = VARIABLE index [("x", none, 9)]\n%1 = CONST f32 [1.5]\n'
    read = 0
    for _ in range(6000):
        op, dtype = seed.choice(ops.table()), seed.choice(types)
        count = op.arity if op.arity >= 0 else seed.randint(0, 3)
        src = " ".join(seed.choice(sources) for _ in range(count))
        arg = f"[{seed.choice(args)}]" if seed.random() < 0.5 else ""
        root = refused_or_read(f"{head}%2 = {op.name} {dtype} {src} {arg}")
        if root is not None:
            read += 1
            assert parse(to_text(root)) is root
            assert len(toposort(root)) < 10
    assert read > 50
