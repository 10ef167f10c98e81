"""Index evaluation: the value of an index or a condition, in an abstract domain.

A *domain* defines what values are: linear sums, formulas of the solver, or arrays of many points.
An evaluation visits an expression once and applies each op in the domain. Loops may be replaced by
other expressions (`substitution`), and symbols have a copy number, so that one expression can be
evaluated for two iterations at once.

An INVALID index has the value 0 and is not `valid`.
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
"""A value of a domain."""

SYMBOLS: Final = frozenset({ops.RANGE, ops.SPECIAL, ops.VARIABLE})

Lane = tuple[UOp, int]
"""A node, and which of its lanes is meant."""


class Unknown(Exception):  # noqa: N818 - not an error: the question is answered another way
    """An expression that a domain cannot represent."""


class Domain(Protocol):
    """An abstract domain: its values, and the ops on them."""

    def constant(self, dtype: DType, value: bool | int | float) -> Value:
        """Return a constant."""

    def symbol(self, node: UOp, copy: int, low: int, end: Value) -> Value:
        """Return a symbol with values from `low` up to, and without, `end`."""

    def apply(self, op: Op, dtype: DType, *operands: Value) -> Value:
        """Apply an op to operands of a type; for WHERE it is the type of the values."""

    def cast(self, value: Value, source: DType, target: DType) -> Value:
        """Return a value cast to another type."""

    def element(self, buffer: Buffer, dtype: DType, address: Value) -> Value:
        """Return an element of a buffer: unknown, but a function of its address."""


Buffer = tuple[str, Any]
"""Identifies a buffer, before and after a stage."""


def buffer_of(access: UOp) -> Buffer | None:
    """Return the buffer that an INDEX accesses; None for a value without an address."""
    base = base_of(access)
    if base.dtype.kind is not Kind.POINTER or base.dtype.size < 0:
        return None
    if base.op is ops.PARAM:
        return base.op.name, base.arg
    if base.op in (ops.DEFINE_LOCAL, ops.DEFINE_REG):  # of another size, it is other memory
        return base.op.name, (base.arg, base.dtype.size)
    return None


def lane_dtype(dtype: DType) -> DType:
    return dtype.element if dtype.count > 1 else dtype


class Evaluation:
    """The values of expressions in a domain."""

    def __init__(
        self, domain: Domain, substitution: Mapping[UOp, UOp] | None = None, copy: int = 0,
        shared: frozenset[UOp] = frozenset(),
    ) -> None:  # fmt: skip
        self.domain = domain
        self.substitution = substitution or {}
        self.copy = copy
        self.shared = shared
        """Symbols that have the same value in all copies."""
        self.substituted: Mapping[UOp, UOp] | None = None
        self._values: dict[Lane, Value] = {}
        self._valid: dict[Lane, Value] = {}
        self._under: dict[int, Evaluation] = {}

    def with_substitution(self, substitution: Mapping[UOp, UOp]) -> Evaluation:
        """Return an evaluation in which loops have the values of expressions evaluated here."""
        inner = self._under.get(id(substitution))
        if inner is None:
            inner = Evaluation(self.domain, self.substitution, self.copy, self.shared)
            inner.substituted = substitution  # its address is the key
            for r, value in substitution.items():
                inner._values[r, 0] = self._converted(r, value, self.value(value))
            self._under[id(substitution)] = inner
        return inner

    # -- values ------------------------------------------------------------------------------------

    def value(self, node: UOp, lane: int = 0) -> Value:
        """Return the value of a lane of a node."""
        return self._walk((node, lane), self._values, self._operands, self._value)

    def valid(self, node: UOp, lane: int = 0) -> Value:
        """Return whether an index is not INVALID; None if it never is INVALID."""
        return self._walk((node, lane), self._valid, self._index_operands, self._is_valid)

    def _walk(self, root: Lane, known: dict[Lane, Value], below: Any, make: Any) -> Value:
        """Compute a value from those of its operands, without recursion."""
        if root in known:
            return known[root]
        stack = [root]
        while stack:
            lane = stack[-1]
            if lane in known:
                stack.pop()
                continue
            missing = [s for s in below(*lane) if s not in known]
            if missing:
                stack += missing
                continue
            known[lane] = make(*lane)
            stack.pop()
        return known[root]

    def _operands(self, node: UOp, lane: int) -> list[Lane]:
        """Return the lanes that the value of a lane is computed from."""
        if node in self.substitution:
            return [(self.substitution[node], 0)]
        if node.op in SYMBOLS:
            return [(node.src[0], 0)] if node.op is not ops.VARIABLE else []
        if node.op in (ops.INDEX, ops.LOAD):
            return self._access_operands(node, lane)
        if node.op in (ops.CONST, ops.VCONST, ops.INVALID):
            return []
        forwarded = source_lane(node, lane)
        if forwarded is not None:
            return [forwarded]
        if node.op.elementwise or node.op is ops.CAST:
            return [(s, lane if s.dtype.count > 1 else 0) for s in node.src]
        raise Unknown(f"{node.op.name} in an index")

    def _access_operands(self, node: UOp, lane: int) -> list[Lane]:
        """Return the lanes of the index, the gates and the alternative value of a read."""
        access = node.src[0] if node.op is ops.LOAD else node
        if access.op is not ops.INDEX or len(access.src) < 2 or access.src[0].op is ops.INDEX:
            raise Unknown("memory behind a pointer that is computed")
        if buffer_of(access) is None:
            raise Unknown("a value that is kept without an address")
        is_vector = node.dtype.count > 1
        operands = [(s, lane if s.dtype.count > 1 else 0) for s in access.src[1:]]
        if node.op is ops.LOAD and len(node.src) > 1:
            operands.append((node.src[1], lane if is_vector else 0))
        return operands

    def _value(self, node: UOp, lane: int) -> Value:
        """Return the value of a lane whose operands have values."""
        if node in self.substitution:
            replacement = self.substitution[node]
            return self._converted(node, replacement, self._values[replacement, 0])
        if node.op in SYMBOLS:
            return self._symbol(node)
        if node.op is ops.CONST:
            return self.domain.constant(lane_dtype(node.dtype), node.arg)
        if node.op is ops.VCONST:
            return self.domain.constant(lane_dtype(node.dtype), node.arg[lane])
        if node.op is ops.INVALID:
            return self.domain.constant(lane_dtype(node.dtype), 0)
        if node.op in (ops.INDEX, ops.LOAD):
            return self._element(node, lane)
        forwarded = source_lane(node, lane)
        if forwarded is not None:
            return self._values[forwarded]
        operands = [self._values[s, lane if s.dtype.count > 1 else 0] for s in node.src]
        if node.op is ops.CAST:
            return self.domain.cast(
                operands[0], lane_dtype(node.src[0].dtype), lane_dtype(node.dtype)
            )
        return self.domain.apply(node.op, lane_dtype(node.src[-1].dtype), *operands)

    def _converted(self, node: UOp, replacement: UOp, value: Value) -> Value:
        """Return the value of the replacement of a loop, cast to the type of the loop.

        An index that is computed with a range of 32 bits would overflow.
        """
        source, target = lane_dtype(replacement.dtype), lane_dtype(node.dtype)
        return value if source is target else self.domain.cast(value, source, target)

    def _symbol(self, node: UOp) -> Value:
        """Return the symbol of a loop, a thread index or a variable, with its bounds."""
        copy = 0 if node in self.shared else self.copy
        if node.op is ops.VARIABLE:
            _, low, high = node.arg
            if low is None or high is None:
                raise Unknown(f"the variable {node.arg[0]}, which has no bounds")
            end = self.domain.constant(index, high + 1)
            return self.domain.symbol(node, 0, int(low), end)  # a variable has one value
        end = node.src[0]
        return self.domain.symbol(node, copy, 0, self._values[end, 0])

    def _element(self, node: UOp, lane: int) -> Value:
        """Return the element that is read; 0 or the alternative value where it is masked."""
        access = node.src[0] if node.op is ops.LOAD else node
        dtype = lane_dtype(node.dtype)
        if dtype.is_float:
            raise Unknown("a float in an index")
        buffer = buffer_of(access)
        assert buffer is not None
        address_node = access.src[1]
        address = self._values[address_node, lane if address_node.dtype.count > 1 else 0]
        if address_node.dtype.count == 1 and node.dtype.count > 1:
            address = self.add_constant(address, lane)
        value = self.domain.element(buffer, dtype, address)
        gates = [self.valid(address_node, lane if address_node.dtype.count > 1 else 0)]
        gates += [self._values[g, lane if g.dtype.count > 1 else 0] for g in access.src[2:]]
        other = self.domain.constant(dtype, 0)
        if node.op is ops.LOAD and len(node.src) > 1:
            other = self._values[node.src[1], lane if node.dtype.count > 1 else 0]
        for gate in gates:
            if gate is not None:
                value = self.domain.apply(ops.WHERE, dtype, gate, value, other)
        return value

    # -- validity ----------------------------------------------------------------------------------

    def _index_operands(self, node: UOp, lane: int) -> list[Lane]:
        """Return the lanes of indices that the validity of an index depends on."""
        if (
            node in self.substitution
            or not node.dtype.is_integer
            or node.op in (ops.INDEX, ops.LOAD)
        ):
            return []
        forwarded = source_lane(node, lane)
        if forwarded is not None:
            return [forwarded]
        if node.op.elementwise or node.op is ops.CAST:
            return [(s, lane if s.dtype.count > 1 else 0) for s in node.src]
        return []

    def _is_valid(self, node: UOp, lane: int) -> Value:
        """Return whether an index is valid, from the validity of its operands; None for always."""
        if node.op is ops.INVALID:
            return self.domain.constant(boolean, False)
        operands = [self._valid[s] for s in self._index_operands(node, lane)]
        if all(part is None for part in operands):
            return None
        if node.op is ops.WHERE:
            condition = node.src[0]
            chosen = self.value(condition, lane if condition.dtype.count > 1 else 0)
            yes, no = (self.constant(True) if part is None else part for part in operands[1:])
            selected = self.domain.apply(ops.WHERE, boolean, chosen, yes, no)
            return self.conjunction(operands[0], selected)
        return self.conjunction(*operands)

    # -- conditions and sums -----------------------------------------------------------------------

    def constant(self, value: bool) -> Value:
        """Return a constant condition."""
        return self.domain.constant(boolean, value)

    def conjunction(self, *parts: Value) -> Value:
        """Return whether all parts hold; None is one that always does."""
        whole: Value = None
        for part in parts:
            if part is not None:
                whole = part if whole is None else self.domain.apply(ops.AND, boolean, whole, part)
        return whole

    def disjunction(self, *parts: Value) -> Value:
        """Return whether any part holds."""
        whole = self.constant(False)
        for part in parts:
            whole = self.domain.apply(ops.OR, boolean, whole, part)
        return whole

    def add_constant(self, value: Value, number: int) -> Value:
        """Return an index plus a number."""
        if not number:
            return value
        return self.domain.apply(ops.ADD, index, value, self.domain.constant(index, number))


def source_lane(node: UOp, lane: int) -> Lane | None:
    """Return the lane of a source that a lane only forwards; None if it is computed."""
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
