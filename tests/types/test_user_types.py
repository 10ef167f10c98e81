"""mypy on code of users: typical code passes, and wrong names and arguments are refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent

WRONG: Final = {
    "porism.nope(x)": "has no attribute",
    "x.nope()": "has no attribute",
    "x.sofmax()": "has no attribute",
    "porism.zeros(2).exp(3)": "Too many arguments",
    "porism.sum(x, axis='0')": "incompatible type",
    "porism.softmax(x, nope=1)": "Unexpected keyword argument",
    "porism.ones(2, dtype=3)": "incompatible type",
    "y: str = porism.exp(x)": "Incompatible types in assignment",
    "z: int = x.shape": "Incompatible types in assignment",
    "x.dtype.nam": "has no attribute",
    "porism.float33": "has no attribute",
    "porism.exp(object())": "incompatible type",
}


def mypy(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run mypy as users do, on the installed package."""
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow  # a type checker reads the whole package
def test_typical_code_passes_and_wrong_code_is_refused(tmp_path: Path) -> None:
    done = mypy(str(HERE / "user_code.py"))
    assert done.returncode == 0, done.stdout
    lines = ["import porism", "x = porism.ones(2)", *WRONG]
    wrong = tmp_path / "wrong.py"
    wrong.write_text("\n".join(lines) + "\n")
    done = mypy(str(wrong))
    for number, (line, why) in enumerate(WRONG.items(), 3):
        found = [text for text in done.stdout.splitlines() if f"wrong.py:{number}: error" in text]
        assert any(why in text for text in found), (line, found, done.stdout)


def test_the_code_runs() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "user_code.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
