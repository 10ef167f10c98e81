"""The demo runs as it is, and its nets agree with NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_demo() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "porism", "demo"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        cwd=ROOT,
        env={**os.environ, "PORISM_CHECK": "0", "COLUMNS": "100"},
    )
    assert done.returncode == 0, done.stderr
    for part in ("transformer, ", "convolution net, "):
        assert part in done.stdout
    assert done.stdout.count("GFLOP/s\n") == 2
    assert done.stdout.count(" apart\n") == 2
    assert done.stdout.count("different\n") == 2
    assert "for r0 < 64:" in done.stdout
    assert done.stderr == ""
