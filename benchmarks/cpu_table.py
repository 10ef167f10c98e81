"""Tables of the processor benchmark: in a terminal, and as a part of a page."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import cpu_growth, cpu_limits
from benchmarks.cpu_results import OURS, Results
from benchmarks.cpu_sampling import Cell

NOTES = (
    "In a cell: milliseconds, and the share of the roofline. × after a figure: the result is "
    "wrong; ~: other processes disturbed most samples; †: not from the same run as ours."
)


def console() -> Console:
    """Wide enough for the tables also if it is a file."""
    result = Console()
    return result if result.is_terminal else Console(width=180)


def figure(milliseconds: float) -> str:
    """Three digits, or all before the point."""
    if milliseconds >= 100:
        return f"{milliseconds:.0f}"
    digits = 1 if milliseconds >= 10 else 2 if milliseconds >= 1 else 3
    return f"{milliseconds:.{digits}f}"


def text_of(results: Results, workload: str, cell: Cell | None) -> str:
    if cell is None:
        return ""
    if "seconds" not in cell:
        return "failed"
    ours = results.cells[workload].get("porism", {})
    marks = "" if cell["right"] else "×"
    marks += "" if 2 * cell["clean"] >= cell.get("samples", 9) else "~"
    marks += "" if ours.get("run", cell["run"]) == cell["run"] else "†"
    share = results.share(workload, cell)
    part = "" if share is None else f" {share:.0%}"
    return f"{figure(cell['seconds'] * 1000)}{part}{marks}"


def columns(results: Results) -> list[str]:
    return ["workload", "roofline", *results.backends, "ahead"]


def lines(results: Results) -> list[list[str]]:
    """The cells of the table as texts; the last column is the best peer's time beside ours."""
    result = []
    for workload in results.in_order():
        cells = results.cells[workload]
        limit = results.roofline(workload)
        bound = "" if limit is None else f"{figure(limit.seconds * 1000)} {limit.bound}"
        best, ours = results.best_peer(workload), cells.get("porism", {})
        ahead = f"{best[1] / ours['seconds']:.2f}" if best and "seconds" in ours else ""
        texts = [text_of(results, workload, cells.get(name)) for name in results.backends]
        result.append([workload, bound, *texts, ahead])
    return result


def show(results: Results) -> None:
    title = f"ms and share of the roofline, {results.threads} threads"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in columns(results):
        table.add_column(name, no_wrap=True, justify="left" if name == "workload" else "right")
    for line in lines(results):
        table.add_row(*line)
    out = console()
    out.print(table)
    out.print(NOTES, markup=False, highlight=False)
    show_errors(results)
    if results.limits:
        out.print(cpu_limits.shown(cpu_limits.together(results.limits)), highlight=False)
    for ratio, workload, peer in results.behind():
        out.print(f"behind: {workload} takes {ratio:.2f} × as long as {peer}", highlight=False)
    for fault in results.faults(results.in_order()):
        out.print(fault, markup=False, highlight=False)


def show_errors(results: Results) -> None:
    """How far each result is from that in float64, beside its norm."""
    table = Table(title="relative error", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for name in results.backends:
        table.add_column(name, justify="right", no_wrap=True)
    for workload in results.in_order():
        cells = results.cells[workload]
        errors = [cells.get(name, {}).get("error") for name in results.backends]
        table.add_row(workload, *("" if error is None else f"{error:.1e}" for error in errors))
    console().print(table)


# -- a page ----------------------------------------------------------------------------------------


def markdown(results: Results) -> str:
    """The table, the limits and the versions."""
    names = columns(results)
    versions = ", ".join(f"{k} {v}" for k, v in results.versions.items() if k not in OURS)
    machine = results.machine
    limits = cpu_limits.shown(cpu_limits.together(results.limits)) if results.limits else ""
    return "\n".join(
        (
            f"{machine.get('processor', 'a processor')} ({machine.get('vectors', '')}), "
            f"{results.threads} threads, Python {machine['python']}; {versions}.",
            "",
            *(f"- {line}" for line in limits.splitlines()),
            "",
            "| " + " | ".join(names) + " |",
            "|---|" + "--:|" * (len(names) - 1),
            *("| " + " | ".join(line) + " |" for line in lines(results)),
            "",
            NOTES,
        )
    )


def write_page(results: Results, path: Path) -> None:
    """Put the tables between the marks of a page."""
    parts = {"growth": cpu_growth.markdown(results)}
    if results.in_order():
        parts["table"] = markdown(results)
    for name, part in parts.items():
        if part:
            replace_part(path, name, part)


def replace_part(path: Path, name: str, part: str) -> None:
    """Put a text between two marks of a page, if it has them."""
    text = path.read_text(encoding="utf-8")
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    if begin in text:
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{part}\n\n{end}{rest.partition(end)[2]}"
        path.write_text(text, encoding="utf-8")
