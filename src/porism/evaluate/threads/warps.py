"""Warps: a tensor core's product, done by the threads of a warp together.

Each thread holds some elements of the matrices (`porism.ir.fragments`). The threads of a block are
counted with `thread0` fastest; so many in a row are a warp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from porism.evaluate import op_evaluation
from porism.evaluate.faults import Fault, failure
from porism.evaluate.varying_value import Value
from porism.ir import fragments, ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp, raw

Place = Mapping[UOp, int]
"""Where a thread is: the values of its indices."""

_NAME: Final = "thread"


def number_of(place: Place) -> int:
    """The number of a thread in its block."""
    total, stride = 0, 1
    sizes = {n.arg: (value, n.src[0]) for n, value in place.items() if n.op is ops.SPECIAL}
    for name in sorted(name for name in sizes if name.startswith(_NAME)):
        value, size = sizes[name]
        total += value * stride
        stride *= int(size.vmax)
    return total


def products(node: UOp, places: Sequence[Place], sources: Sequence[Sequence[Value]]) -> list[Value]:
    """What each thread of a block has of a WMMA; `sources` are those of each thread."""
    numbers = [number_of(place) for place in places]
    threads = node.arg[3]
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    if sorted(numbers) != list(range(len(numbers))) or len(numbers) % threads:
        raise failure(
            Fault(
                node,
                f"a WMMA of {threads} threads in a block of {len(numbers)}",
                "it is done by whole warps of threads with the indices thread0, thread1, …",
                f"launch a multiple of {threads} threads",
            )
        )
    found: dict[int, Value] = {}
    for start in range(0, len(order), threads):
        warp = order[start : start + threads]
        shares = _product(node, [sources[thread] for thread in warp])
        found.update(zip(warp, shares, strict=True))
    return [found[thread] for thread in range(len(numbers))]


def _product(node: UOp, sources: Sequence[Sequence[Value]]) -> Iterator[Value]:
    """The shares of the threads of a warp in one product."""
    m, n, k = node.arg[1]
    w = fragments.word(node.src[0].dtype.element)
    a, b, c = (
        _gathered(node, [thread[place] for thread in sources], maps, size)
        for place, (maps, size) in enumerate(
            ((_left(m, k, w), m * k), (_right(n, k, w), k * n), (_result(m, n), m * n))
        )
    )
    # the same node on whole matrices
    whole = raw(
        ops.WMMA,
        None,
        tuple(
            raw(ops.PARAM, s.dtype.element.vec(size), (), number)
            for number, (s, size) in enumerate(zip(node.src, (m * k, k * n, m * n), strict=True))
        ),
        node.arg[:2],
    )
    total = op_evaluation.matrix_product(whole, a, b, c)
    for places in _result(m, n):
        state = None if total.state is None else total.states[..., places]
        yield Value(total.data[..., places], state=state)


def _gathered(node: UOp, shares: Sequence[Value], maps: Array, size: int) -> Value:
    """A matrix, row by row, of what the threads have of it."""
    if any(share.lanes != maps.shape[1] or share.axes for share in shares):
        raise failure(
            Fault(
                node,
                f"a thread has {shares[0].lanes} elements of a matrix of {size}",
                f"each of {len(shares)} threads has an equal share, {maps.shape[1]} elements",
                "give each thread its share",
            )
        )
    data = np.zeros(size, shares[0].data.dtype)
    state = np.zeros(size, np.int32)
    for share, places in zip(shares, maps, strict=True):
        data[places] = share.data
        if share.state is not None:
            state[places] = np.broadcast_to(share.states, share.data.shape)
    return Value(data, state=state if state.any() else None)


def _threads() -> Iterator[tuple[int, int]]:
    return ((g, t) for g in range(fragments.ROWS) for t in range(fragments.COLUMNS))


def _left(m: int, k: int, w: int) -> Array:
    return np.array(
        [[(g + y) * k + t * w + x for y, x in fragments.left(m, k, w)] for g, t in _threads()]
    )


def _right(n: int, k: int, w: int) -> Array:
    return np.array([[(t * w + y) * n + g for y in fragments.right(k, w)] for g, t in _threads()])


def _result(m: int, n: int) -> Array:
    return np.array(
        [[(g + y) * n + 2 * t + x for y, x in fragments.result(m)] for g, t in _threads()]
    )
