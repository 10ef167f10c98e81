"""Long reduction examples: reductions that are split, or for a reason are not.

Sizes are at the limits that the splitting has. A symbolic size counts by its bound, so that a long
reduction may have few elements. No input is so small that the examples are varied: with another
size they have no value, or too many elements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from porism.base.dtypes import f32, i32, u32
from porism.evaluate import inspect
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.prove.example_variations import Example
from porism.rules.reductions.reduction_splitting import varying_axes
from tests.examples.example_graphs import made, number

COUNT: Final = 1 << 15
"""Elements from which on a reduction is split."""

_LONG: Final = UOp.variable("long", 1, COUNT)
"""A size that makes a reduction long, whatever else is reduced."""

_UNBOUNDED: Final = UOp.variable("unbounded", 0, None)
_LEAST_ELEMENTS: Final = 1500

Dim = int | UOp


def _dims(sizes: Sequence[Dim]) -> list[UOp]:
    return [size if isinstance(size, UOp) else number(size) for size in sizes]


def _tensor(*sizes: Dim) -> UOp:
    return made(ops.PARAM, *_dims(sizes), dtype=i32, arg=30)


def _reshaped(x: UOp, *sizes: Dim) -> UOp:
    return made(ops.RESHAPE, x, *_dims(sizes))


def _expanded(x: UOp, *sizes: Dim) -> UOp:
    return made(ops.EXPAND, x, *_dims(sizes))


def _padded(x: UOp, *sizes: Dim) -> UOp:
    return made(ops.PAD, x, *_dims(sizes))


def _reduced(x: UOp, axes: tuple[int, ...], op: Op = ops.ADD) -> UOp:
    return made(ops.REDUCE_AXIS, x, arg=(op, axes))


def _words(*sizes: int) -> Any:
    """Words that wrap when they are added up."""
    count = math.prod(sizes)
    return (np.arange(count, dtype=np.int32) * np.int32(7919)).reshape(sizes)


def long_reductions() -> Iterator[Example]:
    """Integers, and floats whose sums are exact in every order."""
    shapes = ((3 * COUNT,), (0,)), ((3, COUNT), (1,)), ((COUNT, 3), (0,)), ((COUNT + 3, 2), (0,))
    for dims, axes in shapes:
        words = _words(*dims)
        for dtype, data in ((i32, words), (f32, (words % 5 - 2).astype(np.float32))):
            tensor = made(ops.PARAM, *_dims(dims), dtype=dtype, arg=30)
            for op in (ops.ADD, ops.MAX, ops.MIN):
                yield _reduced(tensor, axes, op), {30: data}
    yield from _at_limits()
    yield from _symbolic()
    for x, inputs in broadcast_tensors():
        yield _reduced(x, tuple(range(len(shape(x))))), inputs


def _at_limits() -> Iterator[Example]:
    """Sizes of which no part is good, or a few are, in one axis or several."""
    for sizes in (
        *((COUNT - 1,), (COUNT,), (256, 128), (2, COUNT), (5, 7, 1024), (5, 5, 5, 5, 5, 5, 5)),
        *((16, COUNT // 16), (64, 1024), (62, 600), (66, 500), (31 * 1061,), (32 * 1031,)),
        *((1, COUNT), (40037,)),
        *((16, 16, 5, 5, 7), (16, 18, 5, 5, 5), (18, 16, 5, 5, 5), (0, COUNT), (COUNT, 0)),
    ):
        inputs = {30: _words(*sizes)}
        for axes in {tuple(range(len(sizes))), tuple(range(1, len(sizes)))} - {()}:
            yield _reduced(_tensor(*sizes), axes, ops.MIN if 0 in sizes else ops.ADD), inputs


def _symbolic() -> Iterator[Example]:
    """Symbolic sizes, which are reduced or not; results that leave room for few parts."""
    for size, results in (
        *((127, 3196), (127, 3195), (62, 4228), (64, 4096), (40, 4096), (512, 4096), (18, 16384)),
        *((18, 16385), (4096, 500), (4095, 500), (991, 4096)),
    ):
        other = UOp.variable("results", 0, results)
        few = -(-_LEAST_ELEMENTS // size)
        inputs = {30: _words(1, few, size), other: 1, _LONG: few}
        yield _reduced(_tensor(other, _LONG, size), (1, 2)), inputs
        yield _reduced(_tensor(other, _LONG, size), (1,)), inputs
        inputs = {30: _words(1, size, few, 64), other: 1, _LONG: few}
        yield _reduced(_tensor(other, size, _LONG, 64), (1, 2, 3)), inputs
    inputs = {30: _words(40, 50), _UNBOUNDED: 40}
    yield from ((_reduced(_tensor(_UNBOUNDED, 50), axes), inputs) for axes in ((0,), (1,), (0, 1)))
    inputs = {30: _words(2, COUNT), _UNBOUNDED: 2}
    yield from (
        (_reduced(_tensor(_UNBOUNDED, COUNT), axes), inputs) for axes in ((0,), (1,), (0, 1))
    )


# -- tensors that are constant along some axes -----------------------------------------------------


def broadcast_tensors() -> Iterator[Example]:
    """Tensors that are broadcast along some of their axes, and are moved and combined."""
    yield from _moved()
    yield from _regrouped()
    yield from _combined()


def _moved() -> Iterator[Example]:
    inputs = {30: _words(2048)}
    column = _expanded(_reshaped(_tensor(2048), 2048, 1), 2048, 16)
    row = _expanded(_reshaped(_tensor(2048), 1, 2048), 16, 2048)
    for x in (column, row):
        yield x, inputs
        yield made(ops.PERMUTE, x, arg=(1, 0)), inputs
        yield made(ops.FLIP, x, arg=(0,)), inputs
        for before, after in ((0, 0), (1, 0), (0, 1), (2, 2)):
            yield _padded(x, before, after, 0, 0), inputs
            yield _padded(x, 0, 0, before, after), inputs
        yield made(ops.SHRINK, x, *map(number, (0, 16, 3, 16))), inputs
    one = _expanded(_reshaped(_tensor(2048), 1, 2048, 1), 4, 2048, 4)
    for order in itertools.permutations(range(3)):
        yield made(ops.PERMUTE, one, arg=order), inputs


def _regrouped() -> Iterator[Example]:
    """Reshapes that merge axes which vary with some that do not, split them, or keep them."""
    inputs = {30: _words(1536)}
    x = _tensor(1536)
    first = _expanded(_reshaped(x, 1536, 1, 1), 1536, 4, 6)
    last = _expanded(_reshaped(x, 1, 1, 1536), 4, 6, 1536)
    middle = _expanded(_reshaped(x, 1, 1536, 1), 4, 1536, 6)
    outer = _expanded(_reshaped(x, 48, 1, 32), 48, 24, 32)
    for view, new in (
        (first, ((1536, 24), (1536, 2, 12), (6144, 6), (36864,), (1536, 6, 4), (3, 512, 24))),
        (last, ((24, 1536), (4, 9216), (12, 2, 1536), (6, 4, 1536), (24, 3, 512))),
        (middle, ((4, 9216), (6144, 6), (4, 2, 768, 6), (2, 2, 1536, 6), (4, 1536, 2, 3))),
        (outer, ((48, 768), (1152, 32), (48, 4, 6, 32), (16, 3, 24, 32), (36, 32, 32))),
        (outer, ((48, 24, 2, 16), (48, 2, 3, 4, 32), (48, 3, 2, 4, 32))),
        (_reshaped(outer, 48, 2, 3, 4, 32), ((48, 3, 2, 4, 32), (48, 2, 4, 3, 32))),
        (_reshaped(outer, 48, 3, 8, 32), ((48, 2, 12, 32), (48, 4, 6, 32))),
        (_tensor(1, 1536), ((1536,), (1536, 1, 1))),
    ):
        for sizes in new:
            yield _reshaped(view, *sizes), inputs
            yield _reshaped(view, 1, *sizes), inputs
            yield _reshaped(view, *sizes, 1), inputs
            yield _reshaped(view, *sizes[:1], 1, *sizes[1:]), inputs
            yield _reshaped(_reshaped(view, *sizes, 1), *(int(n.arg) for n in shape(view))), inputs
    n = UOp.variable("n", 1, COUNT)
    symbolic_inputs: dict[Any, Any] = {**inputs, n: 2}
    symbolic = _expanded(_reshaped(x, 1, 1536, 1), n, 1536, 6)
    twelve = made(ops.MUL, n, number(6))
    forms: tuple[tuple[Dim, ...], ...]
    forms = (n, 2, 768, 6), (n, 1536, 2, 3), (n, 9216), (1536, twelve), (twelve, 1536)
    yield from ((_reshaped(symbolic, *form), symbolic_inputs) for form in forms)
    behind = _expanded(_reshaped(x, 1536, 1, 1), 1536, 6, n)
    forms = (2, 768, 6, n), (1536, 2, 3, n), (9216, n), (1536, twelve), (twelve, 1536)
    yield from ((_reshaped(behind, *form), symbolic_inputs) for form in forms)
    yield from _without_elements()


def _without_elements() -> Iterator[Example]:
    inputs = {30: _words(1536)}
    nothing = made(ops.SHRINK, _reshaped(_tensor(1536), 1536, 1), *map(number, (0, 1536, 0, 0)))
    wide = _expanded(_reshaped(nothing, 1536, 1, 0), 1536, 24, 0)
    forms: tuple[tuple[int, ...], ...]
    forms = (0, 1536, 24), (24, 1536, 0), (36864, 0), (1536, 0, 24), (2, 0), (0, COUNT)
    yield from ((_reshaped(wide, *form), inputs) for form in forms)
    front = _expanded(_reshaped(nothing, 0, 1536, 1), 0, 1536, 24)
    forms = (0, 7), (0, 2048), (0, 1536, 5), (0, 1536, 48), (0, 5, 7, 9)
    yield from ((_reshaped(front, *form), inputs) for form in forms)


def _combined() -> Iterator[Example]:
    """Elementwise ops, casts and others, on tensors that vary along different axes."""
    inputs = {30: _words(2048)}
    row = _expanded(_reshaped(_tensor(2048), 1, 2048), 16, 2048)
    position = made(ops.CAST, made(ops.IOTA, *_dims((16, 2048)), arg=0), dtype=i32)
    along = made(ops.CAST, made(ops.IOTA, *_dims((16, 2048)), arg=1), dtype=i32)
    for x in (
        made(ops.ADD, row, position),
        made(ops.ADD, row, number(3, i32)),
        made(ops.MUL, position, position),
        made(ops.WHERE, made(ops.LT, row, position), along, row),
        made(ops.MUL, made(ops.CAST, row, dtype=f32), number(0.0, f32)),
        made(ops.CAST, made(ops.BITCAST, row, dtype=u32), dtype=i32),
        made(ops.CONTIGUOUS, row),
        *(position, along, row),
        _expanded(_reshaped(number(7, i32), 1, 1), 16, 2048),
    ):
        yield x, inputs


def varying_axis_faults() -> Iterator[str]:
    """Yield for each broadcast tensor along which axis it varies, though it is said not to."""
    for x, inputs in broadcast_tensors():
        data = np.asarray(inspect(x, inputs).data)[..., 0]
        rank, varying = len(shape(x)), varying_axes(x, {})
        data = data.reshape(data.shape[data.ndim - rank :]) if data.size else np.zeros([1] * rank)
        for axis in set(range(rank)) - varying:
            if (data != np.take(data, [0], axis)).any():
                yield f"axis {axis} of {x!r}"
                break
        else:
            yield ""
