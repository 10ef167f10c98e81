"""Linear layers: products with a weight, and tables of vectors."""

from __future__ import annotations

import math
from typing import Any

from porism.base.errors import PorismError
from porism.nn.initializers import normal_array, tensor_of, uniform_array
from porism.nn.module import Module, Parameter
from porism.tensor.api.arithmetic import astype
from porism.tensor.api.comparison import equal, where
from porism.tensor.api.einsum import einsum
from porism.tensor.api.linear_algebra import linear
from porism.tensor.autodiff.custom_gradients import stop_gradient
from porism.tensor.conversion import as_tensor
from porism.tensor.movement.indexing import take
from porism.tensor.movement.reshape import flatten, unflatten
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line


class Identity(Module):
    """A module that returns its argument; it takes any arguments.

    >>> porism.nn.Identity()(porism.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def forward(self, x: Any) -> Any:
        """Return x."""
        return x


class Linear(Module):
    """x · weightᵀ + bias, with a weight of shape (out_features, in_features).

    >>> porism.nn.Linear(3, 2)(porism.ones(5, 3)).shape
    (5, 2)
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, dtype: Any = None
    ) -> None:
        self.in_features, self.out_features = in_features, out_features
        bound = 1 / math.sqrt(in_features) if in_features else 0.0
        self.weight = uniform_parameter([out_features, in_features], bound, dtype)
        self.bias = uniform_parameter([out_features], bound, dtype) if bias else None

    def forward(self, x: Any) -> Tensor:
        """Return x · weightᵀ + bias."""
        return linear(x, self.weight, self.bias)


class Bilinear(Module):
    """x1 · weight[k] · x2 + bias[k] for each output feature k.

    >>> porism.nn.Bilinear(3, 4, 2)(porism.ones(5, 3), porism.ones(5, 4)).shape
    (5, 2)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: Any = None,
    ) -> None:
        bound = 1 / math.sqrt(in1_features) if in1_features else 0.0
        self.weight = uniform_parameter([out_features, in1_features, in2_features], bound, dtype)
        self.bias = uniform_parameter([out_features], bound, dtype) if bias else None

    def forward(self, x1: Any, x2: Any) -> Tensor:
        """Return the bilinear form of both inputs, for each output feature."""
        result = einsum("...i,kij,...j->...k", x1, self.weight, x2)
        return result if self.bias is None else result + self.bias


class Embedding(Module):
    """Rows of a table, chosen by integers; the row `padding_idx` is zeros, and is not trained.

    >>> porism.nn.Embedding(10, 3)(porism.asarray([[1, 2], [3, 4]])).shape
    (2, 2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        dtype: Any = None,
    ) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise PorismError(
                f"an embedding of {num_embeddings} rows with padding_idx={padding_idx}",
                where=users_line(),
                why="it is one of the rows",
                fix=f"pass a number below {num_embeddings}",
            )
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        table = normal_array([num_embeddings, embedding_dim], 0.0, 1.0)
        if self.padding_idx is not None:
            table[self.padding_idx] = 0
        self.weight = Parameter(tensor_of(table, dtype))

    def forward(self, x: Any) -> Tensor:
        """Return the row of each integer of x."""
        x = as_tensor(x)
        rows = take(self.weight, x, axis=0)
        if self.padding_idx is None:
            return rows
        wide = astype(x, "int64")  # a row may have a number that the type of x has not
        is_padding = equal(wide, self.padding_idx).reshape(*x.shape, 1)
        return where(is_padding, stop_gradient(rows), rows)


class Flatten(Module):
    """Axes from `start_dim` to `end_dim` made one.

    >>> porism.nn.Flatten()(porism.ones(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Any) -> Tensor:
        """Return x with these axes made one."""
        return flatten(x, self.start_dim, self.end_dim)


class Unflatten(Module):
    """One axis made several.

    >>> porism.nn.Unflatten(1, (3, 4))(porism.ones(2, 12)).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, x: Any) -> Tensor:
        """Return x with the axis made several."""
        return unflatten(x, self.dim, self.unflattened_size)


def uniform_parameter(sizes: list[int], bound: float, dtype: Any) -> Parameter:
    """Return a parameter of uniform numbers in [-bound, bound)."""
    return Parameter(tensor_of(uniform_array(sizes, -bound, bound), dtype))
