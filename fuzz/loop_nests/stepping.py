"""Stepping: the lines of a kernel as a Python function, which runs many times as fast as the
evaluator.

It knows no undefined values and no races: memory that was never written holds a number that no
test computes, and an access outside of a buffer is an `IndexError`. It rounds nothing either, so
that it is right for numbers that are exact in their type. What it finds wrong is for the evaluator
to confirm.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from porism.base.dtypes import DType, Kind
from porism.ir import ops
from porism.ir.facts import semantics
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp

NOWHERE: Final = -(1 << 50)
"""INVALID, the index of no element; sums with it are as far away."""
FAR: Final = -(1 << 40)

Cells = list[Any]


class SteppingError(Exception):
    """A kernel that has something for which there is no Python here."""


def unwritten(dtype: DType) -> Any:
    """What is in memory before anything is written there."""
    if dtype.is_float:
        return math.nan
    return True if dtype.kind is Kind.BOOL else 91


def run(
    lines: Sequence[UOp], data: Mapping[int, Array], *, reverse: bool = False
) -> dict[int, Array]:
    """What lines leave in the buffers; with `reverse`, threads run in the opposite order."""
    types = {int(n.arg): n.dtype.element.numpy for n in lines if n.op is ops.PARAM}
    buffers = {k: data[k].view(kind).tolist() for k, kind in types.items()}
    program = _Program(lines)
    code = "\n".join(program.text())
    names = {**_NAMES, **program.constants}
    exec(compile(code, "<kernel>", "exec"), names)
    with np.errstate(all="ignore"):
        if not program.indices:
            names["body"](buffers, {}, {})
        else:
            _launch(program, names["body"], buffers, reverse)
    return {k: np.array(cells, types[k]).view(data[k].dtype) for k, cells in buffers.items()}


def _launch(program: _Program, body: Any, buffers: Mapping[int, Cells], reverse: bool) -> None:
    """Run all threads of all blocks, from barrier to barrier."""
    sizes = program.indices
    blocks = [name for name in sizes if name.startswith("block")]
    threads = [name for name in sizes if name not in blocks]
    places = list(itertools.product(*(range(sizes[n]) for n in threads)))
    for block in itertools.product(*(range(sizes[n]) for n in blocks)):
        shared: dict[Any, Cells] = {}
        left = [
            body(buffers, shared, dict(zip((*blocks, *threads), (*block, *place), strict=True)))
            for place in (reversed(places) if reverse else places)
        ]
        while left:
            waiting = [thread for thread in left if next(thread, None) is not None]
            if waiting and len(waiting) != len(left):
                raise RuntimeError("a barrier that not every thread of the block reaches")
            left = waiting


# -- what the generated code calls -----------------------------------------------------------------


def _outside(at: Any, other: Any = None) -> Any:
    """What an access gives that INVALID keeps from happening; any other is an error."""
    if other is None or at > FAR:
        raise IndexError(f"element {at} is accessed")
    return other


def _row(cells: Cells, at: int, count: int, dtype: Any) -> Any:
    if at < 0 or at + count > len(cells):
        _outside(at)
    return np.array(cells[at : at + count], dtype)


def _lanes(cells: Cells, at: Any, gate: Any, other: Any, count: int, dtype: Any) -> Any:
    """Elements at a place for each lane, or at neighbours of one place."""
    places = _places(at, count)
    gates = [True] * count if gate is None else _each(gate, count)
    others = _each(other, count)
    found = []
    for place, is_open, value in zip(places, gates, others, strict=True):
        if not is_open or place < FAR:
            found.append(value)
        else:
            found.append(cells[place] if place >= 0 else _outside(place))
    return np.array(found, dtype)


def _put(cells: Cells, at: Any, gate: Any, value: Any, count: int) -> None:
    places = _places(at, count)
    gates = [True] * count if gate is None else _each(gate, count)
    for place, is_open, number in zip(places, gates, _each(value, count), strict=True):
        if is_open and place > FAR:
            if place < 0:
                _outside(place)
            cells[place] = number


def _places(at: Any, count: int) -> list[int]:
    starts = at.tolist() if isinstance(at, np.ndarray) else [at]
    each = count // len(starts)
    return [int(start) + k for start in starts for k in range(each)]


def _each(value: Any, count: int) -> list[Any]:
    if not isinstance(value, np.ndarray):
        return [value] * count
    numbers: list[Any] = value.tolist()
    return [n for n in numbers for _ in range(count // len(numbers))]


def _meaning(op: ops.Op, dtype: DType, lanes: int) -> Callable[..., Any]:
    """An op as the evaluator has it."""
    assert op.meaning is not None
    meaning, kind = op.meaning, dtype.element.numpy

    def call(*values: Any) -> Any:
        first = [np.asarray(v) if v.__class__ is bool else np.asarray(v, kind) for v in values]
        found = np.asarray(meaning(dtype.element, *first))
        return found if lanes > 1 else found.item()

    return call


def _conversion(source: DType, target: DType, how: Callable[..., Any]) -> Callable[..., Any]:
    def call(value: Any) -> Any:
        found = np.asarray(how(source.element, target.element, np.asarray(value, source.numpy)))
        return found if target.count > 1 else found.reshape(-1)[0].item()

    return call


_NAMES: Final[Mapping[str, Any]] = {
    "np": np, "inf": math.inf, "nan": math.nan, "_row": _row, "_lanes": _lanes, "_put": _put,
    "_outside": _outside,
}  # fmt: skip


# -- the text --------------------------------------------------------------------------------------

_BINARY: Final = {
    ops.ADD: "+", ops.SUB: "-", ops.MUL: "*", ops.AND: "&", ops.OR: "|", ops.XOR: "^",
    ops.LT: "<", ops.LE: "<=", ops.GT: ">", ops.GE: ">=", ops.EQ: "==", ops.NE: "!=",
}  # fmt: skip
_EXACT: Final = frozenset({ops.AND, ops.OR, ops.XOR, ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ,
                           ops.NE})  # fmt: skip
"""Ops that do not leave the range of a type."""

_PASSED: Final = frozenset({ops.GROUP, ops.SINK, ops.NOOP})


class _Program:
    """Python text for lines; `constants` are names it uses, `indices` those of a launch."""

    def __init__(self, lines: Sequence[UOp]) -> None:
        self.lines = lines
        self.names: dict[UOp, str] = {}
        self.pointers: dict[UOp, tuple[str, str, str | None, UOp | None]] = {}
        """Of a pointer: the cells, the index, the gate, and the node of the index."""
        self.constants: dict[str, Any] = {}
        self.indices: dict[str, int] = {}
        self.waits = False
        self.masks = any(n.op is ops.INVALID for n in lines)
        self.known: dict[Any, str] = {}

    def text(self) -> list[str]:
        depth = 1
        body: list[str] = []
        add = body.append
        for node in self.lines:
            op = node.op
            if op is ops.RANGE:
                name = self._named(node)
                add(f"{' ' * depth}for {name} in range({self._use(node.src[0])}):")
                depth += 1
                add(f"{' ' * depth}pass")
            elif op is ops.END or op is ops.ENDIF:
                depth -= sum(s.op is ops.RANGE for s in node.src[1:]) if op is ops.END else 1
            elif op is ops.IF:
                add(f"{' ' * depth}if {self._use(node.src[0])}:")
                depth += 1
                add(f"{' ' * depth}pass")
            elif op is ops.BARRIER:
                add(f"{' ' * depth}yield True")
                self.waits = True
            elif op not in _PASSED:
                line = self._line(node)
                if line:
                    add(" " * depth + line)
        if self.indices and not self.waits:
            body.insert(0, " if False: yield True")
        return ["def body(buffers, shared, at):", *body, " return"]

    def _named(self, node: UOp) -> str:
        name = self.names[node] = f"v{len(self.names)}"
        return name

    def _use(self, node: UOp) -> str:
        """The text of a value."""
        found = self.names.get(node)
        if found is None:
            if node.op is ops.CONST or node.op is ops.VCONST:
                found = self.names[node] = self._constant(node)
            elif node.op is ops.AFTER:
                return self._use(node.src[0])
            elif node.op is ops.INVALID:
                found = self.names[node] = self._literal(node.dtype, NOWHERE)
            else:
                raise SteppingError(str(node.op))
        return found

    def _constant(self, node: UOp) -> str:
        return self._literal(node.dtype, node.arg)

    def _literal(self, dtype: DType, value: Any) -> str:
        if dtype.count == 1:
            text = repr(float(value) if dtype.is_float else value)
            return f"({text})" if text.startswith("-") else text
        key = (dtype, value, str(value))
        if key not in self.known:
            kind = dtype.element.numpy
            array = np.array(value if isinstance(value, tuple) else [value] * dtype.count, kind)
            self.known[key] = self._kept(array)
        return self.known[key]

    def _kept(self, thing: Any) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = thing
        return name

    def _line(self, node: UOp) -> str | None:
        op, dtype = node.op, node.dtype
        if op in (ops.CONST, ops.VCONST, ops.INVALID):
            return None
        if dtype.kind is Kind.POINTER:
            return self._pointer(node)
        if op is ops.STORE:
            return self._store(node)
        if op is ops.AFTER:
            if dtype.kind is not Kind.VOID:
                self.names[node] = self._use(node.src[0])
            return None
        text = self._value(node)
        return f"{self._named(node)} = {text}"

    # -- memory ------------------------------------------------------------------------------------

    def _pointer(self, node: UOp) -> str | None:
        op = node.op
        if op is ops.PARAM:
            name = self._named(node)
            self.pointers[node] = (name, "0", None, None)
            return f"{name} = buffers[{node.arg}]"
        if op is ops.DEFINE_LOCAL or op is ops.DEFINE_REG:
            name = self._named(node)
            self.pointers[node] = (name, "0", None, None)
            element = node.dtype.element
            if element.count > 1:
                fresh = f"[{self._literal(element, unwritten(element.element))}]"
            else:
                fresh = f"[{self._literal(element, unwritten(element))}]"
            cells = f"{fresh} * {node.dtype.size}"
            if op is ops.DEFINE_LOCAL and any(n.op is ops.SPECIAL for n in self.lines):
                return f"{name} = shared.setdefault({node.arg!r}, {cells})"
            return f"{name} = {cells}"
        if op is ops.INDEX:
            base, at, *gates = node.src
            if base.op is ops.INDEX or len(gates) > 1:
                raise SteppingError("a pointer to a part of a pointer")
            cells = self.pointers[base][0]
            gate = self._use(gates[0]) if gates else None
            self.pointers[node] = (cells, self._use(at), gate, at)
            return None
        if op is ops.AFTER:
            self.pointers[node] = self.pointers[node.src[0]]
            return None
        raise SteppingError(str(op))

    def _load(self, node: UOp, place: UOp, other: str | None) -> str:
        cells, at, gate, index = self.pointers[place]
        dtype = node.dtype
        if other is None:
            other = self._literal(dtype, 0)
        whole = place.dtype.element.count > 1
        if dtype.count == 1 or whole:
            return self._scalar(cells, at, gate, other, index)
        kind = self._numpy(dtype)
        one = index is None or index.dtype.count == 1
        if one and (gate is None or self._is_scalar_gate(place)):
            row = f"_row({cells}, {at}, {dtype.count}, {kind})"
            return row if gate is None else f"({row} if {gate} else {other})"
        return f"_lanes({cells}, {at}, {gate}, {other}, {dtype.count}, {kind})"

    def _is_scalar_gate(self, place: UOp) -> bool:
        while place.op is not ops.INDEX:
            place = place.src[0]
        return place.src[-1].dtype.count == 1

    def _scalar(self, cells: str, at: str, gate: str | None, other: str, index: UOp | None) -> str:
        if index is None or index.op is ops.CONST:
            text = f"{cells}[{at}]"
        else:
            text = f"{cells}[{at}] if {at} >= 0 else _outside({at}, {other})"
        if gate is not None:
            return f"({text}) if {gate} else {other}"
        return text

    def _store(self, node: UOp) -> str:
        place, value = node.src
        cells, at, gate, index = self.pointers[place]
        count = value.dtype.count
        text = self._use(value)
        whole = place.dtype.element.count > 1
        if count == 1 or whole:
            if index is None or index.op is ops.CONST:
                text = f"{cells}[{at}] = {text}"
            else:
                text = f"{cells}[{at} if {at} >= 0 else _outside({at})] = {text}"
                if self.masks:
                    text = f"if {at} > {FAR}: {text}"
            return (
                text
                if gate is None
                else f"if {gate}: {text}"
                if not self.masks
                else (
                    f"if {gate} and {at} > {FAR}: {cells}[{at} if {at} >= 0 else _outside({at})] = "
                    f"{self._use(value)}"
                )
            )
        return f"_put({cells}, {at}, {gate}, {text}, {count})"

    def _numpy(self, dtype: DType) -> str:
        key = ("numpy", dtype.element)
        if key not in self.known:
            self.known[key] = self._kept(dtype.element.numpy)
        return self.known[key]

    # -- values ------------------------------------------------------------------------------------

    def _value(self, node: UOp) -> str:
        op, dtype = node.op, node.dtype
        if op is ops.LOAD:
            other = self._use(node.src[1]) if len(node.src) > 1 else None
            return self._load(node, node.src[0], other)
        if op is ops.SPECIAL:
            self.indices[node.arg] = int(node.vmax) + 1
            return f"at[{node.arg!r}]"
        args = [self._use(s) for s in node.src]
        if op is ops.GEP:
            return self._picked(node, args[0])
        if op is ops.VECTORIZE:
            return f"np.array([{', '.join(args)}], {self._numpy(dtype)})"
        if op is ops.CAT:
            return f"np.concatenate([{', '.join(args)}])"
        if op is ops.CAST:
            return self._cast(node, args[0])
        if op is ops.BITCAST:
            source = node.src[0].dtype
            return f"{self._kept(_conversion(source, dtype, semantics.bitcast))}({args[0]})"
        if not op.elementwise:
            raise SteppingError(str(op))
        return self._vector(node, args) if dtype.count > 1 else self._arithmetic(node, args)

    def _picked(self, node: UOp, vector: str) -> str:
        lanes = node.arg
        if node.src[0].dtype.count == 1:
            return vector
        if len(lanes) == 1:
            return f"{vector}.item({lanes[0]})"
        if lanes == tuple(range(lanes[0], lanes[0] + len(lanes))):
            return f"{vector}[{lanes[0]}:{lanes[-1] + 1}]"
        return f"{vector}[{self._kept(list(lanes))}]"

    def _cast(self, node: UOp, value: str) -> str:
        source, target = node.src[0].dtype, node.dtype
        if target.count > 1:
            if source.is_float and not target.is_float:
                return f"{self._kept(_conversion(source, target, semantics.cast))}({value})"
            return f"{value}.astype({self._numpy(target)})"
        if target.kind is Kind.BOOL:
            return f"{value} != 0"
        if target.is_float:
            return f"float({value})" if not source.is_float else value
        if source.is_float:
            return f"{self._kept(_conversion(source, target, semantics.cast))}({value})"
        if source.kind is Kind.BOOL:
            return f"int({value})"
        return self._wrapped(target, value)

    def _wrapped(self, dtype: DType, text: str) -> str:
        """An integer in the range of its type."""
        if dtype.kind is Kind.UNSIGNED:
            return f"({text}) & {(1 << dtype.bits) - 1}"
        if dtype.kind is Kind.SIGNED and dtype.bits < 64:
            half = 1 << (dtype.bits - 1)
            return f"(({text}) + {half} & {2 * half - 1}) - {half}"
        return text

    def _arithmetic(self, node: UOp, args: list[str]) -> str:
        op, dtype = node.op, node.src[0].dtype
        symbol = _BINARY.get(op)
        if symbol is not None:
            text = f"{args[0]} {symbol} {args[1]}"
            return text if op in _EXACT or dtype.is_float else self._wrapped(dtype, text)
        if op is ops.WHERE:
            return f"{args[1]} if {args[0]} else {args[2]}"
        if op is ops.MAX or op is ops.MIN:
            a, b = args
            order = ">" if op is ops.MAX else "<"
            nan = f" or {a} != {a}" if dtype.is_float else ""
            return f"{a} if {a} {order} {b}{nan} else {b}"
        if op is ops.NEG:
            return f"-{args[0]}" if dtype.is_float else self._wrapped(dtype, f"-{args[0]}")
        if op is ops.MULACC:
            text = f"{args[0]} * {args[1]} + {args[2]}"
            return text if dtype.is_float else self._wrapped(dtype, text)
        if op is ops.NOT:
            if dtype.kind is Kind.BOOL:
                return f"not {args[0]}"
            return self._wrapped(dtype, f"~{args[0]}")
        if op in (ops.IDIV, ops.MOD) and node.src[1].op is ops.CONST and node.src[1].arg:
            return self._wrapped(dtype, f"{args[0]} {'//' if op is ops.IDIV else '%'} {args[1]}")
        if op in (ops.CDIV, ops.CMOD) and node.src[1].op is ops.CONST and node.src[1].arg > 0:
            symbol = "//" if op is ops.CDIV else "%"
            a, b = args
            return f"{a} {symbol} {b} if {a} >= 0 else -(-{a} {symbol} {b})"
        if op in (ops.SHL, ops.SHR) and node.src[1].op is ops.CONST:
            symbol, amount = "<<" if op is ops.SHL else ">>", node.src[1].arg
            if 0 <= amount < (dtype.bits or amount + 1):
                return self._wrapped(dtype, f"{args[0]} {symbol} {amount}")
        return f"{self._kept(_meaning(op, dtype, 1))}({', '.join(args)})"

    def _vector(self, node: UOp, args: list[str]) -> str:
        op = node.op
        symbol = _BINARY.get(op)
        if symbol is not None:
            return f"{args[0]} {symbol} {args[1]}"
        if op is ops.WHERE:
            return f"np.where({', '.join(args)})"
        if op is ops.MAX or op is ops.MIN:
            return f"np.{'maximum' if op is ops.MAX else 'minimum'}({', '.join(args)})"
        if op is ops.NEG:
            return f"-{args[0]}"
        if op is ops.MULACC:
            return f"{args[0]} * {args[1]} + {args[2]}"
        return f"{self._kept(_meaning(op, node.src[0].dtype, 2))}({', '.join(args)})"
