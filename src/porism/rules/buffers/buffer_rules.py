"""Buffers: values that BUFFERIZE materializes for some ranges, and reads of their elements.

    INDEX(BUFFERIZE(c, r…), i…)                        c; under a mask WHERE(valid, c, 0)
    INDEX(BUFFERIZE(v, r…), r…)                        v
    BUFFERIZE(INDEX(BUFFERIZE(v, r…), s…), s…)         BUFFERIZE(v, r…)
    INDEX(BUFFERIZE(v, r, s), i, j)                    INDEX(BUFFERIZE(v, r), i), v independent of s

The rules apply to buffers of one kernel, in local memory or registers, which only that kernel
reads. A buffer in global memory may be an output, or be read by several kernels;
`porism.schedule.buffer_removal` decides about it with the whole graph at hand. A constant is the
exception: it needs no memory at all. A buffer of no ranges holds one element; an output of one
element stays a BUFFERIZE.

`inline_buffer` recomputes the value of a buffer where it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from porism.base.dtypes import Kind, Space, Theory
from porism.ir import ops
from porism.ir.facts.open_ranges import CLOSERS
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.rewrite.rule import RuleSet, procedure
from porism.rules.addresses.validity import is_masked, masked
from porism.rules.addresses.where_on_load import clauses

KERNEL_SPACES: Final = frozenset({Space.LOCAL, Space.REGISTER})
"""The spaces of memory that one kernel alone can read."""


class Access(NamedTuple):
    """The indices of an INDEX, and the condition under which they are valid."""

    indices: tuple[UOp, ...]
    """The indices without their masks."""
    valid: UOp | None
    """The condition under which there is an element; None if there always is."""

    def masked_indices(self) -> tuple[UOp, ...]:
        """Return the indices with the condition as a mask of the first."""
        if self.valid is None or not self.indices:
            return self.indices
        return (masked(self.valid, self.indices[0]), *self.indices[1:])

    def value_or_zero(self, value: UOp) -> UOp:
        """Return the value where there is an element, and 0 elsewhere."""
        return value if self.valid is None else self.valid.where(value, 0)


def access_of(index: UOp) -> Access | None:
    """Split the masks off the indices of an INDEX; None if there is never an element."""
    masked_indices = list(index.src[1:])
    conditions: dict[UOp, None] = {}
    if masked_indices and masked_indices[-1].dtype.kind is Kind.BOOL:
        conditions.update(dict.fromkeys(clauses(masked_indices.pop())))
    indices = []
    for i in masked_indices:
        if i.op is ops.INVALID:
            return None
        if is_masked(i):
            conditions.update(dict.fromkeys(clauses(i.src[0])))
            i = i.src[1]
        indices.append(i)
    valid = _conjunction(conditions)
    if valid is not None and valid.op is ops.CONST:
        return Access(tuple(indices), None) if valid.arg else None
    return Access(tuple(indices), valid)


def _conjunction(conditions: Iterable[UOp]) -> UOp | None:
    whole: UOp | None = None
    for condition in conditions:
        whole = condition if whole is None else whole & condition
    return whole


# -- a value instead of its buffer -----------------------------------------------------------------


def inline_buffer(buffer: UOp, read: Access) -> UOp | None:
    """Return the value of a BUFFERIZE recomputed at some indices; None if that is not possible.

    Where there is no element the value is 0, and nothing is loaded: each load of the value gets the
    mask. It is not possible where a range of the indices is closed inside the value.
    """
    value, *axes = buffer.src
    index_of = {r: i for r, i in zip(axes, read.indices, strict=True) if r.op is ops.RANGE}
    if read.valid is None and all(r is i for r, i in index_of.items()):
        return value
    order = toposort(value, within=_is_in_kernel)
    parts = [*read.indices, *([] if read.valid is None else [read.valid])]
    free = {r for part in parts for r in part.ranges}
    if free and any(n.op in CLOSERS and not free.isdisjoint(n.src[1:]) for n in order):
        return None
    new: dict[UOp, UOp] = {}  # a node without the ranges stays as it is
    for node in order:
        if not index_of.keys().isdisjoint(node.ranges):
            src = tuple([new.get(s, s) for s in node.src])
            new[node] = _inline_node(node, src, index_of, read.valid)
    return read.value_or_zero(new.get(value, value))


def _is_in_kernel(node: UOp) -> bool:
    """Return whether a node is computed where its user is: what is below a buffer is not."""
    return node.op is not ops.BUFFERIZE or node.arg is not Space.GLOBAL


def _inline_node(
    node: UOp, src: tuple[UOp, ...], index_of: Mapping[UOp, UOp], valid: UOp | None
) -> UOp:
    """Return a node of a value on new sources; a range becomes its index, a load is masked."""
    index = index_of.get(node)
    if index is not None:
        return index
    copy = node.replace(src)
    if valid is None or node.op is not ops.INDEX or index_of.keys().isdisjoint(node.ranges):
        return copy
    inner = access_of(copy)
    if inner is None or not inner.indices:
        return copy
    access = Access(inner.indices, _conjunction_of_two(valid, inner.valid))
    if access.valid is not None and access.valid.op is ops.CONST:
        return UOp.const(copy.dtype, 0)  # `valid` is a condition, so both never hold
    return copy.src[0].index(*access.masked_indices(), dtype=copy.dtype)


def _conjunction_of_two(a: UOp | None, b: UOp | None) -> UOp | None:
    if a is None or b is None:
        return b if a is None else a
    return _conjunction(dict.fromkeys((*clauses(a), *clauses(b))))


# -- reads and buffers that can be replaced --------------------------------------------------------


def constant_element(access: UOp) -> UOp | None:
    """Return the element of a constant that an INDEX reads: the constant, or 0 under a mask."""
    base = access.src[0]
    value = base.src[0] if base.op is ops.BUFFERIZE else base
    if value.op is not ops.CONST or access.dtype is not value.dtype:
        return None
    read = access_of(access)
    return UOp.const(value.dtype, 0) if read is None else read.value_or_zero(value)


def forwarded_value(access: UOp) -> UOp | None:
    """Return the value of a buffer that is read in the iteration in which it was written."""
    base, *indices = access.src
    if base.op is not ops.BUFFERIZE or tuple(indices) != base.src[1:]:
        return None
    return base.src[0]


def copied_buffer(buffer: UOp) -> UOp | None:
    """Return the buffer that a BUFFERIZE copies element by element within the same memory space."""
    access, *ranges = buffer.src
    if access.op is not ops.INDEX or access.src[0].op is not ops.BUFFERIZE:
        return None
    inner = access.src[0]
    if inner.arg is not buffer.arg or access.src[1:] != tuple(ranges):
        return None
    loops = [r for r in ranges if r.op is ops.RANGE]
    if len(set(loops)) < len(loops) or not set(inner.ranges).isdisjoint(loops):
        return None
    return inner if _extents(buffer) == _extents(inner) else None


def _extents(buffer: UOp) -> list[UOp]:
    """Return the extent of each axis; for an axis that is no range a key of its index."""
    return [r.src[0] if r.op is ops.RANGE else -1 - r for r in buffer.src[1:]]


def dead_axes(buffer: UOp) -> tuple[int, ...]:
    """Return the axes of a BUFFERIZE along which all elements are equal."""
    value, *axes = buffer.src
    open_ranges = set(value.ranges)
    needed = {s for r in axes if r.op is ops.RANGE for s in r.src[0].ranges}
    return tuple(
        axis
        for axis, r in enumerate(axes)
        if (r.op is ops.RANGE and r not in open_ranges and r not in needed)
        or (r.op is ops.CONST and r.arg == 0)
    )


def without_axes(buffer: UOp, axes: Sequence[int]) -> UOp:
    """Return a BUFFERIZE without these axes; without any axis left it holds one element."""
    kept = [r for axis, r in enumerate(buffer.src[1:]) if axis not in axes]
    return ops.BUFFERIZE(buffer.src[0], *kept, arg=buffer.arg)


def read_without_axes(access: UOp, buffer: UOp, axes: Sequence[int]) -> UOp | None:
    """Return a read of the same element from a buffer that has lost these axes."""
    read = access_of(access)
    if read is None:
        return None
    indices = tuple(i for axis, i in enumerate(read.indices) if axis not in axes)
    element = buffer.index(*Access(indices, read.valid).masked_indices())
    return element if indices else read.value_or_zero(element)


# -- rules -----------------------------------------------------------------------------------------


def _in_kernel(node: UOp) -> bool:
    return node.op is ops.BUFFERIZE and node.arg in KERNEL_SPACES


@procedure("index-constant", (ops.INDEX,), seeds="003.buf.1 003.buf.2")
def index_constant(node: UOp) -> UOp | None:
    """Replace an element of a constant by the constant, or by 0 where the index is INVALID."""
    return constant_element(node)


@procedure("index-bufferize", (ops.INDEX,), seeds="003.buf.3")
def index_bufferize(node: UOp) -> UOp | None:
    """Forward a value of a kernel's buffer that is read in the iteration that wrote it."""
    return forwarded_value(node) if _in_kernel(node.src[0]) else None


@procedure("bufferize-copy", (ops.BUFFERIZE,), seeds="003.buf.4")
def bufferize_copy(node: UOp) -> UOp | None:
    """Drop a copy of a kernel's buffer with the same layout in the same memory."""
    return copied_buffer(node) if _in_kernel(node) else None


@procedure("index-dead-axis", (ops.INDEX,), seeds="003.deadaxis")
def index_dead_axis(node: UOp) -> UOp | None:
    """Drop an axis of a kernel's buffer that its value does not depend on."""
    base = node.src[0]
    if not _in_kernel(base):
        return None
    axes = dead_axes(base)
    return read_without_axes(node, without_axes(base, axes), axes) if axes else None


BUFFERS: Final = RuleSet(
    "buffers",
    theory=Theory.STRUCTURE,
    rules=(index_constant, index_bufferize, bufferize_copy, index_dead_axis),
)
