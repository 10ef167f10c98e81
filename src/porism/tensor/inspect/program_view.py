"""View: a program as one HTML page, with its kernels, their times, stages, rules and code."""

from __future__ import annotations

import atexit
import html
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from porism.engine.run.backend_runners import run
from porism.engine.run.buffer_storage import node_storage, realized_buffer
from porism.engine.run.realize import realize, request, schedule_of
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.tensor import tensor as tensors
from porism.tensor.jit.nested_values import map_leaves
from porism.tensor.shapes import shape_error
from porism.tensor.tensor import Tensor

if TYPE_CHECKING:
    from porism.viewer.program_recorder import Recorder
    from porism.viewer.tensor_origins import Origins

NOTEBOOK_HEIGHT: Final = 640
"""Pixels of a view in a notebook."""

SETTING_FILE: Final = "porism-view.html"
"""The page that PORISM_VIEW writes, in the folder of the process."""


class View:
    """A program as data and as a page; a notebook shows it."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        """The report, which `json` can write."""

    @property
    def html(self) -> str:
        """The page: one file that needs no network."""
        from porism.viewer.report_page import page

        return page(self.data)

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, and return its path."""
        file = Path(path)
        file.write_text(self.html, encoding="utf-8")
        return file

    def _repr_html_(self) -> str:
        """Return the page in a frame, for a notebook."""
        return (
            f'<iframe sandbox="allow-scripts" style="width:100%;height:{NOTEBOOK_HEIGHT}px;'
            f'border:0" srcdoc="{html.escape(self.html, quote=True)}"></iframe>'
        )

    def __repr__(self) -> str:
        steps = sum(len(program["steps"]) for program in self.data["programs"])
        return f"<view of {self.data['title']}: {steps} kernel{'s' * (steps != 1)}>"


def view(
    program: Tensor | Callable[..., Any],
    path: str | Path | None = None,
    *,
    arguments: Sequence[Any] = (),
    runs: int = 3,
) -> View:
    """Return a page about the kernels of a tensor or of a function, and write it to `path`.

    A tensor is computed to time its kernels, and stays lazy. A function, jitted or not, is called
    with the arguments, and what it returns is computed: its page also shows the user's line for
    each kernel. Both are done `runs` times, and the fastest run of each kernel counts.

    >>> import porism
    >>> porism.view(porism.asarray([[1.0, 2.0]]).softmax())
    <view of Tensor (1, 2): 1 kernel>
    """
    from porism.viewer.program_recorder import joined
    from porism.viewer.program_report import report

    if runs < 1:
        raise shape_error(
            f"a program is to run {runs} times", "its kernels are timed", "pass runs=1 or more"
        )
    with recorded() as (recorder, origins):
        if isinstance(program, Tensor):
            title = f"Tensor {program.shape}"
            _run_apart(program, runs)
        elif callable(program):
            title = getattr(program, "__name__", type(program).__name__)
            title = "function" if title == "<lambda>" else title
            for _ in range(runs):
                _realize_all(program(*arguments))
        else:
            raise shape_error(
                f"a {type(program).__name__} cannot be viewed",
                "a view shows the kernels of a tensor, or those that a function runs",
                "pass a tensor that is not computed yet, or a function and its arguments=",
            )
    shown = View(report(joined([recorder]), origins, title=title))
    if path is not None:
        shown.save(path)
    return shown


@contextmanager
def recorded() -> Iterator[tuple[Recorder, Origins]]:
    """Record the programs of a block, and which lines of the user make their tensors."""
    from porism.viewer.program_recorder import Recorder
    from porism.viewer.tensor_origins import Origins

    origins = Origins()
    before = tensors.observer
    tensors.observer = origins.record
    try:
        with Recorder(origins) as recorder:
            yield recorder, origins
    finally:
        tensors.observer = before


def _run_apart(tensor: Tensor, runs: int) -> None:
    """Run the kernels of a tensor without keeping its value; assignments are not run."""
    node = tensor.node
    if realized_buffer(node) is not None:
        raise shape_error(
            "nothing is left to be computed",
            "the value of the tensor is in memory already, so it has no kernels",
            "view the tensor before it is computed, or a function that makes it",
        )
    computation = request([node], tensor.device)
    schedule = schedule_of(computation.graph, (), computation.device)
    if any(n.op is ops.ASSIGN for n in toposort(computation.graph)):
        return
    inputs = [node_storage(buffer) for buffer in computation.buffers]
    for _ in range(runs):
        run(schedule, inputs, computation.variables, computation.device)


def _realize_all(result: Any) -> None:
    """Compute all tensors in what a function has returned."""
    found: list[UOp] = []

    def collect(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            found.append(leaf.node)
        return leaf

    map_leaves(result, collect)
    if found:
        realize(found)


# -- whole processes -------------------------------------------------------------------------------


def view_process(path: str | Path = SETTING_FILE) -> None:
    """Record this process from now on, and write a page when it ends."""
    from porism.viewer.machine_limits import measured_limits
    from porism.viewer.program_recorder import joined
    from porism.viewer.program_report import report

    measured_limits()  # in threads, which cannot be started when Python ends
    manager = recorded()
    recorder, origins = manager.__enter__()

    def write() -> None:
        manager.__exit__(None, None, None)
        title = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "program"
        data = report(joined([recorder]), origins, title=title)
        print(f"porism: wrote {View(data).save(path)}", file=sys.stderr)

    atexit.register(write)
