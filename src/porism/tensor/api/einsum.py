"""Einsum: sums of products of tensors whose axes are named by letters.

Operands are contracted in pairs, greedily the pair with the smallest result first; an axis is
summed as soon as neither another operand nor the result needs it. Floats narrower than 32 bits stay
in f32 from the first product to the result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor import primitive, promotion, shapes
from porism.tensor.api import einsum_subscripts
from porism.tensor.api.operands import promoted_operands
from porism.tensor.api.reductions import accumulation_dtype, drop_axes, sum_of_products
from porism.tensor.complex.complex_dispatch import accepts_complex
from porism.tensor.movement.reshape import diagonal
from porism.tensor.primitive import Dim
from porism.tensor.tensor import Tensor

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Factor:
    """A tensor with one label for each axis; all labels differ."""

    node: UOp
    labels: Labels


@accepts_complex
def einsum(equation: str, *tensors: Any) -> Tensor:
    """Return the sum of products that an equation such as `"ij,jk->ik"` describes.

    A letter that occurs twice in a term takes the diagonal of these axes, a letter that is not in
    the result is summed over, and `...` stands for axes that are broadcast.

    >>> porism.einsum("ij,jk->ik", [[1, 2], [3, 4]], [[1], [10]]).tolist()
    [[21], [43]]
    """
    if not isinstance(equation, str) or not tensors:
        raise promotion.type_error(
            f"einsum({equation!r}, …) of {len(tensors)} tensors",
            "it takes a text, then a tensor for each of its terms",
            "write it as einsum('ij,jk->ik', a, b)",
        )
    factors = promoted_operands("einsum", *tensors)
    subscripts = einsum_subscripts.parse(equation, [x.ndim for x in factors])
    sizes = _sizes(equation, subscripts, factors)
    common = factors[0].node.dtype
    parts = [
        _take_diagonals(
            Factor(primitive.cast(x.node, accumulation_dtype(common)), term.labels), sizes
        )
        for x, term in zip(factors, subscripts.inputs, strict=True)
    ]
    result = _contract(parts, subscripts.output, sizes)
    order = [result.labels.index(label) for label in subscripts.output]
    return Tensor(primitive.cast(primitive.permute(result.node, order), common))


def _sizes(
    equation: str, subscripts: einsum_subscripts.Subscripts, factors: Sequence[Tensor]
) -> dict[str, Dim]:
    """Return the size of each label; axes of size 1 are broadcast to it."""
    sizes: dict[str, Dim] = {}
    for term, x in zip(subscripts.inputs, factors, strict=True):
        for axis, size in zip(term.axes, x.shape, strict=True):
            known_size = sizes.setdefault(axis.label, size)
            if shapes.is_one(known_size):
                sizes[axis.label] = size
            elif not shapes.sizes_equal(known_size, size) and not shapes.is_one(size):
                name = (
                    "'...'"
                    if axis.label.startswith(einsum_subscripts.ELLIPSIS)
                    else repr(axis.label)
                )
                einsum_subscripts.fail_at(
                    equation,
                    axis.offset,
                    f"the axis {name} of an einsum has the size {shapes.size_text(size)} here, "
                    f"and {shapes.size_text(known_size)} before",
                    why="axes of one name have one size, or size 1",
                    fix="use another letter, or tensors whose sizes fit",
                )
    return sizes


def _take_diagonals(factor: Factor, sizes: dict[str, Dim]) -> Factor:
    """Return a factor without repeated labels: axes of one label become their diagonal."""
    node, labels = factor.node, list(factor.labels)
    while len(set(labels)) < len(labels):
        repeated = next(label for k, label in enumerate(labels) if label in labels[:k])
        pair = [k for k, label in enumerate(labels) if label == repeated][:2]
        others = [k for k in range(len(labels)) if k not in pair]
        sizes_now = shapes.sizes_of(node)
        larger = sizes_now[pair[1]] if shapes.is_one(sizes_now[pair[0]]) else sizes_now[pair[0]]
        node = primitive.permute(node, [*others, *pair])
        node = primitive.expand(node, [*(sizes_now[k] for k in others), larger, larger])
        node = diagonal(Tensor(node)).node
        labels = [*(labels[k] for k in others), repeated]
    return Factor(node, tuple(labels))


def _contract(parts: Sequence[Factor], output: Labels, sizes: dict[str, Dim]) -> Factor:
    """Return the product of all factors, summed over the labels that are not in the output."""
    left = list(parts)
    while len(left) > 1:
        i, j = min(
            itertools.combinations(range(len(left)), 2),
            key=lambda pair: _element_count(_labels_still_needed(left, pair, output), sizes),
        )
        others = [part for k, part in enumerate(left) if k not in (i, j)]
        left = [
            *others,
            _multiply(left[i], left[j], _labels_still_needed(left, (i, j), output), sizes),
        ]
    return _sum_labels(left[0], output, sizes)


def _labels_still_needed(parts: Sequence[Factor], pair: tuple[int, int], output: Labels) -> Labels:
    """Return the labels of a pair of factors that another factor or the output needs."""
    needed = set(output)
    for k, part in enumerate(parts):
        if k not in pair:
            needed.update(part.labels)
    both = dict.fromkeys((*parts[pair[0]].labels, *parts[pair[1]].labels))
    return tuple(label for label in both if label in needed)


def _element_count(labels: Labels, sizes: dict[str, Dim]) -> float:
    """Return the number of elements; a symbolic size counts as its largest value."""
    return math.prod(
        float(size if isinstance(size, int) else size.vmax)
        for size in (sizes[label] for label in labels)
    )


def _multiply(a: Factor, b: Factor, kept: Labels, sizes: dict[str, Dim]) -> Factor:
    """Return the product of two factors, summed over the labels that are not kept."""
    # Labels of one factor that nothing else needs are summed before the product.
    a = _sum_labels(a, (*kept, *b.labels), sizes)
    b = _sum_labels(b, (*kept, *a.labels), sizes)
    summed = tuple(label for label in a.labels if label in b.labels and label not in kept)
    labels = (*kept, *summed)
    left, right = (_broadcast_to_labels(part, labels, sizes) for part in (a, b))
    return Factor(sum_of_products(left, right, range(len(kept), len(labels))), kept)


def _broadcast_to_labels(part: Factor, labels: Labels, sizes: dict[str, Dim]) -> UOp:
    """Return a factor with its axes in the order of labels, expanded along labels it lacks."""
    present = [label for label in labels if label in part.labels]
    node = primitive.permute(part.node, [part.labels.index(label) for label in present])
    size_of = dict(zip(present, shapes.sizes_of(node), strict=True))
    node = primitive.reshape(node, [size_of.get(label, 1) for label in labels])
    return primitive.expand(node, [sizes[label] for label in labels])


def _sum_labels(part: Factor, needed: Labels, sizes: dict[str, Dim]) -> Factor:
    """Return a factor summed over the labels that are not needed."""
    summed_axes = [k for k, label in enumerate(part.labels) if label not in needed]
    node = primitive.expand(part.node, [sizes[label] for label in part.labels])
    node = drop_axes(primitive.reduce(node, ops.ADD, summed_axes), summed_axes)
    return Factor(node, tuple(label for label in part.labels if label in needed))
