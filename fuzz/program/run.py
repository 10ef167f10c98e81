"""Running: a program by tensors, in one of many ways, and its results compared with the oracle."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import numpy as np

import porism
from fuzz.program.actions import tuned_at_random
from fuzz.program.generate import Program, evaluated
from fuzz.program.guard_pages import at_the_end, guard_pages
from fuzz.program.steps import (
    ASSIGNING,
    Call,
    Input,
    Size,
    Step,
    Steps,
    leaves,
    on_tensors,
    refs,
    with_leaves,
)
from fuzz.program.values import differences, is_float
from porism.base.dtypes import f32
from porism.base.errors import ShapeError
from porism.base.settings import settings
from porism.ir import ops
from porism.ir.facts.semantics import Array
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.tensor.promotion import name_of

RETURNING: Final = frozenset({*ASSIGNING, "asarray"})
"""Functions that return a tensor they are given: those that assign to it, and one that says so."""

OTHER_DATA: Final = 1_000_003
"""What is added to the seeds of inputs for other numbers."""


@dataclass(frozen=True, slots=True)
class How:
    """How a program is run."""

    backend: str = "llvm"
    threads: int = 1
    jit: bool = False
    verify: int = 0
    fast_math: bool = False
    check: bool = False
    actions: int | None = None
    """The seed of random legal actions, if kernels are tuned by them."""
    realized: int | None = None
    """A step whose value is computed before the program goes on."""
    resized: tuple[int, int] | None = None
    """With jit, a size of the inputs, and that of another call."""
    guarded: bool = False
    """Whether arrays end where memory ends."""
    device: str = "cpu"
    """The device that tensors are made on."""
    moves: bool = False
    """Whether each step is computed on another device, to which its operands are moved."""

    def __str__(self) -> str:
        parts = [f"backend={self.backend}", f"threads={self.threads}"]
        parts += [
            name
            for name in ("jit", "fast_math", "check", "guarded", "moves")
            if getattr(self, name)
        ]
        parts += [f"device={self.device}"] if self.device != "cpu" else []
        parts += [f"verify={self.verify}"] if self.verify else []
        parts += [f"actions={self.actions}"] if self.actions is not None else []
        parts += [f"resized={self.resized}"] if self.resized is not None else []
        return ", ".join(parts)


PLAIN: Final = How()


def chosen(random: Random, program: Program) -> How:
    """A way to run a program: mostly the usual one."""
    chance = random.random()
    backend = "llvm"
    if chance < 0.02:
        backend = "reference"
    elif chance < 0.05:
        backend = "c"
    sizes = {n for step in program.steps if isinstance(step, Input) for n in step.shape}
    jit = random.random() < 0.12
    resized = None
    if jit and sizes and random.random() < 0.5:
        resized = (random.choice(sorted(sizes)), random.randint(1, 9))
    large = any(value.array.size > 5000 for value in program.known)
    calls = [k for k, step in enumerate(program.steps) if not isinstance(step, Input)]
    return How(
        backend=backend,
        threads=2 if random.random() < (0.7 if large else 0.3) else 1,
        jit=jit,
        verify=random.randint(1, 3) if random.random() < 0.01 and backend == "llvm" else 0,
        check=random.random() < 0.05,
        # Whole numbers have the same results; what is not finite has not.
        fast_math=random.random() < 0.03 and not _has_special(program.steps),
        actions=random.randrange(10**6) if not jit and random.random() < 0.1 else None,
        realized=random.choice(calls) if not jit and random.random() < 0.1 else None,
        resized=resized,
        guarded=random.random() < 0.05,
    )


WAYS: Final[dict[str, dict[str, Any]]] = {
    "jit": {"jit": True, "actions": None, "realized": None},
    "actions": {"actions": 1, "jit": False},
    **{name: {name: True} for name in ("check", "fast_math", "guarded")},
    **{f"verify{level}": {"verify": level} for level in (1, 2, 3)},
    **{name: {"backend": name} for name in ("c", "reference")},
    "guarded_c": {"backend": "c", "guarded": True},
    "fake_device": {"device": "fake", "verify": 0, "guarded": False, "actions": None},
    "devices": {"moves": True, "verify": 0, "guarded": False, "actions": None},
}
"""What all programs of a run can have in common."""


def _has_special(steps: Steps) -> bool:
    return any(isinstance(step, Input) and step.special for step in steps)


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a program."""

    kind: str
    """ "wrong", "shape", "type", "crash", "hang", or the name of an error and its first words."""
    detail: str


def check(program: Program, how: How = PLAIN) -> Finding | None:
    """Run a program, and say what is wrong with it, if anything is."""
    try:
        with _settings(how), np.errstate(all="ignore"):
            return _jitted(program, how) if how.jit else _plain(program, how)
    except Exception as error:  # whatever a program of the user raises is a finding
        if isinstance(error, ShapeError) and symbol_of(program.steps) is not None:
            return None  # some functions need sizes as numbers, and say so
        return Finding(_error_kind(error), f"{type(error).__name__}: {error}")


@contextlib.contextmanager
def _settings(how: How) -> Iterator[None]:
    with (
        settings.override(
            backend=how.backend, threads=how.threads, verify=int(how.verify), check=how.check,
            fast_math=how.fast_math, cache=False, progress=False, device=how.device,
        ),
        guard_pages() if how.guarded else contextlib.nullcontext(),
    ):  # fmt: skip
        yield


def _error_kind(error: Exception) -> str:
    words = re.sub(r"\d+", "0", str(error).split("\n")[0])
    return f"{type(error).__name__}: {words[:60]}"


DEVICES: Final = ("cpu", "fake", "fake:1")


def _moved(step: Call, number: int, values: Sequence[Any]) -> list[Any]:
    """The values with the operands of a step on one device: another one for each step."""
    operands = refs(step)
    device = DEVICES[(number * 7 + len(operands)) % 3]
    if step.name in ASSIGNING:  # what is assigned to stays where it is
        device = values[operands[0]].device
    found = list(values)
    for k in operands:
        found[k] = values[k] if values[k].device == device else values[k].to(device)
    return found


def _tensors(
    steps: Steps, inputs: Sequence[Any], realized: int | None = None, *, moves: bool = False
) -> list[Any]:
    """The value of every step, given those that are inputs, in order."""
    given = iter(inputs)
    values: list[Any] = []
    for number, step in enumerate(steps):
        if isinstance(step, Input):
            value = next(given)
        else:
            value = on_tensors(step, _moved(step, number, values) if moves else values)
        if _is_operand(step, value, values):
            raise AliasError(f"{step} returns its operand: assigning to one changes the other")
        values.append(value)
        if number == realized:
            values[-1].realize()
    return values


class AliasError(Exception):
    """A function has returned a tensor that it was given."""


def _is_operand(step: Step, value: Any, values: Sequence[Any]) -> bool:
    """Whether a value, or a part of it, is a tensor that was there before."""
    if isinstance(step, Input) or step.name in RETURNING:
        return False
    known = {id(part) for v in values for part in _parts(v)}
    return any(id(part) in known for part in _parts(value))


def _parts(value: Any) -> tuple[Any, ...]:
    """A tensor, and the parts of a complex one."""
    if value.dtype.kind != "c":
        return (value,)
    return value, value.real_part, value.imag_part


def _inputs(steps: Steps, shift: int = 0) -> list[Any]:
    inputs = [step for step in steps if isinstance(step, Input)]
    return [porism.asarray(at_the_end(step.array(shift))) for step in inputs]


def _plain(program: Program, how: How) -> Finding | None:
    """Run a program once; with a symbolic size, for another value too."""
    found = _once(program, how)
    symbol = symbol_of(program.steps)
    if found is not None or symbol is None:
        return found
    other = dataclasses.replace(symbol, value=symbol.low + symbol.value % 3)
    try:
        again = evaluated([_rebound(step, other) for step in program.steps], program.results)
    except Exception:  # other numbers may not be comparable
        return None
    return _once(again, how)


def symbol_of(steps: Steps) -> Size | None:
    """The symbolic size of a program, if it has one."""
    sizes = (leaf for step in steps if isinstance(step, Call) for leaf in leaves(step.args))
    return next((leaf for leaf in sizes if isinstance(leaf, Size)), None)


def _rebound(step: Step, symbol: Size) -> Step:
    if isinstance(step, Input):
        return step
    return with_leaves(step, lambda leaf: symbol if isinstance(leaf, Size) else leaf)


def _once(program: Program, how: How) -> Finding | None:
    inputs = _inputs(program.steps)
    values = _tensors(program.steps, inputs, how.realized, moves=how.moves)
    results = [values[k] for k in program.results]
    narrow = narrowed(program, results)
    if narrow is not None:
        return narrow
    if how.actions is None or any(tensor.dtype.kind == "c" for tensor in results):
        porism.realize(*results)
        return _compared(program, results)
    with tuned_at_random(results, Random(how.actions)):
        porism.realize(*results)
        return _compared(program, results)


def narrowed(program: Program, results: Sequence[Any]) -> Finding | None:
    """A value of f32 in the graph of a program whose floats are all of f64: precision is lost."""
    types = {value.dtype for value in program.known if is_float(value.dtype)}
    if types != {"float64"}:
        return None
    for node in toposort(ops.SINK(*(tensor.node for tensor in results))):
        if node.dtype is f32:
            return Finding("narrowed", f"{show(node, limit=200)} is of f32 among floats of f64")
    return None


def _compared(program: Program, results: Sequence[Any]) -> Finding | None:
    for number, tensor in zip(program.results, results, strict=True):
        value = program.known[number]
        got: Array = tensor.numpy()
        if got.shape != value.array.shape:
            return Finding("shape", f"{got.shape} is the shape, not {value.array.shape}")
        if name_of(tensor.dtype) != value.dtype:
            return Finding("type", f"{name_of(tensor.dtype)} is the type, not {value.dtype}")
        wrong = differences(program.steps, program.known, number, got)
        if wrong.any():
            spot = tuple(int(n) for n in np.argwhere(wrong)[0])
            return Finding(
                "wrong",
                f"{int(wrong.sum())} of {wrong.size} elements differ: the first, at {spot}, is "
                f"{got[spot]}, and the oracle says {value.array[spot]}",
            )
    return None


def _jitted(program: Program, how: How) -> Finding | None:
    """Call a jitted function three times: with other data, and with other sizes."""

    def function(*inputs: Any) -> tuple[Any, ...]:
        values = _tensors(program.steps, inputs, moves=how.moves)
        return tuple(values[k] for k in program.results)

    jitted = porism.jit(function)
    calls = [(program, 0)]
    with contextlib.suppress(Exception):  # other numbers may not be comparable
        calls.append((evaluated(program.steps, program.results, OTHER_DATA), OTHER_DATA))
    if how.resized is not None:
        with contextlib.suppress(Exception):  # most programs do not go with other sizes
            steps = [_with_size(step, *how.resized) for step in program.steps]
            _tensors(steps, _inputs(steps))  # the oracle takes some sizes that functions refuse
            calls.append((evaluated(steps, program.results), 0))
    calls.append((program, 0))
    for number, (each, shift) in enumerate(calls):
        results = jitted(*_inputs(each.steps, shift))
        found = _compared(each, results)
        if found is not None:
            return Finding(found.kind, f"call {number} of the jitted function: {found.detail}")
    return None


def _with_size(step: Any, old: int, new: int) -> Any:
    if not isinstance(step, Input):
        return step
    shape = tuple(new if n == old else n for n in step.shape)
    return Input(step.dtype, shape, step.seed, step.low, step.high, step.over, step.special)
