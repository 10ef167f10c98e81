"""Lowering: for each procedure of `porism.lower`, the graphs and numbers on which it is tried.

A graph is evaluated before and after the procedure, for every element of its inputs: at every width
of integers on pairs of values near the limits, and on floats of ordinary size, at the limits, and
with random bits. What is exact must be equal bit by bit. A formula for a transcendental function
has a stated error: see docs/accuracy.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from porism.base import dtypes
from porism.base.dtypes import DType, Theory, f32, f64, i32
from porism.base.target import GENERIC_CPU
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.lower.decompose.decomposition_options import Machine
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import Procedure, RuleSet

Example = tuple[UOp, list[Array]]
"""A graph, and the array of each of its parameters."""

WORDS: Final = tuple(t for t in dtypes.scalars() if t.theory is Theory.FIXED_WIDTH)
FLOATS: Final = (f32, f64)
MACHINE: Final = Machine(target=GENERIC_CPU, shifts_for_products=True)
ULPS: Final = 4.0
"""Units in the last place by which a formula may differ from the correctly rounded result."""


def operands(count: int, *kinds: DType) -> list[UOp]:
    """The elements of parameters 0, 1, …: one for each iteration of a loop."""
    step = UOp.range(UOp.const(i32, count), 0)
    return [
        UOp(ops.PARAM, kind.pointer(size=count), (), place).index(step)
        for place, kind in enumerate(kinds)
    ]


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


def on_words(*made: Callable[[UOp, UOp], UOp]) -> Iterator[Example]:
    """Graphs of two integers, at every width."""
    for kind in WORDS:
        arrays = pairs(kind)
        x, y = operands(len(arrays[0]), kind, kind)
        for make in made:
            yield make(x, y), arrays


def divisors(*found: Op, powers: bool) -> Iterator[Example]:
    """Divisions by constants that are powers of two, or are not."""
    for kind in WORDS:
        arrays = pairs(kind)[:1]
        (x,) = operands(len(arrays[0]), kind)
        top = kind.bits - 2
        some = (1, 2, 8, 1 << top) if powers else (3, 7, 10, 100, (1 << top) - 1, int(kind.max))
        for op in found:
            for divisor in some:
                yield op(x, x.lift(divisor)), arrays


def on_floats(*made: Callable[..., UOp], count: int = 1) -> Iterator[Example]:
    """Graphs of floats, in single and in double precision."""
    for kind in FLOATS:
        arrays = [numbers(kind, seed) for seed in range(1, count + 1)]
        found = operands(len(arrays[0]), *[kind] * count)
        for make in made:
            yield make(*found), arrays


def conversions() -> Iterator[Example]:
    """Floats to integers of every width."""
    yield from on_floats(*[lambda x, kind=kind: x.cast(kind) for kind in WORDS])


def widened() -> Iterator[Example]:
    """Arithmetic of short floats, on all values of the shortest."""
    for kind in (dtypes.f16, dtypes.bf16, dtypes.fp8e4m3, dtypes.fp8e5m2):
        every = np.arange(256, dtype=np.uint16) if kind.bits == 8 else _random_bits()
        some = every.astype(f"uint{kind.bits}").view(kind.numpy)
        arrays = [some, some[::-1].copy()]
        x, y = operands(len(some), kind, kind)
        for op in (ops.ADD, ops.MUL, ops.FDIV, ops.LT):
            yield op(x, y), arrays


def _random_bits() -> Array:
    return np.random.default_rng(1).integers(0, 1 << 16, 500, dtype=np.uint64)


def to_short_floats() -> Iterator[Example]:
    """Integers and floats to short floats."""
    for target in (dtypes.f16, dtypes.bf16):
        for kind in (dtypes.i8, i32, dtypes.u64):
            arrays = pairs(kind)[:1]
            yield operands(len(arrays[0]), kind)[0].cast(target), arrays


def short_sums() -> Iterator[Example]:
    """Reductions of short floats."""
    for kind in (dtypes.f16, dtypes.bf16):
        some = np.arange(-7, 8).astype(kind.numpy)
        (x,) = operands(len(some), kind)
        yield from ((x.reduce(op, *x.ranges), [some]) for op in (ops.ADD, ops.MAX, ops.MIN))


def random_words() -> Iterator[Example]:
    """Blocks of random bits."""
    arrays = pairs(dtypes.u64)
    yield ops.THREEFRY(*operands(len(arrays[0]), dtypes.u64, dtypes.u64)), arrays


DIVISIONS: Final = (ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD)
ROUNDINGS: Final = (ops.ROUND, ops.FLOOR, ops.CEIL, ops.TRUNC)

EXAMPLES: Final[dict[str, Callable[[], Iterator[Example]]]] = {
    "divide-by-power": lambda: divisors(*DIVISIONS, powers=True),
    "divide-by-constant": lambda: divisors(ops.IDIV, ops.MOD, powers=False),
    "truncate-by-constant": lambda: divisors(ops.CDIV, ops.CMOD, powers=False),
    "floor-by-truncation": lambda: on_words(ops.IDIV, ops.MOD),
    "divide-safely": lambda: on_words(ops.CDIV, ops.CMOD),
    "power-of-words": lambda: on_words(ops.POW, lambda x, y: ops.POW(x, y & 3)),
    "shift-inside": lambda: on_words(ops.SHL, ops.SHR),
    "multiply-by-power": lambda: divisors(ops.MUL, powers=True),
    "threefry-rounds": random_words,
    "round-by-sum": lambda: on_floats(*ROUNDINGS),
    "mulacc-exactly": lambda: on_floats(ops.MULACC, count=3),
    "quotient-by-power": lambda: on_floats(lambda x: x / 8.0, lambda x: x / -0.25),
    "cast-inside": conversions,
    "widen-arithmetic": widened,
    "widen-cast": to_short_floats,
    "widen-reduce": short_sums,
    "exp-polynomial": lambda: on_floats(ops.EXP),
    "exp2-polynomial": lambda: on_floats(ops.EXP2),
    "expm1-polynomial": lambda: on_floats(ops.EXPM1),
    "tanh-polynomial": lambda: on_floats(ops.TANH),
    "log2-polynomial": lambda: on_floats(ops.LOG2),
    "sin-polynomial": lambda: on_floats(ops.SIN),
    "pow-exp2-log2": lambda: on_floats(ops.POW, count=2),
}
"""The name of each procedure, and what it is tried on."""

FORMULAS: Final = frozenset(
    name for name in EXAMPLES if name.endswith("-polynomial") or name == "pow-exp2-log2"
)
"""Procedures whose results are not exact, but within `ULPS`."""


# -- trying them -----------------------------------------------------------------------------------


def check(item: Procedure) -> Iterator[str]:
    """What is wrong with each example on which a procedure fires; it must fire on one."""
    alone = RuleSet("alone", theory=tuple(Theory), rules=(item,))
    fired = 0
    for before, arrays in EXAMPLES[item.name]():
        after = rewrite(before, alone, MACHINE)
        if after is not before:
            fired += 1
            yield _difference(before, after, arrays, formula=item.name in FORMULAS)
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
