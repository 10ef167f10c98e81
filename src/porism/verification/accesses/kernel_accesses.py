"""Kernel accesses: where a kernel reads and writes, lane by lane, and under which conditions.

An access is executed where its index is valid and its gate is open. The value that it reads has an
effect only where a WHERE selects it: these are its *use conditions*. A mask may move between the
two, so a stage must keep both together: `WHERE(c, x[i], 0)` and `x[WHERE(c, i, INVALID)]` read the
same elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import Kind, index
from porism.ir import ops
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import substitute, toposort
from porism.rules.addresses.strides import stride
from porism.verification.accesses.index_evaluation import (
    SYMBOLS,
    Buffer,
    Evaluation,
    Value,
    buffer_of,
)

MAX_USE_CONDITIONS: Final = 6
"""Most alternative conditions that are tracked; a value with more is taken to be always used."""

UseCondition = frozenset[tuple[UOp, bool]]
"""A conjunction under which a value is used: conditions, each with whether it must hold."""

UseConditions = frozenset[UseCondition]
"""A disjunction of such conjunctions."""

ALWAYS: Final[UseConditions] = frozenset({frozenset()})


@dataclass(frozen=True, slots=True)
class Access:
    """One lane of an INDEX."""

    node: UOp
    buffer: Buffer
    size: int
    """The number of elements of the buffer."""
    index: UOp
    """The index expression."""
    lane: int
    """The lane of the index; 0 if all lanes share one index."""
    lane_offset: int
    """The distance of the element of this lane from the index, in elements."""
    gates: tuple[tuple[UOp, int], ...]
    store: bool
    use_conditions: UseConditions = ALWAYS
    local_copy: LocalCopy | None = None
    """For a read through a local buffer: the copy that filled the buffer."""

    @property
    def text(self) -> str:
        """The access as text, for messages."""
        name, number = self.buffer
        shown = f"p{number}" if name == ops.PARAM.name else f"local{number[0]}"
        conditions = [show(gate, limit=120) for gate, _ in self.gates]
        where = f" if {' & '.join(conditions)}" if conditions else ""
        lane = self.lane or self.lane_offset
        by = f" through {self.local_copy.read.text}" if self.local_copy else ""
        return f"{shown}[{show(self.index, limit=200)}{where}]{f' in lane {lane}' * bool(lane)}{by}"

    @property
    def number(self) -> tuple[UOp, int]:
        """The INDEX, and which of its lanes this is."""
        return self.node, self.lane + self.lane_offset

    def ranges(self) -> set[UOp]:
        """Return the loops that its index and gates depend on."""
        if self.local_copy is not None:
            own = {r for root in [self.index, *(g for g, _ in self.gates)] for r in root.ranges}
            return (own - self.local_copy.substitution.keys()) | self.local_copy.read.ranges()
        return {r for root in [self.index, *(g for g, _ in self.gates)] for r in root.ranges}

    def roots(self) -> list[UOp]:
        """Return its index, gates and use conditions; of a copy, without the loops of the copy."""
        conditions = [
            condition for conjunction in self.use_conditions for condition, _ in conjunction
        ]
        own = [self.index, *(gate for gate, _ in self.gates)]
        if self.local_copy is not None:
            loops = self.local_copy.substitution.keys()
            leaves = [n for n in toposort(*own, self.local_copy.into) if n.op in SYMBOLS]
            return [
                *(n for n in leaves if n not in loops),
                *self.local_copy.read.roots(),
                *conditions,
            ]
        return [*own, *conditions]

    def address(self, evaluation: Evaluation) -> Value:
        """Return the element that is accessed, by its offset in the buffer."""
        here = evaluation if self.local_copy is None else self.local_copy.inside(evaluation)
        return here.add_constant(here.value(self.index, self.lane), self.lane_offset)

    def is_executed(self, evaluation: Evaluation) -> Value:
        """Return whether memory is accessed; None for always."""
        here = evaluation if self.local_copy is None else self.local_copy.inside(evaluation)
        gates = [here.value(gate, lane) for gate, lane in self.gates]
        own = here.conjunction(here.valid(self.index, self.lane), *gates)
        return (
            own
            if self.local_copy is None
            else evaluation.conjunction(own, self.local_copy.is_executed(evaluation))
        )

    def has_effect(self, evaluation: Evaluation) -> Value:
        """Return whether the value read or written has an effect; None for always."""
        if self.use_conditions == ALWAYS:
            return self.is_executed(evaluation)
        alternatives = []
        for conjunction in self.use_conditions:
            parts = [
                evaluation.value(c)
                if holds
                else evaluation.domain.apply(ops.NOT, c.dtype, evaluation.value(c))
                for c, holds in sorted(conjunction, key=lambda part: part[0].key)
            ]
            alternatives.append(evaluation.conjunction(*parts))
        return evaluation.conjunction(
            self.is_executed(evaluation), evaluation.disjunction(*alternatives)
        )


@dataclass(frozen=True)
class LocalCopy:
    """A copy into a local buffer, and an access that reads it.

    The iteration of the copy is computed from the index that is read; that this iteration stores at
    that index is a part of whether the access is executed.
    """

    read: Access
    into: UOp
    """The index at which the copy is stored."""
    substitution: Mapping[UOp, UOp]
    """The loops of the copy, as functions of the index that is read."""

    def __hash__(self) -> int:
        return hash((self.read, self.into))

    def inside(self, evaluation: Evaluation) -> Evaluation:
        """Return the evaluation in the iteration of the copy."""
        return evaluation.with_substitution(self.substitution)

    def is_executed(self, evaluation: Evaluation) -> Value:
        """Return whether the copy stored the element that is read."""
        here, domain = self.inside(evaluation), evaluation.domain
        stored_there = domain.apply(
            ops.EQ, index, here.value(self.into), self.read.address(evaluation)
        )
        return evaluation.conjunction(
            here.valid(self.into), stored_there, self.read.is_executed(evaluation)
        )


def accesses(kernel: UOp, *, with_use_conditions: bool = False) -> list[Access]:
    """Return the accesses of a kernel in topological order; with use conditions on request."""
    order = toposort(kernel)
    stored_indices = {n.src[0] for n in order if n.op is ops.STORE}
    conditions = _use_conditions(order) if with_use_conditions else {}
    lanes = []
    for node in order:
        if node.op is not ops.INDEX or node.src[0].op is ops.INDEX or len(node.src) < 2:
            continue
        buffer = buffer_of(node)
        if buffer is not None and _has_one_index(node):
            lanes += _lanes(node, buffer, node in stored_indices, conditions.get(node, ALWAYS))
    return [*lanes, *_reads_through_copies(lanes, order)] if with_use_conditions else lanes


def _has_one_index(node: UOp) -> bool:
    """Return whether an INDEX has one index beside its gates."""
    return len([s for s in node.src[1:] if s.dtype.element.kind is not Kind.BOOL]) == 1


def _lanes(node: UOp, buffer: Buffer, store: bool, use_conditions: UseConditions) -> list[Access]:
    """Return the accesses of an INDEX, one for each lane."""
    index_node, *gates = node.src[1:]
    count = _count(node)
    size = base_of(node).dtype.size
    return [
        Access(
            node, buffer, size, index_node,
            lane if index_node.dtype.count > 1 else 0,
            lane if index_node.dtype.count == 1 else 0,
            tuple((gate, lane if gate.dtype.count > 1 else 0) for gate in gates),
            store, ALWAYS if store else use_conditions,
        )
        for lane in range(count)
    ]  # fmt: skip


# -- copies ----------------------------------------------------------------------------------------


def _reads_through_copies(lanes: Sequence[Access], order: Sequence[UOp]) -> Iterator[Access]:
    """Yield the reads through local buffers that one store fills from a parameter."""
    stores: dict[UOp, list[UOp]] = {}
    for node in order:
        if node.op is ops.STORE:
            stores.setdefault(base_of(node.src[0]), []).append(node)
    for read in lanes:
        copies = stores.get(base_of(read.node), [])
        if not read.store and read.buffer[0] == ops.DEFINE_LOCAL.name and len(copies) == 1:
            access = _read_through_copy(read, copies[0])
            if access is not None:
                yield access


def _read_through_copy(read: Access, copy: UOp) -> Access | None:
    """Return the access of a parameter that a store copied; None if it is no such copy."""
    address, value = copy.src
    element, masks = value, []
    if value.op is ops.WHERE and value.src[2].op is ops.CONST:
        element, masks = value.src[1], [value.src[0]]
    is_element = element.op is ops.INDEX and element.dtype.kind is not Kind.POINTER
    if not is_element or base_of(element).op is not ops.PARAM or len(address.src) != 2:
        return None
    around = set(read.node.src[0].ranges)
    loops = [r for r in toposort(address.src[1], element) if r.op is ops.RANGE and r not in around]
    substitution = invert_linear_index(address.src[1], loops, read.index)
    buffer = buffer_of(element)
    if substitution is None or buffer is None or not _has_one_index(element):
        return None
    if not _is_injective(address.src[1], loops):
        return None
    local_copy = LocalCopy(read, address.src[1], substitution)
    index_node, *gates = element.src[1:]
    return Access(
        element, buffer, base_of(element).dtype.size, index_node, 0, 0,
        tuple((gate, 0) for gate in (*gates, *masks)), False, read.use_conditions, local_copy,
    )  # fmt: skip


def _is_injective(total: UOp, loops: Sequence[UOp]) -> bool:
    """Return whether no iteration overwrites the element of another; masks are trusted."""
    if total.op is ops.WHERE and total.src[2].op is ops.INVALID:
        return True
    reach = 0
    for step, last in sorted((stride(total, r) or 0, int(r.vmax)) for r in loops):
        if last and step <= reach:
            return False
        reach += step * last
    return True


def invert_linear_index(total: UOp, loops: Sequence[UOp], at: UOp) -> dict[UOp, UOp] | None:
    """Return the iteration in which a linear index has the value `at`; None if not invertible."""
    if at.op is ops.WHERE and at.src[2].op is ops.INVALID:
        at = at.src[1]
    if total.op is ops.WHERE and total.src[2].op is ops.INVALID:
        total = total.src[1]
    steps = {r: stride(total, r) for r in loops}
    rest = substitute(total, {r: UOp.const(r.dtype, 0) for r in loops}, exactly=True)
    number = UOp(ops.SUB, None, (at, rest))
    iteration: dict[UOp, UOp] = {}
    if any(not isinstance(step, int) or step < 1 for step in steps.values()):
        return None
    for r, step in sorted(steps.items(), key=lambda row: -(row[1] or 0)):
        size = UOp.const(index, int(step or 0))
        iteration[r] = UOp(ops.IDIV, None, (number, size))
        number = UOp(ops.MOD, None, (number, size))
    return iteration


# -- lanes -----------------------------------------------------------------------------------------


def unused_lanes(kernel: UOp) -> set[tuple[UOp, int]]:
    """Return the lanes of vector loads that nothing uses.

    A strided access may load all elements in between: these must be in bounds, but they are no
    accesses of the program.
    """
    order = toposort(kernel)
    if not any(n.op is ops.GEP and n.src[0].dtype.count > 1 for n in order):
        return set()
    used: dict[UOp, set[int]] = {}
    for node in reversed(order):
        for s, lanes in _source_lanes(node, used.get(node, set())):
            used.setdefault(s, set()).update(lanes)
    loads = (n for n in order if n.op is ops.INDEX and _count(n) > 1)
    return {(n, k) for n in loads for k in range(_count(n)) if k not in used[n]}


def _source_lanes(node: UOp, used: set[int]) -> Iterator[tuple[UOp, Iterable[int]]]:
    """Yield the sources of a node, each with the lanes that the used lanes of the node need."""
    before = 0
    for s in node.src:
        count = _count(s)
        if node.op is ops.GEP:
            yield s, [node.arg[k] for k in used]
        elif node.op is ops.CAT:
            yield s, [k - before for k in used if before <= k < before + count]
            before += count
        elif _is_lanewise(node) and count == _count(node):
            yield s, used
        else:
            yield s, range(count)


def _is_lanewise(node: UOp) -> bool:
    return node.op.elementwise or node.op in (ops.LOAD, ops.CAST, ops.BITCAST)


def _count(node: UOp) -> int:
    return 1 if node.dtype.kind is Kind.POINTER else node.dtype.count


# -- use conditions --------------------------------------------------------------------------------


def _use_conditions(order: Sequence[UOp]) -> dict[UOp, UseConditions]:
    """Return the conditions under which each node is used."""
    pure = _loop_expressions(order)
    conditions: dict[UOp, UseConditions] = {}
    for node in reversed(order):
        own = conditions.get(node, ALWAYS)
        for operand, s in enumerate(node.src):
            condition = own
            if node.op is ops.WHERE and operand and node.src[0] in pure:
                condition = _add_condition(own, node.src[0], operand == 1)
            elif node.op is ops.STORE:
                condition = _store_condition(node, pure) if operand else ALWAYS
            elif node.op in (ops.END, ops.SINK, ops.GROUP, ops.AFTER, ops.BARRIER):
                condition = own if node.op is ops.AFTER and not operand else ALWAYS
            condition = _restrict_to_loops(condition, s)
            conditions[s] = condition if s not in conditions else _union(conditions[s], condition)
    return conditions


def _restrict_to_loops(use_conditions: UseConditions, node: UOp) -> UseConditions:
    """Keep the conditions on loops of the node itself: it is computed once for all others."""
    if use_conditions == ALWAYS:
        return use_conditions
    own = set(node.ranges)
    kept = [
        frozenset(part for part in conjunction if set(part[0].ranges) <= own)
        for conjunction in use_conditions
    ]
    return ALWAYS if frozenset() in kept else frozenset(kept)


def _loop_expressions(order: Sequence[UOp]) -> set[UOp]:
    """Return the conditions and indices that depend on loops and sizes alone."""
    expressions: set[UOp] = set()
    for node in order:
        leaf = node.op in (ops.RANGE, ops.SPECIAL, ops.VARIABLE, ops.CONST)
        number = node.dtype.is_integer or node.dtype.kind is Kind.BOOL
        if number and (leaf or (node.op.elementwise and all(s in expressions for s in node.src))):
            expressions.add(node)
    return expressions


def _store_condition(store: UOp, pure: set[UOp]) -> UseConditions:
    """Return the conditions under which a store is executed."""
    condition = ALWAYS
    for s in store.src[0].src[1:]:
        if s.dtype.kind is Kind.BOOL and s in pure:
            condition = _add_condition(condition, s, True)
        elif s.op is ops.WHERE and s.src[2].op is ops.INVALID and s.src[0] in pure:
            condition = _add_condition(condition, s.src[0], True)
    return condition


def _add_condition(use_conditions: UseConditions, condition: UOp, holds: bool) -> UseConditions:
    parts = list(_clauses(condition, holds))
    return frozenset(conjunction.union(parts) for conjunction in use_conditions)


def _clauses(condition: UOp, holds: bool) -> Iterator[tuple[UOp, bool]]:
    """Yield the clauses of a conjunction, so that each depends on as few loops as possible."""
    if condition.op is (ops.AND if holds else ops.OR):
        for s in condition.src:
            yield from _clauses(s, holds)
    else:
        yield condition, holds


def _union(a: UseConditions, b: UseConditions) -> UseConditions:
    both = a | b
    if frozenset() in both or len(both) > MAX_USE_CONDITIONS:
        return ALWAYS
    return both
