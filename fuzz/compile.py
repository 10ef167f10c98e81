"""Compiled kernels compute what the evaluator says: random programs with random legal actions.

Whatever arithmetic determines is compared bit by bit. Where the order of a sum of floats may
change, or a function is approximated, a difference counts if it is larger than rounding explains.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, get_type_hints

import numpy as np
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import porism
from fuzz.search import search
from porism.backends.backend_table import BACKENDS
from porism.base import dtypes
from porism.base.dtypes import DType, Kind
from porism.base.errors import PorismError, TypeMismatch
from porism.base.gpu_targets import H200
from porism.base.target import Target
from porism.engine.run.bound_sizes import element_count
from porism.engine.run.buffer_storage import node_storage, realized_buffer
from porism.engine.run.realize import request
from porism.engine.tune.kernel_trial import CompiledTrial, reference_result
from porism.evaluate import run_list
from porism.evaluate.threads.tracked_memory import Memory
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp, raw
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.action_registry import ACTIONS
from porism.optimize.actions.gpu.tensor_core_action import TC
from porism.optimize.actions.gpu.thread_block_actions import ThreadBlockAction
from porism.optimize.actions.loop_substitution import ranges_of
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.strategy import heuristic
from porism.pipeline import lower_kernel, optimize_kernel, schedule_graph, unscheduled_kernel
from porism.schedule.schedule import Buffer, Role, Schedule
from porism.verification import verify_kernel as verification
from tests.backends.running import random_data, small_numbers
from tests.block_kernels import SMALL, TINY, matrix_product
from tests.tensor import test_programs
from tests.tensor.functions import FUNCTIONS, SIZES
from tests.tensors import Tensors

LLVM: Final = BACKENDS["llvm"]

VALUES: Final = tuple(t for t in dtypes.scalars() if t.kind not in (Kind.INDEX, Kind.VOID))

APPROXIMATE: Final = frozenset({op for op in ops.table() if op.approximate} | {ops.RECIPROCAL})
"""Functions with an error bound instead of one right answer."""

MOST_ACTIONS: Final = 8
MOST_WORK: Final = 200_000
"""Iterations of a kernel: more take the evaluator too long."""
MOST_IN_THREADS: Final = 4_000
"""The same where it runs all threads of all blocks, one after another."""
MOST_TWICE: Final = 1_000
"""The same where it runs them in order and in reverse; those of larger kernels in one of these.
And of kernels after actions, which it goes through loop by loop."""

AMOUNTS: Final = (2, 3, 4, 5, 7, 8, 16)
NUMBERS: Final = {"buffer": (0, 1, 2), "load": (0, 1), "row": (0, 1, 2)}
"""What fields of actions are that are no amounts."""

GPUS: Final = (TINY, SMALL, H200)

COMPILED_BY_C: Final = 12
AS_A_GRAPH: Final = 4
IN_THREADS: Final = 4
VERIFIED: Final = 40
"""One of so many cases: the compiler of the system is slow, and so are loops of the evaluator,
threads one after another, and proofs."""


# -- actions ---------------------------------------------------------------------------------------


@functools.cache
def fields_of(kind: type[Action]) -> dict[str, Any]:
    """The fields of an action and their types."""
    types = get_type_hints(kind)
    return {f.name: types[f.name] for f in dataclasses.fields(kind)}  # type: ignore[arg-type]


def random_action(data: st.DataObject, names: Sequence[str], target: Target) -> Action:
    """An action on loops with these names, legal or not."""
    kinds = [k for k in ACTIONS.values() if target.block or not issubclass(k, ThreadBlockAction)]
    kind = data.draw(st.sampled_from(kinds))
    values = {name: random_field(data, name, type_, names)
              for name, type_ in fields_of(kind).items()}  # fmt: skip
    return kind(**values)


def random_field(data: st.DataObject, name: str, type_: Any, names: Sequence[str]) -> Any:
    """A value for a field of an action: by its type, and of a number also by its name."""
    loop = st.sampled_from(names)
    if type_ is str:
        return data.draw(loop)
    if type_ is bool:
        return data.draw(st.booleans())
    if type_ is int:
        return data.draw(st.sampled_from(NUMBERS.get(name, AMOUNTS)))
    assert type_ == tuple[str, ...], "a new type of field needs a line here"
    sums = st.lists(loop, min_size=1, max_size=2, unique=True).map("+".join)
    axes = st.lists(loop | sums, min_size=1, max_size=3, unique=True)
    return tuple(data.draw(axes))


def scheduled_at_random(
    kernel: UOp, data: st.DataObject, target: Target, first: Sequence[Action] = ()
) -> tuple[UOp, list[Action]]:
    """A kernel after some legal actions, and these."""
    begin = data.draw(st.integers(0, 4)) if not first else 2
    follows = begin == 1 and not target.block
    if begin == 0:
        note("scheduled by the heuristic")
        chosen = heuristic.choose_actions(unscheduled_kernel(kernel, target), target)
        return optimize_kernel(kernel, target), list(chosen)
    kernel = unscheduled_kernel(kernel, target)
    done = [*first, *(heuristic.choose_actions(kernel, target) if follows else ())]
    kernel = apply_all(kernel, done, target)
    for _ in range(data.draw(st.integers(0, MOST_ACTIONS))):
        names = [show(r) for r in ranges_of(kernel)]
        if not names:
            break
        action = random_action(data, names, target)
        if action.is_legal(kernel, target):
            kernel = action.apply(kernel, target)
            done.append(action)
    note(f"for {target.name}: {done}")
    return kernel, done


# -- comparing -------------------------------------------------------------------------------------


def order_matters(kernel: UOp) -> bool:
    """Whether a kernel has a sum or a product of floats."""
    return any(
        n.op is ops.REDUCE and n.dtype.is_float and n.arg in (ops.ADD, ops.MUL)
        for n in toposort(kernel)
    )


def may_overflow(kernel: UOp) -> bool:
    """Whether a reduction of small numbers can overflow in one order and not in another."""
    return any(
        n.op is ops.REDUCE and n.dtype.is_float and (n.arg is ops.MUL or n.dtype.bits == 8)
        for n in toposort(kernel)
    )


def is_exact(kernel: UOp) -> bool:
    """Whether there is one right answer to the last bit."""
    functions = any(n.op in APPROXIMATE and n.dtype.is_float for n in toposort(kernel))
    return not functions and not order_matters(kernel)


def has_extremes(kernel: UOp) -> bool:
    """Whether MAX or MIN may choose among zeros of different sign: either is right."""
    return any(
        n.dtype.is_float and {n.op, n.arg if n.op is ops.REDUCE else None} & {ops.MAX, ops.MIN}
        for n in toposort(kernel)
    )


def differences(wanted: Array, found: Array, *, signs: bool = True) -> Array:
    """Where two arrays differ; any NaN is as good as another.

    Without `signs`, so is a zero as good as the other, and what comes of dividing by it.
    """
    if wanted.dtype.kind not in "fV":
        return np.asarray(wanted != found)
    a, b = wide(wanted), wide(found)
    same = (a == b) & (np.signbit(a) == np.signbit(b))
    if not signs:
        same |= (a == b) | (np.isinf(a) & np.isinf(b))
    return np.asarray(~(same | (np.isnan(a) & np.isnan(b))))


def wide(array: Array) -> Array:
    """Floats in double precision, in which all of them can be compared."""
    with np.errstate(all="ignore"):
        return array.astype(np.float64)


def unexplained(
    kernel: UOp, data: Mapping[int, Array], variables: Mapping[str, int], wanted: Array, got: Array
) -> Array:
    """Where two results differ by more than rounding does.

    How much rounding does is seen by a change of the inputs in their last places.
    """
    different = differences(wanted, got)
    nudged = [_nudged(kernel, data, variables, direction) for direction in (1, -1, 2)]
    if wanted.dtype.kind not in "fV":
        unsure = np.any([differences(wanted, other) for other in nudged], 0)
        return np.asarray(different & ~unsure)
    a, b = wide(wanted), wide(got)
    with np.errstate(all="ignore"):
        largest = np.abs(a[np.isfinite(a)]).max(initial=1e-3)
        allowed = np.full(a.shape, 16 * _unit(wanted.dtype) * largest)
        for other in map(wide, nudged):
            change = np.where(differences(a, other), np.abs(other - a), 0)
            allowed += np.where(np.isfinite(change), 64 * change, np.inf)
        near = (np.abs(a - b) <= allowed) | (allowed == np.inf)
    return np.asarray(different & ~near)


def _unit(dtype: np.dtype[Any]) -> float:
    """A generous unit of rounding of a type of floats."""
    return max(2.0 ** -{1: 1, 2: 7, 4: 20, 8: 40}[dtype.itemsize], 2.0**-40)


def _nudged(
    kernel: UOp, data: Mapping[int, Array], variables: Mapping[str, int], direction: int
) -> Array:
    """What a kernel writes when its inputs are changed in the last places."""
    changed = dict(data)
    for number, array in data.items():
        if number and array.dtype.kind in "fV":
            signs = np.where(np.arange(len(array)) % 2, 1, -1) if direction == 2 else direction
            factor = 1 + signs * _unit(array.dtype) / 2
            with np.errstate(all="ignore"):
                changed[number] = (wide(array) * factor).astype(array.dtype)
    return reference_result(kernel, changed, variables)


@functools.cache
def has_compiler() -> bool:
    """Whether the C backend can be used here."""
    try:
        BACKENDS["c"].target()
    except PorismError:
        return False
    return True


def seldom(data: st.DataObject, share: int) -> bool:
    """Whether something slow is done to this one of so many cases."""
    return data.draw(st.integers(1, share)) == share


def check(kernel: UOp, buffers: Mapping[int, Array], variables: Mapping[str, int],
          data: st.DataObject, *, tame: bool, blocks: bool = True) -> None:  # fmt: skip
    """Compare a kernel, whose loops are scheduled at random, with the evaluator.

    If not `blocks`, in blocks of threads it is not tried.
    """
    changed, actions = scheduled_at_random(kernel, data, LLVM.target())
    if seldom(data, VERIFIED):
        verify_actions(kernel, changed, LLVM.target(), actions)
    backend = BACKENDS["c"] if seldom(data, COMPILED_BY_C) and has_compiler() else LLVM
    trial = CompiledTrial(changed, backend)
    found = {**buffers, 0: buffers[0].copy()}
    trial.run(found, variables)
    if order_is_all(kernel, tame):
        wanted = {**buffers, 0: buffers[0].copy()}
        stepped(trial.lines, wanted, variables)
        wrong = differences(wanted[0], found[0], signs=not has_extremes(kernel))
        need_none(wrong, kernel, buffers, wanted[0], found[0], actions)
        return
    compare(kernel, buffers, variables, found[0], actions)
    if work(changed) <= MOST_TWICE and seldom(data, AS_A_GRAPH):
        compare(kernel, buffers, variables, reference_result(changed, buffers, variables), actions)
    if blocks and work(kernel) <= MOST_IN_THREADS and seldom(data, IN_THREADS):
        check_threads(kernel, buffers, variables, data)


def check_threads(kernel: UOp, buffers: Mapping[int, Array], variables: Mapping[str, int],
                  data: st.DataObject) -> None:  # fmt: skip
    """Compare a kernel in blocks of threads, which the evaluator runs in order and in reverse.

    It refuses races, barriers that not all threads reach, and reads of what was never written.
    """
    run_threads(kernel, buffers, variables, data, data.draw(st.sampled_from(GPUS)), ())


def run_threads(kernel: UOp, buffers: Mapping[int, Array], variables: Mapping[str, int],
                data: st.DataObject, target: Target, first: Sequence[Action]) -> None:  # fmt: skip
    """The same for one target, with some actions before those by chance."""
    changed, actions = scheduled_at_random(kernel, data, target, first)
    if seldom(data, VERIFIED):
        verify_actions(kernel, changed, target, actions)
    lines = lower_kernel(changed, target, scheduled=True)
    for reverse in (False, True) if work(kernel) <= MOST_TWICE else (data.draw(st.booleans()),):
        found = {**buffers, 0: buffers[0].copy()}
        stepped(lines, found, variables, reverse=reverse)
        compare(kernel, buffers, variables, found[0], actions)


def verify_actions(kernel: UOp, changed: UOp, target: Target, actions: Sequence[Action]) -> None:
    """Check a kernel with its actions in verify mode: a fault, or a false alarm, is an error."""
    before = unscheduled_kernel(kernel, target)
    verification.verify_actions(before, changed, target, {}, actions)


def verify_graph(graph: UOp, data: st.DataObject) -> None:
    """The same for all kernels of a graph and all stages, seldom."""
    if seldom(data, VERIFIED):
        verification.verify_graph(graph, LLVM.target())


def order_is_all(kernel: UOp, tame: bool) -> bool:
    """Whether a result is right only if everything is added up in the same order."""
    return order_matters(kernel) and (may_overflow(kernel) or not tame)


def compare(kernel: UOp, buffers: Mapping[int, Array], variables: Mapping[str, int],
            found: Array, actions: Sequence[Action]) -> None:  # fmt: skip
    """Compare a result with that of the evaluator for the kernel as it was."""
    wanted = reference_result(kernel, buffers, variables)
    wrong = differences(wanted, found, signs=not has_extremes(kernel))
    if wrong.any() and not is_exact(kernel):
        wrong = unexplained(kernel, buffers, variables, wanted, found)
    need_none(wrong, kernel, buffers, wanted, found, actions)


def need_none(wrong: Array, kernel: UOp, buffers: Mapping[int, Array], wanted: Array,
              found: Array, actions: Sequence[Action]) -> None:  # fmt: skip
    """An error if anything is wrong."""
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        note(f"kernel: {show(kernel, limit=5000)}")
        note(f"inputs: { {k: v.tolist() for k, v in buffers.items() if k} }")
        raise AssertionError(
            f"element {at} is {found[at]}, not {wanted[at]}; "
            f"{int(wrong.sum())} of {len(wrong)} differ after {actions}"
        )


def stepped(lines: Sequence[UOp], buffers: dict[int, Array], variables: Mapping[str, int],
            *, reverse: bool = False) -> None:  # fmt: skip
    """Let the evaluator do what the machine does, step by step."""
    types = {int(n.arg): n.dtype.element.element for n in lines if n.op is ops.PARAM}
    memories = [
        Memory(buffers[k].view(types[k].numpy) if k in types else np.zeros(0))
        for k in range(max(types, default=-1) + 1)
    ]
    with np.errstate(all="ignore"):
        run_list(lines, memories, variables, reverse=reverse)


def check_schedule(schedule: Schedule, inputs: Sequence[Array], variables: Mapping[str, int],
                   data: st.DataObject, *, tame: bool, blocks: bool = True) -> None:  # fmt: skip
    """Compare the kernels of a schedule one by one, each on what the ones before have left."""
    memories = [
        inputs[b.number] if b.role is Role.INPUT else _empty(b, variables) for b in schedule.buffers
    ]
    for step in schedule.steps:
        buffers = {k: memories[place] for k, place in enumerate(step.buffers)}
        if work(step.kernel) <= MOST_WORK:
            check(step.kernel, buffers, variables, data, tame=tame, blocks=blocks)
        buffers[0][...] = reference_result(step.kernel, buffers, variables)


def _empty(buffer: Buffer, variables: Mapping[str, int]) -> Array:
    return np.zeros(element_count(buffer, variables), buffer.dtype.numpy)


def work(kernel: UOp) -> int:
    """About the iterations of the innermost loop."""
    nests = [n.ranges for n in toposort(kernel) if n.op in (ops.INDEX, ops.STORE)]
    return max((math.prod(int(r.vmax) + 1 for r in nest) for nest in nests), default=1)


# -- random programs -------------------------------------------------------------------------------


class Graphs(Tensors):
    """Tensor graphs with sizes around the widths of vectors."""

    tame = True

    def shape(self) -> tuple[int, ...]:
        sizes = self.draw(st.lists(st.sampled_from(SIZES), max_size=3))
        while math.prod(sizes) > 1200:
            sizes.pop()
        return tuple(sizes)

    def constant(self, dtype: DType, shape: tuple[int, ...]) -> UOp:
        if not self.tame or not dtype.is_float:
            return super().constant(dtype, shape)
        number = UOp.const(dtype, float(self.draw(st.integers(-3, 3))))
        dims = [UOp.const(dtypes.index, n) for n in shape]
        ones = [UOp.const(dtypes.index, 1) for _ in shape]
        return ops.EXPAND(ops.RESHAPE(number, *ones), *dims) if shape else number


def graphs(data: st.DataObject) -> None:
    """Random graphs of tensors of all types."""
    types = data.draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3, unique=True))
    tensors = Graphs(cast(DrawFn, data.draw), raw, (*types, dtypes.boolean), smallest=1)
    tensors.tame = tame = data.draw(st.booleans())
    tensors.parameter(types[0], tensors.shape())
    for _ in range(data.draw(st.integers(1, 10))):
        tensors.step()
    root = tensors.pool[-1][0]
    verify_graph(ops.SINK(root), data)
    schedule = schedule_graph(ops.SINK(root))
    seed = data.draw(st.integers(0, 99))
    make = small_numbers if tame else random_data
    given = {b.number: b for b in schedule.buffers if b.role is Role.INPUT}
    inputs = [
        make(given[k].dtype, math.prod(int(d.arg) for d in given[k].dims), seed + k)
        if k in given
        else np.zeros(0)
        for k in range(max(given, default=-1) + 1)
    ]
    check_schedule(schedule, inputs, {}, data, tame=tame)


def check_tensor(tensor: Any, data: st.DataObject, *, blocks: bool = True) -> None:
    """Compare the kernels of a tensor."""
    if realized_buffer(tensor.node) is not None:
        return
    wanted = request([tensor.node])
    inputs = [node_storage(buffer)[0] for buffer in wanted.buffers]
    verify_graph(wanted.graph, data)
    schedule = schedule_graph(wanted.graph)
    check_schedule(schedule, inputs, wanted.variables, data, tame=True, blocks=blocks)


def programs(data: st.DataObject) -> None:
    """Programs of public functions on whole numbers."""
    program = test_programs.Program(data)
    program.input()
    program.input()
    for _ in range(data.draw(st.integers(1, 20))):
        program.step()
    note("\n".join(program.lines))
    check_tensor(list(program.values.values())[-1][0], data)


def functions(data: st.DataObject) -> None:
    """One function or two, on sizes around the widths of vectors."""
    name = data.draw(st.sampled_from(sorted(FUNCTIONS)))
    dtype = data.draw(st.sampled_from([t for t in VALUES if not t.is_float or t.bits > 8]))
    note(f"{name} of {dtype}")
    try:
        made = FUNCTIONS[name](data, dtype)
    except TypeMismatch:  # not every function takes every type
        return
    check_tensor(made, data)


def convolutions(data: st.DataObject) -> None:
    """Small convolutions of sizes that fit no vectors, with rows enough for flat tiles."""
    draw = data.draw
    window = draw(st.sampled_from((1, 3, 3, 5)))
    padding, stride = draw(st.integers(0, window // 2)), draw(st.sampled_from((1, 1, 2)))
    images, channels = draw(st.integers(1, 2)), draw(st.integers(1, 4))
    rows, columns = (draw(st.integers(window, 9)) for _ in range(2))
    kept = draw(st.sampled_from((1, 5, 16, 32, 33, 40)))
    sizes = (images, channels, rows, columns), (kept, channels, window, window)
    note(f"{sizes[0]} by {sizes[1]}, padding {padding}, stride {stride}")
    image, weights = (
        porism.asarray(small_numbers(dtypes.f32, math.prod(dims), seed).reshape(dims))
        for seed, dims in enumerate(sizes)
    )
    made = porism.conv2d(image, weights, padding=padding, stride=stride)
    check_tensor(made.relu() if draw(st.booleans()) else made, data, blocks=False)


CORES: Final = ((dtypes.f16, dtypes.f32), (dtypes.f16, dtypes.f16), (dtypes.i8, dtypes.i32))


def tensor_cores(data: st.DataObject) -> None:
    """Matrix products by tensor cores, of sizes that are multiples of theirs or padded to be."""
    of, to = data.draw(st.sampled_from(CORES))
    tiles = (16, 8, 32 if of is dtypes.i8 else 16)
    sizes = [tile * data.draw(st.integers(1, 2)) for tile in tiles]
    short = data.draw(st.lists(st.integers(0, 2), max_size=2, unique=True))
    names = ("r0", "r1", "r2")
    pads = [PadTo(names[k], tiles[k]) for k in short]
    for k in short:
        sizes[k] -= data.draw(st.integers(1, 5))
    m, n, terms = sizes
    kernel = matrix_product(m, n, terms, of, to)
    note(f"{m}×{terms} times {terms}×{n} of {of} to {to}")
    buffers = {
        0: np.zeros(m * n, to.numpy),
        1: small_numbers(of, m * terms, 1),
        2: small_numbers(of, terms * n, 2),
    }
    run_threads(kernel, buffers, {}, data, H200, [*pads, TC(*names)])


PROPERTIES = {
    "graphs": graphs,
    "programs": programs,
    "functions": functions,
    "convolutions": convolutions,
    "tensor cores": tensor_cores,
}

if __name__ == "__main__":
    search("compile", PROPERTIES, __doc__ or "")
