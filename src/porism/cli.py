"""The command line: one table of commands, and errors printed as their message.

porism version      the version
porism settings     the environment variables and their values
porism ops          every op of the intermediate representation
porism demo         a short tour
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from porism import __version__
from porism.base.errors import PorismError
from porism.base.settings import TABLE, settings

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


COMMANDS: Final = (
    Command("version", "print the version", _version),
    Command("settings", "print every setting and its value", _settings, _settings_arguments),
    Command("ops", "print every op of the intermediate representation", _ops, _ops_arguments),
    Command("demo", "a short tour of the compiler", _demo),
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
