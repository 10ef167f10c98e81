"""Data-dependent operators: the shape of the result depends on values, so the host computes it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from porism.frontends.onnx.operator_call import Call, Value
from porism.frontends.onnx.operators.operator_table import Operator


def _nonzero(call: Call) -> Value:
    x = call.host(0)
    found = np.nonzero(np.atleast_1d(x))
    return np.array(found, np.int64).reshape(x.ndim, -1)


def _compress(call: Call) -> Value:
    x, condition = call.host(0), call.host(1).astype(bool).ravel()
    axis = call.attribute("axis")
    return np.compress(condition, x, axis=None if axis is None else int(axis))


def _unique(call: Call) -> Value:
    x = call.host(0)
    axis = call.attribute("axis")
    axis = None if axis is None else int(axis)
    flat = x.ravel() if axis is None else x
    values, first, inverse, counts = np.unique(flat, True, True, True, axis=axis)
    inverse = inverse.ravel()
    if not call.integer("sorted", 1):
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        values = np.take(values, order, axis=0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    return (values, *(a.astype(np.int64) for a in (first, inverse, counts)))


def _corners(box: Any, centred: bool) -> tuple[float, float, float, float]:
    """Return the smaller and the larger corner of a box."""
    if centred:
        x, y, width, height = box
        return y - height / 2, x - width / 2, y + height / 2, x + width / 2
    y0, x0, y1, x1 = box
    return min(y0, y1), min(x0, x1), max(y0, y1), max(x0, x1)


def _overlap(boxes: Any, box: Any) -> Any:
    """Return the intersection over union of boxes with one box."""
    y0 = np.maximum(boxes[:, 0], box[0])
    x0 = np.maximum(boxes[:, 1], box[1])
    y1 = np.minimum(boxes[:, 2], box[2])
    x1 = np.minimum(boxes[:, 3], box[3])
    both = np.maximum(y1 - y0, 0) * np.maximum(x1 - x0, 0)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    union = areas + (box[2] - box[0]) * (box[3] - box[1]) - both
    return np.where(union > 0, both / np.where(union > 0, union, 1), 0)


def _non_max_suppression(call: Call) -> Value:
    boxes, scores = call.host(0), call.host(1)
    most = int(call.scalar(2, 0))
    threshold = float(call.scalar(3, 0.0))
    least = float(call.scalar(4, -np.inf)) if call.has(4) else -np.inf
    centred = bool(call.integer("center_point_box"))
    chosen = []
    for batch in range(scores.shape[0]):
        corners = np.array([_corners(box, centred) for box in boxes[batch]], np.float32)
        for kind in range(scores.shape[1]):
            own = scores[batch, kind]
            candidates = np.argsort(-own, kind="stable")
            candidates = candidates[own[candidates] > least]
            kept: list[int] = []
            while len(candidates) and len(kept) < most:
                best, candidates = int(candidates[0]), candidates[1:]
                kept.append(best)
                if len(candidates):
                    candidates = candidates[
                        _overlap(corners[candidates], corners[best]) <= threshold
                    ]
            chosen += [(batch, kind, index) for index in kept]
    return np.array(chosen, np.int64).reshape(-1, 3)


# -- text ------------------------------------------------------------------------------------------


def _string_concat(call: Call) -> Value:
    a, b = np.broadcast_arrays(call.host(0), call.host(1))
    texts = [str(p) + str(q) for p, q in zip(a.ravel(), b.ravel(), strict=True)]
    return np.array(texts, dtype=object).reshape(a.shape)


def _string_split(call: Call) -> Value:
    x = call.host(0)
    delimiter = call.attribute("delimiter") or None
    most = call.integer("maxsplit", -1)
    parts = [str(text).split(delimiter, most) if text else [] for text in x.ravel()]
    width = max((len(p) for p in parts), default=0)
    filled = [p + [""] * (width - len(p)) for p in parts]
    counts = np.array([len(p) for p in parts], np.int64).reshape(x.shape)
    return np.array(filled, dtype=object).reshape(*x.shape, width), counts


OPERATORS: Final = (
    Operator("NonZero", _nonzero),
    Operator("Compress", _compress),
    Operator("Unique", _unique),
    Operator("NonMaxSuppression", _non_max_suppression),
    Operator("StringConcat", _string_concat),
    Operator("StringSplit", _string_split),
)
"""The rows of this module."""
