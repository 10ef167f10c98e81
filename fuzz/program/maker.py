"""The maker of programs: it picks values that exist or makes new ones, and adds steps.

The oracle computes each step at once, so that functions are called with arguments that they take.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import numpy as np

from fuzz.program.steps import (
    ASSIGNING,
    PROPERTIES,
    SYMBOLS,
    Call,
    Input,
    Ref,
    Size,
    Step,
    leaves,
)
from fuzz.program.values import DIGITS, PARTS, RefusedError, Value, is_float, value_of, widened

FLOATS: Final = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
SIGNED: Final = ("int8", "int16", "int32", "int64")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
INTEGERS: Final = SIGNED + UNSIGNED

TYPES: Final = FLOATS + INTEGERS + ("bool",)
WEIGHTS: Final = (30, 12, 10, 6, 1, 1, 4, 3, 8, 6, 3, 2, 2, 2, 5)
"""How often each type is chosen."""

MOST: Final = 3000
MOST_LARGE: Final = 60_000
"""Elements of a value: of most programs, and of those with large values."""
FIXED: Final = 8
"""The largest of the other sizes where one is symbolic."""
COMPLEX_SHARE: Final = 25
"""One program of so many computes with complex numbers."""
LARGE: Final = 60
"""One program of so many has large values."""

Where = Callable[[Value], bool]


class Maker:
    """A program that grows."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.steps: list[Step] = []
        self.known: list[Value] = []
        self.dead: set[int] = set()
        """Tensors that an assignment has changed: the value is that of the assignment."""
        self.special = random.random() < 0.04
        self.most = MOST_LARGE if random.randrange(LARGE) == 0 else MOST
        self.main = self.type()
        if random.getstate()[1][0] % COMPLEX_SHARE == 0:  # other programs stay as they are
            self.main = random.choice(("complex64", "complex64", "complex128"))
            self.special = False
        self.symbol: Size | None = None
        """The symbolic size of this program; no other size is as large."""
        if random.random() < 0.04:
            value = random.choice((17, 19, 23, 29))  # no sum or product of few fixed sizes
            self.symbol = Size("n", random.randint(1, 9), value + random.randint(0, 9), value)

    # -- chance ------------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        """True in this share of the cases."""
        return self.random.random() < share

    def choice(self, *values: Any) -> Any:
        """One of the values."""
        return self.random.choice(values)

    def type(self) -> str:
        """A type, the common ones more often."""
        return self.random.choices(TYPES, WEIGHTS)[0]

    def size(self, most: int = 40) -> int:
        """A size: mostly small, 0 and 1 often, some large."""
        chance = self.random.random()
        if self.symbol is not None:
            return self.symbol.value if chance < 0.4 else self.random.randint(1, FIXED)
        if chance < 0.012:
            return 0
        if chance < 0.12:
            return 1
        if chance < 0.7 or most <= 8:
            return self.random.randint(2, max(min(8, most), 2))
        if chance < 0.985 or most < 40:
            return self.random.randint(2, most)
        return self.random.choice((64, 100, 128, 257))

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """A shape with not too many elements."""
        if rank is None:
            rank = self.random.choices(range(5), (4, 20, 42, 24, 10))[0]
        sizes = [self.size() for _ in range(rank)]
        if self.most == MOST_LARGE and sizes:
            sizes[self.random.randrange(rank)] = self.random.choice((257, 1000, 4096, 20_001))
        while math.prod(sizes) > self.most:
            sizes[sizes.index(max(sizes))] = self.random.randint(1, 8)
        return tuple(sizes)

    # -- values ------------------------------------------------------------------------------------

    def __getitem__(self, ref: Ref) -> Value:
        return self.known[ref.number]

    def new(self, dtype: str, shape: Sequence[int], low: int | None = None,
            high: int | None = None, over: int = 1) -> Ref:  # fmt: skip
        """A new input; small numbers of both signs by default."""
        special = self.special and low is None and is_float(dtype) and DIGITS[dtype] > 8
        if low is None or high is None:
            low, high = self._range(dtype)
            if dtype in FLOATS[:4] and self.chance(0.25):
                over = 8
        whole, part = self._allocated(shape)
        step = Input(dtype, whole, self.random.randrange(10**6), low, high, over, special)
        array = step.array()
        made = self._append(step, Value(widened(array, dtype), dtype, True))
        if not part:
            return made
        self.dead.add(made.number)
        return self.call("getitem", made, part)

    def _allocated(self, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[slice, ...]]:
        """The shape of an input, and which part of it is symbolic, if a size is."""
        symbol = self.symbol
        if symbol is None:
            return tuple(shape), ()
        if any(n > FIXED and n != symbol.value for n in shape):
            raise RefusedError  # a size that follows from the symbolic one
        if symbol.value not in shape:
            return tuple(shape), ()
        part = [slice(None, symbol) if n == symbol.value else slice(None) for n in shape]
        return tuple(symbol.high if n == symbol.value else n for n in shape), tuple(part)

    def _range(self, dtype: str) -> tuple[int, int]:
        """From where to where numbers of a type are drawn."""
        if dtype == "bool":
            return 0, 2
        if is_float(dtype):
            return -4, 5
        low, high = (-9, 10) if dtype in SIGNED else (0, 12)
        if self.chance(0.15):  # numbers that wrap
            limits = np.iinfo(dtype)
            low, high = max(limits.min, -(2**62)), min(limits.max, 2**62)
        return low, high

    def _append(self, step: Step, value: Value) -> Ref:
        self.steps.append(step)
        self.known.append(value)
        return Ref(len(self.steps) - 1)

    def pick(self, kinds: str = "fib", rank: int | tuple[int, ...] | None = None,
             exact: bool = False, where: Where = lambda _: True) -> Ref:  # fmt: skip
        """A value of some kinds (f, i or b): one that exists, mostly the latest, or a new input."""
        ranks = (rank,) if isinstance(rank, int) else rank
        fit = [
            k for k, v in enumerate(self.known)
            if k not in self.dead
            and kind_of(v.dtype) in kinds
            and (ranks is None or v.array.ndim in ranks)
            and (v.exact or not exact)
            and where(v)
        ]  # fmt: skip
        if fit and fit[-1] != len(self.known) - 1 and self.chance(0.4):
            with contextlib.suppress(RefusedError):
                return self._made_to_fit(kinds, ranks, exact, where)
        if fit and not self.chance(0.04):
            return Ref(fit[-1] if self.chance(0.75) else self.random.choice(fit))
        if fit or ranks is not None or len(self.steps) < 2:
            for _ in range(4):
                made = self.new(
                    self.of_kind(kinds), self.shape(self.choice(*ranks) if ranks else None)
                )
                if where(self[made]):
                    return made
                self.forget(made.number)
        if self.known:  # the latest value in another type or rank
            return self._made_to_fit(kinds, ranks, exact, where)
        raise RefusedError

    def _made_to_fit(
        self, kinds: str, ranks: tuple[int, ...] | None, exact: bool, where: Where
    ) -> Ref:
        last = next(
            (k for k in range(len(self.known) - 1, -1, -1)
             if k not in self.dead and (self.known[k].exact or not exact)), None
        )  # fmt: skip
        if last is None:
            raise RefusedError
        ref = Ref(last)
        if kind_of(self[ref].dtype) not in kinds:
            if not self[ref].exact or self[ref].dtype in PARTS:
                raise RefusedError
            ref = self.call("astype", ref, self.of_kind(kinds))
        if ranks is not None and self[ref].array.ndim not in ranks:
            ref = self.reshaped(ref, self.choice(*ranks))
        if not where(self[ref]):
            raise RefusedError
        return ref

    def of_kind(self, kinds: str) -> str:
        """A type of some kinds: the main one of this program, if it is of them."""
        if kind_of(self.main) in kinds and not self.chance(0.1):
            return self.main
        return self.random.choice([t for t in TYPES if kind_of(t) in kinds and "8_" not in t])

    def reshaped(self, ref: Ref, rank: int) -> Ref:
        """The same elements with so many axes."""
        if self.symbol is not None:
            raise RefusedError
        left, sizes = self[ref].array.size, []
        for _ in range(rank - 1):
            divisors = [d for d in range(1, min(left, 40) + 1) if left % d == 0] or [1]
            sizes.append(self.random.choice(divisors))
            left //= sizes[-1]
        if rank == 0 and left != 1:
            raise RefusedError
        return self.call("reshape", ref, tuple([*sizes, left] if rank else ()))

    def forget(self, mark: int) -> None:
        """Take back all steps from a number on."""
        del self.steps[mark:]
        del self.known[mark:]
        self.dead = {k for k in self.dead if k < mark}

    # -- calls -------------------------------------------------------------------------------------

    def call(self, name: str, *args: Any, part: int | None = None, **kwargs: Any) -> Ref:
        """Add a call, and say where its value is."""
        from fuzz.program.table import COMPLEX, ROWS, SIZED

        row = ROWS[name]
        given = leaves((args, *kwargs.values()))
        if any(_is_ref(r) and self[r].dtype in PARTS for r in given):
            # Complex numbers are not converted to real ones, and have no order.
            real = kwargs.get("dtype") is not None or kwargs.get("reduce") not in (None, "add")
            if name not in COMPLEX or real:
                raise RefusedError
        if self.symbol is not None and name in SIZED and not _has_symbol(args):
            raise RefusedError
        step = Call(name, args, kwargs, "function", part)
        value = value_of(step, self.known, row.result, row.jumps)
        if value.array.size > self.most or value.array.ndim > 6:
            raise RefusedError
        step = Call(name, args, kwargs, self._style(step), part)
        if name in ASSIGNING:
            self.dead.add(args[0].number)
        return self._append(step, value)

    def _style(self, step: Call) -> str:
        """How a call is written."""
        from fuzz.program.table import METHODS

        if step.name == "assign":
            return "method"
        if self.chance(0.3) or not step.args or not isinstance(step.args[0], Ref):
            if step.name in SYMBOLS and not step.kwargs and any(map(_is_ref, step.args)):
                return str(self.choice("operator", "function"))
            return "function"
        if step.name in SYMBOLS and not step.kwargs:
            return "operator"
        if step.name in PROPERTIES and len(step.args) == 1:
            return "property"
        return "method" if step.name in METHODS else "function"

    # -- parts of arguments ------------------------------------------------------------------------

    def axis(self, ref: Ref) -> int:
        """One of the axes of a value, counted from either end."""
        rank = self[ref].array.ndim
        if not rank:
            raise RefusedError
        return self.random.randrange(-rank, rank)

    def axes(self, ref: Ref) -> Any:
        """None, an axis or several."""
        rank = self[ref].array.ndim
        if not rank or self.chance(0.15):
            return None
        if self.chance(0.65):
            return self.axis(ref)
        chosen = self.random.sample(range(rank), self.random.randint(1, rank))
        return tuple(a - rank if self.chance(0.2) else a for a in chosen)

    def options(self, **given: tuple[float, Callable[[], Any]]) -> dict[str, Any]:
        """Keyword arguments: of each, how often it is given, and what makes its value."""
        return {name: make() for name, (share, make) in given.items() if self.chance(share)}

    def indices(self, most: int, *shape: int, outside: bool = True) -> Ref:
        """A tensor of indices into an axis of this size, from either end; some name no element."""
        if most < 1:
            raise RefusedError
        low = -most if self.chance(0.3) else 0
        if outside and self.chance(0.15):
            low, most = low - 2, most + 2
        return self.new(self.choice("int64", "int64", "int32"), shape, low, most)


def _has_symbol(args: tuple[Any, ...]) -> bool:
    """Whether a subscript is one that makes a size symbolic."""
    return len(args) > 1 and isinstance(args[1], tuple) and any(
        isinstance(part, slice) and isinstance(part.stop, Size) for part in args[1]
    )  # fmt: skip


def _is_ref(value: Any) -> bool:
    return isinstance(value, Ref)


def kind_of(dtype: str) -> str:
    """f, i or b."""
    if is_float(dtype):
        return "f"
    return "b" if dtype == "bool" else "i"


__all__ = ["Maker", "Ref", "RefusedError", "Size", "kind_of"]
