"""Explain: the source of kernels (LLVM IR, assembly, C), and the diff of each stage."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import porism
from porism import pipeline
from porism.backends.backend_table import native_backend
from porism.base.dtypes import f32
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.ir import ops
from porism.ir.node import UOp
from porism.lower.linearize import linearize
from porism.viewer.stage_diffs import InstructionListing, diff
from tests.backends.running import works
from tests.patience import PATIENCE

NEEDS_C = pytest.mark.skipif(not works("c"), reason="there is no C compiler")

MARKS = {"llvm": "define void @kernel0(", "assembly": "kernel0:", "c": "void kernel0("}


def tensor() -> Any:
    return porism.exp(porism.asarray(np.ones((8, 40), np.float32))).sum(1)


@pytest.mark.parametrize("kind", MARKS)
def test_kinds(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    (kernel,) = porism.kernels(tensor())
    text = kernel.source(kind)
    assert MARKS[kind] in text
    porism.explain(tensor(), source=kind)
    printed = capsys.readouterr().out
    assert f"  as {'LLVM IR' if kind == 'llvm' else kind.replace('c', 'C')}:\n" in printed
    assert MARKS[kind] in printed
    assert "writes output0 (8,) float32" in printed


def test_by_default_what_the_backend_compiles(capsys: pytest.CaptureFixture[str]) -> None:
    (kernel,) = porism.kernels(tensor())
    assert kernel.source() == kernel.source("llvm")
    for backend, kind in (("c", "c"), ("reference", "llvm")):
        with settings.override(backend=backend):
            assert MARKS[kind] in kernel.source(True)
    porism.explain(tensor())
    assert "define" not in capsys.readouterr().out


@NEEDS_C
def test_assembly_is_that_of_the_backend() -> None:
    (kernel,) = porism.kernels(tensor())
    with settings.override(backend="c"):
        by_compiler = kernel.source("assembly")
    assert "kernel0:" in by_compiler
    assert by_compiler != kernel.source("assembly")


def test_c_can_be_read_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "there-is-no-such-compiler")
    (kernel,) = porism.kernels(tensor())
    assert "void kernel0(" in kernel.source("c")


@pytest.mark.parametrize("kind", ["ptx", "", "LLVM"])
def test_an_unknown_kind(kind: str) -> None:
    with pytest.raises(PorismError) as caught:
        porism.explain(tensor(), source=kind)
    assert caught.value.what == f"there is no source of the kind {kind!r}"
    assert caught.value.why == "a kernel can be read as llvm, assembly, c"
    assert caught.value.fix


PROGRAM = """
import numpy as np
import porism
from porism import pipeline
x = porism.asarray(np.ones((8, 40), np.float32))
for kernel in porism.kernels(porism.exp(x).sum(1) @ porism.asarray(np.ones((8, 3), np.float32))):
    for kind in ("llvm", "assembly", "c"):
        print(kernel.source(kind))
"""


@pytest.mark.slow
def test_the_text_is_the_same_in_every_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert "define void @kernel0(" in outputs.pop()


def test_values_that_are_there_have_no_source(capsys: pytest.CaptureFixture[str]) -> None:
    porism.explain(porism.asarray([1.0]), source=True)
    assert "nothing is left to be computed" in capsys.readouterr().out


# -- stages ----------------------------------------------------------------------------------------


def blocks_of(text: str) -> dict[str, list[str]]:
    """Return the lines below each heading `after NAME: …` of the stages, without their indent."""
    blocks: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("after "):
            lines = blocks[line[len("after ") : line.index(":")]] = []
        elif line.startswith("    "):
            lines.append(line[4:])
        else:
            lines = []
    return blocks


def test_stages_of_a_softmax(capsys: pytest.CaptureFixture[str]) -> None:
    x = porism.asarray(np.ones((8, 40), np.float32))
    (kernel,) = porism.kernels(porism.softmax(x, axis=1))
    porism.explain(porism.softmax(x, axis=1), stages=True)
    text = capsys.readouterr().out
    blocks = blocks_of(text)
    (unchanged,) = [line for line in text.splitlines() if line.startswith("unchanged by: early")]
    names = unchanged.removeprefix("unchanged by: ").split(", ")
    assert "early movement" in names
    assert not set(names) & set(blocks)
    target = native_backend().target()
    every = [stage.name for stage in (*pipeline.KERNEL_STAGES, *pipeline.INSTRUCTION_STAGES)]
    every += [stage.name for stage in pipeline.TARGET_STAGES if stage.only(target)]
    assert sorted([*names, *blocks]) == sorted(
        [*every, "build", "rangeify", "kernels", "linearize"]
    )

    # The first text of a kernel is whole; applying the diffs of the loop schedule gives the loops
    # that are compiled.
    assert blocks["kernels"] == kernel.text.splitlines()
    scheduling = next(name for name in blocks if name not in ("build", "rangeify", "kernels"))
    removed = [line[2:] for line in blocks[scheduling] if line.startswith("- ")]
    added = [line[2:] for line in blocks[scheduling] if line.startswith("+ ")]
    assert removed
    assert set(removed) <= set(kernel.text.splitlines())
    assert set(added) <= set(kernel.scheduled.splitlines())
    assert set(kernel.scheduled.splitlines()) <= {*added, *kernel.text.splitlines()}

    instructions = blocks["linearize"]
    assert "for r0 < 8:" in instructions
    assert any(line.startswith("    v0: ") for line in instructions)
    assert any(line.startswith("    output0[") for line in instructions)


def test_a_diff_leaves_unchanged_lines_out() -> None:
    before = ["a", "b", "c", "d", "e", "f", "g", "h"]
    after = ["a", "B", "c", "d", "e", "f", "G", "h"]
    wanted = ["  a", "- b", "+ B", "  c", "  …", "  f", "- g", "+ G", "  h"]
    assert diff(before, after) == wanted
    assert diff(["a"], ["b", "c"]) == ["b", "c"]


def test_instructions_of_loads_and_stores() -> None:
    loop = UOp.range(8, 0)
    target, source = (UOp(ops.PARAM, f32.pointer(size=8), (), number) for number in (0, 1))
    copy = target.index(loop).store(source.index(loop) + 1.0).end(loop)
    lines = InstructionListing({0: "y", 1: "x"}).run(linearize(ops.SINK(copy)))
    assert lines == [
        "for r0 < 8:",
        "    v0: f32 = x[r0]",
        "    v1: f32 = v0 + 1.0",
        "    y[r0] = v1",
    ]
