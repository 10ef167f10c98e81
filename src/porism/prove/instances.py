"""Instances: the concrete types in which a rule of a theory is proved.

A rule is declared for any type of its theories. Unbounded integers are one type. Of fixed widths
there are both signednesses, at 8 bits, and at 32 where the solver answers in time; of floats the
two smallest that hardware computes in. A type that the root of a rule leaves open may be any
type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

from porism.base import dtypes
from porism.base.dtypes import DType, Kind, Theory
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.walk import toposort
from porism.prove.arithmetic import Arithmetic
from porism.prove.arrays import Arrays, Table
from porism.prove.floats import Floats
from porism.prove.integers import Integers
from porism.prove.reals import Reals
from porism.prove.truths import Truths
from porism.prove.words import Words
from porism.rewrite import terms
from porism.rewrite.rule import Rule

TYPES: Final[Mapping[Theory, tuple[DType, ...]]] = {
    Theory.INTEGERS: (dtypes.index,),
    Theory.FIXED_WIDTH: (dtypes.i8, dtypes.u8),
    Theory.FLOATS: (dtypes.f16,),
    Theory.BOOLEANS: (dtypes.boolean,),
}
"""Where a rule of a theory must be proved."""

MORE_TYPES: Final[Mapping[Theory, tuple[DType, ...]]] = {
    Theory.FIXED_WIDTH: (dtypes.i32, dtypes.u32),
    Theory.FLOATS: (dtypes.f32,),
}
"""Where it must not be refuted, and is proved if the solver answers in time."""

ANY_TYPE: Final = tuple(t for found in TYPES.values() for t in found)


@dataclass(frozen=True, slots=True)
class Instance:
    """A type for each type that a rule leaves open."""

    types: Mapping[DType, DType]
    required: bool
    bits: int | None = None  # of `index`, where one bit stands for all
    real: bool = False  # floats stand for real numbers

    @property
    def label(self) -> str:
        """The types, as a person would list them."""
        named = [self.types[sort].name for sort in (terms.T, terms.U) if sort in self.types]
        return " and ".join(named) or dtypes.boolean.name

    def symbolic(self) -> dict[DType, Arithmetic]:
        """Formulas for the solver."""
        made: dict[DType, Arithmetic] = {}
        for sort, dtype in self.types.items():
            same = next((made[s] for s in made if self.types[s] is dtype), None)
            made[sort] = self._formulas(dtype) if same is None else same
        return made

    def _formulas(self, dtype: DType) -> Arithmetic:
        if dtype.kind is Kind.INDEX:
            return Integers() if self.bits is None else Words(dtype, self.bits)
        if dtype.kind is Kind.BOOL:
            return Truths()
        if dtype.is_float:
            return Reals(dtype) if self.real else Floats(dtype)
        return Words(dtype)

    def arrays(self, table: Table, *, huge: bool = False) -> dict[DType, Arithmetic]:
        """Arrays of cases."""
        return {sort: Arrays(dtype, table, huge=huge) for sort, dtype in self.types.items()}


def root_type(rule: Rule) -> DType:
    """The type by which a rule is chosen: of a comparison that of its operands."""
    root = rule.before
    return root.src[0].dtype if root.op.group is ops.COMPARISON else root.dtype


def instances(rule: Rule, theory: Theory) -> Iterator[Instance]:
    """The instances of a rule in a theory; none if it cannot fire there."""
    root = root_type(rule)
    if root is terms.B and theory is not Theory.BOOLEANS:
        return
    sorts = {node.dtype for term in (rule.before, rule.after) for node in toposort(term)}
    fixed = {t: t for t in sorts if t.element.kind is not Kind.SCHEMA} | {terms.B: dtypes.boolean}
    free = [s for s in (terms.T, terms.U) if s in sorts and s is not root]
    bits = 1 if theory is Theory.INTEGERS and is_bitwise(rule) else None
    for types, required in ((TYPES, True), (MORE_TYPES, False)):
        for own in types.get(theory, ()):
            for rest in product(ANY_TYPE, repeat=len(free)):
                chosen = dict(zip(free, rest, strict=True))
                if root is not terms.B:
                    chosen[root] = own
                yield Instance(fixed | chosen, required, bits)


_BITWISE: Final = frozenset({ops.AND, ops.OR, ops.XOR, ops.NOT})


def is_bitwise(rule: Rule) -> bool:
    """Whether a rule looks at each bit by itself, so that it holds if it holds for one bit.

    An unbounded integer is an endless row of bits, of which 0 has none set and -1 all.
    """

    def fits(node: UOp) -> bool:
        if node.op is ops.CONST:
            return node.arg in (0, -1)
        return node.op is ops.HOLE or node.op in _BITWISE

    nodes = toposort(rule.before, rule.after)
    return rule.when is None and all(map(fits, nodes)) and any(n.op in _BITWISE for n in nodes)
