"""Steps: a program as data, which is run with tensors and with NumPy, and printed as Python.

A program is a list of steps; each makes one value, and later ones refer to it by its number. The
value of an assignment to a part of a tensor is that tensor, and no later step refers to it by the
number that it had before.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import porism
from fuzz.program import oracle
from fuzz.program.oracle.arrays import numpy_type
from porism.ir.facts.semantics import Array
from porism.tensor.promotion import NAMES


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of an earlier step."""

    number: int


@dataclass(frozen=True, slots=True)
class Size:
    """A symbolic size: a variable with bounds, and its value."""

    name: str
    low: int
    high: int
    value: int


@dataclass(frozen=True, slots=True)
class Input:
    """An array of random numbers: whole ones from low to high - 1, divided by `over`."""

    dtype: str
    shape: tuple[int, ...]
    seed: int
    low: int
    high: int
    over: int = 1
    special: bool = False
    """Whether some of the numbers are NaN, infinite or -0."""

    def array(self, shift: int = 0) -> Array:
        """The numbers in the type of the tensor; `shift` gives others of the same kind."""
        return _numbers(self, shift).copy()

    def text(self, shift: int = 0) -> str:
        """Python for the array."""
        if math.prod(self.shape) <= 40 or self.special:
            shown = np.array2string(
                self.array(shift).astype(numpy_type(self.dtype)),
                separator=", ", threshold=10**6, max_line_width=10**6,
            ).replace("\n", "")  # fmt: skip
            made = f"np.array({shown})" + (f".reshape({self.shape})" if 0 in self.shape else "")
            return f"{made}.astype({_type_text(self.dtype)})"
        made = f"np.random.default_rng({self.seed + shift}).integers({self.low}, {self.high}, "
        over = f" / {self.over}" if self.over != 1 else ""
        if self.dtype.startswith("complex"):
            pair = f"({made}{(2, *self.shape)}){over})"
            return f"({pair} * np.reshape([1, 1j], {(2, *(1,) * len(self.shape))})).sum(0)"
        return f"({made}{self.shape}){over}).astype({_type_text(self.dtype)})"


def _type_text(name: str) -> str:
    """A type as NumPy takes it."""
    return repr(name) if hasattr(np, name) else f"porism.{name}.numpy"


SPECIAL: Final = (np.nan, np.inf, -np.inf, -0.0)


@functools.lru_cache(512)
def _numbers(given: Input, shift: int) -> Array:
    random = np.random.default_rng(given.seed + shift)
    if given.dtype.startswith("complex"):
        pair = random.integers(given.low, given.high, (2, *given.shape)) / given.over
        return np.asarray((pair[0] + 1j * pair[1]).astype(given.dtype))
    found: Array = random.integers(given.low, given.high, given.shape)
    if given.over != 1:
        found = found / given.over
    found = np.asarray(found.astype(NAMES[given.dtype].numpy))
    if given.special:
        chosen = random.random(given.shape) < 0.2
        found = np.where(chosen, random.choice(SPECIAL, given.shape), found).astype(found.dtype)
    return found


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the namespace, or a subscript, and what it is called with."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict, hash=False)
    style: str = "function"
    """Or "method", "operator": how it is written."""
    part: int | None = None
    """Which of several results is the value."""


Step = Input | Call
Steps = Sequence[Step]


# -- references ------------------------------------------------------------------------------------


def refs(step: Step) -> list[int]:
    """The numbers of the steps whose values a step uses, in order."""
    if isinstance(step, Input):
        return []
    return [r.number for r in leaves((step.args, list(step.kwargs.values()))) if type(r) is Ref]


def leaves(value: Any) -> Iterator[Any]:
    """What is in the tuples, lists and slices of an argument."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from leaves(part)
    elif isinstance(value, slice):
        yield from (value.start, value.stop, value.step)
    else:
        yield value


def replaced(value: Any, change: Callable[[Any], Any]) -> Any:
    """An argument with every leaf in its tuples, lists and slices changed."""
    if isinstance(value, (tuple, list)):
        return type(value)(replaced(part, change) for part in value)
    if isinstance(value, slice):
        return slice(change(value.start), change(value.stop), change(value.step))
    return change(value)


def with_leaves(step: Call, change: Callable[[Any], Any]) -> Call:
    """A call with every leaf of its arguments changed."""
    return Call(
        step.name,
        replaced(step.args, change),
        {name: replaced(value, change) for name, value in step.kwargs.items()},
        step.style,
        step.part,
    )


# -- running ---------------------------------------------------------------------------------------

SYMBOLS: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    "add": ("+", operator.add),
    "subtract": ("-", operator.sub),
    "multiply": ("*", operator.mul),
    "divide": ("/", operator.truediv),
    "floor_divide": ("//", operator.floordiv),
    "remainder": ("%", operator.mod),
    "pow": ("**", operator.pow),
    "matmul": ("@", operator.matmul),
    "bitwise_and": ("&", operator.and_),
    "bitwise_or": ("|", operator.or_),
    "bitwise_xor": ("^", operator.xor),
    "bitwise_left_shift": ("<<", operator.lshift),
    "bitwise_right_shift": (">>", operator.rshift),
    "less": ("<", operator.lt),
    "less_equal": ("<=", operator.le),
    "greater": (">", operator.gt),
    "greater_equal": (">=", operator.ge),
    "equal": ("==", operator.eq),
    "not_equal": ("!=", operator.ne),
    "negative": ("-", operator.neg),
    "positive": ("+", operator.pos),
    "bitwise_invert": ("~", operator.invert),
}
"""Functions with a symbol."""

ASSIGNING: Final = ("setitem", "assign")
"""What changes the tensor that is its first operand, and gives it."""

PROPERTIES: Final = {"transpose": "T", "matrix_transpose": "mT"}
"""Functions without further arguments that are properties of a tensor too."""


def on_tensors(step: Call, values: list[Any]) -> Any:
    """The value of a call, given the tensors before it."""

    def leaf(value: Any) -> Any:
        if type(value) is Ref:
            return values[value.number]
        if type(value) is Size:
            return porism.Variable(value.name, value.low, value.high).bind(value.value)
        return value

    args = replaced(step.args, leaf)
    kwargs = {name: replaced(value, leaf) for name, value in step.kwargs.items()}
    if step.name == "getitem":
        return args[0][args[1]]
    if step.name == "setitem":
        args[0][args[1]] = args[2]
        return args[0]
    if step.style == "operator":
        found = SYMBOLS[step.name][1](*args)
    elif step.style == "property":
        found = getattr(args[0], PROPERTIES[step.name])
    elif step.style == "method":
        found = getattr(args[0], step.name)(*args[1:], **kwargs)
    else:
        found = getattr(porism, step.name)(*args, **kwargs)
    return found if step.part is None else found[step.part]


def on_arrays(step: Call, values: list[Any]) -> Any:
    """The value of a call by the oracle, given the arrays before it."""

    def leaf(value: Any) -> Any:
        if type(value) is Ref:
            return values[value.number]
        return value.value if type(value) is Size else value

    args = replaced(step.args, leaf)
    kwargs = {name: replaced(value, leaf) for name, value in step.kwargs.items()}
    if step.name == "getitem":
        _need_inside(step, args[0].shape)
    found = oracle.FUNCTIONS[step.name](*args, **kwargs)
    return np.asarray(found if step.part is None else found[step.part])


def _need_inside(step: Call, shape: tuple[int, ...]) -> None:
    """Refuse a slice that is outside for some value of a symbolic size."""
    key = step.args[1]
    for part, size in zip(key if isinstance(key, tuple) else (), shape, strict=False):
        if isinstance(part, slice) and type(part.stop) is Size and part.stop.high > size:
            raise ValueError("a symbolic size is longer than the axis")


# -- text ------------------------------------------------------------------------------------------


def lines(steps: Steps, shift: int = 0) -> list[str]:
    """The program with tensors, a line for each step."""
    names = names_of(steps)
    found = []
    for number, step in enumerate(steps):
        if isinstance(step, Input):
            found.append(f"{names[number]} = porism.asarray({step.text(shift)})")
        elif step.name == "setitem":
            target, value = (_text(arg, names) for arg in step.args[::2])
            found.append(f"{target}[{_key_text(step.args[1], names)}] = {value}")
        else:
            found.append(f"{names[number]} = {_call_text(step, names)}")
    return found


def names_of(steps: Steps) -> list[str]:
    """A name for the value of each step; an assignment has that of its target."""
    found: list[str] = []
    for step in steps:
        if isinstance(step, Call) and step.name in ASSIGNING:
            found.append(found[step.args[0].number])
        else:
            found.append(f"t{len(found)}" if isinstance(step, Call) else f"x{len(found)}")
    return found


def _call_text(step: Call, names: Sequence[str]) -> str:
    args = [_text(arg, names) for arg in step.args]
    options = [f"{name}={_text(value, names)}" for name, value in step.kwargs.items()]
    part = "" if step.part is None else f"[{step.part}]"
    if step.name == "getitem":
        return f"{args[0]}[{_key_text(step.args[1], names)}]"
    if step.style == "operator":
        symbol = SYMBOLS[step.name][0]
        args = [f"({arg})" if arg.startswith("-") else arg for arg in args]
        return f" {symbol} ".join(args) if len(args) == 2 else f"{symbol}{args[0]}"
    if step.style == "property":
        return f"{args[0]}.{PROPERTIES[step.name]}"
    if step.style == "method":
        return f"{args[0]}.{step.name}({', '.join([*args[1:], *options])}){part}"
    return f"porism.{step.name}({', '.join([*args, *options])}){part}"


def _key_text(key: Any, names: Sequence[str]) -> str:
    if isinstance(key, tuple) and key:
        return ", ".join(_key_text(part, names) for part in key) + ("," if len(key) == 1 else "")
    if isinstance(key, slice):
        ends = ["" if n is None else _text(n, names) for n in (key.start, key.stop)]
        return ":".join(ends) + (f":{key.step}" if key.step is not None else "")
    return "..." if key is Ellipsis else _text(key, names)


def _text(value: Any, names: Sequence[str]) -> str:
    if isinstance(value, Ref):
        return names[value.number]
    if isinstance(value, Size):
        bounds = f"{value.name!r}, {value.low}, {value.high}"
        return f"porism.Variable({bounds}).bind({value.value})"
    if isinstance(value, list):
        return f"[{', '.join(_text(part, names) for part in value)}]"
    if isinstance(value, tuple):
        inner = ", ".join(_text(part, names) for part in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    return repr(value)
