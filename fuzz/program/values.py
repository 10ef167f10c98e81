"""Values: what the oracle knows of each step, and whether tensors must agree to the last bit.

A value is exact if every machine computes it without rounding: whole numbers that the type holds,
and sums of them whose parts it holds in any order. Exact values are compared for equality, and
functions that jump (comparisons, `floor`, `sort` …) are applied to exact values only.

The error of other values is bounded by what rounding does to the oracle: it is run again with the
operands and the result of each inexact step changed by some units in the last place at random. A
result of a sum is therefore compared in proportion to its terms, with half a unit for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fuzz.program.steps import ASSIGNING, Call, Input, Steps, leaves, on_arrays, refs
from porism.ir.facts.semantics import Array
from porism.tensor.promotion import NAMES, name_of, result_type

DIGITS: Final = {
    "float64": 53, "float32": 24, "float16": 11, "bfloat16": 8,
    "float8_e4m3fn": 4, "float8_e5m2": 3, "complex64": 24, "complex128": 53,
}  # fmt: skip
"""Binary digits of the significand, of complex numbers of each part."""

PARTS: Final = {"complex64": "float32", "complex128": "float64"}
"""Complex types, and those of their parts. They count as floats here."""

LARGEST: Final = {
    "float64": 1e6, "float32": 1e6, "float16": 3e4, "bfloat16": 1e6,
    "float8_e4m3fn": 448.0, "float8_e5m2": 3e4, "complex64": 1e6, "complex128": 1e6,
}  # fmt: skip
"""Magnitudes that programs stay below, so that nothing overflows on the way."""

SMALLEST: Final = {"float16": 2.0**-24, "float8_e4m3fn": 2.0**-9, "float8_e5m2": 2.0**-16}
"""The distance of the numbers next to 0, where it matters."""

FINEST: Final = 9
"""Binary digits behind the point with which sums are still looked at."""

UNITS: Final = {name: 8 if digits > 11 else 1 for name, digits in DIGITS.items()}
"""By how many units of rounding an operand and a result of an inexact step are changed: functions
are within 6 units in the last place (docs/tensors.md), and some are made of several. Narrow floats
are computed in float32, and rounded once."""

TIMES: Final = 4
"""How many times the largest change seen is allowed."""


@dataclass(frozen=True, slots=True)
class Value:
    """An array of the oracle, the type of the tensor, and whether it is exact."""

    array: Array
    dtype: str
    exact: bool


def is_float(dtype: str) -> bool:
    """Whether the name is that of a float type."""
    return dtype in DIGITS


def widened(array: Array, dtype: str) -> Array:
    """Numbers of a type as the oracle computes with them: floats in float64 or complex128."""
    if dtype in PARTS:
        return array.astype(np.complex128)
    return array.astype(np.float64) if is_float(dtype) else array


def fits(array: Array, dtype: str) -> bool:
    """Whether a type holds all numbers of an array as they are."""
    if array.dtype.kind == "c" and dtype not in PARTS:
        return False
    with np.errstate(all="ignore"):
        back = widened(array.astype(NAMES[dtype].numpy), dtype)
    return bool(np.array_equal(back, array, equal_nan=True))


def type_of(step: Call, array: Array, operands: list[Value]) -> str:
    """The type of the tensor that a call gives.

    Floats have the type that is asked for, else the one that the floats among the operands have
    together, else the default.
    """
    if array.dtype.kind not in "fc":
        return str(array.dtype)
    if step.name in ASSIGNING:
        return operands[0].dtype
    asked = step.args[1] if step.name == "astype" else step.kwargs.get("dtype")
    if asked is not None:
        return str(asked)
    types = {v.dtype for v in operands}
    if "uint64" in types and any(name.startswith("int") for name in types):
        raise RefusedError  # they have no common type in Porism, and float64 in NumPy
    floats = [NAMES[v.dtype] for v in operands if is_float(v.dtype)]
    common = name_of(result_type(*floats)) if floats else "float32"
    return common if array.dtype.kind == "c" else PARTS.get(common, common)


def is_exact(step: Call, result: str, value: Array, dtype: str, operands: list[Value]) -> bool:
    """Whether a call on these operands is computed without rounding.

    `result` says how the function computes: "made" of no numbers of its operands, "moved",
    "rounded" (once), "summed" or "near".
    """
    if result == "made":
        return not is_float(dtype) or fits(value, dtype)
    if not all(v.exact for v in operands):
        return False
    if not is_float(dtype):
        return True
    if result == "near" or not fits(value, dtype):
        return False
    if result in ("rounded", "summed") and not _are_held(step, operands, dtype):
        return False
    # A product of complex numbers is a sum of products of their parts.
    if result != "summed" and not (result == "rounded" and dtype in PARTS):
        return True
    numbers = [v.array for v in operands]
    finest = [_digits_behind(a) for a in numbers if a.dtype.kind in "fc"]
    if max(finest, default=0) > (0 if "prod" in step.name else FINEST):
        return False
    terms = [_size(a) if a.dtype.kind in "fc" else a for a in numbers]
    sizes = dict(zip(dict.fromkeys(refs(step)), terms, strict=True))
    whole: list[Any] = [None] * (max(sizes, default=-1) + 1)
    for number, array in sizes.items():
        whole[number] = array
    with np.errstate(all="ignore"):
        most = np.max(on_arrays(step, whole), initial=0)
    return bool(most <= 2.0 ** (DIGITS[dtype] - sum(finest)))


def _size(array: Array) -> Array:
    """The magnitudes; of complex numbers, the sums of those of their parts."""
    return np.asarray(np.abs(array.real) + np.abs(array.imag))


def _are_held(step: Call, operands: list[Value], dtype: str) -> bool:
    """Whether a type holds all operands, to which they are converted first, numbers too."""
    numbers = [leaf for leaf in leaves((step.args, *step.kwargs.values())) if type(leaf) in NUMBERS]
    arrays = [v.array for v in operands if v.array.dtype.kind != "b"]
    return all(fits(_oracle_array(part), dtype) for part in (*arrays, *numbers))


def _oracle_array(part: Any) -> Array:
    array = np.asarray(part)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


NUMBERS: Final = (int, float)


def _digits_behind(array: Array) -> int:
    """How many binary digits behind the point numbers have; more than `FINEST` if too many."""
    for digits in range(0, FINEST + 1, 3):
        scaled = array * 2.0**digits
        if np.array_equal(scaled, np.rint(scaled)):
            return digits
    return FINEST + 1


class RefusedError(Exception):
    """A call has no value that a tensor could be compared with."""


def value_of(step: Call, known: Sequence[Value], result: str, jumps: bool) -> Value:
    """What the oracle computes for a call, given the values before it."""
    operands = [known[k] for k in dict.fromkeys(refs(step))]
    if jumps and not all(v.exact for v in operands):
        raise RefusedError
    with np.errstate(all="ignore"):
        array = on_arrays(step, [v.array for v in known])
    dtype = type_of(step, array, operands)
    if step.name in PRODUCTS and is_float(dtype) and _may_overflow(operands, dtype):
        raise RefusedError
    exact = is_exact(step, result, array, dtype, operands)
    if is_float(dtype):
        _need_tame(array, dtype, exact, result, operands)
        if result not in ("made", "moved") and _becomes_infinite(operands, dtype):
            raise RefusedError
    elif not exact or not _are_compared_as_they_are(step, operands):
        raise RefusedError
    return Value(array, dtype, exact)


def _are_compared_as_they_are(step: Call, operands: Sequence[Value]) -> bool:
    """Whether the type in which operands are compared, if it is of floats, holds all of them."""
    types = {v.dtype for v in operands if v.dtype != "bool"}
    if len(types) < 2 or not any(map(is_float, types)) or "uint64" in types:
        return True
    common = name_of(result_type(*(NAMES[name] for name in types)))
    return _are_held(step, list(operands), common)


PRODUCTS: Final = frozenset({"prod", "cumprod", "cumulative_prod"})


def _may_overflow(operands: Sequence[Value], dtype: str) -> bool:
    """Whether a part of a product may, which a 0 in another part then makes NaN.

    Which parts there are is up to the order of the product, which is not fixed for floats.
    """
    with np.errstate(all="ignore"):
        most = [np.prod(np.maximum(np.abs(v.array).astype(np.float64), 1.0)) for v in operands]
    return any(not n <= LARGEST[dtype] for n in most)


def _becomes_infinite(operands: Sequence[Value], dtype: str) -> bool:
    """Whether a finite operand is beyond the numbers of the type that it is converted to."""
    with np.errstate(all="ignore"):
        return any(
            bool((np.isfinite(array) & ~np.isfinite(array.astype(NAMES[dtype].numpy))).any())
            for array in (_size(v.array) if v.dtype in PARTS else v.array for v in operands)
        )


def _need_tame(
    array: Array, dtype: str, exact: bool, result: str, operands: Sequence[Value]
) -> None:
    """Refuse what overflows, and what has no useful bound of its error."""
    if not exact and DIGITS[dtype] < 8:
        raise RefusedError
    special = any(not np.isfinite(v.array).all() for v in operands)
    if special and result == "summed":  # libraries leave out what they multiply by 0
        raise RefusedError
    if not np.isfinite(array).all():
        if not (special and exact and result in ("moved", "rounded")):
            raise RefusedError
        return
    if np.max(np.abs(array).astype(np.float64), initial=0.0) > LARGEST[dtype]:
        raise RefusedError


# -- bounds of error -------------------------------------------------------------------------------


def changed(steps: Steps, known: Sequence[Value], random: np.random.Generator) -> list[Array]:
    """What the oracle computes for each step, with every inexact one rounded at random."""
    values: list[Any] = []
    with np.errstate(all="ignore"):
        for step, value in zip(steps, known, strict=True):
            if isinstance(step, Input) or value.exact:
                values.append(value.array)
                continue
            unit = UNITS[value.dtype] * 2.0 ** -DIGITS[value.dtype]
            near = list(values)
            wide = DIGITS[value.dtype] > 11
            terms = _terms(step, values, value.array) if wide else 1.0
            each = unit * math.sqrt(terms) * (1 + math.sqrt(terms) / 16)
            ratio = max([1.0, *(values[k].size / max(value.array.size, 1) for k in refs(step))])
            bias = 2.0 ** -DIGITS[value.dtype] * ratio / (2 * TIMES) if wide else 0.0
            for number in set(refs(step)):
                near[number] = _nudged(values[number], each, random, bias)
            result = _nudged(on_arrays(step, near), unit, random, bias)
            # Functions may round what is about 1 inside, as logarithms of sums of powers do.
            values.append(result + unit / 4 * (2 * random.random(result.shape) - 1))
    return values


def _terms(step: Call, values: Sequence[Array], result: Array) -> float:
    """How many terms a function may add up for an element, about.

    Changes of n terms by chance leave 1/√n of the error that adding them up one after the other may
    have, and that grows with √n; of equal terms with n, which is what the bias is for.
    """
    operands = [values[number] for number in refs(step)]
    sizes = [array.size / max(result.size, 1) for array in operands]
    return max([1.0, *sizes, *(max(array.shape, default=1) for array in operands)])


def _nudged(array: Array, unit: float, random: np.random.Generator, bias: float = 0.0) -> Array:
    """The numbers changed by up to a unit, each by chance, and all of them by a bias."""
    if array.dtype.kind not in "fc":
        return array
    change: Array = 2 * random.random(array.shape) - 1
    if array.dtype.kind == "c":
        change = change + 1j * (2 * random.random(array.shape) - 1)
    return np.asarray(array * (1 + bias + unit * change))


def allowed(steps: Steps, known: Sequence[Value], number: int, runs: int) -> Array:
    """By how much a tensor may differ from the oracle's value of a step, for each element."""
    value = known[number]
    unit = UNITS[value.dtype] * 2.0 ** -DIGITS[value.dtype]
    bound = unit * np.abs(value.array) + SMALLEST.get(value.dtype, 1e-40)
    for run in range(runs):
        other = changed(steps, known, np.random.default_rng(run))[number]
        with np.errstate(all="ignore"):
            change = np.abs(other - value.array)
        bound = np.maximum(bound, TIMES * np.where(np.isfinite(change), change, np.inf))
    return bound


def differences(steps: Steps, known: Sequence[Value], number: int, got: Array) -> Array:
    """Where a tensor's values are wrong; they have the shape and the type that they should."""
    value = known[number]
    found = widened(got, value.dtype)
    with np.errstate(all="ignore"):
        wrong = found != value.array
        if is_float(value.dtype):
            wrong &= ~(np.isnan(found) & np.isnan(value.array))
    if value.exact or not wrong.any():
        return np.asarray(wrong)
    for runs in (3, 24):  # a small change may be seen by chance: the second look is thorough
        with np.errstate(all="ignore"):
            far = ~(np.abs(found - value.array) <= allowed(steps, known, number, runs))
        if not (wrong & far).any():
            break
    return np.asarray(wrong & far)
