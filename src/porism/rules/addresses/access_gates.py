"""Access gates: the mask of an index becomes the gate of its access, which removes INVALID.

    VECTORIZE(WHERE(a, i, INVALID), j)               a mask for all lanes: WHERE((a, true), …)
    INDEX(buffer, WHERE(valid, i, INVALID), gate)    INDEX(buffer, i, gate & valid)
    WHERE(valid, i, INVALID) < n                     i < n
    i // n, where n may be 0                         i // max(n, 1)

A machine computes an index also where the gate is closed. So a divisor that is 0 only there is
replaced by one that is never 0. A comparison or conversion of INVALID has no value: a program does
not use it there, so any value will do.

A gate is closed where an operand of its comparison is INVALID. `VALIDITY` decides that first, while
the masks are still there.
"""

from __future__ import annotations

from typing import Final

from porism.base.dtypes import Kind, Theory
from porism.base.errors import PorismError
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Group
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rewrite_trace import Trace
from porism.rewrite.rule import RuleSet, procedure, rule
from porism.rewrite.terms import hi, literal, lo, maximum, minimum, x, y
from porism.rules.addresses.validity import VALIDITY, is_masked, masked

_COMPARISONS: Final = tuple(op for op in ops.table() if op.group is Group.COMPARISON)


def is_mask(node: UOp) -> bool:
    """Whether a node is INVALID, or WHERE(valid, index, INVALID)."""
    return node.op is ops.INVALID or is_masked(node)


def split_mask(node: UOp) -> tuple[UOp, UOp]:
    """Return the condition under which an index is valid, and the index without its mask."""
    if node.op is ops.INVALID:
        return UOp.const(node.dtype.mask, False), UOp.const(node.dtype, 0)
    if is_masked(node):
        return node.src[0], node.src[1]
    return UOp.const(node.dtype.mask, True), node


def broadcast_condition(condition: UOp, lanes: int) -> UOp:
    """Return a condition with this number of lanes."""
    return condition if condition.dtype.count == lanes else ops.VECTORIZE(*[condition] * lanes)


# -- masks of vectors ------------------------------------------------------------------------------


@procedure(
    "mask-lanes",
    (ops.WHERE, ops.VECTORIZE, ops.CAT, ops.GEP, ops.UNROLL, ops.CONTRACT, ops.AFTER),
    seeds="000.5.P3b",
)
def mask_lanes(node: UOp) -> UOp | None:
    """Merge the masks of lanes into one mask of the vector, with a condition for each lane."""
    if not node.dtype.is_integer:
        return None
    if node.op is ops.WHERE:
        condition, index, other = node.src
        if other.op is not ops.INVALID or condition.dtype.count == node.dtype.count:
            return None
        return masked(broadcast_condition(condition, node.dtype.count), index)
    values, waits = (node.src[:1], node.src[1:]) if node.op is ops.AFTER else (node.src, ())
    if not any(is_mask(s) for s in values):
        return None
    valid, plain = zip(*[split_mask(s) for s in values], strict=True)
    condition = valid[0] if node.op is ops.AFTER else node.op(*valid, arg=node.arg)
    return masked(condition, node.op(*plain, *waits, arg=node.arg))


# -- masks to gates --------------------------------------------------------------------------------


@procedure("index-gate", (ops.INDEX,), seeds="000.5.P3b")
def index_gate(node: UOp) -> UOp | None:
    """Add the masks of the indices to the gate of an access."""
    base, *indices = node.src
    if not any(is_mask(s) for s in indices):
        return None
    has_gate = indices[-1].dtype.kind is Kind.BOOL
    conditions = [indices.pop()] if has_gate else []
    conditions += [split_mask(s)[0] for s in indices if is_mask(s)]
    lanes = max(c.dtype.count for c in conditions)
    gate = broadcast_condition(conditions[0], lanes)
    for condition in conditions[1:]:
        gate = gate & broadcast_condition(condition, lanes)
    return ops.INDEX(base, *[split_mask(s)[1] for s in indices], gate, dtype=node.dtype)


@procedure(
    "mask-off", (*_COMPARISONS, ops.CAST, ops.STORE, ops.LOAD, ops.REDUCE), seeds="000.5.P3b"
)
def mask_off(node: UOp) -> UOp | None:
    """Drop the mask of an index that is used as data."""
    if node.op is ops.CAST and node.dtype.is_integer:
        return None
    src = tuple(split_mask(s)[1] if is_mask(s) else s for s in node.src)
    return None if src == node.src else node.replace(src)


# Division by 0 has no value on index, so the two sides may differ for y = 0. The same then holds of
# modulo, which is x - (x // y) * y.
DIVISOR_LEMMAS = RuleSet(
    "divisor-lemmas",
    theory=Theory.INTEGERS,
    lemmas=True,
    rules=(
        rule("div-by-positive", x // y, x // maximum(y, literal(1)), when=lo(y) >= 0),
        rule("div-by-negative", x // y, x // minimum(y, literal(-1)), when=hi(y) <= 0),
    ),
)


@procedure("index-divisor", (ops.IDIV, ops.MOD, ops.CDIV, ops.CMOD), seeds="000.5.P3b")
def index_divisor(node: UOp) -> UOp | None:
    """Replace a divisor that may be 0, and whose sign is known, by one that is never 0."""
    value, divisor = node.src
    if node.dtype.kind is not Kind.INDEX or not divisor.vmin <= 0 <= divisor.vmax:
        return None
    if divisor.vmin == 0:
        return node.op(value, divisor.maximum(1))
    return node.op(value, divisor.minimum(-1)) if divisor.vmax == 0 else None


MASKS_OUT = RuleSet("masks-out", theory=Theory.STRUCTURE, rules=(mask_lanes,))
GATES = RuleSet("gates", theory=Theory.STRUCTURE, rules=(index_gate, mask_off, index_divisor))

_MASKS_FIRST = VALIDITY + MASKS_OUT


def masks_to_gates(root: UOp, trace: Trace | None = None) -> UOp:
    """Return the graph with gates in place of masks, without INVALID."""
    if not any(_has_work(node) for node in toposort(root)):
        return root
    root = rewrite(root, _MASKS_FIRST, trace=trace)
    _check_masks(root)
    return rewrite(root, GATES, trace=trace)


def _has_work(node: UOp) -> bool:
    """Whether a node is INVALID, or a division by a divisor that may be 0."""
    if node.op in index_divisor.ops:
        return index_divisor.function(node) is not None
    return node.op is ops.INVALID


def _check_masks(root: UOp) -> None:
    """Raise if an access depends on INVALID in another way than by a mask of its own."""
    depends: set[UOp] = set()
    for node in toposort(root):
        if node.op is ops.INDEX:
            for s in node.src[1:]:
                if any(part in depends for part in (split_mask(s) if is_mask(s) else (s,))):
                    raise _hidden_mask_error(node, s)
        elif node.op is not ops.LOAD:
            values = node.src[:1] if node.op is ops.AFTER else node.src
            if node.op is ops.INVALID or any(s in depends for s in values):
                depends.add(node)


def _hidden_mask_error(node: UOp, source: UOp) -> PorismError:
    return PorismError(
        "whether an access happens depends on an index that may be no element",
        where=f"{show(source, limit=200)}, in {show(node, limit=200)}",
        why="INVALID masks a whole index: WHERE(valid, index, INVALID); inside of other values it "
        "does not say which accesses happen",
        fix="put the condition under which the inner index is valid into the gate",
    )
