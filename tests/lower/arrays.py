"""Arrays: operands that are elements of arrays, and checks of a decomposition on all elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from porism.base.dtypes import DType, i32
from porism.base.gpu_targets import H200
from porism.base.target import GENERIC_CPU, Target
from porism.evaluate import evaluate
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.lower.decompose.decompose import decompose
from porism.lower.decompose.decomposition_options import Machine

Array = npt.NDArray[Any]

PLAIN = Machine(target=GENERIC_CPU)
WITHOUT_NATIVE_OPS = replace(H200, native_ops=frozenset())
FUSED = Machine(target=WITHOUT_NATIVE_OPS)
SCALING = Machine(target=replace(WITHOUT_NATIVE_OPS, ops=H200.ops | {"LDEXP"}))
MACHINES = {"plain": PLAIN, "fused": FUSED, "scaling": SCALING}


def operands(count: int, *kinds: DType, lanes: int = 1) -> list[UOp]:
    """Return the elements of PARAMs 0, 1, … in a loop: scalars, or vectors of so many lanes."""
    loop = UOp.range(UOp.const(i32, count // lanes), 0)
    elements = []
    for number, kind in enumerate(kinds):
        memory = UOp(ops.PARAM, kind.pointer(size=count), (), number)
        parts = [memory.index(loop * lanes + k) for k in range(lanes)]
        elements.append(parts[0] if lanes == 1 else ops.VECTORIZE(*parts))
    return elements


def values(node: UOp, arrays: Sequence[Array]) -> Array:
    """Return the values of a graph of operands on these arrays."""
    with np.errstate(all="ignore"):
        result: Array = evaluate(node, dict(enumerate(arrays)))[0]
    return result.reshape(-1)


def same(before: Array, after: Array) -> Array:
    """Return where two results are equal: NaN equals NaN, and the signs of zeros count."""
    if before.dtype.kind in "iub":
        return np.asarray(before == after)
    with np.errstate(invalid="ignore"):  # NaN that signals
        a, b = before.astype(np.float64), after.astype(np.float64)
    numbers = (a == b) & (np.signbit(a) == np.signbit(b))
    return np.asarray(numbers | (np.isnan(a) & np.isnan(b)))


def check(before: UOp, arrays: Sequence[Array], machine: Machine = PLAIN) -> UOp:
    """Return the decomposed graph, after comparing both graphs on all elements."""
    after = decompose(before, machine)
    assert not missing(after, machine.target)
    old, new = values(before, arrays), values(after, arrays)
    assert old.dtype == new.dtype
    wrong = np.flatnonzero(~same(old, new))
    if len(wrong):
        k = int(wrong[0])
        given = [a[k] for a in arrays] if len(old) == len(arrays[0]) else "?"
        raise AssertionError(
            f"{before.op.name} of {before.src[0].dtype} on {given} is {old[k]}, and became {new[k]}"
        )
    safe(after, arrays)
    return after


def missing(root: UOp, target: Target) -> set[str]:
    """Return the names of the ops in a graph that a target lacks."""
    used = {n.op.name for n in toposort(root) if n.op.elementwise}
    return used - target.ops


def safe(root: UOp, arrays: Sequence[Array]) -> None:
    """Check that no division in the graph traps, and no shift or conversion is out of range."""
    for node in toposort(root):
        kind = node.dtype
        if node.op in (ops.CDIV, ops.CMOD):
            x, y = (values(s, arrays) for s in node.src)
            assert (y != 0).all()
            if int(kind.min) < 0:
                assert not ((np.asarray(x) == kind.min) & (y == -1)).any()
        elif node.op in (ops.SHL, ops.SHR):
            amount = values(node.src[1], arrays)
            assert ((amount >= 0) & (amount < kind.bits)).all()
        elif node.op is ops.CAST and kind.is_integer and node.src[0].dtype.is_float:
            x = values(node.src[0], arrays).astype(np.float64)
            assert ((x >= float(kind.min)) & (x < float(int(kind.max) + 1))).all()


def pairs(kind: DType, chosen: Sequence[int] | None = None) -> tuple[Array, Array]:
    """Return all pairs of chosen values of a type; of all values if none are chosen."""
    numbers = range(int(kind.min), int(kind.max) + 1) if chosen is None else chosen
    column = np.array([n % (1 << kind.bits) for n in numbers], np.uint64)
    one = column.astype(f"uint{kind.bits}").view(kind.numpy)
    a, b = np.meshgrid(one, one)
    return a.reshape(-1), b.reshape(-1)


def edges(kind: DType) -> list[int]:
    """Return edge cases of an integer type: near its limits, 0 and powers of two."""
    low, high = int(kind.min), int(kind.max)
    near = [k for base in (low, high, 0, high // 2, low // 2) for k in range(base - 3, base + 4)]
    powers = [s * (1 << k) + d for k in range(kind.bits) for s in (1, -1) for d in (-1, 0, 1)]
    return sorted({k for k in near + powers + [10, 100, 1000, -10, 7, -7] if low <= k <= high})
