"""The action registry: it lists every action, and everything else reads it."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import porism
import porism.optimize
from porism.base.errors import ActionError
from porism.base.target import GENERIC_CPU
from porism.ir import ops
from porism.optimize.actions.action import Action, apply_all
from porism.optimize.actions.action_registry import ACTIONS

FOLDER = Path(porism.optimize.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "actions.md"


def test_every_action_is_registered() -> None:
    for path in FOLDER.rglob("[a-z]*.py"):
        import_module("porism.optimize." + ".".join(path.relative_to(FOLDER).with_suffix("").parts))

    def subclasses(kind: Any) -> list[Any]:
        return [kind, *(s for child in kind.__subclasses__() for s in subclasses(child))]

    own = {k for k in subclasses(Action) if k.__module__.startswith("porism.optimize.")}
    assert {k for k in own if not inspect.isabstract(k)} == set(ACTIONS.values())


def test_every_action_is_public() -> None:
    assert {name: getattr(porism, name) for name in ACTIONS} == dict(ACTIONS)
    assert set(ACTIONS) <= set(dir(porism))


def test_every_action_is_documented() -> None:
    rows = re.findall(r"^\| `(\w+)\(", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(ACTIONS)


def test_names_are_listed_without_importing_actions() -> None:
    """So that `import porism` and the first use of a name stay fast."""
    code = (
        "import sys, porism; dir(porism); porism.pi;"
        "print([m for m in sys.modules if m.startswith('porism.optimize.actions.')])"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "['porism.optimize.actions.action_registry']"


def test_an_unknown_action_lists_the_registry() -> None:
    with pytest.raises(ActionError, match=r"actions are Upcast, Unroll, .*, TC"):
        apply_all(ops.SINK(), ["Upcast"], GENERIC_CPU)  # type: ignore[list-item]
