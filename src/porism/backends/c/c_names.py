"""C names: the names of buffers, loops, registers and values of a kernel in C."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from porism.backends.c.c_access import base_of
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp

_RESERVED: Final = re.compile(
    "auto|bool|break|case|char|const|continue|default|do|double|else|enum|extern|false|float|for|"
    "goto|if|inline|int|long|register|restrict|return|short|signed|sizeof|static|struct|switch|"
    "true|typedef|union|unsigned|void|volatile|while|lane|begin|end|arguments|main|"
    "(sqrt|trunc|floor|ceil|rint|exp2|log2|sin|fma|fabs)f?|memcpy|NAN|INFINITY|INDEPENDENT|U?INT.*"
)
_GENERATED: Final = re.compile(
    r"(x|in|out|data|acc|shared|i|k|any_|[a-z]+\d+x)\d.*|odd_.*|.*_of_.*|_.*|.*_t"
    r"|(max|min|shl|shr|[a-z]div|[a-z]?mod)_.*"
)


class Names:
    """Unique names. A buffer is named by its use and its number: out0, in1, data2."""

    def __init__(self, instructions: Sequence[UOp]) -> None:
        self.known: dict[UOp, str] = {}
        self.count = 0
        stored = {base_of(n.src[0]) for n in instructions if n.op is ops.STORE}
        read = {base_of(n.src[0]) for n in instructions if n.op is ops.LOAD}
        self.written = stored
        taken: set[str] = set()
        self.roles: dict[UOp, str] = {}
        for node in instructions:
            if node.op is ops.PARAM:
                both = node in stored and node in read
                word = "data" if both else "out" if node in stored else "in"
                one = "written" if node in stored else "read" if node in read else "not used"
                self.roles[node] = "read and written" if both else one
                name = f"{word}{node.arg}"
            elif node.op is ops.VARIABLE:
                name = _identifier(str(node.arg[0]))
            elif node.op is ops.RANGE:
                axis = node.arg[0] if isinstance(node.arg[0], tuple) else (node.arg[0],)
                letter = "k" if node.arg[1] is Axis.REDUCE else "i"
                name = letter + "_".join(map(str, axis))
            elif node.op is ops.DEFINE_REG:
                name = f"acc{node.arg}"
            elif node.op is ops.DEFINE_LOCAL:
                name = f"shared{node.arg}"
            else:
                continue
            while name in taken:
                name += "_"
            taken.add(name)
            self.known[node] = name

    def __getitem__(self, node: UOp) -> str:
        return self.known[node]

    def fresh(self) -> str:
        """Return a new name for a value."""
        self.count += 1
        return f"x{self.count}"

    def is_written(self, node: UOp) -> bool:
        return node in self.written

    def role(self, node: UOp) -> str:
        """Return whether a buffer is read, written, both or not used, in words."""
        return self.roles[node]


def _identifier(name: str) -> str:
    """Return a variable's name as a C identifier that collides with no other."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not plain or plain[0].isdigit() or _RESERVED.fullmatch(plain) or _GENERATED.fullmatch(plain):
        return f"n_{plain}"
    return plain
