"""Gradients of random differentiable programs, compared with PyTorch and with finite differences.

Programs are lists of calls (`fuzz/gradients/calls.py`) on two or three arrays of float64. The
gradient of a weighted sum of the last results is compared with PyTorch's, and that of every eighth
program a second time, by the gradient of a gradient. Without PyTorch, gradients are compared with
finite differences where these agree for two steps.

    ./dev fuzz gradient --minutes 10
    pip install torch==2.13.0            # in the same environment, for the comparison with PyTorch
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import numpy as np

import porism
from fuzz.gradients.calls import Call, Shape, draw
from porism.base.errors import PorismError

SHAPES: Final[tuple[Shape, ...]] = (
    (3, 4),
    (4,),
    (1, 4),
    (2, 3, 4),
    (5, 1),
    (3, 1),
    (1,),
    (),
    (2, 1, 4),
    (0, 4),
)
MOST_ELEMENTS: Final = 400
TOLERANCE: Final = 1e-8
"""Relative to the largest number of a gradient; both sides round in float64."""
STEP: Final = 1e-5

Array = Any
Step = tuple[Call, int, int]


@dataclass(frozen=True)
class Program:
    """Arrays, and calls on them and on earlier results."""

    seed: int
    shapes: tuple[Shape, ...]
    steps: tuple[Step, ...]
    way: str

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(self.seed)
        return [rng.standard_normal(shape) for shape in self.shapes]

    def text(self) -> str:
        """The program as lines of Python."""
        lines = [f"# {self.way}, seed {self.seed}"]
        lines += [f"x{k}: {shape}" for k, shape in enumerate(self.shapes)]
        for k, (call, a, b) in enumerate(self.steps):
            lines.append(f"x{k + len(self.shapes)} = {call.ours}   # a = x{a}, b = x{b}")
        return "\n".join(lines)


def run(program: Program, values: Sequence[Any], module: Any, functional: Any, ours: bool) -> Any:
    """Return a weighted sum of the results that no other call uses."""
    results = list(values)
    used: set[int] = set()
    for call, a, b in program.steps:
        names = {"M": module, "F": functional, "a": results[a], "b": results[b]}
        results.append(eval(call.ours if ours else call.theirs, names))
        used |= {a, b}
    total: Any = None
    for k, result in enumerate(results):
        if k not in used or k == len(results) - 1:
            weights = np.random.default_rng(k).standard_normal(tuple(result.shape))
            part = (result * module.asarray(weights)).sum()
            total = part if total is None else total + part
    return total


def generate(seed: int, calls: int = 8) -> Program:
    """Return a random program; every call of it works."""
    random = Random(seed)
    shapes = [random.choice(SHAPES) for _ in range(random.randrange(1, 4))]
    leaves = tuple(shapes)
    steps: list[Step] = []
    tensors = [porism.zeros(shape, dtype="float64") for shape in shapes]
    for _ in range(random.randrange(1, calls + 1)):
        drawn = draw(random, shapes)
        if drawn is None:
            continue
        call, a, b = drawn
        try:
            found = eval(call.ours, {"M": porism, "F": porism, "a": tensors[a], "b": tensors[b]})
        except PorismError:
            continue  # such as a maximum of nothing
        if not isinstance(found, porism.Tensor) or found.size > MOST_ELEMENTS:
            continue
        steps.append(drawn)
        tensors.append(found)
        shapes.append(tuple(int(n) for n in found.shape))
    return Program(seed, leaves, tuple(steps), random.choice(WAYS))


WAYS: Final = ("grad", "grad", "backward", "jit")


def our_gradients(program: Program, twice: bool) -> list[Array]:
    arrays = program.arrays()
    numbers = tuple(range(len(arrays)))

    def function(*values: Any) -> Any:
        return run(program, values, porism, porism, ours=True)

    if program.way == "backward" and not twice:
        leaves: list[Any] = [porism.tensor(a, requires_grad=True) for a in arrays]
        function(*leaves).backward()
        zeros = [np.zeros(a.shape) for a in arrays]
        pairs = zip(leaves, zeros, strict=True)
        return [z if x.grad is None else x.grad.numpy() for x, z in pairs]
    gradient = porism.grad(_norm_of_gradient(function) if twice else function, numbers)
    if program.way == "jit":
        gradient = porism.jit(gradient)
    return [g.numpy() for g in gradient(*map(porism.asarray, arrays))]


def _norm_of_gradient(function: Any) -> Any:
    """Return a smooth function of the first derivatives."""

    def of_gradient(*values: Any) -> Any:
        found = porism.grad(function, tuple(range(len(values))))(*values)
        sums = [porism.sin(g * 0.3).sum() for g in found]
        return sum(sums[1:], sums[0])

    return of_gradient


def torch_gradients(program: Program, twice: bool) -> list[Array] | None:
    """Return PyTorch's gradients; None if some are not finite, or it refuses the program."""
    torch: Any = importlib.import_module("torch")
    values = [torch.tensor(a, requires_grad=True) for a in program.arrays()]
    try:
        total = run(program, values, torch, torch.nn.functional, ours=False)
        found = torch.autograd.grad(total, values, allow_unused=True, create_graph=twice)
        if twice:
            sums = [torch.sin(g * 0.3).sum() for g in found if g is not None and g.requires_grad]
            if not sums:
                return None
            found = torch.autograd.grad(sum(sums[1:], sums[0]), values, allow_unused=True)
    except (RuntimeError, TypeError, IndexError):
        return None
    filled = [torch.zeros_like(v) if g is None else g for g, v in zip(found, values, strict=True)]
    arrays = [g.detach().numpy(force=True) for g in filled]
    return arrays if all(np.isfinite(a).all() for a in arrays) else None


def difference(found: Sequence[Array], expected: Sequence[Array]) -> float:
    """Return the largest difference, relative to the largest number."""
    scale = max([1.0, *(float(np.abs(a).max(initial=0.0)) for a in expected)])
    return max(
        (float(np.nan_to_num(np.abs(a - b), nan=np.inf).max(initial=0.0)) / scale)
        for a, b in zip(found, expected, strict=True)
    )


SKIPPED: Final = "skipped"


def fault(program: Program, with_torch: bool) -> str | None:
    """Return what is wrong with the gradients of a program, or None."""
    found = outcome(program, with_torch)
    return None if found == SKIPPED else found


def outcome(program: Program, with_torch: bool) -> str | None:
    """Return what is wrong with the gradients, SKIPPED if they cannot be compared, or None."""
    with np.errstate(all="ignore"):
        try:
            twice = program.seed % 8 == 0 and with_torch
            if not with_torch:
                return _finite_difference_fault(program)
            expected = torch_gradients(program, twice)
            if expected is None:
                return SKIPPED
            found = our_gradients(program, twice)
        except PorismError as error:
            return f"refused: {str(error).splitlines()[0]}"
    far = difference(found, expected)
    allowed = TOLERANCE * (100 if twice else 1)
    return None if far <= allowed else f"differs from PyTorch by {far:.3g}{' (twice)' * twice}"


def _finite_difference_fault(program: Program) -> str | None:
    arrays = program.arrays()
    rng = np.random.default_rng(program.seed + 1)
    directions = [rng.standard_normal(a.shape) for a in arrays]

    def value(step: float) -> float:
        moved = [porism.asarray(a + step * d) for a, d in zip(arrays, directions, strict=True)]
        return float(run(program, moved, porism, porism, ours=True).item())

    slopes = [(value(s) - value(-s)) / (2 * s) for s in (STEP, STEP / 3)]
    scale = max(1.0, abs(slopes[0]))
    if not np.isfinite(slopes).all() or abs(slopes[0] - slopes[1]) > 1e-6 * scale:
        return SKIPPED  # at a kink, or too steep to tell
    found = our_gradients(program, twice=False)
    slope = sum(float((g * d).sum()) for g, d in zip(found, directions, strict=True))
    far = abs(slope - slopes[1]) / scale
    return None if far <= 1e-5 else f"differs from finite differences by {far:.3g}"


def shrink(program: Program, with_torch: bool) -> Program:
    """Return the program without calls that its fault does not need, from the end on."""
    smaller = True
    while smaller:
        smaller = False
        for count in range(len(program.steps)):
            candidate = replace(program, steps=program.steps[:count])
            if candidate.steps and fault(candidate, with_torch) is not None:
                program, smaller = candidate, True
                break
    return program


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--count", type=int, default=None, help="programs, in place of a time")
    parser.add_argument("--seed", type=int, default=None, help="the first seed")
    options = parser.parse_args()
    with_torch = has_torch()
    if not with_torch:
        print("torch is not installed, so gradients are compared with finite differences;")
        print("for PyTorch: .venv/bin/pip install torch==2.13.0, or set PYTHONPATH to one")
    first = int(time.time()) % 1_000_000 * 1000 if options.seed is None else options.seed
    end = time.monotonic() + options.minutes * 60
    tried = compared = faults = 0
    seed = first
    while (tried < options.count) if options.count is not None else (time.monotonic() < end):
        program = generate(seed)
        if program.steps:
            wrong = outcome(program, with_torch)
            compared += wrong != SKIPPED
            if wrong not in (None, SKIPPED):
                faults += 1
                smallest = shrink(program, with_torch)
                print(f"{fault(smallest, with_torch)}\n{smallest.text()}\n", flush=True)
        tried += 1
        seed += 1
    print(f"{tried} programs from seed {first}, {compared} compared, {faults} findings")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
