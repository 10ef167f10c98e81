"""Listing: a kernel in loop form, for people.

    for r0 < 64:
        s0 = -inf
        for r2 < 128: s0 = max(s0, x[r0 * 128 + r2])
        for r1 < 128:
            out[r0 * 128 + r1] = …

A value that several loops share is computed where it stands, with a name of its own. So is a value
that an expression uses more than once, unless it is short, and the inner part of an expression that
would not fit into a line:

    for r0 < 64:
        v0 = exp2(x[r0] * 1.4426950408889634)
        out[r0] = v0 / (v0 + 1.0)

Every name is good until the loop that it stands in ends. Indices stay whole, in their brackets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from porism.base.dtypes import Kind, Space
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.op_signatures import PREFETCH
from porism.ir.ops import Op
from porism.ir.text.expression import name_of_axis, show
from porism.ir.traversal import toposort

CLOSERS: Final = frozenset({ops.REDUCE, ops.BUFFERIZE, ops.END})
INDENT: Final = "    "

SHORT: Final = 6
"""A value of so many characters is written again wherever it is used."""
REPEATED: Final = 24
"""So many characters may be written again before a value gets a name."""
WIDE: Final = 120
"""An expression of more characters is taken apart where its parts can have names."""
LINE: Final = 160
"""Where a store is wider, its value gets a name."""

VALUES: Final = (*ops.ELEMENTWISE, ops.Group.CONVERSION, ops.Group.VECTOR)

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
        self.widths: dict[UOp, int] = {}  # of the texts of values that were looked at
        self.scope: list[UOp] = []  # what was named in the loops that are open
        self.declared: set[UOp] = set()
        self.places: set[UOp] = set()  # what is stored to
        self.taken: set[str] = set(names.values())
        self.lines: list[str] = []
        self.counts = {"s": 0, "v": 0, "local": 0}

    def run(self, kernel: UOp) -> list[str]:
        order = toposort(kernel)
        self.places |= {n.src[0] for n in order if n.op is ops.STORE}
        self.taken |= {n.arg[0] for n in order if n.op is ops.VARIABLE}
        for node in order:
            if node.op is ops.PARAM:
                self.named[node] = self.names.get(node.arg, f"p{node.arg}")
            elif node.op is ops.DEFINE_LOCAL:
                self.named[node] = self._new("local")
        if isinstance(kernel.arg, tuple) and kernel.arg[:1] == (PREFETCH,):
            for number, elements, axes, *later in kernel.arg[1:]:
                name = self.names.get(number, f"p{number}")
                where = " and ".join(map(name_of_axis, axes))
                where = f", in {where}" if where else ""
                what = f"iterations of {name_of_axis(later[0])}" if later else "elements"
                self._say(0, f"# {PREFETCH} {name}, {elements} {what} ahead{where}")
        for effect in kernel.src:
            self._block([effect], None, frozenset(), 0)
        return self.lines

    def _say(self, depth: int, text: str) -> None:
        self.lines.append(INDENT * depth + text)

    def _block(
        self,
        targets: Sequence[UOp],
        around: frozenset[UOp] | None,
        inside: frozenset[UOp],
        depth: int,
        *,
        innermost: bool = True,
    ) -> None:
        """What the targets need in this loop; then, in their innermost, their loops and stores.

        What is ready in the loops `around` this one was looked at there.
        """
        order = toposort(*targets, within=lambda n: n not in self.named)
        effects = set(targets) if innermost else set()
        below = order if innermost else self._below_closers(order, inside)
        effects |= {s for n in below if n.op is ops.AFTER for s in n.src[1:]}
        uses = _uses(order)
        for node in order:
            if node.op is ops.AFTER:
                if all(s in self.named or s in inside for s in node.src):
                    self.named[node] = self.named[node.src[0]]
            elif not inside.issuperset(node.ranges):
                continue
            elif node.op in CLOSERS:
                if node not in self.named:
                    self._loops(node, inside, depth)
            elif node.op is ops.STORE:
                if node in effects:
                    self._store(node, depth)
            elif around is not None and around.issuperset(node.ranges):
                continue
            elif _is_value(node) and node not in self.places:
                self._value(node, uses[node], depth)

    def _below_closers(self, order: Iterable[UOp], inside: frozenset[UOp]) -> list[UOp]:
        ready = [n for n in order if n.op in CLOSERS and inside.issuperset(n.ranges)]
        return toposort(*ready, within=lambda n: n not in self.named)

    def _store(self, store: UOp, depth: int) -> None:
        place, value = store.src
        self._declare([store], depth)
        self._narrow(place, depth)
        width = len(INDENT) * depth + len(f"{self._text(place)} = {self._text(value)}")
        if width > LINE and self._nameable(value):
            self._name(value, depth)
        note = "" if store.arg is None else f"  # {store.arg}"
        self._say(depth, f"{self._text(place)} = {self._text(value)}{note}")
        self.named[store] = "done"

    def _loops(self, closer: UOp, inside: frozenset[UOp], depth: int) -> None:
        value, *ranges = closer.src
        effects = value.src if value.op is ops.GROUP else (value,)
        before = depth
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
            self._declare(effects, depth)
        known = len(self.scope)
        around = inside
        for counter in ranges:
            if counter.op is ops.RANGE:
                if depth > before:
                    self._block(effects, around, inside, depth, innermost=False)
                    around = inside
                kind = counter.arg[1].value
                note = "" if kind in ("loop", "reduce") else f"  # {kind}"
                self._say(depth, f"for {show(counter)} < {self._text(counter.src[0])}:{note}")
                depth += 1
                inside |= {counter}
        self._block(effects, around, inside, depth)
        if closer.op is ops.REDUCE:
            self._say(depth, _folded(name, closer.arg, self._text(value)))
        elif closer.op is ops.BUFFERIZE:
            at = ", ".join(show(r) for r in ranges)
            self._say(depth, f"{name}[{at}] = {self._text(value)}")
        while len(self.scope) > known:
            del self.named[self.scope.pop()]
        self.named[closer] = "done" if closer.op is ops.END else name
        if closer.op is ops.REDUCE:
            self.scope.append(closer)

    def _value(self, node: UOp, uses: int, depth: int) -> None:
        """Give a name to the value, or to parts of it, if it reads better so."""
        width = self.widths[node] = self._narrow(node, depth)
        if width > SHORT and width * (uses - 1) > REPEATED and self._nameable(node):
            self._name(node, depth)

    def _narrow(self, node: UOp, depth: int) -> int:
        """Name the widest parts of a value until it fits; how wide it is then."""
        while (width := len(self._text(node))) > WIDE:
            parts = [s for s in node.src if self._nameable(s) and self.widths.get(s, 0) > REPEATED]
            if not parts:
                break
            self._name(max(parts, key=lambda s: self.widths[s]), depth)
        return width

    def _nameable(self, node: UOp) -> bool:
        """Whether it is a value that has no name yet, and no place that is stored to."""
        return _is_value(node) and node not in self.named and node not in self.places

    def _name(self, value: UOp, depth: int) -> None:
        text = self._text(value)
        self.named[value] = self._new("v")
        self.scope.append(value)
        self._say(depth, f"{self.named[value]} = {text}")

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

    def _new(self, prefix: str) -> str:
        while True:
            name = f"{prefix}{self.counts[prefix]}"
            self.counts[prefix] += 1
            if name not in self.taken:
                return name

    def _text(self, node: UOp) -> str:
        """An expression, with the names of what has one."""
        return show(node, limit=100_000, names=self.named)


def _is_value(node: UOp) -> bool:
    """Whether a line of its own can say what it is; constants, counters and buffers need none."""
    if node.op in (ops.INDEX, ops.LOAD):
        return node.dtype.kind is not Kind.POINTER
    return node.op.group in VALUES


def _uses(order: Sequence[UOp]) -> Counter[UOp]:
    """How often each value is written out; in the index of an element only elements count."""
    uses: Counter[UOp] = Counter()
    users = {s for n in order for s in n.src}
    values = {n for n in order if n not in users}  # what is used other than in an index
    for node in reversed(order):
        if node.op is ops.RANGE:
            continue
        for number, s in enumerate(node.src):
            value = node in values and (node.op is not ops.INDEX or number == 0)
            if value:
                values.add(s)
            if value or s.op is ops.INDEX:
                uses[s] += 1
    return uses


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
