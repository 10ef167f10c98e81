"""Line loops: to which loop each line of a listing, of LLVM IR and of assembly belongs.

The loops of a kernel are numbered in the order of their RANGE instructions, as LLVM's renderer
numbers its labels. LLVM IR is compiled with its own line numbers as debug locations, so the lines
of the assembly are known exactly, whatever LLVM moves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.text.expression import show

NONE: Final = -1
"""The number of the loop of a line outside of all loops."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of the instructions: its name, and the number of the loop around it."""

    name: str
    parent: int


def loops_of(instructions: Iterable[UOp]) -> list[Loop]:
    """Return the loops of a kernel, in the order of their RANGE instructions."""
    loops: list[Loop] = []
    stack: list[int] = []
    for node in instructions:
        if node.op is ops.RANGE:
            loops.append(Loop(show(node), stack[-1] if stack else NONE))
            stack.append(len(loops) - 1)
        elif node.op is ops.END and stack:
            stack.pop()
    return loops


def listing_loops(lines: Iterable[str], loops: Sequence[Loop]) -> list[int]:
    """Return the loop of each line of a listing; a loop that was unrolled belongs to its parent.

    >>> listing_loops(["for r0 < 8:", "    x[r0] = 0", "y[0] = 1"], [Loop("r0", NONE)])
    [0, 0, -1]
    """
    unused: dict[str, list[int]] = {}
    for number, loop in enumerate(loops):
        unused.setdefault(loop.name, []).append(number)
    found: list[int] = []
    stack: list[tuple[int, int]] = []  # (indentation, loop)
    for line in lines:
        depth = len(line) - len(line.lstrip(" "))
        while stack and depth <= stack[-1][0]:
            stack.pop()
        match = _FOR.match(line)
        if match is not None:
            numbers = unused.get(match[1], [])
            number = numbers.pop(0) if numbers else (stack[-1][1] if stack else NONE)
            stack.append((depth, number))
        found.append(stack[-1][1] if stack else NONE)
    return found


def llvm_loops(lines: Iterable[str]) -> list[int]:
    """Return the loop of each line of LLVM IR, by its labels.

    >>> llvm_loops(["entry:", "loop0:", "  br", "after0:", "  ret void"])
    [-1, 0, 0, -1, -1]
    """
    found: list[int] = []
    stack: list[int] = []
    for line in lines:
        match = _LABEL.match(line)
        if match is not None and match[1] == "loop":
            stack.append(int(match[2]))
        elif match is not None and int(match[2]) in stack:
            del stack[stack.index(int(match[2])) :]
        elif line == "}":
            stack.clear()
        found.append(stack[-1] if stack else NONE)
    return found


_FOR: Final = re.compile(r" *for (\S+) < ")
_LABEL: Final = re.compile(r"(loop|after)(\d+):")


# -- assembly --------------------------------------------------------------------------------------

FIRST_LOCATION: Final = 100_000
"""Numbers of metadata from here on are those of lines."""


def with_locations(text: str) -> str:
    """Return LLVM IR in which each instruction has the number of its line as its location."""
    lines, metadata = [], []
    scope = FIRST_LOCATION - 10
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("define "):
            inside = True
            scope += 1
            name = line.partition("@")[2].partition("(")[0]
            metadata.append(
                f'!{scope} = distinct !DISubprogram(name: "{name}", scope: !90001, file: !90001, '
                f"line: {number}, type: !90003, unit: !90000, spFlags: DISPFlagDefinition)"
            )
            line = line.removesuffix("{") + f"!dbg !{scope} {{"
        elif line == "}":
            inside = False
        elif inside and line.startswith("  ") and line.strip():
            location = FIRST_LOCATION + number
            metadata.append(f"!{location} = !DILocation(line: {number}, scope: !{scope})")
            line += f", !dbg !{location}"
        lines.append(line)
    return "\n".join([*lines, *_DEBUG_HEAD, *metadata]) + "\n"


_DEBUG_HEAD: Final = (
    "!llvm.dbg.cu = !{!90000}",
    "!llvm.module.flags = !{!90002}",
    "!90000 = distinct !DICompileUnit(language: DW_LANG_C, file: !90001, "
    "emissionKind: LineTablesOnly)",
    '!90001 = !DIFile(filename: "kernel.ll", directory: "")',
    '!90002 = !{i32 2, !"Debug Info Version", i32 3}',
    "!90003 = !DISubroutineType(types: !{})",
)


def located_assembly(text: str) -> tuple[list[str], list[int]]:
    """Return assembly without debug directives, and the line of LLVM IR of each line, or 0."""
    lines: list[str] = []
    sources: list[int] = []
    current = 0
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped.startswith(".section") and ".debug_" in stripped:
            break
        if stripped.startswith(".loc"):
            current = int(stripped.split()[2]) or current  # 0 where LLVM merged several
        elif stripped.startswith(".cfi_endproc"):
            current = 0
        if not stripped or _DIRECTIVE.match(stripped):
            continue
        is_label = stripped.endswith(":")
        lines.append(stripped if is_label else "    " + stripped.replace("\t", " "))
        sources.append(current)
    return lines, sources


_DIRECTIVE: Final = re.compile(
    r"\.(loc|cfi_\w+|file|text|type|size|globl|ident|addrsig)\b|\.Ltmp\d+:|\.Lfunc_\w+:|"
    r'\.section\s+"?\.note'
)
