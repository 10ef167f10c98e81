"""Axis splitting: an axis of a stored value that indices divide gets one loop per factor.

    Before   y[r // 4, r % 4] for r < 24          After   y[r0, r1] for r0 < 6, r1 < 4

Loops that were hidden behind // and % can then be shared with other values.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.schedule.rangeify.movement_indices import Element, simplify_index

AxisFactors = Mapping[int, tuple[int, ...]]
"""For each split axis of a stored value its factors, the outermost first."""


def find_axis_splits(
    indices: Iterable[UOp],
    axis_of_loop: Mapping[UOp, tuple[UOp, int]],
    known: Mapping[UOp, AxisFactors],
) -> dict[UOp, AxisFactors]:
    """Return the stored nodes whose axes the indices divide, with the factors of their axes.

    `axis_of_loop` has the node and the axis of each loop over a stored value; `known` are the
    splits so far, which those of the same node are added to.
    """
    divisors: dict[UOp, set[int]] = {}
    for node in toposort(*(i for i in indices if i.op is not ops.RANGE)):
        if node.op in (ops.IDIV, ops.MOD) and node.src[0] in axis_of_loop:
            loop, divisor = node.src
            is_known = divisor.op is loop.src[0].op is ops.CONST
            if is_known and divisor.arg > 1 and (loop.vmax + 1) % divisor.arg == 0:
                divisors.setdefault(loop, set()).add(divisor.arg)
    splits: dict[UOp, AxisFactors] = {}
    for loop, numbers in divisors.items():
        node, axis = axis_of_loop[loop]
        factors = dict(splits.get(node, known.get(node, {})))
        factors[axis] = _factors(int(loop.vmax) + 1, numbers)
        splits[node] = factors
    return splits


def _factors(size: int, divisors: set[int]) -> tuple[int, ...]:
    """Return the factors of an axis, the outermost first, by divisors that divide one another.

    >>> _factors(24, {4, 12})
    (2, 3, 4)
    """
    strides = [size]
    for divisor in sorted(divisors, reverse=True):
        if 1 < divisor < strides[-1] and strides[-1] % divisor == 0:
            strides.append(divisor)
    return tuple(a // b for a, b in itertools.pairwise([*strides, 1]))


def split_indices(element: Element, splits: AxisFactors) -> Element:
    """Return the element with one index per factor of each split axis."""
    indices: list[UOp] = []
    for axis, index in enumerate(element.indices):
        if axis not in splits:
            indices.append(index)
            continue
        stride = 1
        inner_first: list[UOp] = []
        for number, factor in reversed(list(enumerate(splits[axis]))):
            quotient = index // stride
            part = quotient % factor if number else quotient
            inner_first.append(simplify_index(part, element.valid))
            stride *= factor
        indices += reversed(inner_first)
    return Element(tuple(indices), element.valid)
