"""Constant subgraphs: values that depend on constant buffers alone, and so are computed once.

    x * (scale / sqrt(variance + eps))        x * c, where c is computed before the first call

A constant is a buffer that nobody writes. Movement ops of constants stay in the graph, since they
cost nothing. So does a value that needs more memory than the constants below it: it is broadcast,
or wider than what is stored, and computing it where it is read is cheaper than reading it. But a
value whose elements are read many times, as weights that a matrix product of several rows converts
to floats, would be stored in each call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.traversal import substitute, toposort
from porism.schedule.rangeify.placement_cost import tensor_size

MAX_GROWN_BYTES: Final = 1 << 16
"""Bytes of a value that may be larger than the constants below it; chosen by hand."""

MAX_GROWTH: Final = 4
"""How many times larger than the constants below it such a value may be; chosen by hand."""

MIN_READS: Final = 8
"""How often each element is read, at least, for a large value to grow so; chosen by hand."""

MAX_CACHED_BYTES: Final = 1 << 22
"""Bytes of a value that some cache keeps until it is read again, as a rule; chosen by hand."""

MIN_READS_OF_MEMORY: Final = 64
"""How often each element of a larger value is read, at least: it comes from memory in each call."""

NOT_CONSTANT: Final = frozenset(
    {ops.VARIABLE, ops.BIND, ops.BUFFER, ops.PARAM, ops.ASSIGN, ops.SINK}
)
"""Ops whose value differs between calls, or that have effects."""


def precompute_constants(
    roots: Sequence[UOp],
    constants: Collection[UOp],
    max_bytes: int,
    new_buffer: Callable[[UOp], UOp],
) -> tuple[tuple[UOp, ...], dict[UOp, UOp]]:
    """Replace the constant subgraphs below some roots by new buffers.

    Returns the new roots, and the buffer of each subgraph. The buffers take `max_bytes` at most
    together: the smallest are taken first.
    """
    buffers: dict[UOp, UOp] = {}
    for node in sorted(constant_subgraphs(roots, constants), key=bytes_of):
        max_bytes -= bytes_of(node)
        if max_bytes >= 0:
            buffers[node] = new_buffer(node)
    return substitute(ops.SINK(*roots), buffers).src, buffers


def constant_subgraphs(roots: Sequence[UOp], constants: Collection[UOp]) -> list[UOp]:
    """Return the nodes below some roots to compute once, where these BUFFERs are constants.

    >>> from porism.base.dtypes import f32, index
    >>> from porism.ir.buffer_node import new_buffer
    >>> x, scale = (new_buffer(f32, (UOp.const(index, 4),), "cpu") for _ in range(2))
    >>> nodes = constant_subgraphs([x * ops.SQRT(scale + 1)], {scale})
    >>> [node.op.name for node in nodes]
    ['SQRT']
    """
    if not constants:
        return []
    order = toposort(*roots)
    constant, uses_buffer = _constant_nodes(order, constants)
    selected: set[UOp] = set()
    waiting = [s for node in order if node not in constant for s in node.src if s in uses_buffer]
    seen = set(waiting)
    while waiting:
        view = waiting.pop()
        node = _moved_value(view)
        if node.op is ops.BUFFER or node in selected:
            continue
        reads = tensor_size(view) // max(tensor_size(node), 1)
        if _is_worth_storing(node, constants, reads):
            selected.add(node)
            continue
        below = [s for s in node.src if s in uses_buffer and s not in seen]
        seen.update(below)
        waiting += below
    return [node for node in order if node in selected]


def _constant_nodes(order: Sequence[UOp], constants: Collection[UOp]) -> tuple[set[UOp], set[UOp]]:
    """Return the constant nodes, and those of them that depend on a buffer."""
    constant: set[UOp] = set()
    uses_buffer: set[UOp] = set()
    for node in order:
        if node in constants:
            constant.add(node)
            uses_buffer.add(node)
        elif node.op not in NOT_CONSTANT and all(s in constant for s in node.src):
            constant.add(node)
            if any(s in uses_buffer for s in node.src):
                uses_buffer.add(node)
    return constant, uses_buffer


def _moved_value(node: UOp) -> UOp:
    """Return the value below a chain of movement ops."""
    while node.op.group is Group.MOVEMENT:
        node = node.src[0]
    return node


def _is_worth_storing(node: UOp, constants: Collection[UOp], reads: int) -> bool:
    """Return whether a value can be in memory, and needs not much more of it than its constants.

    `reads` is how often an element is read.
    """
    if node.dtype is index:  # it has no width; what it was converted from has
        return False
    if node.op is ops.COPY:  # otherwise every call would move it
        return True
    size = bytes_of(node)
    least = 0 if size <= MAX_GROWN_BYTES else MIN_READS
    is_rare = reads < (least if size <= MAX_CACHED_BYTES else MIN_READS_OF_MEMORY)
    enough = size if is_rare else -(-size // MAX_GROWTH)
    return _have_bytes(node, constants, enough)


def _have_bytes(node: UOp, constants: Collection[UOp], enough: int) -> bool:
    """Return whether the constants below a node have at least so many bytes, all together."""
    seen = {node}
    stack = [node]
    while stack and enough > 0:
        node = stack.pop()
        if node in constants:
            enough -= bytes_of(node)
        stack += [s for s in node.src if s not in seen]
        seen.update(node.src)
    return enough <= 0


def bytes_of(node: UOp) -> int:
    """Return the bytes of memory that a value takes."""
    return tensor_size(node) * node.dtype.numpy.itemsize
