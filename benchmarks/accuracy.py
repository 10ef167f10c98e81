"""Accuracy: the largest errors of the decomposed transcendental functions, in ulp.

Each function is decomposed for a machine with fused multiply-add and for one without, computed for
millions of numbers, and compared with f64 (for f32 and narrower types) or with long double. An ulp
is the distance of neighbouring numbers of the type around the exact result, below the normal
numbers the smallest one. Writes docs/accuracy.md.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from decimal import localcontext
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import porism.rules.rule_sets  # noqa: F401 # as in the compiler
from benchmarks.quick_arrays import computed
from porism.base import dtypes
from porism.base.dtypes import DType, f32, f64
from porism.base.gpu_targets import H200
from porism.base.target import GENERIC_CPU
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.traversal import toposort
from porism.lower.decompose.decompose import decompose
from porism.lower.decompose.decomposition_options import Machine
from tools.coefficients import pi

Array = npt.NDArray[Any]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "accuracy.md"
WITHOUT_NATIVE_OPS = replace(H200, native_ops=frozenset())
MACHINES = {
    "fused": Machine(
        target=WITHOUT_NATIVE_OPS,
        total_division=True,
        total_shifts=True,
        saturating_casts=True,
    ),
    "scaling": Machine(
        target=replace(WITHOUT_NATIVE_OPS, ops=H200.ops | {"LDEXP"}),
        total_division=True,
        total_shifts=True,
        saturating_casts=True,
    ),
    "plain": Machine(target=GENERIC_CPU, total_shifts=True, saturating_casts=True),
}
FUNCTIONS: dict[Op, Callable[..., Any]] = {
    ops.EXP: np.exp,
    ops.EXP2: np.exp2,
    ops.EXPM1: np.expm1,
    ops.TANH: np.tanh,
    ops.LOG2: np.log2,
    ops.SIN: np.sin,
    ops.POW: np.power,
}
SCALED = (ops.EXP, ops.EXP2, ops.EXPM1, ops.TANH, ops.POW)
"""What differs on a machine with LDEXP."""
LEAVES = frozenset((ops.CONST, ops.PARAM))


@dataclass(frozen=True)
class Row:
    """What was measured of one function."""

    function: str
    dtype: str
    machine: str
    samples: int
    worst: float
    at: str
    wrong: int  # results that are infinite or NaN where they should not be, or the other way round
    nodes: int


# -- samples ---------------------------------------------------------------------------------------


def samples(op: Op, kind: DType, count: int) -> list[Array]:
    """Random bits, ordinary numbers, and numbers where the function is hard."""
    chance = np.random.default_rng(2026)
    part = max(count // 4, 1)
    info = np.finfo(kind.numpy)
    high, low = float(info.maxexp), float(info.minexp - info.nmant)

    def bits() -> Array:
        outcome = chance.integers(0, 1 << kind.bits, part, dtype=np.uint64)
        return outcome.astype(f"uint{kind.bits}").view(kind.numpy)

    uniform = chance.uniform
    if op in (ops.EXP, ops.EXP2):
        unit = math.log(2) if op is ops.EXP else 1.0
        parts = [
            bits(),
            uniform((low - 3) * unit, (high + 1) * unit, 2 * part),
            uniform(-1, 1, part),
        ]
    elif op is ops.EXPM1:
        small = uniform(-1, 1, part) * 10.0 ** -uniform(0, 16, part)
        parts = [bits(), uniform(-40, (high + 1) * math.log(2), part), uniform(-3, 3, part), small]
    elif op is ops.TANH:
        small = uniform(-1, 1, part) * 10.0 ** -uniform(0, 16, part)
        parts = [bits(), uniform(-22, 22, part), uniform(-3, 3, part), small]
    elif op is ops.LOG2:
        near = 1 + uniform(-1, 1, part) * 10.0 ** -uniform(0, 16, part)
        parts = [np.abs(bits()), bits(), uniform(0.3, 3, part), near]
    elif op is ops.SIN:
        multiples = chance.integers(0, 1 << 22, part) * (np.pi / 2)
        nearest = np.array(hard(kind))[: max(part, 1)]
        parts = [bits(), uniform(-10, 10, part), uniform(-1e5, 1e5, part), multiples, nearest]
    else:
        base = [bits(), np.abs(bits()), uniform(0.5, 2, part), np.exp2(uniform(-90, 90, part))]
        steep = uniform(low, high, part)
        exponent = [bits(), uniform(-3, 3, part), steep, chance.integers(-9, 9, part) * 0.5]
        return [_joined(base, kind), _joined(exponent, kind)]
    return [_joined(parts, kind)]


@cache
def hard(kind: DType) -> list[float]:
    """Numbers next to multiples of pi/2: for each exponent the best, by continued fractions."""
    with localcontext() as context:
        context.prec = 700
        per_quarter = Fraction(2 / pi())
    least, most = 1 << (kind.precision - 1), (1 << kind.precision) - 1
    outcome = []
    for exponent in range(-kind.precision, int(np.finfo(kind.numpy).maxexp) - kind.precision + 1):
        rest = per_quarter * Fraction(2) ** exponent % 1
        before, denominator = 0, 1  # of one convergent and the next
        while rest and denominator <= most:
            times = -(-least // denominator)
            if times * denominator <= most:
                outcome.append(math.ldexp(times * denominator, exponent))
            whole, rest = divmod(1 / rest, 1)
            before, denominator = denominator, whole * denominator + before
    return outcome


def _joined(parts: list[Array], kind: DType) -> Array:
    with np.errstate(all="ignore"):
        return np.concatenate([p.astype(kind.numpy) for p in parts])


def every(kind: DType) -> Array:
    """All values of a 16-bit type."""
    return np.arange(1 << 16).astype(np.uint16).view(kind.numpy)


# -- errors ----------------------------------------------------------------------------------------


def errors(outcome: Array, exact: Array, kind: DType) -> Array:
    """In ulp; infinite where one of the two is not finite and they are not the same."""
    smallest = {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022}[kind.name]
    wide = np.longdouble
    with np.errstate(all="ignore"):
        exact = exact.astype(wide)
        nearest = exact.astype(np.float64 if kind.bits < 32 else kind.numpy).astype(kind.numpy)
        exponent = np.frexp(np.abs(exact))[1] - 1
        exponent = np.where(np.isfinite(exact) & (exact != 0), exponent, smallest)
        ulp = np.ldexp(wide(1), np.maximum(exponent, smallest) - (kind.precision - 1))
        result = outcome.astype(np.float64).astype(wide)
        error = np.abs(result - exact) / ulp
        target = nearest.astype(np.float64)
    special = ~np.isfinite(target) | ~np.isfinite(outcome.astype(np.float64))
    same = (target == result) | (np.isnan(target) & np.isnan(result))
    return np.where(special, np.where(same, 0, np.inf), error).astype(np.float64)


def measure(op: Op, kind: DType, machine: str, arrays: list[Array]) -> Row:
    places = [UOp(ops.PARAM, kind, (), k) for k in range(len(arrays))]
    root = decompose(op(*places), MACHINES[machine])
    wide = np.longdouble if kind is f64 else np.float64
    outcome = computed(root, dict(zip(places, arrays, strict=True)))
    with np.errstate(all="ignore"):
        exact = np.asarray(FUNCTIONS[op](*(a.astype(wide) for a in arrays)))
    error = errors(outcome, exact, kind)
    finite = np.where(np.isfinite(error), error, 0)
    at = int(np.argmax(finite))
    return Row(
        op.name,
        kind.name,
        machine,
        len(error),
        float(finite[at]),
        ", ".join(str(a[at]) for a in arrays),
        int((~np.isfinite(error)).sum()),
        sum(1 for n in toposort(root) if n.op not in LEAVES),
    )


def rows(count: int) -> Iterator[Row]:
    for op in FUNCTIONS:
        for kind in (f32, f64):
            arrays = samples(op, kind, count)
            for machine in MACHINES:
                if machine != "scaling" or op in SCALED:
                    yield measure(op, kind, machine, arrays)
    for op in (op for op in FUNCTIONS if op.arity == 1):
        for kind in (dtypes.f16, dtypes.bf16):
            yield measure(op, kind, "fused", [every(kind)])


# -- the page --------------------------------------------------------------------------------------

HEAD = """# Accuracy

What the transcendental functions lose where a machine has none and they are decomposed
(`src/porism/lower/decompose/exponential_polynomials.py`, `sine.py`). `./dev bench accuracy`
measures, and writes this page.

- Errors are in ulp, the distance of neighbouring numbers of the type around the exact result; the
  best possible is 0.5. The reference is f64 for f32 and narrower types, long double for f64.
- *fused* is a machine with MULACC, *scaling* one with LDEXP too (AVX-512), *plain* one without.
- The samples are random bits, ordinary numbers, and numbers where the function is hard: next to 1
  for LOG2, to 0 for EXPM1 and TANH, as near to multiples of pi/2 as any for SIN, results at the
  limits of the type for EXP, EXP2 and POW. For f16 and bf16, computed in f32, it is all 65536
  values.
- The largest error that was found is no bound: among more numbers there may be a little more.
- *wrong* counts results that are infinite or NaN and should not be, or the other way round.
- *nodes* is how many operations the function takes, constants not counted.

SIN is meant for every finite number: beyond 2^13 (2^20 in f64) the argument is reduced with
integers. Both reductions are computed and one is chosen, since lanes do not branch; that is most
of its nodes.

NVIDIA's GPUs have EXP2 of f32 as an instruction, `ex2.approx`, of at most 2 ulp (NVIDIA's PTX
manual), which is taken for f32 and narrower types; everything else is decomposed there as on a
*fused* machine.

The coefficients come from `tools/coefficients.py`: minimax polynomials by Remez's exchange, in
decimal arithmetic of 60 digits.

"""


def page(outcome: list[Row]) -> str:
    head = ("function", "type", "machine", "samples", "largest error", "at", "wrong", "nodes")
    lines = ["| " + " | ".join(head) + " |", "|---" * 3 + "|--:|--:|---|--:|--:|"]
    for row in outcome:
        cells = (row.function, row.dtype, row.machine, f"{row.samples:,}", f"{row.worst:.3f}")
        lines.append("| " + " | ".join((*cells, row.at, str(row.wrong), str(row.nodes))) + " |")
    return HEAD + "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench accuracy", description=__doc__)
    parser.add_argument("--samples", type=int, default=4_000_000, help="numbers for each function")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--no-page", action="store_true", help="do not write docs/accuracy.md")
    options = parser.parse_args()
    if np.finfo(np.longdouble).nmant <= 52:
        print("long double is f64 on this machine: the errors of f64 would be too small to see")
        return 1
    outcome = []
    for row in rows(options.samples):
        print(f"{row.function} {row.dtype} {row.machine}: {row.worst:.3f} ulp at {row.at}")
        sys.stdout.flush()
        outcome.append(row)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in outcome], indent=1) + "\n")
    if not options.no_page:
        PAGE.write_text(page(outcome))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
