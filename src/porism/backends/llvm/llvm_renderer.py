"""LLVM renderer: a linear kernel as LLVM IR.

A kernel becomes two functions. The body takes buffers, variables, and the range of iterations of
its outermost loop if that is a THREAD loop; the entry takes them from an array of 64-bit words:

    void name.body(ptr p0, ptr p1, …, i64 n, …, i64 begin, i64 end)
    void name(ptr arguments, i64 begin, i64 end)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from porism.backends.kernel_function import parameters
from porism.backends.llvm.llvm_arithmetic import ARITHMETIC, Arithmetic
from porism.backends.llvm.llvm_compiler import target_machine
from porism.backends.llvm.llvm_memory import MemoryWriter
from porism.backends.llvm.llvm_types import conversion, literal, mangle, type_of
from porism.base.dtypes import DType, Kind, f32, i32
from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.text.expression import show

Handler = Callable[[Any, UOp], None]
"""A method of a renderer, which writes a node."""


class Renderer(MemoryWriter):
    """Writes one kernel."""

    handlers: ClassVar[Mapping[Op, Handler]] = {}
    """The method that writes each op."""
    arithmetic_of: ClassVar[Mapping[Op, Arithmetic]] = ARITHMETIC
    """The instruction or intrinsic of each op of arithmetic."""

    def __init__(self, name: str, instructions: Sequence[UOp], *, alias: bool = False) -> None:
        super().__init__(instructions)
        self.name = name
        self.alias = alias
        self.concatenated = {
            s for n in instructions if n.op is not ops.GEP or len(n.arg) < 2 for s in n.src
            if s.op is ops.CAT
        }  # fmt: skip
        self.reshuffled = {
            s
            for n in instructions
            if _is_shuffle_of_two(n)
            for s in n.src[0].src
            if _is_shuffle_of_two(s)
        }

    def text(self) -> str:
        """Return the functions of the kernel, with their declarations."""
        self.write_instructions()
        if self.nontemporal.plain and target_machine().triple.startswith("x86_64"):
            self.call("llvm.x86.sse.sfence", "void")  # non-temporal stores are weakly ordered
        buffers, variables = parameters(self.instructions)
        arguments = [self._parameter(p) for p in buffers]
        arguments += [f"i64 %v{k}" for k in range(len(variables))]
        arguments += ["i64 %begin", "i64 %end"]
        code = self._function(f"{self.name}.body", arguments, self.body)
        if self.nontemporal.plain:
            plain = self.nontemporal.fallback_body(self.body)
            code += self._function(f"{self.name}.plain", arguments, plain)
        return "\n".join([*self.declared, *code, *self._entry_function(buffers, variables)]) + "\n"

    def write_instructions(self) -> None:
        """Write the code of all instructions of the kernel."""
        for node in self.instructions:
            handler = self.handlers.get(node.op)
            if handler is None:
                raise PorismError(
                    f"{node.op.name} has no form in LLVM IR",
                    where=show(node, limit=200),
                    why="it should have been lowered before",
                )
            if not self.addresses.is_index_only(node):
                handler(self, node)
                self.depths[node] = len(self.loops)

    def _function(self, name: str, arguments: Sequence[str], body: Sequence[str]) -> list[str]:
        head = f"define private void @{name}({', '.join(arguments)}) #0 {{"
        return [head, "entry:", *self.entry, *body, "  ret void", "}"]

    def _entry_function(self, buffers: Sequence[UOp], variables: Sequence[UOp]) -> list[str]:
        """Return the entry function, which takes its arguments from an array."""
        lines = [f"define void @{self.name}(ptr %arguments, i64 %begin, i64 %end) #0 {{"]
        passed = []
        for position, node in enumerate([*buffers, *variables]):
            kind = "ptr" if node.op is ops.PARAM else "i64"
            lines.append(f"  %at{position} = getelementptr i64, ptr %arguments, i64 {position}")
            lines.append(f"  %a{position} = load {kind}, ptr %at{position}")
            passed.append(f"{kind} %a{position}")
        passed += ["i64 %begin", "i64 %end"]
        values = ", ".join(passed)
        if self.nontemporal.plain:
            lines += self.nontemporal.dispatch(buffers, f"call void @{self.name}.plain({values})")
        return [*lines, f"  call void @{self.name}.body({values})", "  ret void", "}"]

    def _parameter(self, node: UOp) -> str:
        noalias = "" if self.alias else " noalias"
        return f"ptr{noalias} %p{node.arg}"

    # -- leaves ------------------------------------------------------------------------------------

    def constant(self, node: UOp) -> None:
        self.values[node] = literal(node.dtype, node.arg)

    def parameter(self, node: UOp) -> None:
        self.values[node] = f"%p{node.arg}"

    def variable(self, node: UOp) -> None:
        _, variables = parameters(self.instructions)
        name = f"%v{variables.index(node)}"
        if node.dtype.bits < 64:
            name = self.emit(f"trunc i64 {name} to {type_of(node.dtype)}")
        self.values[node] = name

    # -- arithmetic --------------------------------------------------------------------------------

    def arithmetic(self, node: UOp) -> None:
        lane = node.src[0].dtype.element if node.src[0].dtype.count > 1 else node.src[0].dtype
        self.values[node] = self.arithmetic_of[node.op](self, node, lane)

    def choice(self, node: UOp) -> None:
        self.values[node] = self.emit("select " + ", ".join(map(self.typed, node.src)))

    def fused(self, node: UOp) -> None:
        kind = type_of(node.dtype)
        if not node.dtype.is_float:
            product = self.emit(f"mul {self.typed(node.src[0])}, {self.value(node.src[1])}")
            self.values[node] = self.emit(f"add {kind} {product}, {self.value(node.src[2])}")
            return
        name = f"llvm.fma.{mangle(kind)}"
        self.values[node] = self.call(name, kind, *map(self.typed, node.src))

    def cast(self, node: UOp) -> None:
        source = node.src[0]
        if node.dtype.kind is Kind.POINTER:
            self.values[node] = self.value(source)
            return
        word = conversion(source.dtype, node.dtype)
        target = type_of(node.dtype)
        if word == "nonzero":
            compare = "fcmp une" if source.dtype.is_float else "icmp ne"
            zero = literal(source.dtype, 0.0 if source.dtype.is_float else 0)
            self.values[node] = self.emit(f"{compare} {self.typed(source)}, {zero}")
        elif word == "":
            self.values[node] = self.value(source)
        elif word.endswith("sat"):
            self.values[node] = self._saturated(word, source, node.dtype)
        else:
            self.values[node] = self.emit(f"{word} {self.typed(source)} to {target}")

    def _saturated(self, word: str, source: UOp, dtype: DType) -> str:
        """Return floats as the nearest integers of a type; NaN becomes 0.

        LLVM has an intrinsic for that, which converts vectors lane by lane.
        """
        if dtype.count == 1:
            name = f"llvm.{word}.{mangle(type_of(dtype))}.{mangle(type_of(source.dtype))}"
            return self.call(name, type_of(dtype), self.typed(source))
        lane, x, floats = dtype.element, self.value(source), source.dtype
        if floats.element.bits < f32.bits:  # which has no limits of 16 bits
            wider = f32.vec(dtype.count)
            x, floats = self.emit(f"fpext {type_of(floats)} {x} to {type_of(wider)}"), wider
        kind, truth = type_of(floats), f"<{dtype.count} x i1>"
        integers = i32.vec(dtype.count) if lane.bits < i32.bits else dtype
        convert = word.removesuffix(".sat") if integers is dtype else "fptosi"

        def select(condition: str, bound: str, value: str, of: DType, yes: str) -> str:
            is_so = self.emit(f"fcmp {condition} {kind} {value}, {bound}")
            return self.emit(f"select {truth} {is_so}, {type_of(of)} {yes}")

        low, end = literal(floats, float(lane.min)), literal(floats, float(int(lane.max) + 1))
        zero = literal(integers, 0)
        if integers is not dtype:  # both limits are floats
            high = literal(floats, float(lane.max))
            limited = select("ogt", low, x, floats, f"{x}, {kind} {low}")
            limited = select("olt", high, limited, floats, f"{limited}, {kind} {high}")
            result = self.emit(f"fptosi {kind} {limited} to {type_of(integers)}")
            if lane.min < 0:
                result = select("uno", x, x, integers, f"{zero}, {type_of(integers)} {result}")
            return self.emit(f"trunc {type_of(integers)} {result} to {type_of(dtype)}")
        nothing = literal(floats, 0.0)
        inside = select("oge", low, x, floats, f"{x}, {kind} {nothing}")
        inside = select("olt", end, inside, floats, f"{inside}, {kind} {nothing}")
        result = self.emit(f"{convert} {kind} {inside} to {type_of(dtype)}")
        for condition, at, bound in (("olt", low, lane.min), ("oge", end, lane.max)):
            yes = f"{literal(dtype, bound)}, {type_of(dtype)} {result}"
            result = select(condition, at, x, dtype, yes)
        return result

    def bitcast(self, node: UOp) -> None:
        target = type_of(node.dtype)
        if type_of(node.src[0].dtype) == target:
            self.values[node] = self.value(node.src[0])
        else:
            self.values[node] = self.emit(f"bitcast {self.typed(node.src[0])} to {target}")

    # -- lanes -------------------------------------------------------------------------------------

    def vectorize(self, node: UOp) -> None:
        kind, width = type_of(node.dtype), node.dtype.count
        scalar = type_of(node.src[0].dtype)
        if width == 1:
            self.values[node] = self.value(node.src[0])
            return
        if len(set(node.src)) == 1:
            self.values[node] = self.splat(scalar, self.value(node.src[0]), width)
            return
        vector = "poison"
        for lane, source in enumerate(node.src):
            vector = self.emit(f"insertelement {kind} {vector}, {self.typed(source)}, i32 {lane}")
        self.values[node] = vector

    def lanes(self, node: UOp) -> None:
        source = node.src[0]
        if source.dtype.count == 1:
            self.values[node] = self.value(source)
        elif len(node.arg) == 1:
            self.values[node] = self.emit(f"extractelement {self.typed(source)}, i32 {node.arg[0]}")
        elif source.op is ops.CAT and len(source.src) == 2:
            first, second = map(self.typed, source.src)
            self.values[node] = self._fenced(node, self.shuffle(first, second, node.arg))
        else:
            poison = f"{type_of(source.dtype)} poison"
            self.values[node] = self.shuffle(self.typed(source), poison, node.arg)

    def _fenced(self, node: UOp, value: str) -> str:
        """Return a shuffle behind an arithmetic fence if another shuffle uses it.

        LLVM would search whole trees of shuffles for cheaper ones, which is slow and finds none.
        """
        kind = type_of(node.dtype)
        if node not in self.reshuffled or kind.split()[-1] not in ("float>", "double>"):
            return value
        return self.call(f"llvm.arithmetic.fence.{mangle(kind)}", kind, f"{kind} {value}")

    def in_parts(
        self, lane: str, width: int, part: int, write: Callable[..., str], *values: str
    ) -> str:
        """Apply `write` to each part of some vectors; return the results concatenated."""
        kind = f"<{width} x {lane}>"
        results = []
        for first in range(0, width, part):
            chosen = range(first, first + part)
            parts = [self.shuffle(f"{kind} {v}", f"{kind} poison", chosen) for v in values]
            results.append(write(*parts))
        return self._concatenate(results, part, lane)

    def concatenation(self, node: UOp) -> None:
        """Concatenate vectors of one width pairwise, unless only shuffles use them."""
        if len(node.src) == 2 and node not in self.concatenated:
            return
        parts = [self.value(s) for s in node.src]
        self.values[node] = self._concatenate(
            parts, node.src[0].dtype.count, type_of(node.dtype.element)
        )

    def _concatenate(self, parts: list[str], width: int, lane: str) -> str:
        while len(parts) > 1:
            kind = f"<{width} x {lane}>"
            width *= 2
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.shuffle(f"{kind} {a}", f"{kind} {b}", range(width)) for a, b in pairs]
        return parts[0]

    # -- order -------------------------------------------------------------------------------------

    def forward(self, node: UOp) -> None:
        self.values[node] = self.values[node.src[0]]

    def no_code(self, node: UOp) -> None:
        if node.op is ops.NOOP:
            for pointer in node.src:
                self.prefetch(pointer)
        self.values[node] = ""


def _is_shuffle_of_two(node: UOp) -> bool:
    """Return whether a node shuffles lanes of two vectors into one."""
    return node.op is ops.GEP and len(node.arg) > 1 and node.src[0].op is ops.CAT


Renderer.handlers = {
    ops.CONST: Renderer.constant,
    ops.VCONST: Renderer.constant,
    ops.PARAM: Renderer.parameter,
    ops.VARIABLE: Renderer.variable,
    ops.DEFINE_REG: Renderer.memory,
    ops.DEFINE_LOCAL: Renderer.memory,
    ops.RANGE: Renderer.loop,
    ops.END: Renderer.end,
    ops.INDEX: Renderer.pointer,
    ops.LOAD: Renderer.load,
    ops.STORE: Renderer.store,
    ops.WHERE: Renderer.choice,
    ops.MULACC: Renderer.fused,
    ops.CAST: Renderer.cast,
    ops.BITCAST: Renderer.bitcast,
    ops.VECTORIZE: Renderer.vectorize,
    ops.GEP: Renderer.lanes,
    ops.CAT: Renderer.concatenation,
    ops.AFTER: Renderer.forward,
    ops.GROUP: Renderer.no_code,
    ops.NOOP: Renderer.no_code,
    ops.SINK: Renderer.no_code,
    **dict.fromkeys(ARITHMETIC, Renderer.arithmetic),
}
