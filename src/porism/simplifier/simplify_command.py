"""The command `porism simplify`: one expression and its bounds, or a file of many.

Results go to the standard output, progress to the standard error, colours only to a terminal.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from porism.base.errors import ParseError, PorismError
from porism.simplifier.simplify import Result, simplify
from porism.simplifier.variable_bounds import from_arguments

FAILED: Final = 1
"""The exit status if some line of a file had no answer."""


def run(options: argparse.Namespace) -> int:
    """Run the command, and return the exit status."""
    if options.jsonl is not None:
        if options.expression is not None:
            raise PorismError(
                "an expression and a file are given",
                why="--jsonl takes all expressions from the file",
                fix="leave one of them out",
            )
        return _simplify_file(options)
    if options.expression is None:
        raise PorismError(
            "there is no expression",
            fix="write porism simplify '(r*8+v)%7' r=0..3 v=0..2",
        )
    text = sys.stdin.read() if options.expression == "-" else options.expression
    result = simplify(text, from_arguments(options.bounds), explain=options.explain)
    if options.explain:
        _explain(text.strip(), result)
    print(result.c if options.c else result.text)
    return 0


# -- one expression --------------------------------------------------------------------------------


def _explain(text: str, result: Result) -> None:
    """Print each step: the rule and how it is established, then the text before and after."""
    from porism.catalogue.rule_listing import established

    console = Console(highlight=False, soft_wrap=True)
    for number, step in enumerate(result.steps, 1):
        how = established(step.rule)
        line = Text(f"{number:>3}. ")
        line.append(step.rule, style="bold cyan")
        if how:
            line.append(f"  ({how})", style="dim")
        console.print(line)
        console.print(Text("       ").append(step.before, style="red"))
        console.print(Text("     → ").append(step.after, style="green"))
    if not result.steps:
        console.print(Text("nothing was found to simplify", style="dim"))
    console.print(Text(f"{result.divmods} divisions, cost {result.cost}", style="dim"))


# -- a file ----------------------------------------------------------------------------------------


def _simplify_file(options: argparse.Namespace) -> int:
    """Simplify every line of a JSONL file, and return the exit status."""
    failures = 0
    lines = _lines(options.jsonl)
    with _progress(len(lines)) as advance:
        for number, line in enumerate(lines, 1):
            row = _answer(number, line, options)
            failures += "error" in row
            print(json.dumps(row, ensure_ascii=False))
            advance()
    if failures:
        print(f"porism: {failures} of {len(lines)} lines have no answer", file=sys.stderr)
    return FAILED if failures else 0


def _lines(name: str) -> list[str]:
    """Return the lines of a file, or of the standard input for `-`."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise PorismError(
            f"cannot read {name}", why=error.strerror or str(error), fix="name a file that is there"
        ) from None
    except UnicodeDecodeError as error:
        raise PorismError(f"cannot read {name}", why=f"it is no UTF-8: {error.reason}") from None
    return [line for line in text.split("\n") if line.strip()]


def _answer(number: int, line: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the output for one line: its name and expression, and the result or an error."""
    row: dict[str, Any] = {"line": number}
    try:
        given = _row(line)
        row |= {key: given[key] for key in ("name", "expr") if key in given}
        result = simplify(given["expr"], given["vars"], explain=options.explain)
        row |= {"text": result.text, "divmods": result.divmods, "cost": result.cost}
        if options.c:
            row["c"] = result.c
        if options.explain:
            row["steps"] = [[step.rule, step.before, step.after] for step in result.steps]
    except PorismError as error:
        row["error"] = str(error)
    return row


def _row(line: str) -> dict[str, Any]:
    """Return a line as an object with `expr` and `vars`; anything else is an error."""
    form = 'a line is {"expr": "(r*8+v)%7", "vars": {"r": [0, 3], "v": [0, 2]}}'
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ParseError(f"no JSON: {error.msg}", text=line, offset=error.pos, fix=form) from None
    except (ValueError, RecursionError) as error:  # very long numbers, very deep nesting
        raise PorismError("no JSON that can be read", why=str(error), fix=form) from None
    if not isinstance(row, dict):
        raise PorismError("a line that is no object", fix=form)
    if not isinstance(row.get("expr"), str) or not isinstance(row.get("vars", {}), dict):
        raise PorismError("a line without 'expr' or with odd 'vars'", fix=form)
    return {**row, "vars": row.get("vars", {})}


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    """Show a progress bar if the standard error is a terminal; yields what advances it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda: None
        return
    columns = (
        TextColumn("simplifying"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)
