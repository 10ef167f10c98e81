"""The choice of loop schedules for CPUs does not grow back: lines and numbers are counted.

A number that says what a machine does belongs into `base.machines`, with a unit and a source; the
cost of an op into its row of `ir/ops.py`. What is left are bounds of what is tried and constants of
the generated code. Whoever adds one makes another superfluous, or raises the limit here and says in
the same change what the number is worth.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import porism

OPTIMIZE = Path(porism.__file__).parent / "optimize"
CHOOSING = ("model", "strategy", "search")
"""The folders that choose; actions only do what they are told."""

MAX_LINES = 8_450
MAX_NAMED = 112
MAX_INLINE = 80

PLAIN = (0, 1, 2, 8)
"""Numbers that need no name: also halves, and the bits of a byte."""


def files(folder: Path) -> list[Path]:
    """Return the files of a folder, without those that are for GPUs alone."""
    return [path for path in sorted(folder.rglob("*.py")) if "gpu" not in path.parts]


def sources() -> Iterator[ast.Module]:
    for folder in CHOOSING:
        for path in files(OPTIMIZE / folder):
            yield ast.parse(path.read_text(encoding="utf-8"))


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def constants(module: ast.Module) -> tuple[int, int]:
    """Return how many numbers have names in a module, and how many others it has."""
    named, inside = 0, set()
    for statement in module.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            numbers = [n for n in ast.walk(statement.value) if is_number(n)]
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = [n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            named += len(names) if numbers else 0
            inside.update(numbers)
    others = (n for n in ast.walk(module) if is_number(n) and n not in inside)
    inline = sum(isinstance(n, ast.Constant) and n.value not in PLAIN for n in others)
    return named, inline


def test_lines_and_numbers_do_not_grow_back() -> None:
    lines = sum(len(p.read_text(encoding="utf-8").splitlines()) for p in files(OPTIMIZE))
    counts = [constants(module) for module in sources()]
    named, inline = (sum(column) for column in zip(*counts, strict=True))
    assert (lines <= MAX_LINES, named <= MAX_NAMED, inline <= MAX_INLINE) == (True,) * 3, (
        f"{lines} lines, {named} named constants, {inline} inline numbers"
    )


def test_numbers_are_told_apart() -> None:
    module = ast.parse(
        "A: Final = 3\nB, C = 4, 5\nD = 'x'\ndef f(x: int = 7) -> int:\n    return x // 2 + 9\n"
    )
    assert constants(module) == (3, 2)
