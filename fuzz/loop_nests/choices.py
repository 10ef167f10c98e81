"""Choices: the random decisions of one case as a list of numbers, which is how a case shrinks.

A generator asks `below(n)` for each decision, and 0 is the simplest answer. The same numbers give
the same case, any numbers give some case, and smaller or fewer numbers give a simpler one: what
shrinks the list shrinks the case, whatever it is made of.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Decisions that are drawn, or taken from a list, after which all are 0."""

    def __init__(self, seed: int | None = None, given: Sequence[int] = ()) -> None:
        self._draw = None if seed is None else random.Random(seed).random
        self._given = given
        self.taken: list[int] = []

    def below(self, count: int) -> int:
        """A number from 0 to `count` - 1."""
        if self._draw is not None:
            number = int(self._draw() * count)
        else:
            place = len(self.taken)
            number = min(self._given[place], count - 1) if place < len(self._given) else 0
        self.taken.append(number)
        return number

    def one_of(self, options: Sequence[T]) -> T:
        """One of some options, of which the first is the simplest."""
        return options[self.below(len(options))]

    def seldom(self, share: int) -> bool:
        """Whether something happens that does in one of so many cases."""
        return self.below(share) == share - 1

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in some order."""
        left, found = list(items), []
        while left:
            found.append(left.pop(self.below(len(left))))
        return found


def shrunk(given: Sequence[int], fails: Callable[[Sequence[int]], bool], end: float) -> list[int]:
    """A list that fails as well, shorter and of smaller numbers, until a time at the latest."""
    best, seen = list(given), 0
    while True:
        for number, candidate in enumerate(_simpler(best)):
            if number < seen:
                continue  # go on where the last change was made
            if time.monotonic() > end:
                return best
            if fails(candidate):
                best, seen = candidate, number
                break
        else:
            if not seen:
                return best
            seen = 0


def _simpler(numbers: list[int]) -> Iterator[list[int]]:
    """Lists that are shorter, then lists with a smaller number."""
    size = len(numbers)
    while size:
        for start in range(0, len(numbers), size):
            yield [*numbers[:start], *numbers[start + size :]]
        size //= 2
    for place, number in enumerate(numbers):
        for smaller in dict.fromkeys((0, number // 2, number - 1)):
            if 0 <= smaller < number:
                yield [*numbers[:place], smaller, *numbers[place + 1 :]]
