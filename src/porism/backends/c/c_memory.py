"""Memory: loads and stores, of one element or of a vector of them."""

from __future__ import annotations

from porism.backends.c.c_access import Place, place_of
from porism.backends.c.c_dialect import vector_lanes
from porism.backends.c.c_writer import Writer, bare
from porism.base.dtypes import DType, boolean
from porism.ir import ops
from porism.ir.node import UOp

LINE = 64
"""Bytes that a cache fetches together."""


class Memory(Writer):
    """Wide accesses are those of a vector type; others go lane by lane."""

    def element(self, place: Place, offset: str = "") -> str:
        """The element at a place, or one so much further."""
        base = place.base
        name = self._base(place)
        if base.dtype.element.count > 1:
            name = name if base.dtype.size == 1 else f"{name}[{self.values[place.index]}]"
            return f"{name}[{offset}]" if offset else name
        if place.index.dtype.count > 1:
            return f"{name}[{self.lane(place.index)}]"
        if base.op is ops.DEFINE_REG and base.dtype.size == 1:
            return name
        at = self.values[place.index]
        if offset:
            at = offset if at in ("0", "INT64_C(0)") else f"{at} + {offset}"
        return f"{name}[{at}]"

    def _base(self, place: Place) -> str:
        name = self.values[place.base]
        if place.viewed is None:
            return name
        constant = "" if self.names.is_written(place.base) else "const "
        return f"(({constant}{self.unit.view(place.viewed)} *){name})"

    def load(self, node: UOp) -> None:
        place = place_of(node.src[0])
        other = node.src[1] if len(node.src) > 1 else None
        count, gate = node.dtype.count, place.gate
        is_truth = node.dtype.element is boolean
        if count > 1:
            self.masks[node] = 8
        if node in self.fetched:
            self._fetch(place, node.dtype, self.fetched[node])
        if not is_truth and self._is_register(node, place):
            self.values[node] = self.element(place)
            self.registers.add(node)
            return
        if count == 1 or not self._is_wide(place, node.dtype, gate):
            gathered = place.index.dtype.count > 1 or count == 1
            read = self.element(place, "" if gathered else "lane")
            read = f"{read} != 0" if is_truth else read
            if gate is not None:
                otherwise = "0" if other is None else self.lane(other)
                read = f"{self.lane(gate)} ? {read} : {otherwise}"
            (self.define if count == 1 else self.by_lane)(node, read)
            return
        kind = self.kind(node)
        read = self._wide(place, kind, "const ")
        read = f"({kind})({read} != 0)" if is_truth else read
        if gate is not None:
            otherwise = f"({kind}){{0}}" if other is None else self.whole(other)
            read = f"{self.atom(gate)} ? {read} : {otherwise}"
        self.define(node, read)

    def _fetch(self, place: Place, dtype: DType, ahead: int) -> None:
        """What is some elements ahead, a line of the cache at a time; it need not be in memory."""
        if place.index.dtype.count > 1 or place.base.dtype.element.count > 1:
            return
        for first in range(0, dtype.count, max(LINE // max(dtype.element.bits // 8, 1), 1)):
            self.do(f"__builtin_prefetch(&{self.element(place, str(ahead + first))}, 0, 2);")

    def fetch(self, pointer: UOp) -> None:
        """The line of the cache that a pointer points to."""
        self._fetch(place_of(pointer), pointer.dtype.element, 0)

    def _is_register(self, node: UOp, place: Place) -> bool:
        """Whether a load of a whole register can stand where its value is used."""
        base = place.base
        if base.op is not ops.DEFINE_REG or base.dtype.size != 1 or place.gate is not None:
            return False
        if base.dtype.element is not node.dtype or place.viewed is not None:
            return False
        return all(
            self.is_kept(node, user)
            and user.op not in (ops.VECTORIZE, ops.AFTER, ops.CAST)  # these pass the text on
            for user in self.used[node]
        )

    def _is_wide(self, place: Place, dtype: DType, gate: UOp | None) -> bool:
        """Whether an access of a vector is one of a vector in memory."""
        return (
            place.index.dtype.count == 1
            and (gate is None or gate.dtype.count == 1)
            and vector_lanes(dtype.count) == dtype.count
            and self.dialect.vector_arithmetic
        )

    def _wide(self, place: Place, kind: str, constant: str) -> str:
        if place.base.dtype.element.count > 1:
            return self.element(place)
        return f"*({constant}{kind} *)&{self.element(place)}"

    def store(self, node: UOp) -> None:
        place, value = place_of(node.src[0]), node.src[1]
        count, gate = value.dtype.count, place.gate
        is_truth = value.dtype.element is boolean
        if count == 1 or is_truth or not self._is_wide(place, value.dtype, gate):
            scattered = place.index.dtype.count > 1 or count == 1
            target = self.element(place, "" if scattered else "lane")
            given = self.values[value] if count == 1 else self.lane(value)
        else:
            scattered = True
            target, given = self._wide(place, self.kind(value), ""), self.whole(value)
            count = 1
        statements = [f"{target} = {given};"]
        if gate is not None:
            statements.insert(0, f"if ({bare(self.lane(gate))})")
        if count > 1:
            self.over_lanes(count, *statements)
        else:
            for depth, statement in enumerate(statements):
                self.do("    " * depth + statement)
