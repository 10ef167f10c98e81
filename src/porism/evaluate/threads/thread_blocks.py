"""Thread blocks: a kernel run by all threads of all blocks, with detection of data races.

Blocks and threads come from SPECIALs and parallel ranges:

- a SPECIAL whose name begins with `block` (`block0`, `block1`, …) or a RANGE of kind GLOBAL or
  THREAD is a block index: blocks are independent of each other;
- a SPECIAL whose name begins with `thread`, or a RANGE of kind LOCAL, WARP or GROUP, is an index of
  the threads of one block, which share local memory and wait for each other at a BARRIER.

A range of these kinds that a REDUCE closes, that is empty, or whose extent depends on other ranges
or on memory is a loop. A store outside of a launched range is run by the first thread of that range
only; one to local memory in every block, which has its own.

Threads of a block run one after the other from barrier to barrier, in order or in reverse. Accesses
of two threads to one element, one of them a write, without a barrier of their block in between, are
a data race.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from porism.base.dtypes import Space
from porism.base.errors import EvaluationError
from porism.evaluate.evaluator import Session
from porism.evaluate.faults import Fault, describe, failure, iteration_text
from porism.evaluate.graph_evaluator import GraphEvaluator
from porism.evaluate.threads.kernel_steps import Step
from porism.evaluate.threads.thread_machine import Program, ThreadMachine
from porism.evaluate.threads.tracked_memory import Memory
from porism.evaluate.threads.warp_matrix_product import multiply_fragments
from porism.evaluate.varying_value import Value, axis_order
from porism.ir import ops
from porism.ir.axis import BLOCK_AXES, BLOCK_INDEX, THREAD_AXES, THREAD_INDEX
from porism.ir.facts.effect_scopes import base_of, loaded_indices, scopes
from porism.ir.facts.semantics import Array
from porism.ir.fragments import is_warp_product
from porism.ir.node import UOp
from porism.ir.traversal import toposort

Extents = dict[UOp, int]
"""SPECIALs and RANGEs, with their extents or their values."""


# -- races -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Access:
    """An access: by a thread of a block, after so many barriers (epoch), in a node."""

    thread: int
    block: int
    epoch: int
    node: UOp

    def precedes(self, other: _Access) -> bool:
        """Return whether this access is ordered before another: same thread, or a barrier."""
        same_block = self.block == other.block
        return self.thread == other.thread or (same_block and self.epoch < other.epoch)


@dataclass(slots=True)
class _Cell:
    """The last write of an element, and the reads since."""

    writer: _Access | None = None
    readers: dict[int, _Access] = field(default_factory=dict)


class Races:
    """Records the accesses to each element, and raises on a data race."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._global: dict[int, _Cell] = {}
        self._local: dict[int, _Cell] = {}

    def new_block(self) -> None:
        """Forget the accesses to local memory: each block has its own."""
        self._local = {}

    def touch(self, access: _Access, memory: Memory, addresses: Array, writing: bool) -> None:
        """Record an access; raise if it races with an earlier one."""
        cells = self._local if memory.space is Space.LOCAL else self._global
        origin, size = memory.origin, memory.data.itemsize
        for address in addresses.tolist():
            cell = cells.get(origin + address * size)
            if cell is None:
                cell = cells[origin + address * size] = _Cell()
            earlier = [cell.writer] if cell.writer is not None else []
            if writing:
                earlier += cell.readers.values()
            for other in earlier:
                if not other.precedes(access):
                    raise self._race(access, other, address, writing, other is cell.writer)
            if writing:
                cell.writer = access
                cell.readers = {}
            else:
                cell.readers[access.thread] = access

    def _race(
        self, access: _Access, other: _Access, address: int, writing: bool, wrote: bool
    ) -> EvaluationError:
        first = f"{self._names[other.thread]} {'writes' if wrote else 'reads'} it"
        second = f"{self._names[access.thread]} {'writes' if writing else 'reads'} it"
        return EvaluationError(
            f"a data race on element {address}",
            where=f"{describe(access.node)}\nand {describe(other.node)}",
            why=f"{first} and {second}, with no barrier of their block in between",
            fix="let a BARRIER come between the two, or give each thread its own element",
        )


# -- launch ----------------------------------------------------------------------------------------


def size_value(session: Session, node: UOp) -> int:
    """Return the value of an expression of constants and variables."""
    evaluator = GraphEvaluator(session, node)
    evaluator.run()
    return evaluator.scalar(node, node)


def _is_known(node: UOp) -> bool:
    """Return whether an extent is known before the kernel starts."""
    known = (ops.CONST, ops.VARIABLE, ops.BIND, ops.CAST)
    return all(n.op in known or n.op.elementwise for n in toposort(node))


def launched_indices(session: Session, nodes: Sequence[UOp]) -> tuple[Extents, Extents]:
    """Return the SPECIALs and RANGEs that are block indices, and thread indices, with extents."""
    blocks: Extents = {}
    threads: Extents = {}
    looped = {s for n in nodes if n.op in (ops.REDUCE, ops.BUFFERIZE) for s in n.src[1:]}
    for node in nodes:
        if node.op is ops.SPECIAL:
            _special(session, node, blocks, threads)
        elif node.op is ops.RANGE and node not in looped and _is_known(node.src[0]):
            kind = node.arg[1]
            if kind in BLOCK_AXES or kind in THREAD_AXES:
                size = size_value(session, node.src[0])
                if size > 0:
                    (blocks if kind in BLOCK_AXES else threads)[node] = size
    return blocks, threads


def _special(session: Session, node: UOp, blocks: Extents, threads: Extents) -> None:
    """Add a SPECIAL to the block or the thread indices."""
    if not _is_known(node.src[0]) or not node.arg.startswith((BLOCK_INDEX, THREAD_INDEX)):
        raise failure(
            Fault(
                node,
                f"{describe(node)} is no index of blocks or threads",
                f"their names begin with {BLOCK_INDEX!r} or {THREAD_INDEX!r}, "
                "and their sizes are known when the kernel starts",
                "name it block0 or thread0, and so on",
            )
        )
    size = size_value(session, node.src[0])
    indices = blocks if node.arg.startswith(BLOCK_INDEX) else threads
    for other, known in indices.items():
        if other.op is ops.SPECIAL and other.arg == node.arg and known != size:
            raise failure(
                Fault(
                    node,
                    f"{node.arg} has {known} values and {size}",
                    "an index of the machine has one size in a kernel",
                    "use another name",
                )
            )
    indices[node] = size


def _index_combinations(extents: Extents) -> list[Extents]:
    """Return every combination of the indices; SPECIALs of one name have one value."""
    names = {n: n.arg if n.op is ops.SPECIAL else n for n in sorted(extents, key=axis_order)}
    sizes = {name: extents[node] for node, name in names.items()}
    combinations = itertools.product(*(range(size) for size in sizes.values()))
    return [
        {node: dict(zip(sizes, values, strict=True))[name] for node, name in names.items()}
        for values in combinations
    ]


def launch(
    session: Session,
    nodes: Sequence[UOp],
    order: Callable[[Extents], list[Step]],
    *,
    roots: Sequence[UOp] = (),
    reverse: bool = False,
    pinned: Mapping[UOp, int] | None = None,
) -> list[Value]:
    """Run a kernel in all threads, and return the values of `roots` if there is one thread.

    Of ranges that are `pinned` only one iteration is run, whatever their kind.
    """
    fixed = pinned or {}
    blocks, threads = (
        {node: size for node, size in extents.items() if node not in fixed}
        for extents in launched_indices(session, nodes)
    )
    outside_ranges = _ranges_outside_stores(nodes, blocks, threads)
    wanted = loaded_indices(nodes, roots)
    program = Program(order({**blocks, **threads, **fixed}), wanted, outside_ranges)
    block_indices, thread_indices = _index_combinations(blocks), _index_combinations(threads)
    count = len(block_indices) * len(thread_indices)
    names: list[str] = []
    races = Races(names) if count > 1 else None
    machine: ThreadMachine | None = None
    direction = -1 if reverse else 1
    for number, block in enumerate(block_indices[::direction]):
        shared: dict[UOp, Memory] = {}
        running: list[_RunningThread] = []
        if races is not None:
            races.new_block()
        for thread in thread_indices[::direction]:
            indices = {**block, **thread, **fixed}
            names.append(iteration_text(tuple(indices), tuple(indices.values())))
            access = _ThreadAccesses(len(names) - 1, number, races)
            touch = access.touch if races else None
            machine = ThreadMachine(session, program, indices, shared, touch)
            running.append(_RunningThread(machine, access))
        _run_block(running)
    if not roots or machine is None:
        return []
    if count > 1:
        raise failure(
            Fault(
                roots[0],
                "a value is asked of a kernel that several threads run",
                "each thread has its own value",
                "store the value",
            )
        )
    return _valid_values(session, machine, roots)


def _ranges_outside_stores(
    nodes: Sequence[UOp], blocks: Extents, threads: Extents
) -> dict[UOp, tuple[UOp, ...]]:
    """Return the launched ranges that are not around each STORE; no blocks, if it is local."""
    scope = scopes(nodes)
    outside_ranges: dict[UOp, tuple[UOp, ...]] = {}
    for store in nodes:
        if store.op is ops.STORE:
            launched = threads if _is_local(store) else {**blocks, **threads}
            ranges = [r for r in launched if r.op is ops.RANGE]
            outside_ranges[store] = tuple(r for r in ranges if r not in scope[store])
    return outside_ranges


def _valid_values(session: Session, machine: ThreadMachine, roots: Sequence[UOp]) -> list[Value]:
    """Return the values that a thread has computed for `roots`; raise if one is INVALID."""
    values = [machine.value(root) for root in roots]
    for root, value in zip(roots, values, strict=True):
        session.faults.demand_valid(value, root, "the result is INVALID")
    return values


def _is_local(store: UOp) -> bool:
    """Return whether a store writes local memory, of which each block has its own."""
    return base_of(store.src[0]).op is ops.DEFINE_LOCAL


class _ThreadAccesses:
    """The accesses of one thread, with its epoch."""

    def __init__(self, thread: int, block: int, races: Races | None) -> None:
        self.thread = thread
        self.block = block
        self.epoch = 0
        self.races = races

    def touch(self, node: UOp, memory: Memory, addresses: Array, writing: bool) -> None:
        """Record an access of this thread."""
        assert self.races is not None
        access = _Access(self.thread, self.block, self.epoch, node)
        self.races.touch(access, memory, addresses, writing)


class _RunningThread:
    """A running thread of a block, and the barrier that it has reached."""

    def __init__(self, machine: ThreadMachine, accesses: _ThreadAccesses) -> None:
        self.machine = machine
        self.accesses = accesses
        self.steps = machine.run()
        self.barrier: UOp | None = None

    def go(self) -> None:
        """Run to the next BARRIER or WMMA of a warp, or to the end."""
        self.barrier = next(self.steps, None)
        if self.barrier is None or self.barrier.op is ops.BARRIER:
            self.accesses.epoch += 1


def _run_block(running: list[_RunningThread]) -> None:
    """Run the threads of a block from barrier to barrier."""
    while running:
        for runner in running:
            runner.go()
        first = running[0].barrier
        for runner in running[1:]:
            if runner.barrier is not first:
                missed = first if runner.barrier is None else runner.barrier
                assert missed is not None
                reached, other = running[0], runner
                if first is None:
                    reached, other = other, reached
                raise failure(
                    Fault(
                        missed,
                        "a barrier that not every thread of the block reaches",
                        f"{reached.machine.thread()} waits there, and {other.machine.thread()} "
                        "is elsewhere",
                        "move the BARRIER out of the IF or loop that differs between threads",
                    )
                )
        if first is None:
            return
        if is_warp_product(first):
            _run_wmma(first, running)


def _run_wmma(node: UOp, running: list[_RunningThread]) -> None:
    """Execute a WMMA in all warps of a block."""
    machines = [runner.machine for runner in running]
    sources = [machine.values(node) for machine in machines]
    fragments = multiply_fragments(node, [machine.at for machine in machines], sources)
    for machine, fragment in zip(machines, fragments, strict=True):
        machine.env[node] = fragment
