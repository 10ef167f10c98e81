"""UOp: the one node type of every graph, immutable and hash-consed.

Two nodes of equal structure are the same object, so `is` compares structure. There are two ways to
make a node: `UOp(op, dtype, src, arg)` returns exactly that node, while operators (`x + 1`) and ops
called like functions (`ops.ADD(x, y)`) also apply the construction-time rules installed by
`porism.rewrite.construction`, and return the normal form.

Interning: each op has a table `nodes` from a key (the sources; for ops that are not elementwise
also dtype and argument) to the node in normal form, and a table `raw` of the nodes that are not in
normal form. A hit takes one dictionary look-up and no lock. The tables hold nodes strongly;
`porism.ir.node_collector` drops those that nothing else refers to. Nodes that use a BUFFER are in
a third table, `weak_nodes`, of weak references: memory is freed as soon as the last tensor that
needs it is gone.
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
from porism.ir.construction_dispatch import rule_slot, source_signature
from porism.ir.facts import residues
from porism.ir.facts.inherited_flags import has_buffer_source, is_shaped
from porism.ir.facts.intervals import Bound
from porism.ir.facts.open_ranges import ranges_left_open, sort_ranges, union_of_ranges
from porism.ir.op_signatures import Misfit
from porism.ir.ops import ANY_NUMBER, Op
from porism.ir.text import argument_text, structural_digest

_CONST: Final = ops.CONST
_ANYTHING: Final = (-INFINITY, INFINITY)
_INTEGER_SLOTS: Final = (dtypes.index.slot, dtypes.i32.slot)
_BOOL_SLOT: Final = dtypes.boolean.slot


class MutableNode:
    """The fields of a node under construction; `node.__class__ = UOp` then freezes it."""

    __slots__ = (
        "__weakref__",
        "_key",
        "_residue",
        "_shape",
        "arg",
        "dtype",
        "held",
        "op",
        "order",
        "ranges",
        "shaped",
        "src",
        "uses_buffer",
        "vmax",
        "vmin",
    )

    op: Op
    dtype: DType
    src: tuple[UOp, ...]
    arg: Any
    held: Any  # of a BUFFER alone: the memory of its values, or None
    vmin: Bound
    vmax: Bound
    order: int  # by which commutative operands are sorted; see structural_digest
    shaped: bool  # a tensor with dims, and not the value of one iteration
    uses_buffer: bool  # it is a BUFFER, or depends on one
    ranges: tuple[UOp, ...]  # open: it depends on them, and no END or REDUCE closed them
    _key: bytes
    _residue: residues.Residue
    _shape: tuple[UOp, ...] | None


class UOp(MutableNode, operators.Operators):
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
        """Return a constant; it is the same in each lane of a vector type.

        >>> UOp.const(dtypes.i8, 200).arg
        -56
        """
        return const(dtype, value)

    @staticmethod
    def variable(name: str, low: int | None = None, high: int | None = None) -> UOp:
        """Return an `index` variable with inclusive bounds; None for no bound."""
        return construct(ops.VARIABLE, dtypes.index, (), (name, low, high))

    @staticmethod
    def range(end: int | UOp, axis: int | tuple[int, ...], kind: Axis = Axis.LOOP) -> UOp:
        """Return the induction variable of a loop over 0 … end-1."""
        size = const(dtypes.index, end) if isinstance(end, int) else end
        return construct(
            ops.RANGE, None, (size,), (axis if isinstance(axis, tuple) else (axis,), kind)
        )

    def lift(self, value: Any) -> UOp:
        """Return a Python number as a constant of this node's type; a node as it is."""
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
        """Return `yes` where this condition holds, else `no`; one of the two must be a node."""
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
        """Return this node with other sources, in normal form."""
        return self if src == self.src else construct(self.op, self.dtype_given, src, self.arg)

    @property
    def dtype_given(self) -> DType | None:
        """Return the dtype for a constructor: None if it follows from the sources."""
        return None if self.op.elementwise else self.dtype

    # -- properties that are computed when asked for -----------------------------------------------

    @property
    def key(self) -> bytes:
        """Return the digest of the structure, the same in every process: the key of caches."""
        try:
            return self._key
        except AttributeError:
            return structural_digest.digest(self)

    @property
    def residue(self) -> residues.Residue:
        """Return `(modulus, remainder)` of the value; `(1, 0)` where nothing is known."""
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
lock_required = not getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether a node may only be added under the lock, as while a sweep takes nodes out of the tables.

Otherwise a node is added with one `setdefault`. Under the global interpreter lock (GIL) no other
thread runs from the test of this flag and of the raw nodes to the end of that call, as hashing a
key calls no Python code; so two threads that make the same node get the same object. Without a GIL
every addition takes `lock`.
"""


def _create_node(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any, key: Any) -> UOp:
    """Return a new node with all its fields, which is in no table yet."""
    node = MutableNode()
    node.op = op
    node.dtype = dtype
    node.src = src
    node.arg = arg
    slot = dtype.slot
    if slot in _INTEGER_SLOTS or slot == _BOOL_SLOT or op is _CONST:
        node.vmin, node.vmax = op.bounds(dtype, src, arg)
    else:
        node.vmin, node.vmax = _ANYTHING
    node.order = structural_digest.order_number(op, dtype, src, arg, key)
    on_shapes = uses_buffer = False
    ranges: tuple[UOp, ...] = ()
    for s in src:
        if s.shaped:
            on_shapes = True
        if s.uses_buffer:
            uses_buffer = True
        others = s.ranges
        if others is not ranges and others:
            ranges = union_of_ranges(ranges, others) if ranges else others
    node.shaped = is_shaped(op, src, on_shapes)
    node.uses_buffer = uses_buffer or op is ops.BUFFER
    node.ranges = ranges_left_open(op, src, ranges) if ranges else ranges
    node.__class__ = UOp
    if op is ops.RANGE:
        _set_ranges(node, sort_ranges((*ranges, node)))  # type: ignore[arg-type]
    return node  # type: ignore[return-value]


_set_ranges: Final = vars(MutableNode)["ranges"].__set__


_NOT_TYPED_BY_SOURCES: Final = frozenset(
    {op for op in ops.table() if op.group is ops.LEAF} | {ops.ENDIF, ops.CALL}
)
"""Ops whose dtype depends on more than the dtypes of their sources, or with many arguments."""
_MOST_CACHED_DTYPES: Final = 10_000
_MOST_CACHED_SOURCES: Final = 64


def result_dtype(op: Op, dtype: DType | None, src: tuple[UOp, ...], arg: Any) -> DType:
    """Return the dtype of a node about to be made; raise a `TypeMismatch` if its signature fails.

    Results are cached by the dtypes of the sources.
    """
    if op in _NOT_TYPED_BY_SOURCES or len(src) > _MOST_CACHED_SOURCES:
        return _checked_dtype(op, dtype, src, arg)
    try:
        key = (dtype, argument_text.key(arg), *map(_dtype_of, src))
        result: DType | None = op.dtype_cache.get(key)
    except (AttributeError, TypeError):  # a source is no node, or the argument is not hashable
        return _checked_dtype(op, dtype, src, arg)
    if result is None:
        result = _checked_dtype(op, dtype, src, arg)
        if len(op.dtype_cache) >= _MOST_CACHED_DTYPES:
            op.dtype_cache.clear()
        op.dtype_cache[key] = result
    return result


_dtype_of: Final = operator.attrgetter("dtype")


def _checked_dtype(op: Op, dtype: DType | None, src: tuple[UOp, ...], arg: Any) -> DType:
    try:
        if len(src) != op.arity and (op.arity != ANY_NUMBER or len(src) < op.min_arity):
            many = f"at least {op.min_arity}" if op.arity == ANY_NUMBER else f"{op.arity}"
            raise Misfit(f"it takes {many} sources, got {len(src)}")
        for s in src:
            if s.__class__ is not UOp:
                raise Misfit(f"its source {s!r} is a {type(s).__name__}, not a UOp")
        result = op.signature(dtype, src, arg)
        if dtype is not None and dtype is not result:
            raise Misfit(f"its type is {result}, not {dtype}")
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
    return result


def key_of(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> Any:
    """Return the key of a node in the tables of its op."""
    return (dtype, argument_text.key(arg), src) if op.keyed else src


def is_exactly(node: UOp, op: Op, key: Any) -> bool:
    """Return whether an entry `key -> node` of a table is the node itself, not its normal form."""
    return node.op is op and key_of(op, node.dtype, node.src, node.arg) == key


def raw(op: Op, dtype: DType | None, src: tuple[UOp, ...], arg: Any) -> UOp:
    """Return exactly this node; no rule is applied."""
    if not isinstance(src, tuple):
        src = tuple(src)
    dtype = result_dtype(op, dtype, src, arg)
    if op is ops.CONST:
        arg = dtype.canonical(arg)
    elif op is ops.VCONST:
        arg = tuple(dtype.canonical(lane) for lane in arg)
    key = key_of(op, dtype, src, arg)
    if key.__class__ is tuple:
        interned = op.nodes.get(key)
        if interned is not None and is_exactly(interned, op, key):
            return interned
        interned = op.raw.get(key)
        if interned is not None:
            return interned
    new = _create_node(op, dtype, src, arg, key)
    with lock:
        if new.uses_buffer:
            return op.weak_nodes.setdefault(key, new)
        new = op.raw.setdefault(key, new)  # from here on other constructors take the lock too
        interned = op.nodes.get(key)
        if interned is not None and is_exactly(interned, op, key):
            del op.raw[key]
            return interned
        return new


def const(dtype: DType, value: Any) -> UOp:
    """Return a constant of this type."""
    if value.__class__ is int and dtype.is_integer:
        node = small_constants.get((dtype, value))
        if node is None:
            number = dtypes.wrap(dtype, value) if dtype.bits else value
            node = intern(ops.CONST, (dtype, number, ()), dtype, (), number)
            small_constants[dtype, value] = node
        return node
    if value.__class__ in _NUMBERS and value and dtype.is_float:  # 0.0 and -0.0 are equal keys
        node = small_constants.get((dtype, value))
        if node is None:
            node = small_constants[dtype, value] = _canonical_const(dtype, value)
        return node
    return _canonical_const(dtype, value)


def _canonical_const(dtype: DType, value: Any) -> UOp:
    result_dtype(ops.CONST, dtype, (), value.item() if hasattr(value, "item") else value)
    canonical = dtype.canonical(value)
    return intern(ops.CONST, (dtype, argument_text.key(canonical), ()), dtype, (), canonical)


_NUMBERS: Final = (int, float)
small_constants: dict[tuple[DType, int | float], UOp] = {}


def intern(op: Op, key: Any, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp:
    """Return the node with this key, made if it is new; no rule rewrites it."""
    node = op.nodes.get(key)
    return _add(op, key, dtype, src, arg) if node is None else node


def _add(op: Op, key: Any, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp:
    """Make a node and add it to the table, unless another thread has added it meanwhile."""
    new = _create_node(op, dtype, src, arg, key)
    if new.uses_buffer or lock_required or (op.raw and key in op.raw):
        return _add_locked(op, key, new)
    return op.nodes.setdefault(key, new)


def construct_missing_binary(op: Op, a: UOp, b: UOp) -> UOp:
    """Return the normal form of an elementwise node on two sources that is not in the table yet.

    This is the hottest path of the compiler, so it repeats the steps of `_create_node` and `intern`
    inline.
    """
    global _depth
    operand = a.dtype
    dtype = op.dtype_cache.get(operand) if operand is b.dtype else None
    src = (a, b)
    if dtype is None:
        dtype = op.dtype_cache[operand] = result_dtype(op, None, src, None)
    slot = operand.slot
    shaped = a.shaped or b.shaped
    uses_buffer = a.uses_buffer or b.uses_buffer
    # The algebra is about values: `x - x` on a tensor would lose its dims.
    rules = None if shaped else op.rules[slot]
    if rules is not None:
        if rules.sorts and b.order <= a.order and a is not b and comes_before(b, a):
            swapped = (b, a)
            normal = op.nodes.get(swapped)
            if normal is None:
                normal = construct_missing_binary(op, b, a)
            if not uses_buffer:
                op.nodes[src] = normal
            return normal
        function = rules[a.op, b.op] if a is not b else rules[a.op, a.op, True]
        if function is not None:
            if _depth < DEEPEST:
                _depth += 1
                try:
                    normal = function(dtype, src, None)
                finally:
                    _depth -= 1
            else:
                normal = construct_nested(op, dtype, src, None)
            if normal is not None:
                if not uses_buffer:
                    op.nodes[src] = normal
                return normal
    node = MutableNode()
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
    node.uses_buffer = uses_buffer
    ranges, others = a.ranges, b.ranges
    if ranges is not others and others:
        ranges = union_of_ranges(ranges, others) if ranges else others
    node.ranges = ranges
    node.__class__ = UOp
    if uses_buffer or lock_required or (op.raw and src in op.raw):
        return _add_locked(op, src, node)  # type: ignore[arg-type] # it is a UOp by now
    return op.nodes.setdefault(src, node)  # type: ignore[arg-type]


def _add_locked(op: Op, key: Any, node: UOp) -> UOp:
    with lock:
        if node.uses_buffer:
            return op.weak_nodes.setdefault(key, node)
        interned = op.nodes.setdefault(key, op.raw.get(key, node))
        op.raw.pop(key, None)  # last: wherever an interrupt comes, a table has the node
        return interned


def construct_binary(op: Op, a: UOp, b: UOp) -> UOp:
    """Return the normal form of an elementwise node on two sources."""
    node = op.nodes.get((a, b))
    return node if node is not None else construct_missing_binary(op, a, b)


def comes_before(a: UOp, b: UOp) -> bool:
    """Return whether `a` comes first in the order of commutative operands."""
    return a.order < b.order or (a.order == b.order and a.key < b.key)


def construct(op: Op, dtype: DType | None, src: tuple[UOp, ...], arg: Any = None) -> UOp:
    """Return the normal form of this node under the construction-time rules."""
    global _depth
    if not op.keyed:
        node = op.nodes.get(src)
        if node is not None:
            return node
        if len(src) == 2 == op.arity and arg is None and dtype is None:
            return construct_missing_binary(op, *src)
        dtype = result_dtype(op, dtype, src, arg)
        key: Any = src
    else:
        if op is ops.CONST:
            return const(result_dtype(op, dtype, src, arg), arg)
        dtype = result_dtype(op, dtype, src, arg)
        if op is ops.VCONST:
            arg = tuple(dtype.canonical(lane) for lane in arg)
        key = (dtype, argument_text.key(arg), src)
        node = op.nodes.get(key)
        if node is not None:
            return node
    rules = op.rules[rule_slot(op, dtype, src)] if op.has_rules else None
    if rules is not None:
        function = rules[source_signature(op, src)]
        if function is not None:
            if _depth < DEEPEST:
                _depth += 1
                try:
                    node = function(dtype, src, arg)
                finally:
                    _depth -= 1
            else:
                node = construct_nested(op, dtype, src, arg)
            if node is not None:
                if not has_buffer_source(src):
                    op.nodes[key] = node
                return node
    return _add(op, key, dtype, src, arg)


DEEPEST: Final = 60
"""Rule applications nested on Python's stack before an explicit stack is used; chosen by hand."""
_depth = 0


def construct_nested(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Apply the rules where they nest too deeply for Python's stack.

    `porism.rewrite.construction` replaces this by a constructor with an explicit stack.
    """
    raise RecursionError("rules nest too deeply")


ops.construct = construct
operators.install(UOp, construct_missing_binary, const)
