"""Loop substitution: replace the loops of a kernel by other loops, and find loops by name.

    for r0 < 64: … a[r0] …        for r0_0 < 4: for r0_1 < 16: … a[r0_0 * 16 + r0_1] …

Loops are passed as their RANGE nodes. Each function that returns a kernel returns one that computes
the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.text.expression import name_of_axis
from porism.ir.traversal import toposort

CLOSERS: Final = frozenset({ops.END, ops.REDUCE, ops.BUFFERIZE})
"""The ops that close loops: these are their sources after the first."""


_latest: tuple[UOp, dict[str, UOp]] | None = None
"""The kernel whose loops were asked for last, with them: one action asks for them several times."""


def named_ranges(kernel: UOp) -> dict[str, UOp]:
    """Return the loops of a kernel by the names that listings show, sorted by axis."""
    global _latest
    latest = _latest
    if latest is None or latest[0] is not kernel:
        loops = sorted((n for n in toposort(kernel) if n.op is ops.RANGE), key=lambda r: r.arg[0])
        latest = _latest = (kernel, {name_of_axis(r.arg[0]): r for r in loops})
    return latest[1]


def ranges_of(kernel: UOp) -> list[UOp]:
    """Return the loops of a kernel, sorted by axis."""
    return list(named_ranges(kernel).values())


def closers_of(kernel: UOp, loop: UOp) -> list[UOp]:
    """Return the nodes of a kernel that close a loop."""
    return [n for n in toposort(kernel) if n.op in CLOSERS and loop in n.src[1:]]


def is_part_of(loop: UOp, whole: UOp) -> bool:
    """Return whether a loop is another one, or a loop that actions have split that one into.

    A loop `r0` is split into `r0_0` and `r0_1`, and `r0_1` into `r0_1_0` and `r0_1_1`. A kernel
    may come with loops that were split before: `r0_0` is no part of `r0_1`.
    """
    axis = whole.arg[0]
    return bool(loop.arg[0][: len(axis)] == axis)


def with_kind(loop: UOp, kind: Axis) -> UOp:
    """Return a loop of the same name and extent, and of another kind."""
    return ops.RANGE(*loop.src, arg=(loop.arg[0], kind))


Replacement = tuple[UOp, Sequence[UOp]]
"""What takes the place of a loop: its value as an expression of other loops, and these loops."""


def replace_loop(kernel: UOp, loop: UOp, value: UOp, loops: Sequence[UOp]) -> UOp:
    """Return a kernel with a loop's value computed from other loops, closed where it was closed."""
    return replace_loops(kernel, {loop: (value, loops)})


def replace_loops(kernel: UOp, replacements: Mapping[UOp, Replacement]) -> UOp:
    """Return a kernel with several loops replaced, in one walk of the graph."""
    new = {loop: value for loop, (value, _) in replacements.items()}
    changed = new.keys()  # what does not depend on a replaced loop stays the same node
    for node in toposort(kernel):
        if changed.isdisjoint(node.src):
            continue
        if node.op in CLOSERS and not replacements.keys().isdisjoint(node.src[1:]):
            src = [new.get(node.src[0], node.src[0])]
            for s in node.src[1:]:
                src += replacements[s][1] if s in replacements else [new.get(s, s)]
        else:
            src = [new.get(s, s) for s in node.src]
        new[node] = node.replace(tuple(src))
    return new.get(kernel, kernel)


def change_kind(kernel: UOp, loop: UOp, kind: Axis) -> UOp:
    """Return a kernel with one loop of another kind."""
    changed = with_kind(loop, kind)
    return replace_loop(kernel, loop, changed, [changed])


def split_loop(
    kernel: UOp, loop: UOp, amount: int, kind: Axis, *, top: bool = False
) -> tuple[UOp, UOp, UOp]:
    """Split a loop of extent n into n/amount and `amount`; return the kernel and the two loops.

    With `top` the new loop has the stride n/amount, and not 1.
    """
    outer, inner, replacement = split_replacement(loop, amount, kind, top=top)
    return replace_loops(kernel, {loop: replacement}), outer, inner


def split_replacement(
    loop: UOp, amount: int, kind: Axis, *, top: bool = False
) -> tuple[UOp, UOp, Replacement]:
    """Return the outer and the inner loop of a split, and what takes the place of the loop."""
    extent = loop.src[0]
    assert extent.op is ops.CONST, "the extent is a constant"
    assert extent.arg % amount == 0, "the amount divides the extent"
    axis, own = loop.arg
    count = extent.arg // amount
    outer = UOp.range(count, (*axis, 0), own)
    inner = UOp.range(amount, (*axis, 1), kind)
    kept = UOp.const(extent.dtype, 0) if count == 1 else outer
    value = inner * count + kept if top else kept * amount + inner
    return outer, inner, (value, [inner] if count == 1 else [outer, inner])
