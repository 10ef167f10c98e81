"""Static sizes: sizes that a function needs as ints, since its graph depends on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from porism.tensor import shapes
from porism.tensor.primitive import Dim


def static_size(size: Dim, what: str) -> int:
    """Return a size as an int; a symbolic size is an error."""
    if not isinstance(size, int):
        raise shapes.shape_error(
            f"{what} along an axis of the symbolic size {shapes.size_text(size)}",
            "its graph is different for every size",
            "use a tensor whose size is a number there",
        )
    return size


def per_axis(given: Any, count: int, what: str, least: int) -> tuple[int, ...]:
    """Return an int for each of `count` axes, of one int for all or a sequence.

    >>> per_axis(2, 3, "stride", 1), per_axis((1, 2), 2, "stride", 1)
    ((2, 2, 2), (1, 2))
    """
    if isinstance(given, Sequence) and not isinstance(given, str):
        numbers = tuple(shapes.as_int(n, what) for n in given)
        numbers = numbers * count if len(numbers) == 1 else numbers
    else:
        numbers = (shapes.as_int(given, what),) * count
    if len(numbers) != count:
        raise shapes.shape_error(
            f"{what} is {given!r}",
            f"there are {count} axes, and {len(numbers)} numbers",
            f"pass an int, or a tuple of {count}",
        )
    if any(n < least for n in numbers):
        raise shapes.shape_error(
            f"{what} is {given!r}",
            f"it is at least {least}",
            "pass larger numbers",
        )
    return numbers
