"""Warp matrix product: evaluates a WMMA (tensor core), executed by the threads of a warp together.

Each thread holds fragments of the matrices (`porism.ir.fragments`). They are gathered into whole
matrices, multiplied, and the result is distributed as fragments again. The threads of a block are
numbered with `thread0` varying fastest; each group of consecutive threads is a warp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from porism.evaluate import op_evaluation
from porism.evaluate.faults import Fault, failure
from porism.evaluate.varying_value import Value
from porism.ir import fragments, ops
from porism.ir.axis import THREAD_INDEX
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp, raw

Indices = Mapping[UOp, int]
"""The values of the block and thread indices of a thread."""


def thread_number(indices: Indices) -> int:
    """Return the linear index of a thread in its block, `thread0` varying fastest."""
    number, stride = 0, 1
    indices_and_sizes = {
        n.arg: (value, n.src[0]) for n, value in indices.items() if n.op is ops.SPECIAL
    }
    for name in sorted(name for name in indices_and_sizes if name.startswith(THREAD_INDEX)):
        value, size = indices_and_sizes[name]
        number += value * stride
        stride *= int(size.vmax)
    return number


def multiply_fragments(
    node: UOp, indices: Sequence[Indices], sources: Sequence[Sequence[Value]]
) -> list[Value]:
    """Return the result fragment of each thread of a block.

    `indices` and `sources` have an element for each thread: its indices, and its fragments of the
    operands a, b and c.
    """
    numbers = [thread_number(own) for own in indices]
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
    fragment_of: dict[int, Value] = {}
    for start in range(0, len(order), threads):
        warp = order[start : start + threads]
        fragment_values = _warp_product(node, [sources[thread] for thread in warp])
        fragment_of.update(zip(warp, fragment_values, strict=True))
    return [fragment_of[thread] for thread in range(len(numbers))]


def _warp_product(node: UOp, sources: Sequence[Sequence[Value]]) -> Iterator[Value]:
    """Yield the result fragments of the threads of one warp."""
    m, n, k = node.arg[1]
    w = fragments.elements_per_word(node.src[0].dtype.element)
    a, b, c = (
        _gather_matrix(node, [thread[operand] for thread in sources], offsets, size)
        for operand, (offsets, size) in enumerate(
            ((_a_layout(m, k, w), m * k), (_b_layout(n, k, w), k * n), (_c_layout(m, n), m * n))
        )
    )
    # The same product with whole matrices as operands, not fragments.
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
    for offsets in _c_layout(m, n):
        state = None if total.state is None else total.states[..., offsets]
        yield Value(total.data[..., offsets], state=state)


def _gather_matrix(node: UOp, fragment_values: Sequence[Value], layout: Array, size: int) -> Value:
    """Return a row-major matrix from the fragments of the threads; `layout` has their offsets."""
    if any(fragment.lanes != layout.shape[1] or fragment.axes for fragment in fragment_values):
        raise failure(
            Fault(
                node,
                f"a thread has {fragment_values[0].lanes} elements of a matrix of {size}",
                f"each of {len(fragment_values)} threads has a fragment of {layout.shape[1]}",
                "give each thread its fragment",
            )
        )
    data = np.zeros(size, fragment_values[0].data.dtype)
    state = np.zeros(size, np.int32)
    for fragment, offsets in zip(fragment_values, layout, strict=True):
        data[offsets] = fragment.data
        if fragment.state is not None:
            state[offsets] = np.broadcast_to(fragment.states, fragment.data.shape)
    return Value(data, state=state if state.any() else None)


def _threads() -> Iterator[tuple[int, int]]:
    """Yield the row g and column t of each thread of a warp, in the order of their numbers."""
    return ((g, t) for g in range(fragments.WARP_ROWS) for t in range(fragments.WARP_COLUMNS))


def _a_layout(m: int, k: int, w: int) -> Array:
    """Return for each thread the offsets of its fragment in the row-major m × k matrix a."""
    return np.array(
        [[(g + y) * k + t * w + x for y, x in fragments.a_offsets(m, k, w)] for g, t in _threads()]
    )


def _b_layout(n: int, k: int, w: int) -> Array:
    """Return for each thread the offsets of its fragment in the row-major k × n matrix b."""
    return np.array(
        [[(t * w + y) * n + g for y in fragments.b_offsets(k, w)] for g, t in _threads()]
    )


def _c_layout(m: int, n: int) -> Array:
    """Return for each thread the offsets of its fragment in the row-major m × n result."""
    return np.array(
        [[(g + y) * n + 2 * t + x for y, x in fragments.c_offsets(m)] for g, t in _threads()]
    )
