"""The source of kernels, to be read: LLVM IR, assembly and C, the same at every time."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError
from porism.base.settings import settings
from tests.backends.running import works

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
    told = capsys.readouterr().out
    assert f"  as {'LLVM IR' if kind == 'llvm' else kind.replace('c', 'C')}:\n" in told
    assert MARKS[kind] in told
    assert "writes output0 (8,) float32" in told


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
x = porism.asarray(np.ones((8, 40), np.float32))
for kernel in porism.kernels(porism.exp(x).sum(1) @ porism.asarray(np.ones((8, 3), np.float32))):
    for kind in ("llvm", "assembly", "c"):
        print(kernel.source(kind))
"""


def test_the_text_is_the_same_in_every_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert "define void @kernel0(" in found.pop()


def test_values_that_are_there_have_no_source(capsys: pytest.CaptureFixture[str]) -> None:
    porism.explain(porism.asarray([1.0]), source=True)
    assert "nothing is left to be computed" in capsys.readouterr().out
