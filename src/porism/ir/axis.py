"""Axis: what the iterations of a range become on the machine."""

from __future__ import annotations

import enum
from typing import Final

from porism.base.fast_enum import fast_enum


@fast_enum
class Axis(enum.Enum):
    """The kind of a range: how its iterations are executed."""

    OUTER = "outer"  # a loop around kernels
    LOOP = "loop"  # a plain loop, in order
    ORDERED = "ordered"  # a loop with a loop-carried dependence: it stays sequential
    GLOBAL = "global"  # blocks of a grid, in parallel
    THREAD = "thread"  # CPU threads, in parallel
    LOCAL = "local"  # threads of a block, sharing local memory
    WARP = "warp"  # threads of a warp, in lockstep
    GROUP = "group"  # threads of a block that reduce together
    REDUCE = "reduce"  # a loop that a reduction closes
    UPCAST = "upcast"  # iterations of an output loop as vector lanes and copies
    UNROLL = "unroll"  # iterations of a reduction as vector lanes and copies


BLOCK_AXES: Final = frozenset({Axis.GLOBAL, Axis.THREAD})
"""Kinds of ranges whose iterations are independent of each other."""

THREAD_AXES: Final = frozenset({Axis.LOCAL, Axis.WARP, Axis.GROUP})
"""Kinds of ranges whose iterations are threads of a block: they share memory and barriers."""

SEQUENTIAL_AXES: Final = frozenset({Axis.OUTER, Axis.LOOP, Axis.ORDERED, Axis.REDUCE})
"""Kinds of ranges that run one iteration after the other."""

EXPANDED_AXES: Final = frozenset({Axis.UPCAST, Axis.UNROLL})
"""Kinds of ranges that have no loop: their iterations become vector lanes or unrolled copies."""

BLOCK_INDEX: Final = "block"
"""The prefix of the name of a SPECIAL that is a block index; the dimension's number follows."""

THREAD_INDEX: Final = "thread"
"""The prefix of the name of a SPECIAL that is a thread index; the dimension's number follows."""

INTERLEAVED_PARTS: Final = (2, 4, 8)
"""Iterations of an UPCAST range whose stores can be interleaved with those of another one."""

MAX_INTERLEAVED_LANES: Final = 64
"""Lanes of a vector that is interleaved, at most; chosen by hand."""
