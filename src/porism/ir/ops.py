"""Ops: the one table of everything a node can be.

A row says what an op is called, how many sources it takes, which dtypes fit (`signature`), what is
known of its value (`bounds`, `residue`), what it computes (`meaning`), how a person writes it
(`symbol`) and what it is for. Everything else - constructor, checker, evaluator, printer, parser,
random graphs - reads this table.
"""

from __future__ import annotations

import difflib
import enum
import zlib
from typing import TYPE_CHECKING, Any, Final

from porism.base.dtypes import SLOTS, Space
from porism.base.errors import TypeMismatch
from porism.base.fast_enum import quick
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


@quick
class Group(enum.Enum):
    """What sort of thing an op is; the table is ordered by it."""

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
    """A row of the table. Calling it makes a node, with the construction-time rules applied."""

    __slots__ = (
        "arity",
        "bounds",
        "code",
        "commutative",
        "doc",
        "elementwise",
        "group",
        "keyed",
        "least",
        "loose",
        "meaning",
        "name",
        "nodes",
        "raw",
        "residue",
        "ruled",
        "rules",
        "signature",
        "symbol",
        "typed",
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
        residue: Any = r.nothing,
        meaning: s.Meaning | None = None,
        least: int | None = None,
        commutative: bool = False,
    ) -> None:
        self.name = name
        self.code = zlib.crc32(name.encode())  # a number, the same in every process
        self.group = group
        self.arity = arity  # ANY_NUMBER, or exactly so many sources
        self.least = (0 if arity == ANY_NUMBER else arity) if least is None else least
        self.signature = signature
        self.doc = doc
        self.symbol = symbol
        self.bounds = bounds
        self.residue = residue
        self.meaning = meaning
        self.commutative = commutative
        self.elementwise = group in ELEMENTWISE
        # An elementwise node is told by its sources alone; others also by dtype and argument.
        self.keyed = not self.elementwise
        self.nodes: dict[Any, UOp] = {}  # key -> the node in normal form; see node.py
        self.raw: dict[Any, UOp] = {}  # key -> a node that is not in normal form
        self.loose: WeakValues[Any, UOp] = WeakValues()  # key -> on memory
        self.typed: dict[Any, Any] = {}  # types of sources -> dtype, where the signature agreed
        self.ruled = False  # whether there are rules for any of its types
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
    """Make a node; replaced by node.py, which knows how."""
    raise RuntimeError("porism.ir.node is not imported")


_TABLE: Final[dict[str, Op]] = {}


def op(name: str) -> Op:
    """The op with this name.

    >>> op("ADD").symbol
    '+'
    """
    found = _TABLE.get(name)
    if found is None:
        close = difflib.get_close_matches(name.upper(), _TABLE, 1)
        raise TypeMismatch(
            f"there is no op {name!r}",
            fix=f"did you mean {close[0]}?" if close else "porism.ir.ops lists all ops",
        )
    return found


def table() -> tuple[Op, ...]:
    """All ops, in the order of the table."""
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
          bounds=b.bind, residue=r.nothing)
RANGE = Op("RANGE", LEAF, N, t.loop, "0 … end-1 in turn: (axis, kind); then what it waits for",
           bounds=b.counter, least=1)
SPECIAL = Op("SPECIAL", LEAF, 1, t.special, "a block or thread index of the machine, below end",
             bounds=b.counter)
PARAM = Op("PARAM", LEAF, N, t.parameter, "an input by number: a tensor with dims, or a pointer",
           bounds=b.unknown)
BUFFER = Op("BUFFER", LEAF, N, t.buffer, "memory that a user holds: (id, device), with dims",
            bounds=b.unknown)
DEFINE_LOCAL = Op("DEFINE_LOCAL", LEAF, 0, t.allocation(Space.LOCAL), "memory of a thread block")
DEFINE_REG = Op("DEFINE_REG", LEAF, 0, t.allocation(Space.REGISTER), "registers of a thread")
IOTA = Op("IOTA", LEAF, N, t.counted, "the position of each element along an axis, with dims",
          bounds=b.position, least=1)
INVALID = Op("INVALID", LEAF, 0, t.no_element, "the index of no element", symbol="invalid")

# -- arithmetic on one value -----------------------------------------------------------------------
NEG = Op("NEG", UNARY, 1, t.numeric, "-x; integers wrap", symbol="-",
         bounds=b.neg, residue=r.neg, meaning=s.neg)
NOT = Op("NOT", UNARY, 1, t.logical, "logical not of a bool, all bits of an integer", symbol="~",
         bounds=b.bit_not, meaning=s.bit_not)
SQRT = Op("SQRT", UNARY, 1, t.floating, "square root", meaning=s.sqrt)
EXP = Op("EXP", UNARY, 1, t.floating, "e to the power x", meaning=s.exp)
EXP2 = Op("EXP2", UNARY, 1, t.floating, "2 to the power x", meaning=s.exp2)
EXPM1 = Op("EXPM1", UNARY, 1, t.floating, "e to the power x, less 1", meaning=s.expm1)
TANH = Op("TANH", UNARY, 1, t.floating, "hyperbolic tangent", meaning=s.tanh)
LOG2 = Op("LOG2", UNARY, 1, t.floating, "logarithm to base 2", meaning=s.log2)
SIN = Op("SIN", UNARY, 1, t.floating, "sine", meaning=s.sin)
RECIPROCAL = Op("RECIPROCAL", UNARY, 1, t.floating, "1/x", meaning=s.reciprocal)
TRUNC = Op("TRUNC", UNARY, 1, t.numeric, "towards zero",
           bounds=b.first, residue=r.first, meaning=s.trunc)
FLOOR = Op("FLOOR", UNARY, 1, t.numeric, "to the next whole number below",
           bounds=b.first, residue=r.first, meaning=s.floor)
CEIL = Op("CEIL", UNARY, 1, t.numeric, "to the next whole number above",
          bounds=b.first, residue=r.first, meaning=s.ceil)
ROUND = Op("ROUND", UNARY, 1, t.numeric, "to the nearest whole number, ties to even",
           bounds=b.first, residue=r.first, meaning=s.nearest)

# -- arithmetic on two values ----------------------------------------------------------------------
ADD = Op("ADD", BINARY, 2, t.numeric, "sum", symbol="+", commutative=True,
         bounds=b.add, residue=r.add, meaning=s.add)
SUB = Op("SUB", BINARY, 2, t.numeric, "difference", symbol="-",
         bounds=b.sub, residue=r.sub, meaning=s.sub)
MUL = Op("MUL", BINARY, 2, t.numeric, "product", symbol="*", commutative=True,
         bounds=b.mul, residue=r.mul, meaning=s.mul)
FDIV = Op("FDIV", BINARY, 2, t.floating, "quotient of floats", symbol="/", meaning=s.fdiv)
IDIV = Op("IDIV", BINARY, 2, t.integral, "floor division", symbol="//",
          bounds=b.idiv, residue=r.idiv, meaning=s.idiv)
MOD = Op("MOD", BINARY, 2, t.integral, "floor modulo, with the divisor's sign", symbol="%",
         bounds=b.mod, residue=r.mod, meaning=s.mod)
CDIV = Op("CDIV", BINARY, 2, t.integral, "division towards zero, as in C", symbol="cdiv",
          bounds=b.cdiv, meaning=s.cdiv)
CMOD = Op("CMOD", BINARY, 2, t.integral, "remainder of CDIV, with the dividend's sign",
          symbol="cmod", bounds=b.cmod, meaning=s.cmod)
MAX = Op("MAX", BINARY, 2, t.valued, "the larger; NaN if either is", symbol="max", commutative=True,
         bounds=b.maximum, residue=r.hull, meaning=s.maximum)
MIN = Op("MIN", BINARY, 2, t.valued, "the smaller; NaN if either is", symbol="min",
         commutative=True, bounds=b.minimum, residue=r.hull, meaning=s.minimum)
POW = Op("POW", BINARY, 2, t.numeric, "power; exact and wrapping on integers", symbol="**",
         meaning=s.power)
LDEXP = Op("LDEXP", BINARY, 2, t.floating, "x times 2 to the power of a whole number",
           meaning=s.ldexp)
AND = Op("AND", BINARY, 2, t.logical, "and, bit by bit", symbol="&", commutative=True,
         bounds=b.bit_and, meaning=s.bit_and)
OR = Op("OR", BINARY, 2, t.logical, "or, bit by bit", symbol="|", commutative=True,
        bounds=b.bit_or, meaning=s.bit_or)
XOR = Op("XOR", BINARY, 2, t.logical, "exclusive or, bit by bit", symbol="^", commutative=True,
         bounds=b.bit_xor, meaning=s.bit_xor)
SHL = Op("SHL", BINARY, 2, t.integral, "times a power of two", symbol="<<",
         bounds=b.shl, residue=r.shl, meaning=s.shl)
SHR = Op("SHR", BINARY, 2, t.integral, "floor division by a power of two", symbol=">>",
         bounds=b.shr, meaning=s.shr)
THREEFRY = Op("THREEFRY", BINARY, 2, t.random_bits, "random bits of (counter, key)",
              meaning=s.threefry)

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
WHERE = Op("WHERE", TERNARY, 3, t.choice, "the second value where the condition holds, else the "
           "third", bounds=b.where, residue=r.where, meaning=s.where)
MULACC = Op("MULACC", TERNARY, 3, t.numeric, "x*y + z, rounded once", bounds=b.mulacc,
            residue=r.mulacc, meaning=s.mulacc)

# -- conversions -----------------------------------------------------------------------------------
CAST = Op("CAST", CONVERSION, 1, t.conversion, "the value in another type",
          bounds=b.cast, residue=r.cast)
BITCAST = Op("BITCAST", CONVERSION, 1, t.reinterpretation, "the same bits as another type")

# -- vectors ---------------------------------------------------------------------------------------
VECTORIZE = Op("VECTORIZE", VECTOR, N, v.gathered, "scalars as the lanes of a vector", least=1,
               bounds=b.hull, residue=r.hull)
GEP = Op("GEP", VECTOR, 1, v.lanes, "some lanes of a vector", bounds=b.first, residue=r.first)
CAT = Op("CAT", VECTOR, N, v.concatenated, "vectors one after the other", least=1,
         bounds=b.hull, residue=r.hull)
PTRCAT = Op("PTRCAT", VECTOR, N, v.pointers, "pointers as the lanes of one access", least=1)
UNROLL = Op("UNROLL", VECTOR, 1, v.unrolled, "lanes as values of unrolled axes: ((axis, size), …)",
            bounds=b.first, residue=r.first)
CONTRACT = Op("CONTRACT", VECTOR, 1, v.contracted, "values of unrolled axes as lanes",
              bounds=b.first, residue=r.first)
WMMA = Op("WMMA", VECTOR, 3, v.matrix, "a tensor core's a·b + c")

# -- memory ----------------------------------------------------------------------------------------
INDEX = Op("INDEX", MEMORY, N, t.access, "an element of a buffer, or the pointer to it: "
           "(buffer, index…, gate?)", least=1)
LOAD = Op("LOAD", MEMORY, N, t.load, "the value at a pointer: (pointer, value if gated off?)",
          least=1)
STORE = Op("STORE", MEMORY, 2, t.store, "write a value at an index or pointer")

# -- order and control flow ------------------------------------------------------------------------
END = Op("END", CONTROL, N, t.loop_end, "the effect, for every value of the ranges", least=1)
AFTER = Op("AFTER", CONTROL, N, t.passing, "the first source, once the others have happened",
           least=1, bounds=b.first, residue=r.first)
BARRIER = Op("BARRIER", CONTROL, N, t.plain_effect, "every thread of a block waits for the others")
GROUP = Op("GROUP", CONTROL, N, t.plain_effect, "several effects")
SINK = Op("SINK", CONTROL, N, t.effect, "the root of a graph or kernel")
NOOP = Op("NOOP", CONTROL, N, t.plain_effect, "no effect")
IF = Op("IF", CONTROL, N, t.condition, "what depends on it happens only if the condition holds",
        least=1)
ENDIF = Op("ENDIF", CONTROL, N, t.condition_end, "the end of an IF", least=1)
CALL = Op("CALL", CONTROL, N, t.call, "run a kernel (its SINK) on buffers", least=1)

# -- movement --------------------------------------------------------------------------------------
RESHAPE = Op("RESHAPE", MOVEMENT, N, t.shaped, "the same elements under other dims: (x, dim…)",
             least=1, bounds=b.first, residue=r.first)
PERMUTE = Op("PERMUTE", MOVEMENT, 1, t.permuted, "the axes in another order",
             bounds=b.first, residue=r.first)
EXPAND = Op("EXPAND", MOVEMENT, N, t.shaped, "axes of size 1 repeated: (x, dim…)", least=1,
            bounds=b.first, residue=r.first)
PAD = Op("PAD", MOVEMENT, N, t.shaped, "zeros around: (x, before, after, …) for each axis", least=1,
         bounds=b.padded, residue=r.padded)
SHRINK = Op("SHRINK", MOVEMENT, N, t.shaped, "a part: (x, begin, end, …) for each axis", least=1,
            bounds=b.first, residue=r.first)
FLIP = Op("FLIP", MOVEMENT, 1, t.flipped, "axes backwards", bounds=b.first, residue=r.first)

# -- reductions ------------------------------------------------------------------------------------
REDUCE_AXIS = Op("REDUCE_AXIS", REDUCTION, 1, t.axis_reduction, "a tensor reduced over axes, which "
                 "stay with size 1: (op, axes)")
REDUCE = Op("REDUCE", REDUCTION, N, t.range_reduction, "a value reduced over ranges", least=1,
            bounds=b.reduce_ranges)

# -- tensor graph ----------------------------------------------------------------------------------
CONTIGUOUS = Op("CONTIGUOUS", GRAPH, 1, t.valued_passing, "the value, laid out in memory",
                bounds=b.first, residue=r.first)
GATHER = Op("GATHER", GRAPH, N, t.gathering, "elements of a tensor: (x, index tensor for each "
            "axis…); 0 where an index is outside", least=2, bounds=b.padded, residue=r.padded)
COPY = Op("COPY", GRAPH, 1, t.copied, "the value on another device",
          bounds=b.first, residue=r.first)
ASSIGN = Op("ASSIGN", GRAPH, 2, t.assigned, "the target, overwritten with the value")
BUFFERIZE = Op("BUFFERIZE", GRAPH, N, t.placed, "the value, kept in memory for these ranges: space",
               least=1, bounds=b.first, residue=r.first)

# -- rewrite rules ---------------------------------------------------------------------------------
HOLE = Op("HOLE", PATTERN, 0, t.hole, "any node, in a pattern")
FACT = Op("FACT", PATTERN, N, t.fact, "what is known of a node, in a guard")
# fmt: on
