"""Linearize: a kernel as a list of nodes in the order in which they run.

A node stands in the innermost loop that it depends on, and nowhere further inside. A loop is run
for what closes it: an END for its effects, a REDUCE for its value. Those that close the same ranges
and do not need each other share one loop. On the way

    REDUCE   becomes a register: set before the loop, updated in it, read after it
    INDEX    becomes a LOAD of the element, or the place that a STORE writes to
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from porism.base.dtypes import Kind, Space, i32
from porism.ir import ops
from porism.ir.facts.reduction_identity import identity
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort

CLOSERS: Final = frozenset({ops.END, ops.REDUCE})

Scope = frozenset[UOp]


def linearize(kernel: UOp, *, fused: bool = True) -> list[UOp]:
    """The nodes of a kernel in order; every source comes before what uses it.

    `fused` says whether a sum of products of floats is added up by MULACC: that is one instruction,
    or slow where there is none.
    """
    return _Linearizer(kernel, fused).run()


class _Linearizer:
    def __init__(self, kernel: UOp, fused: bool) -> None:
        self.kernel = kernel
        self.fused = fused
        self.scope = _scopes(kernel)
        self.effects = _effects(self.scope)
        self.lines: dict[UOp, None] = {}
        self.new: dict[UOp, UOp] = {}  # what a node has become
        self.numbers = itertools.count()

    def run(self) -> list[UOp]:
        self._block(self.kernel.src, frozenset())
        sink = ops.SINK(*[self.new[s] for s in self.kernel.src], arg=self.kernel.arg)
        used = _below(self._add(sink))
        return [line for line in self.lines if line in used]

    def _add(self, node: UOp) -> UOp:
        """Append a node, after those of its sources that are not there yet."""
        lines = self.lines
        for s in node.src:
            if s not in lines:
                if not lines.keys() >= set(s.src):
                    for part in toposort(s, within=lambda n: n not in lines):
                        lines[part] = None
                lines[s] = None
        lines[node] = None
        return node

    # -- blocks ------------------------------------------------------------------------------------

    def _block(self, targets: Iterable[UOp], open_loops: Scope) -> None:
        """All that the targets need inside the loops that are open and that is not there yet."""
        levels: list[tuple[list[UOp], dict[tuple[UOp, ...], list[UOp]]]] = []
        for node, level in self._needs(targets, open_loops).items():
            while level >= len(levels):
                levels.append(([], {}))
            plain, loops = levels[level]
            closed = _closed(node) if node.op in CLOSERS else ()
            if closed:
                loops.setdefault(closed, []).append(node)
            else:
                plain.append(node)
        for plain, loops in levels:
            for node in plain:
                self.new[node] = self._plain(node)
            for ranges, closers in loops.items():
                self._loop(closers, ranges, open_loops)

    def _needs(self, targets: Iterable[UOp], open_loops: Scope) -> dict[UOp, int]:
        """The nodes of a block, what each needs first, with how many loops come before it.

        The walk goes on inside loops that are yet to be opened, for what they take from outside.
        """
        found: dict[UOp, int] = {}
        inside: dict[UOp, int] = {}
        new, scope, effects = self.new, self.scope, self.effects
        for target in targets:
            if target in found or target in new:
                continue
            node, level = target, 0
            is_inside = False  # whether the node belongs to a loop that is yet to be opened
            in_loop = node.op in CLOSERS  # whether what it needs may be inside of such a loop
            sources = iter(node.src if in_loop else _inputs(node))
            stack: list[tuple[UOp, Iterator[UOp], bool, bool, int]] = []
            while True:
                for s in sources:
                    s_inside = in_loop and (s in effects or not scope[s] <= open_loops)
                    if s_inside:
                        first = inside.get(s)
                    elif s in new:
                        continue
                    else:
                        first = found.get(s)
                        if first is not None and s.op in CLOSERS:
                            first += 1
                    if first is None:
                        if not s.src:
                            (inside if s_inside else found)[s] = 0
                            continue
                        stack.append((node, sources, is_inside, in_loop, level))
                        node, is_inside, level = s, s_inside, 0
                        closes = s.op in CLOSERS
                        in_loop = s_inside or closes
                        sources = iter(s.src if closes and not s_inside else _inputs(s))
                        break
                    if first > level:
                        level = first
                else:
                    (inside if is_inside else found)[node] = level
                    if not stack:
                        break
                    first = level + (not is_inside and node.op in CLOSERS)
                    node, sources, is_inside, in_loop, level = stack.pop()
                    if first > level:
                        level = first
        return found

    def _from_outside(self, closers: Sequence[UOp], open_loops: Scope) -> list[UOp]:
        found: dict[UOp, None] = {}
        seen: set[UOp] = set()
        stack = [s for c in reversed(closers) for s in reversed(c.src)]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if self.scope[node] <= open_loops and node not in self.effects:
                found[node] = None
            else:
                stack += reversed(_inputs(node))
        return list(found)

    # -- loops -------------------------------------------------------------------------------------

    def _loop(self, closers: Sequence[UOp], ranges: tuple[UOp, ...], outside: Scope) -> None:
        registers = {c: self._register(c) for c in closers if c.op is ops.REDUCE}
        before = {c: self._begin(c, register) for c, register in registers.items()}
        open_loops = outside
        counters = []
        for place, counter in enumerate(ranges):
            self._block(counter.src, open_loops)
            self.new[counter] = self._add(self._counter(counter))
            counters.append(self.new[counter])
            open_loops |= {counter}
            if place < len(ranges) - 1:
                self._block(self._from_outside(closers, open_loops), open_loops)
        self._block([c.src[0] for c in closers], open_loops)
        effects = []
        for closer in closers:
            if closer.op is ops.END:
                effects.append(self.new[closer.src[0]])
            else:
                effects.append(self._update(closer, registers[closer], before[closer], counters))
        ended = effects[0] if len(effects) == 1 else self._add(ops.GROUP(*effects))
        for counter in reversed(counters):
            ended = self._add(ended.end(counter))
        for closer in closers:
            if closer.op is ops.REDUCE:
                there = _first(registers[closer].after(ended))
                self.new[closer] = self._add(there.load())
            else:
                self.new[closer] = ended

    def _counter(self, counter: UOp) -> UOp:
        """The range of a loop; if it is run a second time, one with a name of its own.

        What was computed in the first loop is computed again.
        """
        src = tuple(self.new[s] for s in counter.src)
        if counter not in self.new:
            return counter.replace(src)
        for node in [n for n in self.new if counter in self.scope[n]]:
            del self.new[node]
        axis, kind = counter.arg
        taken = {n.arg[0] for n in (*self.scope, *self.lines) if n.op is ops.RANGE}
        free = next(n for n in itertools.count() if (*axis, n) not in taken)
        return ops.RANGE(*src, arg=((*axis, free), kind))

    def _register(self, closer: UOp) -> UOp:
        dtype = closer.dtype.pointer(Space.REGISTER, 1)
        return self._add(UOp(ops.DEFINE_REG, dtype, (), next(self.numbers)))

    def _begin(self, closer: UOp, register: UOp) -> UOp:
        start = identity(closer.arg, closer.dtype)
        return self._add(_first(register).store(UOp.const(closer.dtype, start)))

    def _update(self, closer: UOp, register: UOp, before: UOp, counters: Sequence[UOp]) -> UOp:
        there = _first(register.after(before, *counters))
        value = self.new[closer.src[0]]
        return self._add(there.store(_folded(closer.arg, there.load(), value, fused=self.fused)))

    # -- nodes that are no loops -------------------------------------------------------------------

    def _plain(self, node: UOp) -> UOp:
        if node.op is ops.STORE:
            place, value = self._place(node.src[0]), self.new[node.src[1]]
            return self._add(ops.STORE(place, value, arg=node.arg))
        if node.op is ops.INDEX and node.dtype.kind is not Kind.POINTER:
            return self._element(node)
        if node.op in CLOSERS:  # that closes nothing
            return self.new[node.src[0]]
        new = self.new
        return self._add(node.replace(tuple([new[s] for s in node.src])))

    def _element(self, node: UOp) -> UOp:
        place = self._place(node)
        gated = place.src[-1].dtype.kind is Kind.BOOL and len(place.src) > 1
        alternative = [UOp.const(node.dtype, 0)] if gated else []
        return self._add(ops.LOAD(place, *alternative, dtype=node.dtype))

    def _place(self, node: UOp) -> UOp:
        """The pointer to an element."""
        buffer, *at = (self.new[s] for s in node.src)
        return ops.INDEX(buffer, *at, dtype=buffer.dtype)


def _below(root: UOp) -> set[UOp]:
    """A node and all that it needs."""
    found = {root}
    stack = [root]
    while stack:
        for s in stack.pop().src:
            if s not in found:
                found.add(s)
                stack.append(s)
    return found


def _inputs(node: UOp) -> Sequence[UOp]:
    """What a node needs; a STORE needs the place it writes to, and not what is there."""
    if node.op is ops.STORE:
        return [*node.src[0].src, node.src[1]]
    return node.src


def _effects(nodes: Iterable[UOp]) -> set[UOp]:
    """The stores that are done in loops; others come before what is AFTER them."""
    ends = [n.src[0] for n in nodes if n.op is ops.END]
    found = {s for effect in ends for s in (effect.src if effect.op is ops.GROUP else (effect,))}
    return {s for s in found if s.op is ops.STORE}


def _closed(node: UOp) -> tuple[UOp, ...]:
    return tuple(s for s in node.src[1:] if s.op is ops.RANGE)


def _first(register: UOp) -> UOp:
    zero = UOp.const(i32, 0)
    return ops.INDEX(register, zero, dtype=register.dtype)


def _folded(op: Op, total: UOp, value: UOp, *, fused: bool) -> UOp:
    """A total with one more value; a product is added in one step, if it may."""
    if fused and op is ops.ADD and value.op is ops.MUL and value.dtype.is_float:
        return ops.MULACC(*value.src, total)
    if fused and op is ops.ADD and value.op is ops.ADD and value.dtype.is_float:
        for product, rest in (value.src, value.src[::-1]):
            if product.op is ops.MUL:
                return ops.MULACC(*product.src, _folded(op, total, rest, fused=fused))
    if op is ops.ADD and value.op is ops.WMMA:
        a, b, before = value.src
        if before.op is ops.CONST and before.arg == 0:
            return ops.WMMA(a, b, total, arg=value.arg)
        if before.op is ops.WMMA:
            return ops.WMMA(a, b, _folded(op, total, before, fused=fused), arg=value.arg)
    if op in (ops.MAX, ops.MIN):  # that the new value is NaN can be seen before the total is there
        return op(value, total)
    return op(total, value)


def _scopes(kernel: UOp) -> dict[UOp, Scope]:
    """The loops that each node is inside of: those it depends on, and of an effect those of its
    END."""
    order = toposort(kernel)
    scopes: dict[tuple[UOp, ...], Scope] = {}  # there are few of them
    found: dict[UOp, Scope] = {}
    for node in order:
        ranges = node.ranges
        scope = scopes.get(ranges)
        if scope is None:
            scope = scopes[ranges] = frozenset(ranges)
        found[node] = scope
    around: dict[UOp, Scope] = {}
    for node in reversed(order):
        if node.op is ops.END:
            inside = around.get(node, frozenset()) | frozenset(_closed(node))
            around[node.src[0]] = around.get(node.src[0], frozenset()) | inside
        elif node.op is ops.GROUP:
            for s in node.src:
                around[s] = around.get(s, frozenset()) | around.get(node, frozenset())
    for node, inside in around.items():
        if node.op is ops.STORE:
            found[node] |= inside
    return found
