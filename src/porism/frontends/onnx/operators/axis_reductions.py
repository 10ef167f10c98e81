"""Axis reductions: sums, extremes, norms and their indices along axes; scans; sorted selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from porism.frontends.onnx.operator_call import Call, Value
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.tensor_functions import xp


def _axes(call: Call, rank: int) -> tuple[int, ...] | None:
    """Return the axes of a reduction; all by default, None for no reduction at all."""
    axes = call.numbers(1, "axes")
    if not axes:
        if call.integer("noop_with_empty_axes"):
            return None
        return tuple(range(rank))
    return tuple(call.axis(axis, rank) for axis in axes)


def _reduction(
    name: str,
    reduce: Callable[..., Any],
    host: Callable[..., Any] | None = None,
    before: Callable[[Any], Any] | None = None,
    after: Callable[[Any], Any] | None = None,
) -> Operator:
    """Return the row of a reduction, with functions before and after it."""

    def build(call: Call) -> Value:
        x = call.tensor(0)
        axes = _axes(call, x.ndim)
        y = x if before is None else before(x)
        if axes is not None:
            y = reduce(y, axis=axes, keepdims=bool(call.integer("keepdims", 1)))
        y = y if after is None else after(y)
        return y.astype(x.dtype)

    def on_host(call: Call) -> Value:
        assert host is not None
        x = call.host(0)
        axes = _axes(call, x.ndim)
        if axes is None:
            return x
        if not x.size:
            return (build(call),)
        return np.asarray(host(x, axis=axes, keepdims=bool(call.integer("keepdims", 1))), x.dtype)

    return Operator(name, build, host=None if host is None else on_host)


def _sum(x: Value, **where: Any) -> Value:
    return xp.sum(x, **where)


def _mean(x: Value, axis: tuple[int, ...], keepdims: bool) -> Value:
    return xp.mean(x, axis=axis, keepdims=keepdims)


def _extreme(name: str, worst: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a reduction to the largest or smallest element, also of no elements and of bools."""

    def reduce(x: Value, axis: tuple[int, ...], keepdims: bool) -> Value:
        if x.dtype is xp.bool:
            return getattr(xp, "any" if name == "max" else "all")(x, axis=axis, keepdims=keepdims)
        if any(x.shape[k] == 0 for k in axis):
            kept = [
                1 if k in axis else n for k, n in enumerate(x.shape) if keepdims or k not in axis
            ]
            return xp.full(tuple(kept), worst(x), dtype=x.dtype)
        return getattr(xp, name)(x, axis=axis, keepdims=keepdims)

    return reduce


def _lowest(x: Value) -> Any:
    return -np.inf if x.dtype.base.is_float else x.dtype.base.min


def _highest(x: Value) -> Any:
    return np.inf if x.dtype.base.is_float else x.dtype.base.max


def _argument(name: str) -> Operator:
    """Return the row of ArgMax or ArgMin."""

    def build(call: Call) -> Value:
        x = call.tensor(0)
        axis = call.axis(call.integer("axis", 0), x.ndim)
        keepdims = bool(call.integer("keepdims", 1))
        function = xp.argmax if name == "ArgMax" else xp.argmin
        if not call.integer("select_last_index"):
            return function(x, axis=axis, keepdims=keepdims)
        last = x.shape[axis] - 1
        return last - function(xp.flip(x, axis=axis), axis=axis, keepdims=keepdims)

    return Operator(name, build)


# -- scans -----------------------------------------------------------------------------------------


def _scan(name: str, function: str) -> Operator:
    """Return the row of CumSum or CumProd."""

    def build(call: Call) -> Value:
        x = call.tensor(0)
        axis = call.axis(int(call.scalar(1)), x.ndim)
        reverse = bool(call.integer("reverse"))
        y = xp.flip(x, axis=axis) if reverse else x
        if call.integer("exclusive"):
            neutral = 0 if name == "CumSum" else 1
            pads = [(1, -1) if k == axis else (0, 0) for k in range(x.ndim)]
            y = xp.pad(y, pads, value=neutral)
        y = getattr(xp, function)(y, axis=axis).astype(x.dtype)
        return xp.flip(y, axis=axis) if reverse else y

    return Operator(name, build)


# -- sorted selection ------------------------------------------------------------------------------


def _top_k(call: Call) -> Value:
    x = call.tensor(0)
    k = int(call.scalar(1)) if call.has(1) else call.integer("k")
    axis = call.axis(call.integer("axis", -1), x.ndim)
    if not 0 <= k <= x.shape[axis]:
        raise call.error(f"TopK of {k} among {x.shape[axis]}", "there are not so many elements")
    values, indices = xp.topk(x, k, axis=axis, largest=bool(call.integer("largest", 1)))
    return values, indices


def _lp_normalization(call: Call) -> Value:
    x = call.tensor(0)
    axis, order = call.integer("axis", -1), call.integer("p", 2)
    if order == 1:
        norm = xp.sum(xp.abs(x), axis=axis, keepdims=True)
    else:
        norm = xp.sqrt(xp.sum(x * x, axis=axis, keepdims=True))
    return xp.where(norm == 0, 0, x / norm).astype(x.dtype)


def _log_sum_exp(x: Value, axis: tuple[int, ...], keepdims: bool) -> Value:
    wide = x if x.dtype.base.is_float else x.astype("float64")
    if any(x.shape[k] == 0 for k in axis):
        return xp.log(xp.sum(xp.exp(wide), axis=axis, keepdims=keepdims))
    return xp.logsumexp(wide, axis=axis, keepdims=keepdims)


def _in_float(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(x if x.dtype.base.is_float else x.astype("float64"))


OPERATORS: Final = (
    _reduction("ReduceSum", _sum, np.sum),
    _reduction("ReduceMean", _mean),
    _reduction("ReduceProd", lambda x, **where: xp.prod(x, **where), np.prod),
    _reduction("ReduceMax", _extreme("max", _lowest), lambda x, **where: np.max(x, **where)),
    _reduction("ReduceMin", _extreme("min", _highest), lambda x, **where: np.min(x, **where)),
    _reduction("ReduceL1", _sum, before=lambda x: xp.abs(x)),
    _reduction("ReduceL2", _sum, before=lambda x: x * x, after=_in_float(lambda y: xp.sqrt(y))),
    _reduction("ReduceLogSum", _sum, after=_in_float(lambda y: xp.log(y))),
    _reduction("ReduceLogSumExp", _log_sum_exp),
    _reduction("ReduceSumSquare", _sum, before=lambda x: x * x),
    _argument("ArgMax"),
    _argument("ArgMin"),
    _scan("CumSum", "cumsum"),
    _scan("CumProd", "cumprod"),
    Operator("TopK", _top_k),
    Operator("LpNormalization", _lp_normalization),
)
"""The rows of this module."""
