"""The solver made absent, as on a machine where z3 is not installed."""

from __future__ import annotations

import sys

import pytest


def hide_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `import z3` fail, and forget the modules of the prover that have imported it."""
    for name in [name for name in sys.modules if name.startswith("porism.prove")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "z3", None)
