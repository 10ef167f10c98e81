"""Graph verification: a stage on tensor graphs keeps the values of all tensors.

Both graphs are walked together from their outputs on. Where they differ, the two tensors are
compared element by element, over the same data for what both are computed from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.verification.values import rounding_bounds, synthetic_inputs
from porism.verification.values.element_values import ElementEvaluator
from porism.verification.values.stored_values import sample_addresses
from porism.verification.values.synthetic_inputs import MAX_ELEMENTS, TooLarge

Pair = tuple[UOp, UOp]


def find_difference(before: UOp, after: UOp) -> tuple[int, str | None]:
    """Return how many tensors of two graphs were compared, and what differs, or None."""
    if len(before.src) != len(after.src):
        return 0, f"{len(before.src)} outputs before, {len(after.src)} after"
    count = 0
    for pair, given in _changed_tensors(before, after):
        for round_number in range(synthetic_inputs.ROUNDS):
            try:
                wrong = _compare(pair, given, round_number)
            except TooLarge:
                continue
            if wrong is not None:
                return count, wrong
        count += 1
    return count, None


def _changed_tensors(before: UOp, after: UOp) -> Iterator[tuple[Pair, list[Pair]]]:
    """Yield tensors that differ, each with pairs of corresponding tensors below them."""
    stack = list(zip(before.src, after.src, strict=True))
    seen: set[Pair] = set()
    while stack:
        pair = stack.pop()
        a, b = pair
        if a is b or pair in seen:
            continue
        seen.add(pair)
        if _is_same_operation(a, b):
            stack += zip(a.src, b.src, strict=True)
            continue
        given = [
            (s, other)
            for s in a.src
            if s.shaped and (other := _corresponding_source(b, s)) is not None
        ]
        stack += given
        yield pair, given


def _is_same_operation(a: UOp, b: UOp) -> bool:
    """Return whether two nodes do the same with sources of the same types and shapes."""
    return (
        (a.op, a.arg, a.dtype, len(a.src)) == (b.op, b.arg, b.dtype, len(b.src))
        and all(map(_has_same_form, a.src, b.src))
    )  # fmt: skip


def _has_same_form(a: UOp, b: UOp) -> bool:
    return a is b or (a.dtype is b.dtype and a.shaped == b.shaped and shape(a) == shape(b))


def _corresponding_source(root: UOp, wanted: UOp) -> UOp | None:
    """Return the nearest node below a root that equals, or may correspond to, a given one."""
    level, seen = list(root.src), set(root.src)
    while level:
        for node in level:
            if node is wanted or (
                node.op is wanted.op and node.arg == wanted.arg and node.dtype is wanted.dtype
                and node.shaped and shape(node) == shape(wanted)
            ):  # fmt: skip
                return node
        level = [s for s in dict.fromkeys(s for n in level for s in n.src) if s not in seen]
        seen.update(level)
    return None


def _compare(pair: Pair, given: list[Pair], round_number: int) -> str | None:
    """Return how two tensors differ, on the data of a round; None if they agree."""
    before, after = pair
    variables = synthetic_inputs.variables(pair, round_number)
    sizes = ElementEvaluator({}, variables)
    memory = _synthetic_memory(pair, given, round_number, sizes)
    dims = sizes.dims(before)
    if before.dtype is not after.dtype or sizes.dims(after) != dims:
        return f"{show(before, limit=200)}\nis {show(after, limit=200)}"
    if math.prod(dims) > MAX_ELEMENTS:
        raise TooLarge
    flat = sample_addresses(np.arange(math.prod(dims)))
    indices = np.unravel_index(flat, dims) if dims else ()
    old, new = (ElementEvaluator(memory, variables).value(node, tuple(indices)) for node in pair)
    bounds = [x for x in (old.bound, new.bound) if x is not None]
    bound = None if not bounds else sum(bounds[1:], bounds[0])
    agrees = rounding_bounds.agree(before.dtype.element, old.data, bound, new.data)
    if np.all(agrees):
        return None
    agrees = np.broadcast_to(agrees, flat.shape) if dims else np.asarray(agrees).reshape(1)
    worst = int(np.argmin(agrees))
    x, y = (np.broadcast_to(v.data, flat.shape).reshape(-1)[worst] for v in (old, new))
    return f"element {int(flat[worst])} of {show(before, limit=200)}: {x} before, {y} after"


def _synthetic_memory(
    pair: Pair, given: list[Pair], round_number: int, sizes: ElementEvaluator
) -> dict[UOp, Array]:
    """Return synthetic data for parameters, and the same data for corresponding tensors."""
    memory: dict[UOp, Array] = {}
    for node in toposort(*pair):
        if node.op is ops.PARAM:
            label, size = f"input {node.arg}", math.prod(sizes.dims(node))
            memory[node] = synthetic_inputs.numbers(node.dtype.element, size, round_number, label)
    for number, (a, b) in enumerate(given):
        if a not in memory:
            size = math.prod(sizes.dims(a))
            memory[a] = synthetic_inputs.numbers(
                a.dtype.element, size, round_number, f"value {number}", float(a.vmin), float(a.vmax)
            )
        memory[b] = memory[a]
    return memory
