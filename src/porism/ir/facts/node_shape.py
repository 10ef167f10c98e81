"""Shapes: the dims of a tensor-graph node, which are nodes themselves, since they may be symbolic.

    PARAM, BUFFER, IOTA their dims                PERMUTE, FLIP, REDUCE_AXIS   by their argument
    RESHAPE, EXPAND     (x, dim, …)               CONST, VARIABLE, RANGE, …    ()
    PAD                 (x, before, after, …)     SHRINK                       (x, begin, end, …)
    GATHER              the shape of its indices

Elementwise ops need equal shapes, or the shape (), which is broadcast. Pointers and effects have
no shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from porism.base import dtypes
from porism.base.dtypes import Kind
from porism.base.errors import ShapeError
from porism.ir import ops
from porism.ir.node import MutableNode, UOp, const
from porism.ir.ops import Group, Op
from porism.ir.text.expression import show
from porism.ir.traversal import toposort

Shape = tuple[UOp, ...]

_set_shape = MutableNode.__dict__["_shape"].__set__


def shape(root: UOp) -> Shape:
    """Return the dims of a node; raise a `ShapeError` where shapes do not fit or there is none.

    >>> from porism.base.dtypes import f32, index
    >>> n, two = UOp.variable("n", 1, 9), UOp.const(index, 2)
    >>> x = ops.PARAM(n, two, dtype=f32, arg=0)
    >>> to_text(shape(x)), to_text(shape(ops.REDUCE_AXIS(x, arg=(ops.ADD, (1,)))))
    ('(n, 2)', '(n, 1)')
    """
    try:
        dims = root._shape
    except AttributeError:
        try:  # the shapes of its sources are mostly known, as when a graph is built
            dims = _from_sources(root)
        except AttributeError:
            for node in toposort(root, within=lambda n: not hasattr(n, "_shape")):
                _set_shape(node, _from_sources(node))
            dims = root._shape
        _set_shape(root, dims)
    if dims is None:
        raise ShapeError(
            f"{root.op.name} has no shape",
            where=show(root, limit=120),
            why=f"it is {'a pointer' if root.dtype.kind is Kind.POINTER else 'an effect'}",
            fix="ask for the shape of a value",
        )
    return dims


def to_text(dims: Shape) -> str:
    """Return a shape as text, for error messages."""
    inner = ", ".join(show(dim, limit=40) for dim in dims)
    return f"({inner},)" if len(dims) == 1 else f"({inner})"


def are_equal(a: UOp, b: UOp) -> bool:
    """Return whether two dims are known to be the same number."""
    return a is b or a.vmin == a.vmax == b.vmin == b.vmax


def flat_index(indices: Sequence[UOp], dims: Sequence[UOp]) -> UOp:
    """Return the row-major index of an element in a tensor with these dims."""
    number, stride = const(dtypes.index, 0), const(dtypes.index, 1)
    for at, dim in zip(reversed(indices), reversed(dims), strict=True):
        number = at * stride + number
        stride = stride * dim
    return number


def _from_sources(node: UOp) -> Shape | None:
    if node.dtype.kind in (Kind.VOID, Kind.POINTER):
        return None
    return _RULES.get(node.op, _first if node.src else _scalar)(node)


def _shape_of(node: UOp) -> Shape:
    return node._shape or ()


def _scalar(node: UOp) -> Shape:
    return ()


def _first(node: UOp) -> Shape:
    """Return the shape of the first source."""
    return _shape_of(node.src[0])


def _own_dims(node: UOp) -> Shape:
    return tuple(_folded(dim) for dim in node.src)


def _folded(dim: UOp) -> UOp:
    """Return a dim as a constant where its bounds leave one value."""
    if dim.vmin == dim.vmax and dim.op is not ops.CONST:
        return const(dim.dtype, dim.vmin)
    return dim


def _sum(*parts: UOp) -> UOp:
    """Return the sum of dims, without zeros and with equal terms merged."""
    kept = [p for p in parts if not p.vmin == p.vmax == 0]
    if len(kept) > 1 and not all(p.op is ops.CONST for p in kept):
        kept = _merge_terms(kept)
    total = kept[0] if kept else parts[0]
    for part in kept[1:]:
        total = _folded(total + part)
    return total


def _merge_terms(parts: Sequence[UOp]) -> list[UOp]:
    """Return the terms of a sum with equal ones merged: n + 6 + n has n * 2 and 6."""
    times: dict[UOp, int] = {}
    rest = 0
    waiting = [(part, 1) for part in reversed(parts)]
    while waiting:
        part, count = waiting.pop()
        if part.op is ops.ADD:
            waiting += [(s, count) for s in reversed(part.src)]
        elif part.op is ops.SUB:
            waiting += [(part.src[1], -count), (part.src[0], count)]
        elif part.op is ops.MUL and part.src[1].op is ops.CONST:
            waiting.append((part.src[0], count * int(part.src[1].arg)))
        elif part.op is ops.CONST:
            rest += count * int(part.arg)
        else:
            times[part] = times.get(part, 0) + count
    # in an order that does not depend on that of the parts: equal dims are then one node
    terms = sorted(times.items(), key=lambda term: show(term[0], limit=200))
    merged = [part if count == 1 else part * count for part, count in terms if count]
    return [*merged, const(dtypes.index, rest)] if rest or not merged else merged


def _refuse(node: UOp, what: str, why: str, fix: str) -> ShapeError:
    return ShapeError(what, where=show(node, limit=120), why=why, fix=fix)


def _common(node: UOp) -> Shape:
    """Return the one shape of elementwise operands that have dims."""
    common: Shape = ()
    for source in node.src:
        dims = _shape_of(source)
        if not dims or dims == common:
            continue
        if not common:
            common = dims
        elif len(common) != len(dims) or not all(map(are_equal, common, dims)):
            raise _refuse(
                node,
                f"{node.op.name} of tensors of shapes {to_text(common)} and {to_text(dims)}",
                "elementwise operands have equal shapes; nothing is broadcast by itself",
                "RESHAPE and EXPAND one of them first",
            )
    return common


def _reshaped(node: UOp) -> Shape:
    old, new = _shape_of(node.src[0]), tuple(_folded(d) for d in node.src[1:])
    _not_negative(node, new)
    before, after = _elements(old), _elements(new)
    if before[1] < after[0] or after[1] < before[0]:
        raise _refuse(
            node,
            f"cannot reshape {to_text(old)} to {to_text(new)}",
            f"they have {_range_text(*before)} and {_range_text(*after)} elements",
            "PAD, SHRINK or EXPAND change the number of elements; RESHAPE keeps it",
        )
    return new


def _elements(dims: Shape) -> tuple[float, float]:
    """Return the least and the largest number of elements of a shape."""
    low: float = 1
    high: float = 1
    for dim in dims:
        low, most = low * max(dim.vmin, 0), max(dim.vmax, 0)
        high = 0 if most == 0 or high == 0 else high * most
    return low, high


def _range_text(low: float, high: float) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def _not_negative(node: UOp, dims: Shape) -> None:
    for dim in dims:
        if dim.vmax < 0:
            raise _refuse(
                node,
                f"{node.op.name} with the size {show(dim, limit=40)}",
                "a size is not negative",
                "give a size of 0 or more",
            )


def _permuted(node: UOp) -> Shape:
    dims = _shape_of(node.src[0])
    if len(node.arg) != len(dims):
        raise _refuse(
            node,
            f"PERMUTE by {node.arg} of a tensor of shape {to_text(dims)}",
            f"the tensor has {len(dims)} axes, and the order names {len(node.arg)}",
            "name every axis once",
        )
    return tuple(dims[axis] for axis in node.arg)


def _need_axes(node: UOp, dims: Shape, axes: tuple[int, ...]) -> None:
    missing = [axis for axis in axes if axis >= len(dims)]
    if missing:
        raise _refuse(
            node,
            f"{node.op.name} of axis {missing[0]} of a tensor of shape {to_text(dims)}",
            f"the tensor has {len(dims)} axes, numbered from 0",
            "name an axis that the tensor has",
        )


def _flipped(node: UOp) -> Shape:
    dims = _shape_of(node.src[0])
    _need_axes(node, dims, node.arg)
    return dims


def _reduced(node: UOp) -> Shape:
    dims, axes = _shape_of(node.src[0]), node.arg[1]
    _need_axes(node, dims, axes)
    one = const(dtypes.index, 1)
    return tuple(one if k in axes else dim for k, dim in enumerate(dims))


def _expanded(node: UOp) -> Shape:
    old, new = _shape_of(node.src[0]), tuple(_folded(d) for d in node.src[1:])
    _not_negative(node, new)
    fits = len(old) == len(new) and all(
        are_equal(a, b) or a.vmin == a.vmax == 1 for a, b in zip(old, new, strict=True)
    )
    if not fits:
        raise _refuse(
            node,
            f"cannot expand {to_text(old)} to {to_text(new)}",
            "EXPAND repeats axes of size 1 and leaves the others",
            "RESHAPE first, so that each new axis has size 1",
        )
    return new


def _pairs(node: UOp, dims: Shape) -> list[tuple[UOp, UOp, UOp]]:
    """Return each dim with its two numbers: (dim, before, after) or (dim, begin, end)."""
    numbers = node.src[1:]
    if len(numbers) != 2 * len(dims):
        raise _refuse(
            node,
            f"{node.op.name} of a tensor of shape {to_text(dims)} with {len(numbers)} numbers",
            "it takes two numbers for each axis",
            "give a pair for every axis, also where nothing changes",
        )
    return list(zip(dims, numbers[::2], numbers[1::2], strict=True))


def _padded(node: UOp) -> Shape:
    pairs = _pairs(node, _shape_of(node.src[0]))
    _not_negative(node, node.src[1:])
    return tuple(_sum(dim, before, after) for dim, before, after in pairs)


def _shrunk(node: UOp) -> Shape:
    dims = []
    for dim, begin, end in _pairs(node, _shape_of(node.src[0])):
        if begin.vmax < 0 or end.vmax < begin.vmin or end.vmin > dim.vmax:
            raise _refuse(
                node,
                f"cannot take {show(begin, limit=40)} … {show(end, limit=40)} of an axis of size "
                + show(dim, limit=40),
                "a part begins at 0 or later, and ends at the size or before",
                "PAD adds elements",
            )
        dims.append(end if begin.vmin == begin.vmax == 0 else _folded(end - begin))
    return tuple(map(_folded, dims))


def _gathered(node: UOp) -> Shape:
    """Return the common shape of the index tensors of a GATHER."""
    dims, indices = _shape_of(node.src[0]), node.src[1:]
    if len(indices) != len(dims):
        raise _refuse(
            node,
            f"GATHER from a tensor of shape {to_text(dims)} with {len(indices)} indices",
            "it takes one index tensor for each axis",
            "IOTA is the index of an axis that stays",
        )
    shapes = [_shape_of(index) for index in indices]
    first = shapes[0]
    for other in shapes[1:]:
        if len(other) != len(first) or not all(map(are_equal, first, other)):
            raise _refuse(
                node,
                f"GATHER with indices of shapes {to_text(first)} and {to_text(other)}",
                "all index tensors have the same shape",
                "EXPAND them to a common shape first",
            )
    return first


def _bufferized(node: UOp) -> Shape:
    """Return a dim for each range of a BUFFERIZE; for other indices their largest value + 1."""
    return tuple(
        _folded(r.src[0]) if r.op is ops.RANGE else const(dtypes.index, int(r.vmax) + 1)
        for r in node.src[1:]
    )


_RULES: Final[dict[Op, Callable[[UOp], Shape]]] = {
    **{op: _common for op in ops.table() if op.elementwise},
    **dict.fromkeys((ops.RANGE, ops.SPECIAL, ops.BIND, ops.INDEX, ops.LOAD), _scalar),
    **dict.fromkeys((ops.PARAM, ops.BUFFER, ops.IOTA), _own_dims),
    **dict.fromkeys((ops.VECTORIZE, ops.CAT, ops.WMMA, ops.ASSIGN), _common),
    ops.RESHAPE: _reshaped,
    ops.PERMUTE: _permuted,
    ops.EXPAND: _expanded,
    ops.PAD: _padded,
    ops.SHRINK: _shrunk,
    ops.FLIP: _flipped,
    ops.REDUCE_AXIS: _reduced,
    ops.BUFFERIZE: _bufferized,
    ops.GATHER: _gathered,
}

assert all(op in _RULES for op in ops.table() if op.group is Group.MOVEMENT)
