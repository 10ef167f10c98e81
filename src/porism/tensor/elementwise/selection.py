"""Selection: one of several values for each element, by conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from porism.tensor.api.comparison import where
from porism.tensor.conversion import as_tensor, node_of
from porism.tensor.shapes import shape_error
from porism.tensor.tensor import Tensor, method


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """Return for each element the choice of the first condition that holds, else the default.

    >>> x = porism.arange(5)
    >>> porism.select([x < 2, x > 3], [x, x * 10], default=-1).tolist()
    [0, 1, -1, -1, 40]
    """
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
def masked_fill(x: Any, mask: Any, value: Any) -> Tensor:
    """Return x with a number where a mask holds; the result has the type of x.

    >>> porism.masked_fill([1, 2, 3], [True, False, True], 0).tolist()
    [0, 2, 0]
    """
    tensor = as_tensor(x)
    return where(mask, Tensor(node_of(value, tensor.node.dtype)), tensor)
