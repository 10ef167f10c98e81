"""Rewriting keeps meaning: random graphs are evaluated before and after, bit by bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fuzz.search import search
from porism.base import dtypes
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.node import UOp
from porism.rewrite.graph_rewrite import normalize
from porism.rules.rule_sets import ALGEBRA
from tests import graphs

SCALARS = (dtypes.index, dtypes.boolean, dtypes.i8, dtypes.u8, dtypes.i32, dtypes.f16, dtypes.f32)


def same(before: list[Any], after: list[Any]) -> bool:
    """Equal bit by bit, but that any NaN equals any other."""
    return len(before) == len(after) and all(
        a.shape == b.shape and a.dtype == b.dtype and _same_array(a, b)
        for a, b in zip(before, after, strict=True)
    )


def _same_array(a: Any, b: Any) -> bool:
    if a.dtype == object:
        return bool(np.all(a == b))
    wide_a, wide_b = (x.astype(np.float64) if x.dtype.kind in "fV" else x for x in (a, b))
    if wide_a.dtype.kind != "f":
        return bool(np.array_equal(wide_a, wide_b))
    signs = np.signbit(wide_a) == np.signbit(wide_b)
    equal = (wide_a == wide_b) & signs
    return bool(np.all(equal | (np.isnan(wide_a) & np.isnan(wide_b))))


def value_for(leaf: UOp, data: st.DataObject) -> Any:
    """A value for an open leaf: a number, or an array for a tensor or a pointer."""
    pointer = leaf.dtype.space is not None
    if leaf.op is not ops.PARAM or not (pointer or leaf.src):
        return data.draw(graphs.values(leaf))
    size = leaf.dtype.size if pointer else math.prod(int(dim.vmin) for dim in leaf.src)
    few = data.draw(st.lists(graphs.numbers(leaf.dtype.element), min_size=1, max_size=8))
    with np.errstate(all="ignore"):
        flat = np.resize(np.array(few).astype(leaf.dtype.numpy), size)
    return flat if pointer else flat.reshape([int(dim.vmin) for dim in leaf.src])


def keeps_meaning(root: UOp, data: st.DataObject) -> None:
    inputs = {leaf: value_for(leaf, data) for leaf in graphs.leaves(root)}
    after = normalize(root)
    assert normalize(after) is after, "the normal form has a normal form"
    assert same(evaluate(root, inputs), evaluate(after, inputs))


def expressions(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(SCALARS))
    lanes = data.draw(st.sampled_from((1, 1, 1, 4)))
    keeps_meaning(data.draw(graphs.expressions(dtype.vec(lanes))), data)


def whole_graphs(data: st.DataObject) -> None:
    keeps_meaning(data.draw(graphs.any_graphs()), data)


PROPERTIES = {"expressions": expressions, "graphs": whole_graphs}

if __name__ == "__main__":
    assert len(ALGEBRA)
    search("rewrite", PROPERTIES, __doc__ or "")
