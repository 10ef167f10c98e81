"""Rows of functions that make tensors, and of those of each element."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fuzz.program.maker import SIGNED, Maker, Ref, kind_of
from fuzz.program.rows.row import (
    beside,
    broadcastable,
    goes_with,
    have_common,
    row,
    within,
)
from fuzz.program.values import RefusedError

# -- creation --------------------------------------------------------------------------------------


@row("full zeros ones", "made", weight=0.3)
def filled(m: Maker, name: str) -> Any:
    """A tensor of one number, which is mostly used at once."""
    like = m.pick()
    shape = broadcastable(m, m[like].array.shape)
    if name == "full":
        made = m.call(name, shape, m.choice(0, 1, 3, -2), dtype=_signed(m, m[like].dtype))
    else:
        made = m.call(name, shape, dtype=m[like].dtype)
    if kind_of(m[like].dtype) != "b" and have_common(m[like].dtype, m[made].dtype):
        m.call(m.choice("add", "multiply", "maximum"), like, made)


def _signed(m: Maker, dtype: str) -> str:
    """The type, unless -2 is no number of it."""
    return dtype if kind_of(dtype) == "f" or dtype in SIGNED else "int32"


@row("full_like zeros_like ones_like", "made", weight=0.15)
def filled_like(m: Maker, name: str) -> Any:
    x = m.pick()
    number = (m.choice(0, 1),) if name == "full_like" else ()
    m.call(name, x, *number, **m.options(dtype=(0.2, m.type)))


@row("arange", "made", weight=0.4)
def counted(m: Maker, name: str) -> Any:
    """Numbers for the last axis of a value."""
    x = m.pick("fi", where=lambda v: v.array.ndim > 0)
    size = m[x].array.shape[-1]
    start, step = m.choice(0, 0, 1, -3), m.choice(1, 1, 2, -1)
    dtype = m[x].dtype if kind_of(m[x].dtype) == "f" else "int64"
    if m[x].dtype == "uint64":
        raise RefusedError
    made = m.call(name, start, start + step * size, step, dtype=dtype)
    m.call(m.choice("add", "multiply", "less"), x, made)


@row("linspace", "near", weight=0.15)
def spaced(m: Maker, name: str) -> Any:
    num = m.random.randint(1, 20)
    m.call(name, m.choice(0, -1, 0.5), m.choice(1, 3, 2.25), num,
           **m.options(endpoint=(0.4, lambda: m.chance(0.5)),
                       dtype=(0.3, lambda: m.choice("float64", "float32"))))  # fmt: skip


@row("eye", "made", weight=0.2)
def unit_matrix(m: Maker, name: str) -> Any:
    x = m.pick("fi", rank=2)
    rows, columns = m[x].array.shape
    made = m.call(name, columns, m.choice(columns, rows, 3), k=m.choice(0, 0, 1, -1),
                  dtype=m[x].dtype)  # fmt: skip
    m.call("matmul", x, made)


@row("asarray tensor", "moved", weight=0.1)
def converted(m: Maker, name: str) -> Any:
    m.call(name, m.pick(), **m.options(copy=(0.3 * (name == "asarray"), lambda: True)))


@row("tril triu", "moved", weight=0.4)
def triangle(m: Maker, name: str) -> Any:
    m.call(name, m.pick(rank=(2, 3, 4)), *((m.random.randint(-3, 3),) if m.chance(0.6) else ()))


@row("one_hot", "moved", jumps=True, weight=0.4)
def one_hot(m: Maker, name: str) -> Any:
    classes = m.size(12)
    x = m.new(m.choice("int64", "int32", "uint8"), m.shape(m.choice(1, 2)), 0, classes + 1)
    options = m.options(axis=(0.3, lambda: m.random.randint(-1, 1)),
                        dtype=(0.6, lambda: m.choice("float32", "int32", "bool")))  # fmt: skip
    m.call(name, x, classes, **options)


# -- elementwise -----------------------------------------------------------------------------------


@row("astype", "rounded", weight=0.8)
def cast(m: Maker, name: str) -> Any:
    x = m.pick()
    to = m.type()
    if not m[x].exact and kind_of(to) != "f":
        raise RefusedError
    m.call(name, x, to)


def _two(m: Maker, name: str, kinds: str, exact: bool) -> None:
    x = m.pick(kinds, exact=exact)
    other = beside(m, x, kinds=kinds, exact=exact)
    m.call(name, *((other, x) if m.chance(0.2) else (x, other)))


@row("add subtract multiply maximum minimum", "rounded", weight=3.0)
def arithmetic(m: Maker, name: str) -> Any:
    _two(m, name, "fi", False)


@row("divide", "near", weight=0.8)
def quotient(m: Maker, name: str) -> Any:
    x = m.pick("f")
    if m.chance(0.6):
        return m.call(name, x, m.choice(2, 4, 3.0, 0.5, -8))
    y = m.new(m[x].dtype, broadcastable(m, m[x].array.shape), 1, 6)
    return m.call(name, x, y)


@row("gcd lcm", "moved", weight=0.1)
def divisors(m: Maker, name: str) -> Any:
    _two(m, name, "i", True)


@row("choose", "moved", weight=0.2)
def one_of(m: Maker, name: str) -> Any:
    x = m.pick()
    shape = m[x].array.shape
    choices: list[Any] = [x]
    for _ in range(m.random.randint(0, 3)):
        choices.append(m.new(m[x].dtype, tuple(1 if m.chance(0.25) else n for n in shape)))
    if m.chance(0.3):
        mode = {"mode": m.choice("clip", "wrap")}
        return m.call(name, m.new("int64", shape, -9, 9), choices, **mode)
    return m.call(name, m.new("int64", shape, 0, len(choices)), choices)


@row("floor_divide remainder", "rounded", jumps=True, weight=0.8)
def floored(m: Maker, name: str) -> Any:
    # Quotients of infinities are left to the library by the Array API.
    x = m.pick("fi", exact=True, where=lambda v: bool(np.isfinite(v.array).all()))
    if m.chance(0.6):
        m.call(name, x, m.choice(2, 3, 5, 13))
    elif kind_of(m[x].dtype) == "i":
        m.call(name, x, m.new(m[x].dtype, broadcastable(m, m[x].array.shape)))
    else:
        m.call(name, x, m.new(m[x].dtype, broadcastable(m, m[x].array.shape), 1, 8))


@row("pow", "near", weight=0.5)
def power(m: Maker, name: str) -> Any:
    x = m.pick("fi")
    if kind_of(m[x].dtype) == "i" or m.chance(0.7):
        m.call(name, x, m.choice(0, 1, 2, 3))
    else:
        m.call(name, within(m, x, 0.5, 6), m.choice(0.5, 1.5, -1, 2.5))


@row("negative positive abs square relu", "rounded", weight=0.7)
def unary(m: Maker, name: str) -> Any:
    m.call(name, m.pick("fi"))


@row("sign floor ceil trunc round", "rounded", jumps=True, weight=0.4)
def stepped(m: Maker, name: str) -> Any:
    m.call(name, m.pick("fi", exact=True))


RANGES: Final[dict[str, tuple[float, float]]] = {
    "exp exp2 expm1 sinh cosh": (-8, 8),
    "log log2 log10 sqrt rsqrt reciprocal": (0.1, 1e6),
    "log1p tan asin acos atanh": (-0.9, 0.9),
    "acosh": (1.1, 1e6),
    "tanh asinh sin cos atan erf sigmoid silu softplus gelu leaky_relu": (-40, 40),
}
DOMAINS: Final = {name: ends for names, ends in RANGES.items() for name in names.split()}
"""From where to where functions of one float are called."""


@row(" ".join(DOMAINS), "near", weight=0.25)
def smooth(m: Maker, name: str) -> Any:
    x = within(m, m.pick("f" if m.chance(0.9) else "fi"), *DOMAINS[name])
    options = {
        "leaky_relu": lambda: m.options(negative_slope=(0.5, lambda: 0.25)),
        "softplus": lambda: m.options(beta=(0.5, lambda: 2.0)),
        "gelu": lambda: m.options(approximate=(0.5, lambda: "tanh")),
    }.get(name, dict)()
    m.call(name, x, **options)


@row("logaddexp atan2 hypot", "near", weight=0.25)
def smooth_pair(m: Maker, name: str) -> Any:
    x = within(m, m.pick("f"), -40, 40)
    y = m.new(m[x].dtype, broadcastable(m, m[x].array.shape), 1, 5)
    m.call(name, x, y)


@row("copysign", "rounded", jumps=True, weight=0.2)
def signed(m: Maker, name: str) -> Any:
    x = m.pick("f", exact=True)
    m.call(name, x, m.new(m[x].dtype, broadcastable(m, m[x].array.shape)))


@row("signbit isnan isinf isfinite", "moved", jumps=True, weight=0.15)
def asked(m: Maker, name: str) -> Any:
    m.call(name, m.pick("f", exact=True, where=lambda v: name != "signbit" or bool(v.array.all())))


@row("conj real imag", "moved", weight=0.1)
def part(m: Maker, name: str) -> Any:
    """Of tensors that are not complex; complex ones are compared in tests/tensor."""
    m.call(name, m.pick("fi"))


@row("angle", "near", jumps=True, weight=0.2)
def angle(m: Maker, name: str) -> Any:
    m.call(name, m.pick("f", exact=True, where=lambda v: bool(v.array.all())))


@row("lerp", "near", weight=0.3)
def between(m: Maker, name: str) -> Any:
    x = m.pick("f")
    end = m.new(m[x].dtype, broadcastable(m, m[x].array.shape))
    m.call(name, x, end, m.choice(0.25, 0.5, 1.0))


@row("less less_equal greater greater_equal equal not_equal", "moved", jumps=True, weight=0.4)
def compared(m: Maker, name: str) -> Any:
    _two(m, name, "fib", True)


@row("logical_and logical_or logical_xor", "moved", jumps=True, weight=0.2)
def logical(m: Maker, name: str) -> Any:
    _two(m, name, "fib", True)


@row("logical_not", "moved", jumps=True, weight=0.2)
def opposite(m: Maker, name: str) -> Any:
    m.call(name, m.pick(exact=True))


@row("bitwise_and bitwise_or bitwise_xor", "rounded", weight=0.4)
def bits(m: Maker, name: str) -> Any:
    x = m.pick("ib")
    other = beside(m, x, kinds="ib")
    m.call(name, x, other)


@row("bitwise_invert", "rounded", weight=0.2)
def inverted(m: Maker, name: str) -> Any:
    m.call(name, m.pick("ib"))


@row("bitwise_left_shift bitwise_right_shift", "rounded", weight=0.3)
def shifted(m: Maker, name: str) -> Any:
    x = m.pick("i")
    if m.chance(0.5):
        m.call(name, x, m.choice(0, 1, 3))
    else:
        m.call(name, x, m.new(m[x].dtype, broadcastable(m, m[x].array.shape), 0, 10))


@row("where", "moved", weight=1.5)
def chosen(m: Maker, name: str) -> Any:
    x = m.pick()
    y: Any = beside(m, x, kinds=kind_of(m[x].dtype))
    if isinstance(y, Ref) and m[y].dtype != m[x].dtype and m.chance(0.85):
        raise RefusedError
    shape = m[x].array.shape
    if isinstance(y, Ref):
        shape = np.broadcast_shapes(shape, m[y].array.shape)
    if m.chance(0.5):
        condition = m.new("bool", broadcastable(m, shape))
    else:
        old = m.pick(exact=True, where=lambda v: goes_with(v.array.shape, shape))
        condition = old if m[old].dtype == "bool" else m.call("greater", old, 0)
    m.call(name, condition, *((x, y) if m.chance(0.7) else (y, x)))


@row("clip", "rounded", weight=0.5)
def clipped(m: Maker, name: str) -> Any:
    x = m.pick("fi")
    low, high = m.choice((0, 5), (1, 3), (0, None), (None, 2))
    m.call(name, x, low, high)
