"""Terms: the holes, facts and operators in which rules are written.

A rule is made of ordinary nodes over *holes*. A hole matches any node; a hole named `c0`, `c1`, …
matches a constant and stands for its value in `after` and `when`. Holes have schema types, which
have no algebra, so a term stays as it is written.

Guards are conditions on what is known when a rule is about to fire: the constants, and *facts*
about nodes such as their bounds. A fact is a node too, so that the same guard is compiled to
Python, handed to the prover, and printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.base.errors import RuleError
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.ops import Op
from porism.ir.traversal import toposort

T: Final = dtypes.schema
U: Final = dtypes.schema_other
B: Final = dtypes.schema_bool

_CONSTANT: Final = re.compile(r"c\d*")


def hole(name: str, dtype: DType = T) -> UOp:
    """Return a hole for any node; for a constant if the name is `c` or `c` and digits."""
    return raw(ops.HOLE, dtype, (), name)


def holes(names: str, dtype: DType = T) -> list[UOp]:
    return [hole(name, dtype) for name in names.split()]


def is_constant_hole(node: UOp) -> bool:
    return node.op is ops.HOLE and _CONSTANT.fullmatch(node.arg) is not None


def literal(value: bool | int | float, dtype: DType = T) -> UOp:
    """Return a number as a term, to be matched or to appear in the result."""
    return UOp.const(dtype, value)


x, y, z, w = holes("x y z w")
c0, c1, c2, c3 = holes("c0 c1 c2 c3")
p, q, r = holes("p q r", B)
u: Final = hole("u", U)
TRUE: Final = literal(True, B)
FALSE: Final = literal(False, B)


@dataclass(frozen=True, slots=True)
class Fact:
    """A property that a guard can test: its arity, and the Python text that computes it."""

    name: str
    arity: int
    python: str
    doc: str
    truth: bool = False  # it is a boolean, not a number
    on_nodes: bool = True  # its arguments are nodes, not numbers


FACTS: Final = {
    fact.name: fact
    for fact in (
        Fact("lo", 1, "{0}.vmin", "a lower bound of the value"),
        Fact("hi", 1, "{0}.vmax", "an upper bound of the value"),
        Fact("modulus", 1, "{0}.residue[0]", "the value is remainder(x) modulo this"),
        Fact("remainder", 1, "{0}.residue[1]", "what the value is modulo modulus(x)"),
        Fact("least", 1, "{0}.dtype.min", "the least value of the type"),
        Fact("most", 1, "{0}.dtype.max", "the largest value of the type"),
        Fact("signed", 1, "{0}.dtype.kind is SIGNED", "whether the type has a sign", truth=True),
        Fact(
            "divides",
            2,
            "{0} != 0 and {1} % {0} == 0",
            "whether the first number is a divisor of the second",
            truth=True,
            on_nodes=False,
        ),
        Fact(
            "constant",
            1,
            "{0}.op is CONST",
            "whether the node is a constant",
            truth=True,
        ),
        Fact(
            "fits",
            2,
            "{0}.dtype.fits_in({1}.dtype)",
            "whether the second's type holds every value of the first's",
            truth=True,
        ),
    )
}


def fact(name: str, *arguments: UOp) -> UOp:
    """Return a fact about nodes or numbers, for use in a guard."""
    known = FACTS.get(name)
    if known is None or known.arity != len(arguments):
        raise RuleError(
            f"there is no fact {name!r} of {len(arguments)} arguments",
            fix="known facts: " + ", ".join(f"{f.name}/{f.arity}" for f in FACTS.values()),
        )
    return raw(ops.FACT, B if known.truth else T, tuple(arguments), name)


def lo(node: UOp) -> UOp:
    return fact("lo", node)


def hi(node: UOp) -> UOp:
    return fact("hi", node)


def modulus(node: UOp) -> UOp:
    return fact("modulus", node)


def remainder(node: UOp) -> UOp:
    return fact("remainder", node)


def least(node: UOp) -> UOp:
    return fact("least", node)


def most(node: UOp) -> UOp:
    return fact("most", node)


def signed(node: UOp) -> UOp:
    return fact("signed", node)


def constant(node: UOp) -> UOp:
    return fact("constant", node)


def fits(node: UOp, other: UOp) -> UOp:
    return fact("fits", node, other)


def divides(divisor: UOp, number: UOp) -> UOp:
    return fact("divides", divisor, number)


def where(condition: UOp, yes: UOp, no: UOp) -> UOp:
    return ops.WHERE(condition, yes, no)


def maximum(a: UOp, b: UOp) -> UOp:
    return ops.MAX(a, b)


def minimum(a: UOp, b: UOp) -> UOp:
    return ops.MIN(a, b)


def cast(node: UOp, dtype: DType) -> UOp:
    return ops.CAST(node, dtype=dtype)


def holes_of(term: UOp) -> dict[UOp, int]:
    """Return the holes of a term and how often each occurs in it as a tree."""
    count: dict[UOp, dict[UOp, int]] = {}
    for node in toposort(term):
        if node.op is ops.HOLE:
            count[node] = {node: 1}
            continue
        total: dict[UOp, int] = {}
        for s in node.src:
            for h, n in count[s].items():
                total[h] = total.get(h, 0) + n
        count[node] = total
    return count[term]


def is_value(term: UOp) -> bool:
    """Return whether a term is a number once the constants are known: it has no hole for a node."""
    for node in toposort(term, within=lambda n: n.op is not ops.FACT):
        if node.op is ops.HOLE and not is_constant_hole(node):
            return False
    return True


def values_of(term: UOp) -> Iterator[UOp]:
    """Yield the largest parts of a right side that are computed as numbers, not built as nodes."""
    stack = [term]
    while stack:
        node = stack.pop()
        if is_value(node):
            yield node
        else:
            stack += node.src


def conjuncts(guard: UOp | None) -> Iterator[UOp]:
    """Yield the operands of the conjunction that a guard is."""
    if guard is None:
        return
    stack = [guard]
    while stack:
        node = stack.pop()
        if node.op is ops.AND:
            stack += reversed(node.src)
        else:
            yield node


def conjunction(parts: list[UOp]) -> UOp | None:
    whole: UOp | None = None
    for part in parts:
        whole = part if whole is None else whole & part
    return whole


VALUE_OPS: Final[dict[Op, str]] = {
    ops.ADD: "({0} + {1})",
    ops.SUB: "({0} - {1})",
    ops.MUL: "({0} * {1})",
    ops.IDIV: "({0} // {1})",
    ops.MOD: "({0} % {1})",
    ops.NEG: "(-{0})",
    ops.MAX: "max({0}, {1})",
    ops.MIN: "min({0}, {1})",
    ops.SHL: "({0} << {1})",
    ops.SHR: "({0} >> {1})",
    ops.AND: "({0} & {1})",
    ops.OR: "({0} | {1})",
    ops.XOR: "({0} ^ {1})",
    ops.NOT: "(~{0})",
    ops.LT: "({0} < {1})",
    ops.LE: "({0} <= {1})",
    ops.GT: "({0} > {1})",
    ops.GE: "({0} >= {1})",
    ops.EQ: "({0} == {1})",
    ops.NE: "({0} != {1})",
}
"""The ops that can be computed on constants when a rule fires: op -> Python text."""
