"""Realize: compute the values of tensor graphs, and keep them in buffers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from porism.engine.storage import array_of, new_buffer, realized, remember
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.walk import substitute, toposort


def realize(nodes: Sequence[UOp]) -> list[UOp]:
    """For each node the BUFFER that holds its value; what is not there yet is computed."""
    missing = [node for node in dict.fromkeys(nodes) if realized(node) is None]
    if missing:
        _compute(missing)
    found = [buffer for node in nodes if (buffer := realized(node)) is not None]
    assert len(found) == len(nodes)
    return found


def _compute(missing: Sequence[UOp]) -> None:
    graph = _cut(missing)
    buffers = [n for n in toposort(*graph) if n.op is ops.BUFFER]
    arrays = evaluate(ops.SINK(*graph), {buffer: array_of(buffer) for buffer in buffers})
    for node, array in zip(missing, arrays, strict=True):
        data = np.ascontiguousarray(array)
        remember(node, new_buffer(node.dtype, array.shape, data))


def _cut(nodes: Sequence[UOp]) -> tuple[UOp, ...]:
    """The graph of the nodes, with what is realized already replaced by its buffers."""
    order = toposort(*nodes, within=lambda node: realized(node) is None)
    known = {s: buffer for n in order for s in n.src if (buffer := realized(s)) not in (None, s)}
    whole = ops.SINK(*nodes)
    return substitute(whole, {k: v for k, v in known.items() if v is not None}).src


