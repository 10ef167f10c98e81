"""Lowering: for each procedure of `porism.lower`, the graphs and numbers on which it is tried.

A graph is evaluated before and after the procedure, for every element of its inputs: at every width
of integers on pairs of values near the limits, and on floats of ordinary size, at the limits, and
with random bits. What is exact must be equal bit by bit. A formula for a transcendental function
has a stated error: see docs/accuracy.md. Each is tried on a machine without instructions for the
edge cases, and on one that has them; what concerns floats also on machines with MULACC or LDEXP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import DType, Theory, f32, f64, i32, index
from porism.base.gpu_targets import H200
from porism.base.target import GENERIC_CPU
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.lower.decompose.decomposition_options import Machine
from porism.lower.decompose.integer_division import multiplier, safe_divisor
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import Procedure, RuleSet
from tests.examples.example_graphs import made

Example = tuple[UOp, list[Array]]
"""A graph, and the array of each of its parameters."""

WORDS: Final = tuple(t for t in dtypes.scalars() if t.theory is Theory.FIXED_WIDTH)
FLOATS: Final = (f32, f64)
SHORT: Final = (dtypes.f16, dtypes.bf16, dtypes.fp8e4m3, dtypes.fp8e5m2)
MACHINE: Final = Machine(target=GENERIC_CPU, shifts_for_products=True)
CAPABLE: Final = Machine(
    target=replace(H200, native_ops=frozenset(), ops=H200.ops | {"LDEXP"}),
    total_division=True,
    total_shifts=True,
    saturating_casts=True,
    divides_by_constants=True,
)
FUSED: Final = Machine(target=replace(H200, native_ops=frozenset(), dtypes=H200.dtypes - {"f64"}))
SCALING: Final = Machine(target=replace(GENERIC_CPU, ops=GENERIC_CPU.ops | {"LDEXP"}))
ULPS: Final = 4.0
"""Units in the last place by which a formula may differ from the correctly rounded result."""


def operands(count: int, *kinds: DType, lanes: int = 1) -> list[UOp]:
    """The elements of parameters 0, 1, …: one for each iteration of a loop, or a vector of some."""
    step = UOp.range(UOp.const(i32, count // lanes), 0)
    found = []
    for place, kind in enumerate(kinds):
        memory = UOp(ops.PARAM, kind.pointer(size=count), (), place)
        parts = [memory.index(step * lanes + lane) for lane in range(lanes)]
        found.append(parts[0] if lanes == 1 else ops.VECTORIZE(*parts))
    return found


def bounded(x: UOp, low: int, high: int) -> UOp:
    """An integer, clamped: its bounds are known."""
    return made(ops.MAX, made(ops.MIN, x, x.lift(high)), x.lift(low))


def edges(kind: DType) -> list[int]:
    """Values of an integer type where something may go wrong."""
    low, high = int(kind.min), int(kind.max)
    near = [base + k for base in (low, high, 0, high // 2) for k in (-1, 0, 1)]
    return sorted({k for k in (*near, 2, 7, 8, 10, -7, -10, kind.bits) if low <= k <= high})


def pairs(kind: DType) -> list[Array]:
    """All pairs of edges of an integer type."""
    some = np.array(edges(kind), dtype=object).astype(kind.numpy)
    return [grid.reshape(-1) for grid in np.meshgrid(some, some)]


def numbers(kind: DType, seed: int = 1) -> Array:
    """Floats: of ordinary size, at the limits, and with random bits."""
    chance = np.random.default_rng(seed)
    bits = chance.integers(0, 1 << kind.bits, 300, dtype=np.uint64).astype(f"uint{kind.bits}")
    special = [0.0, -0.0, 0.5, 1.5, 2.5, 1e-40, 8388607.5, 1e10, 3e38, np.inf, -np.inf, np.nan]
    with np.errstate(all="ignore"):
        ordinary = chance.normal(0, 10, 300)
        whole = np.concatenate([special, np.negative(special), ordinary]).astype(kind.numpy)
    return np.concatenate([whole, bits.view(kind.numpy)])


# -- examples --------------------------------------------------------------------------------------


def on_words(*found: Op) -> Iterator[Example]:
    """Ops of two integers, at every width: of all values, within bounds, in vectors, unbounded."""
    for kind in WORDS:
        arrays = pairs(kind)
        count = len(arrays[0]) // 2 * 2
        x, y = operands(len(arrays[0]), kind, kind)
        pair = operands(count, kind, kind, lanes=2)
        low, high, bits = int(kind.min), int(kind.max), kind.bits
        firsts = (low, high), (0, high), (-1, high), (low + 1, high)
        seconds = (0, high), (-1, high), (1, high), (low, -1), (low, -2), (0, 1), (-1, 1)
        inside = (0, bits - 1), (0, bits), (0, 3), (-5, 0), (-5, 3), (low, high)
        for op in found:
            yield made(op, x, y), arrays
            yield made(op, *pair), arrays
            for first in firsts:
                if low <= first[0]:
                    for second in (*seconds, *inside):
                        if low <= second[0] <= second[1]:
                            yield made(op, bounded(x, *first), bounded(y, *second)), arrays
    numbers, others = pairs(dtypes.i8)
    some = [numbers, np.where(others == 0, np.int8(1), abs(others // 2))]
    yield from (
        (made(op, *[s.cast(index) for s in operands(len(numbers), dtypes.i8, dtypes.i8)]), some)
        for op in found
    )


def safe_divisions() -> Iterator[Example]:
    """Divisors that are 1 where the division would trap, and others that are so elsewhere."""
    yield from on_words(ops.CDIV, ops.CMOD)
    for kind in WORDS:
        arrays = pairs(kind)
        x, y = operands(len(arrays[0]), kind, kind)
        safe = safe_divisor(x, y)
        half = made(ops.WHERE, made(ops.EQ, y, y.lift(0)), y, y.lift(2))
        seven = made(ops.WHERE, made(ops.EQ, y, y.lift(7)), y.lift(1), y)
        for divisor in (safe, half, seven, made(ops.WHERE, safe.src[0], y.lift(2), y)):
            yield from ((made(op, x, divisor), arrays) for op in (ops.CDIV, ops.CMOD))


def products() -> Iterator[Example]:
    """Products with constants that are powers of two, and that are not; of floats too."""
    yield from divisors(ops.MUL, powers=True)
    yield from divisors(ops.MUL, powers=False)
    yield from on_floats(lambda x: made(ops.MUL, x, x.lift(8.0)))


def integer_powers() -> Iterator[Example]:
    yield from on_words(ops.POW)
    yield from on_floats(ops.POW, count=2)


def divisors(*found: Op, powers: bool) -> Iterator[Example]:
    """Divisions by constants that are powers of two, or are not, and by what is no such divisor."""
    for kind in WORDS:
        arrays = pairs(kind)
        x, y = operands(len(arrays[0]), kind, kind)
        (pair,) = operands(len(arrays[0]) // 2 * 2, kind, lanes=2)
        numbers = _powers(kind) if powers else _no_powers(kind)
        for op in found:
            for divisor in (*numbers, 8, 10, 0, -1, -8, -10, int(kind.min)):
                if kind.min <= divisor:
                    yield made(op, x, x.lift(divisor)), arrays[:1]
            yield made(op, pair, pair.lift(numbers[1])), arrays[:1]
            yield made(op, x, y), arrays
            for near in ((-1, 100), (0, 100)):
                if kind.min <= near[0]:
                    yield made(op, bounded(x, *near), x.lift(numbers[1])), arrays[:1]
    wide = operands(len(pairs(i32)[0]), i32)[0].cast(index)  # of no width
    yield from ((made(op, wide, wide.lift(8)), pairs(i32)[:1]) for op in found)


def _powers(kind: DType) -> tuple[int, ...]:
    return 1, 2, 8, 1 << (kind.bits - 2), int(kind.max) // 2 + 1


def _no_powers(kind: DType) -> tuple[int, ...]:
    top, high = 1 << (kind.bits - 2), int(kind.max)
    return 3, 6, 7, 10, 100, 119, 641 % high, top - 1, high // 2 + 2, high


def bounded_quotients(op: Op) -> Iterator[Example]:
    """Quotients of integers whose bounds decide by which products they are computed."""
    for kind in WORDS:
        for divisor in (*_no_powers(kind), int(kind.max) // 2 + 1):
            for low, high in _product_bounds(kind, divisor):
                yield _quotient(op, kind, (low, high), divisor)
        for largest, divisor in _LARGEST_PRODUCTS:
            for low, high in ((0, largest), (-1, largest - divisor)):
                if kind.min <= low <= high <= largest <= kind.max:
                    yield _quotient(op, kind, (low, high), divisor)


def _quotient(op: Op, kind: DType, bounds: tuple[int, int], divisor: int) -> Example:
    """A quotient of the numbers within bounds that are next to the bounds and to multiples."""
    low, high = bounds
    last = high - (high + 1) % divisor  # the largest one below a multiple
    some = {low, high, last, last + 1, last - 1, low + 1, 0, divisor - 1, divisor}
    inside = sorted(k for k in some if low <= k <= high)
    (x,) = operands(len(inside), kind)
    array = np.array(inside, dtype=object).astype(kind.numpy)
    return made(op, bounded(x, low, high), x.lift(divisor)), [array]


_LARGEST_PRODUCTS: Final = (
    *((51, 13), (13107, 3277), (858993459, 214748365), (3689348814741910323, 922337203685477581)),
    *((4681, 2341), (1317624576693539401, 658812288346769701)),
)
"""Numbers and divisors such that the product with the multiplier is the largest of its type."""


def _product_bounds(kind: DType, divisor: int) -> Iterator[tuple[int, int]]:
    """Bounds such that the products with a multiplier just fit some width, or just do not."""
    low, high = int(kind.min), int(kind.max)
    found = {(0, 8), (0, divisor - 1), (0, divisor), (-1, 8), (-1, high), (low, -1), (low, high)}
    for limit in (high, (1 << kind.bits) - 1, (1 << 32) - 1, (1 << 64) - 1):
        fits = _largest_factor(high, divisor, limit)
        found |= {(0, fits), (0, fits + 1), (-1, fits - divisor), (-1, fits - divisor + 1)}
    for lowest, highest in sorted(found):
        if low <= lowest <= highest <= high:
            yield lowest, highest


def _largest_factor(high: int, divisor: int, limit: int) -> int:
    """The largest number up to `high` whose product with its multiplier is within a limit."""
    fits, over = 0, high + 1
    while over - fits > 1:
        middle = (fits + over) // 2
        within = middle * multiplier(middle, divisor)[0] <= limit
        fits, over = (middle, over) if within else (fits, middle)
    return fits


def on_floats(*made: Callable[..., UOp], count: int = 1) -> Iterator[Example]:
    """Graphs of floats, in single and in double precision."""
    for kind in FLOATS:
        arrays = [numbers(kind, seed) for seed in range(1, count + 1)]
        found = operands(len(arrays[0]), *[kind] * count)
        for make in made:
            yield make(*found), arrays


def on_all_floats(op: Op, count: int = 1) -> Iterator[Example]:
    """An op of floats of every precision that has a formula, and of vectors."""
    yield from on_floats(op, count=count)
    for kind, lanes in ((dtypes.f16, 1), (dtypes.bf16, 1), (f32, 2)):
        arrays = [_random_bits().astype(f"uint{kind.bits}").view(kind.numpy)] * count
        yield op(*operands(len(arrays[0]), *[kind] * count, lanes=lanes)), arrays


def conversions() -> Iterator[Example]:
    """Floats to integers of every width; what else is converted, or is no conversion."""
    others = (*WORDS, dtypes.boolean, dtypes.f16)
    yield from on_floats(*[lambda x, kind=kind: x.cast(kind) for kind in others])
    for kind in (dtypes.f16, dtypes.fp8e4m3, i32):
        arrays = [_all_values(kind) if kind in SHORT else pairs(kind)[0]]
        (x,) = operands(len(arrays[0]), kind)
        yield from ((x.cast(target), arrays) for target in (dtypes.i8, dtypes.u8, dtypes.i64))


def roundings() -> Iterator[Example]:
    yield from on_floats(*ROUNDINGS)
    for kind in (dtypes.f16, i32):
        arrays = [_all_values(kind) if kind in SHORT else pairs(kind)[0]]
        (x,) = operands(len(arrays[0]), kind)
        yield from ((made(op, x), arrays) for op in ROUNDINGS)


def fused_sums() -> Iterator[Example]:
    yield from on_floats(ops.MULACC, count=3)
    some = pairs(i32)
    x, y = operands(len(some[0]), i32, i32)
    yield made(ops.MULACC, x, y, x), some


def quotients_by_powers() -> Iterator[Example]:
    """Divisors that are powers of two up to the limits of the types, and that are none."""
    powers = (-150, -149, -128, -127, -126, 126, 127, 128, 1022, 1023, -1022, -1023, -1074)
    some = (8.0, -0.25, 3.0, -0.0, 0.0, np.inf, -np.inf, np.nan, *[2.0**k for k in powers])
    for divisor in some:
        yield from on_floats(lambda x, d=divisor: made(ops.FDIV, x, x.lift(d)))
    yield from on_floats(ops.FDIV, count=2)
    arrays = [_all_values(dtypes.f16)]
    (x,) = operands(len(arrays[0]), dtypes.f16)
    yield from ((made(ops.FDIV, x, x.lift(d)), arrays) for d in (1.0, 2.0, 2.0**-24, 2.0**15))


def widened() -> Iterator[Example]:
    """Arithmetic of floats, on all values of the shortest."""
    for kind in (*SHORT, *FLOATS):
        every = np.arange(256, dtype=np.uint16) if kind.bits == 8 else _random_bits()
        some = every.astype(f"uint{kind.bits}").view(kind.numpy)
        arrays = [some, some[::-1].copy()]
        x, y = operands(len(some), kind, kind)
        for op in (ops.ADD, ops.MUL, ops.FDIV, ops.LT):
            yield op(x, y), arrays
        yield ops.MULACC(x, y, x), arrays


def _random_bits() -> Array:
    return np.random.default_rng(1).integers(0, 1 << 16, 500, dtype=np.uint64)


def short_casts() -> Iterator[Example]:
    """Integers and floats to short floats, and back; pointers to short floats."""
    for kind in (dtypes.i8, i32, dtypes.i64, dtypes.u64):
        arrays = [np.concatenate([pairs(kind)[0], _near_halfway(kind)])]
        (x,) = operands(len(arrays[0]), kind)
        yield from ((x.cast(target), arrays) for target in SHORT)
    for kind in (*SHORT, *FLOATS):
        arrays = [numbers(kind) if kind in FLOATS else _all_values(kind)]
        (x,) = operands(len(arrays[0]), kind)
        yield from ((x.cast(t), arrays) for t in (*SHORT, *FLOATS) if t is not kind)
        if kind in SHORT:
            some = [arrays[0][np.isfinite(arrays[0].astype(np.float32))]]
            (x,) = operands(len(some[0]), kind)
            yield from ((x.cast(t), some) for t in (i32, dtypes.i64))
        memory = UOp(ops.PARAM, kind.pointer(size=4), (), 0)
        pair = made(ops.CAST, memory, dtype=kind.vec(2).pointer(size=4))
        yield made(ops.LOAD, pair), [arrays[0][:4]]


def _near_halfway(kind: DType) -> Array:
    """Integers next to those that lie between two short floats, as far as they fit."""
    top = kind.bits - 2
    some = [
        sign * ((1 << k) + (1 << (k - drop)) + near)
        for k in range(4, top)
        for drop in (3, 4, 8, 9, 11, 12)
        if drop <= k
        for near in (-1, 0, 1)
        for sign in (1, -1)
    ]
    found = [n for n in [*some, 1 << 53, -(1 << 53)] if kind.min <= n <= kind.max]
    return np.array(found, dtype=object).astype(kind.numpy)


def _all_values(kind: DType) -> Array:
    every = np.arange(1 << kind.bits, dtype=np.uint32)
    return every.astype(f"uint{kind.bits}").view(kind.numpy)[:: 1 if kind.bits == 8 else 17]


def short_sums() -> Iterator[Example]:
    """Reductions of short floats."""
    for kind in (dtypes.f16, dtypes.bf16, f64):
        some = np.arange(-7, 8).astype(kind.numpy)
        (x,) = operands(len(some), kind)
        yield from ((x.reduce(op, *x.ranges), [some]) for op in (ops.ADD, ops.MAX, ops.MIN))


def random_words() -> Iterator[Example]:
    """Blocks of random bits."""
    arrays = pairs(dtypes.u64)
    yield ops.THREEFRY(*operands(len(arrays[0]), dtypes.u64, dtypes.u64)), arrays


DIVISIONS: Final = (ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD)
ROUNDINGS: Final = (ops.ROUND, ops.FLOOR, ops.CEIL, ops.TRUNC)

OF_WORDS: Final[dict[str, Callable[[], Iterator[Example]]]] = {
    "divide-by-power": lambda: divisors(*DIVISIONS, powers=True),
    "divide-by-constant": lambda: chain(
        divisors(ops.IDIV, ops.MOD, powers=False), bounded_quotients(ops.IDIV)
    ),
    "truncate-by-constant": lambda: chain(
        divisors(ops.CDIV, ops.CMOD, powers=False), bounded_quotients(ops.CDIV)
    ),
    "floor-by-truncation": lambda: on_words(ops.IDIV, ops.MOD),
    "divide-safely": safe_divisions,
    "power-of-words": integer_powers,
    "shift-inside": lambda: on_words(ops.SHL, ops.SHR),
    "multiply-by-power": products,
    "threefry-rounds": random_words,
}
"""The name of each procedure about integers alone, and what it is tried on."""

OF_FLOATS: Final[dict[str, Callable[[], Iterator[Example]]]] = {
    "round-by-sum": roundings,
    "mulacc-exactly": fused_sums,
    "quotient-by-power": quotients_by_powers,
    "cast-inside": conversions,
    "widen-arithmetic": widened,
    "widen-cast": short_casts,
    "widen-reduce": short_sums,
    "exp-polynomial": lambda: on_all_floats(ops.EXP),
    "exp2-polynomial": lambda: on_all_floats(ops.EXP2),
    "expm1-polynomial": lambda: on_all_floats(ops.EXPM1),
    "tanh-polynomial": lambda: on_all_floats(ops.TANH),
    "log2-polynomial": lambda: on_all_floats(ops.LOG2),
    "sin-polynomial": lambda: on_all_floats(ops.SIN),
    "pow-exp2-log2": lambda: chain(on_all_floats(ops.POW, 2), on_words(ops.POW)),
}
"""The name of each procedure about floats, and what it is tried on."""

EXAMPLES: Final = {**OF_WORDS, **OF_FLOATS}

FORMULAS: Final = frozenset(
    name for name in EXAMPLES if name.endswith("-polynomial") or name == "pow-exp2-log2"
)
"""Procedures whose results are not exact, but within `ULPS`."""


# -- trying them -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """An example of a procedure, on a machine."""

    name: str
    machine: Machine
    before: UOp
    arrays: Sequence[Array]

    def rewritten(self, rules: RuleSet) -> UOp:
        """The graph after some rules; nothing else changes it."""
        return rewrite(self.before, rules, self.machine, exactly=True)

    def fault(self, after: UOp) -> str:
        """How the value of the graph differs from that of another, or nothing."""
        return _difference(self.before, after, self.arrays, formula=self.name in FORMULAS)


def tried(name: str) -> Iterator[Case]:
    """Each example of a procedure, on each machine."""
    for machine in (MACHINE, CAPABLE, *(() if name in OF_WORDS else (FUSED, SCALING))):
        for graph, arrays in EXAMPLES[name]():
            yield Case(name, machine, graph, arrays)


def check(item: Procedure) -> Iterator[str]:
    """What is wrong with each example on which a procedure fires; it must fire on one."""
    alone = RuleSet("alone", theory=tuple(Theory), rules=(item,))
    fired = 0
    for case in tried(item.name):
        after = case.rewritten(alone)
        if after is not case.before:
            fired += 1
            yield case.fault(after)
    if not fired:
        yield "it fires on none of its examples"


def _difference(before: UOp, after: UOp, arrays: Sequence[Array], *, formula: bool) -> str:
    """Where two graphs differ, or nothing."""
    with np.errstate(all="ignore"):
        old, new = (_values(graph, arrays) for graph in (before, after))
        wrong = np.flatnonzero(~_same(old, new, ULPS if formula else 0.0))
    if not len(wrong):
        return ""
    first = int(wrong[0])
    given = [array[first] for array in arrays if len(array) == len(old)]
    return f"{before.op.name} of {before.src[0].dtype} on {given}: {old[first]}, now {new[first]}"


def _values(graph: UOp, arrays: Sequence[Array]) -> Array:
    found: Any = evaluate(graph, dict(enumerate(arrays)))[0]
    return np.asarray(found).reshape(-1)


def _same(old: Array, new: Array, ulps: float) -> Array:
    """Where two results are the same; NaN is NaN, and zeros have their sign."""
    if old.dtype != new.dtype:
        return np.zeros(len(old), bool)
    if old.dtype.kind in "iub":
        return np.asarray(old == new)
    a, b = old.astype(np.float64), new.astype(np.float64)
    equal = ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    if not ulps:
        return np.asarray(equal)
    near = np.abs(a - b) <= ulps * np.spacing(np.abs(old)).astype(np.float64)
    return np.asarray(equal | near)


HOW: Final = {
    name: f"by the evaluator, within {ULPS:g} ulp" if name in FORMULAS else "by the evaluator"
    for name in EXAMPLES
}

CHECKS: Final = {name: (HOW[name], check) for name in EXAMPLES}
"""How each procedure is established, and the check that does it."""
