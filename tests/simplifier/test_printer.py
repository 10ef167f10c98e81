"""The printer: text is read back as the same graph, and means the same in Python and in C."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from benchmarks import index_values
from porism.base import dtypes
from porism.base.errors import PorismError
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.traversal import toposort
from porism.simplifier.c_text import to_c
from porism.simplifier.parser import parse
from porism.simplifier.printer import to_python
from porism.simplifier.readable_order import reorder
from tests.expressions import expressions
from tests.patience import PATIENCE

A, B = (raw(ops.VARIABLE, dtypes.index, (), (name, low, 9)) for name, low in (("a", -5), ("b", 0)))
VARIABLES = {"a": A, "b": B}
BOX = {"a": [-5, 9], "b": [0, 9]}
UNREAD = (ops.MULACC, ops.POW, ops.CDIV, ops.CMOD)


def node(op: ops.Op, *src: UOp) -> UOp:
    return raw(op, None, src, None)


TEXTS = (
    "a + b + 3",
    "a - (b - 3)",
    "(a + b) * 3 // 4 % 5",
    "a // (b + 1)",
    "-a",
    "-(5)",
    "--5",
    "-a * -3",
    "a - -3",
    "~a & b | a ^ b",
    "a << 2 + b",
    "(a << 2) + b",
    "min(a, b, 3)",
    "min(a, min(b, 3))",
    "max(a if a < b else b, 3)",
    "a if a < b else b if a == b else 3",
    "(a if a < b else b) + 1",
    "a if a < b and not b == 3 or a > 4 else b",
    "(a < b) != (b < 3)",
    "not a < b",
    "not (a < b and b < 3)",
    "(a < b or b < 3) and a < 3",
    "True",
    "(1 if a < b else 0) * 4",
)


@pytest.mark.parametrize("text", TEXTS)
def test_writes_as_people_do(text: str) -> None:
    assert to_python(parse(text, VARIABLES)) == text


@st.composite
def graphs(draw: st.DrawFn) -> UOp:
    of = draw(st.sampled_from((dtypes.index, dtypes.boolean)))
    created = expressions(of, of=dtypes.index, leaves=[A, B], limit=1 << 30, casts=False)
    root = draw(created)
    assume(not any(n.op in UNREAD for n in toposort(root)))
    return root


def values(root: UOp) -> list[Any]:
    return [
        evaluate(root, variables={"a": a, "b": b})[0].item() for a in (-5, 0, 3, 9) for b in (0, 4)
    ]


@given(graphs())
def test_reads_back_as_the_same_graph(root: UOp) -> None:
    assert parse(to_python(root), VARIABLES) is root


@given(graphs())
@settings(max_examples=50, deadline=None)
def test_means_the_same_in_python(root: UOp) -> None:
    points, _ = index_values.points({"a": [-5, 9], "b": [0, 9]})
    actual = index_values.value(index_values.tree_of(to_python(root)), points)
    for a, b, wanted in zip((-5, -5, 0, 0, 3, 3, 9, 9), (0, 4) * 4, values(root), strict=True):
        place = (points["a"] == a) & (points["b"] == b)
        chosen = actual[place][0] if hasattr(actual, "shape") and actual.shape else actual
        assert int(chosen) == int(wanted)


@given(graphs())
@settings(max_examples=50, deadline=None)
def test_reordering_keeps_the_value(root: UOp) -> None:
    assert values(reorder(root, "ab")) == values(root)


def test_other_words_for_what_the_parser_does_not_make() -> None:
    less = node(ops.LT, A, B)
    number = raw(ops.CAST, dtypes.index, (less,), None)
    assert to_python(node(ops.ADD, number, A)) == "(1 if a < b else 0) + a"
    other = node(ops.LT, B, A)
    assert to_python(node(ops.MAX, less, other)) == "a < b or b < a"
    assert to_python(node(ops.MIN, less, other)) == "a < b and b < a"


def test_what_has_no_text_is_refused() -> None:
    with pytest.raises(PorismError, match="RANGE cannot be written as an expression"):
        to_python(UOp.range(4, 0))


def test_shared_parts_do_not_fill_the_memory() -> None:
    whole = A
    for _ in range(200):
        whole = node(ops.ADD, whole, whole)
    with pytest.raises(PorismError, match="more than 1000 characters"):
        to_python(whole, 1000)


def test_deep_graphs_cost_no_stack() -> None:
    whole = A
    for _ in range(5000):
        whole = node(ops.SUB, B, whole)
    assert len(to_python(whole)) > 5000
    assert parse("+".join(["a"] * 5000), VARIABLES) is not None


def test_huge_numbers_are_hexadecimal() -> None:
    huge = A.lift(10**4000)
    assert to_python(node(ops.ADD, A, huge)).startswith("a + 0x")
    assert parse(to_python(huge), {}) is huge


# -- arranging -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("3 + b + a * 8", "a * 8 + b + 3"),
        ("-a + b", "b - a"),
        ("3 - a", "3 - a"),
        ("-3 - a", "-a - 3"),
        ("b * -4 + a * 2", "a * 2 - b * 4"),
        ("a + a", "a * 2"),
        ("(a * 16 + 0) * 32 + a", "a * 513"),
        ("a - a", "0"),
        ("2 * b * 3 * a", "a * b * 6"),
        ("(a + b) * 4", "(a + b) * 4"),
        ("3 < a", "a > 3"),
        ("3 == a", "a == 3"),
        ("not a < b", "a >= b"),
        ("b < 3 and a < 3 and b < 3", "a < 3 and b < 3"),
        ("max(3, b, a)", "max(a, b, 3)"),
        ("(1 if a < b else 0) * 4 + a", "(4 if a < b else 0) + a"),
    ],
)
def test_reorders_for_reading(before: str, after: str) -> None:
    assert to_python(reorder(parse(before, VARIABLES), "ab")) == after
    assert to_python(reorder(parse(after, VARIABLES), "ab")) == after


# -- C ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "c"),
    [
        ("b // 4 + b % 4", "b / 4 + b % 4"),
        ("a // 4", "floordiv(a, 4)"),
        ("b // (a - 20)", "floordiv(b, a - 20)"),
        ("a % 4 + min(a, b)", "floormod(a, 4) + smaller(a, b)"),
        ("a << 3", "a * 8"),
        ("b >> 3", "b >> 3"),
        ("a >> 3", "floordiv(a, 8)"),
        ("a & 7 | b", "a & 7 | b"),
        ("(a & 7) == b", "(a & 7) == b"),
        ("a if a < b and not b == 3 else -1", "a < b && !(b == 3) ? a : -1"),
        ("a * 10000000000", "a * 10000000000LL"),
    ],
)
def test_c(text: str, c: str) -> None:
    assert to_c(parse(text, VARIABLES)).split("\n")[-1] == c


def test_c_has_no_wider_integers() -> None:
    with pytest.raises(PorismError, match="does not fit in 64 bits"):
        to_c(parse("a + 100000000000000000000", VARIABLES))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler")
@given(st.lists(graphs(), min_size=40, max_size=40))
@settings(max_examples=1, suppress_health_check=list(HealthCheck), deadline=None, derandomize=True)
def test_c_means_the_same(tmp_path_factory: pytest.TempPathFactory, roots: list[UOp]) -> None:
    folder = tmp_path_factory.mktemp("c")
    definitions: dict[str, None] = {}
    functions = []
    for number, root in enumerate(roots):
        *above, text = to_c(root).split("\n")
        definitions |= dict.fromkeys(above)
        functions.append(f"long long f{number}(long long a, long long b) {{ return {text}; }}")
    calls = "".join(f'printf("%lld\\n", f{n}(a, b));' for n in range(len(roots)))
    inner = f"for (long long b = 0; b < 8; b += 4) {{ {calls} }}"
    outer = f"for (int i = 0; i < 4; i++) {{ long long a = p[i]; {inner} }}"
    loops = f"long long p[] = {{-5, 0, 3, 9}}; {outer}"
    source = "\n".join(
        ["#include <stdio.h>", *definitions, *functions, f"int main(void) {{ {loops} }}"]
    )
    program = run_c(folder, source)
    actual = [int(line) for line in program.split()]
    wanted = list(zip(*[[int(v) for v in values(root)] for root in roots], strict=True))
    assert actual == [value for row in wanted for value in row]


def run_c(folder: Path, source: str) -> str:
    (folder / "program.c").write_text(source)
    command = ["gcc", "-O0", "-w", "-o", str(folder / "program"), str(folder / "program.c")]
    subprocess.run(command, check=True, timeout=PATIENCE)
    result = subprocess.run([folder / "program"], capture_output=True, text=True, timeout=PATIENCE)
    return result.stdout
