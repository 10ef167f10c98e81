"""Walkthrough: fills the outputs of docs/architecture.md, where one softmax is followed down.

    python -m tools.walkthrough          write the page
    python -m tools.walkthrough --check  exit with 1 if the page is not in step

The target is described here, and is not the machine that this runs on, so that the page is the same
everywhere.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import llvmlite.binding as llvm
import numpy as np

import porism
from porism.backends.backend_table import BACKENDS
from porism.backends.llvm import host_target
from porism.base.settings import settings
from porism.base.target import GENERIC_CPU, Memory, Target
from porism.engine.run.realize import request
from porism.pipeline import lower_kernel
from porism.viewer.stage_diffs import stage_report

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"
WIDEST: Final = 98
"""Columns of a line of output; what is beyond is cut off."""
MOST_LINES: Final = 34
"""Lines of one output; those in the middle are left out."""

AVX2: Final = dataclasses.replace(
    GENERIC_CPU,
    name="avx2",
    ops=GENERIC_CPU.ops | {"MAX", "MIN", "RECIPROCAL", "TRUNC", "FLOOR", "CEIL", "ROUND", "MULACC"},
    vector_bits=(128, 256),
    memory=Memory(l1=32 << 10, l2=1 << 20, l3=32 << 20, registers=16),
    cores=4,
)
"""A processor with 256-bit vectors and fused multiply-add."""


@contextmanager
def compiling_for(target: Target) -> Iterator[None]:
    """Let the backend of LLVM see a target that is not this machine."""
    own = host_target.host_target
    host_target.host_target = lambda: target
    try:
        with settings.override(backend="llvm", cache=False):
            yield
    finally:
        host_target.host_target = own


def outputs() -> dict[str, str]:
    """Return the output of each part of the page by its name."""
    x = porism.asarray(np.zeros((8, 64), np.float32))
    y = porism.softmax(x, axis=1)
    with compiling_for(AVX2):
        report = "\n".join(stage_report(request([y.node]).graph))
        (kernel,) = porism.kernels(y)
        instructions = lower_kernel(kernel.node, AVX2)
        parts = _by_stage(report)
        parts["kernel"] = str(kernel)
        parts["llvm"] = BACKENDS["llvm"].source(instructions, "softmax")  # type: ignore[misc]
        parts["assembly"] = _assembly(parts["llvm"])
        parts["c"] = BACKENDS["c"].source(instructions, "softmax")  # type: ignore[misc]
    return parts


def _assembly(text: str) -> str:
    """Return the loop with the exponentials and the rest, as assembly for a CPU with AVX2."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu="x86-64-v3", opt=3)
    module = llvm.parse_assembly(re.sub(r"#0\b", "", text))
    lines = machine.emit_assembly(module).split("\n")
    kept = [x.expandtabs(4) for x in lines if not re.match(r"\s*\.(?!LBB)|^\s*#", x)]
    labels = [k for k, line in enumerate(kept) if line.startswith(".LBB")]
    exponentials = next(k for k, line in enumerate(kept) if "vfmadd" in line)
    return "\n".join(kept[max(k for k in labels if k < exponentials) :])


def _by_stage(report: str) -> dict[str, str]:
    """Return the part of a stage report that is about each stage, without its heading."""
    parts: dict[str, str] = {}
    name = ""
    for line in report.split("\n"):
        heading = re.match(r"after ([a-z ]+):", line)
        if heading:
            name = heading.group(1)
            parts[name] = ""
        elif name and line.startswith("    "):
            parts[name] += line[4:] + "\n"
        else:
            name = ""
    return parts


def shortened(text: str) -> str:
    """Return an output with long lines cut off, and without the middle of many lines."""
    lines = [x if len(x) <= WIDEST else x[: WIDEST - 1] + "…" for x in text.rstrip().split("\n")]
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        left_out = len(lines) - 2 * half
        lines = [*lines[:half], f"… {left_out} lines …", *lines[-half:]]
    return "\n".join(lines)


def filled(page: str) -> str:
    """Return the page with the output of every marked block made anew."""
    parts = outputs()

    def output(match: re.Match[str]) -> str:
        return f"{match[1]}{shortened(parts[match[2]])}\n```"

    marked = r"(<!-- output: ([a-z ]+) -->\n```\w*\n).*?^```$"
    return re.sub(marked, output, page, flags=re.S | re.M)


def main() -> int:
    """Write the page, or say whether it is in step."""
    parser = argparse.ArgumentParser(prog="python -m tools.walkthrough")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    new = filled(page)
    if options.check:
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
