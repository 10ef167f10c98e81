"""Buffers: values that are kept in memory for some ranges, and elements of them.

    INDEX(BUFFERIZE(c, r…), i…)                        c; under a mask WHERE(valid, c, 0)
    INDEX(BUFFERIZE(v, r…), r…)                        v
    BUFFERIZE(INDEX(BUFFERIZE(v, r…), s…), s…)         BUFFERIZE(v, r…)
    INDEX(BUFFERIZE(v, r, s), i, j), v not about s     INDEX(BUFFERIZE(v, r), i)

As rules, these are for what is kept inside a kernel: whoever reads it is in that kernel. A buffer
in global memory may be an output, or be read by several kernels; what becomes of it is decided with
the whole graph at hand, by `porism.schedule.buffer_removal`. A constant is the exception: it needs
no memory at all. A buffer of no ranges holds one element; an output that is one stays a BUFFERIZE.

`inlined` is what reading a buffer comes to when its value is computed instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from porism.base.dtypes import Kind, Space, Theory
from porism.ir import ops
from porism.ir.facts.open_ranges import CLOSERS
from porism.ir.node import UOp
from porism.ir.traversal import rebuild, toposort
from porism.rewrite.rule import RuleSet, procedure
from porism.rules.addresses.validity import is_masked, masked
from porism.rules.addresses.where_on_load import clauses

LEVELS: Final = frozenset({Space.LOCAL, Space.REGISTER})
"""Memory of one kernel."""


class Read(NamedTuple):
    """An INDEX taken apart."""

    at: tuple[UOp, ...]
    """The indices without their masks."""
    valid: UOp | None
    """Where there is an element at all; None if everywhere."""

    def masked(self) -> tuple[UOp, ...]:
        """The indices of an INDEX again."""
        if self.valid is None or not self.at:
            return self.at
        return (masked(self.valid, self.at[0]), *self.at[1:])

    def chosen(self, value: UOp) -> UOp:
        """The value where there is an element, and 0 elsewhere."""
        return value if self.valid is None else self.valid.where(value, 0)


def read_of(access: UOp) -> Read | None:
    """The indices of an INDEX and the condition of them all; None if there is never an element."""
    indices = list(access.src[1:])
    conditions: dict[UOp, None] = {}
    if indices and indices[-1].dtype.kind is Kind.BOOL:
        conditions.update(dict.fromkeys(clauses(indices.pop())))
    at = []
    for i in indices:
        if i.op is ops.INVALID:
            return None
        if is_masked(i):
            conditions.update(dict.fromkeys(clauses(i.src[0])))
            i = i.src[1]
        at.append(i)
    valid = _all_of(conditions)
    if valid is not None and valid.op is ops.CONST:
        return Read(tuple(at), None) if valid.arg else None
    return Read(tuple(at), valid)


def _all_of(conditions: Iterable[UOp]) -> UOp | None:
    whole: UOp | None = None
    for condition in conditions:
        whole = condition if whole is None else whole & condition
    return whole


# -- a value instead of its buffer -----------------------------------------------------------------


def inlined(buffer: UOp, read: Read) -> UOp | None:
    """The value of a BUFFERIZE at some indices, computed there; None if that cannot be said.

    Where there is no element the value is 0, and nothing is loaded on the way: each load of the
    value gets the mask. An index must not meet a range of its own name inside of the value.
    """
    value, *places = buffer.src
    new = {r: i for r, i in zip(places, read.at, strict=True) if r.op is ops.RANGE}
    if read.valid is None and all(r is i for r, i in new.items()):
        return value
    order = toposort(value)
    parts = [*read.at, *([] if read.valid is None else [read.valid])]
    free = {r for part in parts for r in part.ranges}
    if free and any(n.op in CLOSERS and not free.isdisjoint(n.src[1:]) for n in order):
        return None
    return read.chosen(rebuild(value, lambda node, src: _at(node, src, new, read.valid)))


def _at(node: UOp, src: tuple[UOp, ...], new: Mapping[UOp, UOp], valid: UOp | None) -> UOp:
    """A node of a value at other indices; what it loads is masked."""
    found = new.get(node)
    if found is not None:
        return found
    made = node.replace(src)
    if valid is None or node.op is not ops.INDEX or new.keys().isdisjoint(node.ranges):
        return made
    inner = read_of(made)
    if inner is None or not inner.at:
        return made
    here = Read(inner.at, _both(valid, inner.valid))
    if here.valid is not None and here.valid.op is ops.CONST:
        return UOp.const(made.dtype, 0)  # `valid` is a condition, so both never hold
    return made.src[0].index(*here.masked(), dtype=made.dtype)


def _both(a: UOp | None, b: UOp | None) -> UOp | None:
    if a is None or b is None:
        return b if a is None else a
    return _all_of(dict.fromkeys((*clauses(a), *clauses(b))))


# -- what reading a buffer comes to ----------------------------------------------------------------


def constant_read(access: UOp) -> UOp | None:
    """An element of a constant: the constant, and 0 where there is no element."""
    base = access.src[0]
    value = base.src[0] if base.op is ops.BUFFERIZE else base
    if value.op is not ops.CONST or access.dtype is not value.dtype:
        return None
    read = read_of(access)
    return UOp.const(value.dtype, 0) if read is None else read.chosen(value)


def same_element(access: UOp) -> UOp | None:
    """The value of a buffer that is read in the iteration in which it was written."""
    base, *indices = access.src
    if base.op is not ops.BUFFERIZE or tuple(indices) != base.src[1:]:
        return None
    return base.src[0]


def copied(buffer: UOp) -> UOp | None:
    """The buffer that a BUFFERIZE copies, element by element, in the same memory."""
    access, *ranges = buffer.src
    if access.op is not ops.INDEX or access.src[0].op is not ops.BUFFERIZE:
        return None
    inner = access.src[0]
    if inner.arg is not buffer.arg or access.src[1:] != tuple(ranges):
        return None
    loops = [r for r in ranges if r.op is ops.RANGE]
    if len(set(loops)) < len(loops) or not set(inner.ranges).isdisjoint(loops):
        return None
    return inner if _sizes(buffer) == _sizes(inner) else None


def _sizes(buffer: UOp) -> list[UOp]:
    """The number of iterations of each range, or the index that stands for one."""
    return [r.src[0] if r.op is ops.RANGE else -1 - r for r in buffer.src[1:]]


def dead_axes(buffer: UOp) -> tuple[int, ...]:
    """The axes of a BUFFERIZE along which all elements are the same."""
    value, *places = buffer.src
    open_ranges = set(value.ranges)
    needed = {s for r in places if r.op is ops.RANGE for s in r.src[0].ranges}
    return tuple(
        axis
        for axis, r in enumerate(places)
        if (r.op is ops.RANGE and r not in open_ranges and r not in needed)
        or (r.op is ops.CONST and r.arg == 0)
    )


def without_axes(buffer: UOp, axes: Sequence[int]) -> UOp:
    """A BUFFERIZE without some axes; one element is left where they were all."""
    kept = [r for axis, r in enumerate(buffer.src[1:]) if axis not in axes]
    return ops.BUFFERIZE(buffer.src[0], *kept, arg=buffer.arg)


def read_without_axes(access: UOp, buffer: UOp, axes: Sequence[int]) -> UOp | None:
    """The element that an INDEX read, in a buffer that lost some axes."""
    read = read_of(access)
    if read is None:
        return None
    at = tuple(i for axis, i in enumerate(read.at) if axis not in axes)
    element = buffer.index(*Read(at, read.valid).masked())
    return element if at else read.chosen(element)


# -- rules -----------------------------------------------------------------------------------------


def _in_kernel(node: UOp) -> bool:
    return node.op is ops.BUFFERIZE and node.arg in LEVELS


@procedure("index-constant", (ops.INDEX,), seeds="003.buf.1 003.buf.2")
def index_constant(node: UOp) -> UOp | None:
    """An element of a constant is the constant, or 0 where the index is INVALID."""
    return constant_read(node)


@procedure("index-bufferize", (ops.INDEX,), seeds="003.buf.3")
def index_bufferize(node: UOp) -> UOp | None:
    """A value kept inside a kernel and read in the iteration that wrote it needs no memory."""
    return same_element(node) if _in_kernel(node.src[0]) else None


@procedure("bufferize-copy", (ops.BUFFERIZE,), seeds="003.buf.4")
def bufferize_copy(node: UOp) -> UOp | None:
    """A copy of a buffer inside a kernel, of the same layout in the same memory, is that buffer."""
    return copied(node) if _in_kernel(node) else None


@procedure("index-dead-axis", (ops.INDEX,), seeds="003.deadaxis")
def index_dead_axis(node: UOp) -> UOp | None:
    """A value kept inside a kernel is kept once along an axis that it does not depend on."""
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
