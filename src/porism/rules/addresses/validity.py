"""Validity: INVALID, the index of no element, is moved outwards until it masks a whole index.

Afterwards it occurs only as `WHERE(valid, index, INVALID)`, at most once in an index. These rules
come before all others: `0 * WHERE(valid, i, INVALID)` must not become 0, which is the index of an
element.

    WHERE(a, WHERE(b, i, INVALID), INVALID)   WHERE(a & b, i, INVALID)
    WHERE(a, WHERE(b, i, INVALID), j)         WHERE(~a | b, WHERE(a, i, j), INVALID)
    WHERE(a, i, INVALID) + j                  WHERE(a, i + j, INVALID)
    WHERE(WHERE(a, i, INVALID) < n, j, k)     WHERE(a, WHERE(i < n, j, k), INVALID)
    LOAD(INDEX(buffer, INVALID), other)       other, or 0
    STORE(INDEX(buffer, INVALID), value)      NOOP

A comparison with a masked index is INVALID where the index is, but there is no INVALID of booleans
to state that. So such a comparison stays until it is used: by a WHERE on indices, or by a gate,
which is closed where it is INVALID.

An INDEX of an element stays, also with INVALID: it may be the target of a STORE. Later it becomes a
LOAD.
"""

from __future__ import annotations

from typing import Any, Final

from porism.base.dtypes import DType, Theory
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Group, Op
from porism.rewrite.rule import RuleSet, procedure

_FORWARDING: Final = frozenset({ops.WHERE, ops.VECTORIZE, ops.GEP, ops.CAT, ops.CAST, ops.AFTER})
"""Ops whose result may be INVALID since a source is."""
_LOGIC: Final = frozenset({ops.NOT, ops.AND, ops.OR})
MASKED_OPS: Final = tuple(
    op for op in ops.table() if op.elementwise and op.group is not Group.COMPARISON
)
"""Ops whose result is INVALID where an operand is."""


def is_masked(node: UOp) -> bool:
    """Whether a node is WHERE(valid, index, INVALID)."""
    return node.op is ops.WHERE and node.src[2].op is ops.INVALID


def may_be_invalid(node: UOp) -> bool:
    """Whether a node to which these rules have been applied may be INVALID."""
    if node.op is ops.INVALID:
        return True
    if node.op not in _FORWARDING or not node.dtype.is_integer:
        return False
    stack, seen = [node], {node}
    while stack:
        part = stack.pop()
        if part.op is ops.INVALID:
            return True
        if part.op in _FORWARDING:
            for s in part.src:
                if s.dtype.is_integer and s not in seen:
                    seen.add(s)
                    stack.append(s)
    return False


def masked(valid: UOp, index: UOp) -> UOp:
    """Return WHERE(valid, index, INVALID)."""
    return ops.WHERE(valid, index, invalid_index(index.dtype))


def invalid_index(dtype: DType) -> UOp:
    return ops.INVALID(dtype=dtype)


# -- indices ---------------------------------------------------------------------------------------


def _has_mask(signature: tuple[Op | None, ...]) -> bool:
    return ops.WHERE in signature or ops.INVALID in signature


@procedure(
    "invalid-operand",
    tuple(op for op in MASKED_OPS if op is not ops.WHERE),
    seeds="002.13.4 002.13.8",
    on_sources=True,
    only=_has_mask,
)
def invalid_operand(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Move the mask of an operand to the result, which has its type."""
    if any(s.op is ops.INVALID for s in src):
        return invalid_index(dtype)
    for number, s in enumerate(src):
        if is_masked(s):
            inner = (*src[:number], s.src[1], *src[number + 1 :])
            return masked(s.src[0], op(*inner))
    return None


@procedure("invalid-cast", (ops.CAST,), seeds="002.13.3", on_sources=True, only=_has_mask)
def invalid_cast(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Move the mask of a cast's operand to the result."""
    if not dtype.is_integer:
        return None
    if src[0].op is ops.INVALID:
        return invalid_index(dtype)
    if is_masked(src[0]):
        return masked(src[0].src[0], src[0].src[1].cast(dtype))
    return None


@procedure("invalid-choice", (ops.WHERE,), seeds="002.13.1 002.13.2", on_sources=True)
def invalid_choice(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Move the mask of one branch of a WHERE to the result."""
    condition, yes, no = src
    if yes.op is ops.INVALID:
        return yes if no.op is ops.INVALID else masked(~condition, no)
    if is_masked(yes) and yes.src[0].dtype is condition.dtype:
        inner, index, _ = yes.src
        if no.op is ops.INVALID:
            return masked(condition & inner, index)
        return masked(~condition | inner, ops.WHERE(condition, index, no))
    if is_masked(no) and no.src[0].dtype is condition.dtype:
        inner, index, _ = no.src
        return masked(condition | inner, ops.WHERE(condition, yes, index))
    return None


# -- conditions ------------------------------------------------------------------------------------


def split_validity(condition: UOp) -> tuple[UOp, UOp] | None:
    """Split a condition: where it is not INVALID, and the condition without masks.

    None if there is no mask in it.

    `false & x` is false and `true | x` is true whatever x is, also where x is INVALID.
    """
    if condition.op.group is Group.COMPARISON:
        return _split_comparison(condition)
    if condition.op not in _LOGIC:
        return None
    parts = [split_validity(s) for s in condition.src]
    if all(part is None for part in parts):
        return None
    always = UOp.const(condition.dtype, True)
    valid, plain = zip(
        *[(always, s) if v is None else v for v, s in zip(parts, condition.src, strict=True)],
        strict=True,
    )
    without = condition.op(*plain)
    if condition.op is ops.NOT:
        return valid[0], without
    first, second = plain if condition.op is ops.OR else (~plain[0], ~plain[1])
    return valid[0] & valid[1] | valid[0] & first | valid[1] & second, without


def _split_comparison(condition: UOp) -> tuple[UOp, UOp] | None:
    valid: UOp | None = None
    plain = []
    for s in condition.src:
        if s.op is ops.INVALID:
            never = UOp.const(condition.dtype, False)
            return never, never
        if is_masked(s) and s.src[0].dtype is condition.dtype:
            valid = s.src[0] if valid is None else valid & s.src[0]
            plain.append(s.src[1])
        else:
            plain.append(s)
    return None if valid is None else (valid, condition.op(*plain))


@procedure("invalid-condition", (ops.WHERE,), seeds="002.13.6", on_sources=True)
def invalid_condition(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Move the mask of a WHERE's condition to the result."""
    if not dtype.is_integer:
        return None
    split = split_validity(src[0])
    if split is None:
        return None
    valid, condition = split
    return masked(valid, ops.WHERE(condition, *src[1:]))


@procedure("invalid-gate", (ops.INDEX,), seeds="002.13.6", on_sources=True)
def invalid_gate(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Close a gate where its condition is INVALID."""
    split = split_validity(src[-1])  # None of what is no condition
    if split is None:
        return None
    valid, condition = split
    return ops.INDEX(*src[:-1], valid & condition, dtype=dtype)


# -- memory ----------------------------------------------------------------------------------------


def _is_invalid_access(pointer: UOp) -> bool:
    """Whether a pointer, perhaps cast, has an index that is INVALID."""
    while pointer.op is ops.CAST:
        pointer = pointer.src[0]
    return pointer.op is ops.INDEX and any(s.op is ops.INVALID for s in pointer.src[1:])


@procedure("invalid-load", (ops.LOAD,), seeds="002.13.9", on_sources=True)
def invalid_load(op: Op, dtype: DType, src: tuple[UOp, ...], arg: Any) -> UOp | None:
    """Replace a load through INVALID by its alternative value, or by 0."""
    if not _is_invalid_access(src[0]):
        return None
    return src[1] if len(src) > 1 else UOp.const(dtype, 0)


@procedure("invalid-store", (ops.STORE,), seeds="002.13.11")
def invalid_store(node: UOp) -> UOp | None:
    """Drop a store through INVALID."""
    return ops.NOOP() if _is_invalid_access(node.src[0]) else None


# Applied at construction before any other rule: `x * 0` must not drop the mask of an access.
MASKS = RuleSet(
    "masks",
    theory=Theory.STRUCTURE,
    rules=(invalid_operand, invalid_cast, invalid_choice, invalid_condition),
)

ACCESSES = RuleSet(
    "accesses", theory=Theory.STRUCTURE, rules=(invalid_gate, invalid_load, invalid_store)
)

VALIDITY = MASKS + ACCESSES
