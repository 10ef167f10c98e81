"""Attention layers: multi-head attention with projections of queries, keys and values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from porism.base.errors import PorismError
from porism.nn.initializers import tensor_of, uniform_array
from porism.nn.linear_layers import Linear
from porism.nn.module import Module, Parameter
from porism.tensor.api.comparison import where
from porism.tensor.api.linear_algebra import linear
from porism.tensor.api.random import dropout
from porism.tensor.conversion import as_tensor
from porism.tensor.network.attention import scaled_dot_product_attention
from porism.tensor.network.normalization import softmax
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import users_line


class MultiheadAttention(Module):
    """Attention in several heads; weights are named and stored as in PyTorch.

    Inputs are (length, batch, features), or (batch, length, features) with `batch_first`, or
    without a batch. A call returns the output and the attention weights (None if they are not
    asked for).

    >>> attention = porism.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = porism.ones(1, 5, 8)
    >>> [t.shape for t in attention(x, x, x)]
    [(1, 5, 8), (1, 5, 5)]
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        dtype: Any = None,
    ) -> None:
        if num_heads < 1 or embed_dim % num_heads:
            raise PorismError(
                f"attention of {embed_dim} features in {num_heads} heads",
                where=users_line(),
                why="every head has the same number of features",
                fix="choose a number of heads that divides the features",
            )
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.batch_first = batch_first
        key_features = embed_dim if kdim is None else kdim
        value_features = embed_dim if vdim is None else vdim
        self.in_proj_weight: Parameter | None = None
        if key_features == value_features == embed_dim:
            self.in_proj_weight = _xavier([3 * embed_dim, embed_dim], dtype)
        else:
            self.q_proj_weight = _xavier([embed_dim, embed_dim], dtype)
            self.k_proj_weight = _xavier([embed_dim, key_features], dtype)
            self.v_proj_weight = _xavier([embed_dim, value_features], dtype)
        zeros = tensor_of(np.zeros(3 * embed_dim), dtype)
        self.in_proj_bias = Parameter(zeros) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype)
        if self.out_proj.bias is not None:
            self.out_proj.bias = Parameter(tensor_of(np.zeros(embed_dim), dtype))

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attention of queries to values, and the weights of the attention.

        As in PyTorch, True in a bool mask hides a key; a float mask is added to the scores.
        """
        inputs = [as_tensor(x) for x in (query, key, value)]
        batched = inputs[0].ndim == 3
        if not batched:
            inputs = [x.expand_dims(0) for x in inputs]
        elif not self.batch_first:
            inputs = [x.transpose(0, 1) for x in inputs]
        q, k, v = (self._project(x, k) for k, x in enumerate(inputs))
        mask = self._mask(q, k, key_padding_mask, attn_mask, is_causal)
        weights = None
        if need_weights or (self.training and self.dropout):
            weights = self._weights(q, k, mask)
            attended = dropout(weights, self.dropout, self.training) @ v
        else:
            attended = scaled_dot_product_attention(q, k, v, mask)
        batch, _, length, _ = q.shape
        result = self.out_proj(attended.transpose(1, 2).reshape(batch, length, self.embed_dim))
        if weights is not None:
            weights = weights.mean(1) if average_attn_weights else weights
        if not batched:
            result, weights = result[0], None if weights is None else weights[0]
        elif not self.batch_first:
            result = result.transpose(0, 1)
        return result, weights if need_weights else None

    def _project(self, x: Tensor, part: int) -> Tensor:
        """Return queries (part 0), keys (1) or values (2) as (batch, heads, length, features)."""
        rows = slice(part * self.embed_dim, (part + 1) * self.embed_dim)
        if self.in_proj_weight is not None:
            weight: Tensor = self.in_proj_weight[rows]
        else:
            weight = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)[part]
        bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
        batch, length, _ = x.shape
        heads = linear(x, weight, bias).reshape(batch, length, self.num_heads, -1)
        return heads.transpose(1, 2)

    def _weights(self, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
        """Return softmax(q · kᵀ / sqrt(features) + mask)."""
        scores = q @ k.mT * (1 / math.sqrt(self.embed_dim // self.num_heads))
        return softmax(scores if mask is None else scores + mask, axis=-1)

    def _mask(
        self, q: Tensor, k: Tensor, key_padding_mask: Any, attn_mask: Any, is_causal: bool
    ) -> Tensor | None:
        """Return the sum of all masks, as what is added to the scores."""
        if is_causal and attn_mask is None:
            raise PorismError(
                "is_causal=True without attn_mask",
                where=users_line(),
                why="it says that the mask is causal, and there is none",
                fix="pass attn_mask=porism.triu(porism.ones(n, n), 1).astype('bool')",
            )
        mask: Tensor | None = None
        if attn_mask is not None:
            mask = _additive(as_tensor(attn_mask))
            if mask.ndim == 3:  # a mask for each batch and head
                mask = mask.reshape(q.shape[0], self.num_heads, *mask.shape[1:])
        if key_padding_mask is not None:
            hidden = _additive(as_tensor(key_padding_mask))
            hidden = hidden.reshape(-1, 1, 1, k.shape[2])
            mask = hidden if mask is None else mask + hidden
        return mask


def _additive(mask: Tensor) -> Tensor:
    """Return a mask as what is added to the scores: -inf where a bool mask hides a key."""
    return mask if mask.node.dtype.is_float else where(mask, -math.inf, 0.0)


def _xavier(sizes: list[int], dtype: Any) -> Parameter:
    """Return a weight of uniform numbers of variance 2 / (fan-in + fan-out)."""
    bound = math.sqrt(6 / sum(sizes))
    return Parameter(tensor_of(uniform_array(sizes, -bound, bound), dtype))
