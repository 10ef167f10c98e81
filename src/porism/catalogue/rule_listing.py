"""The rule listing: every rule, lemma, procedure, pass and step as data, by topic, with an example.

A topic is a file that declares some of them. `porism rules` prints the listing, `porism rules
--json` writes it as JSON, and docs/rules.md is generated from it. Which stages try a rule, and how
often it fires, is in `porism.catalogue.rule_counts`.
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
from porism.rewrite.rule import Rewrite, Rule, RuleSet, rules_with_words
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
"""All rules, lemmas, procedures and passes."""

STRENGTH: Final = ("proved", "evaluated")
"""The ways to establish a rule, the strongest first."""

NOT_RECORDED: Final = "not recorded"


def chosen(words: Sequence[str]) -> list[Rewrite]:
    """Return the rules whose name contains one of the words; all if there are no words."""
    if not words:
        return list(KNOWN)
    wanted = {item.name for word in words for item in rules_with_words(KNOWN, [word])}
    return [item for item in KNOWN if item.name in wanted]


# -- rows ------------------------------------------------------------------------------------------


def rows(words: Sequence[str] = ()) -> list[Row]:
    """Return a row for each rule whose name contains one of the words, and for `commute`."""
    listed = [row(item) for item in chosen(words)]
    if not words or any(word in COMMUTE for word in words):
        listed.append(step_row())
    return listed


def row(item: Rewrite) -> Row:
    """Return a rule or procedure as data; `established` and `example` are None if not recorded.

    `tried` are the stages that try it, and `fired` is how often it fired on the corpus; if it did
    not, `idle` is the reason why it is kept. No stage tries a lemma.
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
    """Return a row for the step that sorts operands, which the lemmas of commutativity justify."""
    lemmas = [row(item) for item in ORDER_LEMMAS]
    known = all(lemma["established"] for lemma in lemmas)
    return {
        "name": COMMUTE,
        "kind": "step",
        "before": None,
        "after": "Put the operands of a commutative op in order, constants last.",
        "when": None,
        "theory": list(dict.fromkeys(theory for lemma in lemmas for theory in lemma["theory"])),
        "fast_math": None,
        "seeds": [seed for seed, step in STEPS.items() if step == COMMUTE],
        "established": weakest(lemma["established"] for lemma in lemmas) if known else None,
        "example": None,
        "tried": [rule_counts.EVERY_NODE],
        "fired": None,
        "idle": None,
    }


def weakest(methods: Iterable[str]) -> str:
    """
    >>> weakest(["proved", "evaluated", "proved"])
    'evaluated'
    """
    return max(methods, key=STRENGTH.index)


def established(name: str) -> str:
    """Return how the rule of this name is established; "" if there is no such rule."""
    if name == COMMUTE:
        return step_row()["established"] or NOT_RECORDED
    item = next((item for item in KNOWN if item.name == name), None)
    return "" if item is None else row(item)["established"] or NOT_RECORDED


# -- by topic --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Topic:
    """A file that declares rules."""

    name: str
    title: str
    about: str
    file: str
    """Its path in the package."""
    items: tuple[Rewrite, ...]


@cache
def topics() -> tuple[Topic, ...]:
    """Return every file that declares rules, in the order of the catalogue."""
    homes = _homes()
    stray = [item.name for item in KNOWN if item.name not in homes]
    assert not stray, f"rules of no topic: {', '.join(stray)}"
    by_module: dict[ModuleType, list[Rewrite]] = {}
    for item in KNOWN:
        by_module.setdefault(homes[item.name], []).append(item)
    return tuple(
        Topic(_name(module), *_described(module), _file(module), tuple(items))
        for module, items in by_module.items()
    )


def _file(module: ModuleType) -> str:
    return module.__name__.removeprefix("porism.").replace(".", "/") + ".py"


def _name(module: ModuleType) -> str:
    """Return the name of a topic: that of its module, which is unique."""
    return module.__name__.rpartition(".")[2]


def _homes() -> dict[str, ModuleType]:
    """Map each rule to the module that declares it: that of the smallest set with the rule."""
    homes: dict[str, ModuleType] = {}
    sizes: dict[str, int] = {}
    names = [kernel_passes.__name__] + [
        info.name
        for package in (rules, lower, schedule)
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
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
    """Return the title of a topic and a sentence about it, from the first line of its file."""
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
        known = ", ".join(topic.name for topic in topics())
        raise PorismError(f"there is no topic {name!r}", fix=f"one of: {known}")
    width = max(len(item.name) for item in topic.items)
    for item in topic.items:
        print(f"{item.name:<{width}}  {example(item)}".rstrip())
