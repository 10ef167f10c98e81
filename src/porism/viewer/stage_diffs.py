"""Stage diffs: what each stage of the pipeline changes, from the tensor graph to instructions.

A graph of tensors or ranges is shown as a list of its operations, a kernel as its loops, and what
`linearize` leaves as its instructions in order. A stage is shown as a diff against the stage before
it: lines that it removes begin with `-`, lines that it adds with `+`. Where the form changes, or no
line stays as it was, the new text is shown whole. Stages that change nothing are only named.
"""

from __future__ import annotations

import difflib
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from porism.backends.backend_table import native_backend
from porism.base.dtypes import void
from porism.engine.tune.tuning_cache import tuned_actions
from porism.ir import ops
from porism.ir.levels import GRAPH, LINEAR, RANGED, Level
from porism.ir.node import UOp
from porism.ir.text.expression import show
from porism.ir.traversal import toposort
from porism.pipeline import lower_kernel, schedule_graph, watched
from porism.rewrite.rewrite_trace import Trace
from porism.schedule.loop_listing import listing
from porism.schedule.schedule import Schedule

CONTEXT: Final = 1
"""Unchanged lines around a change that a diff shows; chosen by hand."""

WIDEST: Final = 2000
"""Characters of one operation; what is longer is cut."""

SEPARATOR: Final = "  …"
"""Stands between two changes for the unchanged lines that a diff leaves out."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The graph after one stage, with the rules that fired in the stage."""

    stage: str
    level: Level
    nodes: Sequence[UOp]
    """The instructions in order at the linear level; elsewhere the root alone."""
    fired: Mapping[str, int]
    """How often each rule fired in the stage."""

    @property
    def form(self) -> str:
        """What the text lists; texts of different forms are not compared."""
        forms = {GRAPH: "tensors", RANGED: "elements", LINEAR: "instructions"}
        return forms.get(self.level, "loops")

    def text(self, names: Mapping[int, str]) -> list[str]:
        """Return the lines that show the graph; `names` are those of buffers, by number."""
        if self.level is LINEAR:
            return InstructionListing(names).run(self.nodes)
        (root,) = self.nodes
        if self.level in (GRAPH, RANGED):
            return operation_lines(root)
        return listing(root, names).split("\n")

    def count(self) -> str:
        """Return how large the graph is, in words."""
        if self.level is LINEAR:
            return f"{len(self.nodes)} instructions"
        return f"{len(toposort(*self.nodes))} nodes"


def stage_report(graph: UOp) -> Iterator[str]:
    """Schedule and lower a graph of tensors for this machine, and yield what each stage changes."""
    trace = Trace()
    snapshots: list[Snapshot] = []
    with watched(recorder(snapshots, trace), trace):
        schedule = schedule_graph(graph, cached=False, target=native_backend().target())
    first = next((k for k, s in enumerate(snapshots) if s.stage == "kernels"), len(snapshots))
    yield from _diffs(snapshots[:first], {})
    for stages in by_kernel(snapshots[first:]):
        (kernel,) = stages[-1].nodes
        heading, names = _heading(schedule, kernel)
        yield heading
        yield from _diffs([*stages, *lowering_snapshots(kernel)], names)


def recorder(snapshots: list[Snapshot], trace: Trace) -> Callable[[str, Level, UOp], None]:
    """Return a watcher of the pipeline that appends a snapshot after every stage."""
    seen = len(trace.steps)

    def record(stage: str, level: Level, graph: UOp) -> None:
        nonlocal seen
        fired = Counter(step.rule for step in trace.steps[seen:])
        snapshots.append(Snapshot(stage, level, (graph,), fired))
        seen = len(trace.steps)

    return record


def by_kernel(snapshots: Iterable[Snapshot]) -> list[list[Snapshot]]:
    """Return the snapshots of each kernel, whose first one is that of the stage `kernels`."""
    groups: list[list[Snapshot]] = []
    for snapshot in snapshots:
        if snapshot.stage == "kernels":
            groups.append([])
        groups[-1].append(snapshot)
    return groups


def _heading(schedule: Schedule, kernel: UOp) -> tuple[str, dict[int, str]]:
    """Return the line above a kernel's stages, and the names of the kernel's buffers by number."""
    numbers = [k for k, step in enumerate(schedule.steps) if step.kernel is kernel]
    if not numbers:
        return "kernel that copies the value of an assignment", {}
    buffers = schedule.steps[numbers[0]].buffers
    names = {k: schedule.buffers[buffer].name for k, buffer in enumerate(buffers)}
    return f"kernel{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}", names


def lowering_snapshots(kernel: UOp, whole: Trace | None = None) -> list[Snapshot]:
    """Return the snapshots of the stages that lower a kernel for this machine.

    `whole` is the trace of the process if there is one, in which all rewrites are recorded.
    """
    backend = native_backend()
    trace = Trace() if whole is None else None
    snapshots: list[Snapshot] = []

    def record(stage: str, instructions: Sequence[UOp]) -> None:
        snapshots.append(Snapshot(stage, LINEAR, instructions, {}))

    watcher = recorder(snapshots, trace or whole or Trace())
    with watched(watcher, trace, instructions=record):
        lower_kernel(kernel, backend.target(), actions=tuned_actions(kernel, backend))
    return snapshots


# -- text ------------------------------------------------------------------------------------------


def _diffs(snapshots: Iterable[Snapshot], names: Mapping[int, str]) -> Iterator[str]:
    """Yield a block of text for each stage that changes the text, then the names of the others."""
    before: list[str] = []
    form = ""
    unchanged: list[str] = []
    for snapshot in snapshots:
        text = snapshot.text(names)
        if text == before:
            unchanged.append(snapshot.stage)
            continue
        changes = diff(before, text) if snapshot.form == form else text
        yield f"after {snapshot.stage}: {snapshot.count()}, level {snapshot.level.name}"
        yield textwrap.indent("\n".join(changes), "    ")
        if snapshot.fired:
            rules = Counter(snapshot.fired).most_common()
            yield "    rules: " + ", ".join(f"{rule} x{count}" for rule, count in rules)
        before, form = text, snapshot.form
    if unchanged:
        yield f"unchanged by: {', '.join(unchanged)}"


def diff(before: Sequence[str], after: Sequence[str], context: int = CONTEXT) -> list[str]:
    """Return the lines of a diff between two texts, or the second text if they share no line.

    >>> diff(["for r0 < 8:", "    x[r0] = 0"], ["for r0 < 8:  # upcast", "    x[r0] = 0"])
    ['- for r0 < 8:', '+ for r0 < 8:  # upcast', '      x[r0] = 0']
    """
    if set(before).isdisjoint(after):
        return list(after)
    lines = []
    for line in list(difflib.unified_diff(before, after, n=context, lineterm=""))[3:]:
        lines.append(SEPARATOR if line.startswith("@@") else f"{line[0]} {line[1:]}")
    return lines


# -- operations ------------------------------------------------------------------------------------


def operation_lines(root: UOp) -> list[str]:
    """Return a line for each operation of a graph of tensors or ranges, sources first.

    >>> i = UOp.variable("i", 0, 9)
    >>> operation_lines((i + 1) * i)
    ['v0: index = i + 1', 'v1: index = v0 * i']
    """
    named: dict[UOp, str] = {}
    lines = []
    for node in toposort(root):
        if node.src and node.op not in (ops.PARAM, ops.RANGE, ops.BIND, ops.SINK):
            text = show(node, WIDEST, named)
            named[node] = f"v{len(named)}"
            lines.append(f"{named[node]}: {node.dtype} = {text}")
    return lines


_LEAVES: Final = frozenset({ops.CONST, ops.VCONST, ops.VARIABLE})
_ORDER: Final = frozenset({ops.AFTER, ops.GROUP, ops.SINK})
"""Ops that only say what comes before what, which the order of the instructions says already."""


class InstructionListing:
    """The instructions of a lowered kernel as lines, indented inside of loops and conditions."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self.buffers = names
        self.named: dict[UOp, str] = {}
        self.lines: list[str] = []
        self.depth = 0
        self.values = 0

    def run(self, instructions: Iterable[UOp]) -> list[str]:
        """Return the lines of a list of instructions."""
        for node in instructions:
            self.add(node)
        return self.lines

    def add(self, node: UOp) -> None:
        """Append the line of one instruction; addresses are written where they are used."""
        op = node.op
        if op in _LEAVES:
            return
        if op is ops.PARAM:
            self.named[node] = self.buffers.get(node.arg, f"p{node.arg}")
        elif op in (ops.DEFINE_LOCAL, ops.DEFINE_REG):
            kind = "local" if op is ops.DEFINE_LOCAL else "register"
            self.named[node] = f"{kind}{node.arg}"
            self.line(f"{self.named[node]}: {node.dtype}")
        elif op in _ORDER:
            if op is ops.AFTER:
                self.named[node] = self.text(node.src[0])
        elif op in (ops.END, ops.ENDIF):
            self.depth -= 1
        elif op is ops.INDEX:
            self.named[node] = self.text(node)
        elif op is ops.STORE:
            self.line(f"{self.text(node.src[0])} = {self.text(node.src[1])}")
        elif op in (ops.RANGE, ops.IF):
            operand = self.text(node.src[0])
            self.line(f"for {show(node)} < {operand}:" if op is ops.RANGE else f"if {operand}:")
            self.depth += 1
        elif node.dtype is void:
            self.line(self.text(node))
        else:
            text = self.value(node)
            self.named[node] = f"v{self.values}"
            self.values += 1
            self.line(f"{self.named[node]}: {node.dtype} = {text}")

    def value(self, node: UOp) -> str:
        """Return the text of what an instruction computes."""
        if node.op is ops.LOAD:
            masked = f" else {self.text(node.src[1])}" if len(node.src) > 1 else ""
            return self.text(node.src[0]) + masked
        if node.op is ops.VECTORIZE and len(set(node.src)) == 1:
            return f"broadcast({self.text(node.src[0])})"
        return self.text(node)

    def text(self, node: UOp) -> str:
        """Return an expression, with the names of the results in it."""
        return show(node, WIDEST, self.named)

    def line(self, text: str) -> None:
        """Append a line at the depth of the innermost open loop or condition."""
        self.lines.append("    " * self.depth + text)
