"""Traced: what a trace has found, made into a replay."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from porism.base.settings import settings
from porism.engine.run import array_allocator
from porism.engine.run.backend_runners import prepared, runner
from porism.engine.run.buffer_storage import (
    array_of,
    held,
    is_placeholder,
    new_placeholder,
    realized,
)
from porism.engine.run.realize import bound, request, schedule_of
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.pipeline import PRECOMPUTE
from porism.schedule.constants.constant_subgraphs import bytes_of
from porism.schedule.schedule import Schedule
from porism.tensor.jit.captured_constants import Lasting, Once, is_own
from porism.tensor.jit.captured_tensors import Place
from porism.tensor.jit.nested_values import rebuilt, unbound
from porism.tensor.jit.replay import Replay, Size, Slot, Value
from porism.tensor.jit.tracing import Outside, Supply, no_value
from porism.tensor.shapes import refuse
from porism.tensor.tensor import Tensor


class Outputs:
    """The nodes that a function computes, each wanted once or more."""

    def __init__(self) -> None:
        self._wanted: list[UOp] = []
        self.sizes: list[UOp] = []
        """Symbolic sizes among the results."""

    def add(self, node: UOp) -> int:
        """A value that is wanted; each has its own memory."""
        self._wanted.append(node)
        return len(self._wanted) - 1

    def variables(self) -> dict[str, int]:
        """The variables in the shapes of the results, with their values."""
        found: dict[str, int] = {}
        dims = [dim for node in self._wanted for dim in shape(node)]
        for node in toposort(*dims, *self.sizes):
            if node.op is ops.BIND:
                bound(node, found)
        return found

    def computed(self) -> list[UOp]:
        """The nodes that have to be computed, without doubles."""
        return [n for n in dict.fromkeys(self._wanted) if realized(n) is None]

    def inputs(self) -> list[UOp]:
        """The BUFFERs that are wanted as they are."""
        found = (realized(node) for node in self._wanted)
        return [buffer for buffer in found if buffer is not None]

    def settle(self, inputs: Mapping[UOp, int]) -> list[Value]:
        """Where each value comes from, once the inputs have numbers."""
        places = {node: k for k, node in enumerate(self.computed())}
        given: set[UOp] = set()
        values = []
        for node in self._wanted:
            dims = shape(node)
            symbolic = any(dim.op is not ops.CONST for dim in dims)
            if node in places:
                values.append(Value(node.dtype, dims, symbolic, places[node], copied=node in given))
                given.add(node)
            else:
                buffer = realized(node)
                assert buffer is not None
                place = inputs[buffer]
                values.append(Value(node.dtype, dims, symbolic, None, place, copied=True))
        return values


def replay(
    wrappers: Sequence[Tensor],
    placeholders: Sequence[UOp],
    outside: Sequence[Outside],
    supplies: Sequence[Supply],
    result: Any,
    places: Sequence[tuple[Place, Tensor]],
    lock: Any,
) -> Replay:
    """What a trace has found, as a program.

    `wrappers` are the arguments inside of the function, which began as `placeholders`; equal ones
    stand for one tensor.
    """
    outputs = Outputs()
    structure = rebuilt(result, lambda leaf: _slot(leaf, outputs))
    assigned: list[tuple[int | Tensor, int]] = []
    first = {id(tensor): k for k, tensor in reversed(list(enumerate(wrappers)))}
    for k, (tensor, before) in enumerate(zip(wrappers, placeholders, strict=True)):
        if tensor._node is not before and first[id(tensor)] == k:
            assigned.append((k, outputs.add(tensor._node)))
    for one in outside:
        if one.now is not one.before:
            assigned.append((one.tensor, outputs.add(one.now)))
    constants = _constants(outside, outputs.computed())
    computed, once = PRECOMPUTE(
        outputs.computed(),
        constants,
        settings.constants_megabytes << 20,
        lambda node: new_placeholder(node.dtype, shape(node)),
    )
    wanted = request(computed) if computed else None
    buffers = dict.fromkeys((*(wanted.buffers if wanted else ()), *outputs.inputs()))
    numbers = {buffer: k for k, buffer in enumerate(buffers)}
    own = {placeholder: k for k, placeholder in enumerate(placeholders)}
    theirs = {one.before: one.tensor for one in outside}
    schedule = schedule_of(wanted.graph) if wanted else None
    values = outputs.settle(numbers)
    lasting = {one.before: k for k, one in enumerate(filter(_lasts, outside))}
    given = {value.input for value in values if value.output is None}
    told = [(one.tensor, (one.before.dtype, unbound(one.before, {}))) for one in outside]
    found = Replay(
        schedule=schedule,
        arguments=[(n, own[b]) for b, n in numbers.items() if b in own],
        captured=[
            (n, theirs[b])
            for b, n in numbers.items()
            if b in theirs and (b not in lasting or n in given)
        ],
        lasting=_lasting(list(filter(_lasts, outside)), once, numbers, constants, schedule),
        supplies=[(numbers.get(s.placeholder, -1), s.take, s.amount) for s in supplies],
        variables={**outputs.variables(), **(wanted.variables if wanted else {})},
        values=values,
        result=structure,
        assigned=assigned,
        outside=told,
        changing=[row for row, one in zip(told, outside, strict=True) if not _lasts(one)],
        named=[(place, one) for place, one in places if not isinstance(place[0], types.CellType)],
        cells=[(place[0], one) for place, one in places if isinstance(place[0], types.CellType)],
        lock=lock,
    )
    supplied = {supply.placeholder for supply in supplies}
    known = {*own, *theirs, *supplied, *once.values()}
    if any(is_placeholder(b) and b not in known for b in numbers):
        raise no_value()  # kept from inside of another function
    return found


# -- what lasts from call to call ------------------------------------------------------------------


def _lasts(one: Outside) -> bool:
    """Whether a tensor from outside is not assigned to, and has one size for all calls."""
    return one.now is one.before and all(dim.op is ops.CONST for dim in shape(one.before))


def _constants(outside: Sequence[Outside], roots: Sequence[UOp]) -> set[UOp]:
    """The BUFFERs that only change when somebody assigns to a tensor."""
    theirs = {one.before for one in outside if _lasts(one) and is_own(one.tensor)}
    inside = [n for n in toposort(*roots) if n.op is ops.BUFFER and not is_placeholder(n)]
    return theirs | {buffer for buffer in inside if array_allocator.is_own(array_of(buffer))}


def _lasting(
    tensors: Sequence[Outside],
    once: Mapping[UOp, UOp],
    numbers: Mapping[UOp, int],
    constants: set[UOp],
    schedule: Schedule | None,
) -> Lasting:
    which = {one.before: k for k, one in enumerate(tensors)}
    parts = _once(once, numbers, which) if once else None
    fixed = constants | set(once.values())
    room = (settings.constants_megabytes << 20) - sum(parts.sizes if parts else ())
    packable = []
    for buffer in sorted((b for b in numbers if b in fixed), key=bytes_of):
        room -= bytes_of(buffer)
        if room >= 0:
            packable.append(numbers[buffer])
    program = None if schedule is None else prepared(schedule, frozenset(packable))
    packed = frozenset() if program is None else program.packed
    derived = {k for k in (parts.sources if parts else ()) if isinstance(k, int)}
    derived.update(k for b, k in which.items() if numbers.get(b) in packed)
    return Lasting(
        tensors=[one.tensor for one in tensors],
        count=len(numbers),
        places=[(n, which[b]) for b, n in numbers.items() if b in which],
        constants=[(n, held(b)) for b, n in numbers.items() if not is_placeholder(b)],
        once=parts,
        program=program,
        derived=frozenset(derived),
    )


def _once(once: Mapping[UOp, UOp], numbers: Mapping[UOp, int], which: Mapping[UOp, int]) -> Once:
    """What is computed of constants alone, as a program."""
    wanted = request(list(once))
    schedule = schedule_of(wanted.graph)
    with settings.override(beam=0):  # what runs once is not worth a search
        run = runner(schedule)
    return Once(
        schedule,
        run,
        [which[b] if b in which else held(b) for b in wanted.buffers],
        [numbers[placeholder] for placeholder in once.values()],
        [bytes_of(node) for node in once],
    )


def _slot(leaf: Any, outputs: Outputs) -> Any:
    if isinstance(leaf, Tensor):
        return Slot(outputs.add(leaf.node))
    if isinstance(leaf, UOp):
        outputs.sizes.append(leaf)
        return Size(leaf)
    if not _is_result(leaf):
        raise refuse(
            f"a jitted function gives a {type(leaf).__name__}",
            "only what is computed with tensors is computed again at the next call",
            "give tensors, numbers and text, in dicts, lists, tuples or dataclasses",
        )
    return leaf


def _is_result(leaf: Any) -> bool:
    """Whether a value can be given again at every call."""
    generators = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
    if isinstance(leaf, (np.ndarray, set, bytearray, *generators)):
        return False
    return getattr(type(leaf), "__hash__", None) is not None
