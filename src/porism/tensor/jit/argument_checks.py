"""Argument checks: what a jitted function may not do with its arguments while it is traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from porism.ir.node import UOp
from porism.tensor.jit.nested_values import leaves
from porism.tensor.promotion import type_error
from porism.tensor.tensor import Tensor


def is_tensor(leaf: Any) -> bool:
    """Whether a leaf of the arguments is a tensor inside the function."""
    return isinstance(leaf, (Tensor, np.ndarray))


def part_count(leaf: Any) -> int:
    """Return how many tensors a leaf is inside of the function: two for a complex array."""
    return 2 if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "c" else 1


def check_untouched(before: list[Any], given: Any) -> None:
    """Refuse a function that changes containers among its arguments."""
    after = [leaf for _, leaf in leaves(given)]
    if len(after) != len(before) or any(a is not b for a, b in zip(after, before, strict=True)):
        raise type_error(
            "a jitted function changes a dict, a list or an object that it was given",
            "that would happen once, when it is traced, and not in every call",
            "return the new one; a tensor gets another value with x.assign(...) or x[...] = …",
        )


def check_arrays(args: Any, kwargs: Any, wrappers: list[Tensor], placeholders: list[UOp]) -> None:
    """Refuse a function that assigns to an array of NumPy's among its arguments."""
    parts = [
        leaf for _, leaf in leaves((args, kwargs)) if is_tensor(leaf)
        for _ in range(part_count(leaf))
    ]  # fmt: skip
    for leaf, tensor, before in zip(parts, wrappers, placeholders, strict=True):
        if isinstance(leaf, np.ndarray) and tensor._node is not before:
            raise type_error(
                "a jitted function assigns to an array of NumPy's that it was given",
                "inside, the array is a tensor",
                "return the new value, or pass a tensor",
            )
