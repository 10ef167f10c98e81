"""Alternatives: other plans for a whole kernel than the heuristic's, the most promising first.

One action more or less seldom makes another good kernel: the rows and the columns of a tile, what
is copied and what the cores share belong together. So the search begins with whole plans: the tiles
that the estimate puts next to the best, the best of every other kind, the plan of the other half of
the heuristic, and the list that it has chosen with all its amounts changed alike.
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
from porism.optimize.actions.action_registry import Actions
from porism.optimize.actions.loop_actions import Action, PadTo, Thread, Unroll, Upcast, apply_all
from porism.optimize.actions.streaming_actions import Stream
from porism.optimize.analysis.contraction_accesses import Contraction, contraction
from porism.optimize.strategy import column_panels, streaming_strategy
from porism.optimize.strategy.action_plan import Plan, extent_of
from porism.optimize.strategy.flat_tiles import flattened_tiles
from porism.optimize.strategy.register_tiles import Tile, every
from porism.optimize.strategy.tile_actions import tiled

NEXT: Final = 16
"""Tiles next to the best by the estimate."""

KINDS: Final = 16
"""Kinds of tiles of which the best is tried."""

SLACK: Final = 2.0
"""How many times as many cycles as the best tile one may take by the estimate."""

STRIPS: Final = 12
"""Other strips."""

FACTORS: Final = ((2, 1), (1, 2), (4, 1), (1, 4))
"""How all amounts of a list are changed."""


def alternatives(kernel: UOp, target: Target, start: Actions) -> Iterator[tuple[Actions, UOp]]:
    """Whole plans, each with what becomes of the kernel; there may be some twice."""
    if target.block:
        return
    found = contraction(kernel)
    if found is not None:
        for way in _ways(found, target):
            plan = Plan(kernel, target)
            try:
                way(plan, found)
            except (ActionError, StopIteration):  # there is more in it than the estimate knows of
                continue
            yield tuple(plan.actions), plan.kernel
    for actions in _alike(start):
        try:
            yield actions, apply_all(kernel, actions, target)
        except ActionError:
            continue
    other = streaming_strategy.plan_streaming(kernel, target)
    yield tuple(other.actions), other.kernel


# -- tiles -----------------------------------------------------------------------------------------


def _ways(found: Contraction, target: Target) -> Iterator[Callable[[Plan, Contraction], None]]:
    for strip in _strips(found, target):
        yield functools.partial(_in_strips, strip)
    for tile in tiles(found, target):
        yield functools.partial(_tiled, tile)


def _in_strips(strip: column_panels.Strips, plan: Plan, found: Contraction) -> None:
    column_panels.in_strips(plan, found, strip)


def _tiled(tile: Tile, plan: Plan, found: Contraction) -> None:
    tiled(plan, found, tile)


def tiles(found: Contraction, target: Target) -> list[Tile]:
    """Those next to the best, the best of each kind, and the best done in another way."""
    ranked = sorted(
        [*every(found, target), *flattened_tiles(found, target)], key=lambda t: t.cycles
    )
    if not ranked:
        return []
    ranked = [tile for tile in ranked if tile.cycles <= SLACK * ranked[0].cycles]
    kinds: dict[object, Tile] = {}
    for tile in ranked:
        kinds.setdefault(_kind(tile), tile)
    chosen = [ranked[0], *_variants(ranked[0])]
    firsts = list(kinds.values())[1 : KINDS + 1]
    for pair in itertools.zip_longest(ranked[1 : NEXT + 1], firsts):
        chosen.extend(tile for tile in pair if tile is not None)
    return list(dict.fromkeys(chosen))


def _kind(tile: Tile) -> object:
    copied = tuple(operand.load for operand in tile.staged)
    return tile.lane, tile.row, tile.more, tile.flat, tile.within, tile.divided, copied


def _variants(tile: Tile) -> Iterator[Tile]:
    """The same tile with other loops around it, and with fewer copies."""
    if tile.row is not None:
        yield dataclasses.replace(tile, divided=not tile.divided)
    if tile.flat is None:
        for operand in tile.staged:
            fewer = tuple(other for other in tile.staged if other is not operand)
            yield dataclasses.replace(tile, staged=fewer)


def _strips(found: Contraction, target: Target) -> list[column_panels.Strips]:
    """Strips of other widths, lengths and depths, those most like the chosen one first."""
    chosen = column_panels.best(found, target)
    if chosen is None:
        return []
    width = target.vector_bits[-1] // found.bits
    others = []
    for vectors, wider, deeper in itertools.product((1, 2, 3, 4), (-1, 0, 1), (-1, 0, 1)):
        lanes = vectors * width
        length = -(-int(chosen.length * 2.0**wider) // lanes) * lanes
        terms = int(chosen.terms * 2.0**deeper)
        if lanes < length <= extent_of(chosen.lane) and 1 < terms < found.length:
            unlike = abs(wider) + abs(deeper) + (lanes != chosen.lanes)
            others.append((unlike, lanes, length, terms))
    return [
        dataclasses.replace(chosen, lanes=lanes, length=length, terms=terms)
        for _, lanes, length, terms in sorted(others)[:STRIPS]
    ]


# -- all amounts alike -----------------------------------------------------------------------------


def _alike(start: Actions) -> Iterator[Actions]:
    """A list with all its amounts changed alike; and with its results stored in the other way."""
    for kinds in ((Upcast, Unroll), (Upcast,), (Unroll,)):
        for times, parts in FACTORS:
            changed = _scaled(start, kinds, times, parts)
            if changed is not None:
                yield changed
    stored = [action for action in start if isinstance(action, Stream)]
    if stored:
        yield tuple(action for action in start if action not in stored)
    else:
        yield (*start, Stream(0))
    if start and isinstance(start[-1], Thread):
        yield start[:-1]


def _scaled(
    start: Actions, kinds: Sequence[type[Action]], times: int, parts: int
) -> Actions | None:
    """A list with the amounts of some actions changed, also where loops are padded for them."""
    new: list[Action] = []
    changed = False
    amounts = {a.amount for a in start if isinstance(a, Upcast | Unroll) and type(a) in kinds}
    for action in start:
        if isinstance(action, Upcast | Unroll) and type(action) in kinds:
            if action.amount * times % parts or action.amount * times // parts < 2:
                return None
            new.append(dataclasses.replace(action, amount=action.amount * times // parts))
            changed = True
        elif isinstance(action, PadTo) and action.multiple in amounts:
            multiple = max(action.multiple * times // parts, 1)
            new.append(dataclasses.replace(action, multiple=multiple))
        else:
            new.append(action)
    return tuple(new) if changed else None
