"""Selection: one of several values for each element, by conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from porism.tensor.api.comparison import where
from porism.tensor.conversion import as_tensor, node_of
from porism.tensor.promotion import INTEGERS, require_dtype, type_error
from porism.tensor.shapes import shape_error
from porism.tensor.tensor import Tensor, method


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """Return for each element the choice of the first condition that holds, else the default.

    >>> x = porism.arange(5)
    >>> porism.select([x < 2, x > 3], [x, x * 10], default=-1).tolist()
    [0, 1, -1, -1, 40]
    """
    if isinstance(choicelist, int):  # PyTorch's select
        raise type_error(
            "select of an index along an axis",
            "select takes a list of conditions and one of choices",
            "index the tensor: x[index], x[:, index]",
        )
    if len(condlist) != len(choicelist) or not condlist:
        raise shape_error(
            f"select with {len(condlist)} conditions and {len(choicelist)} choices",
            "each condition has one choice, and there is at least one",
            "pass two lists of the same length",
        )
    result: Any = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = where(condition, choice, result)
    return as_tensor(result)


@method
def choose(x: Any, choices: Sequence[Any], mode: str = "raise") -> Tensor:
    """Return for each element the one of `choices` whose number it is, all broadcast together.

    Numbers must be in range: those outside are not noticed, and their results have no meaning. With
    `mode` 'clip' they count as the first or the last, and with 'wrap' modulo the number of choices.

    >>> porism.choose([0, 1, 2], [[1, 2, 3], [10, 20, 30], 7]).tolist()
    [1, 20, 7]
    """
    numbers = as_tensor(x)
    require_dtype(numbers.node.dtype, INTEGERS, "choose", "convert the numbers, with astype")
    if mode not in ("raise", "clip", "wrap") or not len(choices):
        raise shape_error(
            f"choose among {len(choices)} with mode={mode!r}",
            "there is at least one choice, and the modes are 'raise', 'clip' and 'wrap'",
            "pass some choices, and one of the modes",
        )
    count = len(choices)
    index = numbers % count if mode == "wrap" else numbers
    result: Any = choices[-1]
    for number in range(count - 2, -1, -1):
        chosen = index <= number if number == 0 else index == number
        result = where(chosen, choices[number], result)
    return as_tensor(result) if count > 1 else where(index == 0, result, result)


@method
def masked_fill(x: Any, mask: Any, value: Any) -> Tensor:
    """Return x with a number where a mask holds; the result has the type of x.

    >>> porism.masked_fill([1, 2, 3], [True, False, True], 0).tolist()
    [0, 2, 0]
    """
    tensor = as_tensor(x)
    return where(mask, Tensor(node_of(value, tensor.node.dtype)), tensor)
