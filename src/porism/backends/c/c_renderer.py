"""C renderer: a linear kernel as C, to be read or compiled.

A kernel becomes a function of its buffers, its variables and, if its outermost loop is a THREAD
loop, the range of iterations to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from porism.backends.c.c_arithmetic import Arithmetic
from porism.backends.c.c_dialect import C99, Dialect
from porism.backends.c.c_memory import MemoryWriter, constant_lanes
from porism.backends.c.c_scalars import literal
from porism.backends.c.c_writer import TranslationUnit
from porism.base.dtypes import boolean, i8
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.ops import Op

ALIGNMENT: Final = 64
"""Bytes that local buffers are aligned to: a cache line."""


def text(instructions: Sequence[UOp], name: str, dialect: Dialect = C99) -> str:
    """Return a kernel as a complete C file, for display."""
    unit = TranslationUnit(dialect)
    function = Renderer(unit, name, instructions).function()
    return unit.head() + "\n" + function


def module(named: Mapping[str, Sequence[UOp]], dialect: Dialect = C99) -> str:
    """Return kernels as one C file, each with an entry `name_run(arguments, begin, end)`."""
    unit = TranslationUnit(dialect)
    parts = []
    for name, instructions in named.items():
        renderer = Renderer(unit, name, instructions, hidden=True)
        parts += [renderer.function(), renderer.entry_function()]
    return "\n".join([unit.head(), *parts])


class Renderer(MemoryWriter, Arithmetic):
    """Writes one kernel."""

    # -- the function ------------------------------------------------------------------------------

    def function(self) -> str:
        for node in self.instructions:
            if node not in self.live:
                continue
            handler = _HANDLERS.get(node.op)
            if handler is None:
                raise self.dialect.missing(node)
            handler(self, node)
        arguments = list(self._arguments())
        last = len(arguments) - 1
        width = max((len(kind) for kind, _ in arguments), default=0) + 1
        rows = [
            f"    {kind + ('' if k == last else ','):<{width}}  /* {note} */".rstrip()
            for k, (kind, note) in enumerate(arguments)
        ]
        qualifier = "static void" if self.hidden else self.dialect.entry
        unused = [
            f"    (void){self.names[p]};"
            for p in (*self.buffers, *self.variables)
            if p not in self.live
        ]
        if not rows:
            rows = ["    void"]
        head = [f"{qualifier} {self.name}(", *rows, ")", "{"]
        return "\n".join([*head, *unused, *self.top, *self.body, "}"]) + "\n"

    def _arguments(self) -> Iterator[tuple[str, str]]:
        for node in self.buffers:
            kind = self.dialect.memory_type(node.dtype.element)
            restrict = "" if self.alias else f"{self.dialect.restrict} "
            constant = "" if self.names.is_written(node) else "const "
            size = node.dtype.size
            count_text = "elements" if size < 0 else f"{size} element{'s' * (size != 1)}"
            yield (
                f"{constant}{kind} *{restrict}{self.names[node]}",
                f"{count_text} of {node.dtype.element.element.name}, {self.names.role(node)}",
            )
        for node in self.variables:
            _, low, high = node.arg
            yield f"int64_t {self.names[node]}", f"from {low} to {high}"
        if self.threaded:
            yield "int64_t begin", "the first iteration of the outermost loop"
            yield "int64_t end", "the one after the last"

    def entry_function(self) -> str:
        """Return the entry function, which takes its arguments from an array."""
        passed = []
        for position, node in enumerate([*self.buffers, *self.variables]):
            if node.op is ops.PARAM:
                constant = "" if self.names.is_written(node) else "const "
                kind = f"{constant}{self.dialect.memory_type(node.dtype.element)} *"
                passed.append(f"({kind})(intptr_t)arguments[{position}]")
            else:
                passed.append(f"arguments[{position}]")
        lines = [f"void {self.name}_run(const int64_t *arguments, int64_t begin, int64_t end)", "{"]
        if self.threaded:
            passed += ["begin", "end"]
        else:
            lines.append("    (void)begin, (void)end;")
        if not self.buffers and not self.variables:
            lines.append("    (void)arguments;")
        call = ",\n        ".join(passed)
        return "\n".join([*lines, f"    {self.name}({call});", "}"]) + "\n"

    # -- leaves ------------------------------------------------------------------------------------

    def constant(self, node: UOp) -> None:
        lane = node.dtype.element
        if node.op is ops.CONST:
            self.values[node] = literal(lane, node.arg, self.dialect)
            if node.dtype.count > 1:
                self.splats.add(node)
                self.masks[node] = 8
            return
        self.masks[node] = 8
        if lane is boolean:
            if constant_lanes(node) and all(user.op is ops.INDEX for user in self.used[node]):
                return  # a gate, of which only the lanes that it leaves open are written
            lanes = ["-1" if value else "0" for value in node.arg]
        else:
            lanes = [literal(lane, value, self.dialect) for value in node.arg]
        self.define(node, f"{{{', '.join(lanes)}}}")

    def parameter(self, node: UOp) -> None:
        self.values[node] = self.names[node]

    def variable(self, node: UOp) -> None:
        name = self.names[node]
        short = node.dtype.bits < 64
        self.values[node] = f"({self.dialect.scalar(node.dtype)}){name}" if short else name

    def memory(self, node: UOp) -> None:
        name, element, size = self.names[node], node.dtype.element, node.dtype.size
        kind = self.dialect.memory_type(element)
        if element.count > 1:
            kind = self.unit.vector(
                i8 if element.element is boolean else element.element, element.count
            )
        # A register of one element is a variable; memory is an array, whatever its size.
        array_size = f"[{max(size, 1)}]" if size != 1 or node.op is ops.DEFINE_LOCAL else ""
        if node.op is ops.DEFINE_LOCAL:
            local = f"{self.dialect.local} " if self.dialect.local else ""
            self.top.append(
                f"    {local}{kind} {name}{array_size}{self.dialect.aligned(ALIGNMENT)};"
            )
        else:
            self.do(f"{kind} {name}{array_size};")
        self.values[node] = name

    def special(self, node: UOp) -> None:
        self.values[node] = self.dialect.special(node)

    # -- loops and conditions ----------------------------------------------------------------------

    def loop(self, node: UOp) -> None:
        name, kind = self.names[node], self.dialect.scalar(node.dtype)
        start, end = "0", self.atom(node.src[0])
        if node.arg[1] is Axis.THREAD:
            start, end = f"({kind})begin", f"({kind})end"
        opening = f"for ({kind} {name} = {start}; {name} < {end}; {name}++) {{"
        self.do(f"{opening} {self.dialect.as_written}".rstrip())
        self.depth += 1
        self.values[node] = name

    def condition(self, node: UOp) -> None:
        self.do(f"if ({self.values[node.src[0]]}) {{")
        self.depth += 1

    def end(self, node: UOp) -> None:
        self.depth -= 1
        self.do("}")

    def barrier(self, node: UOp) -> None:
        self.do(self.dialect.barrier(node))

    # -- order -------------------------------------------------------------------------------------

    def forward(self, node: UOp) -> None:
        source = node.src[0]
        if source in self.values:
            self.values[node] = self.values[source]
        if source in self.splats:
            self.splats.add(node)
        if source in self.masks:
            self.masks[node] = self.masks[source]

    def no_code(self, node: UOp) -> None:
        if node.op is ops.NOOP:
            for pointer in node.src:
                self.prefetch(pointer)


Handler = Callable[[Renderer, UOp], None]

_HANDLERS: Final[dict[Op, Handler]] = {
    ops.CONST: Renderer.constant,
    ops.VCONST: Renderer.constant,
    ops.PARAM: Renderer.parameter,
    ops.VARIABLE: Renderer.variable,
    ops.SPECIAL: Renderer.special,
    ops.DEFINE_REG: Renderer.memory,
    ops.DEFINE_LOCAL: Renderer.memory,
    ops.RANGE: Renderer.loop,
    ops.END: Renderer.end,
    ops.IF: Renderer.condition,
    ops.ENDIF: Renderer.end,
    ops.BARRIER: Renderer.barrier,
    ops.INDEX: Renderer.no_code,
    ops.LOAD: Renderer.load,
    ops.STORE: Renderer.store,
    ops.CAST: Renderer.cast,
    ops.BITCAST: Renderer.bitcast,
    ops.VECTORIZE: Renderer.vectorize,
    ops.GEP: Renderer.lanes,
    ops.CAT: Renderer.concatenation,
    ops.AFTER: Renderer.forward,
    ops.GROUP: Renderer.no_code,
    ops.NOOP: Renderer.no_code,
    ops.SINK: Renderer.no_code,
    **{op: Renderer.arithmetic for op in ops.table() if op.elementwise},
}
