"""NaN origins: with the setting `nan`, the first operation that makes a NaN is named.

Every computation is checked when it has run. If a result has a NaN, the values in between are
computed once more, and the first of them that has one is reported, with the user's line that made
it. For that the line of every tensor is recorded as it is made; all this is loaded only with the
setting.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from porism.base.errors import PorismError
from porism.base.weak_tables import WeakKeys
from porism.engine.run import realize as engine
from porism.engine.run.buffer_storage import find_storage, host_array_of, realized_buffer
from porism.gradient.stated_pullbacks import has_pullbacks, stated_value
from porism.ir import ops
from porism.ir.facts.node_shape import shape
from porism.ir.node import UOp
from porism.ir.traversal import substitute, toposort
from porism.tensor.jit import replay
from porism.tensor.jit.tracing import current
from porism.tensor.shapes import to_text
from porism.tensor.tensor import Tensor
from porism.tensor.user_line import is_inside, users_line

INTERNAL: Final = ("call", "dispatch", "method", "wrapped", "wrapper")
"""Functions of Porism around those that users call."""

MOST_ORIGINS: Final = 200_000
"""Nodes whose lines are recorded; chosen by hand. When there are more, all are forgotten."""

MOST_ELEMENTS: Final = 1 << 26
"""Elements of a value that is computed again to find a NaN; chosen by hand."""

FIX: Final = (
    "look at what it was given: logarithms and roots of negative numbers, 0 / 0, inf - inf and "
    "0 * inf are NaN, and so is the gradient of a square root at 0 times 0"
)


class NanError(PorismError):
    """A computation has made a NaN, and the setting `nan` asks to be told."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a tensor was made."""

    function: str
    """The function of Porism that made it, and the one that the user called, if another."""
    line: str | None


_origins: Final[WeakKeys[UOp, Origin]] = WeakKeys()
"""Where nodes were made. It keeps none alive: a node that is alive keeps values in memory."""
_recent: Final[list[UOp]] = []
"""Nodes that were made since values were last checked: gradients no longer refer to all of them."""
_traced: Final[list[UOp]] = []
"""Nodes that were made while functions were traced: they have no values."""
_searching = False
"""Whether values are computed only to find a NaN."""


@contextmanager
def naming_nans() -> Iterator[None]:
    """Check every computation in the `with` block."""
    original = Tensor.__init__
    install()
    try:
        yield
    finally:
        Tensor.__init__ = original  # type: ignore[method-assign]
        engine.value_checks.remove(check_values)
        replay.value_checks.remove(check_call)
        _forget()


def _forget() -> None:
    """Forget where nodes were made."""
    for table in (_origins, _recent, _traced):
        table.clear()


def install() -> None:
    """Record the lines of tensors from now on, and check every computation."""
    if check_values in engine.value_checks:
        return
    original = Tensor.__init__

    def record(self: Tensor, data: Any, dtype: Any = None) -> None:
        original(self, data, dtype)
        if type(data) is UOp and data.op is not ops.BUFFER and _origins.get(data) is None:
            if len(_origins) >= MOST_ORIGINS:
                _forget()
            _origins[data] = _origin()
            (_recent if current.get() is None else _traced).append(data)

    Tensor.__init__ = record  # type: ignore[method-assign]
    engine.value_checks.append(check_values)
    replay.value_checks.append(check_call)


def _origin() -> Origin:
    """Return the functions and the line that make a tensor just now."""
    names = []
    frame = sys._getframe(2)
    while frame.f_back is not None and is_inside(frame.f_code.co_filename):
        name = frame.f_code.co_name
        if not name.startswith(("_", "<")) and name not in INTERNAL:
            names.append(name)
        frame = frame.f_back
    inner, outer = (names[0], names[-1]) if names else ("an operator", "an operator")
    return Origin(inner if inner == outer else f"{inner}, in {outer},", users_line())


# -- checks ----------------------------------------------------------------------------------------


def check_values(nodes: Sequence[UOp], buffers: Sequence[UOp]) -> None:
    """Raise a NanError if a value that was computed has a NaN."""
    if _searching:
        return
    if any(_has_nan(buffer) for buffer in buffers):
        raise _error(nodes, {})
    _recent.clear()


def check_call(
    roots: Sequence[UOp], given: Mapping[UOp, UOp], outputs: Sequence[tuple[Any, int]]
) -> None:
    """Raise a NanError if an output of a jitted call has a NaN; `given` maps placeholders."""
    if any(_is_nan(array) for array, _ in outputs):
        raise _error(roots, given)
    _recent.clear()


def _has_nan(buffer: UOp) -> bool:
    return buffer.dtype.is_float and _is_nan(host_array_of(buffer))


def _is_nan(array: Any) -> bool:
    if array.dtype.kind not in "fV":
        return False
    return bool(np.isnan(array if isinstance(array, np.ndarray) else array.to_host()).any())


def _error(roots: Sequence[UOp], given: Mapping[UOp, UOp]) -> NanError:
    """Return the error for a computation that has a NaN, which says where that comes from."""
    global _searching
    _searching = True
    try:
        return _search(roots, given)
    finally:
        _searching = False


def _search(roots: Sequence[UOp], given: Mapping[UOp, UOp]) -> NanError:
    erased = _erase(roots)
    order = toposort(*erased, within=lambda n: n.op is not ops.BUFFER)
    inputs = dict.fromkeys(s for n in order for s in n.src if s.op is ops.BUFFER)
    for node in inputs:
        buffer = realized_buffer(given.get(node, node))
        if buffer is not None and find_storage(buffer) is not None and _has_nan(buffer):
            return NanError(
                f"a tensor of shape {to_text(int(d.arg) for d in buffer.src)} has NaNs",
                where=users_line(),
                why="a computation was given it, and its result has NaNs too",
                fix="look at where the data come from",
            )
    recorded = _origins.items()
    erased_nodes = _erase([node for node, _ in recorded])
    origin_of = {n: origin for n, (_, origin) in zip(erased_nodes, recorded, strict=True)}
    steps = [n for n in order if n in origin_of and _is_small_float(n)]
    bad, fine = _first_nan([*steps, *erased], given)
    if bad is None:
        return _nan_error(origin_of.get(erased[0]), None, None)
    inside = toposort(bad, within=lambda n: n.op is not ops.BUFFER and n not in fine)
    found, _ = _first_nan([n for n in inside if _is_small_float(n)], given)
    first = bad if found is None else found
    near = _nearest(first, fine, origin_of)
    return _nan_error(origin_of.get(bad, near), near, first)


def _nearest(bad: UOp, fine: Iterable[UOp], origin_of: Mapping[UOp, Origin]) -> Origin | None:
    """Return the origin of a value without NaNs that a node is computed from."""
    below = set(toposort(bad))
    near = next((n for n in reversed(list(fine)) if n in below), None)
    return None if near is None else origin_of.get(near)


def _nan_error(origin: Origin | None, near: Origin | None, node: UOp | None) -> NanError:
    """Return the error for a NaN of some origin, which is computed from what `near` has made."""
    function = "a computation" if origin is None else origin.function
    made = "" if node is None else f", by {node.op.name}"
    why = "its result has NaNs, and nothing that it was given has"
    if near is not None and near != origin:
        why += f"; it is computed from the result of {near.function} {near.line}"
    return NanError(
        f"{function} made the first NaN{made}",
        where=users_line() if origin is None else origin.line,
        why=why,
        fix=FIX,
    )


def _is_small_float(node: UOp) -> bool:
    """Return whether a node has floats, and not too many, that are computed."""
    if not node.dtype.is_float or node.op in (ops.CONST, ops.BUFFER, ops.EXPAND):
        return False
    count = 1
    for dim in shape(node):
        count *= int(dim.vmax)
    return count <= MOST_ELEMENTS


def _first_nan(
    nodes: Sequence[UOp], given: Mapping[UOp, UOp]
) -> tuple[UOp | None, dict[UOp, None]]:
    """Return the first node with a NaN, and those before it, which have none."""
    unique = list(dict.fromkeys(nodes))
    if not unique:
        return None, {}
    filled = substitute(ops.SINK(*unique), dict(given)).src
    fine: dict[UOp, None] = {}
    for node, buffer in zip(unique, engine.realize(list(filled)), strict=True):
        if _has_nan(buffer):
            return node, fine
        fine[node] = None
    return None, fine


def _erase(nodes: Sequence[UOp]) -> list[UOp]:
    """Return nodes without what was stated of their derivatives."""
    if not has_pullbacks():
        return list(nodes)
    from porism.pipeline import ERASE

    stated = [stated_value(node) for node in nodes]
    return list(ERASE(stated, lambda node: node.op is ops.BUFFER))
