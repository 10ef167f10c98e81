"""Tiles: which part of a contraction is computed together, chosen by an estimate of its cycles.

A tile has lanes along one loop of the output, and copies along up to two others: rows, for which
what is read along the lanes is used again, and more vectors, for which what the rows read is. An
operand that the lanes would jump in, or that is far apart from term to term, is copied for all rows
first. Where the operands are contiguous along a loop of the reduction, the lanes may be there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from porism.base.target import Target
from porism.ir.node import UOp
from porism.optimize.actions.packed_panels import row_length
from porism.optimize.actions.streaming_actions import SHORTEST
from porism.optimize.analysis.contraction_accesses import Contraction, Operand
from porism.optimize.analysis.loop_strides import iterations
from porism.optimize.strategy.action_plan import extent_of

ROWS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14)
LANES: Final = (8, 16, 24, 32, 40, 48, 56, 64, 128, 256)
ROW_LANES: Final = 64
"""Lanes of a tile with several rows, at most."""

STREAMS: Final = 8
"""Rows that are fetched ahead of being read, if they come from beyond the first cache."""

WAYS, PAGE = 8, 4096
"""Lines of a cache whose addresses differ by multiples of a number of bytes."""

TIMES: Final = (1, 2, 3, 4, 7, 8)
TERMS: Final = (1, 2, 4)
"""Vectors of terms that are added together."""

FEW: Final = 128
"""Terms of a reduction up to which storing its results takes longer than reading again."""

PAGES: Final = 64
"""Pages of memory that can be read in turn without looking up where they are."""

UNEVEN: Final = 0.1
"""How much longer than the others a core may work, in proportion."""

PARTS: Final = 4
"""Of a loop for each core: a core that is done takes the next."""

SPARE: Final = 8
"""Registers that are not for results, but for operands, some of them loaded early."""

HALF: Final = (0.54, 0.5)
"""What a vector of half the width takes, in whole ones: in a single loop of terms, or in several,
where none was seen to take longer than half."""

LATENCY: Final = 4.0
"""Cycles until a sum can be added to again."""

FAR: Final = 1024
"""Bytes from one term to the next, from which on reading in place takes longer."""

CROWDED: Final = 0.3
"""How much longer, in proportion, if a cache has few places for what is so far apart."""

APART: Final = 0.04
"""How much longer, in proportion, if it has enough."""

JUMP: Final = 16.0
"""Cycles to begin to read far away from what was read before."""

FROM_L2: Final = 20.0
"""Bytes in a cycle from the second cache of a core."""

FROM_L3: Final = 8.0
"""Bytes in a cycle from a cache that is shared."""

LAST_CACHE: Final = 1 << 25
"""Bytes of the last cache, at least."""

GROWTH: Final = 1.25
"""How many times as large as a constant a copy of it may be that is made before all calls."""

HIDDEN: Final = 8
"""Vectors of results that are finished while the next ones are begun."""

MEMORY: Final = 1 << 18
"""Bytes of a cache of which the size is not known."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A way to compute a contraction."""

    cycles: float
    lane: UOp
    lanes: int
    row: UOp | None = None
    rows: int = 1
    more: UOp | None = None
    times: int = 1
    staged: tuple[Operand, ...] = ()
    within: bool = False
    """Whether the lanes are terms of the reduction."""
    divided: bool = False
    """Whether the loop of the rows, and no other, is divided among the cores."""
    flat: UOp | None = None
    """A loop around that of the lanes, of which some iterations are lanes as well."""
    height: int = 1
    """How many."""
    turned: bool = False
    """Whether the lanes are along a loop that is not stored along; what `times` iterations of
    `more` read is copied together then."""


def best(found: Contraction, target: Target) -> Tile | None:
    """The tile with the fewest cycles by the estimate."""
    return min(every(found, target), key=lambda tile: tile.cycles, default=None)


def every(found: Contraction, target: Target) -> Iterator[Tile]:
    """All tiles that there are estimates of."""
    width = target.vector_bits[-1] // found.bits if target.vector_bits else 1
    if width < 2:
        return
    for lane in found.outputs:
        if found.is_stored_along(lane):
            yield from _along_output(found, lane, width, target)
    for lane in found.terms:
        if all(o.step(lane) in (0, 1) for o in found.operands):
            yield from _along_terms(found, lane, width, target)


def _size(counter: UOp | None) -> int:
    return 1 if counter is None else extent_of(counter)


def padding_ratio(size: int, part: int) -> float:
    """How much more is computed in parts of some size."""
    return -(-size // part) * part / size


def _along_output(found: Contraction, lane: UOp, width: int, target: Target) -> Iterator[Tile]:
    along = [o for o in found.operands if lane in o.ranges]
    others = [o for o in found.operands if lane not in o.ranges]
    if not along:
        return
    rows = [
        r
        for r in found.outputs
        if r is not lane
        and not any(r in o.ranges for o in along)
        and any(r in o.ranges for o in others)
    ]
    more = [
        r
        for r in found.outputs
        if r is not lane
        and any(r in o.ranges for o in along)
        and not any(r in o.ranges for o in others)
    ]
    most = (target.memory.registers - SPARE) // found.reductions
    choices: list[UOp | None] = [*rows] or [None]
    for lanes in _lane_counts(extent_of(lane), width):
        vector = min(math.gcd(lanes, 4 * width), width)
        vectors = lanes // vector
        for row in choices:
            for extra in [None, *more]:
                for times in TIMES:
                    if (extra is None and times > 1) or vectors * times > most:
                        break
                    if extra is not None and (times < 2 or extent_of(extra) % times):
                        continue
                    reading = _read_along(found, target, lane, lanes, vector, extra, times, along)
                    for count in ROWS:
                        if count * vectors * times > most or count > _size(row):
                            break
                        if lanes > ROW_LANES * width // 16 and count > 1:
                            break
                        yield _estimate(
                            found, target, lane, lanes, vector, row, count, extra, times,
                            reading, others,
                        )  # fmt: skip


def _lane_counts(size: int, width: int) -> list[int]:
    """How many lanes there may be: some vectors, or one that is a little longer than the loop."""
    counts = [n * width // 16 for n in LANES if n * width // 16 >= 4]
    fitting = [n for n in counts if n <= size]
    longer = [n for n in counts if size < n <= size * 4 / 3]
    if not fitting and not longer:
        power = 1 << (size - 1).bit_length()
        longer = [power] if size >= 2 and power * 3 <= size * 4 else []
    return fitting + longer[:1]


class _Reading(NamedTuple):
    """What a tile reads along its lanes, whatever its rows."""

    staged: tuple[Operand, ...]
    copying: float
    """Cycles for copies, all in all."""
    reads: float
    fetched: float
    slow: list[tuple[float, float]]
    """Of operands that are far apart: how much longer each sum takes, and each step."""
    by_rows: bool
    short: bool
    outer: list[int]
    """The sizes of the loops around the rows."""
    stored_long: bool
    """Whether it takes long to store the results."""


def _read_along(
    found: Contraction, target: Target, lane: UOp, lanes: int, vector: int, more: UOp | None,
    times: int, along: list[Operand],
) -> _Reading:  # fmt: skip
    width = target.vector_bits[-1] // found.bits
    vectors = lanes // vector
    share = max(vector / width, HALF[len(found.terms) > 1])
    staged: list[Operand] = []
    slow: list[tuple[float, float]] = []
    copying, reads, fetched = 0.0, 0.0, 0.0
    limit = max(target.memory.l2, MEMORY) // 2
    for o in along:
        copies = vectors * (times if more in o.ranges else 1)
        step = o.step(lane)
        window = o.window(lane, found.terms)
        again = extent_of(window[0]) if window is not None and window[1] == 1 else 1
        terms = iterations(r for r in found.terms if r in o.ranges)
        tall = o.window(more, found.terms) if more is not None and more in o.ranges else None
        taps = 1 if tall is None else extent_of(tall[0])  # rows that windows share
        span = times if tall is None else (times - 1) * tall[1] + taps
        length = row_length(lanes + again - 1, o.item) if again * taps > 1 else lanes
        panel = length * span * terms // (again * taps) * o.item
        needed = step != 1 or o.is_masked
        apart = abs(o.step(found.terms[-1]) or 0) * o.item
        spread = apart * terms > PAGES * PAGE and apart >= 2 * lanes * o.item
        far = (apart >= FAR or spread) and panel > target.memory.l1 // 2
        if (needed or far) and panel <= (limit * 3 // 2 if needed else limit):
            whole = [r for r in o.ranges if r is not lane]
            elements = (
                iterations(whole) * extent_of(lane) * padding_ratio(extent_of(lane), lanes) / again
            )
            elements *= span / (times * taps)
            price = _copy_price(o, step, found) * (0.5 + 0.5 * max(width / lanes, 0.5))
            worse = _in_place(o, apart, terms, found, target)
            if not needed and worse == APART and o.elements * o.item > target.memory.l2:
                price += o.item / FROM_L3  # which goes on beside sums, but not beside a copy
            if o.buffer in found.constants and padding_ratio(extent_of(lane), lanes) <= GROWTH:
                price = 0.0  # it is copied once, before all calls
            if needed or elements * price < worse * found.work / width:
                staged.append(o)
                copying += elements * price
                if panel > target.memory.l1 * 7 // 8:
                    distinct = copies * vector * span / (times * taps * again)
                    fetched += distinct * o.item / FROM_L2
                over = (
                    again > 1 or panel > target.memory.l1 // 2
                )  # two cache lines, or the L2 cache
                reads += copies * share * (2.0 if over else 1.0)
                continue
        if step == 1:
            reads += copies * share * (1.5 if o.is_masked else 1.0)
            large = o.elements * o.item > target.memory.l2
            if far:
                fetched += copies * vector * o.item / (FROM_L3 if panel > limit else FROM_L2)
            elif panel > target.memory.l1:
                from_l3 = panel > max(target.memory.l2, MEMORY)
                fetched += copies * vector * o.item / (FROM_L3 if from_l3 else FROM_L2)
            worse = _in_place(o, apart, terms, found, target)
            if far:
                slow.append((worse, JUMP if large and worse > APART else 0.0))
        elif step is None or not -4 <= step <= 4:
            reads += copies * vector * 1.5
        else:
            reads += copies * 4.0
    by_rows = not staged and is_by_rows(found, along, lane, more, target)
    short = 4 < extent_of(found.terms[-1]) < 8 and not _in_one(found, staged)
    outer = _around(found, along, lane, lanes, more, times)
    stored_long = _is_stored_long(found, target)
    return _Reading(
        tuple(staged), copying, reads, fetched, slow, by_rows, short, outer, stored_long
    )


def _estimate(
    found: Contraction, target: Target, lane: UOp, lanes: int, vector: int, row: UOp | None,
    rows: int, more: UOp | None, times: int, reading: _Reading, others: list[Operand],
) -> Tile:  # fmt: skip
    """The cycles of all cores together, about."""
    width = target.vector_bits[-1] // found.bits
    vectors = lanes // vector
    share = max(vector / width, HALF[len(found.terms) > 1])
    sums = vectors * times * rows * found.reductions * share
    slow, again_and_again = 0.0, 0.0
    for worse, jump in reading.slow:
        slow += worse * sums + jump
    reads, by_rows = reading.reads, reading.by_rows
    results = vectors * times * rows * found.reductions
    held = results + min(rows, vectors * times) < target.memory.registers
    for o in others:
        copies = (rows if row in o.ranges else 1) * (times if more in o.ranges else 1)
        if not held:  # read again for each result
            copies = max(copies, results)
        bytes_read = o.elements * o.item
        if bytes_read > target.memory.l2:  # read again for each panel
            panels = -(-extent_of(lane) // lanes) * _size(more) / times
            again_and_again += bytes_read * panels / FROM_L3
        if copies > STREAMS and bytes_read > target.memory.l2 // 4:
            slow += 0.1 * sums
        crowded = row is not None and rows * alike(o.step(row), o.item) > WAYS / 2
        reads += copies * (2.0 if o.is_masked else 1.5 if crowded else 0.5)
    stored = found.results * found.bits // 8
    if reading.stored_long and not _is_past_the_caches(found, lane, lanes, row, rows):
        again_and_again += stored / FROM_L3  # what is there is read before it is written
        if by_rows:  # and what is read is driven out
            slow += 0.4 * sums
    each = max(sums, reads, reading.fetched, LATENCY) + 0.1 * reads + slow + 1.0
    each += 2.0 if reading.short else 0.0
    waste = padding_ratio(extent_of(lane), lanes) * padding_ratio(_size(row), rows)
    tiles = found.results * waste / (lanes * rows * times)
    stores = 10.0 + finishing(found, vectors * rows * times, share)
    if stored > target.memory.l2 and not by_rows:
        stores += JUMP * rows * times
    cycles = tiles * (found.length * each + stores)
    outer = reading.outer
    if by_rows and all(r in (row, lane, more) for r in found.outputs):
        outer = [-(-_size(row) // rows), *outer]  # these are outermost then
    cycles, divided = shared(
        cycles + again_and_again, reading.copying, outer, _size(row), rows, target.cores
    )
    return Tile(cycles, lane, lanes, row, rows, more, times, reading.staged, divided=divided)


def _is_stored_long(found: Contraction, target: Target) -> bool:
    """Whether it takes long to store the results: they fit no cache, and the sums are short."""
    stored = found.results * found.bits // 8
    return found.length <= FEW and stored * 2 >= max(target.memory.l3, LAST_CACHE)


def _is_past_the_caches(
    found: Contraction, lane: UOp, lanes: int, row: UOp | None, rows: int
) -> bool:
    """Whether a tile can be stored past the caches: in whole vectors, each where it fits."""
    fits = extent_of(lane) * found.bits % (8 * SHORTEST) == 0
    return fits and extent_of(lane) % lanes == 0 and _size(row) % rows == 0


def finishing(found: Contraction, vectors: int, share: float) -> float:
    """The cycles from the sums of a tile to what is stored."""
    return 2.0 * vectors + found.following * max(vectors * share - HIDDEN, 0)


def _in_place(o: Operand, apart: int, terms: int, found: Contraction, target: Target) -> float:
    """How much longer it takes to read terms that are far apart, in proportion."""
    bytes_used = o.elements * o.item + found.results * found.bits // 8
    is_large = bytes_used > max(target.memory.l3, LAST_CACHE) // 2  # it is not in the last cache
    return CROWDED if is_large or is_crowded(apart, terms, target) else APART


def is_crowded(apart: int, terms: int, target: Target) -> bool:
    """Whether the second cache of a core has few places for terms so many bytes apart."""
    way = max(target.memory.l2, MEMORY) // WAYS
    return terms * math.gcd(apart, way) > way * WAYS // 2


def is_by_rows(
    found: Contraction, along: list[Operand], lane: UOp, more: UOp | None, target: Target
) -> bool:
    """Whether it is the result that takes time, and is better stored row by row."""
    if found.length > FEW:
        return False
    inside = [[r for r in o.ranges if r in found.terms or r in (lane, more)] for o in along]
    read = sum(iterations(loops) * o.item for loops, o in zip(inside, along, strict=True))
    return read <= 2 * target.memory.l2


def _around(
    found: Contraction, along: list[Operand], lane: UOp, lanes: int, more: UOp | None, times: int
) -> list[int]:
    """The sizes of the loops around the rows of a tile, the outermost first."""
    parts = {lane: lanes, more: times}
    return [
        -(-extent_of(r) // parts.get(r, 1))
        for r in found.outputs
        if extent_of(r) > parts.get(r, 1) and any(r in o.ranges for o in along)
    ]


def shared(
    cycles: float, copying: float, outer: list[int], size: int, rows: int, cores: int
) -> tuple[float, bool]:
    """The cycles of all cores, and whether it is better to divide the loop of the rows among them.

    If the outermost loop is divided, some cores may wait; if that of the rows is, each core makes
    its own copies.
    """
    chunk = -(-size // (cores * rows)) * rows
    divided = cycles * chunk * cores / (-(-size // rows) * rows) + copying * cores
    if outer:
        late = load_imbalance(outer[0], cores)
        if late >= UNEVEN:
            late = min(load_imbalance(n, cores) for n in outer)
        plain = (cycles + copying) * (1 + late)
    else:
        tiles = -(-size // rows)
        copies = min(PARTS * cores, tiles)
        plain = cycles * (1 + load_imbalance(tiles, cores)) + copying * copies
    gain = 0.98 if outer else 1.0  # small parts are shared better if a core is held up
    return (divided, True) if divided < plain * gain and cores > 1 else (plain, False)


def load_imbalance(size: int, cores: int) -> float:
    """How much longer the last core works, in proportion."""
    return -(-size // cores) * cores / size - 1


def alike(step: int | None, item: int) -> float:
    """Which part of the rows of an operand is in the same place of a cache."""
    return math.gcd((step or 1) * item, PAGE) / PAGE


def _copy_price(o: Operand, step: int | None, found: Contraction) -> float:
    """Cycles to copy an element."""
    if step == 1:
        return 0.8 if o.is_masked else 0.2
    if any(o.step(r) == 1 for r in found.terms):
        return 0.6
    return 0.8 if step is not None and 1 < step <= 4 else 1.6


def _in_one(found: Contraction, staged: list[Operand]) -> bool:
    """Whether all loops of the reduction can be one, without divisions."""
    return all(o in staged or counts_on(o, found) for o in found.operands)


def counts_on(o: Operand, found: Contraction) -> bool:
    """Whether an operand is read on and on in the loops of the reduction."""
    for outer, inner in zip(found.terms, found.terms[1:], strict=False):
        step = o.step(inner)
        if step is None or o.step(outer) != step * extent_of(inner) or o.is_masked:
            return False
    return True


def is_peeled(found: Contraction, lane: UOp, lanes: int) -> bool:
    """Whether the last terms, fewer than the lanes, are in a loop of their own."""
    return len(found.terms) == 1 and lanes < extent_of(lane) and extent_of(lane) % lanes > 0


def _rows_of_terms(row: UOp | None, more: UOp | None) -> tuple[int, ...]:
    """How many rows may share what they read along their terms."""
    if row is None:
        return (1,)
    return (1, 2, 3, 4, 5, 6) if more is not None else (1, 2, 3, 4, 5, 6, 8)


def _along_terms(found: Contraction, lane: UOp, width: int, target: Target) -> Iterator[Tile]:
    size = extent_of(lane)
    if size < width:
        return
    most = (target.memory.registers - SPARE) // found.reductions
    loops = [r for r in found.outputs if len({r in o.ranges for o in found.operands}) > 1]
    pairs: list[tuple[UOp | None, UOp | None]] = [(None, None), *((r, None) for r in loops)]
    pairs += [
        (r, c)
        for r in loops
        for c in loops
        if r is not c and not any({r, c} <= o.ranges for o in found.operands)
    ]
    for row, more in pairs:
        for rows in _rows_of_terms(row, more):
            for times in (1, 2, 3, 4, 6) if more is not None else (1,):
                tile = rows * times
                if _size(row) < rows or _size(more) < times or tile > most:
                    continue
                for vectors in TERMS:
                    if size < vectors * width or (vectors > 1 and tile * vectors > 8):
                        continue
                    reads = sum(
                        (rows if row in o.ranges else 1) * (times if more in o.ranges else 1)
                        for o in found.operands
                    )
                    sums = tile * vectors * (1 if vectors == 1 else 2) * found.reductions
                    each = max(sums, reads * vectors, LATENCY) + 1.0
                    steps = found.length / (vectors * width)
                    ending = 12.0 + 12 * tile * found.reductions
                    if is_peeled(found, lane, vectors * width):
                        ending += 2.0 * reads * vectors + 4
                    elif size % (vectors * width):
                        steps *= padding_ratio(size, vectors * width)
                        each += 2.0 * reads
                    waste = padding_ratio(_size(row), rows) * padding_ratio(_size(more), times)
                    cycles = found.results * waste / tile * (steps * each + ending)
                    yield Tile(cycles, lane, vectors * width, row, rows, more, times, (), True)
