"""Features: parts of loop scheduling that can be switched off, to see what each of them gives.

A feature is a few functions of the compiler that decide whether something is done, each with what
takes its place; or stages of the pipeline that are left out. So the compiler need not know that it
is taken apart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

Replacement = Callable[..., Any]


@dataclass(frozen=True)
class Feature:
    """What is switched off together."""

    functions: Mapping[str, Replacement]
    """By `module.function` or `module.Class.method`, under `porism`."""
    stages: Mapping[str, str]
    """By the name of a tuple in `porism.pipeline`, the name of a stage that is left out."""


def feature(
    functions: Mapping[str, Replacement] | None = None, stages: Mapping[str, str] | None = None
) -> Feature:
    return Feature(functions or {}, stages or {})


def nothing(*_: Any) -> None:
    """Decide against it, or do nothing."""


def no(*_: Any) -> bool:
    return False


def none_of_them(*_: Any) -> Any:
    return iter(())


def unchanged(first: Any, *_: Any) -> Any:
    return first


def padded(plan: Any, loop: Any, factor: int) -> None:
    """Unroll and jam, or vectorize, a loop; the last part is padded, and does not overlap."""
    from porism.ir.text.expression import show
    from porism.optimize.actions.loops.upcast_unroll import Upcast

    if loop is not None and factor > 1:
        plan.pad(show(loop), factor)
        plan.do(Upcast(show(loop), factor))


STRATEGY = "optimize.strategy."
TILES = STRATEGY + "contractions."
COLUMNS = "optimize.model.column_cost."

FEATURES: Mapping[str, Feature] = {
    "halved symmetric products": feature(stages={"GRAPH_STAGES": "halve symmetric products"}),
    "chunked scans": feature(stages={"GRAPH_STAGES": "chunk scans"}),
    "split reductions": feature(stages={"GRAPH_STAGES": "split reductions"}),
    "removed buffers": feature(stages={"RANGED_STAGES": "remove buffers"}),
    "merged outputs": feature({"schedule.merged_outputs.merge_outputs": unchanged}),
    "merged ranges": feature(stages={"KERNEL_STAGES": "merge ranges"}),
    "Scan": feature({STRATEGY + "scan_strategy.plan_scan": nothing}),
    "NonTemporal": feature({STRATEGY + "streaming_strategy.use_nontemporal_stores": nothing}),
    "Prefetch": feature(
        {
            STRATEGY + "prefetch_placement.insert_prefetches": nothing,
            STRATEGY + "prefetch_placement.prefetch_prepacked": unchanged,
        }
    ),
    "indirect prefetch": feature(stages={"INSTRUCTION_STAGES": "indirect prefetch"}),
    "panels of column sums": feature(
        {STRATEGY + "column_reductions.choose_column_panels": nothing}
    ),
    "lanes of outer loops": feature({STRATEGY + "outer_loop_lanes.vectorize_outer_loop": no}),
    "interleaved stores": feature({STRATEGY + "streaming_strategy._interleave_stores": no}),
    "segmented loops": feature({STRATEGY + "segmented_loops.unroll_segments": nothing}),
    "register transposes": feature(
        {STRATEGY + "streaming_strategy._contiguous_for_loads": nothing}
    ),
    "several vectors": feature({STRATEGY + "streaming_strategy._vector_multiples": lambda *_: []}),
    "unrolled short sums": feature(
        {STRATEGY + "streaming_strategy._unroll_short_reductions": nothing}
    ),
    "Peel": feature(
        {COLUMNS + "peels_k": no, STRATEGY + "streaming_strategy._vectorize_peeled": no}
    ),
    "Pack": feature({COLUMNS + "ColumnCosts._packed": nothing}),
    "prepacked weights": feature({"pipeline.prepack_kernel": nothing}),
    "OverlapTail": feature({TILES + "tile_actions.upcast": padded}),
    "Epilogue": feature({TILES + "tile_actions._loop_over_epilogue": nothing}),
    "Merge of reductions": feature({COLUMNS + "merges_k": no}),
    "row order": feature({COLUMNS + "ColumnCosts.prefers_row_order": no}),
    "column panels": feature({TILES + "column_panels.choose_panels": nothing}),
    "transposed tiles": feature({TILES + "tile_plans._transposed": none_of_them}),
    "flattened tiles": feature({TILES + "tile_plans._flattened": none_of_them}),
    "tiles along k": feature({TILES + "tile_plans._dot_products": none_of_them}),
}
"""By name; an action's name is that of the action."""


def switch_off(name: str) -> None:
    """Leave a feature out, in this process."""
    chosen = FEATURES[name]
    import_module("porism.pipeline")
    import_module("porism.engine.run.prepacked_constants")
    for where, replacement in chosen.functions.items():
        module, _, function = f"porism.{where}".rpartition(".")
        owner, _, kind = module.rpartition(".")
        if kind[0].isupper():  # a method, which nobody imports
            setattr(getattr(import_module(owner), kind), function, replacement)
        else:
            _replace(getattr(import_module(module), function), function, replacement)
    for stages, left_out in chosen.stages.items():
        pipeline: Any = sys.modules["porism.pipeline"]
        before: Sequence[Any] = getattr(pipeline, stages)
        after = tuple(stage for stage in before if stage.name != left_out)
        assert len(after) < len(before), f"{stages} has no stage {left_out}"
        setattr(pipeline, stages, after)


def _replace(function: Replacement, name: str, replacement: Replacement) -> None:
    """Put a function in the place of another, in each module that has imported it."""
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("porism") and getattr(module, name, None) is function:
            setattr(module, name, replacement)
