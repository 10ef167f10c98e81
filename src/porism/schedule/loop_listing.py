"""Loop listing: a kernel as readable loops.

    for r0 < 64:
        s0 = -inf
        for r2 < 128: s0 = max(s0, x[r0 * 128 + r2])
        for r1 < 128:
            out[r0 * 128 + r1] = …

A value that several loops share has a name and a line of its own. So has a value that an expression
uses more than once, unless it is short, and a part of an expression that would not fit into a line:

    for r0 < 64:
        v0 = exp2(x[r0] * 1.4426950408889634)
        out[r0] = v0 / (v0 + 1.0)

Every name is valid until the end of the loop that it is defined in. Indices are not taken apart.
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

MIN_NAMED: Final = 6
"""Values of at most so many characters are repeated wherever they are used."""
MAX_REPEATED: Final = 24
"""How many characters may be repeated in all before a value gets a name."""
MAX_EXPRESSION: Final = 120
"""The parts of an expression of more characters get names."""
MAX_LINE: Final = 160
"""The value of a store gets a name if its line has more characters."""

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
    """Return the loops of a kernel as text; `names` are those of its buffers, by number.

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
        self.widths: dict[UOp, int] = {}  # characters of the texts of values
        self.scope: list[UOp] = []  # the nodes that were named in the loops that are open
        self.declared: set[UOp] = set()  # local buffers whose size has been printed
        self.addresses: set[UOp] = set()  # of the stores
        self.used_names: set[str] = set(names.values())
        self.lines: list[str] = []
        self.counts = {"s": 0, "v": 0, "local": 0}

    def run(self, kernel: UOp) -> list[str]:
        order = toposort(kernel)
        self.addresses |= {n.src[0] for n in order if n.op is ops.STORE}
        self.used_names |= {n.arg[0] for n in order if n.op is ops.VARIABLE}
        for node in order:
            if node.op is ops.PARAM:
                self.named[node] = self.names.get(node.arg, f"p{node.arg}")
            elif node.op is ops.DEFINE_LOCAL:
                self.named[node] = self._new_name("local")
        if isinstance(kernel.arg, tuple) and kernel.arg[:1] == (PREFETCH,):
            for number, distance, axes, *iterated in kernel.arg[1:]:
                name = self.names.get(number, f"p{number}")
                loops = " and ".join(map(name_of_axis, axes))
                loops = f", in {loops}" if loops else ""
                unit = f"iterations of {name_of_axis(iterated[0])}" if iterated else "elements"
                self._print(0, f"# {PREFETCH} {name}, {distance} {unit} ahead{loops}")
        for effect in kernel.src:
            self._block([effect], None, frozenset(), 0)
        return self.lines

    def _print(self, depth: int, text: str) -> None:
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
        """Print the values that targets need in this loop; in the innermost also their stores.

        `inside` are the open loops; values that depend on the loops `around` alone were printed
        there.
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
            elif _is_value(node) and node not in self.addresses:
                self._value(node, uses[node], depth)

    def _below_closers(self, order: Iterable[UOp], inside: frozenset[UOp]) -> list[UOp]:
        """Return the unnamed nodes below the reductions and loops that can be printed here."""
        ready = [n for n in order if n.op in CLOSERS and inside.issuperset(n.ranges)]
        return toposort(*ready, within=lambda n: n not in self.named)

    def _store(self, store: UOp, depth: int) -> None:
        """Print a store."""
        address, value = store.src
        self._declare([store], depth)
        self._name_parts(address, depth)
        width = len(INDENT) * depth + len(f"{self._text(address)} = {self._text(value)}")
        if width > MAX_LINE and self._is_nameable(value):
            self._name(value, depth)
        note = "" if store.arg is None else f"  # {store.arg}"
        self._print(depth, f"{self._text(address)} = {self._text(value)}{note}")
        self.named[store] = "done"

    def _loops(self, closer: UOp, inside: frozenset[UOp], depth: int) -> None:
        """Print the loops that a REDUCE, BUFFERIZE or END closes, with their body."""
        value, *ranges = closer.src
        effects = value.src if value.op is ops.GROUP else (value,)
        before = depth
        name = self._initial(closer, depth)
        outer_names = len(self.scope)
        around = inside
        for loop in ranges:
            if loop.op is ops.RANGE:
                if depth > before:
                    self._block(effects, around, inside, depth, innermost=False)
                    around = inside
                kind = loop.arg[1].value
                note = "" if kind in ("loop", "reduce") else f"  # {kind}"
                self._print(depth, f"for {show(loop)} < {self._text(loop.src[0])}:{note}")
                depth += 1
                inside |= {loop}
        self._block(effects, around, inside, depth)
        if closer.op is ops.REDUCE:
            self._print(depth, _update(name, closer.arg, self._text(value)))
        elif closer.op is ops.BUFFERIZE:
            at = ", ".join(show(r) for r in ranges)
            self._print(depth, f"{name}[{at}] = {self._text(value)}")
        while len(self.scope) > outer_names:
            del self.named[self.scope.pop()]
        self.named[closer] = name
        if closer.op is ops.REDUCE:
            self.scope.append(closer)

    def _initial(self, closer: UOp, depth: int) -> str:
        """Print what comes before the loops: an initial value, or sizes; return the name."""
        value, *ranges = closer.src
        if closer.op is ops.REDUCE:
            name = self._new_name("s")
            self._print(depth, f"{name} = {_STARTS[closer.arg]}")
            return name
        if closer.op is ops.BUFFERIZE:
            name = self._new_name("local")
            sizes = " x ".join(show(r.src[0]) for r in ranges if r.op is ops.RANGE) or "1"
            space = "" if closer.arg is Space.LOCAL else f" in {closer.arg.value} memory"
            self._print(depth, f"{name}: {sizes} {closer.dtype}{space}")
            return name
        if value.op in (ops.GROUP, ops.STORE):
            self._declare(value.src if value.op is ops.GROUP else (value,), depth)
        return "done"

    def _value(self, node: UOp, uses: int, depth: int) -> None:
        """Give a name to a value that is long and used more than once, or to parts of it."""
        width = self.widths[node] = self._name_parts(node, depth)
        if width > MIN_NAMED and width * (uses - 1) > MAX_REPEATED and self._is_nameable(node):
            self._name(node, depth)

    def _name_parts(self, node: UOp, depth: int) -> int:
        """Name the widest sources of a value until it fits; return its width in characters."""
        while (width := len(self._text(node))) > MAX_EXPRESSION:
            parts = [
                s for s in node.src if self._is_nameable(s) and self.widths.get(s, 0) > MAX_REPEATED
            ]
            if not parts:
                break
            self._name(max(parts, key=lambda s: self.widths[s]), depth)
        return width

    def _is_nameable(self, node: UOp) -> bool:
        """Return whether a node is a value without a name, and not the address of a store."""
        return _is_value(node) and node not in self.named and node not in self.addresses

    def _name(self, value: UOp, depth: int) -> None:
        """Print a value on a line of its own, and use its name from there on."""
        text = self._text(value)
        self.named[value] = self._new_name("v")
        self.scope.append(value)
        self._print(depth, f"{self.named[value]} = {text}")

    def _declare(self, stores: Iterable[UOp], depth: int) -> None:
        """Print the sizes of the local buffers that are about to be filled."""
        for store in stores:
            buffer = store.src[0].src[0]
            while buffer.op is ops.AFTER:
                buffer = buffer.src[0]
            if buffer.op is ops.DEFINE_LOCAL and buffer not in self.declared:
                self.declared.add(buffer)
                size = f"{buffer.dtype.size} {buffer.dtype.element}"
                self._print(depth, f"{self.named[buffer]}: {size}")

    def _new_name(self, prefix: str) -> str:
        while True:
            name = f"{prefix}{self.counts[prefix]}"
            self.counts[prefix] += 1
            if name not in self.used_names:
                return name

    def _text(self, node: UOp) -> str:
        """Return an expression as text, with names for the nodes that have one."""
        return show(node, limit=100_000, names=self.named)


def _is_value(node: UOp) -> bool:
    """Return whether a node may have a line of its own: no constant, loop or buffer."""
    if node.op in (ops.INDEX, ops.LOAD):
        return node.dtype.kind is not Kind.POINTER
    return node.op.group in VALUES


def _uses(order: Sequence[UOp]) -> Counter[UOp]:
    """Count how often each value is printed; in the index of an element only elements count."""
    uses: Counter[UOp] = Counter()
    users = {s for n in order for s in n.src}
    values = {n for n in order if n not in users}  # those that are used other than in an index
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


def _update(name: str, op: Op, text: str) -> str:
    """Return the statement that combines a value with an accumulator."""
    if op in (ops.ADD, ops.MUL):
        return f"{name} {op.symbol}= {text}"
    if op in (ops.MAX, ops.MIN):
        return f"{name} = {op.symbol}({name}, {text})"
    return f"{name} {op.symbol}= {text}"


def divisions(kernels: Sequence[UOp]) -> list[int]:
    """Return the number of divisions and remainders of indices in each kernel."""
    return [
        sum(n.op in (ops.IDIV, ops.MOD) and n.dtype.name == "index" for n in toposort(kernel))
        for kernel in kernels
    ]
