"""Listings: what is used more than once has a name, and every name is defined where it is used."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import porism
from porism import Tensor
from porism.base.dtypes import f32
from porism.ir import ops
from porism.ir.node import UOp
from porism.schedule.loop_listing import INDENT, listing

NAMES = {0: "out", 1: "x", 2: "y"}
DEFINED = re.compile(r"([sv]\d+) = ")
USED = re.compile(r"\b[sv]\d+\b")


def buffer(number: int, size: int) -> UOp:
    return UOp(ops.PARAM, f32.pointer(size=size), (), number)


def check_names(text: str) -> None:
    """Every name is defined once, before its uses, in a loop that is still open there."""
    open_names: list[set[str]] = [set()]
    defined: set[str] = set()
    for line in text.splitlines():
        depth = (len(line) - len(line.lstrip())) // len(INDENT)
        assert depth <= len(open_names), line
        open_names = [*open_names[: depth + 1], *([set()] if depth == len(open_names) else [])]
        actual = DEFINED.match(line.lstrip())
        name = actual[1] if actual else ""
        used = set(USED.findall(line.lstrip()[actual.end() :] if actual else line))
        known = set[str]().union(*open_names)
        assert used <= known, line
        if name and name not in known:
            assert name not in defined, line
            defined.add(name)
            open_names[depth].add(name)


def tensor(*sizes: int) -> Tensor:
    return porism.asarray(np.ones(sizes, np.float32))


PROGRAMS: dict[str, Callable[[], Tensor]] = {
    "gelu": lambda: tensor(4096).gelu(),
    "gelu of gelu": lambda: tensor(64, 64).gelu().gelu(),
    "product and gelu": lambda: (tensor(256, 256) @ tensor(256, 256) + tensor(256)).gelu(),
    "convolution and gelu": lambda: porism.conv2d(
        tensor(1, 8, 16, 16), tensor(8, 8, 3, 3), padding=1
    ).gelu(),
    "softmax": lambda: tensor(64, 128).softmax(),
    "choice": lambda: tensor(100, 64)[porism.asarray(np.zeros(7, np.int32))],
    "sorted": lambda: tensor(64).sort(),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_lines_are_short_and_names_are_defined(program: str) -> None:
    for kernel in porism.kernels(PROGRAMS[program]()):
        for text in (kernel.text, kernel.scheduled):
            assert max(map(len, text.splitlines())) < 200
            check_names(text)


def test_the_check_of_names_can_fail() -> None:
    check_names("for r0 < 2:\n    v0 = x[r0]\n    out[r0] = v0 * v0")
    with pytest.raises(AssertionError):
        check_names("for r0 < 2:\n    out[r0] = v0 * v0\n    v0 = x[r0]")
    with pytest.raises(AssertionError):
        check_names("for r0 < 2:\n    v0 = x[r0]\nfor r0 < 2:\n    out[r0] = v0 * v0")


def test_a_value_stands_in_the_innermost_loop_that_it_depends_on() -> None:
    i, k = UOp.range(8, 0), UOp.range(4, 1)
    x, y, out = buffer(1, 8), buffer(2, 4), buffer(0, 32)
    outer = ops.EXP2(x.index(i) * 0.123456789)
    inner = ops.EXP2(y.index(k) * outer + 0.123456789)
    kernel = ops.SINK(out.index(i * 4 + k).store(inner * inner + outer).end(i, k))
    assert listing(kernel, NAMES).splitlines() == [
        "for r0 < 8:",
        "    v0 = exp2(x[r0] * 0.12345679104328156)",
        "    for r1 < 4:",
        "        v1 = exp2(y[r1] * v0 + 0.12345679104328156)",
        "        out[r0 * 4 + r1] = v1 * v1 + v0",
    ]


def test_short_values_and_indices_are_written_again() -> None:
    i = UOp.range(64, 0)
    place = (i // 8) * 8 + (i % 8) * 64 + 17
    x, y, out = buffer(1, 1024), buffer(2, 1024), buffer(0, 1024)
    value = x.index(place) + y.index(place) + x.index(i) * x.index(i)
    (_, line) = listing(ops.SINK(out.index(place).store(value).end(i)), NAMES).splitlines()
    assert "v0" not in line
    assert line.endswith("+ x[r0] * x[r0]")


def test_a_name_ends_with_its_loop() -> None:
    i, k = UOp.range(8, 0), UOp.range(4, 1)
    shared = ops.EXP2(buffer(1, 32).index(i * 4 + k) * 0.5)
    sums = (shared * shared).reduce(ops.ADD, k) + (shared * shared + 1.0).reduce(ops.MAX, k)
    text = listing(ops.SINK(buffer(0, 8).index(i).store(sums).end(i)), NAMES)
    check_names(text)
    assert text.count(" = exp2(") == 2


def test_a_place_that_is_stored_to_has_no_name() -> None:
    i = UOp.range(64, 0)
    place = buffer(0, 4096).index(i * 63 + (i + 1) // 2)
    value = place * place + ops.EXP2(place)
    (_, line) = listing(ops.SINK(place.store(value).end(i)), NAMES).splitlines()
    assert line.startswith("    out[")


def test_names_of_the_program_are_not_taken() -> None:
    i = UOp.range(64, 0)
    value = ops.EXP2(buffer(1, 64).index(i) * 0.123456789)
    kernel = ops.SINK(buffer(0, 64).index(i).store(value * value).end(i))
    text = listing(kernel, {0: "v0", 1: "v1"})
    assert text.splitlines()[-1] == "    v0[r0] = v2 * v2"


def test_what_is_shared_often_is_written_once() -> None:
    """Written out, this value would have 2^300 parts."""
    i = UOp.range(64, 0)
    value = buffer(1, 64).index(i)
    for step in range(300):
        value = ops.SIN(value) * value + float(step)
    text = listing(ops.SINK(buffer(0, 64).index(i).store(value).end(i)), NAMES)
    check_names(text)
    assert len(text) < 300 * 60
    assert text.count("sin(") < 1200
