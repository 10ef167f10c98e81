"""The benchmark page: figures of `./dev bench cpu --json FILE` as bars, nothing typed by hand."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Final

from benchmarks.cpu_results import OURS, Results

COLOURS: Final = {
    "porism": "#d1495b", "porism beam": "#8d0801", "numpy": "#8a8a8a", "torch": "#e08a3c",
    "torch.compile": "#bc6c25", "jax.jit": "#5b8e7d", "onnxruntime": "#30638e",
    "tinygrad": "#8e7dbe",
}  # fmt: skip
OTHER: Final = "#666666"
BAR, GAP, LEFT, WIDE, RIGHT = 15, 12, 150, 420, 150
"""Pixels: the height of a bar, the space below a workload, and the widths of the columns."""


def page(results: Results, figure: str, file: Path) -> str:
    """Return the page in Markdown; `figure` is the path of its picture."""
    machine = "\n".join(f"| {name} | {_cell(value)} |" for name, value in results.machine.items())
    versions = ", ".join(f"{name} {number}" for name, number in sorted(results.versions.items()))
    missing = "".join(f"\n- {name} was not measured: {_cell(why)}"
                      for name, why in results.missing.items())  # fmt: skip
    behind = "".join(
        f"\n- {workload}: {peer} is {times:.2f} times as fast"
        for times, workload, peer in results.behind()
    )
    return f"""# Benchmarks

Made from `{file.name}`, which `./dev bench cpu --json {file.name}` writes: the time of each
workload on {results.threads} threads, every library in a process of its own.
`./dev docs build --bench {file.name}` makes this page.

![Times of each workload]({figure})

A bar is a time, as a part of the slowest of its workload; shorter is better. The mark is the
roofline: no program can be faster on the machine as it was measured.

## Where others are faster
{behind or chr(10) + "Nowhere among these workloads."}

## Machine and versions

| | |
|---|---|
{machine}

{versions}
{missing}
"""


def _cell(value: object) -> str:
    return html.escape(str(value).replace("|", "\\|").replace("\n", " "))


def bars(results: Results) -> str:
    """Return the times of all workloads as a picture in SVG."""
    rows: list[str] = []
    y = 10
    for workload in results.in_order():
        cells = results.cells[workload]
        times = {name: cells[name]["seconds"] for name in results.backends
                 if "seconds" in cells.get(name, {}) and cells[name]["right"]}  # fmt: skip
        if not times:
            continue
        longest = max(times.values())
        height = BAR * len(times)
        rows.append(_text(LEFT - 10, y + height / 2 + 4, workload, "end", bold=True))
        limit = results.roofline(workload)
        for name, seconds in times.items():
            width = max(WIDE * seconds / longest, 1)
            rows.append(
                f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 2}" '
                f'fill="{COLOURS.get(name, OTHER)}"><title>{html.escape(name)}</title></rect>'
            )
            label = f"{name} {_time(seconds)}"
            rows.append(_text(LEFT + width + 6, y + BAR - 4, label, "start", bold=name in OURS))
            y += BAR
        if limit is not None:
            x = LEFT + WIDE * min(limit.seconds / longest, 1)
            rows.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - height - 2}" y2="{y}" stroke="#222" '
                'stroke-width="1.5" stroke-dasharray="3 2"><title>roofline</title></line>'
            )
        y += GAP
    size = LEFT + WIDE + RIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {y}" width="{size}" '
        f'height="{y}" font-family="sans-serif" font-size="11">\n'
        f'<rect width="{size}" height="{y}" fill="#ffffff"/>\n' + "\n".join(rows) + "\n</svg>\n"
    )


def _text(x: float, y: float, text: str, anchor: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight} fill="#222">'
        f"{html.escape(text)}</text>"
    )


def _time(seconds: float) -> str:
    """
    >>> _time(0.0123), _time(4.2e-05)
    ('12.3 ms', '42 µs')
    """
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def write(file: Path, pages: Path) -> None:
    """Write the page and its picture into a folder of pages."""
    results = Results.read(file)
    (pages / "figures").mkdir(exist_ok=True)
    (pages / "figures" / "benchmarks.svg").write_text(bars(results), encoding="utf-8")
    text = page(results, "figures/benchmarks.svg", file)
    (pages / "benchmarks.md").write_text(text, encoding="utf-8")
