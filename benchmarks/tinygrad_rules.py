"""The project's rules, written for tinygrad: made from the same declarations, so both run the same.

Each rule becomes a pattern and a function as one would write them by hand there.
"""

from __future__ import annotations

from typing import Any

from porism.base.dtypes import Theory
from porism.ir import ops
from porism.ir.node import UOp
from porism.rewrite import terms
from porism.rewrite.rule import Rule, RuleSet

NAMES = {"IDIV": "FLOORDIV", "MOD": "FLOORMOD"}
BUILT = ("ADD", "MUL", "IDIV", "MOD")
"""The ops that the measured programs contain."""


def translated(rules: RuleSet) -> list[tuple[Any, Any]]:
    """Pattern and function for each rule on integers over the ops that are measured."""
    from tinygrad.uop.ops import GroupOp, Ops, UPat, exec_alu  # type: ignore[import-not-found]
    from tinygrad.uop.ops import UOp as Node

    names = {"Ops": Ops, "Node": Node, "UPat": UPat, "exec_alu": exec_alu}
    fold = "lambda a: a.const_like(exec_alu(a.op, a.dtype, [s.arg for s in a.src], False))"
    constants = (UPat(Ops.CONST), UPat(Ops.CONST))
    result = [(UPat(GroupOp.Binary, src=constants, name="a"), eval(fold, names))]
    for rule in rules:
        if isinstance(rule, Rule) and Theory.INTEGERS in rule.theories and measured(rule):
            pattern = eval(_pattern(rule.before), names)
            result.append((pattern, eval(_function(rule), names)))
    return result


def measured(rule: Rule) -> bool:
    return rule.op.name in BUILT


def _pattern(term: UOp) -> str:
    if term.op is ops.HOLE:
        kind = "cvar" if terms.is_constant_hole(term) else "var"
        return f"UPat.{kind}({term.arg!r})"
    if term.op is ops.CONST:
        return f"UPat.const({term.arg})"
    inner = ", ".join(_pattern(s) for s in term.src)
    src = f"[{inner}]" if term.op.commutative and term.src[0] is not term.src[1] else f"({inner},)"
    return f"UPat(Ops.{NAMES.get(term.op.name, term.op.name)}, src={src})"


def _function(rule: Rule) -> str:
    names = sorted(h.arg for h in terms.holes_of(rule.before))
    like = next(h.arg for h in terms.holes_of(rule.before) if not terms.is_constant_hole(h))
    body = _build(rule.after, like)
    guard = " and ".join(_value(part) for part in terms.conjuncts(rule.when))
    return f"lambda {', '.join(names)}: {body}" + (f" if {guard} else None" if guard else "")


def _value(term: UOp) -> str:
    if term.op is ops.HOLE:
        return f"{term.arg}.arg"
    if term.op is ops.CONST:
        return repr(term.arg)
    if term.op is ops.FACT:
        fact = terms.FACTS[term.arg]
        text = fact.python.format(*[s.arg if fact.on_nodes else _value(s) for s in term.src])
        return f"({text})"
    return terms.VALUE_OPS[term.op].format(*[_value(s) for s in term.src])


def _build(term: UOp, like: str) -> str:
    if term.op is ops.HOLE:
        return str(term.arg)
    if terms.is_value(term):
        return f"{like}.const_like({_value(term)})"
    inner = ", ".join(_build(s, like) for s in term.src)
    return f"Node(Ops.{NAMES.get(term.op.name, term.op.name)}, {like}.dtype, ({inner},))"
