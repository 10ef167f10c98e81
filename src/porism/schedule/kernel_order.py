"""Kernel order: a kernel that frees more memory than it takes runs as soon as it can.

Kernels come in the order in which the outputs need them. In a training step the gradient of the
first weights comes first, so the gradients of all others would wait for the end, and with them all
that they read. Here they run when what they read is computed, and it is freed.

    before    f1 f2 f3 | g3 g2 g1 | w1 w2 w3        all of f and g are alive at the end
    after     f1 f2 f3 | w3 g3 | w2 g2 | w1 g1
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp

Values = tuple[UOp, ...]


def order_by_memory(
    values: Sequence[tuple[Values, Values]],
    outputs: Collection[UOp],
    waits: Mapping[int, Collection[int]] | None = None,
) -> list[int]:
    """Return an order of kernels, each given by the values that it computes and those it reads.

    The order stays as it is except for kernels that are moved ahead, since they free more bytes of
    temporaries than they write; outputs are memory of their own. A kernel also runs after those
    that it `waits` for, which must not make a cycle.
    """
    writer = {value: k for k, (computed, _) in enumerate(values) for value in computed}
    temporary = {value for value in writer if value not in outputs}
    reads = [frozenset(v for v in used if v in writer) for _, used in values]
    readers: dict[UOp, list[int]] = {}
    for k, used in enumerate(reads):
        for value in used:
            readers.setdefault(value, []).append(k)
    waiting_for = waits or {}
    followers: dict[int, list[int]] = {}
    for k, earlier in waiting_for.items():
        for other in earlier:
            followers.setdefault(other, []).append(k)
    missing = [len(used) + len(waiting_for.get(k, ())) for k, used in enumerate(reads)]
    unread = {value: len(found) for value, found in readers.items()}
    order: list[int] = []
    done = [False] * len(values)

    def frees(k: int) -> int:
        """Return the bytes that a kernel frees, less those that it writes."""
        freed = sum(_bytes(v) for v in reads[k] if unread[v] == 1 and v in temporary)
        return freed - sum(_bytes(v) for v in values[k][0] if v in temporary)

    def run(k: int) -> list[int]:
        """Add a kernel to the order; return those for which something has changed."""
        order.append(k)
        done[k] = True
        changed = [reader for value in values[k][0] for reader in readers.get(value, ())]
        changed += followers.get(k, ())
        for other in changed:
            missing[other] -= 1
        affected = list(changed)
        for value in reads[k]:
            unread[value] -= 1
            if unread[value] == 1:
                affected += readers[value]
        return affected

    while len(order) < len(values):  # more than once if a kernel waits for one after it
        for first in range(len(values)):
            waiting = [] if done[first] or missing[first] else run(first)
            while waiting:
                k = min(waiting)
                waiting.remove(k)
                if not done[k] and not missing[k] and frees(k) > 0:
                    waiting += run(k)
    return order


def _bytes(value: UOp) -> int:
    """Return the bytes of a value; of a symbolic size the most it can be."""
    count = 1.0
    for dim in shape(value):
        count *= dim.vmax
    return int(min(count, 1 << 60)) * value.dtype.numpy.itemsize
