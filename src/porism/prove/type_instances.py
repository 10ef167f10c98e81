"""Type instances: the concrete types in which a rule of a theory is proved.

A rule is declared for any type of its theories, and is proved in each of them: in every width, of
both signednesses, and in every float type. A type that the root of a rule leaves open may be any
type.

A literal on the left side of a rule matches a constant of exactly that value. In a type that does
not have the value the rule never fires, and there is nothing to prove. A literal on the right
becomes a constant as any computed number does: it wraps, or is rounded, and so it does in a proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

from porism.base import dtypes
from porism.base.dtypes import DType, Kind, Theory
from porism.base.errors import TypeMismatch
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.prove.arithmetic.array_arithmetic import Arrays, Table
from porism.prove.arithmetic.bit_vectors import BitVectors
from porism.prove.arithmetic.ieee_floats import Floats
from porism.prove.arithmetic.op_meanings import Arithmetic
from porism.prove.arithmetic.real_numbers import Reals
from porism.prove.arithmetic.solver_booleans import Booleans
from porism.prove.arithmetic.unbounded_integers import Integers
from porism.prove.arithmetic.wrapping_integers import WrappingIntegers
from porism.rewrite import terms
from porism.rewrite.rule import Rule

TYPES: Final[Mapping[Theory, tuple[DType, ...]]] = {
    theory: tuple(t for t in dtypes.scalars() if t.theory is theory)
    for theory in (Theory.INTEGERS, Theory.FIXED_WIDTH, Theory.FLOATS, Theory.BOOLEANS)
}
"""For each theory the types in which its rules are proved: all of them."""

ANY_TYPE: Final = tuple(t for result in TYPES.values() for t in result)


@dataclass(frozen=True, slots=True)
class Instance:
    """A type for each type that a rule leaves open."""

    types: Mapping[DType, DType]
    bits: int | None = None  # of `index`, where one bit stands for all
    real: bool = False  # floats stand for real numbers
    wrapped: bool = False  # words are integers within limits, not rows of bits
    exact: bool = False  # the rule rounds nothing

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
            return Integers() if self.bits is None else BitVectors(dtype, self.bits)
        if dtype.kind is Kind.BOOL:
            return Booleans()
        if dtype.is_float:
            return Reals(dtype) if self.real else Floats(self.wider(dtype))
        return WrappingIntegers(dtype) if self.wrapped else BitVectors(dtype)

    def wider(self, dtype: DType) -> DType:
        """A float type that holds all values of one that the solver lacks, if nothing is rounded.

        What only negates, compares and chooses gives the same in both. So a rule that holds for
        all values of the wider type holds for those of the narrower one.
        """
        if self.exact and dtype.bits < dtypes.f16.bits and dtype.fits_in(dtypes.f16):
            return dtypes.f16
        return dtype

    def arrays(self, table: Table, *, huge: bool = False) -> dict[DType, Arithmetic]:
        """Arrays of cases."""
        return {sort: Arrays(dtype, table, huge=huge) for sort, dtype in self.types.items()}


def root_type(rule: Rule) -> DType:
    """Return the schema type of a rule: of a comparison that of its operands."""
    root = rule.before
    return root.src[0].dtype if root.op.group is ops.COMPARISON else root.dtype


def instances(rule: Rule, theory: Theory) -> Iterator[Instance]:
    """Yield the instances of a rule in a theory; none if it cannot fire there."""
    if root_type(rule) is terms.B and theory is not Theory.BOOLEANS:
        return
    bits = 1 if theory is Theory.INTEGERS and is_bitwise(rule) else None
    for types in _type_assignments(rule, theory):
        if _can_match(rule, types):
            yield Instance(types, bits, exact=rounds_nothing(rule, types))


def _type_assignments(rule: Rule, theory: Theory) -> Iterator[Mapping[DType, DType]]:
    """Yield types for the type variables of a rule; that of its root is one of the theory."""
    root = root_type(rule)
    sorts = {node.dtype for term in (rule.before, rule.after) for node in toposort(term)}
    fixed = {t: t for t in sorts if t.element.kind is not Kind.SCHEMA} | {terms.B: dtypes.boolean}
    free = [s for s in (terms.T, terms.U) if s in sorts and s is not root]
    for own in TYPES.get(theory, ()):
        for rest in product(ANY_TYPE, repeat=len(free)):
            chosen = dict(zip(free, rest, strict=True))
            if root is not terms.B:
                chosen[root] = own
            yield fixed | chosen


def _can_match(rule: Rule, types: Mapping[DType, DType]) -> bool:
    """Whether types represent the literals of a rule's left side, and satisfy its `fits` guards."""
    fits = [part for part in terms.conjuncts(rule.when) if part.arg == "fits"]
    return all(has_value(types[n.dtype], n.arg) for n in literals(rule.before)) and all(
        types[part.src[0].dtype].fits_in(types[part.src[1].dtype]) for part in fits
    )


def literals(term: UOp) -> list[UOp]:
    """Return the literals of a term."""
    return [node for node in toposort(term) if node.op is ops.CONST]


def has_value(dtype: DType, value: bool | int | float) -> bool:
    """Whether a constant of a type can equal a number, as the generated matcher compares.

    >>> has_value(dtypes.u32, 0xFFFFFFFF), has_value(dtypes.i32, 0xFFFFFFFF)
    (True, False)
    >>> has_value(dtypes.f64, 1e-60), has_value(dtypes.f32, 1e-60)
    (True, False)
    """
    try:
        return dtype.canonical(value) == value
    except TypeMismatch:
        return False


_EXACT: Final = frozenset(
    {ops.NEG, ops.MAX, ops.MIN, ops.WHERE, ops.AND, ops.OR, ops.XOR, ops.NOT, ops.HOLE, ops.CONST}
)


def rounds_nothing(rule: Rule, types: Mapping[DType, DType]) -> bool:
    """Whether a rule only negates, compares and selects, with literals exact in these types."""
    nodes = toposort(rule.before, rule.after, *terms.conjuncts(rule.when))
    return all(node.op in _EXACT or node.op.group is ops.COMPARISON for node in nodes) and all(
        has_value(types[node.dtype], node.arg) for node in nodes if node.op is ops.CONST
    )


_BITWISE: Final = frozenset({ops.AND, ops.OR, ops.XOR, ops.NOT})


def is_bitwise(rule: Rule) -> bool:
    """Whether a rule treats each bit independently, so that a proof for one bit is enough.

    An unbounded integer is an infinite sequence of bits, none set in 0 and all set in -1.
    """

    def fits(node: UOp) -> bool:
        if node.op is ops.CONST:
            return node.arg in (0, -1)
        return node.op is ops.HOLE or node.op in _BITWISE

    nodes = toposort(rule.before, rule.after)
    return rule.when is None and all(map(fits, nodes)) and any(n.op in _BITWISE for n in nodes)
