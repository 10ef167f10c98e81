"""View command: `porism view` runs a program, and writes a page about its kernels."""

from __future__ import annotations

import runpy
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from porism.base.errors import PorismError
from porism.base.exit_status import exit_status
from porism.tensor.inspect.program_view import View, recorded


def run(words: Sequence[str], output: Path, *, show: bool = False) -> int:
    """Run a program with its arguments and write the page; return the exit status.

    A program that fails has a page too, of what it ran until then.
    """
    if not words or not Path(words[0]).is_file():
        raise PorismError(
            f"there is no program {words[0]!r}" if words else "there is no program to view",
            where="porism view",
            why="a program is run, and the page shows the kernels that it ran",
            fix="name a file of Python: porism view program.py",
        )
    if not output.parent.is_dir():
        raise PorismError(
            f"the page cannot be written to {str(output)!r}",
            where="porism view --output",
            why=f"there is no folder {str(output.parent)!r}",
            fix="make the folder, or name another file",
        )
    from porism.viewer.program_recorder import joined
    from porism.viewer.program_report import report

    script, before, path = Path(words[0]), sys.argv, list(sys.path)
    sys.argv = [str(word) for word in words]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        with recorded() as (recorder, origins):
            try:
                runpy.run_path(str(script), run_name="__main__")
                status = 0
            except SystemExit as end:
                status = exit_status(end)
    finally:
        sys.argv, sys.path[:] = before, path
        data = report(joined([recorder]), origins, title=script.name)
        View(data).save(output)
        print(f"wrote {output}")
    if show:
        webbrowser.open(output.resolve().as_uri())
    return status
