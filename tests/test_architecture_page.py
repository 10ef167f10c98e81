"""The page about the architecture shows what the compiler does, and its figure every stage."""

from __future__ import annotations

import re
from pathlib import Path

import llvmlite

from tools import pipeline_figure, walkthrough

ROOT = Path(__file__).resolve().parents[1]
ASSEMBLY = re.compile(r"<!-- output: assembly -->.*?^```$", re.S | re.M)


def pinned_llvmlite() -> str:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    (version,) = re.findall(r"^llvmlite==(\S+)$", text, re.M)
    return str(version)


def test_the_page_is_in_step_with_the_compiler() -> None:
    """Run `python -m tools.walkthrough` where it is not."""
    page = walkthrough.PAGE.read_text(encoding="utf-8")
    new = walkthrough.filled(page)
    assert "vfmadd" in walkthrough.outputs()["assembly"]
    if llvmlite.__version__ != pinned_llvmlite():  # another LLVM writes other assembly
        page, new = ASSEMBLY.sub("", page), ASSEMBLY.sub("", new)
    assert new == page


def test_what_is_long_is_cut() -> None:
    text = walkthrough.shortened("\n".join(["x" * 200] * 100))
    assert max(map(len, text.split("\n"))) == walkthrough.WIDEST
    assert "… 66 lines …" in text


def test_the_figure_is_in_step_with_the_pipeline() -> None:
    """Run `python -m tools.pipeline_figure > docs/figures/pipeline.svg` where it is not."""
    figure = (ROOT / "docs" / "figures" / "pipeline.svg").read_text(encoding="utf-8")
    assert figure == pipeline_figure.figure()
