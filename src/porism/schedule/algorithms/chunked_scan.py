"""Chunked scans: a scan of few long rows is computed in chunks, so that all cores have work.

    Before   CONTIGUOUS(scan(x[1, 2^20]))
    After    CONTIGUOUS(scan(x[1, 64, 2^14]) combined with the total of the chunks before)

A scan, as tensors write it, is a reduction of each element and those before it, with a triangular
mask (`masked_prefixes`). The totals of the chunks are scanned in the same way and give the value
before each chunk, so elements are read twice. Float sums are added in another order than before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from porism.base import dtypes
from porism.base.target import Target
from porism.ir import ops, tensor_nodes
from porism.ir.facts.node_shape import shape
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.tensor_nodes import Dim
from porism.ir.traversal import rebuild, toposort

ENOUGH_ROWS: Final = 64
"""Rows that suffice to occupy the cores of common processors; chosen by hand."""

MIN_CHUNK: Final = 2048
"""Elements of a chunk of a row, at least; chosen by hand."""

REQUESTER: Final = "a scan in parts"
"""Who asks for the stores of partial results."""


def masked_prefixes(x: UOp, op: Op) -> UOp:
    """Return all prefix reductions along the last axis by a triangular mask.

    That is n² operations as written; a kernel that does nothing else along the axis takes n.
    """
    dims = list[Dim](shape(x))
    size = dims[-1]
    rows = tensor_nodes.reshape(x, [*dims[:-1], 1, size])
    square = [*dims, size]
    rank = len(square)
    in_prefix = tensor_nodes.iota(square, rank - 1) <= tensor_nodes.iota(square, rank - 2)
    masked = ops.WHERE(in_prefix, tensor_nodes.expand(rows, square), _identity(x, op))
    return tensor_nodes.reshape(tensor_nodes.reduce(masked, op, (rank - 1,)), dims)


def materialize(x: UOp, memory_axis: int) -> UOp:
    """Return x materialized in memory with its last axis moved to `memory_axis`."""
    rank = len(shape(x))
    order = [*range(memory_axis), rank - 1, *range(memory_axis, rank - 1)]
    back = [order.index(k) for k in range(rank)]
    return tensor_nodes.permute(
        tensor_nodes.contiguous(tensor_nodes.permute(x, order), REQUESTER), back
    )


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan in a graph: the tensor, the op, and where the scanned axis is in memory."""

    x: UOp
    op: Op
    memory_axis: int


def chunk_scans(sink: UOp, target: Target) -> UOp:
    """Return the graph with the scans of few long rows in chunks."""
    chunked: dict[UOp, int] = {}
    for node in toposort(sink):
        if node.op is ops.CONTIGUOUS:
            scan = _match_scan(node)
            chunks = 1 if scan is None else _chunk_count(scan, target)
            if chunks > 1:
                chunked[node] = chunks
    if not chunked:
        return sink

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        changed = node.replace(src)
        if node not in chunked:
            return changed
        scan = _match_scan(changed)
        assert scan is not None, "sources are replaced by tensors of the same shape"
        whole = _in_chunks(scan, chunked[node])
        return ops.CONTIGUOUS(tensor_nodes.permute(whole, _memory_order(changed)), arg=node.arg)

    return rebuild(sink, change)


def _match_scan(node: UOp) -> Scan | None:
    """Return the scan whose result a CONTIGUOUS stores; None if it stores something else."""
    order = _memory_order(node)
    value = node.src[0].src[0] if node.src[0].op is ops.PERMUTE else node.src[0]
    reduced = value.src[0] if value.op is ops.RESHAPE else value
    if reduced.op is not ops.REDUCE_AXIS or reduced.src[0].op is not ops.WHERE:
        return None
    op, axes = reduced.arg
    expanded = reduced.src[0].src[1]
    if axes != (len(order),) or expanded.op is not ops.EXPAND:
        return None
    last = len(order) - 1
    memory_axis = order.index(last)
    rest = [axis for axis in order if axis != last]
    x = tensor_nodes.reshape(expanded.src[0], shape(value))
    if rest != list(range(last)) or masked_prefixes(x, op) is not value:
        return None
    return Scan(x, op, memory_axis)


def _memory_order(node: UOp) -> tuple[int, ...]:
    """Return the order of axes in which a CONTIGUOUS stores the tensor that it permutes."""
    source = node.src[0]
    return source.arg if source.op is ops.PERMUTE else tuple(range(len(shape(source))))


def _chunk_count(scan: Scan, target: Target) -> int:
    """Return into how many equal chunks a row is cut; 1 if there are enough rows."""
    *others, length = shape(scan.x)
    if length.op is not ops.CONST:
        return 1
    enough = max(ENOUGH_ROWS, target.cores)
    return _equal_chunks(int(length.arg), others, enough)


def _equal_chunks(size: int, others: Sequence[UOp], enough: int) -> int:
    rows = 1
    for dim in others:
        rows *= int(min(dim.vmax, enough))
    for chunks in range(-(-enough // max(rows, 1)), size // MIN_CHUNK + 1):
        if size % chunks == 0:
            return chunks
    return 1


def _in_chunks(scan: Scan, chunks: int) -> UOp:
    """Return a scan of rows that are cut into chunks."""
    x, op, memory_axis = scan.x, scan.op, scan.memory_axis
    dims = shape(x)
    size = int(dims[-1].arg)
    chunked = tensor_nodes.reshape(x, [*dims[:-1], chunks, size // chunks])
    totals = tensor_nodes.reshape(
        tensor_nodes.reduce(chunked, op, (len(dims),)), [*dims[:-1], chunks]
    )
    scanned = masked_prefixes(materialize(totals, memory_axis), op)
    before = tensor_nodes.reshape(
        _exclusive(materialize(scanned, memory_axis), op), [*dims[:-1], chunks, 1]
    )
    combined = op(tensor_nodes.expand(before, shape(chunked)), masked_prefixes(chunked, op))
    return tensor_nodes.reshape(combined, dims)


def _exclusive(x: UOp, op: Op) -> UOp:
    """Return the exclusive scan of an inclusive one: shifted by one, with the identity first."""
    *others, size = shape(x)
    pairs = [*[(0, 0)] * len(others), (1, 0)]
    moved = tensor_nodes.pad(x, pairs)
    first = _identity(x, op)
    if first.arg != 0:
        inside = tensor_nodes.pad(tensor_nodes.full(dtypes.boolean, True, shape(x)), pairs)
        moved = inside.where(moved, first)
    return tensor_nodes.shrink(moved, [*[(0, n) for n in others], (0, size)])


def _identity(x: UOp, op: Op) -> UOp:
    """Return the identity of a reduction as a constant of x's type."""
    value = identity(op, x.dtype)
    assert value is not None
    return UOp.const(x.dtype, value)
