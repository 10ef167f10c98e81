"""C arithmetic: elementwise ops, conversions, and the lanes of vectors."""

from __future__ import annotations

import re
from typing import Final

from porism.backends.c.c_dialect import is_held_as_bits
from porism.backends.c.c_scalars import cannot_overflow, is_defined_in_c, operator_of
from porism.backends.c.c_writer import Writer, integer_type
from porism.base.dtypes import Kind, boolean
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Group

_VECTOR_OPERATORS: Final = frozenset(
    {ops.ADD, ops.SUB, ops.MUL, ops.FDIV, ops.AND, ops.OR, ops.XOR, ops.SHR}
)
"""Ops that have a C operator on vectors, beside the comparisons."""


class Arithmetic(Writer):
    """Writes ops by C operators where they exist on vectors, else lane by lane."""

    def arithmetic(self, node: UOp) -> None:
        if node.dtype.count == 1:
            self._scalar(node)
            return
        vectors = [s for s in node.src if s.dtype.count > 1 and s not in self.splats]
        if node.dtype.element is boolean:
            self.masks[node] = self._mask_bits(node)
        expression = (
            self._vector_expression(node) if vectors and self.dialect.vector_arithmetic else None
        )
        if expression is not None:
            self.define(node, expression)
        else:
            self.by_lane(node, self.scalars.expression(node, *map(self.lane, node.src)))

    def _scalar(self, node: UOp) -> None:
        sums = node.op in (ops.ADD, ops.SUB)
        texts = [
            self.values[s]
            if sums and s in self.products and cannot_overflow(node)
            else self.atom(s)
            for s in node.src
        ]
        texts = [self._short(node, s, t) for s, t in zip(node.src, texts, strict=True)]
        expression = self.scalars.expression(node, *texts)
        self.define(node, expression)
        if node.op is ops.MUL and self.values[node] == expression and not node.dtype.is_float:
            self.products.add(node)

    def _short(self, node: UOp, source: UOp, text: str) -> str:
        """Return a constant without its type macro if the other operand determines the type."""
        long = re.fullmatch(r"U?INT64_C\((-?\d+)\)", text)
        plain = node.op in (ops.ADD, ops.SUB, ops.MUL, ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ)
        others = all(s is source or s.op is not ops.CONST for s in node.src)
        if long and plain and others and len(node.src) == 2 and node.src[0] is not node.src[1]:
            value = int(long[1])
            return str(value) if 0 <= value < 1 << 31 else text
        return text

    def _mask_bits(self, node: UOp) -> int:
        """Return the bits of a mask lane: those of the compared type, or the widest mask."""
        lane = node.src[-1].dtype.element
        if lane is not boolean:
            return 32 if is_held_as_bits(lane) else lane.bits
        return max([8, *(self.masks.get(s, 8) for s in node.src if s.dtype.count > 1)])

    def _vector_expression(self, node: UOp) -> str | None:
        """Return an op as a vector expression; None if C has no operator for it."""
        op, lane = node.op, node.src[-1].dtype.element
        kind = self.kind(node)
        if is_held_as_bits(lane) or op is ops.WHERE:
            return None
        if lane is boolean:
            return self._mask_expression(node)
        if op is ops.NOT:
            return f"~{self.values[node.src[0]]}"
        if op is ops.NEG and lane.is_float:
            return f"-{self.values[node.src[0]]}"
        compares = op.group is Group.COMPARISON
        if not compares and op not in _VECTOR_OPERATORS:
            return None
        if op is ops.SHR and not is_defined_in_c(node):
            return None
        a, b = (self.exact_lane(s) if s in self.splats else self.values[s] for s in node.src)
        if compares:
            return f"({kind})({a} {operator_of(op)} {b})"
        wraps = (
            op in (ops.ADD, ops.SUB, ops.MUL)
            and lane.kind is Kind.SIGNED
            and not cannot_overflow(node)
        )
        if not wraps:
            return f"{a} {operator_of(op)} {b}"
        unsigned = integer_type(lane.bits, "u")
        scalar, vector = self.dialect.scalar(unsigned), self.unit.vector(unsigned, node.dtype.count)
        a, b = (
            f"({scalar if s in self.splats else vector}){t}"
            for s, t in zip(node.src, (a, b), strict=True)
        )
        return f"({kind})({a} {operator_of(op)} {b})"

    def _mask_expression(self, node: UOp) -> str | None:
        operators = {ops.AND: "&", ops.OR: "|", ops.XOR: "^", ops.MAX: "|", ops.MIN: "&"}
        if node.op is ops.NOT:
            return f"~{self.values[node.src[0]]}"
        same = all(s not in self.splats and self.masks[s] == self.masks[node] for s in node.src)
        if node.op not in operators or not same:
            return None
        a, b = node.src
        return f"{self.values[a]} {operators[node.op]} {self.values[b]}"

    def cast(self, node: UOp) -> None:
        source = node.src[0]
        if node.dtype.kind is Kind.POINTER:
            self.values[node] = self.values[source]
            return
        convert = self.scalars.converted
        if node.dtype.element is boolean and node.dtype.count > 1:
            lane = source.dtype.element
            self.masks[node] = 8 if lane is boolean else 32 if is_held_as_bits(lane) else lane.bits
        if node.dtype.count == 1:
            self.define(node, convert(source.dtype, node.dtype, self.atom(source)))
        elif node.dtype is source.dtype and source not in self.splats:
            self.values[node] = self.values[source]
        else:
            self.by_lane(node, convert(source.dtype, node.dtype, self.lane(source)))

    def bitcast(self, node: UOp) -> None:
        source = node.src[0]
        a, b = source.dtype, node.dtype
        if a.count == b.count:
            texts = self.lane(source)
            expression = self.scalars.reinterpreted(a, b, texts)
            if b.count == 1:
                self.define(node, expression)
            elif source in self.splats or boolean in (a.element, b.element):
                self.by_lane(node, expression)
            else:
                self.define(node, f"({self.kind(node)}){self.values[source]}")
            return
        source_name = self.names.fresh()
        self.do(f"{self.kind(source)} {source_name} = {self.whole(source)};")
        name = self.names.fresh()
        self.do(f"{self.kind(node)} {name};")
        self.do(f"memcpy(&{name}, &{source_name}, {b.count * b.bits // 8});")
        self.values[node] = name

    # -- lanes -------------------------------------------------------------------------------------

    def vectorize(self, node: UOp) -> None:
        truth = node.dtype.element is boolean
        self.masks[node] = 8
        if len(set(node.src)) == 1:
            self.values[node] = self.values[node.src[0]]
            if node.dtype.count > 1:
                self.splats.add(node)
            return
        lanes = [f"-{self.atom(s)}" if truth else self.values[s] for s in node.src]
        self.define(node, f"{{{', '.join(lanes)}}}")

    def lanes(self, node: UOp) -> None:
        source, chosen = node.src[0], node.arg
        truth = node.dtype.element is boolean
        self.masks[node] = self.masks.get(source, 8)
        name = self.values[source]
        if source.dtype.count == 1 or source in self.splats:
            self.values[node] = name
            if len(chosen) > 1:
                self.splats.add(node)
        elif len(chosen) == 1:
            self.define(node, f"{name}[{chosen[0]}] != 0" if truth else f"{name}[{chosen[0]}]")
        elif chosen == tuple(range(chosen[0], chosen[0] + len(chosen))):
            start = f" + {chosen[0]}" if chosen[0] else ""
            read = f"{name}[lane{start}]"
            self.by_lane(node, f"{read} != 0" if truth else read)
        else:
            self.define(node, f"{{{', '.join(f'{name}[{k}]' for k in chosen)}}}")

    def concatenation(self, node: UOp) -> None:
        self.masks[node] = self.masks.get(node.src[0], 8)
        lanes: list[str] = []
        for source in node.src:
            name, count = self.values[source], source.dtype.count
            scalar = count == 1 or source in self.splats
            lanes += [name] * count if scalar else [f"{name}[{k}]" for k in range(count)]
        self.define(node, f"{{{', '.join(lanes)}}}")
