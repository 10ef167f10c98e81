"""Rules, procedures and rule sets: rewrites as data.

`rule(name, before, after, when=…)` states an equality. `@procedure` wraps a function for what no
equation can say. A `RuleSet` gives rules their theory, keeps their order, and adds up with `+`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from porism.base.dtypes import Kind, Theory
from porism.base.errors import PorismError, RuleError
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.rewrite import terms

_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Rule:
    """An equality: where `before` matches and `when` holds, `after` may replace it."""

    name: str
    before: UOp
    after: UOp
    when: UOp | None = None
    theories: tuple[Theory, ...] = ()
    seeds: tuple[str, ...] = ()
    fast_math: str = ""  # how it changes float results, if it does
    lemma: bool = False  # procedures and the normal form rest on it: proved, but not applied
    grows: bool = False  # applied only where a target lacks its op, so it need not shrink

    @property
    def op(self) -> Op:
        """Return the op at the root of `before`."""
        return self.before.op

    def __str__(self) -> str:
        guard = "" if self.when is None else f"  when {show(self.when, limit=200)}"
        return f"{show(self.before, limit=200)} -> {show(self.after, limit=200)}{guard}"


@dataclass(frozen=True, slots=True)
class Procedure:
    """A rewrite that needs a loop or a context: a function from a node to a node or None."""

    name: str
    function: Callable[..., UOp | None]
    ops: tuple[Op, ...]
    doc: str
    theories: tuple[Theory, ...] = ()
    seeds: tuple[str, ...] = ()
    fast_math: str = ""
    on_sources: bool = False  # called with (op, dtype, src, arg), before the node is made
    with_context: bool = False  # called with the context of the pass as second argument
    only: Callable[[tuple[Op | None, ...]], bool] | None = None  # filter by the ops of the sources


Rewrite = Rule | Procedure


def rule(
    name: str,
    before: UOp,
    after: UOp | bool | int | float,
    when: UOp | None = None,
    *,
    seeds: str | Iterable[str] = (),
    fast_math: str = "",
) -> Rule:
    """Return the rule for an equality, after checking that it is well formed.

    >>> from porism.rewrite.terms import c0, hi, lo, x
    >>> print(rule("mod-small", x % c0, x, when=(lo(x) >= 0) & (hi(x) < c0)))
    x % c0 -> x  when (lo(x) >= 0) & (hi(x) < c0)
    """
    if not isinstance(before, UOp):
        raise _malformed(name, f"its left side is {before!r}, not a term")
    if not isinstance(after, UOp):
        after = UOp.const(before.dtype, after)
    if when is not None and not isinstance(when, UOp):
        raise _malformed(name, f"its guard is {when!r}, not a condition on constants and facts")
    new = Rule(name, before, after, when, (), _seed_rows(seeds), fast_math)
    _check(new)
    return new


def _seed_rows(seeds: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(seeds.split()) if isinstance(seeds, str) else tuple(seeds)


def family(
    name: str,
    members: Iterable[Any],
    declare: Callable[[Any], tuple[Any, ...]],
    *,
    seeds: str | Iterable[str] = (),
    **options: Any,
) -> tuple[Rule, ...]:
    """Return a rule for each op: `declare(op)` gives before, after and perhaps when.

    >>> from porism.rewrite.terms import x
    >>> [r.name for r in family("{op}-self", (ops.AND, ops.OR), lambda op: (op(x, x), x))]
    ['and-self', 'or-self']
    """
    return tuple(
        rule(name.format(op=_lower_name(member)), *declare(member), seeds=seeds, **options)
        for member in members
    )


def _lower_name(member: Any) -> str:
    return str(getattr(member, "name", member)).lower()


def procedure(
    name: str,
    roots: Iterable[Op],
    *,
    seeds: str | Iterable[str] = (),
    fast_math: str = "",
    on_sources: bool = False,
    with_context: bool = False,
    only: Callable[[tuple[Op | None, ...]], bool] | None = None,
) -> Callable[[Callable[..., UOp | None]], Procedure]:
    """Return a decorator for a function that rewrites nodes with one of these ops."""

    def declare(function: Callable[..., UOp | None]) -> Procedure:
        doc = (function.__doc__ or "").strip().split("\n")[0]
        if not _NAME.fullmatch(name):
            raise _malformed(name, "names are words of small letters and digits, with hyphens")
        if not doc and sys.flags.optimize < 2:  # `python -OO` leaves docstrings out
            raise _malformed(name, "a procedure's docstring says what it does")
        return Procedure(
            name, function, tuple(roots), doc, (), _seed_rows(seeds), fast_math,
            on_sources, with_context, only,
        )  # fmt: skip

    return declare


@dataclass(frozen=True)
class RuleSet:
    """A named sequence of rules and procedures, tried in this order."""

    name: str
    rules: tuple[Rewrite, ...]
    doc: str = ""
    compiled: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def __init__(
        self,
        name: str,
        *,
        theory: Theory | Iterable[Theory] = (),
        rules: Iterable[Rewrite | Iterable[Rewrite]] = (),
        doc: str = "",
        lemmas: bool = False,
        grows: bool = False,
    ) -> None:
        theories = (theory,) if isinstance(theory, Theory) else tuple(theory)
        flat: list[Rewrite] = []
        for item in rules:
            parts = (item,) if isinstance(item, (Rule, Procedure)) else tuple(item)
            flat += [replace(part, theories=theories) if theories else part for part in parts]
        if lemmas or grows:
            flat = [
                replace(part, lemma=lemmas, grows=grows) if isinstance(part, Rule) else part
                for part in flat
            ]
        names = [item.name for item in flat]
        for item in flat:
            if not item.theories:
                raise _malformed(item.name, f"the rule set {name!r} gives it no theory")
            if names.count(item.name) > 1:
                raise _malformed(item.name, f"the rule set {name!r} has two rules of this name")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "rules", tuple(flat))
        object.__setattr__(self, "doc", doc)
        object.__setattr__(self, "compiled", {})

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(f"{self.name} + {other.name}", rules=self.rules + other.rules)

    def __iter__(self) -> Iterator[Rewrite]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, name: str) -> Rewrite:
        for item in self.rules:
            if item.name == name:
                return item
        raise KeyError(name)

    def __hash__(self) -> int:
        return id(self)


# -- well-formedness -------------------------------------------------------------------------------


def _malformed(name: str, why: str, rule: Rule | None = None, fix: str | None = None) -> RuleError:
    where = None if rule is None else str(rule)
    return RuleError(f"the rule {name!r} is malformed", where=where, why=why, fix=fix)


def _check(new: Rule) -> None:
    if not _NAME.fullmatch(new.name):
        raise _malformed(new.name, "names are words of small letters and digits, with hyphens")
    if new.before.op in (ops.HOLE, ops.CONST):
        raise _malformed(new.name, "its left side matches any node", new)
    if new.before.dtype is not new.after.dtype:
        why = f"its sides have different types, {new.before.dtype} and {new.after.dtype}"
        raise _malformed(new.name, why, new)
    if new.before is new.after:
        raise _malformed(new.name, "its two sides are the same", new)
    bound = set(terms.holes_of(new.before))
    for side, term in (("its right side", new.after), ("its guard", new.when)):
        if term is None:
            continue
        unbound = sorted(h.arg for h in terms.holes_of(term) if h not in bound)
        if unbound:
            names = ", ".join(unbound)
            raise _malformed(
                new.name,
                f"{side} uses {names}, which the left side does not bind",
                new,
                f"let {names} occur on the left side",
            )
    _check_left(new)
    _check_numbers(new)
    if new.when is not None:
        for part in terms.conjuncts(new.when):
            if part.dtype is not terms.B:
                raise _malformed(new.name, f"a part of its guard is no condition: {show(part)}")
        if not terms.is_value(new.when):
            raise _malformed(
                new.name,
                "its guard uses a node as a number",
                new,
                "speak of lo(x), hi(x) and other facts; see porism.rewrite.terms.FACTS",
            )


def _check_left(new: Rule) -> None:
    for node in toposort(new.before):
        if node.op is ops.FACT:
            raise _malformed(new.name, "facts belong into the guard, not into the left side", new)
        if node.dtype.element.kind is not Kind.SCHEMA and node.dtype.kind is not Kind.VOID:
            raise _malformed(
                new.name,
                f"{show(node)} has the type {node.dtype}; a rule is for any type of its theory",
                new,
                "build the term from holes and literals of porism.rewrite.terms",
            )


def _check_numbers(new: Rule) -> None:
    """Check that guard and right side compute only what is known when the rule fires."""
    bound = set(toposort(new.before))
    pending = list(terms.values_of(new.after)) + list(terms.conjuncts(new.when))
    while pending:
        node = pending.pop()
        if node.op is ops.FACT:
            on_nodes = terms.FACTS[node.arg].on_nodes
            for s in node.src:
                if on_nodes and s not in bound:
                    why = f"{show(node)} asks about a term that the left side does not have"
                    raise _malformed(new.name, why, new, "ask about the holes of the term")
                if not on_nodes and not terms.is_value(s):
                    why = f"{show(node)} uses a node as a number"
                    raise _malformed(new.name, why, new)
            pending += () if on_nodes else node.src
        elif node.src and node.op not in terms.VALUE_OPS:
            known = ", ".join(op.name for op in terms.VALUE_OPS)
            why = f"{node.op.name} cannot be computed on constants: {show(node)}"
            raise _malformed(new.name, why, new, f"known: {known}")
        else:
            pending += node.src


def rules_of_theory(rules: Iterable[Rewrite], theory: Theory) -> list[Rewrite]:
    """Return the rules that hold in a theory."""
    return [item for item in rules if theory in item.theories]


def rules_with_words(rules: Iterable[Rewrite], words: Iterable[str]) -> list[Rewrite]:
    """Return the rules whose name contains each of the words; raise if there is none."""
    wanted = list(words)
    matching = [item for item in rules if all(word in item.name for word in wanted)]
    if not matching:
        raise PorismError(
            f"no rule's name contains {' '.join(wanted)!r}", fix="list the names without words"
        )
    return matching
