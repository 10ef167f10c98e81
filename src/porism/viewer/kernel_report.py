"""Kernel report: everything about one kernel as plain data, from its stages to its assembly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from porism.backends.backend_table import Backend, native_backend
from porism.backends.llvm.llvm_compiler import assembly, attributes
from porism.backends.llvm.llvm_renderer import Renderer
from porism.engine.profile.work_counts import kernel_name
from porism.engine.tune.tuning_cache import tuned_actions
from porism.ir.node import UOp
from porism.optimize.actions.action import Action
from porism.optimize.strategy import heuristic
from porism.pipeline import unscheduled_kernel
from porism.rewrite.rewrite_trace import Trace
from porism.viewer import line_loops
from porism.viewer.line_loops import Loop
from porism.viewer.stage_diffs import InstructionListing, Snapshot, diff, lowering_snapshots

Row = dict[str, Any]
T = TypeVar("T")

MAX_LINES: Final = 1200
"""Lines of one text in a report; the middle of a longer one is left out."""
MAX_COLUMNS: Final = 220
"""Characters of one line in a report."""
CONTEXT: Final = 2
"""Unchanged lines around a change."""


@dataclass(slots=True)
class Text:
    """A text in a report, and the loop of each of its lines."""

    lines: Sequence[str]
    loops: Sequence[int] = field(default_factory=list)
    numbers: Sequence[int] = field(default_factory=list)
    """The line of LLVM IR that each line belongs to, from 1; 0 if there is none."""

    def row(self) -> Row:
        """Return the text as data, with the loops as pairs of a first line and a loop."""
        loops = list(self.loops) or [line_loops.NONE] * len(self.lines)
        note = f"… {len(self.lines) - MAX_LINES // 2 * 2} lines are left out …"
        lines, loops = _shortened(self.lines, note), _shortened(loops, line_loops.NONE)
        runs = [[k, loop] for k, loop in enumerate(loops) if k == 0 or loop != loops[k - 1]]
        row: Row = {"text": "\n".join(map(_cut, lines)), "loops": runs}
        if self.numbers:
            row["numbers"] = _shortened(self.numbers, 0)
        return row


def _shortened(values: Sequence[T], between: T) -> list[T]:
    """Return what stands for the lines of a text, without the middle of a long one."""
    if len(values) <= MAX_LINES:
        return list(values)
    half = MAX_LINES // 2
    return [*values[:half], between, *values[-half:]]


def _cut(line: str) -> str:
    return line if len(line) <= MAX_COLUMNS else line[: MAX_COLUMNS - 1] + "…"


def kernel_row(
    kernel: UOp,
    names: Mapping[int, str],
    stages: Sequence[Snapshot] = (),
    trace: Trace | None = None,
) -> Row:
    """Return a kernel as data, from its loops to its assembly.

    `names` are those of its buffers by number, `stages` those that did not depend on a target, and
    `trace` is the one that all rewrites of the process are recorded in.
    """
    backend = native_backend()
    snapshots = lowering_snapshots(kernel, trace)
    instructions = snapshots[-1].nodes
    loops = line_loops.loops_of(instructions)
    scheduled = next(s for s in snapshots if s.stage == "schedule loops").text(names)
    tuned = tuned_actions(kernel, backend)
    rows, unchanged = stage_rows([*stages, *snapshots], names)
    loops_text = Text(scheduled, line_loops.listing_loops(scheduled, loops)).row()
    return {
        "name": kernel_name(kernel),
        "actions": [str(action) for action in tuned or _actions(kernel, backend)],
        "tuned": tuned is not None,
        "loops": [[loop.name, loop.parent] for loop in loops],
        "texts": {"loops": loops_text} | _code(instructions, loops, names, backend),
        "stages": rows,
        "unchanged": unchanged,
    }


def _actions(kernel: UOp, backend: Backend) -> tuple[Action, ...]:
    target = backend.target()
    return tuple(heuristic.choose_actions(unscheduled_kernel(kernel, target), target))


def stage_rows(
    snapshots: Iterable[Snapshot], names: Mapping[int, str]
) -> tuple[list[Row], list[str]]:
    """Return a row for each stage that changes the text, and the names of the others."""
    before: list[str] = []
    form = ""
    rows: list[Row] = []
    unchanged: list[str] = []
    for snapshot in snapshots:
        text = snapshot.text(names)
        if text == before and not snapshot.fired:
            unchanged.append(snapshot.stage)
            continue
        is_diff = snapshot.form == form and len(text) + len(before) <= 2 * MAX_LINES
        lines = diff(before, text, CONTEXT) if is_diff else text
        if text == before:  # rules fired where the text does not show it
            lines, is_diff = [], False
        rows.append(
            {
                "stage": snapshot.stage,
                "level": snapshot.level.name,
                "size": snapshot.count(),
                "diff": is_diff and lines != text,
                "text": Text(lines).row()["text"],
                "rules": [list(pair) for pair in Counter(snapshot.fired).most_common()],
            }
        )
        before, form = text, snapshot.form
    return rows, unchanged


def _code(
    instructions: Sequence[UOp], loops: Sequence[Loop], names: Mapping[int, str], backend: Backend
) -> dict[str, Row]:
    """Return the instructions, the source and the assembly of a kernel."""
    listed = InstructionListing(names).run(instructions)
    texts = {"instructions": Text(listed, line_loops.listing_loops(listed, loops)).row()}
    if backend.name != "llvm":
        assert backend.source is not None
        assert backend.assembly is not None
        source, code = (f(instructions, "kernel") for f in (backend.source, backend.assembly))
        return texts | {
            "c": Text(source.split("\n")).row(),
            "assembly": Text(code.split("\n")).row(),
        }
    llvm = Renderer("kernel", instructions).text()
    lines = llvm.split("\n")
    llvm_loops = line_loops.llvm_loops(lines)
    module = line_loops.with_locations(llvm + attributes() + "\n")
    code_lines, sources = line_loops.located_assembly(assembly(module))
    code_loops = [llvm_loops[line - 1] if line else line_loops.NONE for line in sources]
    return texts | {
        "llvm": Text(lines, llvm_loops, range(1, len(lines) + 1)).row(),
        "assembly": Text(code_lines, code_loops, sources).row(),
    }
