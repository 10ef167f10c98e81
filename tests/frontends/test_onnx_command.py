"""The commands `porism run` and `porism check`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from porism.cli import main
from tests.frontends.onnx_models import proto

TEXT = """g (float[N, 3] x, int64 k) => (float[N, 3] y)
{ f = Cast<to = 1>(k) h = Mul(x, f) y = Celu(h) }"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "small.onnx"
    file.write_bytes(proto(TEXT).SerializeToString())
    return file


def test_run_prints_outputs_and_saves_them(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    saved = tmp_path / "out.npz"
    words = ["--input", f"x={tmp_path / 'x.npy'}", "--input", "k=2", "--save", str(saved)]
    assert main(["run", str(path), *words, "--repeat", "1"]) == 0
    shown = capsys.readouterr().out
    assert "input   x: float32 (2, 3)" in shown
    assert "output  y: float32 (2, 3), from 0 to 10, mean 5" in shown
    assert "ms a call" in shown
    assert np.load(saved)["y"].tolist() == (2 * x).tolist()


def test_run_makes_inputs_up(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(path), "--shape", "x=4,3", "--input", "x=zeros", "--repeat", "0"]) == 0
    assert "output  y: float32 (4, 3), from 0 to 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--input", "z=zeros"], "--input z=zeros"),
        (["--input", "x=none.npy"], "cannot read none.npy for the input 'x'"),
        (["--shape", "x=2,b"], "--shape 2,b"),
        (["--shape", "x=2,4"], "the input 'x' has the shape (2, 4)"),
    ],
)
def test_run_says_what_is_wrong(
    path: Path, words: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(path), *words]) == 2
    assert f"porism: error: {what}\n" in capsys.readouterr().err


def test_check_lists_operators_and_costs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(path), "--shape", "x=2,3"]) == 0
    shown = capsys.readouterr().out
    assert "small.onnx: 3 nodes, operators of ai.onnx 21" in shown
    assert "input   x: float32 (N, 3)" in shown
    assert "built in: Cast 1, Mul 1, Celu 1" in shown
    assert "a call with x (2, 3), k (): 1 kernels" in shown


def test_check_names_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "odd.onnx"
    text = "g (float[2] x) => (float[2] y) { h = Relu(x) y = other.Op(h) }"
    file.write_bytes(proto(text, other=1).SerializeToString())
    assert main(["check", str(file)]) == 1
    assert "missing: other.Op 1" in capsys.readouterr().out
