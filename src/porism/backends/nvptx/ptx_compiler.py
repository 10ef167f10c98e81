"""PTX compiler: linear kernels as one module of PTX text, by LLVM in this process.

The driver assembles the text for the GPU that runs it. LLVM's NVPTX target is part of llvmlite, so
neither a toolkit nor a GPU is needed here.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import llvmlite.binding as llvm

from porism.backends.llvm.llvm_compiler import OPT_LEVEL, CompilerState, emit_module
from porism.backends.nvptx.ptx_memory import BUFFER_ALIGNMENT, SHARED
from porism.backends.nvptx.ptx_renderer import KernelEntry, PtxRenderer
from porism.base.errors import TargetError
from porism.base.interrupts import run_off_main_thread
from porism.base.target import Target
from porism.ir.node import UOp

TRIPLE: Final = "nvptx64-nvidia-cuda"


@dataclass(frozen=True, slots=True)
class PtxModule:
    """Kernels as text for the driver, and how each of them is launched."""

    text: str
    entries: Mapping[str, KernelEntry]


def ptx_module(
    named: Mapping[str, Sequence[UOp]], target: Target, *, alias: bool = False
) -> PtxModule:
    """Compile linear kernels that were lowered for a GPU to PTX.

    Buffers begin at multiples of `BUFFER_ALIGNMENT` bytes. They overlap only with `alias`.
    """
    text, entries = llvm_text(named, target, alias=alias)
    arch, isa = _instruction_set(target)
    compiled = run_off_main_thread(
        lambda: emit_module(_header(arch, isa) + text, _state(arch, isa), is_object=False)
    )
    return PtxModule(compiled.decode(), entries)


def llvm_text(
    named: Mapping[str, Sequence[UOp]], target: Target, *, alias: bool = False
) -> tuple[str, dict[str, KernelEntry]]:
    """Return linear kernels as one module of LLVM IR, and their entries."""
    entries: dict[str, KernelEntry] = {}
    declarations: dict[str, None] = {}
    code: list[str] = []
    for name, instructions in named.items():
        renderer = PtxRenderer(name, instructions, target, alias=alias)
        for line in renderer.text().splitlines():
            if line.startswith("declare "):
                declarations[line] = None
            else:
                code.append(line)
        entries[name] = renderer.entry_point
    shared = f"@{SHARED} = external addrspace(3) global [0 x i8], align {BUFFER_ALIGNMENT}"
    return "\n".join([shared, *declarations, *code]) + "\n", entries


def _instruction_set(target: Target) -> tuple[str, int]:
    """Return the architecture of a target, and the version of PTX."""
    if target.gpu is None or not target.gpu.arch.startswith("sm_"):
        raise TargetError(
            f"the target {target.name} is no NVIDIA GPU",
            why="PTX is made for an architecture such as sm_80",
            fix="use a target of porism.base.gpu_targets",
        )
    return target.gpu.arch, target.gpu.isa


def _new_machine(arch: str, isa: int) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=arch, features=f"+ptx{isa}", opt=OPT_LEVEL
    )


@functools.cache
def _state(arch: str, isa: int) -> CompilerState:
    return CompilerState(lambda: _new_machine(arch, isa))


def _header(arch: str, isa: int) -> str:
    """Return the target triple and data layout lines of a module."""
    layout = _state(arch, isa).target_machine.target_data
    return f'target triple = "{TRIPLE}"\ntarget datalayout = "{layout}"\n'
