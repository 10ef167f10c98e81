"""Required stores: the values that must be in memory, whatever placement would decide.

These are the outputs, the values that a CONTIGUOUS or a COPY stores, the targets of scatters, what
a GATHER reads, and what has to be stored so that a kernel does not read too many buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.settings import settings
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.traversal import toposort
from porism.rules.reductions.reduction_splitting import Varying
from porism.schedule.loops.scatter_stores import is_scatter
from porism.schedule.rangeify.buffer_limit import nodes_over_buffer_limit
from porism.schedule.rangeify.placement_cost import element_costs, likely_stored

ALWAYS_STORED: Final = frozenset({ops.CONTIGUOUS, ops.COPY})
LEAVES: Final = frozenset({ops.PARAM, ops.BUFFER})


@dataclass(frozen=True, slots=True)
class TensorGraph:
    """The tensors of a graph, what they cost, and which of them must be stored."""

    roots: tuple[UOp, ...]
    order: tuple[UOp, ...]
    """The tensors, sources before users."""
    constants: frozenset[UOp]
    """Outputs that are one number everywhere: each is stored, and nothing reads it."""
    costs: dict[UOp, float]
    """The cost of one element of each tensor, in additions."""
    reasons: dict[UOp, str]
    """For each tensor that must be stored, why."""
    pinned: frozenset[UOp]
    """Those of them that stay stored even if their value turns out to be cheap."""
    scattered: frozenset[UOp]
    """Those of them that values are scattered into by an index tensor."""


def find_required_stores(sink: UOp) -> TensorGraph:
    """Return the tensors of a graph with those that must be stored, and why."""
    roots = sink.src
    tensors = _tensors(roots)
    constants = dict.fromkeys(root for root in roots if root not in tensors)
    order = (*tensors, *constants)
    reasons = dict.fromkeys(roots, "it is an output")
    pinned = {node for node in order if node.op in ALWAYS_STORED}
    targets: set[UOp] = set()
    varying: dict[UOp, Varying] = {}
    for node in order:
        if node.op is ops.REDUCE_AXIS and is_scatter(node, varying):
            scattered = _reshaped_output(node, roots, order)
            reasons.setdefault(scattered, "values are scattered into it by an index tensor")
            targets.add(scattered)
        if node.op in ALWAYS_STORED and node.src[0].op not in LEAVES:
            reasons.setdefault(node, _requested_by(node))
        if node.op is ops.GATHER and node.src[0].op not in LEAVES and not _is_view(node.src[0]):
            reasons.setdefault(node.src[0], "it is gathered from by an index tensor")
    costs = element_costs(order)
    stored = likely_stored(order, costs) | set(reasons)
    limit = settings.kernel_buffers
    for node in nodes_over_buffer_limit(order, limit, stored):
        reasons.setdefault(node, f"a kernel may read no more than {limit} buffers")
    return TensorGraph(
        roots,
        order,
        constants=frozenset(constants),
        costs=costs,
        reasons=reasons,
        pinned=frozenset(pinned | targets),
        scattered=frozenset(targets),
    )


def _requested_by(node: UOp) -> str:
    """Say who asked for a CONTIGUOUS (its argument), or that a COPY moves it to a device."""
    if node.op is ops.COPY:
        return f"it is copied to {node.arg}"
    return "contiguous() was called on it" if node.arg is None else f"{node.arg} needs it in memory"


def _tensors(roots: Sequence[UOp]) -> dict[UOp, None]:
    """Return the nodes whose value depends on memory or on an index, sources before users."""
    tensors: dict[UOp, None] = {}
    for node in toposort(*roots):
        if node.shaped or node.op in LEAVES or any(s in tensors for s in node.src):
            tensors[node] = None
    return tensors


def _reshaped_output(node: UOp, roots: Sequence[UOp], order: Sequence[UOp]) -> UOp:
    """Return the output that only reshapes the node, if nothing else uses it; else the node."""
    reshaped = node
    while reshaped not in roots:
        users = [n for n in order if reshaped in n.src]
        if len(users) != 1 or users[0].op is not ops.RESHAPE:
            return node
        reshaped = users[0]
    return reshaped


def _is_view(node: UOp) -> bool:
    """Return whether a node is a leaf, or movement ops of one."""
    while node.op.group is Group.MOVEMENT:
        node = node.src[0]
    return node.op in LEAVES
