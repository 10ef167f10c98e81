"""Suites: test cases of other projects, run by `./dev suite NAME`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Mapping


def install(needed: Mapping[str, str]) -> None:
    """Install the packages of the modules that are not there; `needed` has them by module."""
    missing = [needed[name] for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        command = [sys.executable, "-m", "pip", "install", "-q", "-c", "constraints.txt", *missing]
        subprocess.run(command, check=True)
