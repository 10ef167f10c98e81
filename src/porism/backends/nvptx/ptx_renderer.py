"""PTX renderer: a linear kernel as LLVM IR for NVIDIA's GPUs, and what its launch needs.

    define ptx_kernel void @name(ptr addrspace(1) %p0.global, …, i64 %v0, …)

A kernel takes its buffers in the order of their numbers, then its variables by name, each as 64
bits. Block and thread indices are special registers; a BARRIER waits for all threads of a block; a
WMMA is the matrix instruction of a warp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from porism.backends.kernel_function import parameters
from porism.backends.llvm.llvm_arithmetic import Arithmetic
from porism.backends.llvm.llvm_renderer import Handler, Renderer
from porism.backends.llvm.llvm_types import type_of
from porism.backends.nvptx.matrix_instructions import write_product
from porism.backends.nvptx.ptx_arithmetic import PTX_ARITHMETIC
from porism.backends.nvptx.ptx_memory import BUFFER_ALIGNMENT, PtxMemory
from porism.base.dtypes import f32
from porism.base.target import Target
from porism.ir import ops
from porism.ir.axis import BLOCK_INDEX, THREAD_INDEX
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.rules.addresses.launch_dims import Launch, launch_of

_DIMENSIONS: Final = "xyz"


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A kernel in a module of PTX, and how it is launched."""

    name: str
    buffers: tuple[int, ...]
    """The numbers of the PARAMs whose addresses are the first arguments, in order."""
    variables: tuple[str, ...]
    """The names of the variables whose values follow, each in 64 bits."""
    launch: Launch
    """Blocks and threads, as expressions of the variables, and bytes of dynamic shared memory."""


class PtxRenderer(PtxMemory, Renderer):
    """Writes one kernel for a GPU."""

    handlers: ClassVar[Mapping[Op, Handler]] = {}
    arithmetic_of: ClassVar[Mapping[Op, Arithmetic]] = PTX_ARITHMETIC

    def __init__(
        self, name: str, instructions: Sequence[UOp], target: Target, *, alias: bool = False
    ) -> None:
        super().__init__(name, instructions, alias=alias)
        self.target = target
        buffers, variables = parameters(instructions)
        self.entry_point = KernelEntry(
            name,
            tuple(int(b.arg) for b in buffers),
            tuple(str(v.arg[0]) for v in variables),
            launch_of(instructions),
        )
        self.written = {base_of(n.src[0]) for n in instructions if n.op is ops.STORE}
        self.shared_bytes = 0

    def text(self) -> str:
        """Return the kernel with its declarations, without attributes."""
        self.write_instructions()
        buffers, variables = parameters(self.instructions)
        arguments = [self._buffer_argument(b) for b in buffers]
        arguments += [f"i64 %v{k}" for k in range(len(variables))]
        casts = [
            f"  %p{b.arg} = addrspacecast ptr addrspace(1) %p{b.arg}.global to ptr" for b in buffers
        ]
        head = f"define ptx_kernel void @{self.name}({', '.join(arguments)}) {self._bounds()} {{"
        code = [head, "entry:", *casts, *self.entry, *self.body, "  ret void", "}"]
        return "\n".join([*self.declared, *code]) + "\n"

    def _buffer_argument(self, node: UOp) -> str:
        """Return a parameter; one that is only read is loaded through the read-only cache."""
        qualities = "" if self.alias else " noalias"
        if node not in self.written:
            qualities += " readonly"
        return f"ptr addrspace(1){qualities} align {BUFFER_ALIGNMENT} %p{node.arg}.global"

    def _bounds(self) -> str:
        """Return the attributes that tell how many threads a block has."""
        sizes = self.entry_point.launch.block
        if all(size.op is ops.CONST for size in sizes):
            return f'nounwind "nvvm.reqntid"="{",".join(str(size.arg) for size in sizes)}"'
        return f'nounwind "nvvm.maxntid"="{self.target.block_threads}"'

    def cast(self, node: UOp) -> None:
        """Write a conversion; between the 16-bit floats by way of f32, which has both exactly."""
        source = node.src[0]
        names = {source.dtype.element.name, node.dtype.element.name}
        if names != {"f16", "bf16"}:
            super().cast(node)
            return
        wide = type_of(f32.vec(node.dtype.count))
        value = self.emit(f"fpext {self.typed(source)} to {wide}")
        self.values[node] = self.emit(f"fptrunc {wide} {value} to {type_of(node.dtype)}")

    # -- threads -----------------------------------------------------------------------------------

    def special(self, node: UOp) -> None:
        """Write the read of a block or thread index."""
        is_block = node.arg.startswith(BLOCK_INDEX)
        prefix, word = (BLOCK_INDEX, "ctaid") if is_block else (THREAD_INDEX, "tid")
        dimension = _DIMENSIONS[int(node.arg.removeprefix(prefix))]
        bound = min(int(node.src[0].vmax), (1 << 31) - 1)
        name = f"llvm.nvvm.read.ptx.sreg.{word}.{dimension}"
        self.declared[f"declare i32 @{name}()"] = None
        value = self.emit(f"call range(i32 0, {bound}) i32 @{name}()") if bound > 0 else "0"
        kind = type_of(node.dtype)
        self.values[node] = value if kind == "i32" else self.emit(f"zext i32 {value} to {kind}")

    def barrier(self, node: UOp) -> None:
        """Write a barrier of all threads of the block, for shared and device memory."""
        self.call("llvm.nvvm.barrier.cta.sync.aligned.all", "void", "i32 0")
        self.values[node] = ""

    def product(self, node: UOp) -> None:
        """Write a matrix instruction."""
        self.values[node] = write_product(self, node)


PtxRenderer.handlers = {
    **Renderer.handlers,
    ops.DEFINE_REG: PtxRenderer.memory,
    ops.DEFINE_LOCAL: PtxRenderer.memory,
    ops.CAST: PtxRenderer.cast,
    ops.LOAD: PtxRenderer.load,
    ops.STORE: PtxRenderer.store,
    ops.SPECIAL: PtxRenderer.special,
    ops.BARRIER: PtxRenderer.barrier,
    ops.WMMA: PtxRenderer.product,
    ops.NOOP: PtxRenderer.no_code,
}
