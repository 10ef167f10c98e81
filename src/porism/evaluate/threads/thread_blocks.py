"""Threads: a kernel run by all threads of all its blocks, and the races between them.

What makes threads, and how they are named:

- a SPECIAL whose name begins with `block` (`block0`, `block1`, …) or a RANGE of kind GLOBAL or
  THREAD is an index of blocks: they are independent of each other;
- a SPECIAL whose name begins with `thread`, or a RANGE of kind LOCAL, WARP or GROUP, is an index of
  the threads of one block, which share local memory and wait for each other at a BARRIER.

A range of these kinds that a REDUCE closes, that is empty, or whose end depends on other ranges or
on memory is a loop. A store that is not inside a launched range is done by its first thread only;
one to local memory in every block, which has its own.

Threads of a block run one after the other from barrier to barrier, in order or in reverse. Two that
touch one element, one of them writing, with no barrier of their block in between, are a race.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from porism.base.dtypes import Space
from porism.base.errors import EvaluationError
from porism.evaluate.evaluator import Session
from porism.evaluate.faults import Fault, describe, failure, position
from porism.evaluate.graph_evaluator import Arrays
from porism.evaluate.threads.kernel_steps import Step
from porism.evaluate.threads.thread_machine import Machine, Program
from porism.evaluate.threads.tracked_memory import Memory
from porism.evaluate.threads.warps import products
from porism.evaluate.varying_value import Value, axis_order
from porism.ir import ops
from porism.ir.axis import BLOCK_AXES, BLOCK_INDEX, THREAD_AXES, THREAD_INDEX
from porism.ir.facts.effect_scopes import base_of, loaded_indices, scopes
from porism.ir.facts.semantics import Array
from porism.ir.fragments import is_shared
from porism.ir.node import UOp
from porism.ir.traversal import toposort

"""What the names of SPECIAL indices begin with."""

Counters = dict[UOp, int]


# -- races -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Visit:
    """One access: by which thread of which block, after how many barriers, in which node."""

    thread: int
    block: int
    epoch: int
    node: UOp

    def precedes(self, other: _Visit) -> bool:
        same_block = self.block == other.block
        return self.thread == other.thread or (same_block and self.epoch < other.epoch)


@dataclass(slots=True)
class _Cell:
    """Who touched an element last."""

    writer: _Visit | None = None
    readers: dict[int, _Visit] = field(default_factory=dict)


class Races:
    """Remembers who touched what, and refuses accesses without an order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._global: dict[int, _Cell] = {}
        self._local: dict[int, _Cell] = {}

    def new_block(self) -> None:
        self._local = {}

    def touch(self, visit: _Visit, memory: Memory, addresses: Array, writing: bool) -> None:
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
                if not other.precedes(visit):
                    raise self._race(visit, other, address, writing, other is cell.writer)
            if writing:
                cell.writer = visit
                cell.readers = {}
            else:
                cell.readers[visit.thread] = visit

    def _race(
        self, visit: _Visit, other: _Visit, address: int, writing: bool, wrote: bool
    ) -> EvaluationError:
        first = f"{self._names[other.thread]} {'writes' if wrote else 'reads'} it"
        second = f"{self._names[visit.thread]} {'writes' if writing else 'reads'} it"
        return EvaluationError(
            f"a data race on element {address}",
            where=f"{describe(visit.node)}\nand {describe(other.node)}",
            why=f"{first} and {second}, with no barrier of their block in between",
            fix="let a BARRIER come between the two, or give each thread its own element",
        )


# -- launch ----------------------------------------------------------------------------------------


def number_of(session: Session, node: UOp) -> int:
    """The value of an expression of constants and variables."""
    evaluator = Arrays(session, node)
    evaluator.run()
    return evaluator.scalar(node, node)


def _is_plain(node: UOp) -> bool:
    """Whether a size is known before the kernel starts."""
    known = (ops.CONST, ops.VARIABLE, ops.BIND, ops.CAST)
    return all(n.op in known or n.op.elementwise for n in toposort(node))


def counters(session: Session, nodes: Sequence[UOp]) -> tuple[Counters, Counters]:
    """The SPECIALs and RANGEs that count blocks, and those that count threads, with their sizes."""
    blocks: Counters = {}
    threads: Counters = {}
    looped = {s for n in nodes if n.op in (ops.REDUCE, ops.BUFFERIZE) for s in n.src[1:]}
    for node in nodes:
        if node.op is ops.SPECIAL:
            _special(session, node, blocks, threads)
        elif node.op is ops.RANGE and node not in looped and _is_plain(node.src[0]):
            kind = node.arg[1]
            if kind in BLOCK_AXES or kind in THREAD_AXES:
                size = number_of(session, node.src[0])
                if size > 0:
                    (blocks if kind in BLOCK_AXES else threads)[node] = size
    return blocks, threads


def _special(session: Session, node: UOp, blocks: Counters, threads: Counters) -> None:
    if not _is_plain(node.src[0]) or not node.arg.startswith((BLOCK_INDEX, THREAD_INDEX)):
        raise failure(
            Fault(
                node,
                f"{describe(node)} is no index of blocks or threads",
                f"their names begin with {BLOCK_INDEX!r} or {THREAD_INDEX!r}, "
                "and their sizes are known when the kernel starts",
                "name it block0 or thread0, and so on",
            )
        )
    size = number_of(session, node.src[0])
    found = blocks if node.arg.startswith(BLOCK_INDEX) else threads
    for other, known in found.items():
        if other.op is ops.SPECIAL and other.arg == node.arg and known != size:
            raise failure(
                Fault(
                    node,
                    f"{node.arg} has {known} values and {size}",
                    "an index of the machine has one size in a kernel",
                    "use another name",
                )
            )
    found[node] = size


def _positions(found: Counters) -> list[Counters]:
    """Every combination of the counters' values; SPECIALs of one name have one value."""
    names = {n: n.arg if n.op is ops.SPECIAL else n for n in sorted(found, key=axis_order)}
    sizes = {name: found[node] for node, name in names.items()}
    places = itertools.product(*(range(size) for size in sizes.values()))
    return [
        {node: dict(zip(sizes, place, strict=True))[name] for node, name in names.items()}
        for place in places
    ]


def launch(
    session: Session,
    nodes: Sequence[UOp],
    order: Callable[[Counters], list[Step]],
    *,
    roots: Sequence[UOp] = (),
    reverse: bool = False,
    pinned: Mapping[UOp, int] | None = None,
) -> list[Value]:
    """Run a kernel in all its threads; the values of `roots`, which only one thread can have.

    Of ranges that are `pinned` only one iteration is done, whatever their kind is.
    """
    fixed = pinned or {}
    blocks, threads = (
        {node: size for node, size in found.items() if node not in fixed}
        for found in counters(session, nodes)
    )
    everything = {**blocks, **threads, **fixed}
    known = scopes(nodes)
    launched = [n for n in everything if n.op is ops.RANGE and n not in fixed]
    idle = {
        n: tuple(r for r in launched if r not in known[n] and not (_is_local(n) and r in blocks))
        for n in nodes
        if n.op is ops.STORE
    }
    wanted = loaded_indices(nodes, roots)
    program = Program(order(everything), wanted, idle)
    block_places, thread_places = _positions(blocks), _positions(threads)
    count = len(block_places) * len(thread_places)
    names: list[str] = []
    races = Races(names) if count > 1 else None
    machine: Machine | None = None
    for number, block in enumerate(reversed(block_places) if reverse else block_places):
        shared: dict[UOp, Memory] = {}
        members: list[_Member] = []
        if races is not None:
            races.new_block()
        for thread in reversed(thread_places) if reverse else thread_places:
            where = {**block, **thread, **fixed}
            names.append(position(tuple(where), tuple(where.values())))
            visit = _Visits(len(names) - 1, number, races)
            machine = Machine(session, program, where, shared, visit.touch if races else None)
            members.append(_Member(machine, visit))
        _run_block(members)
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
    values = [machine.value(root) for root in roots]
    for root, value in zip(roots, values, strict=True):
        session.faults.demand_valid(value, root, "the result is INVALID")
    return values


def _is_local(store: UOp) -> bool:
    """Whether it is local memory that is written: each block has its own."""
    return base_of(store.src[0]).op is ops.DEFINE_LOCAL


class _Visits:
    """What a thread touches, with its place and time."""

    def __init__(self, thread: int, block: int, races: Races | None) -> None:
        self.thread = thread
        self.block = block
        self.epoch = 0
        self.races = races

    def touch(self, node: UOp, memory: Memory, addresses: Array, writing: bool) -> None:
        assert self.races is not None
        visit = _Visit(self.thread, self.block, self.epoch, node)
        self.races.touch(visit, memory, addresses, writing)


class _Member:
    """A thread of a block and where it stands."""

    def __init__(self, machine: Machine, visits: _Visits) -> None:
        self.machine = machine
        self.visits = visits
        self.steps = machine.run()
        self.barrier: UOp | None = None

    def go(self) -> None:
        """Run to the next barrier or product of a warp, or to the end."""
        self.barrier = next(self.steps, None)
        if self.barrier is None or self.barrier.op is ops.BARRIER:
            self.visits.epoch += 1


def _run_block(members: list[_Member]) -> None:
    """Run the threads of a block from barrier to barrier."""
    while members:
        for member in members:
            member.go()
        first = members[0].barrier
        for member in members[1:]:
            if member.barrier is not first:
                missed = first if member.barrier is None else member.barrier
                assert missed is not None
                reached, other = members[0], member
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
        if is_shared(first):
            _multiply(first, members)


def _multiply(node: UOp, members: list[_Member]) -> None:
    """The product of a tensor core, in all warps of a block."""
    machines = [member.machine for member in members]
    sources = [machine.values(node) for machine in machines]
    shares = products(node, [machine.at for machine in machines], sources)
    for machine, share in zip(machines, shares, strict=True):
        machine.env[node] = share
