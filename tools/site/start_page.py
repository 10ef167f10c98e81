"""The start page: README, with a program to look at, a figure, and a way on from each part."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import numpy as np

import porism
from porism.tensor.inspect.program_view import View

EXAMPLE: Final = "examples/block.html"
"""The page of a program, beside the pages of the site."""

FRAME: Final = f'<iframe class="program" src="{EXAMPLE}" title="A program as a page"></iframe>'

HEAD: Final = """---
hide:
  - navigation
  - toc
---
"""
"""The start page has no columns beside it."""

BUTTONS: Final = """
[Start the tutorial](tutorial/index.md){ .md-button .md-button--primary }
[See a program](#see-a-program){ .md-button }
[Reference](reference/index.md){ .md-button }
"""

PICTURES: Final = f"""## See a program

This is a page that `porism view` wrote, of a block of a transformer when this site was built. Click
a kernel, then *Stages* and one of the rules, or *Code*. [A program as a page](view.md) explains it,
and [here it is alone]({EXAMPLE}).

{FRAME}

## How fast it is

Each row is a workload on one machine, and each point a library: the share that it reaches of what
the processor can do at most. [Speed on the processor](performance.md) has the figures, the machine
and its limits, and how to measure them again.

![share of the roofline, by workload and backend](figures/cpu.svg)

"""


def page(readme: str) -> str:
    """Return the start page in Markdown.

    >>> page("# P\\n\\nA compiler.\\n\\nMore.\\n\\n## Two commands\\n").count("## ")
    3
    """
    first, rest = re.split(r"^(?=## )", readme, maxsplit=1, flags=re.M)
    title, lead, *others = first.split("\n\n")
    lead = f"{lead}\n{{ .lead }}"
    text = "\n\n".join([title, lead, BUTTONS.strip(), *others]).rstrip()
    return f"{HEAD}{text}\n\n{PICTURES}{rest}"


class Block(porism.nn.Module):
    """A block of a transformer, small enough to be compiled while a site is built."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before = porism.nn.LayerNorm(width)
        self.queries, self.keys, self.values = (porism.nn.Linear(width, width) for _ in range(3))
        self.output = porism.nn.Linear(width, width)
        self.after = porism.nn.LayerNorm(width)
        self.wider = porism.nn.Linear(width, 4 * width)
        self.narrower = porism.nn.Linear(4 * width, width)

    def forward(self, x: porism.Tensor) -> porism.Tensor:
        """Return the sum of `x`, attention, and two layers."""
        x = x + self.attention(self.before(x))
        hidden = self.wider(self.after(x)).gelu()
        result: porism.Tensor = x + self.narrower(hidden)
        return result

    def attention(self, x: porism.Tensor) -> porism.Tensor:
        """Return what each row attends to."""
        rows, width = x.shape
        split = (rows, self.heads, width // self.heads)
        q, k, v = (
            part(x).reshape(split).permute(1, 0, 2)
            for part in (self.queries, self.keys, self.values)
        )
        weights = (q @ k.permute(0, 2, 1) * split[2] ** -0.5).softmax()
        result: porism.Tensor = self.output((weights @ v).permute(1, 0, 2).reshape(rows, width))
        return result


def example() -> View:
    """Return a view of a block of a transformer."""
    x = porism.asarray(np.random.default_rng(0).normal(size=(128, 192)).astype(np.float32))
    return porism.view(Block(192, 6), arguments=[x])


def write(readme: Path, pages: Path) -> None:
    """Write the start page, and the page of a program that it shows."""
    (pages / "index.md").write_text(page(readme.read_text(encoding="utf-8")), encoding="utf-8")
    file = pages / EXAMPLE
    file.parent.mkdir(exist_ok=True)
    example().save(file)
    view = pages / "view.md"
    text = view.read_text(encoding="utf-8")
    heading = "## What it shows\n"
    assert heading in text, "docs/view.md has changed"
    view.write_text(text.replace(heading, f"{heading}\n{FRAME}\n"), encoding="utf-8")
