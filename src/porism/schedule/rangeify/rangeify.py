"""Rangeify: from tensors with axes to values at the iterations of loops.

    required stores   the values that must be in memory                      `required_stores`
    use analysis      outputs to inputs: which elements are used, in which   `use_analysis`
                      loops, and where each value is materialized            `placement`
    axis splitting    axes that indices divide get a loop per factor         `axis_splitting`
    value building    inputs to outputs: the value of each used element      `value_building`

What is left of a graph is

    BUFFERIZE(value, loops…)      a value that is stored, or materialized in a local buffer
    INDEX(BUFFERIZE, indices…)    an element of it
    REDUCE(value, loops…)         a reduction, with loops of its own

and no movement op. Every node is visited once in each direction, and again from the outputs to the
inputs where axes are split.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from porism.base.target import GENERIC_CPU, Target
from porism.ir import ops
from porism.ir.node import UOp
from porism.schedule.rangeify.axis_splitting import AxisFactors, find_axis_splits
from porism.schedule.rangeify.placement import Stored
from porism.schedule.rangeify.required_stores import TensorGraph, find_required_stores
from porism.schedule.rangeify.store_reason import StoreReason
from porism.schedule.rangeify.use_analysis import SourceElements, UseAnalysis
from porism.schedule.rangeify.value_building import ValueBuilder

MAX_ANALYSES: Final = 3
"""How many times the uses of a graph are analyzed because axes were split; chosen by hand."""


@dataclass(frozen=True)
class Ranged:
    """A graph in loops, and why its values are stored."""

    sink: UOp
    reasons: dict[UOp, str]
    """For each BUFFERIZE in memory, why the value is stored."""
    pinned: frozenset[UOp]
    """Those that a CONTIGUOUS, a COPY or a scatter needs: they are never removed."""
    tensors: dict[UOp, UOp] = field(default_factory=dict)
    """For a BUFFERIZE in memory the node of the tensor graph whose elements it has, in order."""


def rangeify(sink: UOp, target: Target = GENERIC_CPU) -> Ranged:
    """Return the graph with loops instead of axes; the sources of the SINK are what is stored."""
    graph = find_required_stores(sink)
    analysis = _analyze_uses(graph, target)
    builder = ValueBuilder(analysis)
    builder.run()
    return _ranged(analysis, builder)


def _analyze_uses(graph: TensorGraph, target: Target) -> UseAnalysis:
    """Analyze the uses of a graph, and again with split axes while indices divide more of them."""
    splits: dict[UOp, AxisFactors] = {}
    source_elements: SourceElements = {}
    for _ in range(MAX_ANALYSES):
        analysis = UseAnalysis(graph, splits, target, source_elements)
        analysis.run()
        new_splits = find_axis_splits(analysis.indices(), analysis.axis_of_loop, splits)
        if not new_splits:
            break
        splits = splits | new_splits
    return analysis


def _ranged(analysis: UseAnalysis, builder: ValueBuilder) -> Ranged:
    """Collect the stored values with what is known about them."""
    graph, buffers, kernels = analysis.graph, builder.buffers, analysis.placement.kernels
    sink = ops.SINK(*(buffers[root] for root in graph.roots))
    reasons: dict[UOp, str] = {}
    tensors: dict[UOp, UOp] = {}
    for node, place in analysis.places.items():
        if isinstance(place, Stored):
            reason = place.reason + kernels[node].recomputation()
            reasons[buffers[node]] = StoreReason(reason, node)
            tensors[buffers[node]] = node
    pinned = [buffers[n] for n in graph.order if n in graph.pinned and n in buffers]
    if analysis.index_tensors:
        sink, *rest = builder.with_index_values(sink, *reasons, *pinned)
        tensors = dict(zip(rest, tensors.values(), strict=False))
        reasons = dict(zip(rest, reasons.values(), strict=False))
        pinned = rest[len(reasons) :]
    return Ranged(sink, reasons, frozenset(pinned), tensors)
