"""What docs/onnx.md shows does what it says: the listing and the commands, on a small model."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from porism.cli import main
from tests.frontends.onnx_models import proto

PAGE = Path(__file__).resolve().parents[2] / "docs" / "onnx.md"
LISTINGS = re.findall(r"```\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)

MLP = "g (float[N, 3] x) => (float[N, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {y = MatMul(x, w)}"
IMAGE = "g (float[N, 3, H, W] x) => (float[N, 3, H, W] y) {y = Relu(x)}"


def test_the_listing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.onnx").write_bytes(proto(MLP).SerializeToString())
    names: dict[str, Any] = {}
    exec(LISTINGS[0], names)
    np.testing.assert_array_equal(names["outputs"]["y"].numpy(), [[9, 12]] * 2)
    stated = re.search(r"model\.inputs +# (.*)", LISTINGS[0])
    assert stated is not None
    assert repr(names["model"].inputs) == stated[1]


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.onnx").write_bytes(proto(IMAGE).SerializeToString())
    np.save("image.npy", np.ones((1, 3, 4, 4), np.float32))
    commands = [shlex.split(line, comments=True) for line in LISTINGS[1].splitlines()]
    assert [command[:2] for command in commands] == [["porism", w] for w in ("check", "run", "run")]
    for command in commands:
        assert main(command[1:]) == 0, command
    with np.load("outputs.npz") as saved:
        assert saved["y"].shape == (1, 3, 224, 224)
