"""Block loops: the loops of a kernel whose iterations the blocks of a grid can run.

A loop is none if its iterations depend on each other, or if a reduction or a local buffer that they
share would be computed in each block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from porism.base.dtypes import Space
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.effect_scopes import base_of
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.rules.addresses.grid_dims import has_independent_iterations, memory_space, stores_of


def block_loops(kernel: UOp) -> list[UOp]:
    """Return the loops that can be blocks, the outermost first."""
    if any(n.op is ops.RANGE and n.arg[1] is Axis.ORDERED for n in toposort(kernel)):
        return []
    return [r for r in _output_loops(kernel) if has_independent_iterations(kernel, r)]


def _output_loops(kernel: UOp) -> list[UOp]:
    """Return the loops, outermost first, that close nothing but stores to global buffers."""
    output: dict[UOp, None] = {}
    other: set[UOp] = set()
    for effect in kernel.src:
        below = toposort(effect)
        closers = [n for n in below if n.op in (ops.END, ops.REDUCE)]
        own = dict.fromkeys(_closed(n for n in closers if _writes_buffers(n)))
        other.update(_closed(n for n in closers if not _writes_buffers(n)))
        other.update(_loops_inside_of_shared_values(own, below))
        output.update(own)
    plain = [r for r in output if r.arg[1] is Axis.LOOP and not r.src[0].ranges]
    return [r for r in plain if r not in other]


def _closed(closers: Iterable[UOp]) -> Iterator[UOp]:
    """Yield the ranges that END and REDUCE nodes close."""
    return (r for n in closers for r in n.src[1:])


def _loops_inside_of_shared_values(loops: Iterable[UOp], below: Sequence[UOp]) -> Iterator[UOp]:
    """Yield the loops that a reduction or a local buffer is outside of: its value is shared."""
    shared = [n for n in below if n.op is ops.REDUCE or _is_filled(n)]
    return (r for r in loops if any(r not in n.ranges for n in shared))


def _writes_buffers(node: UOp) -> bool:
    """Return whether a node is an END of stores to global memory alone."""
    if node.op is not ops.END:
        return False
    return all(memory_space(s.src[0]) is Space.GLOBAL for s in stores_of(node))


def _is_filled(node: UOp) -> bool:
    """Return whether a node is a local buffer or register after stores of computed values.

    A buffer of copied elements is none: what each block copies, it would load otherwise.
    """
    if node.op is not ops.AFTER or node.src[0].op not in (ops.DEFINE_LOCAL, ops.DEFINE_REG):
        return False
    values = [s.src[1] for effect in node.src[1:] for s in stores_of(effect)]
    return any(v.op is not ops.INDEX or base_of(v).op is not ops.PARAM for v in values)
