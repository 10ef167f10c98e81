"""Serialization: graphs as lines of text that can be read back, `parse(to_text(g)) is g`.

One node a line, sources before users; the last line is the root:

    %0 = RANGE index 8:index [((0,), axis.loop)]    # a comment
    %1 = MUL index %0 4:index
    %2 = ADD index %1 3:index

A line is `%number = OP dtype sources [argument]`. A source is the number of an earlier line, or a
small constant as `value:dtype`. The argument is left out where there is none. Blank lines and
comments are allowed.

Reading makes exactly the nodes of the text; no rule is applied. The text may come from anywhere: it
is never executed, whatever is wrong with it is a `ParseError` that points at line and column, and
`Limits` bound what reading may cost.
"""

from __future__ import annotations

import re
from typing import Final

from porism.base.dtypes import DType
from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.text import argument_text
from porism.ir.text.argument_text import Limits, Reader
from porism.ir.traversal import toposort

LONGEST_INLINE: Final = 24
"""A constant with a longer text gets a line of its own."""

_REFERENCE: Final = re.compile(r"%([0-9]{1,15})(?![0-9A-Za-z_])")
_FORM: Final = "a line is: %number = OP dtype sources [argument]"


def to_text(root: UOp) -> str:
    """Return the graph below a node as lines of text.

    >>> i = UOp.range(8, 0)
    >>> print(to_text(UOp(ops.MUL, None, (i, i))), end="")
    %0 = RANGE index 8:index [((0,), axis.loop)]
    %1 = MUL index %0 %0
    """
    written: dict[UOp, str] = {}
    lines: list[str] = []
    for node in toposort(root):
        arg = None if node.arg is None else argument_text.to_text(node.arg)
        if node.op is ops.CONST and node is not root:
            assert arg is not None
            if len(arg) <= LONGEST_INLINE:
                written[node] = f"{arg}:{node.dtype.name}"
                continue
        parts = [f"%{len(lines)}", "=", node.op.name, node.dtype.name]
        parts += [written[s] for s in node.src]
        if arg is not None:
            parts.append(f"[{arg}]")
        written[node] = parts[0]
        lines.append(" ".join(parts))
    return "\n".join(lines) + "\n"


def parse(text: str, limits: Limits | None = None) -> UOp:
    """Return the root of the graph that a text describes.

    >>> parse("%0 = CONST index [4]\\n%1 = ADD index %0 1:index")
    UOp(ADD index 4 + 1)
    >>> parse("%0 = ADD index 4:index 2")
    Traceback (most recent call last):
        ...
    porism.base.errors.ParseError: expected ':', found the end of the text
      where: line 1, column 25
        %0 = ADD index 4:index 2
                                ^
      why: a constant among the sources is value:dtype, such as 4:index
    """
    limits = Limits() if limits is None else limits
    reader = Reader(text, limits=limits)
    if len(text) > limits.characters:
        reader.fail(
            f"a text of {len(text)} characters",
            why=f"this reader takes at most {limits.characters}",
            fix="pass larger limits, if the text is from a source that you trust",
        )
    nodes: dict[int, UOp] = {}
    root: UOp | None = None
    while reader.at < len(text):
        character = reader.skip()
        if character not in ("", "#"):
            if len(nodes) >= limits.nodes:
                reader.fail(
                    f"more than {limits.nodes} nodes",
                    why="that is as many as this reader takes",
                    fix="pass larger limits, if the text is from a source that you trust",
                )
            root = _line(reader, nodes)
            character = reader.skip()
        if character == "#":
            end = text.find("\n", reader.at)
            reader.at = len(text) if end < 0 else end
        elif character:
            reader.fail(f"expected the end of the line, found {reader.next_thing()}", why=_FORM)
        reader.at += 1
    if root is None:
        reader.fail("there is no node in the text", why="the last line is the root", fix=_FORM)
    return root


def _line(reader: Reader, nodes: dict[int, UOp]) -> UOp:
    """Read a line up to its comment, and make its node."""
    start = reader.at
    number = _reference(reader)
    if number in nodes:
        reader.fail(f"%{number} is defined twice", at=start, fix="give each line its own number")
    reader.expect("=", _FORM)
    reader.skip()
    named = reader.at
    op = reader.op()
    reader.skip()
    dtype = reader.dtype()
    src: list[UOp] = []
    while (character := reader.skip()) not in ("", "[", "#"):
        src.append(_source(reader, nodes) if character == "%" else _constant(reader))
    arg = None
    if character == "[":
        reader.at += 1
        arg = reader.argument()
        reader.expect("]", "the argument is closed by a bracket")
    node = nodes[number] = _make_node(reader, named, op, dtype, tuple(src), arg)
    return node


def _make_node(
    reader: Reader,
    at: int,
    op: ops.Op,
    dtype: DType,
    src: tuple[UOp, ...],
    arg: object,
) -> UOp:
    try:
        return raw(op, dtype, src, arg)
    except PorismError as error:
        reader.fail(error.what, at=at, why=error.why, fix=error.fix)


def _reference(reader: Reader) -> int:
    match = _REFERENCE.match(reader.text, reader.at)
    if match is None:
        reader.fail(
            f"expected a node's number such as %0, found {reader.next_thing()}",
            why="a number has at most 15 digits" if reader.skip() == "%" else _FORM,
        )
    reader.at = match.end()
    return int(match[1])


def _source(reader: Reader, nodes: dict[int, UOp]) -> UOp:
    start = reader.at
    number = _reference(reader)
    node = nodes.get(number)
    if node is None:
        reader.fail(
            f"%{number} is used before it is defined",
            at=start,
            why="sources come before the nodes that use them",
            fix=f"add a line %{number} = … above this one",
        )
    return node


def _constant(reader: Reader) -> UOp:
    start = reader.at
    value = reader.argument()
    if not isinstance(value, (bool, int, float)):
        reader.fail(
            "a source is a node's number or a constant",
            at=start,
            why="only numbers and booleans can be constants",
            fix="put the argument in brackets, at the end of the line",
        )
    reader.expect(":", "a constant among the sources is value:dtype, such as 4:index")
    return _make_node(reader, start, ops.CONST, reader.dtype(), (), value)
