"""The benchmark page: figures of `./dev bench cpu --json FILE` as bars and as points below a roof.

Nothing on it is typed by hand.
"""

from __future__ import annotations

import html
import math
import statistics
from pathlib import Path
from typing import Final

from benchmarks import cpu_limits, cpu_workloads
from benchmarks.cpu_results import OURS, Results

COLOURS: Final = {
    "porism": "#d1495b", "porism beam": "#8d0801", "numpy": "#8a8a8a", "torch": "#e08a3c",
    "torch.compile": "#bc6c25", "jax.jit": "#5b8e7d", "onnxruntime": "#30638e",
    "tinygrad": "#8e7dbe",
}  # fmt: skip
OTHER: Final = "#666666"
BAR, GAP, LEFT, WIDE, RIGHT = 15, 12, 150, 420, 150
"""Pixels: the height of a bar, the space below a workload, and the widths of the columns."""


BARS, ROOF = "figures/benchmarks.svg", "figures/benchmark-roofline.svg"
"""Paths of the pictures, from the page."""


def page(results: Results, file: Path) -> str:
    """Return the page in Markdown."""
    machine = "\n".join(f"| {name} | {_cell(value)} |" for name, value in results.machine.items())
    versions = ", ".join(f"{name} {number}" for name, number in sorted(results.versions.items()))
    missing = "".join(f"\n- {name} was not measured: {_cell(why)}"
                      for name, why in results.missing.items())  # fmt: skip
    behind = "".join(
        f"\n- {workload}: {peer} is {times:.2f} times as fast"
        for times, workload, peer in results.behind()
    )
    roof = f"""
## Below the roofline

![Speed of each workload by operations a byte]({ROOF})

A point is a workload: its speed by the operations that it does for each byte that it must move.
The lines are limits that were measured on the machine itself. Large points are ours.
"""
    measured = sorted({cell["run"] for cells in results.cells.values() for cell in cells.values()
                       if "run" in cell})  # fmt: skip
    when = (
        f", measured {' to '.join(dict.fromkeys([measured[0], measured[-1]]))}" if measured else ""
    )
    return f"""# Benchmarks

The time of each workload on {results.threads} threads, every library in a process of its own{when}.

{_summary(results)}

## Times

![Times of each workload]({BARS})

A bar is a time, as a part of the slowest of its workload; shorter is better. The mark is the
roofline: no program can be faster on the machine as it was measured.
{roof if results.limits else ""}
## Where others are faster
{behind or chr(10) + "Nowhere among these workloads."}

## Machine and versions

| | |
|---|---|
{machine}
| threads | {results.threads} |
| versions | {versions} |
{missing}

## How to reproduce

```
./dev bench cpu --json {file.name}     # installs the other libraries, and measures
./dev docs build --bench {file.name}   # makes this page
```
"""


def _summary(results: Results) -> str:
    """Return a table of each library's times as multiples of ours: the geometric mean."""
    rows = []
    for peer in results.backends:
        ratios = [
            cells[peer]["seconds"] / cells["porism"]["seconds"]
            for cells in (results.cells[workload] for workload in results.in_order())
            if peer != "porism"
            and all("seconds" in cells.get(n, {}) and cells[n]["right"] for n in (peer, "porism"))
        ]
        if ratios:
            mean = statistics.geometric_mean(ratios)
            slower = sum(ratio > 1 for ratio in ratios)
            rows.append(f"| {peer} | {mean:.2f} | {slower} of {len(ratios)} |")
    if not rows:
        return ""
    head = ["| | its time, ours being 1 (geometric mean) | workloads on which it is slower |",
            "|---|---|---|"]  # fmt: skip
    return "\n".join([*head, *rows])


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
    return _picture(LEFT + WIDE + RIGHT, y, rows)


HIGH, EDGE, BELOW = 380, 60, 44
"""Pixels of the roofline: its height, and the space for the numbers at the left and below."""


def roofline(results: Results) -> str:
    """Return the speeds of all workloads below the limits of the machine, as a picture in SVG."""
    limits = cpu_limits.together(results.limits)
    points: list[tuple[float, float, str, str]] = []  # operations a byte, a second; library, name
    for workload in results.in_order():
        named = cpu_workloads.named(workload)
        for library, cell in results.cells[workload].items():
            if "seconds" in cell and cell["right"] and named.flops:
                intensity = named.flops / (named.read + named.written)
                points.append((intensity, named.flops / cell["seconds"], library, workload))
    size = LEFT + WIDE + RIGHT
    peak = limits["peak f32"]
    low = math.floor(math.log10(min([x for x, *_ in points], default=0.1)))
    high = math.ceil(math.log10(max([x for x, *_ in points], default=100)))
    floor = math.floor(math.log10(min([y for _, y, *_ in points], default=peak / 100)))
    top = math.log10(peak) + 0.3

    def x(value: float) -> float:
        return EDGE + (math.log10(value) - low) / (high - low) * (size - EDGE - 20)

    def y(value: float) -> float:
        return HIGH - BELOW - (math.log10(value) - floor) / (top - floor) * (HIGH - BELOW - 14)

    rows = []
    for power in range(low, high + 1):
        at = x(10.0**power)
        rows.append(_line(at, 14, at, HIGH - BELOW, "#dddddd"))
        rows.append(_text(at, HIGH - BELOW + 16, f"{10.0**power:g}", "middle"))
    for power in range(floor, math.floor(top) + 1):
        at = y(10.0**power)
        rows.append(_line(EDGE, at, size - 20, at, "#dddddd"))
        rows.append(_text(EDGE - 8, at + 4, f"{10.0 ** (power - 9):g}", "end"))
    rows.append(_text((EDGE + size) / 2, HIGH - 10, "operations a byte", "middle"))
    rows.append(_text(4, 11, "GFLOP/s", "start"))
    rows.append(_line(EDGE, y(peak), size - 20, y(peak), "#222222"))
    rows.append(_text(size - 24, y(peak) - 5, f"multiply-adds {peak / 1e9:.0f} GFLOP/s", "end"))
    for level in ("L3 read", "DRAM read"):
        if level not in limits:
            continue
        begin = max(10.0**low, 10.0**floor / limits[level])
        ridge = peak / limits[level]
        rows.append(_line(x(begin), y(begin * limits[level]), x(ridge), y(peak), "#222222"))
        label = f"{level} {limits[level] / 1e9:.0f} GB/s"
        left, low_end = x(begin), y(begin * limits[level])
        angle = math.degrees(math.atan2(y(peak) - low_end, x(ridge) - left))
        shift = -5 if level == "L3 read" else 13  # above the upper line, below the lower one
        rows.append(
            f'<text transform="translate({left:.1f} {low_end:.1f}) rotate({angle:.1f})" x="12" '
            f'y="{shift}" fill="#222">{label}</text>'
        )
    for intensity, speed, library, workload in sorted(points, key=lambda p: p[2] in OURS):
        ours = library in OURS
        label = html.escape(f"{workload}, {library}: {speed / 1e9:.3g} GFLOP/s")
        rows.append(
            f'<circle cx="{x(intensity):.1f}" cy="{y(speed):.1f}" r="{5 if ours else 3}" '
            f'fill="{COLOURS.get(library, OTHER)}" fill-opacity="{0.9 if ours else 0.6}">'
            f"<title>{label}</title></circle>"
        )
    libraries = [name for name in results.backends if any(name == p[2] for p in points)]
    for k, name in enumerate(libraries):
        at = HIGH - BELOW - 12 - 15 * (len(libraries) - 1 - k)
        rows.append(
            f'<circle cx="{size - 132}" cy="{at - 4}" r="4" fill="{COLOURS.get(name, OTHER)}"/>'
        )
        rows.append(_text(size - 122, at, name, "start", bold=name in OURS))
    return _picture(size, HIGH, rows)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        'stroke-width="1.2"/>'
    )


def _picture(width: float, height: float, rows: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="11">\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
        + "\n".join(rows)
        + "\n</svg>\n"
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
    (pages / BARS).write_text(bars(results), encoding="utf-8")
    if results.limits:
        (pages / ROOF).write_text(roofline(results), encoding="utf-8")
    (pages / "benchmarks.md").write_text(page(results, file), encoding="utf-8")
