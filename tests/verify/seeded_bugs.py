"""Seeded bugs: faults of a compiler as data, each with the lowest level of verification to find it.

A bug is planted by a monkeypatch: in what a stage leaves, inside of a stage, in the memory plan, or
below the lists of operations, in a renderer. Its program is compiled right without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import porism
from porism import pipeline
from porism.backends.llvm import llvm_arithmetic, llvm_writer
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.traversal import rebuild, substitute, toposort
from porism.lower import linearize
from porism.schedule import memory_plan, schedule
from porism.schedule.ranged_stages import rewrite_ranged
from porism.schedule.rangeify import movement_indices, use_analysis
from porism.schedule.rangeify.movement_indices import Element, SourceElement
from tests.verify.fault_injection import Change, break_stage

Plant = Callable[[pytest.MonkeyPatch], None]
Rewrite = Callable[[UOp], UOp | None]


@dataclasses.dataclass(frozen=True)
class Bug:
    """One fault, and how it is found."""

    name: str
    kind: str
    level: int
    """The lowest level of verification that refuses the program."""
    program: str
    """A name in PROGRAMS."""
    plant: Plant


def numbers(*dims: int, dtype: str = "float32") -> Any:
    count = int(np.prod(dims))
    return porism.asarray((np.arange(count) * 7 % 11 - 4).astype(dtype).reshape(dims))


def chain() -> Any:
    """A program of several kernels with temporaries between them."""
    x = numbers(8, 12)
    for _ in range(4):
        x = porism.softmax(x @ numbers(12, 12), axis=0)
    return x


def residuals() -> Any:
    """The same, with values that two kernels read."""
    x = numbers(8, 12) @ numbers(12, 12)
    for _ in range(3):
        x = x + porism.softmax(x @ numbers(12, 12), axis=0) @ numbers(12, 12)
    return x


def branches() -> Any:
    """Independent values that share memory."""
    x, weight = numbers(16, 32), numbers(32, 32)
    parts = [porism.softmax(x @ weight * k, axis=0) for k in (1, 2, 3)]
    return sum((part @ weight for part in parts[1:]), parts[0] @ weight)


PROGRAMS: dict[str, Callable[[], Any]] = {
    "difference": lambda: numbers(5, 7) - numbers(5, 7).flip(0) * 3,
    "quotient": lambda: numbers(6, 9) / (numbers(6, 9) * numbers(6, 9) + 2.0),
    "integer quotient": lambda: numbers(40, dtype="int32") // 7,
    "product": lambda: numbers(9, 10) @ numbers(10, 16),
    "sum": lambda: numbers(3, 400).sum(1),
    "largest": lambda: numbers(3, 400).max(1),
    "softmax": lambda: porism.softmax(numbers(5, 19)),
    "convolution": lambda: porism.conv2d(
        numbers(1, 2, 7, 7), numbers(3, 2, 3, 3), padding=1
    ),
    "padded": lambda: porism.pad(numbers(5, 6), ((1, 2), (2, 1))) * 2,
    "flipped": lambda: porism.flip(numbers(5, 6), axis=1) + 1,
    "transposed": lambda: numbers(6, 6).T * numbers(6, 6).flip(0),
    "reshaped": lambda: numbers(6, 6).reshape(4, 9).flip(0) * 2,
    "repeated": lambda: porism.tile(numbers(8), (2, 1)).sum(0),
    "joined": lambda: porism.concat([numbers(3, 4), numbers(2, 4)]) * 2,
    "size one": lambda: porism.concat([porism.concat([numbers(4, 1, 2)] * 2, axis=0)] * 3, axis=1),
    "scan": lambda: porism.cumulative_sum(numbers(3, 64), axis=1),
    "long sum": lambda: numbers(100_003).sum(),
    "exponential": lambda: porism.exp(numbers(5, 8) * 0.25),
    "selected": lambda: porism.where(numbers(6, 8) > 0, numbers(6, 8), numbers(6, 8) * 2 - 1),
    "indirect": lambda: numbers(9, 4)[porism.asarray([1, 8, 3, 0])] * 2,
    "counted": lambda: porism.bincount(porism.asarray(np.arange(30) % 7), length=7),
    "chain": chain,
    "residuals": residuals,
    "branches": branches,
    "kept": lambda: porism.softmax(numbers(19, 1) * numbers(1, 3)) @ numbers(3, 16),
}  # fmt: skip


# -- ways to plant ---------------------------------------------------------------------------------


def changed(rewrite: Rewrite, *, every: bool = False) -> Change:
    """Return a change that replaces the first node, or every one, that a rewrite matches."""

    def change(graph: UOp) -> UOp:
        replaced = False

        def visit(node: UOp, src: tuple[UOp, ...]) -> UOp:
            nonlocal replaced
            node = node.replace(src)
            replacement = None if replaced and not every else rewrite(node)
            replaced = replaced or replacement is not None
            return node if replacement is None else replacement

        return rebuild(graph, visit)

    return change


def after(stage: str, rewrite: Rewrite, *, every: bool = False) -> Plant:
    """Rewrite the graph that a stage on kernels returns."""
    return lambda patch: break_stage(patch, stage, changed(rewrite, every=every))


def in_list(rewrite: Rewrite) -> Plant:
    """Rewrite the first of the instructions that a rewrite matches."""

    def wrong(right: Any) -> Any:
        def linearized(kernel: UOp, *, fused: bool) -> list[UOp]:
            new: dict[UOp, UOp] = {}
            replaced = False
            for node in right(kernel, fused=fused):
                rebuilt = node.replace(tuple([new.get(s, s) for s in node.src]))
                replacement = None if replaced else rewrite(rebuilt)
                replaced = replaced or replacement is not None
                new[node] = rebuilt if replacement is None else replacement
            return list(new.values())

        return linearized

    return lambda patch: patch.setattr(pipeline, "linearize", wrong(linearize.linearize))


def in_ranges(rewrite: Rewrite, stage: str = "simplify reductions") -> Plant:
    """Rewrite the graph that a stage on the graph in ranges returns."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        stages = list(pipeline.RANGED_STAGES)
        number = next(k for k, candidate in enumerate(stages) if candidate.name == stage)
        run = stages[number].run
        change = changed(rewrite)
        wrong = dataclasses.replace(
            stages[number], run=lambda r, t: rewrite_ranged(run(r, t), change)
        )
        stages[number] = wrong
        patch.setattr(pipeline, "RANGED_STAGES", tuple(stages))

    return plant


def on_tensors(rewrite: Rewrite) -> Plant:
    """Rewrite the graph that the last stage on tensor graphs returns."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        *others, stage = pipeline.GRAPH_STAGES
        run, change = stage.run, changed(rewrite)
        wrong = dataclasses.replace(stage, run=lambda graph, target: change(run(graph, target)))
        patch.setattr(pipeline, "GRAPH_STAGES", (*others, wrong))

    return plant


def moving(op: Any, wrong: Callable[[UOp, Element, SourceElement], SourceElement]) -> Plant:
    """Let a movement op index another element of its source."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = movement_indices.source_element

        def wrong_source_element(node: UOp, element: Element) -> SourceElement:
            element_read = right(node, element)
            return wrong(node, element, element_read) if node.op is op else element_read

        patch.setattr(use_analysis, "source_element", wrong_source_element)

    return plant


def replacing(module: Any, name: str, wrong: Callable[[Any], Any]) -> Plant:
    """Replace an attribute of a module by a function of it."""
    return lambda patch: patch.setattr(module, name, wrong(getattr(module, name)))


def rendering(old: str, new: str) -> Plant:
    """Replace a piece of text in the LLVM IR that is emitted."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = llvm_writer.Writer.emit
        patch.setattr(
            llvm_writer.Writer, "emit", lambda self, text: right(self, text.replace(old, new))
        )

    return plant


# -- replacements ----------------------------------------------------------------------------------


def swapped(op: Any) -> Rewrite:
    def rewrite(node: UOp) -> UOp | None:
        if node.op is not op or not node.dtype.element.is_float or node.src[0] is node.src[1]:
            return None
        return UOp(op, node.dtype, (node.src[1], node.src[0]))

    return rewrite


def other_op(old: Any, new: Any) -> Rewrite:
    return lambda node: UOp(new, node.dtype, node.src) if (
        node.op is old and node.dtype.element.is_float
    ) else None  # fmt: skip


def other_reduction(old: Any, new: Any) -> Rewrite:
    return lambda node: node.src[0].reduce(new, *node.src[1:]) if (
        node.op is ops.REDUCE and node.arg is old
    ) else None  # fmt: skip


def doubled_terms(node: UOp) -> UOp | None:
    if node.op is not ops.REDUCE or node.arg is not ops.ADD:
        return None
    return (node.src[0] + node.src[0]).reduce(ops.ADD, *node.src[1:])


def negated_sum(node: UOp) -> UOp | None:
    return -node if node.op is ops.REDUCE and node.arg is ops.ADD else None


def other_alternative(node: UOp) -> UOp | None:
    """WHERE(c, x, 0) as WHERE(c, x, 1)."""
    if node.op is not ops.WHERE or not node.dtype.element.is_float:
        return None
    if node.src[2].op is not ops.CONST:
        return None
    return UOp(ops.WHERE, node.dtype, (*node.src[:2], node.src[2] + 1.0))


def other_alternative_of_load(node: UOp) -> UOp | None:
    if node.op is not ops.LOAD or len(node.src) < 2 or not node.dtype.element.is_float:
        return None
    return ops.LOAD(node.src[0], node.src[1] + 1.0, dtype=node.dtype)


def branches_swapped(node: UOp) -> UOp | None:
    if node.op is not ops.WHERE or not node.dtype.element.is_float:
        return None
    return UOp(ops.WHERE, node.dtype, (node.src[0], node.src[2], node.src[1]))


def other_constant(node: UOp) -> UOp | None:
    is_number = node.op is ops.CONST and node.dtype.is_float and abs(node.arg) > 1
    return UOp.const(node.dtype, node.arg + 1) if is_number else None


def other_coefficient(node: UOp) -> UOp | None:
    """A coefficient of a polynomial that is off by a thousandth."""
    is_number = node.op is ops.CONST and node.dtype.is_float and 0.1 < abs(node.arg) < 0.9
    return UOp.const(node.dtype, node.arg * 1.001) if is_number else None


def limit_moved(node: UOp) -> UOp | None:
    if node.op is not ops.LT or node.src[1].op is not ops.CONST or node.src[1].dtype.is_float:
        return None
    return UOp(ops.LT, node.dtype, (node.src[0], node.src[1] + 1))


def shorter_reduction(node: UOp) -> UOp | None:
    """A sum without its last term."""
    if node.op is not ops.REDUCE or node.src[1].vmax < 2:
        return None
    r = node.src[1]
    s = UOp.range(int(r.vmax), r.arg[0], r.arg[1])
    return substitute(node.src[0], {r: s}).reduce(node.arg, s, *node.src[2:])


def first_term_only(node: UOp) -> UOp | None:
    """A partial sum: the terms of the first iteration of one of the loops."""
    if node.op is not ops.REDUCE or len(node.src) < 3:
        return None
    r = node.src[1]
    return substitute(node.src[0], {r: UOp.const(r.dtype, 0)}).reduce(node.arg, *node.src[2:])


def read_moved(node: UOp) -> UOp | None:
    """Read the mirrored element."""
    if node.op is not ops.INDEX or node.src[0].op is not ops.PARAM or len(node.src) < 2:
        return None
    at = node.src[-1]
    if at.op is not ops.RANGE:
        return None
    return node.replace((*node.src[:-1], at.src[0] - 1 - at))


def rest_left_out(node: UOp) -> UOp | None:
    """The sum of whole blocks without that of the rest."""
    if node.op is not ops.ADD or node.src[1].op is not ops.RESHAPE:
        return None
    return node.src[0]


def last_block_left_out(node: UOp) -> UOp | None:
    if node.op is not ops.SHRINK or node.src[0].op is not ops.PARAM or node.src[1].arg:
        return None
    size = node.src[2]
    half = size - size // 2
    shorter = ops.SHRINK(node.src[0], node.src[1], half)
    return ops.PAD(shorter, node.src[1], size - half)


def lanes_swapped(node: UOp) -> UOp | None:
    """Two lanes of a vector for each other."""
    if node.op is not ops.GEP or len(node.arg) < 2 or node.arg[0] == node.arg[1]:
        return None
    return ops.GEP(*node.src, arg=(node.arg[1], node.arg[0], *node.arg[2:]))


def fill_not_whole(node: UOp) -> UOp | None:
    """A fill of local memory without its last iteration."""
    if node.op is not ops.END or node.src[0].op is not ops.STORE:
        return None
    store = node.src[0]
    base = store.src[0].src[0]
    if base.op is not ops.DEFINE_LOCAL:
        return None
    r = node.src[-1]
    if r.op is not ops.RANGE or r.vmax < 1:
        return None
    s = UOp.range(int(r.vmax), r.arg[0], r.arg[1])
    return substitute(node, {r: s})


def prefix_carried(kernel: UOp) -> UOp:
    """What a scan carries on is the prefix up to an element, and not the total of a step."""
    totals = [n for n in toposort(kernel) if n.op is ops.REDUCE and n.src[0].op is not ops.WHERE]
    masks = [n for n in toposort(kernel) if n.op is ops.REDUCE and n.src[0].op is ops.WHERE]
    if not totals or not masks:
        return kernel
    return substitute(kernel, {totals[0]: masks[0]})


def start_changed(kernel: UOp) -> UOp:
    """What is kept of a scan begins with 1."""
    for node in toposort(kernel):
        if node.op is ops.STORE and node.src[1].op is ops.CONST:
            return substitute(kernel, {node: node.src[0].store(node.src[1] + 1.0)})
    return kernel


def by_stage(stage: str, change: Change) -> Plant:
    return lambda patch: break_stage(patch, stage, change)


def with_size_one_axis(node: UOp, element: Element, actual: SourceElement) -> SourceElement:
    """The index of an axis of size 1 is the one of its neighbour, and not 0."""
    at = list(actual.element.indices)
    for k, i in enumerate(at):
        if i.op is ops.CONST and k + 1 < len(at) and at[k + 1].op is ops.RANGE:
            at[k] = at[k + 1]
            return SourceElement(Element(tuple(at), actual.element.valid), actual.inside)
    return actual


def border_moved(node: UOp, element: Element, actual: SourceElement) -> SourceElement:
    """Padding that begins one element later."""
    at = tuple(UOp.const(i.dtype, 0).maximum(i - 1) if i.op is not ops.CONST else i
               for i in actual.element.indices)  # fmt: skip
    return SourceElement(Element(at, actual.element.valid), actual.inside)


def without_border(node: UOp, element: Element, actual: SourceElement) -> SourceElement:
    """Padding whose elements are those at the border, and not 0."""
    dims = shape(node.src[0])
    at = tuple(
        i.maximum(0).minimum(n - 1) for i, n in zip(actual.element.indices, dims, strict=True)
    )
    return SourceElement(Element(at, element.valid))


def not_moved(node: UOp, element: Element, actual: SourceElement) -> SourceElement:
    return SourceElement(Element(element.indices, actual.element.valid), actual.inside)


def order_reversed(node: UOp, element: Element, actual: SourceElement) -> SourceElement:
    return SourceElement(
        Element(tuple(reversed(actual.element.indices)), actual.element.valid), actual.inside
    )


def wrong_fold(right: Any) -> Any:
    """LinearDomain whose terms are taken away."""

    def folded(op: Any, total: UOp, value: UOp, *, fused: bool) -> Any:
        if op is ops.ADD and value.dtype.element.is_float:
            return total - value
        return right(op, total, value, fused=fused)

    return folded


def wrong_identity(right: Any) -> Any:
    """Accumulators that begin with 1."""
    return lambda op, dtype: 1 if op is ops.ADD else right(op, dtype)


def zero_for_lowest(right: Any) -> Any:
    """Largest values that are looked for from 0 on."""
    return lambda op, dtype: 0 if op is ops.MAX else right(op, dtype)


def ends_early(_: Any) -> Any:
    return property(lambda life: min(life.read, default=life.written))


def without_waits(right: Any) -> Any:
    return lambda lives: dataclasses.replace(right(lives), waits=())


def all_at_once(right: Any) -> Any:
    def plan(lives: Any) -> Any:
        actual = right(lives)
        return dataclasses.replace(actual, offsets=tuple(0 for _ in actual.offsets))

    return plan


def reciprocal_of_itself(patch: pytest.MonkeyPatch) -> None:
    """x / x for 1 / x."""
    quotient = llvm_arithmetic.ARITHMETIC[ops.FDIV]

    def wrong(r: Any, node: UOp, lane: Any) -> str:
        return quotient(r, UOp(ops.FDIV, node.dtype, (*node.src, *node.src)), lane)

    patch.setitem(llvm_arithmetic.ARITHMETIC, ops.RECIPROCAL, wrong)


BUGS: tuple[Bug, ...] = (
    # values
    Bug("operands of a difference swapped", "swapped operands", 2, "difference",
        after("symbolic", swapped(ops.SUB))),
    Bug("operands of a quotient swapped", "swapped operands", 2, "quotient",
        after("symbolic after merging", swapped(ops.FDIV))),
    Bug("operands swapped in lanes", "swapped operands", 2, "difference",
        after("symbolic on lanes", swapped(ops.SUB))),
    Bug("a sum for a difference", "other op", 2, "difference",
        after("early movement", other_op(ops.SUB, ops.ADD))),
    Bug("a difference for a sum", "other op", 2, "quotient",
        after("index dtype", other_op(ops.ADD, ops.SUB))),
    Bug("min for max", "min for max", 2, "largest",
        after("symbolic", other_reduction(ops.MAX, ops.MIN))),
    Bug("sum for max", "min for max", 2, "largest",
        after("merge ranges", other_reduction(ops.MAX, ops.ADD))),
    Bug("terms of a sum twice", "partial sums", 2, "sum", after("symbolic", doubled_terms)),
    Bug("a sum with the other sign", "sign of an accumulator", 2, "product",
        after("shrink ranges", negated_sum)),
    Bug("terms taken away", "sign of an accumulator", 2, "product",
        replacing(linearize, "_combine", wrong_fold)),
    Bug("a sum that begins with 1", "start of an accumulator", 2, "sum",
        replacing(linearize, "identity", wrong_identity)),
    Bug("a largest value from 0 on", "start of an accumulator", 2, "largest",
        replacing(linearize, "identity", zero_for_lowest)),
    Bug("a gate with another alternative", "alternative of a gate", 2, "padded",
        after("symbolic", other_alternative)),
    Bug("a gated load with another alternative", "alternative of a gate", 2, "padded",
        in_list(other_alternative_of_load)),
    Bug("branches swapped", "alternative of a gate", 2, "selected",
        after("symbolic", branches_swapped)),
    Bug("another constant", "other op", 2, "difference", after("decompose", other_constant)),
    # loops
    Bug("a sum without its last term", "partial sums", 1, "sum",
        after("symbolic", shorter_reduction)),
    Bug("a product without its last terms", "partial sums", 1, "product",
        after("merge ranges", shorter_reduction)),
    Bug("a sum over one of two loops", "partial sums", 1, "convolution",
        after("split ranges", first_term_only)),
    Bug("a mask that lets one more through", "padding borders", 1, "padded",
        after("symbolic", limit_moved)),
    Bug("a scan that carries the prefix", "scans", 1, "scan",
        by_stage("schedule loops", prefix_carried)),
    Bug("a scan that begins with 1", "scans", 1, "scan", by_stage("schedule loops", start_changed)),
    Bug("lanes for each other", "a lane of another axis", 2, "flipped",
        in_list(lanes_swapped)),
    Bug("lanes of what is kept for each other", "a lane of another axis", 2, "kept",
        in_list(lanes_swapped)),
    Bug("lanes for each other in a scan", "a lane of another axis", 2, "scan",
        after("symbolic on lanes", lanes_swapped)),
    Bug("a fill that is not done whole", "fill of local memory", 1, "kept",
        after("local memory", fill_not_whole)),
    # before kernels
    Bug("padding that begins later", "padding borders", 2, "padded",
        moving(ops.PAD, border_moved)),
    Bug("padding with the border", "padding borders", 2, "convolution",
        moving(ops.PAD, without_border)),
    Bug("a flip left out", "before kernels", 2, "flipped", moving(ops.FLIP, not_moved)),
    Bug("a transposition left out", "before kernels", 2, "transposed",
        moving(ops.PERMUTE, order_reversed)),
    Bug("axes of a reshape reversed", "before kernels", 2, "reshaped",
        moving(ops.RESHAPE, order_reversed)),
    Bug("a part that begins elsewhere", "before kernels", 2, "joined",
        moving(ops.PAD, border_moved)),
    Bug("an index of a size-1 axis", "before kernels", 1, "size one",
        moving(ops.PAD, with_size_one_axis)),
    Bug("an element beside", "before kernels", 2, "difference", in_ranges(read_moved)),
    Bug("operands swapped in ranges", "before kernels", 2, "difference",
        in_ranges(swapped(ops.SUB))),
    Bug("min for max in ranges", "before kernels", 2, "largest",
        in_ranges(other_reduction(ops.MAX, ops.MIN))),
    Bug("another alternative in ranges", "before kernels", 2, "padded",
        in_ranges(other_alternative, "remove buffers")),
    Bug("a repeated axis summed once", "before kernels", 2, "repeated",
        in_ranges(doubled_terms)),
    Bug("a sum in parts without the rest", "split reductions", 2, "long sum",
        on_tensors(rest_left_out)),
    Bug("a sum in parts without half of them", "split reductions", 2, "long sum",
        on_tensors(last_block_left_out)),
    Bug("an indirect read of an element beside", "before kernels", 2, "indirect",
        in_ranges(read_moved)),
    # the plan of memory
    Bug("a value that ends with its first reader", "memory plan", 1, "residuals",
        replacing(memory_plan.Lifetime, "end", ends_early)),
    Bug("kernels that do not wait", "memory plan", 1, "branches",
        replacing(memory_plan, "plan_memory", without_waits)),
    Bug("all temporaries at one offset", "memory plan", 1, "chain",
        replacing(memory_plan, "plan_memory", all_at_once)),
    Bug("a result over what is read elsewhere", "memory plan", 1, "chain",
        replacing(schedule, "overwritable_parameter", lambda _: lambda kernel, last: min(last))),
    # below the lists of operations
    Bug("a wrong reciprocal", "renderer", 3, "quotient", rendering("fdiv", "fmul")),
    Bug("x/x for 1/x", "renderer", 3, "softmax",
        reciprocal_of_itself),
    Bug("one iteration too many", "renderer", 3, "sum", rendering("icmp slt", "icmp sle")),
    Bug("one iteration too many of a product", "renderer", 3, "product",
        rendering("icmp slt", "icmp sle")),
    Bug("a difference for a sum in machine code", "renderer", 3, "quotient",
        rendering("fadd", "fsub")),
    Bug("a remainder for a quotient", "renderer", 3, "integer quotient",
        rendering("sdiv", "srem")),
    # functions
    Bug("a wrong coefficient", "approximations", 2, "exponential",
        after("decompose", other_coefficient)),
)  # fmt: skip
