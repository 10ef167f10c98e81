"""Alternative plans: other schedules of a whole kernel than the heuristic's, best estimates first.

One action more or less seldom makes another good kernel: the m and the n of a tile, what is packed
and what is parallel belong together. So a search begins with whole plans:

- other column panels and register tiles: those with estimates next to the best, and the best of
  every other kind;
- the heuristic's actions with all unroll factors scaled alike;
- the plan of the streaming strategy.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from porism.base.errors import ActionError
from porism.base.target import Target
from porism.ir.node import UOp
from porism.optimize.actions.action import Action, Actions, apply_all
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.optimize.actions.memory.streaming_stores import NonTemporal
from porism.optimize.analysis.contraction_accesses import Contraction, match_contraction
from porism.optimize.analysis.loop_strides import extent_of
from porism.optimize.model.tile_plan import TilePlan
from porism.optimize.strategy import streaming_strategy
from porism.optimize.strategy.action_plan import Plan
from porism.optimize.strategy.contractions import column_panels
from porism.optimize.strategy.contractions.tile_actions import apply_tile
from porism.optimize.strategy.contractions.tile_plans import ranked_plans

MAX_NEXT_TILES: Final = 16
"""Tiles with estimates next to the best that are tried (chosen by hand)."""

MAX_KINDS: Final = 16
"""Kinds of tiles of which the best is tried (chosen by hand)."""

MAX_SLOWDOWN: Final = 2.0
"""Estimated cycles of a tile, at most, in those of the best tile."""

MAX_PANELS: Final = 12
"""Other column panels that are tried (chosen by hand)."""

SCALES: Final = ((2, 1), (1, 2), (4, 1), (1, 4))
"""Fractions that all unroll factors of a plan are multiplied with."""


def alternatives(kernel: UOp, target: Target, start: Actions) -> Iterator[tuple[Actions, UOp]]:
    """Yield the actions of whole plans, each with the scheduled kernel; some may come twice.

    `start` are the actions of the heuristic.
    """
    if target.block:
        return
    nest = match_contraction(kernel)
    if nest is not None:
        for schedule in _schedules(nest, target):
            plan = Plan(kernel, target)
            try:
                schedule(plan)
            except ActionError:  # the kernel has more than the estimate knows of
                continue
            yield tuple(plan.actions), plan.kernel
    for actions in _variations(start):
        try:
            yield actions, apply_all(kernel, actions, target)
        except ActionError:
            continue
    streaming = streaming_strategy.plan_streaming(kernel, target)
    yield tuple(streaming.actions), streaming.kernel


# -- panels and tiles ------------------------------------------------------------------------------


def _schedules(nest: Contraction, target: Target) -> Iterator[Callable[[Plan], None]]:
    """Yield functions that apply other panels, and then other tiles, to a plan."""
    for panels in _other_panels(nest, target):
        yield functools.partial(column_panels.apply_panels, contraction=nest, panels=panels)
    for tile in _promising_tiles(nest, target):
        yield functools.partial(apply_tile, contraction=nest, tile=tile)


def _promising_tiles(nest: Contraction, target: Target) -> list[TilePlan]:
    """Return the best tile and its variants, those next to it, and the best of each kind."""
    plans = ranked_plans(nest, target)
    if not plans:
        return []
    ranked = [tile for cycles, tile in plans if cycles <= MAX_SLOWDOWN * plans[0][0]]
    best_of_kind: dict[object, TilePlan] = {}
    for tile in ranked:
        best_of_kind.setdefault(_kind(tile), tile)
    chosen = [ranked[0], *_variants(ranked[0])]
    other_kinds = list(best_of_kind.values())[1 : MAX_KINDS + 1]
    for pair in itertools.zip_longest(ranked[1 : MAX_NEXT_TILES + 1], other_kinds):
        chosen.extend(tile for tile in pair if tile is not None)
    return list(dict.fromkeys(chosen))


def _kind(tile: TilePlan) -> object:
    """Return what tiles of one kind have in common: their loops and what is packed, not sizes."""
    loops = tile.vector_loop, tile.m_loop, tile.n_loop, tile.flattened_loop
    packed = tuple(operand.load for operand in tile.packed)
    return *loops, tile.vectorizes_k, tile.parallelizes_m, packed


def _variants(tile: TilePlan) -> Iterator[TilePlan]:
    """Yield the same tile with another parallel loop, and with one operand less packed."""
    if tile.m_loop is not None:
        yield dataclasses.replace(tile, parallelizes_m=not tile.parallelizes_m)
    if tile.flattened_loop is None:
        for operand in tile.packed:
            fewer = tuple(other for other in tile.packed if other is not operand)
            yield dataclasses.replace(tile, packed=fewer)


def _other_panels(nest: Contraction, target: Target) -> list[column_panels.Panels]:
    """Return panels of other lanes, widths and blocks of k, those like the chosen one first."""
    chosen = column_panels.choose_panels(nest, target)
    if chosen is None:
        return []
    vector_width = target.vector_bits[-1] // nest.bits
    others = []
    for vectors, wider, deeper in itertools.product((1, 2, 3, 4), (-1, 0, 1), (-1, 0, 1)):
        lanes = vectors * vector_width
        width = -(-int(chosen.width * 2.0**wider) // lanes) * lanes
        k_block = int(chosen.k_block * 2.0**deeper)
        if lanes < width <= extent_of(chosen.vector_loop) and 1 < k_block < nest.k:
            distance = abs(wider) + abs(deeper) + (lanes != chosen.lanes)
            others.append((distance, lanes, width, k_block))
    return [
        dataclasses.replace(chosen, lanes=lanes, width=width, k_block=k_block)
        for _, lanes, width, k_block in sorted(others)[:MAX_PANELS]
    ]


# -- variations of the heuristic's actions ---------------------------------------------------------


def _variations(start: Actions) -> Iterator[Actions]:
    """Yield actions with scaled unroll factors, with other stores, and without threads."""
    for kinds in ((Upcast, Unroll), (Upcast,), (Unroll,)):
        for numerator, denominator in SCALES:
            scaled = _scaled(start, kinds, numerator, denominator)
            if scaled is not None:
                yield scaled
    nontemporal = [action for action in start if isinstance(action, NonTemporal)]
    if nontemporal:
        yield tuple(action for action in start if action not in nontemporal)
    else:
        yield (*start, NonTemporal(0))
    if start and isinstance(start[-1], Thread):
        yield start[:-1]


def _scaled(
    start: Actions, kinds: Sequence[type[Action]], numerator: int, denominator: int
) -> Actions | None:
    """Return actions with the factors of some kinds scaled, and the padding that they need.

    None if a factor would be no whole number of at least 2, or there is no such action.
    """
    new: list[Action] = []
    is_changed = False
    factors = {a.amount for a in start if isinstance(a, Upcast | Unroll) and type(a) in kinds}
    for action in start:
        if isinstance(action, Upcast | Unroll) and type(action) in kinds:
            amount = action.amount * numerator
            if amount % denominator or amount // denominator < 2:
                return None
            new.append(dataclasses.replace(action, amount=amount // denominator))
            is_changed = True
        elif isinstance(action, PadTo) and action.multiple in factors:
            multiple = max(action.multiple * numerator // denominator, 1)
            new.append(dataclasses.replace(action, multiple=multiple))
        else:
            new.append(action)
    return tuple(new) if is_changed else None
