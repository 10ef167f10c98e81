"""Command line: one table of commands; errors are printed as their message.

porism version      print the version
porism settings     print the environment variables and their values
porism ops          list every op of the intermediate representation
porism demo         compare two networks with NumPy, with a short tour
porism rules        list the rewrite rules, and how each is established
porism prove        prove every rewrite rule, or prove or refute a typed conjecture
porism simplify     simplify an index expression
porism cache        describe or clear the cache on disk
porism run          run an ONNX model, with given or random inputs
porism check        list the operators of an ONNX model, and what it costs
porism tune         run a program with its kernels tuned, or manage the tuning cache
porism view         run a program, and write a page about its kernels
porism serve        simplify expressions and prove rules in a page on this machine
porism doctor       describe this machine, and run a self-test
"""

from __future__ import annotations

import argparse
import json
import runpy
import subprocess
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
    """Declare no arguments."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `porism`; `run` imports what is expensive or optional to import."""

    name: str
    help: str
    run: Callable[[argparse.Namespace], int]
    """Runs the command, and returns the exit status."""
    arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments
    """Declares the command's own arguments."""


def _version(options: argparse.Namespace) -> int:
    """Print the version."""
    print(f"porism {__version__}")
    return 0


def _settings_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `porism settings`."""
    parser.add_argument("--page", action="store_true", help="print the page docs/settings.md")


def _settings(options: argparse.Namespace) -> int:
    """Print every setting with its value, or the page of all settings."""
    if options.page:
        print(settings.page(), end="")
        return 0
    width = max(len(setting.variable) for setting in TABLE)
    for setting in TABLE:
        print(f"{setting.variable:<{width}} = {setting.text(setting.value())}")
        print(f"    {setting.doc}")
        print(f"    Allowed: {setting.allowed}. Default: {setting.text(setting.default)}.")
    return 0


def _ops_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `porism ops`."""
    parser.add_argument("--page", action="store_true", help="print the page docs/ops.md")


def _ops(options: argparse.Namespace) -> int:
    """Print every op, or the page of all ops."""
    from porism.ir import ops
    from porism.ir.text import op_reference

    if options.page:
        print(op_reference.page(), end="")
        return 0
    for op in ops.table():
        print(f"{op.name:<12} {op.symbol:<8} {op.doc}")
    return 0


def _demo(options: argparse.Namespace) -> int:
    """Run the demo of the source tree."""
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
    """Declare the arguments of `porism rules`."""
    parser.add_argument("words", nargs="*", metavar="WORD", help="only rules whose name has one")
    parser.add_argument("--json", action="store_true", help="print all of it as a JSON array")
    parser.add_argument("--page", action="store_true", help="print the page docs/rules.md")
    parser.add_argument(
        "--derivatives", action="store_true", help="list the derivatives of ops and functions"
    )
    parser.add_argument(
        "--fired", action="store_true", help="count how often each fires on a corpus of programs"
    )
    parser.add_argument("--record", action="store_true", help="with --fired: keep the counts")


def _rules(options: argparse.Namespace) -> int:
    """Print the rewrite rules, as text, as JSON or as a page."""
    from porism.catalogue import rule_listing, rules_page

    if options.fired:
        return _fired(options)
    if options.derivatives:
        return _derivatives(options)
    if options.page:
        print(rules_page.page(), end="")
        return 0
    rows = rule_listing.rows(options.words)
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
        how = row["established"] or rule_listing.NOT_RECORDED
        print(f"{indent}{how} on {', '.join(row['theory'])}{seeds}")
        print(f"{indent}{_use(row)}")
    return 0


def _derivatives(options: argparse.Namespace) -> int:
    """Print the derivatives of ops and functions, as text, as JSON or as a page."""
    from porism.catalogue import derivative_listing
    from porism.tensor import namespace

    namespace.load()  # functions state their derivatives in their modules
    if options.page:
        print(derivative_listing.page(), end="")
    elif options.json:
        rows = derivative_listing.rows(options.words)
        print(json.dumps(rows, ensure_ascii=False, indent=1))
    else:
        print(derivative_listing.text(derivative_listing.rows(options.words)))
    return 0


def _use(row: dict[str, Any]) -> str:
    """Return which passes try a rule and how often it fires, in words."""
    if row["kind"] == "lemma":
        return f"a lemma: no pass tries it; used {row['fired'] or 0} times by the normal form"
    where = ", ".join(row["tried"]) or "no pass"
    if row["fired"] is None:
        return f"tried by: {where}"
    fires = f"fired {row['fired']} times" if row["fired"] else f"never fired: {row['idle']}"
    return f"tried by: {where}; {fires}"


def _fired(options: argparse.Namespace) -> int:
    """Count how often each rule fires on a corpus of programs."""
    script = Path(__file__).parents[2] / "tools" / "fired.py"
    if not script.is_file():
        raise PorismError(
            "the corpus is not here",
            where=str(script),
            why="it belongs to the source tree and is not part of an installed package",
            fix="run 'porism rules --fired' in a checkout of the sources",
        )
    command = [sys.executable, "-m", "tools.fired", *["--record"] * options.record]
    return subprocess.run(command, cwd=script.parents[1], check=False).returncode


def prove_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `porism prove`."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="only rules whose name has one; 'bounds' for the bounds of every op",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    parser.add_argument(
        "--rule",
        metavar="RULE",
        help="prove or refute this conjecture instead: 'x//c0//c1 -> x//(c0*c1) when c1 > 0'",
    )
    parser.add_argument(
        "--theory",
        action="append",
        metavar="THEORY",
        help="where the typed rule is to hold: integers, fixed-width, booleans or floats",
    )


def _prove(options: argparse.Namespace) -> int:
    """Prove the rewrite rules, or the conjecture that is typed."""
    if options.rule is not None:
        return prove_typed(options)
    from porism.prove import proof_report
    from porism.prove.procedure_checks import NO_EXAMPLES, has_check
    from porism.rewrite.rule import Procedure

    chosen, with_bounds = rules_to_prove(options)
    rules = [
        item for item in chosen if not isinstance(item, Procedure) or has_check(item, NO_EXAMPLES)
    ]
    left_out = len(chosen) - len(rules)
    if left_out and not rules:
        raise PorismError(
            f"{chosen[0].name} is a procedure, which is tried on examples",
            why="the examples belong to the source tree and are not part of an installed package",
            fix="run './dev prove' in a checkout of the sources",
        )
    report = proof_report.run(rules, with_bounds=with_bounds, json_file=options.json)
    proof_report.warn_of_stale_record(report, rules)
    if left_out:
        print(
            f"{left_out} procedures are left out: their examples are part of the source tree, "
            "where './dev prove' tries them"
        )
    return 0 if report.ok else 1


def rules_to_prove(options: argparse.Namespace) -> tuple[list[Rewrite], bool]:
    """Return the rules that the words choose, and whether the bounds of ops are checked."""
    from porism.catalogue import rule_listing

    if options.theory:
        raise PorismError(
            "a theory is given without a rule",
            why="the rules of the compiler have theories of their own",
            fix="give the rule that is to be proved with --rule",
        )
    words = [word for word in options.words if word != "bounds"]
    rules = [] if options.words and not words else rule_listing.chosen(words)
    return rules, not options.words or len(words) < len(options.words)


def prove_typed(options: argparse.Namespace) -> int:
    """Prove or refute the rule that is typed after --rule, and return the exit status."""
    if options.words or options.json:
        raise PorismError(
            "--rule does not go together with words and --json",
            why="it proves the typed rule alone, which no record has",
            fix="leave them out",
        )
    from porism.simplifier import conjecture, conjecture_verdict

    return conjecture_verdict.run(conjecture.read(options.rule, options.theory or ()))


def _simplify_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `porism simplify`."""
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
    """Simplify an expression, or a file of them."""
    from porism.simplifier import simplify_command

    return simplify_command.run(options)


def _cache_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `porism cache`."""
    parser.add_argument(
        "action", choices=("info", "clear"), help="describe the cache, or remove all entries"
    )


def _cache(options: argparse.Namespace) -> int:
    """Describe or clear the cache on disk."""
    from porism.engine.cache import cache_command

    print(cache_command.clear() if options.action == "clear" else cache_command.info())
    return 0


def _doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `porism doctor`."""
    parser.add_argument("--json", action="store_true", help="print all of it as a JSON object")
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure the processor first, for a second or two, and store that for later programs",
    )


def _doctor(options: argparse.Namespace) -> int:
    """Print the report of the machine and of the self-test."""
    from porism.doctor import doctor_report

    return doctor_report.run(__version__, as_json=options.json, measures=options.measure)


def _tune_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `porism tune`."""
    parser.usage = (
        "porism tune [--beam N] [--seconds N] SCRIPT [ARGUMENT...]\n"
        "       porism tune export FILE | import FILE | info | clear"
    )
    parser.add_argument(
        "--beam", type=int, default=4, help="the beam width: candidates kept in each round"
    )
    parser.add_argument(
        "--seconds",
        type=int,
        default=60,
        help="the time for all new kernels of a computation together",
    )
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT",
        help="a program to run with its kernels tuned; or export FILE, import FILE, info, clear, "
        "for the tuning cache",
    )


def _tune(options: argparse.Namespace) -> int:
    """Run a program with its kernels tuned, or manage the tuning cache."""
    from porism.engine.tune import tune_command

    return tune_command.run(options.words, options.beam, options.seconds)


def _view_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `porism view`."""
    parser.usage = "porism view [--output FILE] [--open] SCRIPT [ARGUMENT...]"
    parser.add_argument(
        "--output", default="porism-view.html", metavar="FILE", help="the page that is written"
    )
    parser.add_argument("--open", action="store_true", help="show the page in a browser")
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="SCRIPT", help="a program to run"
    )


def _view(options: argparse.Namespace) -> int:
    """Run a program, and write a page about its kernels."""
    from porism.tensor.inspect import view_command

    return view_command.run(options.words, Path(options.output), show=options.open)


def _serve_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `porism serve`."""
    parser.add_argument("--port", type=int, default=8127, help="the port; 0 for any that is free")


def _serve(options: argparse.Namespace) -> int:
    """Serve the playground on this machine."""
    from porism.simplifier.playground import playground_server

    return playground_server.serve(options.port)


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `porism run`."""
    _check_arguments(parser)
    parser.add_argument("--repeat", type=int, default=5, help="how often it is run and timed")
    parser.add_argument("--save", metavar="FILE.npz", help="write the outputs to a file")


def _run(options: argparse.Namespace) -> int:
    """Run an ONNX model."""
    from porism.frontends.onnx import model_command

    return model_command.run(options)


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that `porism run` and `porism check` have."""
    parser.add_argument("model", help="the path of an .onnx file")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=2,3,4",
        help="the shape of an input; by default the declared one, with 1 for sizes that are open",
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy|zeros|random|NUMBER",
        help="the value of an input; random by default",
    )


def _check(options: argparse.Namespace) -> int:
    """Say what an ONNX model needs and costs."""
    from porism.frontends.onnx import model_command

    return model_command.check(options)


COMMANDS: Final = (
    Command("version", "print the version", _version),
    Command("settings", "print every setting and its value", _settings, _settings_arguments),
    Command("ops", "print every op of the intermediate representation", _ops, _ops_arguments),
    Command("demo", "compare two networks with NumPy, with a short tour of the compiler", _demo),
    Command("rules", "list the rewrite rules", _rules, _rules_arguments),
    Command("prove", "prove the rewrite rules", _prove, prove_arguments),
    Command("simplify", "simplify an index expression", _simplify, _simplify_arguments),
    Command(
        "cache", "describe or clear the cache of compiled kernels on disk", _cache, _cache_arguments
    ),
    Command("run", "run an ONNX model, with given or random inputs", _run, _run_arguments),
    Command(
        "check", "list the operators of an ONNX model, and what it costs", _check, _check_arguments
    ),
    Command("tune", "tune the kernels of a program", _tune, _tune_arguments),
    Command("view", "run a program, and write a page about its kernels", _view, _view_arguments),
    Command(
        "serve",
        "simplify expressions and prove rules in a page on this machine",
        _serve,
        _serve_arguments,
    ),
    Command(
        "doctor",
        "describe this machine, and run a self-test of a few seconds",
        _doctor,
        _doctor_arguments,
    ),
)


def _parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(prog="porism", description="The Porism tensor compiler.")
    parser.add_argument("--version", action="version", version=f"porism {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = commands.add_parser(command.name, help=command.help, description=command.help)
        command.arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit status.

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
