"""Pipeline figure: draws docs/figures/pipeline.svg from the stages that `porism.pipeline` lists.

    python -m tools.pipeline_figure > docs/figures/pipeline.svg

A test draws the figure again and compares, so that it stays true.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Final, Protocol

from porism import pipeline

WIDTH: Final = 960
"""Pixels of the whole figure."""
LEFT: Final = 178
"""Pixels in which the name of a row stands."""
CHARACTER: Final = 7.2
"""Pixels of a character of the text in boxes, about."""
HEIGHT: Final = 26
GAP: Final = 8
"""Pixels of a box, and between boxes."""


@dataclass(frozen=True)
class Box:
    """A stage: its name, and whether only some targets have it."""

    name: str
    is_optional: bool = False

    @property
    def width(self) -> float:
        """Pixels of the box."""
        return len(self.name) * CHARACTER + 18


@dataclass(frozen=True)
class Row:
    """What one kind of graph goes through, and in which layer that lives."""

    title: str
    layer: str
    boxes: tuple[Box, ...]


class Named(Protocol):
    """A stage of any kind."""

    @property
    def name(self) -> str: ...


def boxes(stages: Iterable[Named]) -> tuple[Box, ...]:
    """Return a box for each stage."""
    return tuple(Box(stage.name) for stage in stages)


def rows() -> tuple[Row, ...]:
    """Return the rows of the figure, from the user's tensors down to machine code."""
    target = tuple(
        Box(stage.name, stage.only is not pipeline.every_target) for stage in pipeline.TARGET_STAGES
    )
    return (
        Row("tensor graph", "tensor/", (Box("build"), Box(pipeline.DIFFERENTIATE.name),
            Box(pipeline.ERASE.name), Box(pipeline.PARAMETRIZE.name),
            Box(pipeline.PRECOMPUTE.name), *boxes(pipeline.GRAPH_STAGES), Box("rangeify"))),
        Row("graph in ranges", "schedule/", (*boxes(pipeline.RANGED_STAGES), Box("kernels"))),
        Row("kernel", "schedule/", boxes(pipeline.KERNEL_STAGES)),
        Row("kernel for a target", "optimize/, lower/", target),
        Row("instructions", "lower/", (Box("linearize"), *boxes(pipeline.INSTRUCTION_STAGES))),
        Row("machine code", "backends/", (Box("render"), Box("compile"), Box("load"))),
        Row("results", "engine/", (Box("cache"), Box("run"), Box("tune"))),
    )  # fmt: skip


def figure() -> str:
    """Return the figure as the text of an SVG file."""
    parts: list[str] = []
    y = float(GAP)
    for number, row in enumerate(rows()):
        begin = y
        x = float(LEFT)
        for box in row.boxes:
            if x + box.width > WIDTH - GAP and x > LEFT:
                x, y = float(LEFT), y + HEIGHT + GAP
            dashes = ' stroke-dasharray="4 3"' if box.is_optional else ""
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{HEIGHT}" rx="4" '
                f'fill="{FILLS[number % 2]}" stroke="#456"{dashes}/>'
                f'<text x="{x + 9:.1f}" y="{y + 17:.1f}" font-size="12">{escape(box.name)}</text>'
            )
            x += box.width + GAP
        y += HEIGHT + GAP
        parts.append(
            f'<text x="{GAP}" y="{begin + 14:.1f}" font-size="13" font-weight="bold">'
            f"{escape(row.title)}</text>"
            f'<text x="{GAP}" y="{begin + 29:.1f}" font-size="11" fill="#567">'
            f"{escape(row.layer)}</text>"
        )
        y = max(y, begin + HEIGHT + GAP) + GAP
        if number + 1 < len(rows()):
            parts.append(f'<path d="M {GAP} {y - GAP:.1f} H {WIDTH - GAP}" stroke="#ccd"/>')
    parts.append(
        f'<text x="{LEFT}" y="{y + 10:.1f}" font-size="11" fill="#567">'
        "dashed: only on targets that run blocks of threads</text>"
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 20:.0f}" '
        'font-family="ui-monospace, Menlo, monospace">'
    )
    return "\n".join(
        [head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""]
    )


FILLS: Final = ("#eef4fb", "#fbf6ea")
"""Colours of the boxes of rows, in turn."""


if __name__ == "__main__":
    print(figure(), end="")
