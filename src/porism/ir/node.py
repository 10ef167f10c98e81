"""UOp: the one node type of every graph, immutable and hash-consed.

Two nodes of equal structure are the same object, so `is` compares structure. There are two ways to
make a node: `UOp(op, dtype, src, arg)` gives exactly that node, while operators (`x + 1`) and ops
called like functions (`ops.ADD(x, y)`) also apply the construction-time rules installed by
`porism.rewrite.construction`, and give the normal form.

Interning: each op has a table `nodes` from a key (the sources; and dtype and argument where they do
not follow) to the node in normal form, and a table `raw` of the nodes that are not. A hit takes one
dictionary look-up and no lock. The tables hold nodes strongly; `porism.ir.node_collector` drops
those that nothing else refers to. Nodes on a BUFFER are in a third table, `loose`, which does not
hold them: memory goes back as soon as the last tensor that needs it is gone.
"""

from __future__ import annotations

import operator
import sys
import threading
from typing import Any, Final, NoReturn

from porism.base import dtypes
from porism.base.dtypes import INFINITY, DType
from porism.base.errors import TypeMismatch
from porism.base.fork_locks import held_while_forking
from porism.ir import operators, ops
from porism.ir.axis import Axis
from porism.ir.construction_dispatch import signature_of, slot_of
from porism.ir.draft import Draft
from porism.ir.facts import residues
from porism.ir.facts.open_ranges import in_order, left_open, united
from porism.ir.facts.shaped import is_on_memory, is_shaped
from porism.ir.op_signatures import Misfit
from porism.ir.ops import ANY_NUMBER, Op
from porism.ir.text import argument_text, structural_digest

_CONST: Final = ops.CONST
_ANYTHING: Final = (-INFINITY, INFINITY)
_INTEGER_SLOTS: Final = (dtypes.index.slot, dtypes.i32.slot)
_BOOL_SLOT: Final = dtypes.boolean.slot


class UOp(Draft, operators.Operators):
    """One operation on other nodes.

    >>> i = UOp.variable("i", 0, 9)
    >>> (i + 1) is (i + 1), (i * 4).vmax, (i * 4 + 1).residue
    (True, 36, (4, 1))
    """

    __slots__ = ()

    def __new__(
        cls, op: Op, dtype: DType | None = None, src: tuple[UOp, ...] = (), arg: Any = None
    ) -> UOp:
        return raw(op, dtype, src, arg)

    def __setattr__(self, name: str, _value: object = None) -> NoReturn:
        raise AttributeError(f"a UOp cannot be changed: its {name} was set when it was made")

    __delattr__ = __setattr__

    def __copy__(self) -> UOp:
        return self

    def __deepcopy__(self, _memo: object) -> UOp:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "nodes are not pickled; use porism.ir.text.serialization to write and read graphs"
        )

    def __repr__(self) -> str:
        from porism.ir.text.expression import show, size_text

        return size_text(self) or f"UOp({self.op.name} {self.dtype} {show(self, limit=120)})"

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a node stands for values that are not known yet, so it is neither true nor false; "
            "compare nodes with `is`, and combine conditions with & and |"
        )

    # -- leaves ------------------------------------------------------------------------------------

    @staticmethod
    def const(dtype: DType, value: Any) -> UOp:
        """A constant; the same in each lane of a vector type.

        >>> UOp.const(dtypes.i8, 200).arg
        -56
        """
        return const(dtype, value)

    @staticmethod
    def variable(name: str, low: int | None = None, high: int | None = None) -> UOp:
        """An `index` variable with inclusive bounds; None where there is none."""
        return construct(ops.VARIABLE, dtypes.index, (), (name, low, high))

    @staticmethod
    def range(end: int | UOp, axis: int | tuple[int, ...], kind: Axis = Axis.LOOP) -> UOp:
        """A loop over 0 … end-1."""
        size = const(dtypes.index, end) if isinstance(end, int) else end
        return construct(
            ops.RANGE, None, (size,), (axis if isinstance(axis, tuple) else (axis,), kind)
        )

    def lift(self, value: Any) -> UOp:
        """A Python number as a constant of this node's type."""
        return value if value.__class__ is UOp else const(self.dtype, value)

    # -- methods for what has no operator ----------------------------------------------------------

    def eq(self, other: Any) -> UOp:
        return construct(ops.EQ, None, (self, self.lift(other)), None)

    def ne(self, other: Any) -> UOp:
        return construct(ops.NE, None, (self, self.lift(other)), None)

    def maximum(self, other: Any) -> UOp:
        return construct(ops.MAX, None, (self, self.lift(other)), None)

    def minimum(self, other: Any) -> UOp:
        return construct(ops.MIN, None, (self, self.lift(other)), None)

    def where(self, yes: Any, no: Any) -> UOp:
        """`yes` where this condition holds, else `no`; one of the two must be a node."""
        if yes.__class__ is not UOp:
            yes = no.lift(yes)
        return construct(ops.WHERE, None, (self, yes, yes.lift(no)), None)

    def cast(self, dtype: DType) -> UOp:
        return construct(ops.CAST, dtype, (self,), None)

    def bitcast(self, dtype: DType) -> UOp:
        return construct(ops.BITCAST, dtype, (self,), None)

    def gep(self, *lanes: int) -> UOp:
        return construct(ops.GEP, None, (self,), lanes)

    def index(self, *indices: UOp, dtype: DType | None = None) -> UOp:
        return construct(ops.INDEX, dtype, (self, *indices), None)

    def load(self, *alternative: UOp) -> UOp:
        return construct(ops.LOAD, None, (self, *alternative), None)

    def store(self, value: UOp) -> UOp:
        return construct(ops.STORE, None, (self, value), None)

    def end(self, *ranges: UOp) -> UOp:
        return construct(ops.END, None, (self, *ranges), None)

    def after(self, *dependencies: UOp) -> UOp:
        return construct(ops.AFTER, None, (self, *dependencies), None)

    def reduce(self, op: Op, *ranges: UOp) -> UOp:
        return construct(ops.REDUCE, None, (self, *ranges), op)

    def replace(self, src: tuple[UOp, ...]) -> UOp:
        """This node on other sources, in normal form."""
        return self if src == self.src else construct(self.op, self.dtype_given, src, self.arg)

    @property
    def dtype_given(self) -> DType | None:
        """The dtype, if it does not follow from the sources."""
        return None if self.op.elementwise else self.dtype

    # -- properties that are computed when asked for -----------------------------------------------

    @property
    def key(self) -> bytes:
        """A digest of the structure, the same in every process: what caches are keyed by."""
        try:
            return self._key
        except AttributeError:
            return structural_digest.digest(self)

    @property
    def residue(self) -> residues.Residue:
        """What the value is modulo something: `(modulus, remainder)`; `(1, 0)` says nothing."""
        try:
            return self._residue
        except AttributeError:
            return residues.of(self)

    # -- operators; those on two values are in operators.py ----------------------------------------

    def __neg__(self) -> UOp:
        return construct(ops.NEG, None, (self,), None)

    def __invert__(self) -> UOp:
        return construct(ops.NOT, None, (self,), None)


# -- making nodes ----------------------------------------------------------------------------------

lock = held_while_forking(threading.Lock())
careful = not getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether a node may only be added under the lock, as while a sweep takes nodes out of the tables.

Otherwise a node is added with one `setdefault`. Under the global interpreter lock no other thread
runs between the look at this flag and at the raw nodes and the end of that call, as keys are hashed
without a call of Python's; so two threads that make the same node get the same object. Without that
lock every addition takes ours.
"""


def _create(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any, key: Any) -> UOp:
    """A new node, with all that is known of it; not in any table yet."""
    node = Draft()
    node.op = op
    node.dtype = dtype
    node.src = src
    node.arg = arg
    slot = dtype.slot
    if slot in _INTEGER_SLOTS or slot == _BOOL_SLOT or op is _CONST:
        node.vmin, node.vmax = op.bounds(dtype, src, arg)
    else:
        node.vmin, node.vmax = _ANYTHING
    node.order = structural_digest.order(op, dtype, src, arg, key)
    on_shapes = on_memory = False
    ranges: tuple[UOp, ...] = ()
    for s in src:
        if s.shaped:
            on_shapes = True
        if s.on_memory:
            on_memory = True
        others = s.ranges
        if others is not ranges and others:
            ranges = united(ranges, others) if ranges else others
    node.shaped = is_shaped(op, src, on_shapes)
    node.on_memory = on_memory or op is ops.BUFFER
    node.ranges = left_open(op, src, ranges) if ranges else ranges
    node.__class__ = UOp
    if op is ops.RANGE:
        _set_ranges(node, in_order((*ranges, node)))  # type: ignore[arg-type]
    return node  # type: ignore[return-value]


_set_ranges: Final = vars(Draft)["ranges"].__set__


_BY_MORE_THAN_TYPES: Final = frozenset(
    {op for op in ops.table() if op.group is ops.LEAF} | {ops.ENDIF, ops.CALL}
)
"""Ops that do not only ask for the types of their sources, or that have many arguments."""
_MOST_TYPED: Final = 10_000
_MOST_SOURCES: Final = 64


def checked(op: Op, dtype: DType | None, src: tuple[UOp, ...], arg: Any) -> DType:
    """The dtype of a node that is about to be made, or an error that says what does not fit.

    What fitted once is remembered by the types of the sources.
    """
    if op in _BY_MORE_THAN_TYPES or len(src) > _MOST_SOURCES:
        return _checked(op, dtype, src, arg)
    try:
        key = (dtype, argument_text.key(arg), *map(_dtype_of, src))
        found: DType | None = op.typed.get(key)
    except (AttributeError, TypeError):  # a source is no node, or the argument none that may be
        return _checked(op, dtype, src, arg)
    if found is None:
        found = _checked(op, dtype, src, arg)
        if len(op.typed) >= _MOST_TYPED:
            op.typed.clear()
        op.typed[key] = found
    return found


_dtype_of: Final = operator.attrgetter("dtype")


def _checked(op: Op, dtype: DType | None, src: tuple[UOp, ...], arg: Any) -> DType:
    try:
        if len(src) != op.arity and (op.arity != ANY_NUMBER or len(src) < op.least):
            many = f"at least {op.least}" if op.arity == ANY_NUMBER else f"{op.arity}"
            raise Misfit(f"it takes {many} sources, got {len(src)}")
        for s in src:
            if s.__class__ is not UOp:
                raise Misfit(f"its source {s!r} is a {type(s).__name__}, not a UOp")
        found = op.signature(dtype, src, arg)
        if dtype is not None and dtype is not found:
            raise Misfit(f"its type is {found}, not {dtype}")
    except Misfit as misfit:
        inner = ", ".join(s.op.name if isinstance(s, UOp) else repr(s) for s in src[:8])
        try:
            shown = "" if arg is None else f" with argument {arg!r}"
        except ValueError:  # an int with more digits than Python prints
            shown = " with a very long argument"
        raise TypeMismatch(
            f"{op.name} cannot be made of these sources",
            where=f"{op.name}({inner}){shown}",
            why=str(misfit),
        ) from None
    return found


def key_of(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> Any:
    return (dtype, argument_text.key(arg), src) if op.keyed else src


def is_exactly(node: UOp, op: Op, key: Any) -> bool:
    """Whether the entry of a table is the node with that key, and not its normal form."""
    return node.op is op and key_of(op, node.dtype, node.src, node.arg) == key


def raw(op: Op, dtype: DType | None, src: tuple[UOp, ...], arg: Any) -> UOp:
    """Exactly this node; no rule is applied."""
    if not isinstance(src, tuple):
        src = tuple(src)
    dtype = checked(op, dtype, src, arg)
    if op is ops.CONST:
        arg = dtype.canonical(arg)
    elif op is ops.VCONST:
        arg = tuple(dtype.canonical(lane) for lane in arg)
    key = key_of(op, dtype, src, arg)
    if key.__class__ is tuple:
        found = op.nodes.get(key)
        if found is not None and is_exactly(found, op, key):
            return found
        found = op.raw.get(key)
        if found is not None:
            return found
    new = _create(op, dtype, src, arg, key)
    with lock:
        if new.on_memory:
            return op.loose.setdefault(key, new)
        new = op.raw.setdefault(key, new)  # from here on `binary` takes the lock too
        found = op.nodes.get(key)
        if found is not None and is_exactly(found, op, key):
            del op.raw[key]
            return found
        return new


def const(dtype: DType, value: Any) -> UOp:
    """A constant of this type."""
    if value.__class__ is int and dtype.is_integer:
        found = small_constants.get((dtype, value))
        if found is None:
            number = dtypes.wrap(dtype, value) if dtype.bits else value
            found = interned(ops.CONST, (dtype, number, ()), dtype, (), number)
            small_constants[dtype, value] = found
        return found
    checked(ops.CONST, dtype, (), value.item() if hasattr(value, "item") else value)
    canonical = dtype.canonical(value)
    return interned(ops.CONST, (dtype, argument_text.key(canonical), ()), dtype, (), canonical)


small_constants: dict[tuple[DType, int], UOp] = {}


def interned(op: Op, key: Any, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp:
    """The node with this key, which no rule rewrites."""
    found = op.nodes.get(key)
    return _added(op, key, dtype, src, arg) if found is None else found


def _added(op: Op, key: Any, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp:
    new = _create(op, dtype, src, arg, key)
    if new.on_memory or careful or (op.raw and key in op.raw):
        return _add_carefully(op, key, new)
    return op.nodes.setdefault(key, new)


def binary(op: Op, a: UOp, b: UOp) -> UOp:
    """The normal form of an elementwise node on two sources that is not in the table yet.

    The most travelled path of the compiler, so that the steps of `_create` and `interned` stand
    here once more.
    """
    global _depth
    operand = a.dtype
    dtype = op.typed.get(operand) if operand is b.dtype else None
    src = (a, b)
    if dtype is None:
        dtype = op.typed[operand] = checked(op, None, src, None)
    slot = operand.slot
    shaped = a.shaped or b.shaped
    on_memory = a.on_memory or b.on_memory
    # The algebra is about values: `x - x` on a tensor would lose its dims.
    rules = None if shaped else op.rules[slot]
    if rules is not None:
        if rules.sorts and b.order <= a.order and a is not b and comes_before(b, a):
            swapped = (b, a)
            found = op.nodes.get(swapped)
            if found is None:
                found = binary(op, b, a)
            if not on_memory:
                op.nodes[src] = found
            return found
        function = rules[a.op, b.op] if a is not b else rules[a.op, a.op, True]
        if function is not None:
            if _depth < DEEPEST:
                _depth += 1
                try:
                    found = function(dtype, src, None)
                finally:
                    _depth -= 1
            else:
                found = deep(op, dtype, src, None)
            if found is not None:
                if not on_memory:
                    op.nodes[src] = found
                return found
    node = Draft()
    node.op = op
    node.dtype = dtype
    node.src = src
    node.arg = None
    if slot in _INTEGER_SLOTS or dtype.slot == _BOOL_SLOT:
        node.vmin, node.vmax = op.bounds(dtype, src, None)
    else:
        node.vmin, node.vmax = _ANYTHING
    node.order = hash((op.code, a.order, b.order)) & structural_digest.MASK
    node.shaped = shaped
    node.on_memory = on_memory
    ranges, others = a.ranges, b.ranges
    if ranges is not others and others:
        ranges = united(ranges, others) if ranges else others
    node.ranges = ranges
    node.__class__ = UOp
    if on_memory or careful or (op.raw and src in op.raw):
        return _add_carefully(op, src, node)  # type: ignore[arg-type] # it is a UOp by now
    return op.nodes.setdefault(src, node)  # type: ignore[arg-type]


def _add_carefully(op: Op, key: Any, node: UOp) -> UOp:
    with lock:
        if node.on_memory:
            return op.loose.setdefault(key, node)
        found = op.nodes.setdefault(key, op.raw.get(key, node))
        op.raw.pop(key, None)  # last: wherever an interrupt comes, a table has the node
        return found


def make2(op: Op, a: UOp, b: UOp) -> UOp:
    """The normal form of an elementwise node on two sources."""
    node = op.nodes.get((a, b))
    return node if node is not None else binary(op, a, b)


def comes_before(a: UOp, b: UOp) -> bool:
    """Whether `a` comes first in the order of commutative operands."""
    return a.order < b.order or (a.order == b.order and a.key < b.key)


def construct(op: Op, dtype: DType | None, src: tuple[UOp, ...], arg: Any = None) -> UOp:
    """The normal form of this node under the construction-time rules."""
    global _depth
    if not op.keyed:
        node = op.nodes.get(src)
        if node is not None:
            return node
        if len(src) == 2 == op.arity and arg is None and dtype is None:
            return binary(op, *src)
        dtype = checked(op, dtype, src, arg)
        key: Any = src
    else:
        if op is ops.CONST:
            return const(checked(op, dtype, src, arg), arg)
        dtype = checked(op, dtype, src, arg)
        if op is ops.VCONST:
            arg = tuple(dtype.canonical(lane) for lane in arg)
        key = (dtype, argument_text.key(arg), src)
        node = op.nodes.get(key)
        if node is not None:
            return node
    rules = op.rules[slot_of(op, dtype, src)] if op.ruled else None
    if rules is not None:
        function = rules[signature_of(op, src)]
        if function is not None:
            if _depth < DEEPEST:
                _depth += 1
                try:
                    node = function(dtype, src, arg)
                finally:
                    _depth -= 1
            else:
                node = deep(op, dtype, src, arg)
            if node is not None:
                if not is_on_memory(src):
                    op.nodes[key] = node
                return node
    return _added(op, key, dtype, src, arg)


DEEPEST: Final = 60  # rules that fire inside one another on Python's stack
_depth = 0


def deep(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Apply the rules where they nest too deeply for Python's stack.

    `porism.rewrite.construction` replaces this by a machine with a stack of its own.
    """
    raise RecursionError("rules nest too deeply")


ops.construct = construct
operators.install(UOp, binary, const)
