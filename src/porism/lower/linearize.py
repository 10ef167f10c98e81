"""Linearize: a kernel graph becomes a list of instructions in the order in which they run.

A node is placed in the innermost loop that it depends on, so loop-invariant code is outside. A loop
runs for the node that closes it: an END for its effects, a REDUCE for its value. Nodes that close
the same ranges and do not depend on each other share one loop.

    before                 after
    REDUCE(value, r)       an accumulator: set before the loop, updated in it, loaded after it
    INDEX of a value       a LOAD from the address
    STORE(INDEX, value)    a STORE to the address
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
    """Return the instructions of a kernel in order: sources before their users.

    `fused` says whether a sum of float products is accumulated by MULACC, which is one instruction
    on a target that has it, and slow on others.
    """
    return _Linearizer(kernel, fused).run()


class _Linearizer:
    """The state of one linearization: the instructions so far, and what each node became."""

    def __init__(self, kernel: UOp, fused: bool) -> None:
        self.kernel = kernel
        self.fused = fused
        self.scope = _scopes(kernel)
        self.effects = _effects(self.scope)
        self.instructions: dict[UOp, None] = {}
        self.new: dict[UOp, UOp] = {}  # what a node has become
        self.numbers = itertools.count()

    def run(self) -> list[UOp]:
        """Return the instructions of the kernel."""
        self._append_block(self.kernel.src, frozenset())
        sink = ops.SINK(*[self.new[s] for s in self.kernel.src], arg=self.kernel.arg)
        used = _below(self._add(sink))
        return [node for node in self.instructions if node in used]

    def _add(self, node: UOp) -> UOp:
        """Append a node, after those of its sources that are not there yet."""
        instructions = self.instructions
        for s in node.src:
            if s not in instructions:
                if not instructions.keys() >= set(s.src):
                    for part in toposort(s, within=lambda n: n not in instructions):
                        instructions[part] = None
                instructions[s] = None
        instructions[node] = None
        return node

    # -- blocks ------------------------------------------------------------------------------------

    def _append_block(self, targets: Iterable[UOp], open_loops: Scope) -> None:
        """Append what the targets need inside the open loops, as far as it is not there yet."""
        levels: list[tuple[list[UOp], dict[tuple[UOp, ...], list[UOp]]]] = []
        for node, level in self._block_nodes(targets, open_loops).items():
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
                self.new[node] = self._append_node(node)
            for ranges, closers in loops.items():
                self._append_loop(closers, ranges, open_loops)

    def _block_nodes(self, targets: Iterable[UOp], open_loops: Scope) -> dict[UOp, int]:
        """Return the nodes of a block in topological order, each with its number of loops before.

        The walk continues inside of loops that are not open yet, for what they use from outside.
        """
        levels: dict[UOp, int] = {}
        inside: dict[UOp, int] = {}
        new, scope, effects = self.new, self.scope, self.effects
        for target in targets:
            if target in levels or target in new:
                continue
            node, level = target, 0
            is_inside = False  # whether the node belongs to a loop that is not open yet
            in_loop = node.op in CLOSERS  # whether the sources may be inside of such a loop
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
                        first = levels.get(s)
                        if first is not None and s.op in CLOSERS:
                            first += 1
                    if first is None:
                        if not s.src:
                            (inside if s_inside else levels)[s] = 0
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
                    (inside if is_inside else levels)[node] = level
                    if not stack:
                        break
                    first = level + (not is_inside and node.op in CLOSERS)
                    node, sources, is_inside, in_loop, level = stack.pop()
                    if first > level:
                        level = first
        return levels

    def _loop_invariants(self, closers: Sequence[UOp], open_loops: Scope) -> list[UOp]:
        """Return the nodes below some closers that depend on no other loops than the open ones."""
        invariants: dict[UOp, None] = {}
        seen: set[UOp] = set()
        stack = [s for c in reversed(closers) for s in reversed(c.src)]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if self.scope[node] <= open_loops and node not in self.effects:
                invariants[node] = None
            else:
                stack += reversed(_inputs(node))
        return list(invariants)

    # -- loops -------------------------------------------------------------------------------------

    def _append_loop(self, closers: Sequence[UOp], ranges: tuple[UOp, ...], outside: Scope) -> None:
        """Append a loop nest over some ranges, with the bodies of all nodes that close them."""
        registers = {c: self._new_register(c) for c in closers if c.op is ops.REDUCE}
        initial = {c: self._initialize(c, register) for c, register in registers.items()}
        open_loops = outside
        loops = []
        for depth, loop in enumerate(ranges):
            self._append_block(loop.src, open_loops)
            self.new[loop] = self._add(self._loop_range(loop))
            loops.append(self.new[loop])
            open_loops |= {loop}
            if depth < len(ranges) - 1:
                self._append_block(self._loop_invariants(closers, open_loops), open_loops)
        self._append_block([c.src[0] for c in closers], open_loops)
        effects = []
        for closer in closers:
            if closer.op is ops.END:
                effects.append(self.new[closer.src[0]])
            else:
                effects.append(self._update(closer, registers[closer], initial[closer], loops))
        ended = effects[0] if len(effects) == 1 else self._add(ops.GROUP(*effects))
        for loop in reversed(loops):
            ended = self._add(ended.end(loop))
        for closer in closers:
            if closer.op is ops.REDUCE:
                accumulator = _first_element(registers[closer].after(ended))
                self.new[closer] = self._add(accumulator.load())
            else:
                self.new[closer] = ended

    def _loop_range(self, loop: UOp) -> UOp:
        """Return the RANGE of a loop; with a new axis if the same range was a loop before.

        In that case, forget what the nodes inside of the first loop became: they run again.
        """
        src = tuple(self.new[s] for s in loop.src)
        if loop not in self.new:
            return loop.replace(src)
        for node in [n for n in self.new if loop in self.scope[n]]:
            del self.new[node]
        axis, kind = loop.arg
        taken = {n.arg[0] for n in (*self.scope, *self.instructions) if n.op is ops.RANGE}
        free = next(n for n in itertools.count() if (*axis, n) not in taken)
        return ops.RANGE(*src, arg=((*axis, free), kind))

    def _new_register(self, closer: UOp) -> UOp:
        """Append the register that holds the accumulator of a reduction."""
        dtype = closer.dtype.pointer(Space.REGISTER, 1)
        return self._add(UOp(ops.DEFINE_REG, dtype, (), next(self.numbers)))

    def _initialize(self, closer: UOp, register: UOp) -> UOp:
        """Append the store of a reduction's identity, before the loop."""
        start = identity(closer.arg, closer.dtype)
        return self._add(_first_element(register).store(UOp.const(closer.dtype, start)))

    def _update(self, closer: UOp, register: UOp, initial: UOp, loops: Sequence[UOp]) -> UOp:
        """Append the store that combines the accumulator with the value of an iteration."""
        accumulator = _first_element(register.after(initial, *loops))
        value = self.new[closer.src[0]]
        return self._add(
            accumulator.store(_combine(closer.arg, accumulator.load(), value, fused=self.fused))
        )

    # -- nodes that are no loops -------------------------------------------------------------------

    def _append_node(self, node: UOp) -> UOp:
        """Append a node that closes no loop, on what its sources have become."""
        if node.op is ops.STORE:
            address, value = self._address(node.src[0]), self.new[node.src[1]]
            return self._add(ops.STORE(address, value, arg=node.arg))
        if node.op is ops.INDEX and node.dtype.kind is not Kind.POINTER:
            return self._load(node)
        if node.op in CLOSERS:  # without ranges
            return self.new[node.src[0]]
        new = self.new
        return self._add(node.replace(tuple([new[s] for s in node.src])))

    def _load(self, node: UOp) -> UOp:
        """Append the LOAD of an INDEX; one with a gate is 0 where the gate is false."""
        address = self._address(node)
        gated = address.src[-1].dtype.kind is Kind.BOOL and len(address.src) > 1
        alternative = [UOp.const(node.dtype, 0)] if gated else []
        return self._add(ops.LOAD(address, *alternative, dtype=node.dtype))

    def _address(self, node: UOp) -> UOp:
        """Return the pointer to the element of an INDEX."""
        buffer, *indices = (self.new[s] for s in node.src)
        return ops.INDEX(buffer, *indices, dtype=buffer.dtype)


def _below(root: UOp) -> set[UOp]:
    """Return a node and everything below it."""
    below = {root}
    stack = [root]
    while stack:
        for s in stack.pop().src:
            if s not in below:
                below.add(s)
                stack.append(s)
    return below


def _inputs(node: UOp) -> Sequence[UOp]:
    """Return what a node needs; a STORE needs the parts of its address, not the element there."""
    if node.op is ops.STORE:
        return [*node.src[0].src, node.src[1]]
    return node.src


def _effects(nodes: Iterable[UOp]) -> set[UOp]:
    """Return the stores that ENDs close; others are ordered by AFTER alone."""
    ends = [n.src[0] for n in nodes if n.op is ops.END]
    closed = {s for effect in ends for s in (effect.src if effect.op is ops.GROUP else (effect,))}
    return {s for s in closed if s.op is ops.STORE}


def _closed(node: UOp) -> tuple[UOp, ...]:
    return tuple(s for s in node.src[1:] if s.op is ops.RANGE)


def _first_element(register: UOp) -> UOp:
    zero = UOp.const(i32, 0)
    return ops.INDEX(register, zero, dtype=register.dtype)


def _combine(op: Op, total: UOp, value: UOp, *, fused: bool) -> UOp:
    """Return an accumulator combined with one value; products are fused into MULACC or WMMA."""
    if op in (ops.MAX, ops.MIN):  # whether the value is NaN is known before the accumulator is
        return op(value, total)
    if op is not ops.ADD:
        return op(total, value)
    if fused and value.op is ops.MUL and value.dtype.is_float:
        return ops.MULACC(*value.src, total)
    if fused and value.op is ops.ADD and value.dtype.is_float:
        for product, rest in (value.src, value.src[::-1]):
            if product.op is ops.MUL:
                return ops.MULACC(*product.src, _combine(op, total, rest, fused=fused))
    if value.op is ops.WMMA:
        a, b, before = value.src
        if before.op is ops.CONST and before.arg == 0:
            return ops.WMMA(a, b, total, arg=value.arg)
        if before.op is ops.WMMA:
            return ops.WMMA(a, b, _combine(op, total, before, fused=fused), arg=value.arg)
    return op(total, value)


def _scopes(kernel: UOp) -> dict[UOp, Scope]:
    """Return the loops around each node: its ranges, and for a STORE those that its ENDs close."""
    order = toposort(kernel)
    shared: dict[tuple[UOp, ...], Scope] = {}  # few different ones for many nodes
    scopes: dict[UOp, Scope] = {}
    for node in order:
        ranges = node.ranges
        scope = shared.get(ranges)
        if scope is None:
            scope = shared[ranges] = frozenset(ranges)
        scopes[node] = scope
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
            scopes[node] |= inside
    return scopes
