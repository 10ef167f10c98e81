"""Ops: the one table of everything a node can be.

A row has the name of an op, the number of its sources, the dtypes that it accepts (`signature`),
bounds and residue of its value (`bounds`, `residue`), what it computes (`meaning`), what that costs
(`cost`) and whether it is rounded correctly (`approximate`), its operator in expressions (`symbol`)
and a line of documentation. Constructor, checker, evaluator, cost models, printer, parser, random
graphs and tests read this table.

The unit of `cost` is an addition in a vectorized loop. Costs are rough, in the proportions measured
on a CPU (`./dev bench ops`); an op that machines do not have costs what it is decomposed into.
"""

from __future__ import annotations

import difflib
import enum
import zlib
from typing import TYPE_CHECKING, Any, Final

from porism.base.dtypes import SLOTS, Space
from porism.base.errors import TypeMismatch
from porism.base.fast_enum import fast_enum
from porism.base.weak_tables import WeakValues
from porism.ir import lane_signatures as v
from porism.ir import op_signatures as t
from porism.ir.facts import intervals as b
from porism.ir.facts import residues as r
from porism.ir.facts import semantics as s

if TYPE_CHECKING:
    from porism.ir.node import UOp

ANY_NUMBER: Final = -1
"""The arity of an op that takes any number of sources, or a few optional ones."""


@fast_enum
class Group(enum.Enum):
    """The groups of ops, in the order of the table."""

    LEAF = "leaves"
    UNARY = "arithmetic on one value"
    BINARY = "arithmetic on two values"
    COMPARISON = "comparisons"
    TERNARY = "arithmetic on three values"
    CONVERSION = "conversions"
    VECTOR = "vectors"
    MEMORY = "memory"
    CONTROL = "order and control flow"
    MOVEMENT = "movement"
    REDUCTION = "reductions"
    GRAPH = "tensor graph"
    PATTERN = "rewrite rules"


ELEMENTWISE: Final = (Group.UNARY, Group.BINARY, Group.COMPARISON, Group.TERNARY)


class Op:
    """A row of the table; calling it returns a node in normal form."""

    __slots__ = (
        "approximate",
        "arity",
        "bounds",
        "code",
        "commutative",
        "cost",
        "doc",
        "dtype_cache",
        "elementwise",
        "group",
        "has_rules",
        "keyed",
        "meaning",
        "min_arity",
        "name",
        "nodes",
        "raw",
        "residue",
        "rules",
        "signature",
        "symbol",
        "weak_nodes",
    )

    def __init__(
        self,
        name: str,
        group: Group,
        arity: int,
        signature: t.Signature,
        doc: str,
        *,
        symbol: str = "",
        bounds: Any = b.unknown,
        residue: Any = r.unknown,
        meaning: s.Meaning | None = None,
        min_arity: int | None = None,
        commutative: bool = False,
        cost: float = 1.0,
        approximate: bool = False,
    ) -> None:
        self.name = name
        self.code = zlib.crc32(name.encode())  # the same in every process, unlike hash(name)
        self.group = group
        self.arity = arity  # the number of sources, or ANY_NUMBER
        self.min_arity = (0 if arity == ANY_NUMBER else arity) if min_arity is None else min_arity
        self.signature = signature
        self.doc = doc
        self.symbol = symbol
        self.bounds = bounds
        self.residue = residue
        self.meaning = meaning
        self.commutative = commutative
        self.cost = cost
        self.approximate = approximate  # whether machines compute it within an error bound
        self.elementwise = group in ELEMENTWISE
        # The sources alone identify an elementwise node; others also need dtype and argument.
        self.keyed = not self.elementwise
        self.nodes: dict[Any, UOp] = {}  # key -> the node in normal form; see node.py
        self.raw: dict[Any, UOp] = {}  # key -> a node that is not in normal form
        self.weak_nodes: WeakValues[Any, UOp] = WeakValues()  # key -> a node that uses a BUFFER
        self.dtype_cache: dict[Any, Any] = {}  # dtypes of sources -> dtype that the signature gave
        self.has_rules = False  # whether there are rules for any of its types
        self.rules: list[Any] = [None] * SLOTS  # construction-time rules by dtype.slot
        _TABLE[name] = self

    def __repr__(self) -> str:
        return self.name

    def __call__(self, *src: UOp, dtype: Any = None, arg: Any = None) -> UOp:
        return construct(self, dtype, src, arg)

    def __copy__(self) -> Op:
        return self

    def __deepcopy__(self, _memo: object) -> Op:
        return self

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (op, (self.name,))


def construct(op: Op, dtype: Any, src: tuple[UOp, ...], arg: Any) -> UOp:
    """Make a node in normal form; `porism.ir.node` replaces this function by its own."""
    raise RuntimeError("porism.ir.node is not imported")


_TABLE: Final[dict[str, Op]] = {}


def op(name: str) -> Op:
    """Return the op with this name.

    >>> op("ADD").symbol
    '+'
    """
    named = _TABLE.get(name)
    if named is None:
        close = difflib.get_close_matches(name.upper(), _TABLE, 1)
        raise TypeMismatch(
            f"there is no op {name!r}",
            fix=f"did you mean {close[0]}?" if close else "porism.ir.ops lists all ops",
        )
    return named


def table() -> tuple[Op, ...]:
    """Return all ops, in the order of the table."""
    return tuple(_TABLE.values())


N = ANY_NUMBER
LEAF, UNARY, BINARY, TERNARY = Group.LEAF, Group.UNARY, Group.BINARY, Group.TERNARY
COMPARISON, CONVERSION, VECTOR, MEMORY = (
    Group.COMPARISON,
    Group.CONVERSION,
    Group.VECTOR,
    Group.MEMORY,
)
CONTROL, MOVEMENT, REDUCTION = Group.CONTROL, Group.MOVEMENT, Group.REDUCTION
GRAPH, PATTERN = Group.GRAPH, Group.PATTERN

# fmt: off
# -- leaves ----------------------------------------------------------------------------------------
CONST = Op("CONST", LEAF, 0, t.constant, "a number, in every lane",
           bounds=b.const, residue=r.const)
VCONST = Op("VCONST", LEAF, 0, t.vector_constant, "a number for each lane",
            bounds=b.vconst, residue=r.vconst)
VARIABLE = Op("VARIABLE", LEAF, 0, t.variable, "an integer given at run time: (name, low, high)",
              bounds=b.variable)
BIND = Op("BIND", LEAF, 2, t.bound_variable, "a variable and the value it has in this run",
          bounds=b.bind, residue=r.unknown)
RANGE = Op("RANGE", LEAF, N, t.loop, "the induction variable of a loop, 0 … end-1: (axis, kind); "
           "later sources are effects that precede the loop",
           bounds=b.loop_index, min_arity=1)
SPECIAL = Op("SPECIAL", LEAF, 1, t.special, "a block or thread index of a GPU, 0 … end-1",
             bounds=b.loop_index)
PARAM = Op("PARAM", LEAF, N, t.parameter, "an input by number: a tensor with dims, or a pointer",
           bounds=b.unknown)
BUFFER = Op("BUFFER", LEAF, N, t.buffer, "memory of a tensor: (id, device), with dims",
            bounds=b.unknown)
DEFINE_LOCAL = Op("DEFINE_LOCAL", LEAF, 0, t.allocation(Space.LOCAL),
                  "memory shared by a thread block")
DEFINE_REG = Op("DEFINE_REG", LEAF, 0, t.allocation(Space.REGISTER), "registers of a thread")
IOTA = Op("IOTA", LEAF, N, t.iota, "the index of each element along an axis, with dims",
          bounds=b.iota, min_arity=1)
INVALID = Op("INVALID", LEAF, 0, t.invalid_index, "the index of no element: a masked access",
             symbol="invalid")

# -- arithmetic on one value -----------------------------------------------------------------------
NEG = Op("NEG", UNARY, 1, t.numeric, "-x; integers wrap", symbol="-",
         bounds=b.neg, residue=r.neg, meaning=s.neg)
NOT = Op("NOT", UNARY, 1, t.logical, "logical not of a bool, all bits of an integer", symbol="~",
         bounds=b.bit_not, meaning=s.bit_not)
SQRT = Op("SQRT", UNARY, 1, t.floating, "square root", meaning=s.sqrt, cost=8)
EXP = Op("EXP", UNARY, 1, t.floating, "e to the power x", meaning=s.exp,
         cost=12, approximate=True)
EXP2 = Op("EXP2", UNARY, 1, t.floating, "2 to the power x", meaning=s.exp2,
          cost=10, approximate=True)
EXPM1 = Op("EXPM1", UNARY, 1, t.floating, "e to the power x, minus 1", meaning=s.expm1,
           cost=12, approximate=True)
TANH = Op("TANH", UNARY, 1, t.floating, "hyperbolic tangent", meaning=s.tanh,
          cost=12, approximate=True)
LOG2 = Op("LOG2", UNARY, 1, t.floating, "logarithm to base 2", meaning=s.log2,
          cost=24, approximate=True)
SIN = Op("SIN", UNARY, 1, t.floating, "sine", meaning=s.sin,
         cost=80, approximate=True)
RECIPROCAL = Op("RECIPROCAL", UNARY, 1, t.floating, "1/x", meaning=s.reciprocal, cost=5)
TRUNC = Op("TRUNC", UNARY, 1, t.numeric, "round towards zero",
           bounds=b.first, residue=r.first, meaning=s.trunc)
FLOOR = Op("FLOOR", UNARY, 1, t.numeric, "round down to an integer",
           bounds=b.first, residue=r.first, meaning=s.floor)
CEIL = Op("CEIL", UNARY, 1, t.numeric, "round up to an integer",
          bounds=b.first, residue=r.first, meaning=s.ceil)
ROUND = Op("ROUND", UNARY, 1, t.numeric, "round to the nearest integer, ties to even",
           bounds=b.first, residue=r.first, meaning=s.nearest)

# -- arithmetic on two values ----------------------------------------------------------------------
ADD = Op("ADD", BINARY, 2, t.numeric, "sum", symbol="+", commutative=True,
         bounds=b.add, residue=r.add, meaning=s.add)
SUB = Op("SUB", BINARY, 2, t.numeric, "difference", symbol="-",
         bounds=b.sub, residue=r.sub, meaning=s.sub)
MUL = Op("MUL", BINARY, 2, t.numeric, "product", symbol="*", commutative=True,
         bounds=b.mul, residue=r.mul, meaning=s.mul)
FDIV = Op("FDIV", BINARY, 2, t.floating, "quotient of floats", symbol="/", meaning=s.fdiv,
          cost=5)
IDIV = Op("IDIV", BINARY, 2, t.integral, "floor division", symbol="//",
          bounds=b.idiv, residue=r.idiv, meaning=s.idiv, cost=20)
MOD = Op("MOD", BINARY, 2, t.integral, "floor modulo, with the divisor's sign", symbol="%",
         bounds=b.mod, residue=r.mod, meaning=s.mod, cost=20)
CDIV = Op("CDIV", BINARY, 2, t.integral, "division towards zero, as in C", symbol="cdiv",
          bounds=b.cdiv, meaning=s.cdiv, cost=20)
CMOD = Op("CMOD", BINARY, 2, t.integral, "remainder of CDIV, with the dividend's sign",
          symbol="cmod", bounds=b.cmod, meaning=s.cmod, cost=20)
MAX = Op("MAX", BINARY, 2, t.valued, "the larger; NaN if either is", symbol="max", commutative=True,
         bounds=b.maximum, residue=r.hull, meaning=s.maximum)
MIN = Op("MIN", BINARY, 2, t.valued, "the smaller; NaN if either is", symbol="min",
         commutative=True, bounds=b.minimum, residue=r.hull, meaning=s.minimum)
POW = Op("POW", BINARY, 2, t.numeric, "power; exact and wrapping on integers", symbol="**",
         meaning=s.power, cost=80, approximate=True)
LDEXP = Op("LDEXP", BINARY, 2, t.floating, "x times 2 to an integer power",
           meaning=s.ldexp)
AND = Op("AND", BINARY, 2, t.logical, "bitwise and", symbol="&", commutative=True,
         bounds=b.bit_and, meaning=s.bit_and)
OR = Op("OR", BINARY, 2, t.logical, "bitwise or", symbol="|", commutative=True,
        bounds=b.bit_or, meaning=s.bit_or)
XOR = Op("XOR", BINARY, 2, t.logical, "bitwise exclusive or", symbol="^", commutative=True,
         bounds=b.bit_xor, meaning=s.bit_xor)
SHL = Op("SHL", BINARY, 2, t.integral, "left shift: multiplication by a power of two", symbol="<<",
         bounds=b.shl, residue=r.shl, meaning=s.shl)
SHR = Op("SHR", BINARY, 2, t.integral, "right shift: floor division by a power of two", symbol=">>",
         bounds=b.shr, meaning=s.shr)
THREEFRY = Op("THREEFRY", BINARY, 2, t.random_bits, "counter-based random bits: (counter, key)",
              meaning=s.threefry, cost=80)

# -- comparisons -----------------------------------------------------------------------------------
LT = Op("LT", COMPARISON, 2, t.comparison, "less", symbol="<", bounds=b.lt, meaning=s.lt)
LE = Op("LE", COMPARISON, 2, t.comparison, "less or equal", symbol="<=", bounds=b.le, meaning=s.le)
GT = Op("GT", COMPARISON, 2, t.comparison, "greater", symbol=">", bounds=b.gt, meaning=s.gt)
GE = Op("GE", COMPARISON, 2, t.comparison, "greater or equal", symbol=">=", bounds=b.ge,
        meaning=s.ge)
EQ = Op("EQ", COMPARISON, 2, t.comparison, "equal; NaN equals nothing", symbol="==",
        commutative=True, bounds=b.eq, meaning=s.eq)
NE = Op("NE", COMPARISON, 2, t.comparison, "not equal", symbol="!=", commutative=True, bounds=b.ne,
        meaning=s.ne)

# -- arithmetic on three values --------------------------------------------------------------------
WHERE = Op("WHERE", TERNARY, 3, t.choice, "select: the second value where the condition holds, "
           "else the third", bounds=b.where, residue=r.where, meaning=s.where)
MULACC = Op("MULACC", TERNARY, 3, t.numeric, "fused x*y + z, rounded once", bounds=b.mulacc,
            residue=r.mulacc, meaning=s.mulacc)

# -- conversions -----------------------------------------------------------------------------------
CAST = Op("CAST", CONVERSION, 1, t.conversion, "the value converted to another type",
          bounds=b.cast, residue=r.cast)
BITCAST = Op("BITCAST", CONVERSION, 1, t.reinterpretation, "the same bits in another type")

# -- vectors ---------------------------------------------------------------------------------------
VECTORIZE = Op("VECTORIZE", VECTOR, N, v.vectorize, "scalars as the lanes of a vector", min_arity=1,
               bounds=b.hull, residue=r.hull)
GEP = Op("GEP", VECTOR, 1, v.lane_selection, "selected lanes of a vector",
         bounds=b.first, residue=r.first)
CAT = Op("CAT", VECTOR, N, v.concatenate, "concatenation of vectors", min_arity=1,
         bounds=b.hull, residue=r.hull)
PTRCAT = Op("PTRCAT", VECTOR, N, v.concatenate_pointers, "pointers as the lanes of one access",
            min_arity=1)
UNROLL = Op("UNROLL", VECTOR, 1, v.unroll, "lanes as values of unrolled axes: ((axis, size), …)",
            bounds=b.first, residue=r.first)
CONTRACT = Op("CONTRACT", VECTOR, 1, v.contract, "values of unrolled axes as lanes",
              bounds=b.first, residue=r.first)
WMMA = Op("WMMA", VECTOR, 3, v.matrix_product, "the matrix product a·b + c of a tensor core")

# -- memory ----------------------------------------------------------------------------------------
INDEX = Op("INDEX", MEMORY, N, t.access, "an element of a buffer, or the pointer to it: "
           "(buffer, index…, gate?)", min_arity=1)
LOAD = Op("LOAD", MEMORY, N, t.load, "the value at a pointer: (pointer, value if gated off?)",
          min_arity=1)
STORE = Op("STORE", MEMORY, 2, t.store, "write a value at an index or pointer")

# -- order and control flow ------------------------------------------------------------------------
END = Op("END", CONTROL, N, t.loop_end, "the end of loops: the effect, in every iteration of the "
         "ranges", min_arity=1)
AFTER = Op("AFTER", CONTROL, N, t.like_first, "the first source, after the effects of the others",
           min_arity=1, bounds=b.first, residue=r.first)
BARRIER = Op("BARRIER", CONTROL, N, t.plain_effect, "synchronize the threads of a block")
GROUP = Op("GROUP", CONTROL, N, t.plain_effect, "several effects")
SINK = Op("SINK", CONTROL, N, t.effect, "the root of a graph or kernel")
NOOP = Op("NOOP", CONTROL, N, t.plain_effect, "no effect")
IF = Op("IF", CONTROL, N, t.condition, "the begin of effects that need the condition to hold",
        min_arity=1)
ENDIF = Op("ENDIF", CONTROL, N, t.condition_end, "the end of an IF", min_arity=1)
CALL = Op("CALL", CONTROL, N, t.call, "run a kernel (its SINK) on buffers", min_arity=1)

# -- movement --------------------------------------------------------------------------------------
RESHAPE = Op("RESHAPE", MOVEMENT, N, t.movement, "the same elements with other dims: (x, dim…)",
             min_arity=1, bounds=b.first, residue=r.first)
PERMUTE = Op("PERMUTE", MOVEMENT, 1, t.permute, "the axes in another order (a transposition)",
             bounds=b.first, residue=r.first)
EXPAND = Op("EXPAND", MOVEMENT, N, t.movement, "axes of size 1 repeated: (x, dim…)", min_arity=1,
            bounds=b.first, residue=r.first)
PAD = Op("PAD", MOVEMENT, N, t.movement, "zeros around: (x, before, after, …) for each axis",
         min_arity=1, bounds=b.zero_padded, residue=r.zero_padded)
SHRINK = Op("SHRINK", MOVEMENT, N, t.movement, "a slice: (x, begin, end, …) for each axis",
            min_arity=1, bounds=b.first, residue=r.first)
FLIP = Op("FLIP", MOVEMENT, 1, t.flip, "axes reversed", bounds=b.first, residue=r.first)

# -- reductions ------------------------------------------------------------------------------------
REDUCE_AXIS = Op("REDUCE_AXIS", REDUCTION, 1, t.axis_reduction, "a tensor reduced over axes, which "
                 "stay with size 1: (op, axes)")
REDUCE = Op("REDUCE", REDUCTION, N, t.range_reduction, "a value reduced over ranges", min_arity=1,
            bounds=b.reduce_ranges)

# -- tensor graph ----------------------------------------------------------------------------------
CONTIGUOUS = Op("CONTIGUOUS", GRAPH, 1, t.value_like_first, "the value, contiguous in memory",
                bounds=b.first, residue=r.first)
GATHER = Op("GATHER", GRAPH, N, t.gather, "gathered elements of a tensor: (x, index tensor for "
            "each axis…); 0 where an index is out of bounds", min_arity=2,
            bounds=b.zero_padded, residue=r.zero_padded)
COPY = Op("COPY", GRAPH, 1, t.copy, "the value on another device",
          bounds=b.first, residue=r.first)
ASSIGN = Op("ASSIGN", GRAPH, 2, t.assign, "the target, overwritten with the value")
PULLBACK = Op("PULLBACK", GRAPH, N, t.stated_pullback, "the first source, differentiated as its "
              "argument (name, parameter…) states: (value, input…)", min_arity=1,
              bounds=b.first, residue=r.first)
BUFFERIZE = Op("BUFFERIZE", GRAPH, N, t.bufferize, "the value, stored in a buffer with an axis "
               "for each range: space", min_arity=1, bounds=b.first, residue=r.first)

# -- rewrite rules ---------------------------------------------------------------------------------
HOLE = Op("HOLE", PATTERN, 0, t.hole, "matches any node, in a pattern")
FACT = Op("FACT", PATTERN, N, t.fact, "a property of a node, in a guard, such as a bound")
# fmt: on
