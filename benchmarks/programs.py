"""Programs: expressions as data, to be built alike in every compiler that is measured.

A program is a list of rows `(op, left, right)` over the values before it. The first values are
`LEAVES` variables; an operand that is a string is a constant.
"""

from __future__ import annotations

import random

LEAVES = 48
HIGHEST = 31  # of each variable; the lowest is 0

Operand = int | str
Row = tuple[str, Operand, Operand]


def random_index(rows: int, seed: int = 0) -> list[Row]:
    """Index arithmetic as movement ops make it: sums of products, split and joined again."""
    chance = random.Random(seed)
    program: list[Row] = []
    while len(program) < rows:
        known = LEAVES + len(program)
        recent = max(LEAVES, known - 40)

        def pick(low: int = recent, high: int = known) -> int:
            return chance.randrange(LEAVES) if chance.random() < 0.5 else chance.randrange(
                min(low, high - 1), high
            )  # fmt: skip

        kind = chance.random()
        if kind < 0.34:
            program.append(("ADD", pick(), pick()))
        elif kind < 0.46:
            program.append(("ADD", pick(), str(chance.choice((0, *range(1, 50))))))
        elif kind < 0.66:
            program.append(("MUL", pick(), str(chance.choice((1, *range(2, 70))))))
        elif kind < 0.74:
            program.append(("IDIV", pick(), str(chance.choice((1, 2, 3, 4, 8, 12, 32)))))
        elif kind < 0.82:
            program.append(("MOD", pick(), str(chance.choice((2, 3, 4, 8, 12, 32)))))
        else:  # a value taken apart and put together
            value, size = pick(), chance.choice((4, 8, 32))
            program += [
                ("IDIV", value, str(size)),
                ("MUL", known, str(size)),
                ("MOD", value, str(size)),
                ("ADD", known + 1, known + 2),
            ]
    return program[:rows]


def unrolled_matmul(tile: int, depth: int) -> list[Row]:
    """Addresses of an unrolled matrix product: (i*tile + a)*K + (k*depth + b) for all a, b."""
    program: list[Row] = []

    def emit(op: str, left: Operand, right: Operand) -> int:
        program.append((op, left, right))
        return LEAVES + len(program) - 1

    for a in range(tile):
        for b in range(depth):
            row = emit("ADD", emit("MUL", 0, str(tile)), str(a))
            column = emit("ADD", emit("MUL", 1, str(depth)), str(b))
            address = emit("ADD", emit("MUL", row, str(32 * depth)), column)
            emit("ADD", emit("MUL", emit("IDIV", address, str(32 * depth)), str(tile)), "0")
            emit("MOD", address, str(32 * depth))
    return program
