"""Outlines: a graph as an indented tree for people, each node once.

    %0 ADD index  3…31  ≡ 3 (mod 4)
    ├─ %1 MUL index  0…28  ≡ 0 (mod 4)
    │  ├─ %2 RANGE index  [((0,), axis.loop)]  0…7
    │  │  └─ 8 index
    │  └─ 4 index
    └─ 3 index

A line has the op, the dtype, the argument, and bounds and residue where these say more than the
dtype. A node that was printed before is a reference, `%2 ↑ r0`. Any graph can be printed: nodes
beyond the limits are left out, and the last line has their number.
"""

from __future__ import annotations

from typing import Final

from porism.base.dtypes import Kind
from porism.ir import ops
from porism.ir.facts.intervals import Bound
from porism.ir.node import UOp
from porism.ir.text import argument_text
from porism.ir.text.expression import show
from porism.ir.traversal import toposort

LONGEST_ARGUMENT: Final = 80
LONGEST_BOUND: Final = 24


def tree(root: UOp, *, depth: int = 40, lines: int = 1000) -> str:
    """Return the graph below a node as text, at most `depth` levels and `lines` lines of it.

    >>> i = UOp.range(8, 0)
    >>> print(tree(UOp(ops.ADD, None, (UOp(ops.MUL, None, (i, i)), i.lift(3)))))
    %0 ADD index  3…52
    ├─ %1 MUL index  0…49
    │  ├─ %2 RANGE index  [((0,), axis.loop)]  0…7
    │  │  └─ 8 index
    │  └─ %2 ↑ r0
    └─ 3 index
    """
    written: list[str] = []
    numbers: dict[UOp, int] = {}
    shown: set[UOp] = set()
    whole = True
    # (node, depth, prefix of its line, prefix of the lines of its sources)
    waiting: list[tuple[UOp, int, str, str]] = [(root, 0, "", "")]
    while waiting:
        if len(written) >= lines:
            whole = False
            break
        node, level, head, margin = waiting.pop()
        if node in numbers:
            written.append(f"{head}%{numbers[node]} ↑ {show(node, limit=60)}")
            continue
        shown.add(node)
        if node.op is ops.CONST:
            written.append(f"{head}{show(node, limit=LONGEST_ARGUMENT)} {node.dtype}")
            continue
        numbers[node] = len(numbers)
        line = f"{head}%{numbers[node]} {describe(node)}"
        if level >= depth and node.src:
            written.append(f"{line}  …")
            whole = False
            continue
        written.append(line)
        last = len(node.src) - 1
        for number in range(last, -1, -1):
            mark, bar = ("└─ ", "   ") if number == last else ("├─ ", "│  ")
            waiting.append((node.src[number], level + 1, margin + mark, margin + bar))
    if not whole:
        left = len(toposort(root)) - len(shown)
        written.append(f"… {left} more nodes" if left else "… some of it again")
    return "\n".join(written)


def describe(node: UOp) -> str:
    """Return the line of a node, without its sources.

    >>> describe(UOp.variable("n", 1))
    'VARIABLE index  [("n", 1, none)]  ≥ 1'
    """
    parts = [f"{node.op.name} {node.dtype}"]
    if node.arg is not None:
        text = argument_text.to_text(node.arg)
        cut = text if len(text) <= LONGEST_ARGUMENT else text[: LONGEST_ARGUMENT - 1] + "…"
        parts.append(f"[{cut}]")
    parts += _value_facts(node)
    return "  ".join(parts)


def _value_facts(node: UOp) -> list[str]:
    """Return the bounds and the residue as text, where they say more than the dtype."""
    t = node.dtype
    if not (t.is_integer or t.kind is Kind.BOOL) or node.op is ops.VCONST:
        return []
    facts: list[str] = []
    low, high = node.vmin, node.vmax
    if low == high:
        return [f"= {_bound(low)}"]
    if low > t.min and high < t.max:
        facts.append(f"{_bound(low)}…{_bound(high)}")
    elif low > t.min:
        facts.append(f"≥ {_bound(low)}")
    elif high < t.max:
        facts.append(f"≤ {_bound(high)}")
    modulus, remainder = node.residue
    if modulus > 1:
        facts.append(f"≡ {remainder} (mod {modulus})")
    return facts


def _bound(value: Bound) -> str:
    """Return a bound as text, or its magnitude where it is too long to read."""
    text = argument_text.to_text(value)
    if len(text) <= LONGEST_BOUND or isinstance(value, float):
        return text
    return f"about {'-' if value < 0 else ''}2^{abs(value).bit_length() - 1}"
