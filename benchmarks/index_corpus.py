"""A corpus of index expressions, made from a seed: what layouts, tilings and masks look like.

Each row is `{"name", "family", "kind", "vars", "expr"}`: `vars` gives inclusive bounds (a text is
an expression over other variables), `expr` is in Python syntax. Kinds are `idx`, an address;
`valid`, a mask; and `gated`, an address that is -1 where the mask does not hold.

    python -m benchmarks.index_corpus --seed 1 --rows 600 > corpus.jsonl
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Bounds = dict[str, list[int | str]]
Row = dict[str, Any]

LONGEST = 6000  # characters of an expression
SIZES = (2, 3, 4, 5, 6, 7, 8, 12, 14, 16, 28, 32)


def flat(indices: Sequence[str], dims: Sequence[int]) -> str:
    """The row-major address of an element."""
    terms, stride = [], 1
    for index, dim in zip(reversed(indices), reversed(dims), strict=True):
        if dim > 1:
            terms.append(index if stride == 1 else f"({index} * {stride})")
        stride *= dim
    return _sum(list(reversed(terms))) if terms else "0"


def _sum(terms: Sequence[str]) -> str:
    whole = terms[0]
    for term in terms[1:]:
        whole = f"({whole} + {term})"
    return whole


def split(address: str, dims: Sequence[int], *, all_mod: bool) -> list[str]:
    """The indices of the element at a row-major address."""
    result: list[str] = []
    stride = math.prod(dims)
    for number, dim in enumerate(dims):
        stride //= dim
        index = address if stride == 1 else f"({address} // {stride})"
        if (all_mod or number) and dim > 1:
            index = f"({index} % {dim})"
        result.append(index if dim > 1 else "0")
    return result


@dataclass
class View:
    """An access to a tensor: an index for each axis, and the masks met on the way."""

    chance: random.Random
    indices: list[str]
    dims: list[int]
    masks: list[str] = field(default_factory=list)

    def address(self) -> str:
        return flat(self.indices, self.dims)

    def reshape(self, dims: list[int]) -> None:
        self.indices = split(self.address(), dims, all_mod=self.chance.random() < 0.6)
        self.dims = dims

    def any_reshape(self) -> None:
        self.reshape(factors(self.chance, math.prod(self.dims), self.chance.randint(1, 4)))

    def permute(self, order: Sequence[int] | None = None) -> None:
        if order is None:
            order = self.chance.sample(range(len(self.dims)), len(self.dims))
        self.indices = [self.indices[axis] for axis in order]
        self.dims = [self.dims[axis] for axis in order]

    def flip(self, axis: int) -> None:
        self.indices[axis] = f"({self.dims[axis] - 1} - {self.indices[axis]})"

    def roll(self, axis: int) -> None:
        by = self.chance.randrange(1, max(self.dims[axis], 2))
        self.indices[axis] = f"(({self.indices[axis]} + {by}) % {self.dims[axis]})"

    def shrink(self, axis: int) -> None:
        before, after = self.chance.randrange(3), self.chance.randrange(3)
        if before:
            self.indices[axis] = f"({self.indices[axis]} + {before})"
        self.dims[axis] += before + after

    def pad(self, axis: int) -> None:
        before = self.chance.randrange(1, 3)
        inside = self.dims[axis] - before - self.chance.randrange(2)
        if inside < 1:
            return
        index = self.indices[axis]
        self.masks += [f"({before} <= {index})", f"({index} < {before + inside})"]
        self.indices[axis] = f"({index} - {before})"
        self.dims[axis] = inside

    def step(self) -> None:
        chance = self.chance.random()
        axis = self.chance.randrange(len(self.dims))
        if chance < 0.4:
            self.any_reshape()
        elif chance < 0.6:
            self.permute()
        elif chance < 0.7:
            self.flip(axis)
        elif chance < 0.8:
            self.roll(axis)
        elif chance < 0.9:
            self.shrink(axis)
        else:
            self.pad(axis)


def factors(chance: random.Random, size: int, count: int) -> list[int]:
    """So many numbers with this product."""
    result = [1] * count
    prime = 2
    while size > 1:
        while size % prime == 0:
            result[chance.randrange(count)] *= prime
            size //= prime
        prime += 1
    return [f for f in result if f > 1] or [1]


def loops(chance: random.Random, dims: Sequence[int]) -> tuple[list[str], Bounds]:
    """Indices of a loop nest over dims: a variable each, one flat one, blocks, or tiles."""
    size = math.prod(dims)
    style = chance.random()
    if style < 0.3:
        return split("g", dims, all_mod=chance.random() < 0.5), {"g": [0, size - 1]}
    if style < 0.5:
        threads = math.gcd(size, chance.choice((16, 32, 64, 128)))
        text = f"((b * {threads}) + t)"
        bounds: Bounds = {"b": [0, size // threads - 1], "t": [0, threads - 1]}
        return split(text, dims, all_mod=False), bounds
    indices, bounds = [], {}
    for number, dim in enumerate(dims):
        inner = chance.choice([d for d in range(1, dim + 1) if dim % d == 0])
        if style < 0.7 and 1 < inner < dim:
            indices.append(f"((r{number}o * {inner}) + r{number}i)")
            bounds[f"r{number}o"] = [0, dim // inner - 1]
            bounds[f"r{number}i"] = [0, inner - 1]
        else:
            indices.append(f"r{number}")
            bounds[f"r{number}"] = [0, dim - 1]
    return indices, bounds


Made = tuple[View, Bounds]


def movement(chance: random.Random) -> Made:
    dims = [chance.choice(SIZES) for _ in range(chance.randint(2, 4))]
    indices, bounds = loops(chance, dims)
    view = View(chance, indices, dims)
    for _ in range(chance.randint(2, 6)):
        view.step()
    view.any_reshape()
    return view, bounds


def tiling(chance: random.Random) -> Made:
    tile = [chance.choice((2, 4, 5, 7, 8, 16)) for _ in range(2)]
    grid = [chance.choice((2, 3, 4, 7, 8)) for _ in range(2)]
    dims = [grid[0], grid[1], *tile]
    indices, bounds = loops(chance, dims)
    view = View(chance, indices, dims)
    view.permute((0, 2, 1, 3))
    view.reshape([grid[0] * tile[0], grid[1] * tile[1]])
    if chance.random() < 0.4:
        limit = view.dims[0] - chance.randrange(1, tile[0])
        view.masks.append(f"({view.indices[0]} < {limit})")
    if chance.random() < 0.5:
        view.any_reshape()
    return view, bounds


def convolution(chance: random.Random) -> Made:
    batch, channels = chance.choice((1, 2, 4)), chance.choice((3, 4, 16, 32))
    height, width = chance.choice((7, 14, 28)), chance.choice((7, 14, 28, 32))
    kernel, stride = chance.choice((1, 2, 3, 5)), chance.choice((1, 1, 2))
    padding, dilation = chance.choice((0, 1, 2)), chance.choice((1, 1, 2))
    out = [
        max((side + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1, 1)
        for side in (height, width)
    ]
    n, oy, ox = split("m", [batch, *out], all_mod=chance.random() < 0.7)
    c, ky, kx = split("k", [channels, kernel, kernel], all_mod=chance.random() < 0.7)
    rows = f"(((({oy} * {stride}) + ({ky} * {dilation}))) - {padding})"
    columns = f"(((({ox} * {stride}) + ({kx} * {dilation}))) - {padding})"
    view = View(chance, [n, c, rows, columns], [batch, channels, height, width])
    if padding:
        view.masks = [
            f"(0 <= {rows})",
            f"({rows} < {height})",
            f"(0 <= {columns})",
            f"({columns} < {width})",
        ]
    sizes = {"m": batch * math.prod(out), "k": channels * kernel * kernel}
    return view, {name: [0, size - 1] for name, size in sizes.items()}


def shuffle(chance: random.Random) -> Made:
    factor, channels = chance.choice((2, 3, 4)), chance.choice((1, 3, 4, 8))
    height, width = chance.choice((3, 4, 7, 8)), chance.choice((4, 6, 7, 8))
    if chance.random() < 0.5:  # channels to space
        dims = [channels, height * factor, width * factor]
        indices, bounds = loops(chance, dims)
        view = View(chance, indices, dims)
        view.reshape([channels, height, factor, width, factor])
        view.permute((0, 2, 4, 1, 3))
        view.reshape([channels * factor * factor, height, width])
    else:  # and back
        dims = [channels * factor * factor, height, width]
        indices, bounds = loops(chance, dims)
        view = View(chance, indices, dims)
        view.reshape([channels, factor, factor, height, width])
        view.permute((0, 3, 1, 4, 2))
        view.reshape([channels, height * factor, width * factor])
    if chance.random() < 0.4:
        view.pad(1)
    return view, bounds


def attention(chance: random.Random) -> Made:
    batch, length = chance.choice((1, 2, 4)), chance.choice((16, 64, 77, 197))
    heads, size = chance.choice((2, 4, 8, 12)), chance.choice((16, 32, 64))
    dims = [batch, heads, length, size]
    indices, bounds = loops(chance, dims)
    view = View(chance, indices, dims)
    kind = chance.random()
    if kind < 0.4:  # split heads
        view.permute((0, 2, 1, 3))
        view.reshape([batch, length, heads * size])
    elif kind < 0.6:  # the other half of a rotated head
        half = size // 2
        view.indices[3] = f"(({indices[3]} + {half}) % {size})"
        view.permute((0, 2, 1, 3))
    elif kind < 0.8:  # merge, and split another way
        view.permute((0, 2, 1, 3))
        view.reshape([batch * length, size, heads])
        view.permute((0, 2, 1))
    else:  # a causal mask
        view.masks.append(f"(({indices[3]} % {length}) <= {indices[2]})")
    return view, bounds


def quantised(chance: random.Random) -> Made:
    rows, block = chance.choice((4, 8, 32)), chance.choice((16, 32, 64))
    blocks, packed = chance.choice((2, 4, 8)), chance.choice((2, 4))
    dims = [rows, blocks * block]
    indices, bounds = loops(chance, dims)
    view = View(chance, indices, dims)
    view.reshape([rows, blocks, packed, block // packed])
    view.permute((0, 1, 3, 2))
    if chance.random() < 0.5:
        view.reshape([rows * blocks, block])
    return view, bounds


def gaps(chance: random.Random) -> Made:
    """A transposed convolution: only every so manieth element is there."""
    stride = chance.choice((2, 3, 4))
    size, other = stride * chance.choice((4, 7, 14)), chance.choice((4, 8, 28))
    indices, bounds = loops(chance, [size, other])
    shifted = f"({indices[0]} + {chance.randrange(stride * 2)})"
    view = View(chance, [f"({shifted} // {stride})", indices[1]], [size // stride, other])
    view.masks = [f"(({shifted} % {stride}) == 0)", f"(({shifted} // {stride}) < {size // stride})"]
    return view, bounds


FAMILIES: dict[str, Callable[[random.Random], Made]] = {
    "mops": movement,
    "tile": tiling,
    "conv": convolution,
    "shuffle": shuffle,
    "attn": attention,
    "quant": quantised,
    "edge": gaps,
}


def symbolic(chance: random.Random) -> tuple[str, str, Bounds]:
    """An address over a dimension that is not known, and a mask."""
    n, a, b = "n", chance.choice((2, 3, 4, 8)), chance.choice((4, 16, 32))
    bounds: Bounds = {"n": [1, 1024]}
    kind = chance.randrange(4)
    if kind == 0:  # (a, n) flattened and taken apart
        bounds |= {"r0": [0, a - 1], "r1": [0, "n - 1"]}
        text = f"((((r0 * {n}) + r1) // {n}) * {b}) + ((((r0 * {n}) + r1) % {n}) * {a * b})"
        mask = f"(((r0 * {n}) + r1) < ({n} * {a}))"
    elif kind == 1:
        bounds |= {"r0": [0, f"n * {a} - 1"]}
        text = f"((r0 // {a}) * {a}) + (r0 % {a}) + {chance.randrange(4)}"
        mask = f"((r0 + {b}) < {b * a})"
    elif kind == 2:
        bounds |= {"r0": [0, "n - 1"], "r1": [0, b - 1]}
        text = f"((((r0 * {b}) + r1) // {b}) * {b}) + ((((r0 * {b}) + r1) % {b}))"
        mask = f"((((r0 * {b}) + r1) // {b}) < {n})"
    else:
        bounds |= {"g": [0, f"n * {a * b} - 1"]}
        text = f"((g // {b}) // {a}) * {a * b} + ((g // {b}) % {a}) * {b} + g % {b}"
        mask = f"((g // {a * b}) < {n})"
    return f"({text})", mask, bounds


WEIGHTS = {"mops": 24, "conv": 20, "tile": 15, "shuffle": 12, "attn": 11, "edge": 6, "quant": 6}


def row(chance: random.Random, number: int) -> Row | None:
    """One expression; None if it came out too long or without what its kind needs."""
    names = [*WEIGHTS, "symbolic"]
    family = chance.choices(names, [*WEIGHTS.values(), 6])[0]
    kind = chance.choices(("idx", "gated", "valid"), (6, 2, 1))[0]
    if family == "symbolic":
        address, mask, bounds = symbolic(chance)
    else:
        view, bounds = FAMILIES[family](chance)
        address = view.address()
        mask = ""
        for clause in view.masks:
            mask = clause if not mask else f"({mask} and {clause})"
    if kind != "idx" and not mask:
        kind = "idx"
    texts = {"idx": address, "valid": mask, "gated": f"({address} if {mask} else (-1))"}
    if len(texts[kind]) > LONGEST or address == "0":
        return None
    name = f"{family}{number}.{kind}"
    return {"name": name, "family": family, "kind": kind, "vars": bounds, "expr": texts[kind]}


def corpus(rows: int, seed: int) -> list[Row]:
    """So many rows, always the same for a seed."""
    chance = random.Random(seed)
    result: list[Row] = []
    while len(result) < rows:
        made = row(chance, len(result))
        if made is not None:
            result.append(made)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.index_corpus", description=__doc__)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for made in corpus(options.rows, options.seed):
        print(json.dumps(made))


if __name__ == "__main__":
    main()
