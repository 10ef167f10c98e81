"""Variable bounds: the interval of each variable, given as a pair of ends or as `r=0..n-1`.

An end is an integer, None where there is none, or the text of an expression over other variables. A
symbolic end becomes a fact, such as `r <= n - 1`, and the variable gets the numeric bounds of that
expression.
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
MOST_VARIABLES: Final = 100_000
"""The most variables that may have bounds; chosen by hand."""


class BoundsError(PorismError):
    """Bounds that contradict themselves or are not written as they should be."""


@dataclass(frozen=True, slots=True)
class Box:
    """The product of the variables' intervals, with the facts about symbolic ends.

    Inside, variables are named v0, v1 … so that no result can depend on the names given.
    """

    variables: Mapping[str, UOp]
    """The variable of each name that was given."""
    ends: Mapping[UOp, tuple[UOp, ...]]
    """The facts that state symbolic ends, by variable."""

    def internal_names(self) -> list[str]:
        """Return the names v0, v1 … of the variables."""
        return [variable.arg[0] for variable in self.variables.values()]

    def named_text(self, text: str) -> str:
        """Return a text with internal names replaced by the names that were given."""
        names = list(self.variables)
        return _NUMBERED.sub(lambda match: names[int(match[1])], text)

    def named_variables(self) -> dict[str, UOp]:
        """Return for each name that was given a variable of that name."""
        return {
            name: raw(ops.VARIABLE, dtypes.index, (), (name, *variable.arg[1:]))
            for name, variable in self.variables.items()
        }

    def facts(self, root: UOp) -> tuple[UOp, ...]:
        """Return the facts about the variables of an expression, and about those in the facts."""
        if not self.ends:
            return ()
        facts: dict[UOp, None] = {}
        pending, visited = _variables(root), set[UOp]()
        while pending:
            variable = pending.pop()
            if variable not in visited:
                visited.add(variable)
                for fact in self.ends.get(variable, ()):
                    facts[fact] = None
                    pending += _variables(fact)
        return tuple(facts)


def _variables(root: UOp) -> list[UOp]:
    """Return the variables of an expression, those nearest to the root first."""
    return [node for node in reversed(toposort(root)) if node.op is ops.VARIABLE]


def box(bounds: Bounds) -> Box:
    """Return the variables with the given bounds.

    >>> known = box({"n": (1, 16), "r": (0, "n - 1")})
    >>> (fact,) = known.facts(known.variables["r"])
    >>> known.variables["r"].vmax, fact
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
    if len(bounds) > MOST_VARIABLES:
        raise BoundsError(
            f"bounds for {len(bounds)} variables", why=f"at most {MOST_VARIABLES} are allowed"
        )
    texts = {name: _checked(name, ends) for name, ends in bounds.items()}
    numbers = {name: number for number, name in enumerate(texts)}
    variables: dict[str, UOp] = {}
    facts: dict[UOp, tuple[UOp, ...]] = {}
    for name in _topological_order(texts):
        low, high = [_end(name, end, variables) for end in texts[name]]
        least, most = _numeric_bounds(name, low, high, texts[name])
        variable = _variable(numbers[name], least, most)
        variables[name] = variable
        symbolic = _facts(variable, low, high)
        if symbolic:
            facts[variable] = symbolic
    # In the order given, which is the order in which results are written.
    ordered = {name: variables[name] for name in texts}
    return Box(ordered, facts)


@lru_cache(1024)
def _variable(number: int, least: int | None, most: int | None) -> UOp:
    """Return the variable of a number, with its bounds."""
    return raw(ops.VARIABLE, dtypes.index, (), (f"v{number}", least, most))


def _checked(name: Any, ends: Any) -> tuple[End, End]:
    """Return the two ends as int, text or None; anything else is an error."""
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
    """Whether something can be the name of a variable."""
    if not isinstance(name, str) or name in KEYWORDS:
        return False
    return (name.isidentifier() and name.isascii()) or bool(_NAME.fullmatch(name))


def _checked_end(name: str, end: Any) -> End:
    """Return an end as int, text or None; anything else is an error."""
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


def _topological_order(texts: Mapping[str, tuple[End, End]]) -> list[str]:
    """Return the names, each after those that its ends mention; a cycle is an error."""
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
            needed = next((other for other in needs[name] if other not in order), None)
            if needed is None:
                order[name] = None
                del path[name]
                stack.pop()
            elif needed in path:
                raise _cycle([*path][[*path].index(needed) :])
            else:
                stack.append(needed)
    return list(order)


def _cycle(names: list[str]) -> BoundsError:
    """Return the error for bounds that depend on themselves."""
    shown = " → ".join([*names[:8], names[0] if len(names) <= 8 else "…"])
    return BoundsError(
        f"the bounds of {names[0]!r} depend on themselves",
        where=shown,
        fix="let one of these variables have ends that mention none of the others",
    )


ParsedEnd = UOp | int | None
"""An end after parsing: a node if it is an expression."""


def _end(name: str, end: End, variables: Mapping[str, UOp]) -> ParsedEnd:
    """Return an end, parsed if it is a text."""
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


def _numeric_bounds(
    name: str, low: ParsedEnd, high: ParsedEnd, texts: tuple[End, End]
) -> tuple[int | None, int | None]:
    """Return the numeric bounds of a variable with these ends; an empty interval is an error."""
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


def _facts(variable: UOp, low: ParsedEnd, high: ParsedEnd) -> tuple[UOp, ...]:
    """Return the facts about symbolic ends that the numeric bounds do not imply."""
    facts = []
    if isinstance(low, UOp) and low.vmin != low.vmax:
        facts.append(raw(ops.GE, None, (variable, low), None))
    if isinstance(high, UOp) and high.vmin != high.vmax:
        facts.append(raw(ops.LE, None, (variable, high), None))
    return tuple(facts)


def _number(end: ParsedEnd, *, lower: bool) -> int | None:
    """Return the least or largest value of an end, if it has one."""
    if not isinstance(end, UOp):
        return end
    if end.op is ops.CONST:
        return int(end.arg)
    bound = end.vmin if lower else end.vmax
    return bound if isinstance(bound, int) else None


def _short(value: Any) -> str:
    """Return a value as text of at most 60 characters, for messages."""
    if isinstance(value, int) and not isinstance(value, bool):
        text = int_to_text(value)
    else:
        try:
            text = repr(value)
        except (ValueError, RecursionError):
            text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:59] + "…"


def from_arguments(arguments: Iterable[str]) -> dict[str, tuple[End, End]]:
    """Return the bounds that arguments of the command line state.

    >>> from_arguments(["r=0..3", "v=..2", "n=1..", "k=0..n-1", "s=4"])
    {'r': ('0', '3'), 'v': (None, '2'), 'n': ('1', None), 'k': ('0', 'n-1'), 's': ('4', '4')}
    """
    bounds: dict[str, tuple[End, End]] = {}
    for argument in arguments:
        name, equals, ends = (part.strip() for part in argument.partition("="))
        low, dots, high = (part.strip() for part in ends.partition(".."))
        if not equals or (not dots and not low):
            raise BoundsError(
                f"{_short(argument)} gives no bounds",
                why="bounds are written name=low..high, both inclusive",
                fix="write r=0..3, n=1.. with no upper end, k=0..n-1, or s=4 for one value",
            )
        if name in bounds:
            raise BoundsError(f"{name!r} has bounds twice", where=_short(argument))
        bounds[name] = (low or None, high or None) if dots else (low, low)
    return bounds
