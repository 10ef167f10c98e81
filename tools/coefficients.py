"""Coefficients: computes every number in `porism/lower/decompose/coefficients.py`, from nothing but
series.

    python -m tools.coefficients > src/porism/lower/decompose/coefficients.py

The polynomials are minimax: Remez's exchange, in decimal arithmetic of 60 digits. A weight turns
the absolute error of a polynomial into the error of what it is part of. Constants are split into
parts of few bits, so that their products with small integers are exact.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction

Function = Callable[[Decimal], Decimal]
DIGITS = 60
getcontext().prec = DIGITS
ONE = Decimal(1)
HALF = Decimal("0.5")
WIDTHS = {"f32": 24, "f64": 53}


# -- functions, by their series --------------------------------------------------------------------


def series(term: Decimal, step: Callable[[Decimal, int], Decimal]) -> Decimal:
    """A sum whose k-th term is made of the one before."""
    total, k = term, 1
    while abs(term) > Decimal(10) ** (-DIGITS - 10):
        term = step(term, k)
        total += term
        k += 1
    return total


def pi() -> Decimal:
    """By Machin's formula."""

    def arctangent(n: int) -> Decimal:
        total, power, k = Decimal(0), ONE / n, 0
        while power > Decimal(10) ** (-getcontext().prec - 5):
            total += (power if k % 2 == 0 else -power) / (2 * k + 1)
            power /= n * n
            k += 1
        return total

    return 4 * (4 * arctangent(5) - arctangent(239))


PI = pi()
LN2 = Decimal(2).ln()


def power_rest(f: Decimal) -> Decimal:
    """(2**f - 1) / f"""
    t = f * LN2
    return series(LN2, lambda term, k: term * t / (k + 1))


def exponential_rest(r: Decimal) -> Decimal:
    """(e**r - 1 - r) / r**2"""
    return series(HALF, lambda term, k: term * r / (k + 2))


def tangent_rest(z: Decimal) -> Decimal:
    """(tanh(s)/s - 1) / s**2 where z is s**2"""
    sine = series(ONE, lambda term, k: term * z / ((2 * k) * (2 * k + 1)))
    cosine = series(ONE, lambda term, k: term * z / ((2 * k - 1) * (2 * k)))
    return (sine / cosine - 1) / z if z else -ONE / 3


def logarithm_rest(f: Decimal) -> Decimal:
    """(log2(1 + f) - f/ln 2) / f**2"""
    if abs(f) > Decimal("0.02"):
        return ((ONE + f).ln() - f) / (LN2 * f * f)
    return -series_of([ONE / (k + 2) for k in range(60)], -f) / LN2


def series_of(coefficients: Sequence[Decimal], x: Decimal) -> Decimal:
    total = Decimal(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def artanh_rest(z: Decimal) -> Decimal:
    """(2 artanh(s)/s - 2) / s**2 where z is s**2: 2/3 + 2/5 z + ..."""
    return series_of([Decimal(2) / (2 * k + 3) for k in range(60)], z)


def artanh_tail(z: Decimal) -> Decimal:
    """What artanh(s)/s has from s**4 on, by s**4, times 2/ln 2"""
    return series_of([2 / (LN2 * (2 * k + 5)) for k in range(60)], z)


def sine_rest(z: Decimal) -> Decimal:
    """(sin(r)/r - 1) / r**2 where z is r**2"""
    return series(-ONE / 6, lambda term, k: -term * z / ((2 * k + 2) * (2 * k + 3)))


def cosine_rest(z: Decimal) -> Decimal:
    """(cos(r) - 1) / r**2 where z is r**2"""
    return series(-HALF, lambda term, k: -term * z / ((2 * k + 1) * (2 * k + 2)))


# -- minimax polynomials ---------------------------------------------------------------------------


def solved(matrix: list[list[Decimal]], right: list[Decimal]) -> list[Decimal]:
    """Gaussian elimination with pivots."""
    n = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(n):
        best = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[best] = rows[best], rows[i]
        for r in range(n):
            if r != i and rows[r][i]:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i], strict=True)]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def minimax(
    function: Function, low: Decimal, high: Decimal, degree: int, weight: Function = lambda x: ONE
) -> tuple[list[Decimal], Decimal]:
    """Coefficients, the constant first, with the least largest weighted error; and that error."""
    count = 40 * (degree + 2)
    middle, half = (low + high) / 2, (high - low) / 2
    grid = [middle - half * _cosine(k, count) for k in range(count + 1)]
    values = [function(x) for x in grid]
    weights = [max(weight(x), Decimal("1e-3")) for x in grid]
    points = [round(k * count / (degree + 1)) for k in range(degree + 2)]
    coefficients: list[Decimal] = []
    worst = Decimal(0)
    for _ in range(30):
        matrix = [[*_powers(grid[p], degree), (-1) ** n / weights[p]] for n, p in enumerate(points)]
        *coefficients, level = solved(matrix, [values[p] for p in points])
        errors = [
            (values[k] - series_of(coefficients, grid[k])) * weights[k] for k in range(count + 1)
        ]
        worst = max(abs(e) for e in errors)
        if worst <= abs(level) * Decimal("1.001"):
            break
        points = _exchanged(errors, degree + 2)
    return coefficients, worst


def _powers(x: Decimal, degree: int) -> list[Decimal]:
    return [ONE, *(x**k for k in range(1, degree + 1))]


def _cosine(k: int, count: int) -> Decimal:
    t = PI * k / count
    return series(ONE, lambda term, n: -term * t * t / ((2 * n - 1) * (2 * n)))


def _exchanged(errors: list[Decimal], wanted: int) -> list[int]:
    """The largest error of each run of one sign; the outer ones go if there are too many."""
    found: list[int] = []
    for k, error in enumerate(errors):
        if found and (error > 0) == (errors[found[-1]] > 0):
            if abs(error) > abs(errors[found[-1]]):
                found[-1] = k
        else:
            found.append(k)
    while len(found) > wanted:
        found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
    return found


# -- constants in parts ----------------------------------------------------------------------------


def rounded(value: Decimal, bits: int) -> float:
    """The nearest number with so many bits."""
    exact = Fraction(value)
    scale = Fraction(1)
    while abs(exact) * scale >= 2**bits:
        scale /= 2
    while exact and abs(exact) * scale < 2 ** (bits - 1):
        scale *= 2
    return float(Fraction(round(exact * scale)) / scale)


def parts(value: Decimal, *bits: int) -> tuple[float, ...]:
    """A constant as a sum of numbers with so many bits each."""
    found = []
    for width in bits:
        found.append(rounded(value, width))
        value -= Decimal(found[-1])
    return tuple(found)


def turn_digits(count: int) -> tuple[int, ...]:
    """1/(2 pi) in digits of 32 bits, after a digit 0."""
    with localcontext() as context:
        context.prec = count * 10 + 40
        whole = int(Fraction(1) / Fraction(2 * pi()) * 2 ** (32 * (count - 1)))
    digits = [(whole >> (32 * k)) & 0xFFFFFFFF for k in reversed(range(count - 1))]
    return (0, *digits)


# -- the file --------------------------------------------------------------------------------------

LEAST = Decimal(89) / 128  # of the significands whose logarithm is taken; the largest is twice that
LARGEST_S = (1 - LEAST) / (1 + LEAST)
FITS: dict[str, tuple[str, Function, Decimal, Decimal, dict[str, int], Function]] = {
    "EXP2": (
        "(2**f - 1) / f for f from -1/2 to 1/2",
        power_rest, -HALF, HALF, {"f32": 5, "f64": 10}, lambda f: abs(f),
    ),
    "EXP": (
        "(e**r - 1 - r) / r**2 for r from -ln 2 / 2 to ln 2 / 2",
        exponential_rest, -LN2 / 2, LN2 / 2, {"f32": 4, "f64": 9}, lambda r: r * r,
    ),
    "TANH": (
        "(tanh(s)/s - 1) / s**2 by s**2, for s from -ln 2 / 4 to ln 2 / 4",
        tangent_rest, Decimal(0), (LN2 / 4) ** 2, {"f32": 1, "f64": 5}, lambda z: z,
    ),
    "LOG2": (
        "(log2(1 + f) - f/ln 2) / f**2 for 1 + f from 89/128 to 89/64; f32 alone",
        logarithm_rest, LEAST - 1, 2 * LEAST - 1, {"f32": 9}, lambda f: abs(f),
    ),
    "ARTANH": (
        "(2 artanh(s)/s - 2) / s**2 by s**2, for the same range and s = f/(2 + f); f64 alone",
        artanh_rest, Decimal(0), LARGEST_S**2, {"f64": 6}, lambda z: z,
    ),
    "ARTANH_TAIL": (
        "artanh(s) * 2/ln 2 from s**5 on, by s**2, for powers",
        artanh_tail, Decimal(0), LARGEST_S**2, {"f32": 3, "f64": 7}, lambda z: z * z,
    ),
    "SIN": (
        "(sin(r)/r - 1) / r**2 by r**2, for r from -pi/4 to pi/4",
        sine_rest, Decimal(0), (PI / 4) ** 2, {"f32": 3, "f64": 6}, lambda z: z,
    ),
    "COS": (
        "(cos(r) - 1) / r**2 by r**2, for the same range",
        cosine_rest, Decimal(0), (PI / 4) ** 2, {"f32": 3, "f64": 6}, lambda z: z,
    ),
}  # fmt: skip

CONSTANTS: dict[str, tuple[str, dict[str, tuple[float, ...]]]] = {
    "LN_2": (
        "ln 2: so many bits that its product with an exponent is exact, and the rest",
        {"f32": parts(LN2, 16, 24), "f64": parts(LN2, 42, 53)},
    ),
    "LN_2_FULL": (
        "ln 2 in all bits of a number, and the rest",
        {"f32": parts(LN2, 24, 24), "f64": parts(LN2, 53, 53)},
    ),
    "LOG2_E": (
        "1/ln 2: in half of the bits, and the rest",
        {"f32": parts(1 / LN2, 12, 24), "f64": parts(1 / LN2, 26, 53)},
    ),
    "ARTANH_FIRST": (
        "2/ln 2 in two parts",
        {"f32": parts(2 / LN2, 24, 24), "f64": parts(2 / LN2, 53, 53)},
    ),
    "ARTANH_SECOND": (
        "2/(3 ln 2) in two parts",
        {"f32": parts(2 / (3 * LN2), 24, 24), "f64": parts(2 / (3 * LN2), 53, 53)},
    ),
    "QUARTER_TURN": (
        "pi/2 in parts whose products with small integers are exact",
        {"f32": parts(PI / 2, 11, 11, 11, 24), "f64": parts(PI / 2, 33, 33, 53)},
    ),
    "TURN": (
        "2 pi in two parts",
        {"f32": parts(2 * PI, 24, 24), "f64": parts(2 * PI, 53, 53)},
    ),
    "PER_QUARTER_TURN": (
        "2/pi",
        {"f32": parts(2 / PI, 24), "f64": parts(2 / PI, 53)},
    ),
}


def written() -> str:
    """The text of the module."""
    lines = [
        '"""Coefficients of the transcendental functions; made by tools/coefficients.py.',
        "",
        "Polynomials have the constant first. The names f32 and f64 say for which type it is.",
        '"""',
        "",
        "from typing import Final",
        "",
        "Table = dict[str, tuple[float, ...]]",
        "",
    ]
    for name, (doc, function, low, high, degrees, weight) in FITS.items():
        table = {}
        for kind, degree in degrees.items():
            found, worst = minimax(function, low, high, degree, weight)
            table[kind] = tuple(rounded(c, WIDTHS[kind]) for c in found)
            error = f"{float(worst):.1e}" if worst else "0"
            print(f"{name} {kind}: degree {degree}, error {error}", file=sys.stderr)
        lines += _table(name, doc, table)
    for name, (doc, numbers) in CONSTANTS.items():
        lines += _table(name, doc, numbers)
    digits = turn_digits(40)
    lines += ["TURN_DIGITS: Final = ("]
    lines += [f"    0x{digit:08X}," for digit in digits]
    lines += [")", '"""1/(2 pi) in digits of 32 bits, after one that is 0."""']
    return "\n".join(lines) + "\n"


def _table(name: str, doc: str, table: dict[str, tuple[float, ...]]) -> list[str]:
    lines = [f"{name}: Final[Table] = {{"]
    for kind, numbers in table.items():
        if len(numbers) == 1:
            lines.append(f'    "{kind}": ({numbers[0]!r},),')
        else:
            lines.append(f'    "{kind}": (')
            lines += [f"        {number!r}," for number in numbers]
            lines.append("    ),")
    return [*lines, "}", f'"""{doc[0].upper() + doc[1:]}."""', ""]


if __name__ == "__main__":
    print(written(), end="")
