"""The listing: every rule, lemma, procedure, pass and step as data, by topic, with an example.

A topic is a file that states some of them. `porism rules` prints the listing, `porism rules --json`
writes it out, and the page docs/rules.md is made of it. What is tried by a pass, and how often it
fires, is in `porism.catalogue.rule_counts`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final

from porism import lower, rules, schedule
from porism.base.errors import PorismError
from porism.catalogue import kernel_passes, rule_counts
from porism.ir.text.expression import show
from porism.lower.decompose.decompose import DECOMPOSITIONS
from porism.rewrite.construction import COMMUTE
from porism.rewrite.rule import Rewrite, Rule, RuleSet, checked_names
from porism.rules import proof_record
from porism.rules.algebra.commutativity import (
    BITWISE_COMMUTATIVITY,
    BOOLEAN_COMMUTATIVITY,
    COMMUTATIVITY,
)
from porism.rules.index.index_lemmas import LEMMAS
from porism.rules.rule_sets import EVERYTHING
from porism.rules.seed_rows import STEPS

Row = dict[str, Any]

ORDER_LEMMAS: Final = (*COMMUTATIVITY, *BITWISE_COMMUTATIVITY, *BOOLEAN_COMMUTATIVITY)
KNOWN: Final[tuple[Rewrite, ...]] = (
    *EVERYTHING, *LEMMAS, *ORDER_LEMMAS, *DECOMPOSITIONS, *kernel_passes.PASSES_AND_MOVEMENT,
)  # fmt: skip
"""All that is listed and established."""

STRENGTH: Final = ("proved", "evaluated")
"""How something can be established, the strongest first."""

NOT_RECORDED: Final = "not recorded"


def chosen(words: Sequence[str]) -> list[Rewrite]:
    """The rules and procedures whose name contains one of the words; all if there are no words."""
    if not words:
        return list(KNOWN)
    wanted = {item.name for word in words for item in checked_names(KNOWN, [word])}
    return [item for item in KNOWN if item.name in wanted]


# -- as data ---------------------------------------------------------------------------------------


def rows(words: Sequence[str] = ()) -> list[Row]:
    """A row for each rule whose name contains one of the words, and for the step of the engine."""
    found = [row(item) for item in chosen(words)]
    if not words or any(word in COMMUTE for word in words):
        found.append(step_row())
    return found


def row(item: Rewrite) -> Row:
    """A rule or procedure as data; `established` and `example` are None if not recorded.

    `tried` are the stages that try it, and `fired` says how often it fired on the corpus; if it did
    not, `idle` says why it is kept. A lemma is tried by none.
    """
    entry = proof_record.current_entry(item)
    fired = rule_counts.of(item.name)
    lemma = isinstance(item, Rule) and item.lemma
    if isinstance(item, Rule):
        stated = {
            "kind": "lemma" if lemma else "rule",
            "before": show(item.before),
            "after": show(item.after),
            "when": None if item.when is None else show(item.when),
        }
    else:
        kind = "procedure" if item.ops else "pass"
        stated = {"kind": kind, "before": None, "after": item.doc, "when": None}
    return {
        "name": item.name,
        **stated,
        "theory": [theory.value for theory in item.theories],
        "fast_math": item.fast_math or None,
        "seeds": list(item.seeds),
        "established": None if entry is None else entry.established,
        "example": None if entry is None else entry.example,
        "tried": [] if lemma else list(fired.stages),
        "fired": fired.count or None if lemma else fired.count,
        "idle": None if lemma or fired.count else rule_counts.REASONS.get(item.name),
    }


def step_row() -> Row:
    """The step of the engine that puts operands in order, established by the lemmas of order."""
    found = [row(item) for item in ORDER_LEMMAS]
    known = all(each["established"] for each in found)
    return {
        "name": COMMUTE,
        "kind": "step",
        "before": None,
        "after": "Put the operands of a commutative op in order, constants last.",
        "when": None,
        "theory": list(dict.fromkeys(theory for each in found for theory in each["theory"])),
        "fast_math": None,
        "seeds": [seed for seed, step in STEPS.items() if step == COMMUTE],
        "established": weakest(each["established"] for each in found) if known else None,
        "example": None,
        "tried": [rule_counts.EVERY_NODE],
        "fired": None,
        "idle": None,
    }


def weakest(found: Iterable[str]) -> str:
    """
    >>> weakest(["proved", "evaluated", "proved"])
    'evaluated'
    """
    return max(found, key=STRENGTH.index)


def established(name: str) -> str:
    """How the rule of this name is established; "" for a name that no rule has."""
    if name == COMMUTE:
        return step_row()["established"] or NOT_RECORDED
    item = next((item for item in KNOWN if item.name == name), None)
    return "" if item is None else row(item)["established"] or NOT_RECORDED


# -- by topic --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Topic:
    """A file of rules."""

    name: str
    title: str
    about: str
    file: str
    """Its path in the package."""
    items: tuple[Rewrite, ...]


@cache
def topics() -> tuple[Topic, ...]:
    """Every file that states rules, in the order of the catalogue."""
    homes = _homes()
    stray = [item.name for item in KNOWN if item.name not in homes]
    assert not stray, f"rules of no topic: {', '.join(stray)}"
    found: dict[ModuleType, list[Rewrite]] = {}
    for item in KNOWN:
        found.setdefault(homes[item.name], []).append(item)
    return tuple(
        Topic(_name(module), *_described(module), _file(module), tuple(items))
        for module, items in found.items()
    )


def _file(module: ModuleType) -> str:
    return module.__name__.removeprefix("porism.").replace(".", "/") + ".py"


def _name(module: ModuleType) -> str:
    """The name of a topic: its module, whose name no other has."""
    return module.__name__.rpartition(".")[2]


def _homes() -> dict[str, ModuleType]:
    """The file that states each rule: that of its smallest set, of which others are made."""
    homes: dict[str, ModuleType] = {}
    sizes: dict[str, int] = {}
    names = [kernel_passes.__name__] + [
        found.name
        for package in (rules, lower, schedule)
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    ]
    for name in names:
        module = importlib.import_module(name)
        own = proof_record.top_level_definitions(name)
        sets = [v for name, v in vars(module).items() if isinstance(v, RuleSet) and name in own]
        for item, size in ((item, len(stated)) for stated in sets for item in stated):
            if size < sizes.get(item.name, size + 1):
                homes[item.name], sizes[item.name] = module, size
    return homes


def _described(module: ModuleType) -> tuple[str, str]:
    """The title of a topic, and a sentence about it, from the first line of its file."""
    line = (module.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
    title, colon, about = line.partition(": ")
    if not colon:
        title, about = module.__name__.rpartition(".")[2].replace("_", " ").capitalize(), line
    is_formula = about[1:2] == " " and about[0] != "a"
    return title, about if is_formula else about[:1].upper() + about[1:]


# -- examples --------------------------------------------------------------------------------------


def example(item: Rewrite) -> str:
    """Return the recorded example of a rule, as a line of text; "" if it is not recorded."""
    entry = proof_record.current_entry(item)
    return "" if entry is None else entry.example


def examples(name: str) -> None:
    """Print an example for each rule of a topic.

    >>> examples("minmax")
    max-larger         max(x, y)  =>  y  where 0 <= x <= 3, 4 <= y <= 7
    min-smaller        min(x, y)  =>  x  where 0 <= x <= 3, 4 <= y <= 7
    min-by-negation    -max(-x, -y)  =>  min(x, y)
    max-by-negation    -min(-x, -y)  =>  max(x, y)
    min-by-complement  ~max(~x, ~y)  =>  min(x, y)
    max-by-complement  ~min(~x, ~y)  =>  max(x, y)
    """
    topic = next((topic for topic in topics() if topic.name == name), None)
    if topic is None:
        known = ", ".join(each.name for each in topics())
        raise PorismError(f"there is no topic {name!r}", fix=f"one of: {known}")
    width = max(len(item.name) for item in topic.items)
    for item in topic.items:
        print(f"{item.name:<{width}}  {example(item)}".rstrip())
