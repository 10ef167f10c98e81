"""Reading: what an index or a condition is, in any world of values.

A *world* says what values are: linear sums, formulas of the solver, or arrays of many cases. A
reading goes through an expression once and asks the world for each op. Ranges may stand for
something else than themselves (`meaning`), and symbols have a copy number, so that one expression
can be read for two iterations at once.

An index of no element has the value 0 and is not `valid`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from porism.base.dtypes import DType, Kind, boolean, index
from porism.ir import ops
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.ops import Op

Value = Any
"""What a world makes of an expression."""

SYMBOLS: Final = frozenset({ops.RANGE, ops.SPECIAL, ops.VARIABLE})

Lane = tuple[UOp, int]
"""A node, and which of its lanes is meant."""


class Unknown(Exception):  # noqa: N818 - not an error: the question is answered another way
    """Something that a world has no value for."""


class World(Protocol):
    """What values are."""

    def constant(self, dtype: DType, value: bool | int | float) -> Value:
        """A number, or a truth."""

    def symbol(self, node: UOp, copy: int, low: int, end: Value) -> Value:
        """A number from `low` up to, and without, `end`."""

    def apply(self, op: Op, dtype: DType, *operands: Value) -> Value:
        """An op on operands of this type; of a choice, on values of this type."""

    def cast(self, value: Value, source: DType, target: DType) -> Value:
        """A value in another type."""

    def element(self, buffer: Buffer, dtype: DType, address: Value) -> Value:
        """What a buffer holds: unknown, but the same for the same address."""


Buffer = tuple[str, Any]
"""What a buffer is told by, before and after a stage."""


def buffer_of(access: UOp) -> Buffer | None:
    """The memory that an INDEX leads to; None for a value without an address."""
    base = base_of(access)
    if base.dtype.kind is not Kind.POINTER or base.dtype.size < 0:
        return None
    if base.op is ops.PARAM:
        return base.op.name, base.arg
    if base.op in (ops.DEFINE_LOCAL, ops.DEFINE_REG):  # of another size, it is other memory
        return base.op.name, (base.arg, base.dtype.size)
    return None


def scalar(dtype: DType) -> DType:
    return dtype.element if dtype.count > 1 else dtype


class Reading:
    """Expressions as values of a world."""

    def __init__(
        self, world: World, meaning: Mapping[UOp, UOp] | None = None, copy: int = 0,
        shared: frozenset[UOp] = frozenset(),
    ) -> None:  # fmt: skip
        self.world = world
        self.meaning = meaning or {}
        self.copy = copy
        self.shared = shared
        """Symbols that are the same in all copies."""
        self.kept: Mapping[UOp, UOp] | None = None
        self._values: dict[Lane, Value] = {}
        self._valid: dict[Lane, Value] = {}
        self._under: dict[int, Reading] = {}

    def under(self, meaning: Mapping[UOp, UOp]) -> Reading:
        """The same, where some ranges are said by expressions that are read here."""
        found = self._under.get(id(meaning))
        if found is None:
            found = Reading(self.world, self.meaning, self.copy, self.shared)
            found.kept = meaning  # its address is the key
            for r, value in meaning.items():
                found._values[r, 0] = self._converted(r, value, self.value(value))
            self._under[id(meaning)] = found
        return found

    # -- values ------------------------------------------------------------------------------------

    def value(self, node: UOp, lane: int = 0) -> Value:
        return self._walk((node, lane), self._values, self._needed, self._value)

    def valid(self, node: UOp, lane: int = 0) -> Value:
        """Whether an index is that of an element; None if it always is."""
        return self._walk((node, lane), self._valid, self._passed, self._is_valid)

    def _walk(self, root: Lane, known: dict[Lane, Value], below: Any, make: Any) -> Value:
        """A value that is made of those below it, without recursion."""
        if root in known:
            return known[root]
        stack = [root]
        while stack:
            place = stack[-1]
            if place in known:
                stack.pop()
                continue
            missing = [s for s in below(*place) if s not in known]
            if missing:
                stack += missing
                continue
            known[place] = make(*place)
            stack.pop()
        return known[root]

    def _needed(self, node: UOp, lane: int) -> list[Lane]:
        if node in self.meaning:
            return [(self.meaning[node], 0)]
        if node.op in SYMBOLS:
            return [(node.src[0], 0)] if node.op is not ops.VARIABLE else []
        if node.op in (ops.INDEX, ops.LOAD):
            return self._needed_of_access(node, lane)
        if node.op in (ops.CONST, ops.VCONST, ops.INVALID):
            return []
        found = lane_of(node, lane)
        if found is not None:
            return [found]
        if node.op.elementwise or node.op is ops.CAST:
            return [(s, lane if s.dtype.count > 1 else 0) for s in node.src]
        raise Unknown(f"{node.op.name} in an index")

    def _needed_of_access(self, node: UOp, lane: int) -> list[Lane]:
        access = node.src[0] if node.op is ops.LOAD else node
        if access.op is not ops.INDEX or len(access.src) < 2 or access.src[0].op is ops.INDEX:
            raise Unknown("memory behind a pointer that is computed")
        if buffer_of(access) is None:
            raise Unknown("a value that is kept without an address")
        wide = node.dtype.count > 1
        found = [(s, lane if s.dtype.count > 1 else 0) for s in access.src[1:]]
        if node.op is ops.LOAD and len(node.src) > 1:
            found.append((node.src[1], lane if wide else 0))
        return found

    def _value(self, node: UOp, lane: int) -> Value:
        if node in self.meaning:
            stand_in = self.meaning[node]
            return self._converted(node, stand_in, self._values[stand_in, 0])
        if node.op in SYMBOLS:
            return self._symbol(node)
        if node.op is ops.CONST:
            return self.world.constant(scalar(node.dtype), node.arg)
        if node.op is ops.VCONST:
            return self.world.constant(scalar(node.dtype), node.arg[lane])
        if node.op is ops.INVALID:
            return self.world.constant(scalar(node.dtype), 0)
        if node.op in (ops.INDEX, ops.LOAD):
            return self._element(node, lane)
        found = lane_of(node, lane)
        if found is not None:
            return self._values[found]
        operands = [self._values[s, lane if s.dtype.count > 1 else 0] for s in node.src]
        if node.op is ops.CAST:
            return self.world.cast(operands[0], scalar(node.src[0].dtype), scalar(node.dtype))
        return self.world.apply(node.op, scalar(node.src[-1].dtype), *operands)

    def _converted(self, node: UOp, stand_in: UOp, value: Value) -> Value:
        """Return the value of what stands for a range in the type of the range.

        An index that is computed with a range of 32 bits would overflow.
        """
        source, target = scalar(stand_in.dtype), scalar(node.dtype)
        return value if source is target else self.world.cast(value, source, target)

    def _symbol(self, node: UOp) -> Value:
        copy = 0 if node in self.shared else self.copy
        if node.op is ops.VARIABLE:
            _, low, high = node.arg
            if low is None or high is None:
                raise Unknown(f"the variable {node.arg[0]}, which has no bounds")
            end = self.world.constant(index, high + 1)
            return self.world.symbol(node, 0, int(low), end)  # a variable has one value
        end = node.src[0]
        return self.world.symbol(node, copy, 0, self._values[end, 0])

    def _element(self, node: UOp, lane: int) -> Value:
        access = node.src[0] if node.op is ops.LOAD else node
        dtype = scalar(node.dtype)
        if dtype.is_float:
            raise Unknown("a float in an index")
        buffer = buffer_of(access)
        assert buffer is not None
        at = access.src[1]
        address = self._values[at, lane if at.dtype.count > 1 else 0]
        if at.dtype.count == 1 and node.dtype.count > 1:
            address = self.plus(address, lane)
        value = self.world.element(buffer, dtype, address)
        gates = [self.valid(at, lane if at.dtype.count > 1 else 0)]
        gates += [self._values[g, lane if g.dtype.count > 1 else 0] for g in access.src[2:]]
        other = self.world.constant(dtype, 0)
        if node.op is ops.LOAD and len(node.src) > 1:
            other = self._values[node.src[1], lane if node.dtype.count > 1 else 0]
        for gate in gates:
            if gate is not None:
                value = self.world.apply(ops.WHERE, dtype, gate, value, other)
        return value

    # -- validity ----------------------------------------------------------------------------------

    def _passed(self, node: UOp, lane: int) -> list[Lane]:
        if node in self.meaning or not node.dtype.is_integer or node.op in (ops.INDEX, ops.LOAD):
            return []
        found = lane_of(node, lane)
        if found is not None:
            return [found]
        if node.op.elementwise or node.op is ops.CAST:
            return [(s, lane if s.dtype.count > 1 else 0) for s in node.src]
        return []

    def _is_valid(self, node: UOp, lane: int) -> Value:
        if node.op is ops.INVALID:
            return self.world.constant(boolean, False)
        below = [self._valid[s] for s in self._passed(node, lane)]
        if all(part is None for part in below):
            return None
        if node.op is ops.WHERE:
            condition = node.src[0]
            chosen = self.value(condition, lane if condition.dtype.count > 1 else 0)
            yes, no = (self.constant(True) if part is None else part for part in below[1:])
            picked = self.world.apply(ops.WHERE, boolean, chosen, yes, no)
            return self.all(below[0], picked)
        return self.all(*below)

    # -- truths and sums ---------------------------------------------------------------------------

    def constant(self, value: bool) -> Value:
        return self.world.constant(boolean, value)

    def all(self, *parts: Value) -> Value:
        """Whether all parts hold; None stands for one that does."""
        whole: Value = None
        for part in parts:
            if part is not None:
                whole = part if whole is None else self.world.apply(ops.AND, boolean, whole, part)
        return whole

    def any(self, *parts: Value) -> Value:
        whole = self.constant(False)
        for part in parts:
            whole = self.world.apply(ops.OR, boolean, whole, part)
        return whole

    def plus(self, value: Value, number: int) -> Value:
        if not number:
            return value
        return self.world.apply(ops.ADD, index, value, self.world.constant(index, number))


def lane_of(node: UOp, lane: int) -> Lane | None:
    """The lane of another node that a lane of this one is, if it is just that."""
    match node.op:
        case ops.VECTORIZE:
            return node.src[lane], 0
        case ops.GEP:
            return node.src[0], node.arg[lane]
        case ops.CAT:
            for s in node.src:
                if lane < s.dtype.count:
                    return s, lane
                lane -= s.dtype.count
        case ops.AFTER if node.dtype.kind is not Kind.VOID:
            return node.src[0], lane
        case ops.BIND:
            return node.src[0], 0
    return None
