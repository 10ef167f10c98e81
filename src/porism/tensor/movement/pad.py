"""Padding: elements added around a tensor: a constant, or elements of the tensor itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from porism.base.dtypes import Scalar, boolean
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.tensor import primitive
from porism.tensor.complex.complex_dispatch import complex_operand
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.joining import concat_nodes
from porism.tensor.movement.reshape import slice_axis
from porism.tensor.primitive import Dim
from porism.tensor.promotion import constant
from porism.tensor.shapes import as_size, shape_error, size_text, sizes_of, to_text
from porism.tensor.static_sizes import static_size
from porism.tensor.tensor import Tensor, method

Pairs = list[tuple[Dim, Dim]]


@method
def pad(x: Any, pad_width: Any, mode: str = "constant", value: Any = 0) -> Tensor:
    """Return x with elements added before and after each axis; negative numbers remove elements.

    `pad_width` is an int for all sides, NumPy's list of pairs (before, after) for each axis, or
    PyTorch's flat list from the last axis on. `mode` is 'constant' (with `value`), 'reflect',
    'symmetric', 'replicate' (or 'edge'), or 'circular' (or 'wrap').

    >>> porism.pad([1, 2, 3], (1, 2), "reflect").tolist()
    [2, 1, 2, 3, 2, 1]
    """
    if isinstance(value, complex):
        raise complex_operand()
    node = as_tensor(x).node
    pairs = _parse_pad_width(pad_width, len(sizes_of(node)))
    node = _crop(node, pairs)
    pairs = [(_clamp_to_zero(before), _clamp_to_zero(after)) for before, after in pairs]
    if mode == "constant":
        return Tensor(pad_with_value(node, pairs, constant(node.dtype, value).arg))
    border_of_mode = _MODES.get(mode)
    if border_of_mode is None:
        raise shape_error(
            f"pad with mode {mode!r}",
            "the modes are constant, " + ", ".join(_MODES),
            "pass one of them",
        )
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            node = _pad_axis(
                node,
                axis,
                static_size(before, "pad"),
                static_size(after, "pad"),
                border_of_mode,
                mode,
            )
    return Tensor(node)


def _clamp_to_zero(number: Dim) -> Dim:
    """Return a number, or 0 if it is negative."""
    return max(number, 0) if isinstance(number, int) else number


def _parse_pad_width(pad_width: Any, rank: int) -> Pairs:
    """Return a pair (before, after) for each axis, from any of the three forms of `pad_width`."""
    if not isinstance(pad_width, (tuple, list)):
        return [(as_size(pad_width, "pad_width"),) * 2] * rank
    if pad_width and isinstance(pad_width[0], (tuple, list)):
        pairs = [tuple(as_size(n, "pad_width") for n in pair) for pair in pad_width]
        pairs = pairs * rank if len(pairs) == 1 else pairs
        if len(pairs) == rank and all(len(pair) == 2 for pair in pairs):
            return pairs  # type: ignore[return-value]
    elif len(pad_width) % 2 == 0 and len(pad_width) <= 2 * rank:
        flat = [as_size(n, "pad_width") for n in pad_width]
        last_first: Pairs = list(zip(flat[::2], flat[1::2], strict=True))
        return [(0, 0)] * (rank - len(last_first)) + last_first[::-1]
    raise shape_error(
        f"pad of a tensor of {rank} axes by {pad_width!r}",
        "it takes an int, a pair for each axis, or a flat list of pairs from the last axis on",
        "give two numbers for each axis",
    )


def _crop(x: UOp, pairs: Sequence[tuple[Dim, Dim]]) -> UOp:
    """Return x without the elements that negative numbers remove."""
    for axis, (before, after) in enumerate(pairs):
        removed = [-n if isinstance(n, int) and n < 0 else 0 for n in (before, after)]
        if any(removed):
            size = sizes_of(x)[axis]
            if isinstance(size, int) and sum(removed) > size:
                raise shape_error(
                    f"pad of axis {axis}, of size {size}, by {before} and {after}",
                    "more is taken away than there is",
                    "take away fewer elements",
                )
            x = slice_axis(x, axis, removed[0], size - removed[1])
    return x


BorderFunction = Callable[[UOp, int, int, int, int], tuple[UOp, UOp]]
"""(x, axis, its size, before, after): the nodes to put before and after x along the axis."""


def _pad_axis(
    x: UOp, axis: int, before: int, after: int, border_of_mode: BorderFunction, mode: str
) -> UOp:
    """Return x with elements of its own added before and after one axis."""
    sizes = sizes_of(x)
    size = static_size(sizes[axis], f"pad with mode {mode}")
    limit = {"reflect": size - 1}.get(mode, size)
    if mode in _REPLICATING:
        limit = max(before, after) if size else 0
    if max(before, after) > limit:
        raise shape_error(
            f"pad with mode {mode!r} of axis {axis}, of size {size_text(size)}, by {before} and "
            f"{after}",
            f"at most {limit} elements can be copied from a tensor of shape {to_text(sizes)}",
            "pad by less, or several times",
        )
    first, last = border_of_mode(x, axis, size, before, after)
    return concat_nodes([first, x, last], axis)


def _reversed_slice(x: UOp, axis: int, begin: int, end: int) -> UOp:
    """Return a slice of one axis in reverse order."""
    return primitive.flip(slice_axis(x, axis, begin, end), [axis])


def _reflect(x: UOp, axis: int, size: int, before: int, after: int) -> tuple[UOp, UOp]:
    """Return the borders mirrored at the outermost elements, which are not repeated."""
    last = size - 1
    return _reversed_slice(x, axis, 1, 1 + before), _reversed_slice(x, axis, last - after, last)


def _symmetric(x: UOp, axis: int, size: int, before: int, after: int) -> tuple[UOp, UOp]:
    """Return the borders mirrored at the edges, so that the outermost elements are repeated."""
    return _reversed_slice(x, axis, 0, before), _reversed_slice(x, axis, size - after, size)


def _circular(x: UOp, axis: int, size: int, before: int, after: int) -> tuple[UOp, UOp]:
    """Return the borders of a periodic continuation."""
    return slice_axis(x, axis, size - before, size), slice_axis(x, axis, 0, after)


def _replicate(x: UOp, axis: int, size: int, before: int, after: int) -> tuple[UOp, UOp]:
    """Return the borders that repeat the outermost elements."""
    sizes = list(sizes_of(x))
    ends = []
    for position, count in ((0, before), (size - 1, after)):
        sizes[axis] = count
        ends.append(primitive.expand(slice_axis(x, axis, position, position + 1), sizes))
    return ends[0], ends[1]


_REPLICATING: Final = ("replicate", "edge")

_MODES: Final[dict[str, BorderFunction]] = {
    "reflect": _reflect,
    "symmetric": _symmetric,
    "replicate": _replicate,
    "edge": _replicate,
    "circular": _circular,
    "wrap": _circular,
}


# -- constant padding of nodes ---------------------------------------------------------------------


def pad_with_value(x: UOp, pairs: Sequence[tuple[Dim, Dim]], value: Scalar) -> UOp:
    """Return a node with `value` before and after each axis."""
    padded = primitive.pad(x, pairs)
    if padded is x or value == 0:
        return padded
    inside = primitive.pad(primitive.full(boolean, True, shape(x)), pairs)
    return inside.where(padded, x.lift(value))


def pad_end(x: UOp, axis: int, size: int, value: Scalar) -> UOp:
    """Return a node with one axis, of known size, extended at its end to `size` by `value`."""
    dims = shape(x)
    added = size - dims[axis].arg
    return pad_with_value(x, [(0, added if k == axis else 0) for k in range(len(dims))], value)
