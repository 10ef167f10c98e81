"""Launch dimensions: the grid, the block and the shared memory of a kernel for a GPU.

They are read off the block and thread indices (SPECIAL) and the shared memory (DEFINE_LOCAL) of a
kernel, and are expressions of its variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from porism.base.dtypes import index
from porism.ir import ops
from porism.ir.axis import BLOCK_INDEX, THREAD_INDEX
from porism.ir.node import UOp
from porism.rules.addresses.grid_dims import aligned_bytes

DIMENSIONS: Final = 3
"""Dimensions of a grid and of a block."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The launch dimensions of a kernel: blocks of a grid, and threads of a block."""

    grid: tuple[UOp, ...]
    block: tuple[UOp, ...]
    local: int
    """Bytes of shared memory of a block."""

    def sizes(
        self, variables: Mapping[str, int] | None = None
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the dimensions of the grid and of a block for these variables."""

        def number(size: UOp) -> int:
            if size.op is ops.CONST:
                return int(size.arg)
            from porism.evaluate import evaluate

            return int(evaluate(size, {}, variables or {})[0])

        return tuple(map(number, self.grid)), tuple(map(number, self.block))


def launch_of(nodes: Iterable[UOp]) -> Launch:
    """Return the launch dimensions of a kernel after `gpu_dims`, from its nodes or instructions."""
    nodes = list(nodes)
    one = UOp.const(index, 1)
    grid, block = [one] * DIMENSIONS, [one] * DIMENSIONS
    for node in nodes:
        if node.op is ops.SPECIAL:
            sizes = grid if node.arg.startswith(BLOCK_INDEX) else block
            sizes[int(node.arg.removeprefix(BLOCK_INDEX).removeprefix(THREAD_INDEX))] = node.src[0]
    local = sum(aligned_bytes(n, n.dtype.size) for n in nodes if n.op is ops.DEFINE_LOCAL)
    return Launch(tuple(grid), tuple(block), local)
