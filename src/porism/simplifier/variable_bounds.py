"""Bounds: what is known of each variable, given as pairs of ends or as `r=0..n-1`.

An end is a whole number, None where there is none, or the text of an expression over other
variables. A symbolic end becomes a fact, such as `r <= n - 1`, and the variable gets the numbers
between which that expression can lie.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from porism.base import dtypes
from porism.base.errors import ParseError, PorismError
from porism.ir import ops
from porism.ir.node import UOp, raw
from porism.ir.text.argument_text import int_to_text
from porism.ir.traversal import toposort
from porism.simplifier.parser import names_in, parse
from porism.simplifier.tokenizer import KEYWORDS, LIMITS

End = int | str | None
Bounds = Mapping[str, Sequence[End]]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBERED: Final = re.compile(r"\bv([0-9]+)\b")
_FORM: Final = "write a pair of inclusive ends, such as (0, 3), (0, None) or (0, 'n - 1')"
MOST: Final = 100_000
"""As many variables may have bounds."""


class BoundsError(PorismError):
    """Bounds that contradict themselves or are not written as they should be."""


@dataclass(frozen=True, slots=True)
class Box:
    """The variables with what is known of them.

    Inside they are called by their numbers, so that nothing can depend on what they are called.
    """

    variables: Mapping[str, UOp]
    """For each name, the variable that stands for it."""
    ends: Mapping[UOp, tuple[UOp, ...]]
    """For some variables, the facts that state their symbolic ends."""

    def numbered(self) -> list[str]:
        """What the variables are called inside."""
        return [variable.arg[0] for variable in self.variables.values()]

    def named_text(self, text: str) -> str:
        """A text with the names that were given."""
        names = list(self.variables)
        return _NUMBERED.sub(lambda found: names[int(found[1])], text)

    def named_variables(self) -> dict[str, UOp]:
        """For each name, a variable that is called so."""
        return {
            name: raw(ops.VARIABLE, dtypes.index, (), (name, *variable.arg[1:]))
            for name, variable in self.variables.items()
        }

    def facts(self, root: UOp) -> tuple[UOp, ...]:
        """The facts about the variables of an expression, and about those that they lead to."""
        if not self.ends:
            return ()
        found: dict[UOp, None] = {}
        waiting, seen = _variables(root), set[UOp]()
        while waiting:
            variable = waiting.pop()
            if variable not in seen:
                seen.add(variable)
                for fact in self.ends.get(variable, ()):
                    found[fact] = None
                    waiting += _variables(fact)
        return tuple(found)


def _variables(root: UOp) -> list[UOp]:
    return [node for node in reversed(toposort(root)) if node.op is ops.VARIABLE]


def box(bounds: Bounds) -> Box:
    """Variables for names with bounds.

    >>> made = box({"n": (1, 16), "r": (0, "n - 1")})
    >>> (fact,) = made.facts(made.variables["r"])
    >>> made.variables["r"].vmax, fact
    (15, UOp(LE bool v1 <= v0 - 1))
    >>> box({"r": (3, 0)})
    Traceback (most recent call last):
        ...
    porism.simplifier.variable_bounds.BoundsError: no number is within the bounds of 'r'
      where: r = 3 … 0
      why: the lower end is above the upper end
      fix: both ends are inclusive; an empty range needs no index
    """
    if not isinstance(bounds, Mapping):
        raise BoundsError(
            f"bounds are a mapping, not a {type(bounds).__name__}",
            where=_short(bounds),
            fix="write {'r': (0, 3)}",
        )
    if len(bounds) > MOST:
        raise BoundsError(f"bounds for {len(bounds)} variables", why=f"at most {MOST} are allowed")
    texts = {name: _checked(name, ends) for name, ends in bounds.items()}
    numbers = {name: number for number, name in enumerate(texts)}
    variables: dict[str, UOp] = {}
    facts: dict[UOp, tuple[UOp, ...]] = {}
    for name in _in_order(texts):
        low, high = [_end(name, end, variables) for end in texts[name]]
        least, most = _numbers(name, low, high, texts[name])
        variable = _variable(numbers[name], least, most)
        variables[name] = variable
        found = _facts(variable, low, high)
        if found:
            facts[variable] = found
    # In the order in which they were given, which is the order people think of them in.
    ordered = {name: variables[name] for name in texts}
    return Box(ordered, facts)


@lru_cache(1024)
def _variable(number: int, least: int | None, most: int | None) -> UOp:
    """The variable with this number and these bounds."""
    return raw(ops.VARIABLE, dtypes.index, (), (f"v{number}", least, most))


def _checked(name: Any, ends: Any) -> tuple[End, End]:
    """The two ends, as int, text or None."""
    if not _is_name(name):
        why = "it is a word of the language" if name in KEYWORDS else None
        raise BoundsError(
            f"{_short(name)} cannot be the name of a variable",
            why=why or "a name has letters, digits and underscores, and begins with no digit",
        )
    if len(name) > LIMITS.name:
        raise BoundsError(f"a name of {len(name)} characters", why=f"at most {LIMITS.name}")
    pair = ends.__class__ is tuple or ends.__class__ is list
    if not (pair or (isinstance(ends, Sequence) and not isinstance(ends, str))) or len(ends) != 2:
        raise BoundsError(f"the bounds of {name!r} are {_short(ends)}", why="a pair", fix=_FORM)
    low, high = ends
    return _checked_end(name, low), _checked_end(name, high)


def _is_name(name: Any) -> bool:
    if not isinstance(name, str) or name in KEYWORDS:
        return False
    return (name.isidentifier() and name.isascii()) or bool(_NAME.fullmatch(name))


def _checked_end(name: str, end: Any) -> End:
    if end is None or end.__class__ is int or isinstance(end, str):
        return end
    if not isinstance(end, bool):
        try:
            return operator.index(end)
        except TypeError:
            pass
    raise BoundsError(
        f"an end of the bounds of {name!r} is {_short(end)}",
        why="an end is a whole number, None, or the text of an expression",
        fix=_FORM,
    )


def _in_order(texts: Mapping[str, tuple[End, End]]) -> list[str]:
    """Names after those that their ends mention; a circle is an error."""
    if not any(isinstance(end, str) for ends in texts.values() for end in ends):
        return list(texts)
    needs: dict[str, list[str]] = {}
    for name, ends in texts.items():
        mentioned = [names_in(end) for end in ends if isinstance(end, str)]
        needs[name] = [other for names in mentioned for other in names if other in texts]
    order: dict[str, None] = {}
    for first in texts:
        path: dict[str, None] = {}
        stack = [first]
        while stack:
            name = stack[-1]
            if name in order:
                stack.pop()
                continue
            path[name] = None
            waiting = next((other for other in needs[name] if other not in order), None)
            if waiting is None:
                order[name] = None
                del path[name]
                stack.pop()
            elif waiting in path:
                raise _circle([*path][[*path].index(waiting) :])
            else:
                stack.append(waiting)
    return list(order)


def _circle(names: list[str]) -> BoundsError:
    shown = " → ".join([*names[:8], names[0] if len(names) <= 8 else "…"])
    return BoundsError(
        f"the bounds of {names[0]!r} depend on themselves",
        where=shown,
        fix="let one of these variables have ends that mention none of the others",
    )


Known = UOp | int | None
"""An end that was read: a node if it is an expression."""


def _end(name: str, end: End, variables: Mapping[str, UOp]) -> Known:
    """An end, read if it is a text."""
    if not isinstance(end, str):
        return end
    node = parse(end, variables)
    if node.dtype is dtypes.boolean:
        raise ParseError(
            f"an end of the bounds of {name!r} is a condition",
            text=end,
            offset=0,
            why="an end is a number",
        )
    return node


def _numbers(
    name: str, low: Known, high: Known, texts: tuple[End, End]
) -> tuple[int | None, int | None]:
    """The numbers between which a variable with these ends lies."""
    least = _number(low, lower=True)
    most = _number(high, lower=False)
    if least is not None and most is not None and least > most:
        shown = ["" if end is None else _short(end).strip("'") for end in texts]
        raise BoundsError(
            f"no number is within the bounds of {name!r}",
            where=f"{name} = {shown[0]} … {shown[1]}",
            why="the lower end is above the upper end",
            fix="both ends are inclusive; an empty range needs no index",
        )
    return least, most


def _facts(variable: UOp, low: Known, high: Known) -> tuple[UOp, ...]:
    """What the numbers of a variable do not say of its ends."""
    facts = []
    if isinstance(low, UOp) and low.vmin != low.vmax:
        facts.append(raw(ops.GE, None, (variable, low), None))
    if isinstance(high, UOp) and high.vmin != high.vmax:
        facts.append(raw(ops.LE, None, (variable, high), None))
    return tuple(facts)


def _number(end: Known, *, lower: bool) -> int | None:
    if not isinstance(end, UOp):
        return end
    if end.op is ops.CONST:
        return int(end.arg)
    found = end.vmin if lower else end.vmax
    return found if isinstance(found, int) else None


def _short(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        text = int_to_text(value)
    else:
        try:
            text = repr(value)
        except (ValueError, RecursionError):
            text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:59] + "…"


def from_words(words: Iterable[str]) -> dict[str, tuple[End, End]]:
    """Bounds as they are written on the command line.

    >>> from_words(["r=0..3", "v=..2", "n=1..", "k=0..n-1", "s=4"])
    {'r': ('0', '3'), 'v': (None, '2'), 'n': ('1', None), 'k': ('0', 'n-1'), 's': ('4', '4')}
    """
    found: dict[str, tuple[End, End]] = {}
    for word in words:
        name, equals, ends = (part.strip() for part in word.partition("="))
        low, dots, high = (part.strip() for part in ends.partition(".."))
        if not equals or (not dots and not low):
            raise BoundsError(
                f"{_short(word)} gives no bounds",
                why="bounds are written name=low..high, both inclusive",
                fix="write r=0..3, n=1.. with no upper end, k=0..n-1, or s=4 for one value",
            )
        if name in found:
            raise BoundsError(f"{name!r} has bounds twice", where=_short(word))
        found[name] = (low or None, high or None) if dots else (low, low)
    return found
