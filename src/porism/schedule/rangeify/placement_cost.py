"""Placement cost: what computing an element costs, against storing and reading it.

The unit is one addition of floats in a vectorized loop, as in the table of ops (`Op.cost`). The
figures are rough; they only have to tell cheap values from expensive ones. All constants here are
independent of the machine; what storing a value costs is a property of it:
`porism.base.target.StorageModel`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from porism.base.target import StorageModel
from porism.ir import ops
from porism.ir.facts.node_shape import Shape, shape
from porism.ir.node import UOp
from porism.ir.ops import Group, Op

READ_COST: Final = 1.0
"""Cost of reading an element of an input, which is read in any case."""

EXPENSIVE: Final = 96.0
"""Cost per element from which a value is stored where it can be: it contains a reduction, or a
long chain of ops."""

MAX_COST: Final = 1e12
"""Costs are clamped to this, so that they stay finite."""

SIZE_PER_COST: Final = 0.4
"""Ops of a kernel that an op of cost 1 counts for, if it is decomposed: about a fifth of the
instructions of such an op."""

IN_MEMORY: Final = frozenset({ops.PARAM, ops.BUFFER, ops.CONTIGUOUS, ops.COPY, ops.ASSIGN})
"""Ops whose value is in memory in any case."""

FREE: Final = frozenset({ops.CONST, ops.VARIABLE, ops.BIND, ops.IOTA})
"""Ops that cost nothing."""


def size_in_kernel(op: Op) -> int:
    """Return how many ops of a kernel an op counts for: more than 1 if machines do not have it."""
    return max(int(SIZE_PER_COST * op.cost), 1)


def element_count(dims: Iterable[UOp]) -> int:
    """Return the number of elements of a shape; an upper bound if sizes are symbolic."""
    total = 1
    for dim in dims:
        total *= max(int(dim.vmax), 0)
    return total


def trip_count(loops: Iterable[UOp]) -> int:
    """Return the number of iterations of a loop nest; an upper bound if extents are symbolic."""
    return element_count(loop.src[0] for loop in loops)


def tensor_size(node: UOp) -> int:
    """Return the number of elements of a tensor; an upper bound if sizes are symbolic."""
    return element_count(shape(node))


def recomputed_cost(each: float, uses: int) -> float:
    """Return the cost of computing an element again at each of its uses."""
    return uses * each


def stored_cost(each: float, elements: int, uses: int, storage: StorageModel) -> float:
    """Return the cost of computing all elements once, into memory, and reading them."""
    return elements * (each + storage.store_global) + uses * storage.load_global


def local_cost(each: float, elements: int, uses: int, storage: StorageModel) -> float:
    """Return the cost of computing all elements once, into a local buffer, and reading them."""
    return elements * (each + storage.store_local) + uses * storage.load_local


def element_costs(order: Sequence[UOp]) -> dict[UOp, float]:
    """Return the cost of one element of each node, if it is computed where it is used.

    What is expensive and used in several ways, or repeated by an EXPAND, will be stored somewhere:
    for its users it costs no more than reading it. The cost of what is computed once for many
    elements is shared by them. `order` has sources before users.
    """
    users = Counter(s for node in order for s in dict.fromkeys(node.src))
    costs: dict[UOp, float] = {}
    costs_to_users: dict[UOp, float] = {}
    for node in order:
        cost = costs[node] = min(_cost(node, costs_to_users), MAX_COST)
        costs_to_users[node] = READ_COST if cost >= EXPENSIVE and users[node] > 1 else cost
    return costs


def likely_stored(order: Sequence[UOp], costs: Mapping[UOp, float]) -> set[UOp]:
    """Return the nodes that are expensive, and used in several ways or repeated by an EXPAND."""
    users = Counter(s for node in order for s in dict.fromkeys(node.src))
    repeated = {node.src[0] for node in order if node.op is ops.EXPAND}
    return {n for n in order if costs[n] >= EXPENSIVE and (users[n] > 1 or n in repeated)}


def _cost(node: UOp, costs: dict[UOp, float]) -> float:
    """Return the cost of an element, given what the sources cost their users."""
    op = node.op
    if op in IN_MEMORY:
        return READ_COST
    if op in FREE or not node.src:
        return 0.0
    if op is ops.EXPAND:
        source = node.src[0]
        each = costs.get(source, 0.0)
        once = min(each, READ_COST) if each >= EXPENSIVE else each
        return once * _share(shape(source), shape(node))
    if op is ops.REDUCE_AXIS:
        dims = shape(node.src[0])
        return (costs.get(node.src[0], 0.0) + 1) * element_count(dims[axis] for axis in node.arg[1])
    if op.group is Group.MOVEMENT:
        return costs.get(node.src[0], 0.0) + (op is ops.PAD)
    return op.cost + sum(costs.get(s, 0.0) for s in dict.fromkeys(node.src))


def _share(old: Shape, new: Shape) -> float:
    """Return the part of the cost of an element that each of its repetitions bears."""
    return element_count(old) / max(element_count(new), 1)
