"""Examples of passes: kernels and movement ops that are evaluated before and after each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from porism.base.dtypes import f32, index
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.traversal import substitute
from porism.prove.procedure_trials import difference
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import Procedure, RuleSet
from porism.schedule.loops.range_transforms import flatten_ends, merge_ranges, split_ranges
from tests.examples import view_examples

Kernel = tuple[UOp, dict[int, Any]]
"""A kernel, and its inputs by the numbers of its parameters; 0 is its output."""


# -- kernels ---------------------------------------------------------------------------------------


def _memory(number: int, size: int) -> UOp:
    return UOp(ops.PARAM, f32.pointer(size=size), (), number)


def _kernel(size: int, source: int, at: UOp, read: UOp, loops: list[UOp], nested: bool) -> Kernel:
    """out[at] = in[read] for all loops; nested, each loop has an END of its own."""
    store = _memory(0, size).index(at).store(_memory(1, source).index(read))
    if nested:
        for r in reversed(loops):
            store = UOp(ops.END, None, (store, r))
    else:
        store = store.end(*loops)
    inputs = {0: np.zeros(size, np.float32), 1: np.arange(source, dtype=np.float32) + 1}
    return ops.SINK(store), inputs


def _divided() -> Iterator[Kernel]:
    """Elements of a row-major tensor, taken apart by every divisor of its size."""
    for size, divisor in itertools.product((4, 6, 8, 12), (2, 3, 4)):
        r = UOp.range(size, 0)
        whole, rest = r // divisor, r % divisor
        rows = -(-size // divisor)
        yield _kernel(size, rows * divisor, r, rest * rows + whole, [r], False)
        yield _kernel(size, size, r, whole, [r], False)
        total = _memory(1, size).index(whole + rest).reduce(ops.ADD, r)
        sink = ops.SINK(_memory(0, 1).index(UOp.const(index, 0)).store(total))
        yield sink, {0: np.zeros(1, np.float32), 1: np.arange(size, dtype=np.float32)}


def _neighbours() -> Iterator[Kernel]:
    """Elements of two and three axes, some of them in row-major order."""
    for sizes in itertools.product((1, 2, 3), (1, 2, 5), (2, 4)):
        loops = [UOp.range(size, axis) for axis, size in enumerate(sizes)]
        a, b, c = loops
        _, m, n = sizes
        count = sizes[0] * m * n
        flat = (a * m + b) * n + c
        for read in (flat, (b * sizes[0] + a) * n + c, (a * n + c) * m + b):
            for nested in (False, True):
                yield _kernel(count, count, flat, read, loops, nested)


Check = Callable[[Procedure], Iterator[str]]


def _on_kernels(function: Callable[[UOp], UOp]) -> Check:
    """What is wrong with each kernel on which a pass does something; at least one must change."""

    def faults(_: Procedure) -> Iterator[str]:
        fired = 0
        for kernel, inputs in (*_divided(), *_neighbours()):
            after = function(kernel)
            if after is not kernel:
                fired += 1
                yield difference(kernel, after, inputs)
        if not fired:
            yield "it changes none of its kernels"

    return faults


# -- movement --------------------------------------------------------------------------------------

SIZES: Final = (2, 3, 4)


def _views() -> Iterator[UOp]:
    """A tensor of three axes, moved in every way."""

    def number(n: int) -> UOp:
        return UOp.const(index, n)

    x = UOp(ops.PARAM, f32, tuple(map(number, SIZES)), 1)
    yield from (ops.PERMUTE(x, arg=order) for order in itertools.permutations(range(3)))
    yield from (ops.FLIP(x, arg=axes) for axes in ((0,), (1, 2), (0, 1, 2)))
    yield from (ops.RESHAPE(x, *map(number, sizes)) for sizes in ((4, 6), (24,), (3, 2, 2, 2)))
    yield ops.SHRINK(x, *map(number, (0, 2, 1, 3, 2, 4)))
    yield ops.PAD(x, *map(number, (1, 0, 0, 2, 1, 1)))
    yield ops.EXPAND(ops.RESHAPE(ops.SHRINK(x, *map(number, (0, 1, 0, 3, 0, 1))),
                                 number(3), number(1)), number(3), number(5))  # fmt: skip


def _elements(item: Procedure) -> Iterator[str]:
    """Every element of every view, also under a mask, by the evaluator."""
    alone = RuleSet("alone", rules=(item,))
    inputs = {1: np.arange(24, dtype=np.float32).reshape(SIZES) + 1}
    for view in _views():
        loops = [UOp.range(int(d.arg), axis) for axis, d in enumerate(shape(view))]
        inside = ops.WHERE(loops[0] < 2, loops[0], ops.INVALID(dtype=index))
        for indices in (loops, [inside, *loops[1:]]):
            element = UOp(ops.INDEX, None, (view, *indices))
            after = rewrite(element, alone)
            yield "it does not fire" if after is element else difference(element, after, inputs)
    for view, values in view_examples.edge_views():
        for element in view_examples.elements(view, values):
            after = rewrite(element, alone, exactly=True)
            yield "it does not fire" if after is element else difference(element, after, values)


def _pointers(item: Procedure) -> Iterator[str]:
    """Elements behind a pointer into memory, with and without masks, by the evaluator."""
    alone = RuleSet("alone", rules=(item,))
    memory, r = _memory(1, 8), UOp.range(4, 0)
    none = ops.INVALID(dtype=index)
    inputs = {0: np.zeros(4, np.float32), 1: np.arange(8, dtype=np.float32) + 1}
    for first, second in itertools.product((r, ops.WHERE(r < 2, r, none)), repeat=2):
        pointer = UOp(ops.INDEX, memory.dtype, (memory, first))
        moved = ops.LOAD(UOp(ops.INDEX, memory.dtype, (pointer, second)))
        kernel = ops.SINK(_memory(0, 4).index(r).store(moved).end(r))
        after = rewrite(kernel, alone)
        yield "it does not fire" if after is kernel else difference(kernel, after, inputs)
    yield from _gated_pointers(alone)


def _gated_pointers(alone: RuleSet) -> Iterator[str]:
    """Pointers with gates, with indices that are INVALID, and with none, which are kept."""
    memory, r = _memory(1, 8), UOp.range(4, 0)
    none, inside, other = ops.INVALID(dtype=index), r < 2, r > 0
    inputs = {0: np.zeros(4, np.float32), 1: np.arange(8, dtype=np.float32) + 1}
    added: list[tuple[UOp, ...]] = [(r,), (none,), (r, inside), (r, other), (none, inside)]
    kept: list[tuple[UOp, ...]] = [(), (inside,), (other,)]
    for first, second in itertools.product((*added, *kept), repeat=2):
        pointer = UOp(ops.INDEX, memory.dtype, (memory, *first))
        moved = ops.LOAD(UOp(ops.INDEX, memory.dtype, (pointer, *second)))
        kernel = ops.SINK(_memory(0, 4).index(r).store(moved).end(r))
        after = rewrite(kernel, alone)
        if second and (none in (*first, *second) or (first in added and second in added)):
            yield "it does not fire" if after is kernel else difference(kernel, after, inputs)
        else:
            yield "" if after is kernel else f"it gives {after!r}"
    # floats behind a pointer to pairs of them: the offsets are in different units
    pairs = UOp(ops.PARAM, f32.vec(2).pointer(size=4), (), 1)
    lane = UOp(ops.INDEX, f32.pointer(size=8), (pairs, r))
    loaded = ops.LOAD(UOp(ops.INDEX, lane.dtype, (lane, UOp.const(index, 1))))
    kernel = ops.SINK(_memory(0, 4).index(r).store(loaded).end(r))
    after = rewrite(kernel, alone, exactly=True)
    yield "" if after is kernel else f"it adds up pairs and floats: {after!r}"
    # an element of an element, which has no value
    element = UOp(ops.INDEX, None, (UOp(ops.PARAM, f32, (UOp.const(index, 8),), 1), r))
    for indices in ((), (r,), (r, inside)):
        wrong = UOp(ops.INDEX, None, (element, *indices))
        yield "" if rewrite(wrong, alone) is wrong else "it indexes an element"


def _waiting(item: Procedure) -> Iterator[str]:
    """A view that waits for stores: the view of what waits for all of them."""
    alone = RuleSet("alone", rules=(item,))
    stores = [
        _memory(n, 1).index(UOp.const(index, 0)).store(UOp.const(f32, 1.0)) for n in (2, 3, 4)
    ]
    for view, count in itertools.product(_views(), (1, 2, 3)):
        tensor = _tensor(view)
        wanted = substitute(view, {tensor: tensor.after(*stores[:count])}, exactly=True)
        after = rewrite(UOp(ops.AFTER, None, (view, *stores[:count])), alone, exactly=True)
        yield "" if after is wanted else f"it gives {after!r}"


def _tensor(view: UOp) -> UOp:
    """What a view is a view of."""
    while view.op is not ops.PARAM:
        view = view.src[0]
    return view


def _closing(item: Procedure) -> Iterator[str]:
    """The end of a loop around a view: the end of the loop around the tensor."""
    alone = RuleSet("alone", rules=(item,))
    for view, count in itertools.product(_views(), (1, 2)):
        loops = tuple(UOp.range(4, axis) for axis in range(count))
        after = rewrite(UOp(ops.END, None, (view, *loops)), alone, exactly=True)
        right = after is UOp(ops.END, None, (_tensor(view), *loops))
        yield "" if right else f"it gives {after!r}"


EVALUATED: Final = "by the evaluator, before and after"
BY_GRAPH: Final = "by the graph that comes out"

CHECKS: Final = {
    "split-ranges": (EVALUATED, _on_kernels(split_ranges)),
    "merge-ranges": (EVALUATED, _on_kernels(merge_ranges)),
    "flatten-ends": (EVALUATED, _on_kernels(flatten_ends)),
    "index-movement": (EVALUATED, _elements),
    "index-index": (EVALUATED, _pointers),
    "after-movement": (BY_GRAPH, _waiting),
    "end-movement": (BY_GRAPH, _closing),
}
"""How each pass is established, and the check that does it."""


def before_and_after(item: Procedure) -> Iterator[tuple[UOp, UOp]]:
    """Yield graphs before and after a pass or a procedure about movement."""
    if not item.ops:
        for kernel, _ in (*_divided(), *_neighbours()):
            after = item.function(kernel)
            yield kernel, kernel if after is None else after
        return
    alone = RuleSet("alone", rules=(item,))
    loops = [UOp.range(size, axis) for axis, size in enumerate((3, 2, 4))]
    pointer = UOp(ops.INDEX, f32.pointer(size=8), (_memory(1, 8), loops[0]))
    store = _memory(2, 1).index(UOp.const(index, 0)).store(UOp.const(f32, 1.0))
    for view in itertools.islice(_views(), 3, None):
        yield from (
            (graph, rewrite(graph, alone, exactly=True))
            for graph in (
                UOp(ops.INDEX, None, (view, *loops[: len(shape(view))])),
                UOp(ops.INDEX, pointer.dtype, (pointer, loops[1])),
                UOp(ops.AFTER, None, (view, store)),
                UOp(ops.END, None, (view, loops[0])),
            )
            if graph.op in item.ops and len(graph.src) <= 1 + len(loops)
        )
