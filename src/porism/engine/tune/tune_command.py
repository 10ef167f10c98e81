"""Tune command: `porism tune` runs a program with tuning, and manages the tuning cache."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from porism.base.errors import PorismError
from porism.base.exit_status import exit_status
from porism.base.settings import settings
from porism.engine.tune import tuning, tuning_cache
from porism.engine.tune.tuning_progress import action_lines, report_table

INTERRUPTED: Final = 130
"""The exit status after Ctrl-C: 128 + SIGINT, as shells report it."""


def run(words: Sequence[str], beam: int, seconds: int) -> int:
    """Run `porism tune` with the arguments `words`; return the exit status.

    The arguments are a subcommand (export, import, info or clear), or a program and its arguments,
    which is tuned with a beam width of `beam` and at most `seconds` for each computation.
    """
    match list(words):
        case ["export", path]:
            number = tuning_cache.export_file(Path(path))
            print(f"wrote {number} tuned kernels to {path}")
        case ["import", path]:
            merged = tuning_cache.import_file(Path(path))
            print(
                f"took {merged.taken} tuned kernels; {merged.slower} were not faster than those "
                f"here, {merged.refused} lines were refused"
            )
        case ["info"]:
            print(info())
        case ["clear"]:
            print(f"removed {tuning_cache.clear()} tuned kernels")
        case ["export" | "import" | "info" | "clear" as word, *_]:
            wanted = " FILE" if word in ("export", "import") else ""
            raise PorismError(
                f"'porism tune {' '.join(words)}' says too much or too little",
                why=f"the command is 'porism tune {word}{wanted}'",
                fix=f"a program of this name is run with 'porism tune ./{word}'",
            )
        case [script, *arguments]:
            return run_script(Path(script), arguments, beam, seconds)
        case _:
            raise PorismError(
                "there is nothing to tune",
                why="a program is run with its kernels tuned",
                fix="name it: porism tune program.py",
            )
    return 0


def info() -> str:
    """Return a description of the tuning cache: kernels, how many are faster, their speedup."""
    entries = tuning_cache.entries()
    usable = [entry for entry in entries if entry.environment == tuning_cache.own_environment()]
    faster = [entry for entry in usable if entry.after < entry.before]
    rows = [
        ("folder", str(tuning_cache.folder())),
        (
            "kernels",
            f"{len(entries)}, of which {len(usable)} for this machine, version and settings",
        ),
    ]
    if faster:
        speedup = sum(entry.before for entry in faster) / sum(entry.after for entry in faster)
        rows.append(("faster", f"{len(faster)} of these, {speedup:.2f} times in all"))
    return "\n".join(f"{name:<9}{text}" for name, text in rows)


def run_script(script: Path, arguments: Sequence[str], beam: int, seconds: int) -> int:
    """Run a program with its kernels tuned, and print a report; return the exit status."""
    if not script.is_file():
        raise PorismError(
            "there is no such program",
            where=str(script),
            why="the file of a Python program is wanted",
            fix="give its path",
        )
    with settings.override(beam=beam, beam_seconds=seconds):
        pass  # raises an error if a value is out of range
    # An override would not reach threads that the program starts.
    os.environ["PORISM_BEAM"] = str(beam)
    os.environ["PORISM_BEAM_SECONDS"] = str(seconds)
    settings.reload()
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.parent))
    earlier = len(tuning.reports)  # of tuning before this program
    status = 0
    try:
        runpy.run_path(str(script), run_name="__main__")
    except KeyboardInterrupt:
        status = INTERRUPTED
    except SystemExit as end:
        status = exit_status(end)
    reports = tuning.reports[earlier:]
    if reports:
        Console().print(report_table(reports))
        print(action_lines(reports))
    else:
        print("no kernels were tuned: there are none, or they were tuned before")
    return status
