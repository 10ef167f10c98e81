"""C memory: loads, stores and prefetches of elements and vectors.

A gate that is constant leaves out the lanes that it closes. Written as a condition of each lane, it
lets gcc (12.2, with AVX-512) load the whole vector and blend, also beyond the end of the memory.
"""

from __future__ import annotations

from porism.backends.c.c_access import MemoryAccess, access_of
from porism.backends.c.c_dialect import vector_lanes
from porism.backends.c.c_writer import Writer, at_lane, without_parentheses
from porism.base.dtypes import DType, boolean
from porism.ir import ops
from porism.ir.node import UOp

CACHE_LINE = 64
"""Bytes of a cache line."""


class MemoryWriter(Writer):
    """Writes loads and stores: by a vector type where that is possible, else lane by lane."""

    def element(self, access: MemoryAccess, offset: str = "") -> str:
        """Return the expression of an accessed element, or of one `offset` elements further."""
        base = access.base
        name = self._base(access)
        is_variable = base.op is ops.DEFINE_REG and base.dtype.size == 1
        if base.dtype.element.count > 1:
            name = name if is_variable else f"{name}[{self.values[access.index]}]"
            return f"{name}[{offset}]" if offset else name
        if access.index.dtype.count > 1:
            return f"{name}[{self.lane(access.index)}]"
        if is_variable:
            return name
        at = self.values[access.index]
        if offset:
            at = offset if at in ("0", "INT64_C(0)") else f"{at} + {offset}"
        return f"{name}[{at}]"

    def _base(self, access: MemoryAccess) -> str:
        name = self.values[access.base]
        if access.viewed is None:
            return name
        constant = "" if self.names.is_written(access.base) else "const "
        return f"(({constant}{self.unit.view(access.viewed)} *){name})"

    def load(self, node: UOp) -> None:
        access = access_of(node.src[0])
        other = node.src[1] if len(node.src) > 1 else None
        count, gate = node.dtype.count, access.gate
        is_truth = node.dtype.element is boolean
        if count > 1:
            self.masks[node] = 8
        if node in self.prefetched:
            self._prefetch_ahead(access, node.dtype, self.prefetched[node])
        if not is_truth and self._is_register(node, access):
            self.values[node] = self.element(access)
            self.registers.add(node)
            return
        if count == 1 or not self._is_wide(access, node.dtype, gate):
            gathered = access.index.dtype.count > 1 or count == 1
            read = self.element(access, "" if gathered else "lane")
            read = f"{read} != 0" if is_truth else read
            otherwise = "0" if other is None else self.lane(other)
            is_open = constant_lanes(gate)
            if is_open is not None:
                self.listed(node, *(read if lane else otherwise for lane in is_open))
                return
            if gate is not None:
                read = f"{self.lane(gate)} ? {read} : {otherwise}"
            if count == 1:
                self.define(node, read)
            elif gathered:
                self.listed(node, read)
            else:
                self.by_lane(node, read)
            return
        kind = self.kind(node)
        read = self._wide(access, kind, "const ")
        read = f"({kind})({read} != 0)" if is_truth else read
        if gate is not None:
            otherwise = f"({kind}){{0}}" if other is None else self.whole(other)
            read = f"{self.atom(gate)} ? {read} : {otherwise}"
        self.define(node, read)

    def _prefetch_ahead(self, access: MemoryAccess, dtype: DType, ahead: int) -> None:
        """Prefetch a vector some elements ahead, by cache lines; the address may be unmapped."""
        if access.index.dtype.count > 1 or access.base.dtype.element.count > 1:
            return
        for first in range(0, dtype.count, max(CACHE_LINE // max(dtype.element.bits // 8, 1), 1)):
            self.do(f"__builtin_prefetch(&{self.element(access, str(ahead + first))}, 0, 2);")

    def prefetch(self, pointer: UOp) -> None:
        """Prefetch the cache line that a pointer points to."""
        self._prefetch_ahead(access_of(pointer), pointer.dtype.element, 0)

    def _is_register(self, node: UOp, access: MemoryAccess) -> bool:
        """Return whether a load of a register can be inlined where its value is used."""
        base = access.base
        if base.op is not ops.DEFINE_REG or base.dtype.size != 1 or access.gate is not None:
            return False
        if base.dtype.element is not node.dtype or access.viewed is not None:
            return False
        return all(
            self.is_kept(node, user)
            and user.op not in (ops.VECTORIZE, ops.AFTER, ops.CAST)  # these pass the text on
            for user in self.used[node]
        )

    def _is_wide(self, access: MemoryAccess, dtype: DType, gate: UOp | None) -> bool:
        """Return whether a vector is accessed by one access of a vector type."""
        return (
            access.index.dtype.count == 1
            and (gate is None or gate.dtype.count == 1)
            and vector_lanes(dtype.count) == dtype.count
            and self.dialect.vector_arithmetic
        )

    def _wide(self, access: MemoryAccess, kind: str, constant: str) -> str:
        if access.base.dtype.element.count > 1:
            return self.element(access)
        return f"*({constant}{kind} *)&{self.element(access)}"

    def store(self, node: UOp) -> None:
        access, value = access_of(node.src[0]), node.src[1]
        count, gate = value.dtype.count, access.gate
        is_truth = value.dtype.element is boolean
        if count == 1 or is_truth or not self._is_wide(access, value.dtype, gate):
            scattered = access.index.dtype.count > 1 or count == 1
            target = self.element(access, "" if scattered else "lane")
            stored = self.values[value] if count == 1 else self.lane(value)
        else:
            scattered = True
            target, stored = self._wide(access, self.kind(value), ""), self.whole(value)
            count = 1
        statements = [f"{target} = {stored};"]
        is_open = constant_lanes(gate)
        if is_open is not None:
            for k, is_stored in enumerate(is_open):
                if is_stored:
                    self.do(at_lane(statements[0], k))
            return
        if gate is not None:
            statements.insert(0, f"if ({without_parentheses(self.lane(gate))})")
        if count > 1 and not scattered:
            self.over_lanes(count, *statements)
        elif count > 1:
            for k in range(count):
                self.do(" ".join(at_lane(statement, k) for statement in statements))
        else:
            for depth, statement in enumerate(statements):
                self.do("    " * depth + statement)


def constant_lanes(gate: UOp | None) -> tuple[bool, ...] | None:
    """Return which lanes a constant gate leaves open; None if there are none, or it is computed."""
    return gate.arg if gate is not None and gate.op is ops.VCONST and any(gate.arg) else None
