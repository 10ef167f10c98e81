"""Listing: a kernel in loop form, for people.

    for r0 < 64:
        s0 = -inf
        for r2 < 128: s0 = max(s0, x[r0 * 128 + r2])
        for r1 < 128:
            out[r0 * 128 + r1] = …

A value that several loops share is computed where it stands, with a name of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from porism.base.dtypes import Space
from porism.ir import ops
from porism.ir.expression import show
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.walk import toposort

CLOSERS: Final = frozenset({ops.REDUCE, ops.BUFFERIZE, ops.END})
INDENT: Final = "    "

_STARTS: Final[dict[Op, str]] = {
    ops.ADD: "0",
    ops.MUL: "1",
    ops.MAX: "-inf",
    ops.MIN: "inf",
    ops.AND: "all ones",
    ops.OR: "0",
}


def listing(kernel: UOp, names: Mapping[int, str]) -> str:
    """The loops of a kernel as text; `names` are those of its buffers, by number.

    >>> from porism.base.dtypes import f32
    >>> i, k = UOp.range(2, 0), UOp.range(3, 1)
    >>> x, y = (UOp(ops.PARAM, f32.pointer(size=6), (), n) for n in (1, 0))
    >>> total = x.index(i * 3 + k).reduce(ops.ADD, k)
    >>> print(listing(ops.SINK(y.index(i).store(total).end(i)), {0: "out", 1: "x"}))
    for r0 < 2:
        s0 = 0
        for r1 < 3:
            s0 += x[r0 * 3 + r1]
        out[r0] = s0
    """
    return "\n".join(_Listing(names).run(kernel))


class _Listing:
    def __init__(self, names: Mapping[int, str]) -> None:
        self.names = names
        self.named: dict[UOp, str] = {}
        self.declared: set[UOp] = set()
        self.lines: list[str] = []
        self.counts = {"s": 0, "local": 0}

    def run(self, kernel: UOp) -> list[str]:
        for node in toposort(kernel):
            if node.op is ops.PARAM:
                self.named[node] = self.names.get(node.arg, f"p{node.arg}")
            elif node.op is ops.DEFINE_LOCAL:
                self.named[node] = self._new("local")
        for effect in kernel.src:
            self._block([effect], frozenset(), 0)
        return self.lines

    def _say(self, depth: int, text: str) -> None:
        self.lines.append(INDENT * depth + text)

    def _block(self, targets: Iterable[UOp], inside: frozenset[UOp], depth: int) -> None:
        """What the targets need in this loop; then their own loops and stores."""
        order = toposort(*targets, within=lambda n: n not in self.named)
        effects = {s for n in order if n.op is ops.AFTER for s in n.src[1:]} | set(targets)
        for node in order:
            ready = set(node.ranges) <= inside
            if node.op in CLOSERS and ready and node not in self.named:
                self._loops(node, inside, depth)
            elif node.op is ops.STORE and ready and node in effects:
                self._declare([node], depth)
                note = "" if node.arg is None else f"  # {node.arg}"
                self._say(depth, f"{self._text(node.src[0])} = {self._text(node.src[1])}{note}")
                self.named[node] = "done"
            elif node.op is ops.AFTER and all(s in self.named or s in inside for s in node.src):
                self.named[node] = self.named[node.src[0]]

    def _loops(self, closer: UOp, inside: frozenset[UOp], depth: int) -> None:
        value, *ranges = closer.src
        if closer.op is ops.REDUCE:
            name = self._new("s")
            start = _STARTS[closer.arg]
            self._say(depth, f"{name} = {start}")
        elif closer.op is ops.BUFFERIZE:
            name = self._new("local")
            sizes = " x ".join(show(r.src[0]) for r in ranges if r.op is ops.RANGE) or "1"
            where = "" if closer.arg is Space.LOCAL else f" in {closer.arg.value} memory"
            self._say(depth, f"{name}: {sizes} {closer.dtype}{where}")
        elif value.op in (ops.GROUP, ops.STORE):
            self._declare(value.src if value.op is ops.GROUP else (value,), depth)
        for counter in ranges:
            if counter.op is ops.RANGE:
                kind = counter.arg[1].value
                note = "" if kind in ("loop", "reduce") else f"  # {kind}"
                self._say(depth, f"for {show(counter)} < {self._text(counter.src[0])}:{note}")
                depth += 1
                inside |= {counter}
                if counter is not ranges[-1]:
                    outer = [n for n in self._closers(value) if set(n.ranges) <= inside]
                    self._block(outer, inside, depth)
        if closer.op is ops.END:
            effects = value.src if value.op is ops.GROUP else (value,)
            self._block(effects, inside, depth)
        else:
            self._block([value], inside, depth)
            text = self._text(value)
            if closer.op is ops.REDUCE:
                self._say(depth, _folded(name, closer.arg, text))
            else:
                at = ", ".join(show(r) for r in ranges)
                self._say(depth, f"{name}[{at}] = {text}")
            self.named[closer] = name
        if closer.op is ops.END:
            self.named[closer] = "done"

    def _declare(self, stores: Iterable[UOp], depth: int) -> None:
        """Say how large the local memory is that is about to be filled."""
        for store in stores:
            place = store.src[0].src[0]
            while place.op is ops.AFTER:
                place = place.src[0]
            if place.op is ops.DEFINE_LOCAL and place not in self.declared:
                self.declared.add(place)
                what = f"{place.dtype.size} {place.dtype.element}"
                self._say(depth, f"{self.named[place]}: {what}")

    def _closers(self, value: UOp) -> list[UOp]:
        return [n for n in toposort(value) if n.op in CLOSERS and n not in self.named]

    def _new(self, prefix: str) -> str:
        number = self.counts[prefix]
        self.counts[prefix] += 1
        return f"{prefix}{number}"

    def _text(self, node: UOp) -> str:
        """An expression, with the names of what has one."""
        return show(node, limit=100_000, names=self.named)


def _folded(name: str, op: Op, text: str) -> str:
    if op in (ops.ADD, ops.MUL):
        return f"{name} {op.symbol}= {text}"
    if op in (ops.MAX, ops.MIN):
        return f"{name} = {op.symbol}({name}, {text})"
    return f"{name} {op.symbol}= {text}"


def divisions(kernels: Sequence[UOp]) -> list[int]:
    """How many divisions and remainders of indices each kernel has."""
    return [
        sum(n.op in (ops.IDIV, ops.MOD) and n.dtype.name == "index" for n in toposort(kernel))
        for kernel in kernels
    ]
