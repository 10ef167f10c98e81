"""The command line: one table of commands, and errors printed as their message.

porism version      the version
porism settings     the environment variables and their values
porism ops          every op of the intermediate representation
porism demo         a short tour
porism rules        the rewrite rules, with what each states
porism prove        the proof of every rewrite rule
porism simplify     an index expression made simpler
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from porism import __version__
from porism.base.errors import PorismError
from porism.base.settings import TABLE, settings

if TYPE_CHECKING:
    from porism.rewrite.rule import Rewrite

USER_ERROR: Final = 2
"""The exit status after a mistake of the user."""


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    """For a command that takes no arguments."""


@dataclass(frozen=True, slots=True)
class Command:
    """A word after `porism`. What is heavy or optional is imported inside `run`."""

    name: str
    help: str
    run: Callable[[argparse.Namespace], int]
    """Does it, and gives the exit status."""
    arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments
    """Declares the command's own arguments."""


def _version(options: argparse.Namespace) -> int:
    print(f"porism {__version__}")
    return 0


def _settings_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--page", action="store_true", help="print the page docs/settings.md")


def _settings(options: argparse.Namespace) -> int:
    if options.page:
        print(settings.page(), end="")
        return 0
    width = max(len(setting.variable) for setting in TABLE)
    for setting in TABLE:
        print(f"{setting.variable:<{width}} = {int(setting.value())}")
        print(f"    {setting.doc}")
        print(f"    Allowed: {setting.allowed}. Default: {int(setting.default)}.")
    return 0


def _ops_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--page", action="store_true", help="print the page docs/ops.md")


def _ops(options: argparse.Namespace) -> int:
    from porism.ir import ops, reference

    if options.page:
        print(reference.page(), end="")
        return 0
    for op in ops.table():
        print(f"{op.name:<12} {op.symbol:<8} {op.doc}")
    return 0


def _demo(options: argparse.Namespace) -> int:
    script = Path(__file__).parents[2] / "examples" / "demo.py"
    if not script.is_file():
        raise PorismError(
            "the demo is not here",
            where=str(script),
            why="it belongs to the source tree and is not part of an installed package",
            fix="run './dev demo' in a checkout of the sources",
        )
    sys.argv = [str(script)]
    runpy.run_path(str(script), run_name="__main__")
    return 0


def _rules_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="WORD", help="only rules whose name has one")
    parser.add_argument("--json", action="store_true", help="print all of it as a JSON array")


def _chosen(words: Sequence[str]) -> list[Rewrite]:
    """The rules and procedures whose name contains one of the words; all if there are no words."""
    from porism.rewrite.rule import checked_names
    from porism.rules.algebra import EVERYTHING
    from porism.rules.index.laws import LAWS

    known = [*EVERYTHING, *LAWS]
    if not words:
        return known
    wanted = {item.name for word in words for item in checked_names(known, [word])}
    return [item for item in known if item.name in wanted]


def _described(item: Rewrite) -> dict[str, Any]:
    """A rule or procedure as data."""
    from porism.ir.expression import show
    from porism.rewrite.rule import Rule

    row: dict[str, Any] = {"name": item.name, "kind": "procedure"}
    if isinstance(item, Rule):
        row |= {"kind": "law" if item.law else "rule"}
        row |= {"before": show(item.before), "after": show(item.after)}
        row |= {"when": None if item.when is None else show(item.when)}
        established = "exhaustive" if item.exhaustive is not None else "proved"
    else:
        row |= {"before": None, "after": item.doc, "when": None}
        established = "evaluated"
    return row | {
        "theory": [theory.value for theory in item.theories],
        "fast_math": item.fast_math or None,
        "seeds": list(item.seeds),
        "established": established,
    }


def _rules(options: argparse.Namespace) -> int:
    rows = [_described(item) for item in _chosen(options.words)]
    if options.json:
        print(json.dumps(rows, ensure_ascii=False, indent=1))
        return 0
    for row in rows:
        text = f"{row['before']} -> {row['after']}" if row["before"] else row["after"]
        print(f"{row['name']:<24}{text}")
        indent = " " * 24
        if row["when"]:
            print(f"{indent}when {row['when']}")
        seeds = f"  (seeds: {', '.join(row['seeds'])})" if row["seeds"] else ""
        print(f"{indent}{row['established']} on {', '.join(row['theory'])}{seeds}")
    return 0


def _prove_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="only rules whose name has one; 'bounds' for the bounds of every op",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")


def _prove(options: argparse.Namespace) -> int:
    from porism.prove import report

    words = [word for word in options.words if word != "bounds"]
    rules = [] if options.words and not words else _chosen(words)
    with_bounds = not options.words or len(words) < len(options.words)
    return report.run(rules, with_bounds=with_bounds, json_file=options.json)


def _simplify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "expression", nargs="?", help="in Python syntax, such as '(r*8+v)%%7'; - reads the input"
    )
    parser.add_argument(
        "bounds",
        nargs="*",
        metavar="NAME=LOW..HIGH",
        help="inclusive bounds, such as r=0..3, n=1.. or k=0..n-1",
    )
    parser.add_argument("--explain", action="store_true", help="show each step with its rule")
    parser.add_argument("--c", action="store_true", help="print C instead of Python")
    parser.add_argument(
        "--jsonl",
        metavar="FILE",
        help='simplify every line {"expr": …, "vars": {name: [low, high]}} of FILE; - is the input',
    )


def _simplify(options: argparse.Namespace) -> int:
    from porism.simplifier import command

    return command.run(options)


COMMANDS: Final = (
    Command("version", "print the version", _version),
    Command("settings", "print every setting and its value", _settings, _settings_arguments),
    Command("ops", "print every op of the intermediate representation", _ops, _ops_arguments),
    Command("demo", "a short tour of the compiler", _demo),
    Command("rules", "list the rewrite rules", _rules, _rules_arguments),
    Command("prove", "prove the rewrite rules", _prove, _prove_arguments),
    Command("simplify", "simplify an index expression", _simplify, _simplify_arguments),
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="porism", description="The Porism tensor compiler.")
    words = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        word = words.add_parser(command.name, help=command.help, description=command.help)
        command.arguments(word)
        word.set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status.

    >>> main(["version"])
    porism 0.1.0
    0
    """
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except PorismError as error:
        print(f"porism: error: {error}", file=sys.stderr)
        return USER_ERROR
